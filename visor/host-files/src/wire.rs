//! Messages between a worker and the broker of a granted directory.

use monohull_ipc::Protocol;
use serde::{Deserialize, Serialize};

/// Files of a granted directory.
#[derive(Debug)]
pub(super) enum Files {}

impl Protocol for Files {
    type Request<'m> = Request<'m>;
    type Reply = Reply;
    /// Two paths, or a piece of a directory's list.
    const MESSAGE_MAX: usize = 64 * 1024;
}

/// Most bytes of names in one piece of a directory's list.
pub(super) const LIST_MAX: usize = 32 * 1024;

/// To the broker. Paths are relative and clean; the broker checks both.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request<'p> {
    /// A descriptor, opened with these flags of [`monohull_abi::file::open`].
    Open(&'p str, u64),
    /// What is known of a path.
    Stat(&'p str),
    /// The entries of a directory from this one on.
    List(&'p str, u64),
    /// A directory is made.
    MakeDirectory(&'p str),
    /// An empty directory is removed.
    RemoveDirectory(&'p str),
    /// A file is removed.
    RemoveFile(&'p str),
    /// The first gets the name of the second.
    Rename(&'p str, &'p str),
    /// Sets when it was last read and written, in ns since 1970, if it has this number on the host's file system. `None` stays as it is.
    SetTimes { path: &'p str, read: Option<i64>, written: Option<i64>, node: Option<u64> },
    /// The names in a directory are to survive a crash of the host.
    SyncDirectory(&'p str),
}

/// From the broker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// It is done; attached is the file, if one was asked for. A directory is not attached.
    Done(Known),
    /// Some entries of a directory; none at the end.
    Entries(Vec<Name>),
    /// It was refused, with this number of [`monohull_abi::Errno`].
    Refused(i32),
}

/// What is known of a file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Known {
    /// It is a directory.
    pub directory: bool,
    /// It is read-only.
    pub read_only: bool,
    /// Bytes.
    pub size: u64,
    /// Its number on the host's file system.
    pub node: u64,
    /// Names that lead to it.
    pub links: u32,
    /// When its bytes last changed, in ns since 1970; so for the next two.
    pub modified: i64,
    /// When it was last read.
    pub accessed: i64,
    /// When its bytes or rights last changed: hosts do not all know when a file was made.
    pub changed: i64,
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Name {
    /// What it is called.
    pub name: String,
    /// It is a directory.
    pub directory: bool,
    /// Its number on the host's file system.
    pub node: u64,
}
