//! What the record of a tree holds, as plain data, and what can be wrong with it.

use alloc::vec::Vec;
use core::fmt;
use monohull_abi::Errno;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(crate) struct TreeRecord<'r> {
    pub(crate) mount: u32,
    /// The number of the next directory.
    pub(crate) next: u64,
    /// The root first, and each behind its parent.
    #[serde(borrow)]
    pub(crate) directories: Vec<DirectoryRecord<'r>>,
    #[serde(borrow)]
    pub(crate) names: Vec<NameRecord<'r>>,
    /// By index.
    pub(crate) places: Vec<PlaceRecord>,
    /// Indices without a file, the next to be used last.
    pub(crate) free: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct DirectoryRecord<'r> {
    /// The index of the directory that it lies in; the root has itself there.
    pub(crate) parent: u32,
    pub(crate) name: &'r str,
    pub(crate) node: u64,
    pub(crate) created: i64,
    pub(crate) modified: i64,
}

/// The name of a file.
#[derive(Serialize, Deserialize)]
pub(crate) struct NameRecord<'r> {
    pub(crate) directory: u32,
    pub(crate) name: &'r str,
    pub(crate) place: u32,
}

/// What a file's number leads to.
#[derive(Serialize, Deserialize)]
pub(crate) struct PlaceRecord {
    pub(crate) generation: u32,
    pub(crate) file: Option<FileRecord>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct FileRecord {
    pub(crate) opened: u32,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) size: u64,
    /// Index and bytes of each chunk.
    pub(crate) chunks: Vec<(u64, u64)>,
}

/// When a file was read, as that was set.
#[derive(Serialize, Deserialize)]
pub(crate) struct AccessedRecord {
    pub(crate) mount: u32,
    pub(crate) place: u32,
    pub(crate) at: i64,
}

/// What is wrong with a record.
pub(crate) enum Damage {
    /// The tree would be larger than its mount allows, or the host has no memory.
    Memory(Errno),
    /// Directory or name of this index.
    Directory(usize),
    Name(usize),
    /// Place of this index.
    Place(usize),
    /// The numbers that are free, or come next.
    Numbers,
}

impl From<Errno> for Damage {
    fn from(errno: Errno) -> Damage {
        Damage::Memory(errno)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Memory(errno) => write!(f, "{errno}"),
            Damage::Directory(index) => write!(f, "its record is damaged: directory {index}"),
            Damage::Name(index) => write!(f, "its record is damaged: name {index}"),
            Damage::Place(index) => write!(f, "its record is damaged: file {index}"),
            Damage::Numbers => f.write_str("its record is damaged: the numbers of its files"),
        }
    }
}
