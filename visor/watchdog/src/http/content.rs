//! Bytes of requests and results. As many as a process takes in memory of its own that it keeps stay in memory here, whose pages the
//! allocator uses again. More go into a memory file, chunk by chunk, and that file is what the workflow's process receives, so this
//! process never holds them as a whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use nix::sys::memfd::{MFdFlags, memfd_create};

use monohull_worker::{Data, HELD_MAX};

/// What is larger is not shown as part of a document, and not read or written by a thread that serves.
pub(crate) const SMALL: u64 = 64 << 10;
/// What is larger is kept in a memory file.
pub(crate) const IN_MEMORY: u64 = HELD_MAX;
/// How much of a file is read at a time.
pub(crate) const CHUNK: u64 = 64 << 10;

/// Bytes that came from outside: a request's body, or a result.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// In memory.
    Small(Bytes),
    /// In a file.
    Large(Large),
}

/// Bytes in a memory file.
#[derive(Clone, Debug)]
pub(crate) struct Large {
    pub(crate) file: Arc<File>,
    pub(crate) len: u64,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Content::Small(bytes) => bytes.len() as u64,
            Content::Large(large) => large.len,
        }
    }

    /// All of it in memory: for what has to be looked at as a whole.
    pub(crate) fn read(&self) -> io::Result<Bytes> {
        match self {
            Content::Small(bytes) => Ok(bytes.clone()),
            Content::Large(large) => {
                let mut bytes = vec![0; large.len as usize];
                large.file.read_exact_at(&mut bytes, 0)?;
                Ok(bytes.into())
            }
        }
    }

    /// What a file has whose content does not change.
    pub(crate) fn of_file(file: File, len: u64) -> io::Result<Content> {
        let content = Content::Large(Large { file: Arc::new(file), len });
        if len <= SMALL { Ok(Content::Small(content.read()?)) } else { Ok(content) }
    }

    /// What a workflow's process left in an output slot. Its files are sealed, so their length stays.
    pub(crate) fn of_output(data: Data) -> io::Result<Content> {
        let file = match data {
            Data::Bytes(bytes) => return Ok(Content::Small(bytes.into())),
            Data::File(file) => File::from(file),
        };
        let len = file.metadata()?.len();
        Content::of_file(file, len)
    }

    /// The same for an input slot.
    pub(crate) fn into_input(self) -> io::Result<Data> {
        match self {
            Content::Small(bytes) => Ok(Data::Bytes(bytes.into())),
            Content::Large(large) => match Arc::try_unwrap(large.file) {
                Ok(file) => Ok(Data::File(file.into())),
                Err(shared) => shared.try_clone().map(|file| Data::File(file.into())),
            },
        }
    }
}

/// A new memory file.
pub(crate) fn memory_file() -> io::Result<File> {
    let fd = memfd_create(c"monohull-body", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
    Ok(File::from(fd))
}
