//! Files and directories, as in `std::fs`, on the file systems that the workflow mounts.
//!
//! There are no symbolic links, no owners and no access rights but one: what cannot be written is read-only. So
//! `symlink_metadata` is `metadata`, hard and symbolic links cannot be made, and changing rights is not supported.

mod dir;
mod file;
mod metadata;
mod path;

pub use dir::{DirBuilder, DirEntry, ReadDir, read_dir};
pub use file::{File, FileTimes, OpenOptions};
pub use metadata::{FileType, Metadata, Permissions};

use crate::io::{self, Error, ErrorKind, Read, Write};
use crate::path::{Path, PathBuf};
use crate::string::String;
use crate::sys::files;
use crate::vec::Vec;

/// Everything in a file.
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Everything in a file, which must be UTF-8.
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Makes a file of these bytes, or replaces what is in it.
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    File::create(path)?.write_all(contents.as_ref())
}

/// Copies a file's bytes into another, which is made or replaced; returns their number.
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<u64> {
    let mut from = File::open(from)?;
    if !from.metadata()?.is_file() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "the source path is neither a regular file nor a symlink to a regular file",
        ));
    }
    io::copy(&mut from, &mut File::create(to)?)
}

/// What is known of what a path leads to.
pub fn metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    files::stat(path.as_ref().as_str()).map(Metadata)
}

/// The same: there are no symbolic links.
pub fn symlink_metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    metadata(path)
}

/// Whether a path leads anywhere.
pub fn exists<P: AsRef<Path>>(path: P) -> io::Result<bool> {
    match metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives a file or directory another name on the same mount; what has that name is replaced.
pub fn rename<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<()> {
    files::rename(from.as_ref().as_str(), to.as_ref().as_str())
}

/// Removes a file.
pub fn remove_file<P: AsRef<Path>>(path: P) -> io::Result<()> {
    files::remove_file(path.as_ref().as_str())
}

/// Makes a directory.
pub fn create_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    DirBuilder::new().create(path)
}

/// Makes a directory and those on the way to it.
pub fn create_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path)
}

/// Removes an empty directory.
pub fn remove_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    files::remove_directory(path.as_ref().as_str())
}

/// Removes a directory and everything in it.
pub fn remove_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    for entry in read_dir(path)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => remove_dir_all(entry.path())?,
            false => remove_file(entry.path())?,
        }
    }
    remove_dir(path)
}

/// The absolute path, without `.` and `..`, of what exists.
pub fn canonicalize<P: AsRef<Path>>(path: P) -> io::Result<PathBuf> {
    files::real_path(path.as_ref().as_str()).map(PathBuf::from)
}

/// The target of a symbolic link; there are no symbolic links, so it fails.
pub fn read_link<P: AsRef<Path>>(path: P) -> io::Result<PathBuf> {
    metadata(path)?;
    Err(Error::from(ErrorKind::InvalidInput))
}

/// A second name for a file; no file system here has them.
pub fn hard_link<P: AsRef<Path>, Q: AsRef<Path>>(original: P, _link: Q) -> io::Result<()> {
    metadata(original)?;
    Err(Error::from(ErrorKind::Unsupported))
}

/// Changes whether something can be written: only to what it is already.
pub fn set_permissions<P: AsRef<Path>>(path: P, permissions: Permissions) -> io::Result<()> {
    metadata(path)?.check_permissions(&permissions)
}
