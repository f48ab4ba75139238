//! The file of a suspended workflow: its continuation, and what is needed to find and check everything else again.
//!
//! ```text
//!   | magic, version | SHA-256 of the rest | postcard: Saved { document, settings, image hashes, inputs, …, continuation } |
//! ```
//!
//! The workflow is kept as its document and is checked again, so that a changed file gives a checked plan or none. Images are read
//! again from where the document says, and must have the hashes that they had. What the continuation says of threads and
//! memory is checked by the process that goes on with it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use monohull_report::escape::shown;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The first bytes of a file; the last one is the version.
const MAGIC: [u8; 8] = *b"MHWAIT\0\x01";
/// The most bytes that are read.
const FILE_MAX: u64 = 16 << 30;

/// A workflow that waits.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Saved {
    /// The version of Monohull that wrote it.
    pub(super) program: String,
    /// The workflow's file: relative paths in the document count from its folder.
    pub(super) file: PathBuf,
    /// The workflow document.
    #[serde(with = "serde_bytes")]
    pub(super) document: Vec<u8>,
    /// What `--set` has changed of it.
    pub(super) settings: Vec<String>,
    /// The files of outputs.
    pub(super) outputs: Vec<(String, PathBuf)>,
    /// The SHA-256 of each function's image.
    pub(super) images: Vec<[u8; 32]>,
    /// The inputs, if the workflow may be run again from its beginning.
    pub(super) inputs: Vec<(String, Vec<u8>)>,
    /// The rest of the run.
    #[serde(with = "serde_bytes")]
    pub(super) continuation: Vec<u8>,
}

/// A file cannot be gone on with.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub(super) enum FileError {
    #[error("{} cannot be read: {source}", shown(path))]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} is no checkpoint of Monohull", shown(.0))]
    Foreign(PathBuf),
    #[error(
        "{} was written by another version of Monohull, in a format that this one does not know ({})",
        shown(path),
        version
    )]
    Version { path: PathBuf, version: u8 },
    #[error("{} is damaged", shown(.0))]
    Damaged(PathBuf),
    #[error("{} cannot be written: {source}", shown(path))]
    Unwritable { path: PathBuf, source: std::io::Error },
}

impl Saved {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Saved, FileError> {
        let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
        let size = fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_MAX {
            return Err(FileError::Foreign(path.to_owned()));
        }
        let bytes = fs::read(path).map_err(unreadable)?;
        Saved::parse(&bytes, path)
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Saved, FileError> {
        let (magic, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| FileError::Foreign(path.to_owned()))?;
        if magic[..7] != MAGIC[..7] {
            return Err(FileError::Foreign(path.to_owned()));
        }
        if magic[7] != MAGIC[7] {
            return Err(FileError::Version { path: path.to_owned(), version: magic[7] });
        }
        let damaged = || FileError::Damaged(path.to_owned());
        let (digest, body) = rest.split_first_chunk::<32>().ok_or_else(damaged)?;
        if Sha256::digest(body).as_slice() != digest {
            return Err(damaged());
        }
        match postcard::take_from_bytes(body) {
            Ok((saved, [])) => Ok(saved),
            _ => Err(damaged()),
        }
    }

    /// Writes a new file into a folder and gives its path and size. It is whole and on the disk, or it is not there.
    pub(super) fn write(&self, folder: &Path, name: &str) -> Result<(PathBuf, u64), FileError> {
        let path = folder.join(format!("{name}.checkpoint"));
        let part = folder.join(format!("{name}.checkpoint.part"));
        let written = self.write_as(&part, &path, folder);
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        let size = written.map_err(|source| FileError::Unwritable { path: path.clone(), source })?;
        Ok((path, size))
    }

    fn write_as(&self, part: &Path, path: &Path, folder: &Path) -> std::io::Result<u64> {
        let body = postcard::to_extend(self, Vec::new()).map_err(std::io::Error::other)?;
        fs::create_dir_all(folder)?;
        let mut file = File::options().write(true).create_new(true).mode_owner_only().open(part)?;
        for piece in [&MAGIC[..], Sha256::digest(&body).as_slice(), &body] {
            file.write_all(piece)?;
        }
        file.sync_all()?;
        fs::rename(part, path)?;
        File::open(folder)?.sync_all()?;
        Ok((MAGIC.len() + 32 + body.len()) as u64)
    }
}

/// Files that their owner alone may read: a checkpoint has all that the functions know.
trait OwnerOnly {
    fn mode_owner_only(&mut self) -> &mut Self;
}

impl OwnerOnly for fs::OpenOptions {
    fn mode_owner_only(&mut self) -> &mut Self {
        std::os::unix::fs::OpenOptionsExt::mode(self, 0o600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        Saved {
            program: "0".to_owned(),
            file: "w.json".into(),
            document: b"{}".to_vec(),
            settings: Vec::new(),
            outputs: Vec::new(),
            images: vec![[7; 32]],
            inputs: Vec::new(),
            continuation: vec![1, 2, 3],
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_by_its_owner_alone() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (path, size) = saved().write(&folder.path().join("new"), "w-1").expect("written");
        let metadata = fs::metadata(&path).expect("it is there");
        assert_eq!(
            (metadata.len(), std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777),
            (size, 0o600)
        );
        assert_eq!(Saved::read(&path).expect("right").continuation, [1, 2, 3]);
        assert_eq!(fs::read_dir(folder.path().join("new")).expect("a folder").count(), 1, "nothing else is left");
    }

    #[test]
    fn changed_shortened_and_foreign_files_are_refused() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (path, _) = saved().write(folder.path(), "w").expect("written");
        let good = fs::read(&path).expect("bytes");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(Saved::parse(&bad, &path).is_err(), "byte {at} was changed");
            assert!(Saved::parse(&good[..at], &path).is_err(), "only {at} bytes are left");
        }
        assert!(Saved::parse(&good, &path).is_ok());
        assert!(matches!(Saved::parse(b"something else", &path), Err(FileError::Foreign(_))));
        let newer = [&b"MHWAIT\0\x09"[..], &good[8..]].concat();
        assert!(matches!(Saved::parse(&newer, &path), Err(FileError::Version { version: 9, .. })));
    }
}
