//! The keys of a checkpoint's file: the one that says whose it is, and that of a state folder, which keeps others from reading it.
//!
//! The seal is inside: what is encrypted is a whole sealed checkpoint. It is written and read in memory.

use monohull_checkpoint::{Key, ReadAt};
use monohull_state_key::{Error, Place, StateKey, is_encrypted};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io;

/// A checkpoint, as a kind of what is encrypted.
const CHECKPOINT: &str = "checkpoint";

/// What seals a file, and what encrypts it if it is in a state folder that has a key.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'k> {
    /// Seals it.
    pub seal: &'k Key,
    /// Encrypts it.
    pub state: Option<&'k StateKey>,
}

impl<'k> From<&'k Key> for Keys<'k> {
    fn from(seal: &'k Key) -> Keys<'k> {
        Keys { seal, state: None }
    }
}

/// A checkpoint's file, or what was in an encrypted one.
#[derive(Debug)]
pub enum Source {
    /// A file that is not encrypted.
    File(File),
    /// What was in one that is.
    Plain(Vec<u8>),
}

impl Source {
    /// What is in a checkpoint's file of this name: one of a state folder with this key, or one that is not encrypted.
    pub fn new(mut file: File, name: &str, key: Option<&StateKey>) -> Result<Source, Error> {
        let Some(key) = key else { return Ok(Source::File(file)) };
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let mut plain = Vec::with_capacity(length);
        key.decrypt_file(Place { kind: CHECKPOINT, name }, &mut file, &mut plain)?;
        Ok(Source::Plain(plain))
    }
}

/// Whether a file is one of an encrypted state folder. One that cannot be read is none: the next to read it says why.
pub fn begins_encrypted(file: &File) -> bool {
    let mut head = [0; 8];
    ReadAt::read_exact_at(file, &mut head, 0).is_ok() && is_encrypted(&head)
}

impl ReadAt for Source {
    fn length(&self) -> io::Result<u64> {
        match self {
            Source::File(file) => file.length(),
            Source::Plain(bytes) => (&bytes[..]).length(),
        }
    }

    fn stored(&self) -> io::Result<u64> {
        match self {
            Source::File(file) => ReadAt::stored(file),
            Source::Plain(bytes) => (&bytes[..]).stored(),
        }
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Source::File(file) => ReadAt::read_exact_at(file, buffer, offset),
            Source::Plain(bytes) => (&bytes[..]).read_exact_at(buffer, offset),
        }
    }
}

impl Keys<'_> {
    /// What is in a file of this name.
    pub(super) fn source(&self, file: File, name: &str) -> Result<Source, Error> {
        Source::new(file, name, self.state)
    }

    /// A file in memory for what is to be encrypted, if it is.
    pub(super) fn plain_file(&self) -> io::Result<Option<File>> {
        let make = |_| Ok(File::from(memfd_create(c"monohull-checkpoint", MFdFlags::MFD_CLOEXEC)?));
        self.state.map(make).transpose()
    }

    /// Encrypts it into a file that is to have this name.
    pub(super) fn encrypt(&self, plain: &File, to: &File, name: &str) -> io::Result<()> {
        let Some(key) = self.state else { return Ok(()) };
        let mut from = plain;
        io::Seek::rewind(&mut from)?;
        let mut to = key.encrypting(to)?;
        io::copy(&mut from, &mut to)?;
        to.finish(Place { kind: CHECKPOINT, name }).map(drop)
    }
}

/// As an error of a file that another one needs: one that was changed is [`io::ErrorKind::InvalidData`].
pub fn as_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}
