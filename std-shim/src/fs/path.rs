//! What a path leads to: the methods of [`Path`] that ask file systems.

use super::{Metadata, ReadDir};
use crate::fs;
use crate::io;
use crate::path::{Path, PathBuf};

impl Path {
    /// What is known of what it leads to.
    pub fn metadata(&self) -> io::Result<Metadata> {
        fs::metadata(self)
    }

    /// The same: there are no symbolic links.
    pub fn symlink_metadata(&self) -> io::Result<Metadata> {
        fs::symlink_metadata(self)
    }

    /// The absolute path, without `.` and `..`, of what exists.
    pub fn canonicalize(&self) -> io::Result<PathBuf> {
        fs::canonicalize(self)
    }

    /// Where a symbolic link leads; there are none.
    pub fn read_link(&self) -> io::Result<PathBuf> {
        fs::read_link(self)
    }

    /// The entries of a directory.
    pub fn read_dir(&self) -> io::Result<ReadDir> {
        fs::read_dir(self)
    }

    /// Whether it exists; false if that cannot be determined.
    pub fn exists(&self) -> bool {
        self.metadata().is_ok()
    }

    /// Whether it leads anywhere.
    pub fn try_exists(&self) -> io::Result<bool> {
        fs::exists(self)
    }

    /// Whether it leads to a file.
    pub fn is_file(&self) -> bool {
        self.metadata().is_ok_and(|metadata| metadata.is_file())
    }

    /// Whether it leads to a directory.
    pub fn is_dir(&self) -> bool {
        self.metadata().is_ok_and(|metadata| metadata.is_dir())
    }

    /// Whether it is a symbolic link; there are none.
    pub fn is_symlink(&self) -> bool {
        false
    }
}
