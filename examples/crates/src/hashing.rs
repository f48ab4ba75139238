//! sha2; blake3; crc32fast. Their SIMD versions are chosen at run time by asking the processor.

use crate::hex;
use sha2::{Digest, Sha256, Sha512};

pub(crate) fn show() {
    println!("sha2.256 {}", hex(Sha256::digest("abc")));
    println!("sha2.512 {}", &hex(Sha512::digest("abc"))[..32]);
    let mut million = Sha256::new();
    (0..1000).for_each(|_| million.update([b'a'; 1000]));
    println!("sha2.million {}", hex(million.finalize()));
    println!("blake3 {}", blake3::hash(b""));
    println!("blake3.abc {}", blake3::hash(b"abc"));
    let mut parts = blake3::Hasher::new();
    parts.update(b"a").update(b"bc");
    println!("blake3.parts {}", parts.finalize() == blake3::hash(b"abc"));
    println!("crc32fast {:08x}", crc32fast::hash(b"123456789"));
}
