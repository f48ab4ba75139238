//! The image of the attacks with other code in it: what a compiler would not make, or the checker refuses.

use crate::harness::image;
use goblin::elf::Elf;
use std::io::Write;

/// A copy of the attacks with this code where there is room for some.
pub(crate) fn planted(code: &[u8]) -> tempfile::NamedTempFile {
    let mut bytes = std::fs::read(image("attacks")).expect("the image");
    let elf = Elf::parse(&bytes).expect("an ELF file");
    let named = |symbol: &goblin::elf::Sym| elf.strtab.get_at(symbol.st_name) == Some("monohull_planted");
    let at = elf.syms.iter().find(named).expect("room for code").st_value;
    let holds = |segment: &&goblin::elf::ProgramHeader| {
        segment.p_type == goblin::elf::program_header::PT_LOAD && segment.vm_range().contains(&(at as usize))
    };
    let segment = elf.program_headers.iter().find(holds).expect("it is loaded");
    let offset = (at - segment.p_vaddr + segment.p_offset) as usize;
    bytes[offset..offset + code.len()].copy_from_slice(code);
    let mut file = tempfile::NamedTempFile::new().expect("a file for the image");
    file.write_all(&bytes).expect("the image");
    file
}

/// `xor eax, eax; xor ecx, ecx; xor edx, edx; wrpkru`: opens all keys.
pub(crate) const WRPKRU: &[u8] = &[0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0x0f, 0x01, 0xef];
