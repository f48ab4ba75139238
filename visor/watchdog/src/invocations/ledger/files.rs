//! The files of a ledger, which its rows name by hashes: what functions, inputs and outputs are made of.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use monohull_domain::image::map::LoadedImage;
use monohull_durable::{Adding, Output, OutputAt, Store};
use monohull_report::escape::shown;
use monohull_worker::Data;
use sha2::{Digest, Sha256};

use super::{Ledger, kept};
use crate::http::content::Content;
use crate::http::error::ApiError;

/// Bytes of a file from its beginning, wherever its own position is: others may read the same file.
struct Whole<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl Read for Whole<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(to.len());
        let read = self.file.read_at(&mut to[..len], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Ledger {
    /// Begins to add files that a row will name.
    pub(crate) fn adding(&self) -> Result<Adding, ApiError> {
        self.store.adding().map_err(kept)
    }

    /// Adds bytes of code as a file, and gives its hash.
    pub(crate) fn add_bytes(&self, adding: &Adding, mut bytes: &[u8]) -> Result<[u8; 32], ApiError> {
        let hash = Sha256::digest(bytes).into();
        if self.has_whole(&hash, |store| store.check_code(&hash)) {
            return Ok(hash);
        }
        self.store.add_file(adding, &mut bytes).map_err(kept)
    }

    /// The same with what an invocation was given or has made, which is encrypted if there is a key.
    fn add_small(&self, adding: &Adding, mut bytes: &[u8]) -> Result<[u8; 32], ApiError> {
        let hash = self.store.hash_of_data(Sha256::digest(bytes).into()).map_err(kept)?;
        if self.has_whole(&hash, |store| store.check_data(&hash)) {
            return Ok(hash);
        }
        self.store.add_data(adding, &mut bytes).map_err(kept)
    }

    /// The same with what fills an input slot.
    pub(crate) fn add_data(&self, adding: &Adding, data: &Data) -> Result<[u8; 32], ApiError> {
        match data {
            Data::Bytes(bytes) => self.add_small(adding, bytes),
            Data::File(file) => {
                let unreadable = |error: io::Error| ApiError::host(format!("an input cannot be read: {error}"));
                let file = File::from(file.try_clone().map_err(unreadable)?);
                let end = file.metadata().map_err(unreadable)?.len();
                self.store.add_data(adding, &mut Whole { file: &file, at: 0, end }).map_err(kept)
            }
        }
    }

    /// The same with an output.
    pub(crate) fn add_content(&self, adding: &Adding, content: &Content) -> Result<[u8; 32], ApiError> {
        match content {
            Content::Small(bytes) => self.add_small(adding, bytes),
            Content::Large(large) => {
                self.store.add_data(adding, &mut Whole { file: &large.file, at: 0, end: large.len }).map_err(kept)
            }
        }
    }

    /// The same with an image, which is there as a rule.
    pub(crate) fn add_image(&self, adding: &Adding, image: &LoadedImage) -> Result<[u8; 32], ApiError> {
        let hash = image.hash().map_err(|error| ApiError::host(error.to_string()))?;
        if !self.has_whole(&hash, |store| store.check_code(&hash)) {
            let unreadable = |error: io::Error| ApiError::host(format!("an image cannot be read: {error}"));
            let file = File::from(image.sealed().as_fd().try_clone_to_owned().map_err(unreadable)?);
            let mut bytes = Whole { file: &file, at: 0, end: image.image.bytes };
            self.store.add_file(adding, &mut bytes).map_err(kept)?;
        }
        Ok(hash)
    }

    /// What a file of code has that was added.
    pub(crate) fn read(&self, hash: &[u8; 32]) -> io::Result<Vec<u8>> {
        self.store.read_code(hash)
    }

    /// The content of an output: all of it as it was added, or an error that names its file.
    pub(crate) fn output(&self, output: Output) -> io::Result<Content> {
        let hash = match output.at {
            OutputAt::Row(content) => return Ok(Content::Small(content.into())),
            OutputAt::File(hash) => hash,
        };
        let path = self.store.file(&hash);
        let of_file = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", shown(&path)));
        let file = self.store.open_whole_data(&hash).map_err(of_file)?;
        let len = file.metadata().map_err(of_file)?.len();
        if len != output.bytes {
            return Err(of_file(io::Error::new(io::ErrorKind::InvalidData, "it has another length")));
        }
        Content::of_file(file, len).map_err(of_file)
    }

    /// Whether a file that is to be added is there and whole. It is not removed while something is added. All of it is compared once, and again if it has
    /// been written to since.
    fn has_whole(&self, hash: &[u8; 32], check: impl FnOnce(&Store) -> io::Result<()>) -> bool {
        let Ok(now) = State::of(&self.store.file(hash)) else { return false };
        let lock = || self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if lock().get(hash) == Some(&now) {
            return true;
        }
        // What it was before it was read.
        let is_whole = check(&self.store).is_ok();
        let mut compared = lock();
        if compared.len() >= COMPARED_MAX {
            compared.clear();
        }
        match is_whole {
            true => compared.insert(*hash, now),
            false => compared.remove(hash),
        };
        is_whole
    }
}

/// So many files are known to be whole. Then it begins anew.
const COMPARED_MAX: usize = 4096;

/// Files that were compared with their hashes, and what each was known by then.
pub(super) type Compared = Mutex<HashMap<[u8; 32], State>>;

/// What a file is known by: another one, or other bytes in it, have another time of change, which the kernel sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    file: (u64, u64),
    len: u64,
    times: [i64; 4],
}

impl State {
    fn of(path: &Path) -> io::Result<State> {
        let file = std::fs::metadata(path)?;
        let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
        Ok(State { file: (file.dev(), file.ino()), len: file.len(), times })
    }
}
