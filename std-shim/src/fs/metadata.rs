//! What is known of a file.

use crate::io::{self, Error, ErrorKind};
use crate::time::{Duration, SystemTime, UNIX_EPOCH};
use core::fmt;
use monohull_abi::file::{FileKind, FileStat};

/// What is known of a file or directory.
#[derive(Clone)]
pub struct Metadata(pub(crate) FileStat);

/// What kind of thing a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileType(pub(super) u32);

/// Permissions: whether it can be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permissions {
    read_only: bool,
}

impl Metadata {
    /// What kind of thing it is.
    pub fn file_type(&self) -> FileType {
        FileType(self.0.kind)
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type().is_dir()
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.file_type().is_file()
    }

    /// Whether it is a symbolic link; there are none.
    pub fn is_symlink(&self) -> bool {
        false
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty, reason = "std has it so")]
    pub fn len(&self) -> u64 {
        self.0.size
    }

    /// Whether it can be written.
    pub fn permissions(&self) -> Permissions {
        Permissions { read_only: self.0.read_only != 0 }
    }

    /// When its bytes last changed.
    pub fn modified(&self) -> io::Result<SystemTime> {
        time(self.0.modified)
    }

    /// When it was last read, as far as its file system keeps that.
    pub fn accessed(&self) -> io::Result<SystemTime> {
        time(self.0.accessed)
    }

    /// When it was made, as far as its file system keeps that.
    pub fn created(&self) -> io::Result<SystemTime> {
        time(self.0.created)
    }

    pub(super) fn check_permissions(&self, wanted: &Permissions) -> io::Result<()> {
        match *wanted == self.permissions() {
            true => Ok(()),
            false => Err(Error::from(ErrorKind::Unsupported)),
        }
    }
}

fn time(ns: i64) -> io::Result<SystemTime> {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    let time = if ns < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    time.ok_or_else(|| Error::from(ErrorKind::InvalidData))
}

impl FileType {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.0 == FileKind::Directory as u32
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.0 == FileKind::File as u32
    }

    /// Whether it is a symbolic link; there are none.
    pub fn is_symlink(&self) -> bool {
        false
    }
}

impl Permissions {
    /// Whether it cannot be written.
    pub fn readonly(&self) -> bool {
        self.read_only
    }

    /// Makes these permissions ones without writing, or with.
    pub fn set_readonly(&mut self, readonly: bool) {
        self.read_only = readonly;
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata")
            .field("file_type", &self.file_type())
            .field("permissions", &self.permissions())
            .field("len", &self.len())
            .field("modified", &self.modified())
            .field("accessed", &self.accessed())
            .field("created", &self.created())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileType")
            .field("is_file", &self.is_file())
            .field("is_dir", &self.is_dir())
            .field("is_symlink", &self.is_symlink())
            .finish_non_exhaustive()
    }
}
