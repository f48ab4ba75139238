//! Published crates inside a function, against what is known from elsewhere: test vectors of standards, results of
//! other implementations, arithmetic done by hand.

use crate::harness::{Workflow, printed};

/// What the function must print.
const KNOWN: &str = r#"base64 Zm9vYmFy
base64.url -__-
base64.decoded Ok(Ok("foob"))
base64.refused true
chacha20poly1305.tag 1ae10b594f09e26a7e902ecbd0600691
chacha20poly1305.opened true
chacha20poly1305.forged false
rand_chacha 76b8e0ada0f13d90405d6ae55386bd28
miniz_oxide.inflated Ok(Ok("hull after hull after hull"))
miniz_oxide.smaller true
miniz_oxide.back true
miniz_oxide.refused true
lz4_flex Ok(Ok("aaaaaaaaaaaaaahulls"))
lz4_flex.back true
lz4_flex.length a0860100
sha2.256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
sha2.512 ddaf35a193617abacc417349ae204131
sha2.million cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0
blake3 af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262
blake3.abc 6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85
blake3.parts true
crc32fast cbf43926
num-bigint 265252859812191058636308480000000
num-bigint.power 1267650600228229401496703205376
num-bigint.modular 9
num-bigint.parsed Ok(97)
glam.determinant 25
glam.inverse true
glam.cross [0, 0, 1]
glam.turned true
chrono.leap_year Some(2024-03-01)
chrono.epoch Some("2001-09-09T01:46:40+00:00")
chrono.week Some(2025-12-29)
chrono.refused true
uuid.version Some(Random)
uuid.different true
rand.dice true
rand.source true
ahash.seeds_differ true
random.filled true
random.detects true
serde_json {"name":"Fram","year":1892,"masts":[27.5,40.0],"flag":{"Signal":{"letters":"é"}}}
serde_json.back true
serde_json.refused invalid value: integer `70000`, expected u16 at line 1 column 27
postcard 044672616de40e020000dc4100002042010102c3a9
postcard.back true
postcard.refused true
ciborium 8465506c61696ef93e00617a813901f3
ciborium.back Ok((Plain, 1.5, "z", [-500]))
indexmap {"a": 10, "b": 2}
regex ["1892-10-26", "1929-05-03"]
regex.replaced launched 26.10.1892, sold 03.05.1929; not 92-1-1
regex.unicode Ok(true)
regex.refused [true, true]
regex.linear Ok(false)
nom Ok(("", 12))
nom.refused true
unicode-segmentation [3, 8, 1]
unicode-segmentation.words ["It's", "3.5", "m"]"#;

#[test]
fn published_crates_give_known_answers() {
    let ran = Workflow::shipped("crates").run(None, None);
    assert_eq!(ran.code, 0, "{:#}", ran.report);
    assert_eq!(printed(&ran), KNOWN.lines().collect::<Vec<_>>());
}
