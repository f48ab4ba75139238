//! The key of a state folder, and values that it encrypts.

use crate::cipher::{Error, KEY_BYTES, MORE_BYTES, NONCE, Place, cipher, open_part, seal_part};
use crate::stream::{self, Encrypting};
use hmac::{Hmac, Mac};
use nix::sys::memfd::{MFdFlags, memfd_create};
use sha2::Sha256;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use zeroize::Zeroizing;

/// What a data key is wrapped for.
const WRAPPED: Place<'_> = Place { kind: "state key", name: "" };

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
