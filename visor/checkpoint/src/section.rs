//! The table of sections, and the numbers of the sections that this version has.
//!
//! ```text
//!   0   4   number          16  8   length
//!   4   2   version         24  8   zero
//!   6   2   1: mandatory    32  32  SHA-256 of the section's bytes
//!   8   8   offset in the file
//! ```

use crate::hash::Hash;
use monohull_abi::record::RECORD_MAX;
use std::fmt;

/// The most bytes of a section that has only what describes a workflow.
pub const SECTION_MAX: u64 = 256 << 20;
/// The most bytes of a section that also has data as it is: printed lines, inputs, files in memory.
pub(crate) const DATA_MAX: u64 = 64 << 30;
/// The most sections of libos modules.
pub(crate) const MODULES_MAX: usize = 64;

/// Bytes of an entry.
pub(crate) const ENTRY: usize = 64;
/// A reader that does not know such a section refuses the file.
pub(crate) const MANDATORY: u16 = 1;

/// The sections that this version knows. Numbers are appended and never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u32)]
#[allow(missing_docs, reason = "`record` says what each holds")]
pub enum SectionId {
    Identity = 1,
    Functions = 2,
    Instances = 3,
    Threads = 4,
    Scheduler = 5,
    Plan = 6,
    Engine = 7,
    /// One for each module.
    Module = 8,
    /// Which pages there are, and where their contents come from.
    Runs = 9,
    /// The hash of each stored page.
    Pages = 10,
    /// Absent if no instance has a fault handler.
    Handlers = 11,
    /// Absent if no thread was interrupted in user code.
    Registers = 12,
    /// Absent if there is no parent.
    Chain = 13,
    /// Absent if no file is mapped.
    Files = 14,
    /// Absent if there were no requests of effects.
    Requests = 15,
}

impl SectionId {
    /// All of them.
    pub const ALL: [SectionId; 15] = {
        use SectionId::*;
        [
            Identity, Functions, Instances, Threads, Scheduler, Plan, Engine, Module, Runs, Pages, Handlers, Registers,
            Chain, Files, Requests,
        ]
    };

    /// The section with this number.
    pub(crate) fn of(id: u32) -> Option<SectionId> {
        SectionId::ALL.into_iter().find(|section| *section as u32 == id)
    }

    /// The newest version of its contents that this program reads, and the one that it writes.
    pub(crate) const fn version(self) -> u16 {
        1
    }

    /// The most bytes that one may have: neither a reader nor a writer takes a larger one.
    pub const fn most(self) -> u64 {
        match self {
            SectionId::Instances | SectionId::Engine => DATA_MAX,
            // A module's record, and the list of its pages.
            SectionId::Module => RECORD_MAX + SECTION_MAX,
            _ => SECTION_MAX,
        }
    }

    /// Its name in messages and reports.
    pub const fn name(self) -> &'static str {
        match self {
            SectionId::Identity => "identity",
            SectionId::Functions => "functions",
            SectionId::Instances => "instances",
            SectionId::Threads => "threads",
            SectionId::Scheduler => "scheduler",
            SectionId::Plan => "plan",
            SectionId::Engine => "engine",
            SectionId::Module => "module",
            SectionId::Runs => "runs",
            SectionId::Pages => "pages",
            SectionId::Handlers => "handlers",
            SectionId::Registers => "registers",
            SectionId::Chain => "chain",
            SectionId::Files => "files",
            SectionId::Requests => "requests",
        }
    }
}

impl fmt::Display for SectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "section `{}`", self.name())
    }
}

/// An entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u32,
    pub(crate) version: u16,
    pub(crate) flags: u16,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) reserved: u64,
    pub(crate) hash: Hash,
}

impl Entry {
    pub(crate) fn encode(&self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[0..4].copy_from_slice(&self.id.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.version.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.reserved.to_le_bytes());
        bytes[32..64].copy_from_slice(&self.hash.0);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; ENTRY]) -> Entry {
        Entry {
            id: u32::from_le_bytes(part(bytes, 0)),
            version: u16::from_le_bytes(part(bytes, 4)),
            flags: u16::from_le_bytes(part(bytes, 6)),
            offset: u64::from_le_bytes(part(bytes, 8)),
            length: u64::from_le_bytes(part(bytes, 16)),
            reserved: u64::from_le_bytes(part(bytes, 24)),
            hash: Hash(part(bytes, 32)),
        }
    }
}

/// So many bytes from an offset that is known to be good.
pub(crate) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}
