//! Segments: what will be mapped, and the one way from an address to the file's bytes.

use super::file::{part, single};
use super::{ImageError, MAX_SPAN};
use goblin::elf64::program_header::{PF_R, PF_W, PF_X, PT_GNU_RELRO, PT_LOAD, ProgramHeader};
use monohull_abi::layout::{PAGE, page_down, page_up};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What user code may do with a segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Access {
    /// Constants.
    Read,
    /// Data.
    ReadWrite,
    /// Code.
    ReadExecute,
}

/// A part of the file that is mapped.
///
/// `address` and `file_offset` are equal modulo the page size, so mapping the whole pages around the part puts each byte
/// where it belongs. In a writable segment the bytes from `file_size` to `memory_size` are zero; they begin in the
/// middle of a page that comes from the file. In other segments both sizes are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Segment {
    /// First byte, relative to the load base.
    pub address: u64,
    /// Bytes in memory, at least 1.
    pub memory_size: u64,
    /// Where it begins in the file.
    pub file_offset: u64,
    /// Bytes in the file, at most `memory_size`.
    pub file_size: u64,
    /// Rights.
    pub access: Access,
}

impl Segment {
    /// The whole pages it occupies, relative to the load base.
    pub fn pages(&self) -> Range<u64> {
        page_down(self.address)..page_up(self.address + self.memory_size)
    }

    /// Whether `size` bytes at `address` lie in its first `within` bytes.
    fn holds(&self, address: u64, size: u64, within: u64) -> bool {
        let start = address.checked_sub(self.address);
        start.and_then(|start| start.checked_add(size)).is_some_and(|end| end <= within)
    }
}

/// The segments of a file, with the file.
pub(super) struct Segments<'a> {
    pub(super) list: Vec<Segment>,
    bytes: &'a [u8],
}

impl<'a> Segments<'a> {
    /// Checks each segment by itself, and that they ascend page by page.
    pub(super) fn read(bytes: &'a [u8], headers: &[ProgramHeader]) -> Result<Segments<'a>, ImageError> {
        let mut list: Vec<Segment> = Vec::new();
        for (index, header) in headers.iter().enumerate().filter(|(_, header)| header.p_type == PT_LOAD) {
            let segment = segment(index, header)?;
            part(bytes, "segment", segment.file_offset, segment.file_size)?;
            if let Some(last) = list.last() {
                let (address, end) = (segment.address, last.address + last.memory_size);
                if address < last.address {
                    return Err(ImageError::NotAscending { index, address });
                }
                if segment.pages().start < last.pages().end {
                    return Err(ImageError::Overlap { index, address, end });
                }
            }
            list.push(segment);
        }
        if !list.iter().any(|segment| segment.access == Access::ReadExecute) {
            return Err(ImageError::NothingExecutable);
        }
        Ok(Segments { list, bytes })
    }

    /// End of the last page.
    pub(super) fn span(&self) -> u64 {
        self.list.last().map_or(0, |last| last.pages().end)
    }

    /// `size` bytes at `address` as the file has them: inside the file part of one segment.
    pub(super) fn file_part(&self, what: &'static str, address: u64, size: u64) -> Result<&'a [u8], ImageError> {
        let from = self.file_from(address).filter(|from| from.len() as u64 >= size);
        from.map(|from| &from[..size as usize]).ok_or(ImageError::OutsideSegments { what, address, size })
    }

    /// The file's bytes from `address` to the end of the segment's file part.
    pub(super) fn file_from(&self, address: u64) -> Option<&'a [u8]> {
        let segment = self.list.iter().find(|segment| segment.holds(address, 0, segment.file_size))?;
        let start = segment.file_offset + (address - segment.address);
        self.bytes.get(start as usize..(segment.file_offset + segment.file_size) as usize)
    }

    /// Where in the file the byte at `address` is.
    pub(super) fn file_offset(&self, address: u64) -> Option<u64> {
        let segment = self.list.iter().find(|segment| segment.holds(address, 0, segment.file_size))?;
        Some(segment.file_offset + (address - segment.address))
    }

    /// The rights of the one segment that holds `size` bytes at `address` in memory.
    pub(super) fn access_of(&self, address: u64, size: u64) -> Option<Access> {
        let segment = self.list.iter().find(|segment| segment.holds(address, size, segment.memory_size))?;
        Some(segment.access)
    }

    /// Whether the word at `address` lies in the file part of a writable segment.
    pub(super) fn is_writable_word(&self, address: u64) -> bool {
        let holds = |segment: &Segment| segment.holds(address, 8, segment.file_size);
        self.list.iter().any(|segment| segment.access == Access::ReadWrite && holds(segment))
    }

    /// The pages of PT_GNU_RELRO: the first of a writable segment, so that what has to be written again for the next
    /// instance is one piece behind them, and none of bss, which is zeroed for the next instance. As everywhere, the end is rounded down:
    /// what shares the last page stays writable.
    pub(super) fn relro(&self, headers: &[ProgramHeader]) -> Result<Option<Range<u64>>, ImageError> {
        let Some(header) = single(headers, PT_GNU_RELRO, "PT_GNU_RELRO")? else { return Ok(None) };
        let (start, size) = (header.p_vaddr, header.p_memsz);
        let end = start.checked_add(size).ok_or(ImageError::Overflow { what: "PT_GNU_RELRO", start, size })?;
        let inside = |segment: &Segment| {
            let pages = segment.pages();
            let in_file = page_up(segment.address + segment.file_size);
            let ends = end <= pages.end && page_down(end) <= in_file;
            segment.access == Access::ReadWrite && page_down(start) == pages.start && ends
        };
        if !self.list.iter().any(inside) {
            return Err(ImageError::MisplacedRelro { start, end });
        }
        let pages = page_down(start)..page_down(end);
        Ok((!pages.is_empty()).then_some(pages))
    }
}

/// One PT_LOAD, checked by itself.
fn segment(index: usize, header: &ProgramHeader) -> Result<Segment, ImageError> {
    let (address, offset, flags, align) = (header.p_vaddr, header.p_offset, header.p_flags, header.p_align);
    let (memory_size, file_size) = (header.p_memsz, header.p_filesz);
    let access = match flags {
        _ if flags & PF_W != 0 && flags & PF_X != 0 => return Err(ImageError::WritableCode { index, flags }),
        PF_R => Access::Read,
        _ if flags == PF_R | PF_W => Access::ReadWrite,
        _ if flags == PF_R | PF_X => Access::ReadExecute,
        _ => return Err(ImageError::StrangeAccess { index, flags }),
    };
    if memory_size == 0 && file_size == 0 {
        return Err(ImageError::EmptySegment { index });
    }
    if file_size > memory_size {
        return Err(ImageError::LargerInFile { index, file_size, memory_size });
    }
    if access != Access::ReadWrite && file_size != memory_size {
        return Err(ImageError::ReadOnlyZeros { index, file_size, memory_size });
    }
    if align > PAGE || !(align == 0 || align.is_power_of_two()) {
        return Err(ImageError::Alignment { index, align });
    }
    if address % PAGE != offset % PAGE {
        return Err(ImageError::Incongruent { index, offset, address });
    }
    let end = address.checked_add(memory_size);
    let end = end.ok_or(ImageError::Overflow { what: "segment", start: address, size: memory_size })?;
    if end > MAX_SPAN {
        return Err(ImageError::TooLarge { span: end });
    }
    Ok(Segment { address, memory_size, file_offset: offset, file_size, access })
}
