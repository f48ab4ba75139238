//! Which bytes of a file will be executable, and at what addresses.
//!
//! Only as much of ELF is read as decides this; every count and offset is checked against the file first. What the
//! loader refuses for other reasons is not repeated here, except where the verdict would mean nothing: an
//! executable segment that is writable, or pages that two segments claim. Files without segments are `object`'s.

use crate::executable::{CheckError, Executable, MAX_SEGMENTS, PAGE, Piece, Run, record};
use crate::{object, report::Form};
use goblin::elf64::{
    header::{EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, EM_X86_64, ET_REL, Header, SIZEOF_EHDR},
    program_header::{PF_W, PF_X, PT_LOAD, ProgramHeader, SIZEOF_PHDR},
};
use std::borrow::Cow;

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
