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
//! The linker is given a copy of std in which the first instruction of that function is a return, and in which it has no relocations. A std
//! that has no such function is linked as it is.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use goblin::archive::Archive;
use goblin::elf::Elf;
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
    let changes: Vec<_> = places.filter_map(|(start, object)| Some((start, Change::of(object)?))).collect();
    for (start, change) in &changes {
        let object = bytes.get_mut(*start..)?;
        let code = object.get_mut(change.code..)?.get_mut(..change.length)?;
        code.fill(INT3);
        *code.first_mut()? = RET;
        object.get_mut(change.relocations..)?.get_mut(..8)?.fill(0);
    }
    (!changes.is_empty()).then_some(bytes)
}

/// What becomes different in an object, from its start.
struct Change {
    /// The function's code.
    code: usize,
    length: usize,
    /// How many bytes of relocations it has.
    relocations: usize,
}

impl Change {
    fn of(object: &[u8]) -> Option<Change> {
        let elf = Elf::parse(object).ok()?;
        let is_function = |name: usize| {
            let name = elf.shdr_strtab.get_at(name).unwrap_or_default();
            name.starts_with(FUNCTION[0]) && FUNCTION.iter().all(|part| name.contains(part))
        };
        let mut sections = elf.section_headers.iter();
        let at = sections.position(|section| section.sh_type == SHT_PROGBITS && is_function(section.sh_name))?;
        let relocations = elf.section_headers.iter();
        let mut relocations = relocations.enumerate().filter(|(_, section)| section.sh_type == SHT_RELA);
        let (relocations, _) = relocations.find(|(_, section)| section.sh_info as usize == at)?;
        let section = &elf.section_headers[at];
        let header = usize::try_from(elf.header.e_shoff).ok()?;
        let relocations = header.checked_add(relocations.checked_mul(usize::from(elf.header.e_shentsize))?)?;
        Some(Change {
            code: usize::try_from(section.sh_offset).ok()?,
            length: usize::try_from(section.sh_size).ok()?,
            relocations: relocations.checked_add(LENGTH)?,
        })
    }
}
