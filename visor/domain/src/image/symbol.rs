//! The dynamic symbols: what an image exports, and what its relocations refer to.

use super::ImageError;
use super::dynamic::Dynamic;
use super::file::{MAX_NAME, MAX_SYMBOLS, records};
use super::segment::Segments;
use super::tls::TlsTemplate;
use goblin::elf64::{
    section_header::{SHN_LORESERVE, SHN_UNDEF},
    sym::{SIZEOF_SYM, STB_LOCAL, STB_WEAK, STT_GNU_IFUNC, STT_TLS, Sym, st_bind, st_type},
};

/// Checked dynamic symbols. Everything that is defined lies in a segment, everything else is weak.
pub(super) struct DynamicSymbols<'a> {
    list: Vec<Sym>,
    strings: &'a [u8],
}

impl<'a> DynamicSymbols<'a> {
    /// Reads the table and checks every symbol of it.
    pub(super) fn read(
        segments: &Segments<'a>,
        dynamic: &Dynamic,
        tls: Option<&TlsTemplate>,
    ) -> Result<DynamicSymbols<'a>, ImageError> {
        let count = match (dynamic.gnu_hash, dynamic.hash) {
            (Some(address), _) => gnu_hash_count(segments, address)?,
            (None, Some(address)) => hash_count(segments, address)?,
            (None, None) => return Err(ImageError::MissingDynamic { tag: "DT_GNU_HASH" }),
        };
        if count > MAX_SYMBOLS {
            return Err(ImageError::TooManySymbols { count });
        }
        let table = segments.file_part("symbol table", dynamic.symbols, count * SIZEOF_SYM as u64)?;
        let strings = segments.file_part("string table", dynamic.strings.0, dynamic.strings.1)?;
        let symbols = DynamicSymbols { list: records(table).collect(), strings };
        // Symbol 0 is "none".
        for index in 1..symbols.count() {
            symbols.check(segments, tls, index)?;
        }
        Ok(symbols)
    }

    /// Number of symbols, the "none" at the beginning included.
    pub(super) fn count(&self) -> u32 {
        self.list.len() as u32
    }

    /// The address of an exported symbol.
    pub(super) fn find(&self, wanted: &'static str) -> Result<u64, ImageError> {
        for (index, symbol) in (0..).zip(&self.list).skip(1) {
            let exported = symbol.st_shndx != SHN_UNDEF as u16 && st_bind(symbol.st_info) != STB_LOCAL;
            if exported && self.name(index)? == wanted.as_bytes() {
                return self
                    .address(index)
                    .and_then(|address| address.ok_or(ImageError::MissingSymbol { name: wanted }));
            }
        }
        Err(ImageError::MissingSymbol { name: wanted })
    }

    /// Where symbol `index` is; `None` for an undefined weak one. The index must be below [`Self::count`].
    pub(super) fn address(&self, index: u32) -> Result<Option<u64>, ImageError> {
        let symbol = &self.list[index as usize];
        match u32::from(symbol.st_shndx) {
            SHN_UNDEF if st_bind(symbol.st_info) == STB_WEAK => Ok(None),
            SHN_UNDEF => Err(ImageError::Undefined { name: self.text(index) }),
            SHN_LORESERVE.. => Err(ImageError::NoPlace { name: self.text(index), section: symbol.st_shndx }),
            _ if st_type(symbol.st_info) == STT_TLS => Err(ImageError::ThreadLocalAddress { name: self.text(index) }),
            _ => Ok(Some(symbol.st_value)),
        }
    }

    /// Where in a thread's copy of the template the thread-local variable `index` is; `None` if the symbol is none. The index
    /// must be below [`Self::count`].
    pub(super) fn thread_local_offset(&self, index: u32) -> Option<u64> {
        let symbol = &self.list[index as usize];
        let is_defined = !matches!(u32::from(symbol.st_shndx), SHN_UNDEF | SHN_LORESERVE..);
        (is_defined && st_type(symbol.st_info) == STT_TLS).then_some(symbol.st_value)
    }

    fn check(&self, segments: &Segments, tls: Option<&TlsTemplate>, index: u32) -> Result<(), ImageError> {
        let symbol = &self.list[index as usize];
        self.name(index)?;
        match st_type(symbol.st_info) {
            STT_GNU_IFUNC => return Err(ImageError::IndirectFunction { name: self.text(index) }),
            STT_TLS => return self.check_thread_local(tls, index),
            _ => {}
        }
        // A symbol may stand right behind a segment's last byte, as the linker's own `_end` does.
        match u32::from(symbol.st_shndx) {
            SHN_UNDEF => self.address(index).map(|_| ()),
            SHN_LORESERVE.. => Ok(()),
            _ if segments.access_of(symbol.st_value, 0).is_some() => Ok(()),
            _ => Err(ImageError::SymbolOutside { name: self.text(index), value: symbol.st_value }),
        }
    }

    /// A thread-local variable lies in the template, at its end at most.
    fn check_thread_local(&self, tls: Option<&TlsTemplate>, index: u32) -> Result<(), ImageError> {
        let offset = self.thread_local_offset(index);
        match offset.zip(tls).filter(|(offset, tls)| *offset <= tls.memory_size) {
            Some(_) => Ok(()),
            None => Err(ImageError::ThreadLocalSymbol { name: self.text(index) }),
        }
    }

    fn name(&self, index: u32) -> Result<&'a [u8], ImageError> {
        let offset = self.list[index as usize].st_name;
        let bad = ImageError::BadName { index, offset: u64::from(offset) };
        let from = self.strings.get(offset as usize..).ok_or(bad.clone())?;
        let end = from.iter().take(MAX_NAME).position(|&byte| byte == 0).ok_or(bad)?;
        Ok(&from[..end])
    }

    /// The name for a message; at most 256 bytes of it.
    fn text(&self, index: u32) -> String {
        let name = self.name(index).unwrap_or_default();
        String::from_utf8_lossy(&name[..name.len().min(256)]).into_owned()
    }
}

/// Symbols according to DT_HASH, whose second word is their number.
fn hash_count(segments: &Segments, address: u64) -> Result<u64, ImageError> {
    let words = records::<u32>(segments.file_part("hash table", address, 8)?);
    Ok(words.last().map_or(0, u64::from))
}

/// Symbols according to DT_GNU_HASH. It does not have their number: the chain that begins last is followed to
/// its end.
fn gnu_hash_count(segments: &Segments, address: u64) -> Result<u64, ImageError> {
    let damaged = ImageError::DamagedHash { what: "hash table (DT_GNU_HASH)" };
    let table = segments.file_from(address).ok_or(damaged.clone())?;
    let word = |index: u64| {
        let start = usize::try_from(index.checked_mul(4)?).ok()?;
        Some(u32::from_le_bytes(table.get(start..start.checked_add(4)?)?.try_into().ok()?))
    };
    let read = |index: u64| word(index).map(u64::from).ok_or(damaged.clone());
    let (buckets, first, filters) = (read(0)?, read(1)?, read(2)?);
    let bucket_words = 4 + 2 * filters;
    let chains = bucket_words + buckets;
    if buckets > MAX_SYMBOLS {
        return Err(damaged);
    }
    let mut last = 0;
    for index in bucket_words..chains {
        last = last.max(read(index)?);
    }
    if last < first {
        return Ok(first);
    }
    while last <= MAX_SYMBOLS && read(chains + (last - first))? & 1 == 0 {
        last += 1;
    }
    Ok(last + 1)
}
