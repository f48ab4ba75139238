//! Types of the interfaces, as programs pass them. Wasmtime derives how each lies in a program's memory; names and order are the
//! interfaces'.
#![allow(dead_code, reason = "all that the interfaces have, whether or not it is ever made here")]

use crate::descriptors::{Entry, filetype};
use crate::errno::WasiError;
use crate::files;
use alloc::string::String;
use monohull_abi::file::FileStat;
use wasmtime::component::{ComponentType, Lift, Lower, Resource, flags};

const SECOND: u64 = 1_000_000_000;

/// A time since 1970.
#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(record)]
pub(super) struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

impl Datetime {
    /// The time that is so many ns after 1970.
    pub(super) fn from_ns(ns: u64) -> Datetime {
        Datetime { seconds: ns / SECOND, nanoseconds: (ns % SECOND) as u32 }
    }

    /// How many ns it is after 1970; the largest number if it is later than that can say.
    pub(super) fn ns(self) -> i64 {
        let ns = self.seconds.saturating_mul(SECOND).saturating_add(self.nanoseconds.into());
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

/// Why a stream has failed, for programs that ask.
pub(super) struct StreamFailure(pub(super) WasiError);

/// Why a stream gives or takes no bytes.
#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
pub(super) enum StreamError {
    #[component(name = "last-operation-failed")]
    Failed(Resource<StreamFailure>),
    #[component(name = "closed")]
    Closed,
}

flags! {
    DescriptorFlags {
        #[component(name = "read")]
        const READ;
        #[component(name = "write")]
        const WRITE;
        #[component(name = "file-integrity-sync")]
        const FILE_INTEGRITY_SYNC;
        #[component(name = "data-integrity-sync")]
        const DATA_INTEGRITY_SYNC;
        #[component(name = "requested-write-sync")]
        const REQUESTED_WRITE_SYNC;
        #[component(name = "mutate-directory")]
        const MUTATE_DIRECTORY;
    }
}

flags! {
    PathFlags {
        #[component(name = "symlink-follow")]
        const SYMLINK_FOLLOW;
    }
}

flags! {
    OpenFlags {
        #[component(name = "create")]
        const CREATE;
        #[component(name = "directory")]
        const DIRECTORY;
        #[component(name = "exclusive")]
        const EXCLUSIVE;
        #[component(name = "truncate")]
        const TRUNCATE;
    }
}

/// What a descriptor stands for.
#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
pub(super) enum DescriptorType {
    #[component(name = "unknown")]
    Unknown,
    #[component(name = "block-device")]
    BlockDevice,
    #[component(name = "character-device")]
    CharacterDevice,
    #[component(name = "directory")]
    Directory,
    #[component(name = "fifo")]
    Fifo,
    #[component(name = "symbolic-link")]
    SymbolicLink,
    #[component(name = "regular-file")]
    RegularFile,
    #[component(name = "socket")]
    Socket,
}

impl DescriptorType {
    /// The type that is this `filetype` of preview 1.
    pub(super) fn from_kind(kind: u8) -> DescriptorType {
        match kind {
            filetype::CHARACTER_DEVICE => DescriptorType::CharacterDevice,
            filetype::DIRECTORY => DescriptorType::Directory,
            filetype::REGULAR => DescriptorType::RegularFile,
            _ => DescriptorType::Unknown,
        }
    }
}

/// What is known of a file.
#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(record)]
pub(super) struct DescriptorStat {
    #[component(name = "type")]
    kind: DescriptorType,
    #[component(name = "link-count")]
    links: u64,
    size: u64,
    #[component(name = "data-access-timestamp")]
    accessed: Option<Datetime>,
    #[component(name = "data-modification-timestamp")]
    modified: Option<Datetime>,
    #[component(name = "status-change-timestamp")]
    changed: Option<Datetime>,
}

impl From<FileStat> for DescriptorStat {
    fn from(stat: FileStat) -> DescriptorStat {
        let time = |ns: i64| Some(Datetime::from_ns(ns.max(0) as u64));
        DescriptorStat {
            kind: DescriptorType::from_kind(files::kind(&stat)),
            links: stat.links.into(),
            size: stat.size,
            accessed: time(stat.accessed),
            modified: time(stat.modified),
            changed: time(stat.modified),
        }
    }
}

impl DescriptorStat {
    /// Of a stream or a device: its kind, and nothing else.
    pub(super) fn of_kind(kind: DescriptorType) -> DescriptorStat {
        DescriptorStat { kind, links: 0, size: 0, accessed: None, modified: None, changed: None }
    }
}

/// Which time a file is to have.
#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(variant)]
pub(super) enum NewTimestamp {
    #[component(name = "no-change")]
    NoChange,
    #[component(name = "now")]
    Now,
    #[component(name = "timestamp")]
    Timestamp(Datetime),
}

/// How a file will be used.
#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
pub(super) enum Advice {
    #[component(name = "normal")]
    Normal,
    #[component(name = "sequential")]
    Sequential,
    #[component(name = "random")]
    Random,
    #[component(name = "will-need")]
    WillNeed,
    #[component(name = "dont-need")]
    DontNeed,
    #[component(name = "no-reuse")]
    NoReuse,
}

/// An entry of a directory.
#[derive(ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct DirectoryEntry {
    #[component(name = "type")]
    kind: DescriptorType,
    name: String,
}

impl From<Entry> for DirectoryEntry {
    fn from(entry: Entry) -> DirectoryEntry {
        DirectoryEntry { kind: DescriptorType::from_kind(entry.kind), name: entry.name }
    }
}

/// A number that is the same for as long as a file is the same.
#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(record)]
pub(super) struct MetadataHash {
    lower: u64,
    upper: u64,
}

impl MetadataHash {
    /// Of streams and devices, which no number tells apart.
    pub(super) const NONE: MetadataHash = MetadataHash { lower: 0, upper: 0 };
}

impl From<FileStat> for MetadataHash {
    fn from(stat: FileStat) -> MetadataHash {
        let parts = [u64::from(stat.mount), stat.node, stat.size, stat.modified as u64, stat.created as u64];
        // FNV-1a.
        let hash = |start: u64| {
            let bytes = parts.iter().flat_map(|part| part.to_le_bytes());
            bytes.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        };
        MetadataHash { lower: hash(0xcbf2_9ce4_8422_2325), upper: hash(0x6c62_272e_07bb_0142) }
    }
}
