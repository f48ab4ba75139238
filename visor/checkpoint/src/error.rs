//! Why a checkpoint cannot be used: what is wrong, and where in the file.

use crate::hash::Hash;
use crate::key::KeyId;
use crate::section::SectionId;
use monohull_report::escape::shown;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// A file is no checkpoint that can be used, or none could be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum Error {
    #[error("it is no checkpoint: it does not begin as one")]
    Foreign,
    #[error("it is truncated, in {part}: {needed} bytes are needed, and there are {there}")]
    Truncated { part: Part, needed: u64, there: u64 },
    #[error("it goes on after its end: it has {there} bytes, and its header says {needed}")]
    TooLong { needed: u64, there: u64 },
    #[error("a newer version of Monohull wrote it: its format is {found}, and this program reads {known}")]
    NewerFormat { found: u16, known: u16 },
    #[error("it is damaged: {part} (bytes {} to {}) has changed since it was written", at.start, at.end)]
    Damaged { part: Part, at: Range<u64> },
    #[error("it is damaged: page {address:#x} (bytes {} to {}) has changed since it was written", at.start, at.end)]
    DamagedPage { address: u64, at: Range<u64> },
    #[error("it is not authenticated: no key has sealed it")]
    NotSealed,
    #[error("it is sealed already, by key {0}: a worker has no key")]
    Sealed(KeyId),
    #[error("another key has sealed it: {found}; this one is {ours}")]
    OtherKey { found: KeyId, ours: KeyId },
    #[error("it was edited: its contents are complete, but not what key {0} has sealed")]
    Edited(KeyId),
    #[error(
        "a newer version of Monohull wrote it: it has a section with number {id}, which this program must know and does not"
    )]
    UnknownSection { id: u32 },
    #[error(
        "a newer version of Monohull wrote it: {section} has version {found}, and this program reads versions up to {known}"
    )]
    NewerSection { section: SectionId, found: u16, known: u16 },
    #[error("it is malformed: {0} is missing")]
    MissingSection(SectionId),
    #[error("it is malformed: {part}: {reason}")]
    Malformed { part: Part, reason: String },
    #[error("it is wrong: {subject}: {reason}")]
    Wrong { subject: String, reason: String },
    #[error("it was made for version {found} of the hostcall interface; this program has version {ours}")]
    OtherAbi { found: u32, ours: u32 },
    #[error("it was made for another layout of the address space: `{name}` is {found:#x} there and {ours:#x} here")]
    OtherLayout { name: &'static str, found: u64, ours: u64 },
    #[error("this processor is not enough: it has no {}", .missing.join(", "))]
    Processor { missing: Vec<String> },
    #[error("it is not the parent: its digest is {found}, and not {expected}")]
    OtherParent { expected: Hash, found: Hash },
    #[error("it takes pages from {}, which cannot be used: {error}", shown(file))]
    Ancestor { file: PathBuf, error: Box<Error> },
    #[error("it takes pages from {}, which is not there", shown(file))]
    NoAncestor { file: PathBuf },
    #[error("{section} would have {bytes} bytes, and may have {}", section.most())]
    TooLarge { section: SectionId, bytes: u64 },
    #[error("{doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
}

/// A part of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The header.
    Header,
    /// The header and the table of sections, which are checked together.
    Table,
    /// A section.
    Section(SectionId),
    /// A section that this program does not know.
    Unknown(u32),
    /// The space that aligns the parts.
    Padding,
    /// Contents of pages.
    Pages,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Header => f.write_str("the header"),
            Part::Table => f.write_str("the header or the table of sections"),
            Part::Section(section) => section.fmt(f),
            Part::Unknown(id) => write!(f, "section {id}"),
            Part::Padding => f.write_str("the space between two parts"),
            Part::Pages => f.write_str("the contents of pages"),
        }
    }
}

impl Error {
    pub(crate) fn malformed(part: Part, reason: impl fmt::Display) -> Error {
        Error::Malformed { part, reason: reason.to_string() }
    }

    pub(crate) fn wrong(subject: impl fmt::Display, reason: impl fmt::Display) -> Error {
        Error::Wrong { subject: subject.to_string(), reason: reason.to_string() }
    }

    /// Whether the host is at fault, and not the file.
    pub fn is_hosts(&self) -> bool {
        match self {
            Error::Ancestor { error, .. } => error.is_hosts(),
            // A reader that knows more than the host may say that what it reads was changed, or is no file that could be one.
            Error::Io { source, .. } => {
                !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
            }
            error => matches!(error, Error::Processor { .. }),
        }
    }
}
