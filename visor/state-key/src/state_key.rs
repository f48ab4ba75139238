//! The key of a state folder, and values that it encrypts.

use crate::key_file::KEY_BYTES;
use crate::stream::{self, Encrypting};
use chacha20poly1305::{AeadInPlace, KeyInit, Tag, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use nix::sys::memfd::{MFdFlags, memfd_create};
use sha2::Sha256;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use zeroize::Zeroizing;

/// Bytes of a nonce, which is before each value: random, and long enough that none comes twice.
pub(crate) const NONCE: usize = 24;
/// Bytes of what authenticates a value, which is behind it.
pub(crate) const TAG: usize = 16;
/// How much longer an encrypted value is.
pub const MORE_BYTES: usize = NONCE + TAG;

/// What a data key is wrapped for.
const WRAPPED: Place<'_> = Place { kind: "state key", name: "" };

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

/// The key of a state folder cannot be had.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum StateKeyError {
    #[error("the key does not fit")]
    Wrong,
    #[error("a key cannot be made or kept: {0}")]
    Io(#[from] io::Error),
}

/// Encrypts and decrypts what is in one state folder.
///
/// Its bytes are in a memory file, and in memory only while something is encrypted: a process that is forked has the memory of this one, but closes
/// its files.
#[derive(Debug)]
pub struct StateKey {
    memory: File,
}

/// What a state folder keeps wrapped.
pub(crate) struct DataKey(Zeroizing<[u8; KEY_BYTES]>);

impl DataKey {
    pub(crate) fn random() -> io::Result<DataKey> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *bytes)?;
        Ok(DataKey(bytes))
    }

    pub(crate) fn open(&self) -> Result<StateKey, StateKeyError> {
        let memory = File::from(memfd_create(c"monohull-key", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from)?);
        for (index, what) in (0..).zip(["encryption", "names"]) {
            memory.write_all_at(&*derive(&self.0, what), index * KEY_BYTES as u64)?;
        }
        Ok(StateKey { memory })
    }

    pub(crate) fn wrap(&self, with: &[u8; KEY_BYTES]) -> Result<Vec<u8>, StateKeyError> {
        Ok(encrypt(&derive(with, "wrap"), WRAPPED, &*self.0)?)
    }

    pub(crate) fn unwrap(with: &[u8; KEY_BYTES], wrapped: &[u8]) -> Result<DataKey, StateKeyError> {
        let bytes = decrypt(&derive(with, "wrap"), WRAPPED, wrapped).map_err(|_| StateKeyError::Wrong)?;
        let bytes = Zeroizing::new(bytes);
        Ok(DataKey(Zeroizing::new(bytes[..].try_into().map_err(|_| StateKeyError::Wrong)?)))
    }
}

/// A key for one purpose.
fn derive(key: &[u8; KEY_BYTES], what: &str) -> Zeroizing<[u8; KEY_BYTES]> {
    Zeroizing::new(mac(key, &[b"monohull state key 1 ", what.as_bytes()]))
}

fn mac(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).unwrap_or_else(|_| unreachable!("any length will do"));
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
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

fn encrypt(key: &[u8; KEY_BYTES], place: Place<'_>, plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce)?;
    let mut bytes = Vec::with_capacity(plain.len() + MORE_BYTES);
    bytes.extend_from_slice(&nonce);
    bytes.extend_from_slice(plain);
    let tag = seal_part(&cipher(key), &nonce, &place.bytes(), &mut bytes[NONCE..]);
    bytes.extend_from_slice(&tag);
    Ok(bytes)
}

fn decrypt(key: &[u8; KEY_BYTES], place: Place<'_>, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let (nonce, rest) = bytes.split_first_chunk().ok_or(Error::Changed)?;
    let (part, tag) = rest.split_last_chunk().ok_or(Error::Changed)?;
    let mut plain = part.to_vec();
    open_part(&cipher(key), nonce, &place.bytes(), &mut plain, tag)?;
    Ok(plain)
}

impl StateKey {
    fn read(&self, index: u64) -> io::Result<Zeroizing<[u8; KEY_BYTES]>> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        self.memory.read_exact_at(&mut *bytes, index * KEY_BYTES as u64)?;
        Ok(bytes)
    }

    /// Encrypts a value for its place.
    pub fn encrypt(&self, place: Place<'_>, plain: &[u8]) -> io::Result<Vec<u8>> {
        encrypt(&*self.read(0)?, place, plain)
    }

    /// Decrypts a value that was encrypted for this place.
    pub fn decrypt(&self, place: Place<'_>, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        decrypt(&*self.read(0)?, place, bytes)
    }

    /// A digest that says nothing to those who have not the key: the same of the same bytes of a kind.
    pub fn digest(&self, kind: &str, bytes: &[u8]) -> io::Result<[u8; 32]> {
        let place = Place { kind, name: "" };
        Ok(mac(&*self.read(1)?, &[&place.bytes(), bytes]))
    }

    /// Encrypts what is written to it, as a file.
    pub fn encrypting<W: Write>(&self, to: W) -> io::Result<Encrypting<W>> {
        Encrypting::new(cipher(&*self.read(0)?), to)
    }

    /// Decrypts a file that was encrypted for this place. What is written to `to` before an error counts for nothing.
    pub fn decrypt_file(&self, place: Place<'_>, from: &mut impl Read, to: &mut impl Write) -> Result<(), Error> {
        stream::decrypt(&cipher(&*self.read(0)?), place, from, to)
    }
}
