//! The cipher, and where something that it has encrypted belongs.

use chacha20poly1305::{AeadInPlace, KeyInit, Tag, XChaCha20Poly1305, XNonce};
use std::io;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a nonce, which is before each value: random, and long enough that none comes twice.
pub(crate) const NONCE: usize = 24;
/// Bytes of what authenticates a value, which is behind it.
pub(crate) const TAG: usize = 16;
/// How much longer an encrypted value is.
pub const MORE_BYTES: usize = NONCE + TAG;

/// Where something is kept that is encrypted: it can be decrypted there, and nowhere else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place<'p> {
    /// What it is.
    pub kind: &'p str,
    /// Which of its kind.
    pub name: &'p str,
}

impl Place<'_> {
    /// Different places are different bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let length = (self.kind.len() as u64).to_le_bytes();
        [&length, self.kind.as_bytes(), self.name.as_bytes()].concat()
    }
}

/// Something cannot be decrypted.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum Error {
    #[error("it is not encrypted")]
    NotEncrypted,
    #[error("it was changed or cut off after it was encrypted, or belongs to another place")]
    Changed,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Whether the host is at fault, and not what was read.
    pub fn is_hosts(&self) -> bool {
        matches!(self, Error::Io(_))
    }
}

pub(crate) fn cipher(key: &[u8; KEY_BYTES]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.into())
}

/// Encrypts a part in its place. The pair of key and nonce is used once.
pub(crate) fn seal_part(cipher: &XChaCha20Poly1305, nonce: &[u8; NONCE], about: &[u8], part: &mut [u8]) -> [u8; TAG] {
    let sealed = cipher.encrypt_in_place_detached(XNonce::from_slice(nonce), about, part);
    sealed.unwrap_or_else(|_| unreachable!("256 GiB are not encrypted at once")).into()
}

/// Decrypts a part in its place, unless it was changed.
pub(crate) fn open_part(
    cipher: &XChaCha20Poly1305,
    nonce: &[u8; NONCE],
    about: &[u8],
    part: &mut [u8],
    tag: &[u8; TAG],
) -> Result<(), Error> {
    let opened = cipher.decrypt_in_place_detached(XNonce::from_slice(nonce), about, part, Tag::from_slice(tag));
    opened.map_err(|_| Error::Changed)
}
