//! Appends a compiled program to the runtime's image.
//!
//! ```text
//!   file     | runtime, as it was linked | compiled program               | lines | attachment | new program headers |
//!   memory   | runtime's segments        | r-- … | r-x .text | r-- tables | r--   | r--        |
//!                   └ MONOHULL_WASI_PROGRAM: where they are, and how the program was compiled
//! ```
//!
//! The compiled program is an ELF file of Wasmtime's, which its runtime wants to find in one piece. It has no relocations. Only its
//! section `.text` becomes executable: its tables hold bytes that would look like forbidden instructions by accident.
//!
//! To an image that has an attachment more can be attached, without compiling anything again: an interpreter's program.

use goblin::elf::header::header64::{self, Header};
use goblin::elf::program_header::program_header64::{ProgramHeader, SIZEOF_PHDR};
use goblin::elf::program_header::{PF_R, PF_X, PT_LOAD};
use goblin::elf::section_header::{SHF_ALLOC, SHT_NULL};
use goblin::elf::{Elf, SectionHeader};
use monohull_wasi_settings::Checks;
use std::ops::Range;

/// The runtime's symbol for the place that holds the program's position.
const PLACE: &str = "MONOHULL_WASI_PROGRAM";
/// Bytes of the nine numbers there.
const PLACE_SIZE: u64 = 72;
/// Which of them say where the attachment is, and how long.
const ATTACHMENT: u64 = 5;
const ATTACHMENT_LENGTH: u64 = 6;
const PAGE: u64 = 4096;

/// Why the parts cannot be put together. The runtime and the compiler are Monohull's, and so is the fault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    /// A part is no ELF file.
    #[error("the {part} cannot be read as an ELF file: {source}")]
    NotElf {
        /// Which part.
        part: &'static str,
        /// What is wrong with it.
        source: goblin::error::Error,
    },
    /// The runtime is no runtime.
    #[error("this is no runtime for WebAssembly: it does not have {PLACE} in its data")]
    NoPlace,
    /// The compiled program's code does not begin where a page begins.
    #[error("the compiled program's code begins at {0:#x}, which is no page's start")]
    Code(u64),
    /// The image to which something is to be attached has no attachment yet.
    #[error("the image has no attachment that could become longer")]
    NoAttachment,
    /// The compiled program would have to be relocated.
    #[error("the compiled program has a section that would have to be relocated, or written to: {0}")]
    Section(String),
}

/// The parts of a program.
pub(crate) struct Parts<'p> {
    /// Compiled, as Wasmtime has it.
    pub(crate) program: &'p [u8],
    /// Its table of source lines; may be empty.
    pub(crate) lines: &'p [u8],
    /// What is attached to it; may be empty.
    pub(crate) attachment: &'p [u8],
}

/// The image of a function: the runtime with this program.
pub(crate) fn link(runtime: &[u8], parts: &Parts<'_>, checks: Checks) -> Result<Vec<u8>, ImageError> {
    let Parts { program, lines, attachment } = *parts;
    let elf = Elf::parse(runtime).map_err(|source| ImageError::NotElf { part: "runtime", source })?;
    let code = code(program)?;
    let base = end_of(&elf)?;
    let (place_address, place_offset) = place(&elf)?;

    let mut image = runtime.to_vec();
    let length = program.len() as u64;
    // Each part begins where a page begins, and the attachment is the last one: it may become longer.
    let lined = length.next_multiple_of(PAGE);
    let attached = (lined + lines.len() as u64).next_multiple_of(PAGE);
    let end = match (lines, attachment) {
        ([], []) => length,
        (_, []) => lined + lines.len() as u64,
        _ => attached + attachment.len() as u64,
    };
    let distance = base - place_address;
    let numbers = [
        distance,
        length,
        code.start,
        code.end - code.start,
        checks.to_raw(),
        distance + attached,
        attachment.len() as u64,
        distance + lined,
        lines.len() as u64,
    ];
    let numbers = numbers.map(u64::to_le_bytes).concat();
    image
        .get_mut(place_offset as usize..)
        .and_then(|rest| rest.get_mut(..numbers.len()))
        .ok_or(ImageError::NoPlace)?
        .copy_from_slice(&numbers);
    pad(&mut image);
    let start = image.len() as u64;
    image.extend_from_slice(program);
    pad(&mut image);
    image.extend_from_slice(lines);
    pad(&mut image);
    image.extend_from_slice(attachment);
    pad(&mut image);
    let table = image.len() as u64;
    let appended = [(0..code.start, PF_R), (code.clone(), PF_R | PF_X), (code.end..end, PF_R)];
    let segments = appended.into_iter().filter(|(range, _)| !range.is_empty()).map(|(range, flags)| ProgramHeader {
        p_type: PT_LOAD,
        p_flags: flags,
        p_offset: start + range.start,
        p_vaddr: base + range.start,
        p_paddr: base + range.start,
        p_filesz: range.end - range.start,
        p_memsz: range.end - range.start,
        p_align: PAGE,
    });
    put_headers(&mut image, &elf, segments, table);
    Ok(image)
}

/// A copy of an image with a longer attachment: what is added begins where a page begins, and zeros lie before it.
pub(crate) fn attach(image: &[u8], more: &[u8]) -> Result<Vec<u8>, ImageError> {
    let elf = Elf::parse(image).map_err(|source| ImageError::NotElf { part: "image", source })?;
    let (base, (place_address, place_offset)) = (end_of(&elf)?, place(&elf)?);
    let number = |index: u64| {
        let at = (place_offset + index * 8) as usize;
        image.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| u64::from_le_bytes(*bytes)).ok_or(ImageError::NoPlace)
    };
    if number(ATTACHMENT_LENGTH)? == 0 {
        return Err(ImageError::NoAttachment);
    }
    // It is the end of what is there, and the new part comes behind it.
    let attachment = place_address.wrapping_add(number(ATTACHMENT)?);
    let length = (base + more.len() as u64).checked_sub(attachment).ok_or(ImageError::NoAttachment)?;
    let mut image = image.to_vec();
    let at = (place_offset + ATTACHMENT_LENGTH * 8) as usize;
    image[at..at + 8].copy_from_slice(&length.to_le_bytes());
    pad(&mut image);
    let start = image.len() as u64;
    image.extend_from_slice(more);
    pad(&mut image);
    let (table, length) = (image.len() as u64, more.len() as u64);
    let segment = ProgramHeader {
        p_type: PT_LOAD,
        p_flags: PF_R,
        p_offset: start,
        p_vaddr: base,
        p_paddr: base,
        p_filesz: length,
        p_memsz: length,
        p_align: PAGE,
    };
    put_headers(&mut image, &elf, (length > 0).then_some(segment), table);
    Ok(image)
}

/// The first page behind all segments.
fn end_of(elf: &Elf<'_>) -> Result<u64, ImageError> {
    let segments = elf.program_headers.iter().filter(|header| header.p_type == PT_LOAD);
    let end = segments.map(|header| header.p_vaddr + header.p_memsz).max().ok_or(ImageError::NoPlace)?;
    Ok(end.next_multiple_of(PAGE))
}

/// Writes the segments that there were and new ones at the end of the file, where `table` is.
fn put_headers(image: &mut Vec<u8>, elf: &Elf<'_>, new: impl IntoIterator<Item = ProgramHeader>, table: u64) {
    let headers: Vec<ProgramHeader> = elf.program_headers.iter().cloned().map(ProgramHeader::from).chain(new).collect();
    for header in &headers {
        image.extend_from_slice(&bytes_of(header));
    }
    set_table(image, table, headers.len() as u16);
}

/// The part of the compiled program that is code, in whole pages.
fn code(program: &[u8]) -> Result<Range<u64>, ImageError> {
    let elf = Elf::parse(program).map_err(|source| ImageError::NotElf { part: "compiled program", source })?;
    let name = |section: &SectionHeader| elf.shdr_strtab.get_at(section.sh_name).unwrap_or_default();
    for section in elf.section_headers.iter().filter(|section| section.sh_type != SHT_NULL) {
        if section.is_writable() && u64::from(SHF_ALLOC) & section.sh_flags != 0 || section.is_relocation() {
            return Err(ImageError::Section(name(section).to_owned()));
        }
    }
    let len = program.len() as u64;
    let text = elf.section_headers.iter().find(|section| name(section) == ".text" && section.sh_size > 0);
    // A program without functions has no code.
    let Some(text) = text else { return Ok(len..len) };
    let end = text.sh_offset.saturating_add(text.sh_size).next_multiple_of(PAGE).min(len);
    if !text.sh_offset.is_multiple_of(PAGE) || text.sh_offset >= end {
        return Err(ImageError::Code(text.sh_offset));
    }
    Ok(text.sh_offset..end)
}

/// Address and file offset of the place that holds the program's position.
fn place(elf: &Elf<'_>) -> Result<(u64, u64), ImageError> {
    let mut symbols = elf.dynsyms.iter();
    let symbol =
        symbols.find(|symbol| elf.dynstrtab.get_at(symbol.st_name) == Some(PLACE)).ok_or(ImageError::NoPlace)?;
    let address = symbol.st_value;
    let holds = |header: &&goblin::elf::ProgramHeader| {
        let file = header.p_vaddr..header.p_vaddr.saturating_add(header.p_filesz);
        header.p_type == PT_LOAD && file.contains(&address) && file.contains(&(address + PLACE_SIZE - 1))
    };
    let segment = elf.program_headers.iter().find(holds).ok_or(ImageError::NoPlace)?;
    Ok((address, segment.p_offset + (address - segment.p_vaddr)))
}

/// Adds zeros up to the next page.
fn pad(image: &mut Vec<u8>) {
    image.resize(image.len().next_multiple_of(PAGE as usize), 0);
}

/// Says in the file's header where the program headers are now.
fn set_table(image: &mut [u8], offset: u64, count: u16) {
    let table = std::mem::offset_of!(Header, e_phoff);
    image[table..table + 8].copy_from_slice(&offset.to_le_bytes());
    let number = std::mem::offset_of!(Header, e_phnum);
    image[number..number + 2].copy_from_slice(&count.to_le_bytes());
}

/// A program header as it stands in a file.
fn bytes_of(header: &ProgramHeader) -> [u8; SIZEOF_PHDR] {
    let mut bytes = [0; SIZEOF_PHDR];
    bytes[..4].copy_from_slice(&header.p_type.to_le_bytes());
    bytes[4..8].copy_from_slice(&header.p_flags.to_le_bytes());
    let words = [header.p_offset, header.p_vaddr, header.p_paddr, header.p_filesz, header.p_memsz, header.p_align];
    for (word, at) in words.into_iter().zip((8..).step_by(8)) {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

const _: () = assert!(header64::SIZEOF_EHDR == size_of::<Header>());
