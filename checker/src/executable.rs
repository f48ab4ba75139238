//! The executable bytes of a file and their addresses, as `elf` and `object` find them.

use crate::report::Form;
use plain::Plain;
use std::{borrow::Cow, ops::Range};

pub(crate) const PAGE: u64 = 4096;
/// No linker makes as many segments. The limit bounds how much a small hostile file can make the checker read.
pub(crate) const MAX_SEGMENTS: u16 = 64;

/// Why a file could not be judged. The file is at fault, and must not be loaded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum CheckError {
    #[error("the file is not a 64-bit little-endian ELF file for x86-64")]
    NotElf,
    #[error("the program header table does not lie within the file")]
    Headers,
    /// There are more program headers than any linker makes.
    #[error("there are {0} program headers; at most {MAX_SEGMENTS} are accepted")]
    TooMany(u16),
    /// A segment's bytes lie (partly) outside the file, or its numbers overflow.
    #[error("segment {0} does not lie within the file")]
    Outside(usize),
    #[error("segment {0} cannot be mapped: its file offset and its address differ modulo {PAGE}")]
    Incongruent(usize),
    #[error("executable segment {0} has memory that is not in the file")]
    NotInFile(usize),
    /// An executable segment is writable: what was checked could change.
    #[error("segment {0} is both writable and executable")]
    Writable(usize),
    #[error("two segments claim the page at address {0:#x}")]
    Overlap(u64),
    #[error("the file has no executable segment")]
    NothingExecutable,
    /// An object's section header table lies (partly) outside the file.
    #[error("the section header table does not lie within the file")]
    Sections,
    /// An object's section lies (partly) outside the file.
    #[error("section {0} does not lie within the file")]
    SectionOutside(usize),
    #[error("executable section {0} is writable, compressed or not in the file")]
    SectionUnfit(usize),
}

/// All that will be executable.
pub(crate) struct Executable<'a> {
    pub(crate) form: Form,
    pub(crate) runs: Vec<Run<'a>>,
    pub(crate) filled_in_later: u64,
}

/// Executable pages that follow each other in memory without a gap.
pub(crate) struct Run<'a> {
    /// Address of the first byte, relative to the load base.
    pub(crate) address: u64,
    /// The bytes as they will be in memory.
    pub(crate) memory: Cow<'a, [u8]>,
    pub(crate) pieces: Vec<Piece>,
}

impl<'a> Run<'a> {
    /// A part of the file that has no other address than its offset. The range lies within the file.
    pub(crate) fn of_file(bytes: &'a [u8], range: Range<usize>) -> Run<'a> {
        let (address, end) = (range.start as u64, range.end as u64);
        let pieces = vec![Piece { address, end, offset: address, executable: true }];
        Run { address, memory: Cow::Borrowed(&bytes[range]), pieces }
    }

    /// Where the byte at `address` is in the file.
    pub(crate) fn file_offset(&self, address: u64) -> u64 {
        let piece = self.pieces.iter().rev().find(|piece| piece.address <= address);
        piece.map_or(0, |piece| piece.offset + (address - piece.address))
    }
}

/// Whole pages of one segment.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    /// Rounded up to whole pages.
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) executable: bool,
}

impl Piece {
    /// The file's part; after the end of the file the last page is filled with zeros.
    pub(crate) fn file<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let end = usize::try_from(self.offset.saturating_add(self.end - self.address)).unwrap_or(usize::MAX);
        bytes.get(start..end.min(bytes.len())).unwrap_or_default()
    }
}

/// Copies one record out of a table, if the table is inside the file.
pub(crate) fn record<T: Plain + Default>(bytes: &[u8], offset: u64) -> Option<T> {
    let start = usize::try_from(offset).ok()?;
    let slice = bytes.get(start..start.checked_add(size_of::<T>())?)?;
    let mut value = T::default();
    plain::copy_from_bytes(&mut value, slice).ok()?;
    Some(value)
}
