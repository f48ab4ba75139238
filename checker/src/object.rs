//! Which bytes of an object file are code: objects have sections instead of segments.
//!
//! Two programs write such files. A compiler writes objects for the linker, whose sections will end up at other
//! addresses, with relocations applied. Wasmtime writes finished machine code in the same form, marked by an ABI number
//! of its own; its runtime maps the sections as they are, in whole pages, so those are looked at:
//!
//! ```text
//!   Wasmtime's file   | headers, .wasmtime.engine |pad| .text ....... |pad| .eh_frame .rodata.wasm … |
//!                                                     ^^^^^^^^^^^^^^^^^^^^^ whole pages
//! ```

use crate::executable::{CheckError, Executable, PAGE, Run, record};
use crate::report::Form;
use goblin::elf64::{
    header::{EI_OSABI, Header},
    section_header::{
        SHF_COMPRESSED, SHF_EXECINSTR, SHF_WRITE, SHT_NOBITS, SHT_REL, SHT_RELA, SIZEOF_SHDR, SectionHeader,
    },
};
use std::ops::Range;

/// The ABI number in Wasmtime's files.
const ELFOSABI_WASMTIME: u8 = 200;
/// No compiler makes as many sections in one object.
const MAX_SECTIONS: u64 = 1 << 20;

/// The executable sections of an object.
pub(crate) fn executable<'a>(bytes: &'a [u8], header: &Header) -> Result<Executable<'a>, CheckError> {
    let sections = sections(bytes, header).ok_or(CheckError::Sections)?;
    let form = match header.e_ident[EI_OSABI] {
        ELFOSABI_WASMTIME => Form::Wasm,
        _ => Form::Relocatable,
    };
    let mut ranges = Vec::new();
    for (index, section) in sections.iter().enumerate().filter(|(_, section)| is_code(section)) {
        let unfit = u64::from(SHF_WRITE | SHF_COMPRESSED);
        if section.sh_flags & unfit != 0 || section.sh_type == SHT_NOBITS {
            return Err(CheckError::SectionUnfit(index));
        }
        let range = file_range(section, bytes.len()).ok_or(CheckError::SectionOutside(index))?;
        ranges.push(if form == Form::Wasm { whole_pages(range, bytes.len()) } else { range });
    }
    if ranges.is_empty() {
        return Err(CheckError::NothingExecutable);
    }
    let filled_in_later = sections
        .iter()
        .filter(|section| matches!(section.sh_type, SHT_REL | SHT_RELA))
        .filter(|section| sections.get(section.sh_info as usize).is_some_and(is_code))
        .map(|section| section.sh_size.checked_div(section.sh_entsize).unwrap_or(0))
        .fold(0, u64::saturating_add);
    let runs = join(ranges, form).into_iter().map(|range| Run::of_file(bytes, range)).collect();
    Ok(Executable { form, runs, filled_in_later })
}

/// All section headers. Where there are too many for the header's field, the first section has their number.
fn sections(bytes: &[u8], header: &Header) -> Option<Vec<SectionHeader>> {
    if usize::from(header.e_shentsize) != SIZEOF_SHDR {
        return None;
    }
    let section = |index: u64| record::<SectionHeader>(bytes, header.e_shoff.checked_add(index * SIZEOF_SHDR as u64)?);
    let count = match header.e_shnum {
        0 => section(0)?.sh_size,
        count => u64::from(count),
    };
    if count > MAX_SECTIONS {
        return None;
    }
    (0..count).map(section).collect()
}

fn is_code(section: &SectionHeader) -> bool {
    section.sh_flags & u64::from(SHF_EXECINSTR) != 0 && section.sh_size != 0
}

fn file_range(section: &SectionHeader, file_size: usize) -> Option<Range<usize>> {
    let start = usize::try_from(section.sh_offset).ok()?;
    let end = start.checked_add(usize::try_from(section.sh_size).ok()?)?;
    (end <= file_size).then_some(start..end)
}

fn whole_pages(range: Range<usize>, file_size: usize) -> Range<usize> {
    let page = PAGE as usize;
    range.start / page * page..range.end.next_multiple_of(page).min(file_size)
}

/// Ranges without overlaps, so that no file is looked at more than once. Pages that touch stay neighbours in memory;
/// sections of an object that touch will not.
fn join(mut ranges: Vec<Range<usize>>, form: Form) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start < last.end || (form == Form::Wasm && range.start == last.end) => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}
