//! Makes small ELF files by hand: a valid function image, of which a test changes one thing.
//!
//! ```text
//! 0x0000 r--  file header, program headers, dynsym 0x400, dynstr 0x600, hash 0x800, rela 0xa00, jmprel 0xc00,
//!             section headers 0xd00, MONOHULL_IMAGE 0xf00
//! 0x1000 r-x  code
//! 0x2000 rw-  dynamic section, relocated words 0x2400, init_array 0x2800 (relro up to 0x3000); data; bss to 0x4000
//! ```
//!
//! File offsets and addresses are the same.

pub(crate) mod promises;

use goblin::elf64::{
    dynamic::*,
    header::{EM_X86_64, ET_DYN, Header},
    program_header::*,
    reloc::*,
    sym::{STB_GLOBAL, STB_WEAK, STT_FUNC, STT_NOTYPE, STT_OBJECT, Sym},
};

pub(crate) const SYMBOLS: u64 = 0x400;
pub(crate) const STRINGS: u64 = 0x600;
pub(crate) const HASH: u64 = 0x800;
pub(crate) const RELA: u64 = 0xa00;
pub(crate) const JUMP_SLOTS: u64 = 0xc00;
pub(crate) const SECTIONS: u64 = 0xd00;
pub(crate) const IMAGE_HEADER: u64 = 0xf00;
pub(crate) const CODE: u64 = 0x1000;
pub(crate) const HELPER: u64 = 0x1010;
pub(crate) const DATA: u64 = 0x2000;
pub(crate) const WORDS: u64 = 0x2400;
pub(crate) const INIT: u64 = 0x2800;
pub(crate) const FILE_SIZE: usize = 0x3100;

/// Program headers of the valid image, by index.
pub(crate) const READ: usize = 0;
pub(crate) const EXECUTE: usize = 1;
pub(crate) const WRITE: usize = 2;
pub(crate) const DYNAMIC: usize = 3;
pub(crate) const RELRO: usize = 4;
pub(crate) const STACK: usize = 5;

/// Symbols of the valid image, by index.
pub(crate) const START: usize = 1;
pub(crate) const IMAGE: usize = 2;
pub(crate) const WEAK: usize = 3;
pub(crate) const HELPER_SYMBOL: usize = 4;

pub(crate) struct Elf {
    pub(crate) header: Header,
    pub(crate) segments: Vec<ProgramHeader>,
    pub(crate) symbols: Vec<(&'static str, Sym)>,
    pub(crate) relocations: Vec<Rela>,
    pub(crate) jump_slots: Vec<Rela>,
    pub(crate) dynamic: Vec<Dyn>,
    pub(crate) code: Vec<u8>,
    /// Words of the GNU hash table before its chain: buckets, first symbol, filters, shift, one filter, one bucket.
    pub(crate) gnu_hash: [u32; 7],
    pub(crate) image_header: [u64; 2],
    /// Bytes put over the finished file.
    pub(crate) patches: Vec<(usize, Vec<u8>)>,
    /// Length of the finished file.
    pub(crate) length: usize,
}

pub(crate) fn segment(p_type: u32, p_flags: u32, address: u64, file_size: u64, memory_size: u64) -> ProgramHeader {
    ProgramHeader {
        p_type,
        p_flags,
        p_offset: address,
        p_vaddr: address,
        p_paddr: address,
        p_filesz: file_size,
        p_memsz: memory_size,
        p_align: if p_type == PT_LOAD { 0x1000 } else { 8 },
    }
}

pub(crate) fn symbol(bind: u8, kind: u8, section: u16, value: u64, size: u64) -> Sym {
    Sym { st_name: 0, st_info: bind << 4 | kind, st_other: 0, st_shndx: section, st_value: value, st_size: size }
}

pub(crate) fn rela(offset: u64, kind: u32, symbol: usize, addend: i64) -> Rela {
    Rela { r_offset: offset, r_info: (symbol as u64) << 32 | u64::from(kind), r_addend: addend }
}

pub(crate) fn entry(d_tag: u64, d_val: u64) -> Dyn {
    Dyn { d_tag, d_val }
}

impl Elf {
    /// The valid image.
    pub(crate) fn valid() -> Elf {
        let mut e_ident = [0; 16];
        e_ident[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        Elf {
            header: Header {
                e_ident,
                e_type: ET_DYN,
                e_machine: EM_X86_64,
                e_version: 1,
                e_phoff: 0x40,
                e_shoff: SECTIONS,
                e_ehsize: 64,
                e_phentsize: 56,
                e_phnum: 6,
                e_shentsize: 64,
                e_shnum: 3,
                ..Header::default()
            },
            segments: vec![
                segment(PT_LOAD, PF_R, 0, 0x1000, 0x1000),
                segment(PT_LOAD, PF_R | PF_X, CODE, 0x20, 0x20),
                segment(PT_LOAD, PF_R | PF_W, DATA, 0x1100, 0x2000),
                segment(PT_DYNAMIC, PF_R | PF_W, DATA, 0x200, 0x200),
                segment(PT_GNU_RELRO, PF_R, DATA, 0x1000, 0x1000),
                segment(PT_GNU_STACK, PF_R | PF_W, 0, 0, 0),
            ],
            symbols: vec![
                ("", Sym::default()),
                ("monohull_start", symbol(STB_GLOBAL, STT_FUNC, 2, CODE, 0x10)),
                ("MONOHULL_IMAGE", symbol(STB_GLOBAL, STT_OBJECT, 1, IMAGE_HEADER, 0x10)),
                ("__gmon_start__", symbol(STB_WEAK, STT_NOTYPE, 0, 0, 0)),
                ("helper", symbol(STB_GLOBAL, STT_FUNC, 2, HELPER, 0x10)),
            ],
            relocations: vec![
                rela(INIT, R_X86_64_RELATIVE, 0, HELPER as i64),
                rela(WORDS, R_X86_64_RELATIVE, 0, HELPER as i64),
                rela(WORDS + 8, R_X86_64_64, HELPER_SYMBOL, 4),
                rela(WORDS + 16, R_X86_64_GLOB_DAT, WEAK, 0),
            ],
            jump_slots: vec![rela(WORDS + 24, R_X86_64_JUMP_SLOT, HELPER_SYMBOL, 0)],
            dynamic: vec![
                entry(DT_SYMTAB, SYMBOLS),
                entry(DT_SYMENT, 24),
                entry(DT_STRTAB, STRINGS),
                entry(DT_STRSZ, 0x100),
                entry(DT_GNU_HASH, HASH),
                entry(DT_RELA, RELA),
                entry(DT_RELASZ, 4 * 24),
                entry(DT_RELAENT, 24),
                entry(DT_JMPREL, JUMP_SLOTS),
                entry(DT_PLTRELSZ, 24),
                entry(DT_PLTREL, DT_RELA),
                entry(DT_INIT_ARRAY, INIT),
                entry(DT_INIT_ARRAYSZ, 8),
                entry(DT_NULL, 0),
            ],
            code: vec![0xc3; 0x20],
            gnu_hash: [1, 1, 1, 0, 0, 0, 1],
            image_header: [monohull_abi::module::MAGIC, u64::from(monohull_abi::ABI_VERSION)],
            patches: Vec::new(),
            length: FILE_SIZE,
        }
    }

    /// Functions that run at the end of a program.
    pub(crate) fn add_finalisers(&mut self, address: u64, size: u64) {
        self.add_dynamic(DT_FINI_ARRAY, address);
        self.add_dynamic(DT_FINI_ARRAYSZ, size);
    }

    /// Puts an entry before the end of the dynamic section.
    pub(crate) fn add_dynamic(&mut self, tag: u64, value: u64) {
        self.dynamic.insert(self.dynamic.len() - 1, entry(tag, value));
    }

    /// Gives an existing entry another value.
    pub(crate) fn set_dynamic(&mut self, tag: u64, value: u64) {
        self.dynamic.iter_mut().find(|entry| entry.d_tag == tag).expect("the entry exists").d_val = value;
    }

    pub(crate) fn remove_dynamic(&mut self, tag: u64) {
        self.dynamic.retain(|entry| entry.d_tag != tag);
    }

    /// Adds a symbol and returns its index.
    pub(crate) fn add_symbol(&mut self, name: &'static str, symbol: Sym) -> usize {
        self.symbols.push((name, symbol));
        self.symbols.len() - 1
    }

    /// Adds a program header.
    pub(crate) fn add_segment(&mut self, header: ProgramHeader) {
        self.segments.push(header);
        self.header.e_phnum += 1;
    }

    /// Adds an ordinary relocation.
    pub(crate) fn add_relocation(&mut self, relocation: Rela) {
        self.relocations.push(relocation);
        self.set_dynamic(DT_RELASZ, self.relocations.len() as u64 * 24);
    }

    /// Overwrites bytes of the finished file.
    pub(crate) fn patch(&mut self, at: u64, bytes: &[u8]) {
        self.patches.push((at as usize, bytes.to_vec()));
    }

    /// The file.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut file = vec![0; FILE_SIZE];
        let mut put = |at: u64, bytes: &[u8]| file[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        put(0, &header_bytes(&self.header));
        put(0x40, &self.segments.iter().flat_map(segment_bytes).collect::<Vec<u8>>());
        let mut strings = Vec::new();
        let mut symbols = Vec::new();
        for (name, symbol) in &self.symbols {
            symbols.extend(symbol_bytes(&Sym { st_name: strings.len() as u32, ..*symbol }));
            strings.extend(name.bytes().chain([0]));
        }
        put(SYMBOLS, &symbols);
        put(STRINGS, &strings);
        let chain = (1..self.symbols.len()).map(|index| u32::from(index + 1 == self.symbols.len()));
        put(HASH, &self.gnu_hash.into_iter().chain(chain).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
        put(RELA, &self.relocations.iter().flat_map(rela_bytes).collect::<Vec<u8>>());
        put(JUMP_SLOTS, &self.jump_slots.iter().flat_map(rela_bytes).collect::<Vec<u8>>());
        put(SECTIONS + 64, &section_bytes(11, SYMBOLS, symbols.len(), 2));
        put(SECTIONS + 128, &section_bytes(3, STRINGS, strings.len(), 0));
        put(IMAGE_HEADER, &self.image_header.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
        put(CODE, &self.code);
        let words = self.dynamic.iter().flat_map(|entry| [entry.d_tag, entry.d_val]);
        put(DATA, &words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>());
        for (at, bytes) in &self.patches {
            put(*at as u64, bytes);
        }
        file.truncate(self.length);
        file
    }
}

fn header_bytes(h: &Header) -> Vec<u8> {
    let mut bytes = h.e_ident.to_vec();
    bytes.extend([h.e_type, h.e_machine].into_iter().flat_map(u16::to_le_bytes));
    bytes.extend(h.e_version.to_le_bytes());
    bytes.extend([h.e_entry, h.e_phoff, h.e_shoff].into_iter().flat_map(u64::to_le_bytes));
    bytes.extend(h.e_flags.to_le_bytes());
    let last = [h.e_ehsize, h.e_phentsize, h.e_phnum, h.e_shentsize, h.e_shnum, h.e_shstrndx];
    bytes.extend(last.into_iter().flat_map(u16::to_le_bytes));
    bytes
}

fn segment_bytes(p: &ProgramHeader) -> Vec<u8> {
    let words = [p.p_offset, p.p_vaddr, p.p_paddr, p.p_filesz, p.p_memsz, p.p_align];
    let first = [p.p_type, p.p_flags].into_iter().flat_map(u32::to_le_bytes);
    first.chain(words.into_iter().flat_map(u64::to_le_bytes)).collect()
}

fn symbol_bytes(s: &Sym) -> Vec<u8> {
    let mut bytes = s.st_name.to_le_bytes().to_vec();
    bytes.extend([s.st_info, s.st_other]);
    bytes.extend(s.st_shndx.to_le_bytes());
    bytes.extend([s.st_value, s.st_size].into_iter().flat_map(u64::to_le_bytes));
    bytes
}

fn rela_bytes(r: &Rela) -> Vec<u8> {
    [r.r_offset, r.r_info, r.r_addend as u64].into_iter().flat_map(u64::to_le_bytes).collect()
}

fn section_bytes(kind: u32, offset: u64, size: usize, link: u32) -> Vec<u8> {
    let mut bytes = [0, kind].into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    bytes.extend([0, offset, offset, size as u64].into_iter().flat_map(u64::to_le_bytes));
    bytes.extend([link, 0].into_iter().flat_map(u32::to_le_bytes));
    bytes.extend([0u64, 0].into_iter().flat_map(u64::to_le_bytes));
    bytes
}
