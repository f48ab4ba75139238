//! Rust's std without what no image can use: the part that finds the names and lines of addresses for backtraces.
//!
//! It reads them from the program's file, which a function does not have: a backtrace that it prints has addresses, and that of a report, which the
//! system makes, has names. But every panic may ask for one, so a linker keeps a reader of debug information and a decompressor, a quarter
//! of a megabyte. One function of std calls all of that, and gives nothing back:
//!
//! ```text
//!   std::panicking, std::backtrace ─▶ …::gimli::Cache::with_global ─▶ gimli, addr2line, miniz_oxide, …
//!                                      └─ returns at once ┘           └─ nothing names them ┘
//! ```
//!
//! The linker is given a copy of std in which that function is a return, and has no relocations. A std
//! that has no such function is linked as it is.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use goblin::archive::Archive;
use goblin::elf::Elf;
use goblin::elf::reloc::R_X86_64_PC32;
use goblin::elf::section_header::{SHT_PROGBITS, SHT_RELA};

/// Parts of the function's name, in each way of rustc to write names.
const FUNCTION: [&str; 3] = [".text.", "12backtrace_rs9symbolize5gimli", "11with_global"];
const RET: u8 = 0xc3;
/// What is never reached.
const INT3: u8 = 0xcc;
/// In the header of a section: where its length is.
const LENGTH: usize = 32;

/// A copy of std for one call of the linker, beside its output. Dropping it removes it.
pub(super) struct SmallerStd {
    std: OsString,
    copy: PathBuf,
}

impl SmallerStd {
    /// The copy, if std is among the linker's arguments, and can be made smaller.
    pub(super) fn make(arguments: &[OsString], output: &Path) -> Option<SmallerStd> {
        let std = arguments.iter().find(|argument| is_std(Path::new(argument)))?;
        let smaller = without_symbolizer(fs::read(std).ok()?)?;
        let mut copy = output.as_os_str().to_owned();
        copy.push(format!(".{}.std.rlib", std::process::id()));
        let made = SmallerStd { std: std.clone(), copy: copy.into() };
        fs::write(&made.copy, smaller).ok()?;
        Some(made)
    }

    /// What the linker is given for this argument.
    pub(super) fn in_place_of<'a>(&'a self, argument: &'a OsStr) -> &'a OsStr {
        if argument == self.std { self.copy.as_os_str() } else { argument }
    }
}

impl Drop for SmallerStd {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.copy);
    }
}

fn is_std(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("libstd-") && name.ends_with(".rlib")
}

/// The archive with that function made empty, if it has the function.
fn without_symbolizer(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let archive = Archive::parse(&bytes).ok()?;
    let members = (0..archive.len()).filter_map(|at| archive.get_at(at));
    let places = members.filter_map(|member| {
        let start = usize::try_from(member.offset).ok()?;
        Some((start, bytes.get(start..start.checked_add(member.size())?)?))
    });
    let edits: Vec<_> = places.filter_map(|(start, object)| Some((start, edits(object)?))).collect();
    for (start, edits) in &edits {
        for Edit { at, bytes: new } in edits {
            bytes.get_mut(*start..)?.get_mut(*at..)?.get_mut(..new.len())?.copy_from_slice(new);
        }
    }
    (!edits.is_empty()).then_some(bytes)
}

/// Bytes that others take the place of.
struct Edit {
    /// Where, from the object's start.
    at: usize,
    bytes: Vec<u8>,
}

/// What makes the function of an object empty, if it has the function: its code, the length of that in the table of sections and in the entry for
/// unwinding, and the number of its relocations.
fn edits(object: &[u8]) -> Option<Vec<Edit>> {
    let elf = Elf::parse(object).ok()?;
    let is_function = |name: usize| {
        let name = elf.shdr_strtab.get_at(name).unwrap_or_default();
        name.starts_with(FUNCTION[0]) && FUNCTION.iter().all(|part| name.contains(part))
    };
    let sections = || elf.section_headers.iter().enumerate();
    let (function, section) =
        sections().find(|(_, section)| section.sh_type == SHT_PROGBITS && is_function(section.sh_name))?;
    let (relocations, _) =
        sections().find(|(_, section)| section.sh_type == SHT_RELA && section.sh_info as usize == function)?;
    let length = |section: usize, length: u64| {
        let header = section.checked_mul(usize::from(elf.header.e_shentsize))?.checked_add(LENGTH)?;
        let at = usize::try_from(elf.header.e_shoff).ok()?.checked_add(header)?;
        Some(Edit { at, bytes: length.to_le_bytes().into() })
    };
    let code = Edit { at: usize::try_from(section.sh_offset).ok()?, bytes: vec![RET, INT3, INT3, INT3] };
    let left = code.bytes.len() as u64;
    // Where the function begins in its entry for unwinding; how long it is comes next, in as many bytes.
    let entries = elf.shdr_relocs.iter().flat_map(|(header, relocations)| {
        let of = elf.section_headers.get(*header).map_or(0, |section| section.sh_info as usize);
        relocations.iter().map(move |relocation| (of, relocation))
    });
    let mut entries = entries.filter(|(of, relocation)| {
        let names = |section: usize| elf.shdr_strtab.get_at(elf.section_headers.get(section)?.sh_name);
        let symbol = elf.syms.get(relocation.r_sym);
        let is_beginning = relocation.r_type == R_X86_64_PC32 && relocation.r_addend == Some(0);
        is_beginning && symbol.is_some_and(|symbol| symbol.st_shndx == function) && names(*of) == Some(".eh_frame")
    });
    let (of, entry) = entries.next()?;
    let at = elf.section_headers.get(of)?.sh_offset.checked_add(entry.r_offset)?.checked_add(4)?;
    let entry = Edit { at: usize::try_from(at).ok()?, bytes: (left as u32).to_le_bytes().into() };
    Some(vec![code, length(function, left)?, entry, length(relocations, 0)?])
}
