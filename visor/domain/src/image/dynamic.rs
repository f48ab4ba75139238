//! The dynamic section: where the tables are, and which requirements of an image are refused.

use super::ImageError;
use super::file::{MAX_DYNAMIC, expect_size, records, single};
use super::segment::Segments;
use goblin::elf64::{
    dynamic::{
        DF_STATIC_TLS, DF_TEXTREL, DT_BIND_NOW, DT_DEBUG, DT_FINI, DT_FINI_ARRAY, DT_FINI_ARRAYSZ, DT_FLAGS,
        DT_FLAGS_1, DT_GNU_HASH, DT_HASH, DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_JMPREL, DT_NEEDED, DT_NULL,
        DT_PLTGOT, DT_PLTREL, DT_PLTRELSZ, DT_PREINIT_ARRAY, DT_REL, DT_RELA, DT_RELACOUNT, DT_RELAENT, DT_RELASZ,
        DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, DT_SYMBOLIC, DT_SYMENT, DT_SYMTAB, DT_TEXTREL, DT_VERDEF,
        DT_VERDEFNUM, DT_VERSYM, Dyn,
    },
    program_header::{PT_DYNAMIC, ProgramHeader},
    reloc::SIZEOF_RELA,
    sym::SIZEOF_SYM,
};

/// Compact relative relocations; newer than goblin's list.
const DT_RELR: u64 = 36;

/// Where an image's tables are: addresses and sizes as the file has them, not yet compared with the segments.
pub(super) struct Dynamic {
    pub(super) symbols: u64,
    /// Address and bytes of the string table.
    pub(super) strings: (u64, u64),
    pub(super) hash: Option<u64>,
    pub(super) gnu_hash: Option<u64>,
    /// Address and bytes of each table of relocations.
    pub(super) relocations: [(u64, u64); 2],
    /// Address and number of the initialisers.
    pub(super) init_array: Option<(u64, u64)>,
}

impl Dynamic {
    /// Finds the section and refuses every entry that requires more than the loader implements.
    pub(super) fn read(segments: &Segments, headers: &[ProgramHeader]) -> Result<Dynamic, ImageError> {
        let entries = Entries::read(segments, headers)?;
        entries.refuse_unserved(segments)?;
        let strings = entries.required_strings()?;
        let symbols = entries.get(DT_SYMTAB, "DT_SYMTAB")?.ok_or(ImageError::MissingDynamic { tag: "DT_SYMTAB" })?;
        if let Some(size) = entries.get(DT_SYMENT, "DT_SYMENT")? {
            expect_size("symbol table", size, SIZEOF_SYM)?;
        }
        if let Some(size) = entries.get(DT_RELAENT, "DT_RELAENT")? {
            expect_size("relocation table", size, SIZEOF_RELA)?;
        }
        let rela = entries.table((DT_RELA, "DT_RELA"), (DT_RELASZ, "DT_RELASZ"))?;
        let jump_slots = entries.table((DT_JMPREL, "DT_JMPREL"), (DT_PLTRELSZ, "DT_PLTRELSZ"))?;
        if jump_slots.is_some() && entries.get(DT_PLTREL, "DT_PLTREL")? != Some(DT_RELA) {
            return Err(ImageError::RelocationForm { tag: "DT_PLTREL" });
        }
        Ok(Dynamic {
            symbols,
            strings,
            hash: entries.get(DT_HASH, "DT_HASH")?,
            gnu_hash: entries.get(DT_GNU_HASH, "DT_GNU_HASH")?,
            relocations: [rela.unwrap_or_default(), jump_slots.unwrap_or_default()],
            init_array: entries.init_array(segments)?,
        })
    }
}

/// The entries before the first DT_NULL.
struct Entries(Vec<Dyn>);

impl Entries {
    fn read(segments: &Segments, headers: &[ProgramHeader]) -> Result<Entries, ImageError> {
        let header = single(headers, PT_DYNAMIC, "PT_DYNAMIC")?.ok_or(ImageError::NoDynamicSection)?;
        let (offset, address) = (header.p_offset, header.p_vaddr);
        let table = segments.file_part("dynamic section", address, header.p_filesz)?;
        if segments.file_offset(address) != Some(offset) {
            return Err(ImageError::MisplacedDynamic { offset, address });
        }
        let all = records::<Dyn>(table);
        let count = all.len();
        let entries: Vec<Dyn> = all.take(MAX_DYNAMIC).take_while(|entry| entry.d_tag != DT_NULL).collect();
        if entries.len() == count.min(MAX_DYNAMIC) {
            return Err(ImageError::EndlessDynamic { count });
        }
        Ok(Entries(entries))
    }

    /// The value of an entry that may occur once.
    fn get(&self, tag: u64, name: &'static str) -> Result<Option<u64>, ImageError> {
        let mut found = self.0.iter().filter(|entry| entry.d_tag == tag);
        let first = found.next().map(|entry| entry.d_val);
        if found.next().is_some() { Err(ImageError::Duplicate { what: name }) } else { Ok(first) }
    }

    /// Address and size of a table: both or neither, and an empty one is none.
    fn table(&self, address: (u64, &'static str), size: (u64, &'static str)) -> Result<Option<(u64, u64)>, ImageError> {
        match (self.get(address.0, address.1)?, self.get(size.0, size.1)?) {
            (_, None | Some(0)) => Ok(None),
            (None, Some(_)) => Err(ImageError::MissingDynamic { tag: address.1 }),
            (Some(address), Some(size)) => Ok(Some((address, size))),
        }
    }

    fn required_strings(&self) -> Result<(u64, u64), ImageError> {
        let strings = self.table((DT_STRTAB, "DT_STRTAB"), (DT_STRSZ, "DT_STRSZ"))?;
        strings.ok_or(ImageError::MissingDynamic { tag: "DT_STRSZ" })
    }

    fn init_array(&self, segments: &Segments) -> Result<Option<(u64, u64)>, ImageError> {
        let table = self.table((DT_INIT_ARRAY, "DT_INIT_ARRAY"), (DT_INIT_ARRAYSZ, "DT_INIT_ARRAYSZ"))?;
        let words = table.map(|table| functions(segments, table)).transpose()?;
        // Programs find what runs at their end by themselves.
        let last = self.table((DT_FINI_ARRAY, "DT_FINI_ARRAY"), (DT_FINI_ARRAYSZ, "DT_FINI_ARRAYSZ"))?;
        last.map(|table| functions(segments, table)).transpose()?;
        Ok(words)
    }

    /// Goes through all entries: the loader handles some, some do not matter here, the rest is refused.
    fn refuse_unserved(&self, segments: &Segments) -> Result<(), ImageError> {
        for entry in &self.0 {
            match entry.d_tag {
                DT_NEEDED => return Err(ImageError::NeedsLibrary { library: self.library(segments, entry.d_val) }),
                DT_TEXTREL => return Err(ImageError::TextRelocations),
                DT_FLAGS if entry.d_val & DF_TEXTREL != 0 => return Err(ImageError::TextRelocations),
                DT_FLAGS if entry.d_val & DF_STATIC_TLS != 0 => return Err(ImageError::StaticThreadLocal),
                DT_REL => return Err(ImageError::RelocationForm { tag: "DT_REL" }),
                DT_RELR => return Err(ImageError::RelocationForm { tag: "DT_RELR" }),
                DT_INIT => return Err(ImageError::StartFiles { tag: "DT_INIT" }),
                DT_FINI => return Err(ImageError::StartFiles { tag: "DT_FINI" }),
                DT_PREINIT_ARRAY => return Err(ImageError::StartFiles { tag: "DT_PREINIT_ARRAY" }),
                // Served.
                DT_SYMTAB | DT_SYMENT | DT_STRTAB | DT_STRSZ | DT_HASH | DT_GNU_HASH => {}
                DT_RELA | DT_RELASZ | DT_RELAENT | DT_JMPREL | DT_PLTRELSZ | DT_PLTREL => {}
                DT_INIT_ARRAY | DT_INIT_ARRAYSZ | DT_FINI_ARRAY | DT_FINI_ARRAYSZ => {}
                // Of no consequence: everything is bound at once, against the image alone, without versions or paths.
                DT_PLTGOT | DT_RELACOUNT | DT_FLAGS | DT_FLAGS_1 | DT_BIND_NOW | DT_SYMBOLIC | DT_DEBUG => {}
                DT_SONAME | DT_RPATH | DT_RUNPATH | DT_VERSYM | DT_VERDEF | DT_VERDEFNUM => {}
                tag => return Err(ImageError::UnknownDynamic { tag }),
            }
        }
        Ok(())
    }

    /// The name of a needed library, as far as it can be read.
    fn library(&self, segments: &Segments, offset: u64) -> String {
        let strings = self.required_strings().ok();
        let strings = strings.and_then(|(address, size)| segments.file_part("string table", address, size).ok());
        let name = strings.zip(usize::try_from(offset).ok()).and_then(|(strings, offset)| strings.get(offset..));
        let name = name.and_then(|name| name.split(|&byte| byte == 0).next()).unwrap_or_default();
        String::from_utf8_lossy(&name[..name.len().min(256)]).into_owned()
    }
}

/// Address and number of functions whose addresses are in a table.
fn functions(segments: &Segments, (address, size): (u64, u64)) -> Result<(u64, u64), ImageError> {
    if address % 8 != 0 || size % 8 != 0 || segments.access_of(address, size).is_none() {
        return Err(ImageError::BadInitArray { address, size });
    }
    Ok((address, size / 8))
}
