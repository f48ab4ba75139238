//! Buffers that change hands while a hostcall reads or writes them, where each instance has a key of its own: the libos, which
//! has all keys, reads and writes them for their owner only.

use crate::harness::{self, image};
use crate::support::{document, is_refused};

/// Rounds, calls and ways: few, because copies are slow on the processor that has keys. `e2e_handover` has all of them.
const ROUNDS: u32 = 2;
const PAIRS: [(&str, &str); 3] = [("read", "publish"), ("write", "publish"), ("read", "free")];

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_buffer_in_use_does_not_change_hands() {
    let image = image("attacks");
    let image = image.to_str().expect("a path in UTF-8");
    for (call, way) in PAIRS {
        let ran = harness::run(&document(image, call, way, ROUNDS), None);
        ran.is_done(&format!("{call}, {way}"));
        assert_eq!(ran.report["isolation"], "mpk");
        is_refused(call, way, &ran.printed("giver"), &ran.printed("taker"));
    }
}
