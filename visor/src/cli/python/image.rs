//! Puts a program's archive into the interpreter's image.
//!
//! ```text
//!   file     | interpreter, as it was linked | length | archive |
//!   memory   | its segments        … | r-- `.monohull.program`  |
//! ```
//!
//! The linker has made a segment of the section `.monohull.program`, behind all others, which holds a length of zero. Its headers are
//! changed to name a part at the end of the file. Nothing else changes: no address, no relocation, no instruction.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use goblin::elf::header::header64::{Header, SIZEOF_EHDR};
use goblin::elf::program_header::PT_LOAD;
use goblin::elf::program_header::program_header64::{ProgramHeader, SIZEOF_PHDR};
use goblin::elf::section_header::section_header64::{SIZEOF_SHDR, SectionHeader};
use goblin::elf::{Elf, program_header};

const SECTION: &[u8] = b".monohull.program\0";
const PAGE: u64 = 4096;
/// The most bytes of a table in the file. Those of the interpreter have some thousand.
const TABLE_MAX: u64 = 1 << 20;

/// Why there is no place for an archive. The interpreter's image is not what this program expects.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub(super) enum PlaceError {
    #[error("it is no ELF file: {0}")]
    NotElf(goblin::error::Error),
    #[error("it has no section `.monohull.program` with a segment of its own behind all others")]
    NoPlace,
    #[error(transparent)]
    Host(#[from] io::Error),
}

/// Adds an archive to a copy of the interpreter's image. Only the tables of the file are read.
pub(super) fn add_archive(image: &File, archive: &[u8]) -> Result<(), PlaceError> {
    let (program_header, section_header) = place(image)?;
    let offset = image.metadata()?.len().next_multiple_of(PAGE);
    let length = 8 + archive.len() as u64;
    image.write_all_at(&(archive.len() as u64).to_le_bytes(), offset)?;
    image.write_all_at(archive, offset + 8)?;
    for (at, field, value) in [
        (program_header, offset_of!(ProgramHeader, p_offset), offset),
        (program_header, offset_of!(ProgramHeader, p_filesz), length),
        (program_header, offset_of!(ProgramHeader, p_memsz), length),
        (section_header, offset_of!(SectionHeader, sh_offset), offset),
        (section_header, offset_of!(SectionHeader, sh_size), length),
    ] {
        image.write_all_at(&value.to_le_bytes(), at + field as u64)?;
    }
    Ok(())
}

/// Where in the file the headers of the segment and of the section are.
fn place(image: &File) -> Result<(u64, u64), PlaceError> {
    const { assert!(offset_of!(Header, e_phoff) == 32, "the offsets are those of a file") }
    let end = image.metadata()?.len();
    let table = |offset: u64, length: u64| {
        if length > TABLE_MAX || offset.checked_add(length).is_none_or(|last| last > end) {
            return Err(PlaceError::NoPlace);
        }
        let mut bytes = vec![0; length as usize];
        image.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    };
    let header = Elf::parse_header(&table(0, SIZEOF_EHDR as u64)?).map_err(PlaceError::NotElf)?;
    let (segments, sections) = (usize::from(header.e_phnum), usize::from(header.e_shnum));
    if [(header.e_phentsize, SIZEOF_PHDR), (header.e_shentsize, SIZEOF_SHDR)]
        .iter()
        .any(|(is, is_to_be)| usize::from(*is) != *is_to_be)
    {
        return Err(PlaceError::NoPlace);
    }
    let program_headers = ProgramHeader::from_bytes(&table(header.e_phoff, (segments * SIZEOF_PHDR) as u64)?, segments);
    let section_headers = SectionHeader::from_bytes(&table(header.e_shoff, (sections * SIZEOF_SHDR) as u64)?, sections);
    let names = section_headers.get(usize::from(header.e_shstrndx)).ok_or(PlaceError::NoPlace)?;
    let names = table(names.sh_offset, names.sh_size)?;
    let named =
        |section: &SectionHeader| names.get(section.sh_name as usize..).is_some_and(|name| name.starts_with(SECTION));
    let section = section_headers.iter().position(named).ok_or(PlaceError::NoPlace)?;
    let loaded = program_headers.iter().enumerate().filter(|(_, header)| header.p_type == PT_LOAD);
    let (segment, last) = loaded.max_by_key(|(_, header)| header.p_vaddr).ok_or(PlaceError::NoPlace)?;
    let is_read_only = last.p_flags & (program_header::PF_W | program_header::PF_X) == 0;
    if last.p_vaddr != section_headers[section].sh_addr || !last.p_vaddr.is_multiple_of(PAGE) || !is_read_only {
        return Err(PlaceError::NoPlace);
    }
    let (segment, section) = (segment * SIZEOF_PHDR, section * SIZEOF_SHDR);
    Ok((header.e_phoff + segment as u64, header.e_shoff + section as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: u64 = 0x1000;
    const NAMES: &[u8] = b"\0.monohull.program\0.shstrtab\0";

    /// An ELF file with two segments, of which the second begins where the section does.
    fn interpreter(flags: u32) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        let half =
            |file: &mut Vec<u8>, values: &[u16]| values.iter().for_each(|value| file.extend(value.to_le_bytes()));
        let word =
            |file: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|value| file.extend(value.to_le_bytes()));
        let (sections, names) = (64 + 2 * SIZEOF_PHDR as u64, 64 + 2 * SIZEOF_PHDR as u64 + 3 * SIZEOF_SHDR as u64);
        half(&mut file, &[3, 62, 1, 0]);
        word(&mut file, &[0, 64, sections]);
        half(&mut file, &[0, 0, 64, SIZEOF_PHDR as u16, 2, SIZEOF_SHDR as u16, 3, 2]);
        for (flags, offset, address, length) in [(5, 0, 0, 0x1000), (flags, EMPTY, 0x40_0000, 8)] {
            word(
                &mut file,
                &[u64::from(PT_LOAD) | u64::from(flags) << 32, offset, address, address, length, length, 0x1000],
            );
        }
        word(&mut file, &[0; 8]);
        word(&mut file, &[1 | 1 << 32, 2, 0x40_0000, EMPTY, 8, 0, 0x1000, 0]);
        word(&mut file, &[19 | 3 << 32, 0, 0, names, NAMES.len() as u64, 0, 1, 0]);
        file.extend(NAMES);
        file.resize(EMPTY as usize + 8, 0);
        file
    }

    /// The image with an archive.
    fn with_archive(image: &[u8], archive: &[u8]) -> Result<Vec<u8>, PlaceError> {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(image, 0).expect("written");
        add_archive(&file, archive)?;
        let mut image = vec![0; file.metadata().expect("known").len() as usize];
        file.read_exact_at(&mut image, 0).expect("read");
        Ok(image)
    }

    #[test]
    fn an_archive_becomes_the_contents_of_its_segment() {
        let image = with_archive(&interpreter(4), b"archive").expect("a place");
        let elf = Elf::parse(&image).expect("still an ELF file");
        let (first, program) = (&elf.program_headers[0], &elf.program_headers[1]);
        assert_eq!((first.p_offset, first.p_vaddr, first.p_filesz), (0, 0, 0x1000));
        assert_eq!((program.p_vaddr, program.p_filesz, program.p_memsz), (0x40_0000, 15, 15));
        let start = program.p_offset as usize;
        assert_eq!((start % PAGE as usize, &image[start..]), (0, &b"\x07\0\0\0\0\0\0\0archive"[..]));
        let section = &elf.section_headers[1];
        assert_eq!((section.sh_offset, section.sh_size), (program.p_offset, 15));
        // It can be done again: what is there is replaced.
        let again = with_archive(&image, b"other").expect("a place");
        assert!(again.ends_with(b"\x05\0\0\0\0\0\0\0other"));
    }

    #[test]
    fn other_files_have_no_place() {
        assert!(matches!(with_archive(b"no ELF file", b""), Err(PlaceError::NoPlace)), "it is too short");
        assert!(matches!(with_archive(&[1; 4096], b""), Err(PlaceError::NotElf(_))));
        let is_refused = |image: &[u8]| matches!(with_archive(image, b""), Err(PlaceError::NoPlace));
        assert!(is_refused(&interpreter(6)), "a writable segment");
        assert!(is_refused(&interpreter(5)), "an executable one");
        let mut other = interpreter(4);
        other[64 + SIZEOF_PHDR + offset_of!(ProgramHeader, p_vaddr)] = 1;
        assert!(is_refused(&other), "a segment that begins elsewhere");
        // Tables that lie outside, and more headers than there are.
        for (at, value) in [(32, u64::MAX), (40, u64::MAX), (40, 1 << 40), (56, u64::MAX)] {
            let mut other = interpreter(4);
            other[at..at + 8].copy_from_slice(&value.to_le_bytes());
            assert!(is_refused(&other), "{at} {value:#x}");
        }
    }
}
