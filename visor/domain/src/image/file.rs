//! Reading records out of a file that may lie: bounds first, then the copy.

use super::ImageError;
use goblin::elf64::{
    header::{
        EI_CLASS, EI_DATA, EI_OSABI, EI_VERSION, ELFCLASS64, ELFDATA2LSB, ELFOSABI_GNU, ELFOSABI_NONE, EM_X86_64,
        ET_DYN, Header, SIZEOF_EHDR,
    },
    program_header::{
        PF_X, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_GNU_PROPERTY, PT_GNU_RELRO, PT_GNU_STACK, PT_INTERP, PT_LOAD, PT_NOTE,
        PT_NULL, PT_PHDR, PT_TLS, ProgramHeader, SIZEOF_PHDR,
    },
};
use plain::Plain;

/// No linker makes more program headers.
pub(super) const MAX_PROGRAM_HEADERS: u16 = 64;
/// The most entries of a dynamic section.
pub(super) const MAX_DYNAMIC: usize = 1024;
/// The most relocations of one image: 8 MiB of words.
pub(super) const MAX_RELOCATIONS: u64 = 1 << 20;
/// The most dynamic symbols of one image; two are needed.
pub(super) const MAX_SYMBOLS: u64 = 1 << 16;
/// The longest name of a dynamic symbol.
pub(super) const MAX_NAME: usize = 4096;

/// ELF's records are read as they are, which is right where memory has the byte order of the file.
const _: () = assert!(cfg!(target_endian = "little"));

/// `size` bytes of the file from `start`.
pub(super) fn part<'a>(bytes: &'a [u8], what: &'static str, start: u64, size: u64) -> Result<&'a [u8], ImageError> {
    let end = start.checked_add(size).ok_or(ImageError::Overflow { what, start, size })?;
    let range = || Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?);
    let truncated = ImageError::Truncated { what, start, end, size: bytes.len() as u64 };
    range().and_then(|range| bytes.get(range)).ok_or(truncated)
}

/// The records of a table, copied out one by one; an incomplete one at the end is left out.
pub(super) fn records<T: Plain + Default>(table: &[u8]) -> impl ExactSizeIterator<Item = T> {
    table.chunks_exact(size_of::<T>()).map(|chunk| {
        let mut record = T::default();
        plain::copy_from_bytes(&mut record, chunk).expect("a chunk is as long as a record");
        record
    })
}

/// The program headers of a shared object for x86-64, all of a type that the loader knows.
pub(super) fn program_headers(bytes: &[u8]) -> Result<Vec<ProgramHeader>, ImageError> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(ImageError::NotElf);
    }
    let table = part(bytes, "file header", 0, SIZEOF_EHDR as u64)?;
    let header = records::<Header>(table).next().ok_or(ImageError::NotElf)?;
    check_file_header(&header)?;
    let size = u64::from(header.e_phnum) * SIZEOF_PHDR as u64;
    let headers: Vec<ProgramHeader> = records(part(bytes, "program header table", header.e_phoff, size)?).collect();
    for (index, header) in headers.iter().enumerate() {
        check_type(index, header)?;
    }
    Ok(headers)
}

fn check_file_header(header: &Header) -> Result<(), ImageError> {
    let ident = &header.e_ident;
    if ident[EI_CLASS] != ELFCLASS64 {
        return Err(ImageError::Not64Bit { class: ident[EI_CLASS] });
    }
    if ident[EI_DATA] != ELFDATA2LSB {
        return Err(ImageError::NotLittleEndian { encoding: ident[EI_DATA] });
    }
    for version in [u32::from(ident[EI_VERSION]), header.e_version] {
        if version != 1 {
            return Err(ImageError::UnknownElfVersion { version });
        }
    }
    if !matches!(ident[EI_OSABI], ELFOSABI_NONE | ELFOSABI_GNU) {
        return Err(ImageError::OtherSystem { os: ident[EI_OSABI] });
    }
    if header.e_machine != EM_X86_64 {
        return Err(ImageError::OtherMachine { machine: header.e_machine });
    }
    if header.e_type != ET_DYN {
        return Err(ImageError::NotSharedObject { elf_type: header.e_type });
    }
    expect_size("file header", u64::from(header.e_ehsize), SIZEOF_EHDR)?;
    expect_size("program header table", u64::from(header.e_phentsize), SIZEOF_PHDR)?;
    if header.e_phnum > MAX_PROGRAM_HEADERS {
        return Err(ImageError::TooManyProgramHeaders { count: header.e_phnum });
    }
    Ok(())
}

fn check_type(index: usize, header: &ProgramHeader) -> Result<(), ImageError> {
    match header.p_type {
        PT_GNU_STACK if header.p_flags & PF_X != 0 => Err(ImageError::ExecutableStack),
        PT_NULL | PT_LOAD | PT_DYNAMIC | PT_NOTE | PT_PHDR | PT_TLS => Ok(()),
        PT_GNU_RELRO | PT_GNU_STACK | PT_GNU_EH_FRAME | PT_GNU_PROPERTY => Ok(()),
        PT_INTERP => Err(ImageError::Interpreter { index }),
        segment_type => Err(ImageError::UnknownSegment { index, segment_type }),
    }
}

/// The size of a table's entries, as the file states it, must be the one of this format.
pub(super) fn expect_size(what: &'static str, size: u64, expected: usize) -> Result<(), ImageError> {
    let expected = expected as u64;
    if size == expected { Ok(()) } else { Err(ImageError::WrongEntrySize { what, size, expected }) }
}

/// The one header of a type, if there is any.
pub(super) fn single<'h>(
    headers: &'h [ProgramHeader],
    p_type: u32,
    what: &'static str,
) -> Result<Option<&'h ProgramHeader>, ImageError> {
    let mut found = headers.iter().filter(|header| header.p_type == p_type);
    let first = found.next();
    if found.next().is_some() { Err(ImageError::Duplicate { what }) } else { Ok(first) }
}
