//! Names for addresses, for reports.
//!
//! Symbols decide nothing, so a file whose symbol tables or section headers are damaged just has fewer names.

use crate::elf::header;
use crate::executable::record;
use goblin::elf64::{
    header::ET_REL,
    section_header::{SHT_DYNSYM, SHT_SYMTAB, SIZEOF_SHDR, SectionHeader},
    sym::{SIZEOF_SYM, STT_FUNC, STT_NOTYPE, STT_OBJECT, Sym, st_type},
};
use std::borrow::Cow;

/// The most symbols that are kept of one file.
const MAX_SYMBOLS: usize = 1 << 20;
/// Longer names are left out.
const MAX_NAME: usize = 1024;
/// The most bytes of names that are kept of one file (many symbols can share one name in the file, but not here).
const MAX_NAMES: usize = 64 << 20;

/// The named places of one image, sorted by address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SymbolTable {
    places: Vec<Place>,
    /// All names, one after the other.
    names: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    address: u64,
    size: u64,
    /// Where a symbol without a size ends, unless another begins before.
    section_end: u64,
    name: (u32, u32),
}

/// The symbol an address lies in. It is printed as `name + 0x12`, demangled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Symbol<'a> {
    /// The name as the linker knows it.
    pub mangled: &'a str,
    /// How far behind the symbol's start the address lies.
    pub offset: u64,
}

impl Symbol<'_> {
    /// The name as people write it, without the hash of its crate.
    pub fn name(&self) -> String {
        format!("{:#}", rustc_demangle::demangle(self.mangled))
    }
}

impl std::fmt::Display for Symbol<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#} + {:#x}", rustc_demangle::demangle(self.mangled), self.offset)
    }
}

impl SymbolTable {
    /// All functions and data that the section headers lead to, as far as they are sound.
    pub fn read(bytes: &[u8]) -> SymbolTable {
        let mut table = SymbolTable::default();
        if let Some(header) = header(bytes).filter(|header| usize::from(header.e_shentsize) == SIZEOF_SHDR) {
            let section = |index: usize| -> Option<SectionHeader> {
                record(bytes, header.e_shoff.checked_add((index * SIZEOF_SHDR) as u64)?)
            };
            let sections = || (0..usize::from(header.e_shnum)).map_while(section);
            // A file has at most one of each.
            for kind in [SHT_SYMTAB, SHT_DYNSYM] {
                if let Some(symbols) = sections().find(|section| section.sh_type == kind)
                    && let Some(names) = section(symbols.sh_link as usize)
                {
                    // Symbols of an object count from their section, whose address is its place in the file.
                    let base_and_end = |index: u16| {
                        let section = section(usize::from(index))?;
                        let (base, start) = match header.e_type {
                            ET_REL => (section.sh_offset, section.sh_offset),
                            _ => (0, section.sh_addr),
                        };
                        Some((base, start.saturating_add(section.sh_size)))
                    };
                    table.add_section(contents(bytes, &symbols), contents(bytes, &names), base_and_end);
                }
            }
        }
        table.sort();
        table
    }

    /// Adds the symbols of a file that is a part of this one, whose own addresses count from `base`: those of a WebAssembly program in its image.
    pub fn add_part(&mut self, part: &[u8], base: u64) {
        let theirs = SymbolTable::read(part);
        for place in theirs.places.iter().take(MAX_SYMBOLS - self.places.len().min(MAX_SYMBOLS)) {
            let name = name_in_program(&theirs.names[place.name.0 as usize..place.name.1 as usize]);
            let end = place.section_end.saturating_add(base);
            self.add(place.address.saturating_add(base), place.size, end, Some(&name));
        }
        self.sort();
    }

    /// The same place often has a name in both tables; of several names one with a size is best.
    fn sort(&mut self) {
        self.places.sort_by_key(|place| (place.address, std::cmp::Reverse(place.size)));
        self.places.dedup_by_key(|place| place.address);
    }

    fn add_section(&mut self, symbols: &[u8], names: &[u8], base_and_end: impl Fn(u16) -> Option<(u64, u64)>) {
        for symbol in symbols.chunks_exact(SIZEOF_SYM).filter_map(|chunk| record::<Sym>(chunk, 0)) {
            let named = matches!(st_type(symbol.st_info), STT_FUNC | STT_OBJECT | STT_NOTYPE);
            // Special section numbers (0xff00 and above) are no places; 0 is "defined elsewhere".
            if named
                && (1..0xff00).contains(&symbol.st_shndx)
                && self.places.len() < MAX_SYMBOLS
                && let Some((base, section_end)) = base_and_end(symbol.st_shndx)
                && let Some(address) = base.checked_add(symbol.st_value)
            {
                self.add(address, symbol.st_size, section_end, name(names, symbol.st_name));
            }
        }
    }

    fn add(&mut self, address: u64, size: u64, section_end: u64, name: Option<&str>) -> Option<()> {
        let name = name.filter(|name| !name.is_empty() && self.names.len() + name.len() <= MAX_NAMES)?;
        let start = u32::try_from(self.names.len()).ok()?;
        let end = u32::try_from(self.names.len() + name.len()).ok()?;
        self.names.push_str(name);
        self.places.push(Place { address, size, section_end, name: (start, end) });
        Some(())
    }

    /// The symbol that `address` (relative to the load base) lies in. A symbol without a size reaches to the next one, within its section:
    /// the linker's `__ehdr_start` at the image's start is no name of the code behind it.
    pub fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let after = self.places.partition_point(|place| place.address <= address);
        let place = self.places[..after].last()?;
        let offset = address - place.address;
        let mangled = &self.names[place.name.0 as usize..place.name.1 as usize];
        let reaches = if place.size == 0 { address < place.section_end } else { offset < place.size };
        reaches.then_some(Symbol { mangled, offset })
    }

    /// Number of named places.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nothing has a name.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// What a function of a WebAssembly program is called in it. Wasmtime calls it `wasm[MODULE]::function[INDEX]::NAME`, without the last part if it has no
/// name. Other code has names that say what it is for.
fn name_in_program(symbol: &str) -> Cow<'_, str> {
    let function = || symbol.strip_prefix("wasm[")?.split_once("]::function[")?.1.split_once(']');
    match function() {
        Some((index, "")) => Cow::Owned(format!("<wasm function {index}>")),
        Some((_, name)) => Cow::Borrowed(name.trim_start_matches(':')),
        None => Cow::Borrowed(symbol),
    }
}

/// A section's bytes; nothing if they lie outside the file.
fn contents<'a>(bytes: &'a [u8], section: &SectionHeader) -> &'a [u8] {
    let range = || {
        let start = usize::try_from(section.sh_offset).ok()?;
        bytes.get(start..start.checked_add(usize::try_from(section.sh_size).ok()?)?)
    };
    range().unwrap_or_default()
}

/// The text at `offset` up to the next zero byte.
fn name(names: &[u8], offset: u32) -> Option<&str> {
    let from = names.get(offset as usize..)?;
    let end = from.iter().take(MAX_NAME).position(|&byte| byte == 0)?;
    std::str::from_utf8(&from[..end]).ok()
}
