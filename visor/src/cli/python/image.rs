//! Puts a program's archive into the interpreter's image.
//!
//! ```text
//!   file     | interpreter, as it was linked | length | archive |
//!   memory   | its segments        … | r-- `.monohull.program`  |
//! ```
//!
//! The linker has made a segment of the section `.monohull.program`, behind all others, which holds a length of zero. Its headers are
//! changed to name a part at the end of the file. Nothing else changes: no address, no relocation, no instruction.

use std::mem::offset_of;

use goblin::elf::Elf;
use goblin::elf::header::header64::Header;
use goblin::elf::program_header::PT_LOAD;
use goblin::elf::program_header::program_header64::{ProgramHeader, SIZEOF_PHDR};
use goblin::elf::section_header::section_header64::{SIZEOF_SHDR, SectionHeader};

const SECTION: &str = ".monohull.program";
const PAGE: usize = 4096;

/// Why there is no place for an archive. The interpreter's image is not what this program expects.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub(super) enum PlaceError {
    #[error("it is no ELF file: {0}")]
    NotElf(String),
    #[error("it has no section `{SECTION}` with a segment of its own behind all others")]
    NoPlace,
}

/// The interpreter with an archive.
pub(super) fn with_archive(mut image: Vec<u8>, archive: &[u8]) -> Result<Vec<u8>, PlaceError> {
    let (program_header, section_header) = place(&image)?;
    image.resize(image.len().next_multiple_of(PAGE), 0);
    let offset = image.len() as u64;
    image.extend((archive.len() as u64).to_le_bytes());
    image.extend(archive);
    let length = image.len() as u64 - offset;
    for (at, value) in [
        (program_header + offset_of!(ProgramHeader, p_offset), offset),
        (program_header + offset_of!(ProgramHeader, p_filesz), length),
        (program_header + offset_of!(ProgramHeader, p_memsz), length),
        (section_header + offset_of!(SectionHeader, sh_offset), offset),
        (section_header + offset_of!(SectionHeader, sh_size), length),
    ] {
        image.get_mut(at..at + 8).ok_or(PlaceError::NoPlace)?.copy_from_slice(&value.to_le_bytes());
    }
    Ok(image)
}

/// Where in the file the headers of the segment and of the section are.
fn place(image: &[u8]) -> Result<(usize, usize), PlaceError> {
    const { assert!(offset_of!(Header, e_phoff) == 32, "the offsets are those of a file") }
    let elf = Elf::parse(image).map_err(|error| PlaceError::NotElf(error.to_string()))?;
    let named = |section: &&goblin::elf::SectionHeader| elf.shdr_strtab.get_at(section.sh_name) == Some(SECTION);
    let section = elf.section_headers.iter().position(|section| named(&section)).ok_or(PlaceError::NoPlace)?;
    let address = elf.section_headers[section].sh_addr;
    let loaded = || elf.program_headers.iter().enumerate().filter(|(_, header)| header.p_type == PT_LOAD);
    let (segment, _) = loaded().max_by_key(|(_, header)| header.p_vaddr).ok_or(PlaceError::NoPlace)?;
    let header = &elf.program_headers[segment];
    if header.p_vaddr != address || !address.is_multiple_of(PAGE as u64) || header.is_write() || header.is_executable()
    {
        return Err(PlaceError::NoPlace);
    }
    let (segments, sections) = (elf.header.e_phoff as usize, elf.header.e_shoff as usize);
    Ok((segments + segment * SIZEOF_PHDR, sections + section * SIZEOF_SHDR))
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

    #[test]
    fn an_archive_becomes_the_contents_of_its_segment() {
        let image = with_archive(interpreter(4), b"archive").expect("a place");
        let elf = Elf::parse(&image).expect("still an ELF file");
        let (first, program) = (&elf.program_headers[0], &elf.program_headers[1]);
        assert_eq!((first.p_offset, first.p_vaddr, first.p_filesz), (0, 0, 0x1000));
        assert_eq!((program.p_vaddr, program.p_filesz, program.p_memsz), (0x40_0000, 15, 15));
        let start = program.p_offset as usize;
        assert_eq!((start % PAGE, &image[start..]), (0, &b"\x07\0\0\0\0\0\0\0archive"[..]));
        let section = &elf.section_headers[1];
        assert_eq!((section.sh_offset, section.sh_size), (program.p_offset, 15));
        // It can be done again: what is there is replaced.
        let again = with_archive(image, b"other").expect("a place");
        assert!(again.ends_with(b"\x05\0\0\0\0\0\0\0other"));
    }

    #[test]
    fn other_files_have_no_place() {
        assert!(matches!(with_archive(b"no ELF file".to_vec(), b""), Err(PlaceError::NotElf(_))));
        assert_eq!(with_archive(interpreter(6), b""), Err(PlaceError::NoPlace), "a writable segment");
        assert_eq!(with_archive(interpreter(5), b""), Err(PlaceError::NoPlace), "an executable one");
        let mut other = interpreter(4);
        other[64 + SIZEOF_PHDR + offset_of!(ProgramHeader, p_vaddr)] = 1;
        assert_eq!(with_archive(other, b""), Err(PlaceError::NoPlace), "a segment that begins elsewhere");
    }
}
