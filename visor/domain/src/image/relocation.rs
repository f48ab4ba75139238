//! Relocations: the words of an image that depend on where it is loaded.

use super::dynamic::Dynamic;
use super::file::{MAX_RELOCATIONS, records};
use super::segment::Segments;
use super::symbol::DynamicSymbols;
use super::tls::{self, TlsTemplate};
use super::words::{Relocation, Relocations, Value};
use super::{ImageError, MAX_SPAN};
use goblin::elf64::{
    header::EM_X86_64,
    reloc::{
        R_X86_64_64, R_X86_64_DTPMOD64, R_X86_64_DTPOFF64, R_X86_64_GLOB_DAT, R_X86_64_IRELATIVE, R_X86_64_JUMP_SLOT,
        R_X86_64_NONE, R_X86_64_RELATIVE, R_X86_64_TLSDESC, R_X86_64_TPOFF64, Rela, SIZEOF_RELA, r_sym, r_to_str,
        r_type,
    },
};

/// Reads both tables, checks every entry and puts them in the order of their addresses.
pub(super) fn read(
    segments: &Segments,
    dynamic: &Dynamic,
    symbols: &DynamicSymbols,
    tls: Option<&TlsTemplate>,
) -> Result<Relocations, ImageError> {
    let count = dynamic.relocations.iter().fold(0, |sum: u64, table| sum.saturating_add(table.1 / SIZEOF_RELA as u64));
    if count > MAX_RELOCATIONS {
        return Err(ImageError::TooManyRelocations { count });
    }
    let mut list = List { words: Vec::with_capacity(count as usize), absolute: Vec::new() };
    for (address, size) in dynamic.relocations.into_iter().filter(|table| table.1 != 0) {
        let what = "relocation table";
        if size % SIZEOF_RELA as u64 != 0 {
            return Err(ImageError::RaggedTable { what, size });
        }
        for entry in records::<Rela>(segments.file_part(what, address, size)?) {
            if r_type(entry.r_info) != R_X86_64_NONE {
                list.push(relocation(segments, symbols, tls, &entry)?);
            }
        }
    }
    // No word is written twice, so the order in the file does not matter. A linker leaves a few long runs that are in order, which this finds.
    list.words.sort();
    match list.words.windows(2).find(|pair| pair[0] >> OFFSET == pair[1] >> OFFSET) {
        Some(pair) => Err(ImageError::DuplicateRelocation { offset: pair[0] >> OFFSET }),
        None => Ok(list.pack()),
    }
}

/// Relocations while they are put in order, as small as they can be: there may be tens of thousands, and the memory of each page of them has to be made.
///
/// ```text
///   offset << 32 | value                 an address of the image; both are at most the largest image's bytes
///   offset << 32 | 1 << 31 | index       a value among `absolute`
/// ```
struct List {
    words: Vec<u64>,
    absolute: Vec<u64>,
}

/// Where a word of a list has the offset, and what says that the rest is an index.
const OFFSET: u32 = 32;
const INDEX: u64 = 1 << 31;
const _: () = assert!(MAX_SPAN < INDEX && MAX_RELOCATIONS < INDEX);

impl List {
    /// Adds one that has been checked.
    fn push(&mut self, Relocation { offset, value }: Relocation) {
        let value = match value {
            Value::Base(value) => value,
            Value::Absolute(value) => {
                self.absolute.push(value);
                INDEX | (self.absolute.len() - 1) as u64
            }
        };
        self.words.push(offset << OFFSET | value);
    }

    fn pack(&self) -> Relocations {
        let each = self.words.iter().map(|word| {
            let (offset, value) = (word >> OFFSET, word % (1 << OFFSET));
            let value = if value & INDEX == 0 {
                Value::Base(value)
            } else {
                Value::Absolute(self.absolute[(value & !INDEX) as usize])
            };
            Relocation { offset, value }
        });
        Relocations::pack(each, self.absolute.len())
    }
}

fn relocation(
    segments: &Segments,
    symbols: &DynamicSymbols,
    tls: Option<&TlsTemplate>,
    entry: &Rela,
) -> Result<Relocation, ImageError> {
    let (offset, index, addend) = (entry.r_offset, r_sym(entry.r_info), entry.r_addend);
    let kind = r_type(entry.r_info);
    let name = r_to_str(kind, EM_X86_64);
    let count = symbols.count();
    if index >= count && kind != R_X86_64_RELATIVE {
        return Err(ImageError::BadSymbolIndex { offset, index, count });
    }
    let symbol = || symbols.address(index);
    // A thread-local variable and its place in the template, which is there if such a symbol is.
    let variable = || {
        let place = symbols.thread_local_offset(index).zip(tls);
        place.ok_or(ImageError::NotThreadLocal { offset, name })
    };
    let value = match kind {
        R_X86_64_RELATIVE => Value::Base(addend as u64),
        R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT => symbol()?.map_or(Value::Absolute(0), Value::Base),
        R_X86_64_64 => match symbol()? {
            Some(address) => Value::Base(address.wrapping_add_signed(addend)),
            None => Value::Absolute(addend as u64),
        },
        // Without a symbol it is for variables that the linker has found in this image.
        R_X86_64_DTPMOD64 if index == 0 && tls.is_some() => Value::Absolute(tls::MODULE),
        R_X86_64_DTPMOD64 => variable().map(|_| Value::Absolute(tls::MODULE))?,
        R_X86_64_DTPOFF64 => {
            let (start, tls) = variable()?;
            let value = start.wrapping_add_signed(addend);
            if value > tls.memory_size {
                return Err(ImageError::ThreadLocalOutside { offset, value });
            }
            Value::Absolute(value)
        }
        R_X86_64_TPOFF64 | R_X86_64_TLSDESC => return Err(ImageError::ThreadLocalModel { offset, name }),
        R_X86_64_IRELATIVE => return Err(ImageError::IndirectRelocation { offset }),
        kind => return Err(ImageError::RelocationType { offset, kind, name }),
    };
    if let Value::Base(address) = value
        && address > segments.span()
    {
        return Err(ImageError::ValueOutside { offset, value: address });
    }
    if offset % 8 != 0 {
        return Err(ImageError::MisalignedRelocation { offset });
    }
    if !segments.is_writable_word(offset) {
        return Err(ImageError::RelocationOutside { offset });
    }
    Ok(Relocation { offset, value })
}
