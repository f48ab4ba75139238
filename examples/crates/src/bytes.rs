//! base64; chacha20poly1305; rand_chacha.

use crate::hex;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The example of RFC 8439, section 2.8.2.
const SUNSCREEN: &[u8] =
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
    sunscreen would be it.";

pub(crate) fn show() {
    println!("base64 {}", BASE64_STANDARD.encode("foobar"));
    println!("base64.url {}", BASE64_URL_SAFE_NO_PAD.encode([0xfb, 0xff, 0xfe]));
    println!("base64.decoded {:?}", BASE64_STANDARD.decode("Zm9vYg==").map(String::from_utf8));
    println!("base64.refused {}", BASE64_STANDARD.decode("Zm9!").is_err());

    let key: Vec<u8> = (0x80..0xa0).collect();
    let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
    let aad = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
    let (cipher, nonce) = (ChaCha20Poly1305::new(Key::from_slice(&key)), Nonce::from_slice(&nonce));
    let sealed = cipher.encrypt(nonce, Payload { msg: SUNSCREEN, aad: &aad }).expect("a short text");
    println!("chacha20poly1305.tag {}", hex(&sealed[SUNSCREEN.len()..]));
    let opened = cipher.decrypt(nonce, Payload { msg: &sealed, aad: &aad });
    println!("chacha20poly1305.opened {}", opened.is_ok_and(|opened| opened == SUNSCREEN));
    println!("chacha20poly1305.forged {}", cipher.decrypt(nonce, Payload { msg: &sealed, aad: b"" }).is_ok());

    // The key stream of RFC 7539, appendix A.1, test vector 1: all zeros.
    let mut stream = [0; 16];
    ChaCha20Rng::from_seed([0; 32]).fill_bytes(&mut stream);
    println!("rand_chacha {}", hex(stream));
}
