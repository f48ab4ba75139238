//! Directories.

use super::{FileType, Metadata, metadata};
use crate::ffi::OsString;
use crate::io::{self, ErrorKind};
use crate::path::{Path, PathBuf};
use crate::string::String;
use crate::sync::Arc;
use crate::sys::files::{self, Descriptor};
use crate::vec;
use crate::vec::Vec;
use core::fmt;
use monohull_abi::file::{DirEntry as Record, open};

/// Bytes of entries that are fetched together.
const BUFFER: usize = 8 * 1024;

/// The entries of a directory.
pub fn read_dir<P: AsRef<Path>>(path: P) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let directory = files::open(path.as_str(), open::READ | open::DIRECTORY)?;
    Ok(ReadDir { directory: Some(directory), root: Arc::new(path.to_path_buf()), buffer: Vec::new(), next: 0 })
}

/// The entries of a directory, in no particular order.
pub struct ReadDir {
    /// `None` after an error: it would come again.
    directory: Option<Descriptor>,
    root: Arc<PathBuf>,
    buffer: Vec<u8>,
    next: usize,
}

/// One entry of a directory.
pub struct DirEntry {
    root: Arc<PathBuf>,
    name: String,
    kind: u32,
}

impl ReadDir {
    /// The record at `next`.
    fn record(&mut self) -> Option<DirEntry> {
        let header = self.buffer.get(self.next..)?;
        let word = |at: usize| Some(u32::from_ne_bytes(header.get(at..at + 4)?.try_into().ok()?));
        let kind = word(core::mem::offset_of!(Record, kind))?;
        let len = word(core::mem::offset_of!(Record, name_len))? as usize;
        let name = header.get(size_of::<Record>()..)?.get(..len)?;
        let name = String::from_utf8_lossy(name).into_owned();
        self.next += Record::record_len(len);
        Some(DirEntry { root: self.root.clone(), name, kind })
    }
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        if self.next >= self.buffer.len() {
            let mut buffer = core::mem::take(&mut self.buffer);
            buffer.resize(BUFFER, 0);
            match self.directory.as_ref()?.list(&mut buffer) {
                Ok(bytes) => buffer.truncate(bytes),
                Err(error) => {
                    self.directory = None;
                    return Some(Err(error));
                }
            }
            self.buffer = buffer;
            self.next = 0;
        }
        self.record().map(Ok)
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadDir").field(&self.root).finish()
    }
}

impl DirEntry {
    /// Its path: the one the directory was read by, and then its name.
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    /// What is known of it.
    pub fn metadata(&self) -> io::Result<Metadata> {
        metadata(self.path())
    }

    /// What kind of thing it is.
    pub fn file_type(&self) -> io::Result<FileType> {
        Ok(FileType(self.kind))
    }

    /// Its name.
    pub fn file_name(&self) -> OsString {
        OsString::from(self.name.clone())
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirEntry").field(&self.path()).finish()
    }
}

/// How to make a directory.
#[derive(Debug)]
pub struct DirBuilder {
    recursive: bool,
}

impl DirBuilder {
    /// Alone, without those on the way to it.
    #[allow(clippy::new_without_default, reason = "std has it so")]
    pub fn new() -> DirBuilder {
        DirBuilder { recursive: false }
    }

    /// Also those on the way to it; that it is there already is fine then.
    pub fn recursive(&mut self, recursive: bool) -> &mut DirBuilder {
        self.recursive = recursive;
        self
    }

    /// Makes it.
    pub fn create<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let path = path.as_ref();
        if self.recursive { create_all(path) } else { files::make_directory(path.as_str()) }
    }
}

fn create_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    // From the top down, but from the lowest one that is missing on.
    let mut missing = vec![path];
    while let Some(lowest) = missing.last().copied() {
        match files::make_directory(lowest.as_str()) {
            Ok(()) => {
                missing.pop();
            }
            Err(error) if error.kind() == ErrorKind::NotFound => match lowest.parent() {
                Some(parent) if !parent.as_os_str().is_empty() && missing.len() < 4096 => missing.push(parent),
                _ => return Err(error),
            },
            Err(_) if lowest.is_dir() => {
                missing.pop();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
