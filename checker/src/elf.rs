//! Which bytes of a file will be executable, and at what addresses.
//!
//! Only as much of ELF is read as decides this; every count and offset is checked against the file first. What the
//! loader refuses for other reasons is not repeated here, except where the verdict would mean nothing: an
//! executable segment that is writable, or pages that two segments claim. Files without segments are `object`'s.

use crate::{object, report::Form};
use goblin::elf64::{
    header::{EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, EM_X86_64, ET_REL, Header, SIZEOF_EHDR},
    program_header::{PF_W, PF_X, PT_LOAD, ProgramHeader, SIZEOF_PHDR},
};
use plain::Plain;
use std::{borrow::Cow, ops::Range};

pub(crate) const PAGE: u64 = 4096;
/// No linker makes as many segments; it bounds what a small hostile file can make the checker read.
const MAX_SEGMENTS: u16 = 64;

/// Why a file could not be judged. The file is at fault, and must not be loaded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CheckError {
    /// The file is not a 64-bit little-endian ELF file for x86-64.
    #[error("the file is not a 64-bit little-endian ELF file for x86-64")]
    NotElf,
    /// The program header table lies (partly) outside the file.
    #[error("the program header table does not lie within the file")]
    Headers,
    /// There are more program headers than any linker makes.
    #[error("there are {0} program headers; at most {MAX_SEGMENTS} are accepted")]
    TooMany(u16),
    /// A segment's bytes lie (partly) outside the file, or its numbers overflow.
    #[error("segment {0} does not lie within the file")]
    Outside(usize),
    /// A segment cannot be mapped: offset and address differ within the page.
    #[error("segment {0} cannot be mapped: its file offset and its address differ modulo {PAGE}")]
    Incongruent(usize),
    /// An executable segment has memory that is not in the file, so there is nothing to check.
    #[error("executable segment {0} has memory that is not in the file")]
    NotInFile(usize),
    /// An executable segment is writable: what was checked could change.
    #[error("segment {0} is both writable and executable")]
    Writable(usize),
    /// Two segments claim the same page.
    #[error("two segments claim the page at address {0:#x}")]
    Overlap(u64),
    /// The file has no executable segment or section.
    #[error("the file has no executable segment")]
    NothingExecutable,
    /// An object's section header table lies (partly) outside the file.
    #[error("the section header table does not lie within the file")]
    Sections,
    /// An object's section lies (partly) outside the file.
    #[error("section {0} does not lie within the file")]
    SectionOutside(usize),
    /// An object's executable section is writable, compressed or has no bytes in the file.
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
    pieces: Vec<Piece>,
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
struct Piece {
    address: u64,
    /// Rounded up to whole pages.
    end: u64,
    offset: u64,
    executable: bool,
}

impl Piece {
    /// The file's part; after the end of the file the last page is filled with zeros.
    fn file<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
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

/// The file header of a 64-bit little-endian ELF file.
pub(crate) fn header(bytes: &[u8]) -> Option<Header> {
    let header: Header = record(bytes, 0)?;
    let ident = &header.e_ident;
    (ident.starts_with(b"\x7fELF") && ident[EI_CLASS] == ELFCLASS64 && ident[EI_DATA] == ELFDATA2LSB).then_some(header)
}

/// What a file will have executed: the sections of an object, the segments of everything else.
pub(crate) fn executable(bytes: &[u8]) -> Result<Executable<'_>, CheckError> {
    let header = header(bytes).filter(|header| header.e_machine == EM_X86_64).ok_or(CheckError::NotElf)?;
    if header.e_type == ET_REL {
        return object::executable(bytes, &header);
    }
    let runs = executable_runs(bytes, &header)?;
    Ok(Executable { form: Form::Linked, runs, filled_in_later: 0 })
}

/// The executable pages of a file, joined where they touch.
fn executable_runs<'a>(bytes: &'a [u8], header: &Header) -> Result<Vec<Run<'a>>, CheckError> {
    let mut pieces = pieces(bytes, header)?;
    pieces.sort_by_key(|piece| piece.address);
    if let Some(pair) = pieces.windows(2).find(|pair| pair[1].address < pair[0].end) {
        return Err(CheckError::Overlap(pair[1].address));
    }
    let runs: Vec<Run> = pieces
        .chunk_by(|a, b| a.executable && b.executable && a.end == b.address)
        .filter(|chunk| chunk[0].executable)
        .map(|chunk| Run { address: chunk[0].address, memory: memory(chunk, bytes), pieces: chunk.to_vec() })
        .collect();
    if runs.is_empty() { Err(CheckError::NothingExecutable) } else { Ok(runs) }
}

/// One piece is a part of the file as it is; more are laid behind each other.
fn memory<'a>(chunk: &[Piece], bytes: &'a [u8]) -> Cow<'a, [u8]> {
    if let [piece] = chunk {
        return Cow::Borrowed(piece.file(bytes));
    }
    let mut memory = Vec::new();
    for piece in chunk {
        memory.resize((piece.address - chunk[0].address) as usize, 0);
        memory.extend_from_slice(piece.file(bytes));
    }
    Cow::Owned(memory)
}

fn pieces(bytes: &[u8], header: &Header) -> Result<Vec<Piece>, CheckError> {
    if usize::from(header.e_ehsize) != SIZEOF_EHDR || usize::from(header.e_phentsize) != SIZEOF_PHDR {
        return Err(CheckError::NotElf);
    }
    if header.e_phnum > MAX_SEGMENTS {
        return Err(CheckError::TooMany(header.e_phnum));
    }
    let mut pieces = Vec::new();
    for index in 0..usize::from(header.e_phnum) {
        let offset = header.e_phoff.checked_add((index * SIZEOF_PHDR) as u64).ok_or(CheckError::Headers)?;
        let segment: ProgramHeader = record(bytes, offset).ok_or(CheckError::Headers)?;
        if segment.p_type == PT_LOAD && segment.p_memsz != 0 {
            pieces.push(piece(&segment, index, bytes.len() as u64)?);
        }
    }
    Ok(pieces)
}

/// The pages of one segment, checked.
fn piece(segment: &ProgramHeader, index: usize, file_size: u64) -> Result<Piece, CheckError> {
    let outside = CheckError::Outside(index);
    let file_end = segment.p_offset.checked_add(segment.p_filesz).ok_or(outside.clone())?;
    let memory_end = segment.p_vaddr.checked_add(segment.p_memsz).ok_or(outside.clone())?;
    let end = memory_end.checked_next_multiple_of(PAGE).ok_or(outside.clone())?;
    if file_end > file_size || segment.p_memsz < segment.p_filesz {
        return Err(outside);
    }
    let in_page = segment.p_vaddr % PAGE;
    if segment.p_offset % PAGE != in_page {
        return Err(CheckError::Incongruent(index));
    }
    let executable = segment.p_flags & PF_X != 0;
    if executable && segment.p_flags & PF_W != 0 {
        return Err(CheckError::Writable(index));
    }
    if executable && segment.p_memsz != segment.p_filesz {
        return Err(CheckError::NotInFile(index));
    }
    Ok(Piece { address: segment.p_vaddr - in_page, end, offset: segment.p_offset - in_page, executable })
}
