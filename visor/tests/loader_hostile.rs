//! The loader against files made to hurt it: each is a valid image with one thing changed, and is refused with
//! exactly the reason that applies. The positive control is the valid image itself.

mod loader_builder;

use goblin::elf64::{dynamic::*, program_header::*, reloc::*, sym::*};
use loader_builder::*;
use monohull_checker::{CheckError, Kind};
use monohull_visor::domain::image::{
    Access, Image, ImageError, Relocation, Segment, SymbolTable, TlsTemplate, Value, map::LoadedImage, verify,
};
use std::path::Path;

fn parse(elf: &Elf) -> Result<Image, ImageError> {
    Image::parse("test", &elf.build())
}

fn changed(change: impl FnOnce(&mut Elf)) -> Elf {
    let mut elf = Elf::valid();
    change(&mut elf);
    elf
}

#[test]
fn the_valid_image_is_read_as_it_is() {
    let image = parse(&Elf::valid()).expect("the valid image is accepted");
    let segment = |address, file_size, memory_size, access| Segment {
        address,
        memory_size,
        file_offset: address,
        file_size,
        access,
    };
    assert_eq!(
        image.segments,
        [
            segment(0, 0x1000, 0x1000, Access::Read),
            segment(CODE, 0x20, 0x20, Access::ReadExecute),
            segment(DATA, 0x1100, 0x2000, Access::ReadWrite),
        ]
    );
    let word = |offset, value| Relocation { offset, value };
    let words: Vec<Relocation> = image.relocations.iter().collect();
    assert_eq!(
        words,
        [
            word(WORDS, Value::Base(HELPER)),
            word(WORDS + 8, Value::Base(HELPER + 4)),
            word(WORDS + 16, Value::Absolute(0)),
            word(WORDS + 24, Value::Base(HELPER)),
            word(INIT, Value::Base(HELPER)),
        ]
    );
    assert_eq!(words[1].value.at(0x1000_0000_0000), 0x1000_0000_1014);
    assert_eq!(words[2].value.at(0x1000_0000_0000), 0);
    assert_eq!(image.relro, Some(DATA..0x3000));
    assert_eq!((image.start, image.span, image.init_array), (CODE, 0x4000, Some((INIT, 1))));
    assert_eq!(image.name, "test");
    let symbols = SymbolTable::read(&Elf::valid().build());
    assert_eq!(symbols.find(HELPER + 3).map(|symbol| symbol.to_string()).as_deref(), Some("helper + 0x3"));
    assert_eq!(symbols.find(0x3000), None);
    assert_eq!(verify("test", &Elf::valid().build()), Ok(image));
}

/// Variations that are fine.
#[test]
fn what_is_harmless_is_accepted() {
    type Change = fn(&mut Elf);
    let changes: [(&str, Change); 14] = [
        ("the other kind of hash table", |elf| {
            elf.remove_dynamic(DT_GNU_HASH);
            elf.add_dynamic(DT_HASH, HASH);
            elf.patch(HASH, &[1, 0, 0, 0, 5, 0, 0, 0]);
        }),
        ("no relocations", |elf| {
            elf.set_dynamic(DT_RELASZ, 0);
            elf.remove_dynamic(DT_JMPREL);
            elf.remove_dynamic(DT_PLTRELSZ);
        }),
        ("no initialisers", |elf| elf.set_dynamic(DT_INIT_ARRAYSZ, 0)),
        ("finalisers", |elf| elf.add_finalisers(INIT, 8)),
        ("no relro", |elf| elf.segments[RELRO].p_type = PT_NULL),
        ("no stack header", |elf| elf.segments[STACK].p_type = PT_NULL),
        ("a note", |elf| elf.add_segment(segment(PT_NOTE, PF_R, 0xf80, 0x20, 0x20))),
        ("an unwind table", |elf| elf.add_segment(segment(PT_GNU_EH_FRAME, PF_R, 0xf80, 0x20, 0x20))),
        ("properties", |elf| elf.add_segment(segment(PT_GNU_PROPERTY, PF_R, 0xf80, 0x20, 0x20))),
        ("the program headers' own", |elf| elf.add_segment(segment(PT_PHDR, PF_R, 0x40, 0x150, 0x150))),
        ("a relocation that does nothing", |elf| elf.add_relocation(rela(3, R_X86_64_NONE, 99, 0))),
        ("a symbol right behind a segment", |elf| {
            elf.add_symbol("_end", symbol(STB_GLOBAL, STT_NOTYPE, 3, 0x4000, 0));
        }),
        ("an absolute symbol that is not used", |elf| {
            elf.add_symbol("version", symbol(STB_GLOBAL, STT_OBJECT, 0xfff1, 1 << 40, 0));
        }),
        ("flags that ask for what is done anyway", |elf| {
            elf.add_dynamic(DT_FLAGS, DF_BIND_NOW);
            elf.add_dynamic(DT_FLAGS_1, DF_1_NOW);
            elf.add_dynamic(DT_SONAME, 0);
        }),
    ];
    for (name, change) in changes {
        parse(&changed(change)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Sixteen bytes of initialised thread-local variables, and forty-eight of zeros.
const TLS: ProgramHeader = ProgramHeader {
    p_type: PT_TLS,
    p_flags: PF_R,
    p_offset: 0x2900,
    p_vaddr: 0x2900,
    p_paddr: 0x2900,
    p_filesz: 0x10,
    p_memsz: 0x40,
    p_align: 16,
};

/// An image with thread-local variables, and each kind of relocation for them.
fn with_thread_locals() -> Elf {
    changed(|elf| {
        elf.add_segment(TLS);
        let counter = elf.add_symbol("counter", symbol(STB_GLOBAL, STT_TLS, 3, 0x18, 8));
        elf.add_relocation(rela(WORDS + 32, R_X86_64_DTPMOD64, 0, 0));
        elf.add_relocation(rela(WORDS + 40, R_X86_64_DTPMOD64, counter, 0));
        elf.add_relocation(rela(WORDS + 48, R_X86_64_DTPOFF64, counter, 4));
    })
}

#[test]
fn thread_local_variables_are_read_as_they_are() {
    let image = parse(&with_thread_locals()).expect("accepted");
    let template = TlsTemplate { address: 0x2900, file_size: 0x10, memory_size: 0x40, align: 16 };
    assert_eq!(image.tls, Some(template));
    let words: Vec<_> = image.relocations.iter().skip(4).take(3).map(|word| (word.offset, word.value)).collect();
    assert_eq!(
        words,
        [(WORDS + 32, Value::Absolute(1)), (WORDS + 40, Value::Absolute(1)), (WORDS + 48, Value::Absolute(0x1c)),]
    );

    // Zeros alone: the address need not be in a segment.
    let zeros = ProgramHeader { p_filesz: 0, p_align: 0, p_vaddr: 0x1f00, ..TLS };
    let image = parse(&changed(|elf| elf.add_segment(zeros))).expect("accepted");
    assert_eq!(image.tls, Some(TlsTemplate { address: 0x1f00, file_size: 0, memory_size: 0x40, align: 1 }));
    assert_eq!(parse(&Elf::valid()).expect("accepted").tls, None);
}

/// Section headers only give names.
#[test]
fn damaged_section_headers_cost_names_only() {
    for (at, value) in [(0x28, 0xff), (0x3a, 0xff), (0x3c, 0), (0x3d, 0xff), (SECTIONS + 64 + 0x28, 0xff)] {
        let elf = changed(|elf| elf.patch(at, &[value; 2]));
        parse(&elf).expect("only names are lost");
        assert!(SymbolTable::read(&elf.build()).len() <= 3, "byte {at:#x}");
    }
}

macro_rules! hostile {
    ($($name:ident: |$elf:ident| $change:expr => $error:expr;)*) => {
        mod hostile {
            use super::*;
            $(
                #[test]
                fn $name() {
                    let file = changed(|$elf| { $change; });
                    assert_eq!(parse(&file), Err($error));
                }
            )*
        }
    };
}

fn truncated(what: &'static str, start: u64, end: u64, size: u64) -> ImageError {
    ImageError::Truncated { what, start, end, size }
}

fn outside(what: &'static str, address: u64, size: u64) -> ImageError {
    ImageError::OutsideSegments { what, address, size }
}

hostile! {
    // The file header.
    an_empty_file: |elf| elf.length = 0 => ImageError::NotElf;
    another_magic: |elf| elf.header.e_ident[0] = 0x7e => ImageError::NotElf;
    cut_in_the_file_header: |elf| elf.length = 63 => truncated("file header", 0, 64, 63);
    a_32_bit_file: |elf| elf.header.e_ident[4] = 1 => ImageError::Not64Bit { class: 1 };
    a_big_endian_file: |elf| elf.header.e_ident[5] = 2 => ImageError::NotLittleEndian { encoding: 2 };
    another_ident_version: |elf| elf.header.e_ident[6] = 2 => ImageError::UnknownElfVersion { version: 2 };
    another_version: |elf| elf.header.e_version = 7 => ImageError::UnknownElfVersion { version: 7 };
    another_system: |elf| elf.header.e_ident[7] = 9 => ImageError::OtherSystem { os: 9 };
    another_machine: |elf| elf.header.e_machine = 183 => ImageError::OtherMachine { machine: 183 };
    an_executable: |elf| elf.header.e_type = 2 => ImageError::NotSharedObject { elf_type: 2 };
    an_object_file: |elf| elf.header.e_type = 1 => ImageError::NotSharedObject { elf_type: 1 };
    a_short_file_header: |elf| elf.header.e_ehsize = 52
        => ImageError::WrongEntrySize { what: "file header", size: 52, expected: 64 };
    short_program_headers: |elf| elf.header.e_phentsize = 32
        => ImageError::WrongEntrySize { what: "program header table", size: 32, expected: 56 };
    too_many_program_headers: |elf| elf.header.e_phnum = 0xffff => ImageError::TooManyProgramHeaders { count: 0xffff };
    no_program_headers: |elf| elf.header.e_phnum = 0 => ImageError::NothingExecutable;

    // Program headers.
    cut_in_the_program_headers: |elf| elf.length = 0x40 + 56
        => truncated("program header table", 0x40, 0x40 + 6 * 56, 0x40 + 56);
    program_headers_past_the_end: |elf| elf.header.e_phoff = 0x10000
        => truncated("program header table", 0x10000, 0x10000 + 6 * 56, FILE_SIZE as u64);
    program_headers_wrap_around: |elf| elf.header.e_phoff = u64::MAX - 8
        => ImageError::Overflow { what: "program header table", start: u64::MAX - 8, size: 6 * 56 };
    an_interpreter: |elf| elf.add_segment(segment(PT_INTERP, PF_R, 0xf80, 8, 8)) => ImageError::Interpreter { index: 6 };
    an_unknown_segment: |elf| elf.add_segment(segment(0x6fff_0000, PF_R, 0, 0, 0))
        => ImageError::UnknownSegment { index: 6, segment_type: 0x6fff_0000 };
    an_executable_stack: |elf| elf.segments[STACK].p_flags = PF_R | PF_W | PF_X => ImageError::ExecutableStack;
    two_dynamic_sections: |elf| elf.add_segment(elf.segments[DYNAMIC])
        => ImageError::Duplicate { what: "PT_DYNAMIC" };
    two_relros: |elf| elf.add_segment(elf.segments[RELRO]) => ImageError::Duplicate { what: "PT_GNU_RELRO" };

    // Segments.
    code_that_can_be_written: |elf| elf.segments[EXECUTE].p_flags = PF_R | PF_W | PF_X
        => ImageError::WritableCode { index: 1, flags: 7 };
    code_that_can_be_written_but_not_read: |elf| elf.segments[EXECUTE].p_flags = PF_W | PF_X
        => ImageError::WritableCode { index: 1, flags: 3 };
    code_that_cannot_be_read: |elf| elf.segments[EXECUTE].p_flags = PF_X
        => ImageError::StrangeAccess { index: 1, flags: 1 };
    a_segment_without_rights: |elf| elf.segments[READ].p_flags = 0 => ImageError::StrangeAccess { index: 0, flags: 0 };
    a_segment_with_unknown_rights: |elf| elf.segments[READ].p_flags = 0x14
        => ImageError::StrangeAccess { index: 0, flags: 0x14 };
    no_code: |elf| elf.segments[EXECUTE].p_flags = PF_R => ImageError::NothingExecutable;
    an_empty_segment: |elf| elf.add_segment(segment(PT_LOAD, PF_R, 0x5000, 0, 0)) => ImageError::EmptySegment { index: 6 };
    smaller_in_memory_than_in_the_file: |elf| elf.segments[WRITE].p_memsz = 0x1000
        => ImageError::LargerInFile { index: 2, file_size: 0x1100, memory_size: 0x1000 };
    code_that_is_not_in_the_file: |elf| elf.segments[EXECUTE].p_memsz = 0x40
        => ImageError::ReadOnlyZeros { index: 1, file_size: 0x20, memory_size: 0x40 };
    an_offset_that_does_not_fit_the_address: |elf| elf.segments[EXECUTE].p_offset = CODE + 1
        => ImageError::Incongruent { index: 1, offset: CODE + 1, address: CODE };
    a_huge_alignment: |elf| elf.segments[EXECUTE].p_align = 1 << 21 => ImageError::Alignment { index: 1, align: 1 << 21 };
    an_odd_alignment: |elf| elf.segments[EXECUTE].p_align = 3 => ImageError::Alignment { index: 1, align: 3 };
    a_segment_past_the_end: |elf| elf.segments[WRITE].p_filesz = 0x1101
        => truncated("segment", DATA, 0x3101, FILE_SIZE as u64);
    a_segment_that_begins_past_the_end: |elf| elf.segments[WRITE].p_offset = 0x7000
        => truncated("segment", 0x7000, 0x8100, FILE_SIZE as u64);
    a_segment_whose_offset_wraps: |elf| elf.segments[WRITE].p_offset = u64::MAX - 0xfff
        => ImageError::Overflow { what: "segment", start: u64::MAX - 0xfff, size: 0x1100 };
    a_segment_whose_address_wraps: |elf| elf.segments[WRITE].p_vaddr = u64::MAX - 0xfff
        => ImageError::Overflow { what: "segment", start: u64::MAX - 0xfff, size: 0x2000 };
    a_segment_with_all_memory: |elf| elf.segments[WRITE].p_memsz = u64::MAX
        => ImageError::Overflow { what: "segment", start: DATA, size: u64::MAX };
    more_than_a_gibibyte: |elf| elf.segments[WRITE].p_memsz = 1 << 30 => ImageError::TooLarge { span: (1 << 30) + DATA };
    segments_that_descend: |elf| elf.segments.swap(READ, EXECUTE) => ImageError::NotAscending { index: 1, address: 0 };
    the_same_segment_twice: |elf| elf.add_segment(elf.segments[WRITE])
        => ImageError::Overlap { index: 6, address: DATA, end: 0x4000 };
    segments_that_share_a_page: |elf| {
        elf.segments[READ].p_filesz = 0x1001;
        elf.segments[READ].p_memsz = 0x1001;
    } => ImageError::Overlap { index: 1, address: CODE, end: 0x1001 };
    bss_over_the_next_segment: |elf| elf.add_segment(segment(PT_LOAD, PF_R, 0x3000, 0x10, 0x10))
        => ImageError::Overlap { index: 6, address: 0x3000, end: 0x4000 };
    relro_over_code: |elf| elf.segments[RELRO].p_vaddr = CODE
        => ImageError::MisplacedRelro { start: CODE, end: 0x2000 };
    relro_past_its_segment: |elf| elf.segments[RELRO].p_memsz = 0x2001
        => ImageError::MisplacedRelro { start: DATA, end: 0x4001 };
    relro_over_bss: |elf| {
        elf.segments[WRITE].p_filesz = 0xf00;
        elf.segments[RELRO].p_memsz = 0x2000;
    } => ImageError::MisplacedRelro { start: DATA, end: 0x4000 };
    relro_behind_the_start_of_its_segment: |elf| elf.segments[RELRO].p_vaddr = 0x3000
        => ImageError::MisplacedRelro { start: 0x3000, end: 0x4000 };
    relro_that_wraps_around: |elf| elf.segments[RELRO].p_memsz = u64::MAX
        => ImageError::Overflow { what: "PT_GNU_RELRO", start: DATA, size: u64::MAX };

    // Thread-local variables.
    two_thread_local_segments: |elf| {
        elf.add_segment(TLS);
        elf.add_segment(TLS);
    } => ImageError::Duplicate { what: "PT_TLS" };
    thread_locals_larger_in_the_file: |elf| elf.add_segment(ProgramHeader { p_memsz: 0xf, ..TLS })
        => ImageError::ThreadLocalSize { file_size: 0x10, memory_size: 0xf };
    thread_locals_that_fill_all_memory: |elf| elf.add_segment(ProgramHeader { p_memsz: u64::MAX, ..TLS })
        => ImageError::ThreadLocalSize { file_size: 0x10, memory_size: u64::MAX };
    thread_locals_of_an_odd_alignment: |elf| elf.add_segment(ProgramHeader { p_align: 24, ..TLS })
        => ImageError::ThreadLocalAlignment { align: 24 };
    thread_locals_of_a_huge_alignment: |elf| elf.add_segment(ProgramHeader { p_align: 1 << 63, ..TLS })
        => ImageError::ThreadLocalAlignment { align: 1 << 63 };
    thread_locals_in_bss: |elf| elf.add_segment(ProgramHeader { p_vaddr: 0x3100, ..TLS })
        => outside("thread-local segment", 0x3100, 0x10);
    thread_locals_across_the_edge: |elf| elf.add_segment(ProgramHeader { p_vaddr: 0x30f8, ..TLS })
        => outside("thread-local segment", 0x30f8, 0x10);
    thread_locals_that_wrap_around: |elf| elf.add_segment(ProgramHeader { p_vaddr: u64::MAX - 7, ..TLS })
        => outside("thread-local segment", u64::MAX - 7, 0x10);
    thread_locals_of_zeros_far_away: |elf| elf.add_segment(ProgramHeader { p_vaddr: 0x4001, p_filesz: 0, ..TLS })
        => outside("thread-local segment", 0x4001, 0);
    a_thread_local_symbol_without_segment: |elf| elf.add_symbol("errno", symbol(STB_GLOBAL, STT_TLS, 3, 0, 0))
        => ImageError::ThreadLocalSymbol { name: "errno".into() };
    a_thread_local_symbol_outside: |elf| {
        elf.add_segment(TLS);
        elf.add_symbol("errno", symbol(STB_GLOBAL, STT_TLS, 3, 0x41, 0));
    } => ImageError::ThreadLocalSymbol { name: "errno".into() };
    an_undefined_thread_local_symbol: |elf| {
        elf.add_segment(TLS);
        elf.add_symbol("errno", symbol(STB_GLOBAL, STT_TLS, 0, 0, 0));
    } => ImageError::ThreadLocalSymbol { name: "errno".into() };
    an_undefined_weak_thread_local_symbol: |elf| {
        elf.add_segment(TLS);
        elf.add_symbol("errno", symbol(STB_WEAK, STT_TLS, 0, 0, 0));
    } => ImageError::ThreadLocalSymbol { name: "errno".into() };
    a_thread_local_start: |elf| {
        elf.add_segment(TLS);
        elf.symbols[START].1 = symbol(STB_GLOBAL, STT_TLS, 3, 8, 0);
    } => ImageError::ThreadLocalAddress { name: "monohull_start".into() };
    the_address_of_a_thread_local_symbol: |elf| {
        elf.add_segment(TLS);
        let index = elf.add_symbol("errno", symbol(STB_GLOBAL, STT_TLS, 3, 8, 0));
        elf.add_relocation(rela(WORDS + 32, R_X86_64_64, index, 0));
    } => ImageError::ThreadLocalAddress { name: "errno".into() };
    a_thread_local_module_without_segment: |elf| elf.add_relocation(rela(WORDS + 32, R_X86_64_DTPMOD64, 0, 0))
        => ImageError::NotThreadLocal { offset: WORDS + 32, name: "X86_64_DTPMOD64" };
    a_thread_local_module_of_a_function: |elf| {
        elf.add_segment(TLS);
        elf.add_relocation(rela(WORDS + 32, R_X86_64_DTPMOD64, HELPER_SYMBOL, 0));
    } => ImageError::NotThreadLocal { offset: WORDS + 32, name: "X86_64_DTPMOD64" };
    a_thread_local_module_of_a_symbol_that_is_not_there: |elf| {
        elf.add_segment(TLS);
        elf.add_relocation(rela(WORDS + 32, R_X86_64_DTPMOD64, 5, 0));
    } => ImageError::BadSymbolIndex { offset: WORDS + 32, index: 5, count: 5 };
    a_thread_local_offset_of_a_function: |elf| {
        elf.add_segment(TLS);
        elf.add_relocation(rela(WORDS + 32, R_X86_64_DTPOFF64, HELPER_SYMBOL, 0));
    } => ImageError::NotThreadLocal { offset: WORDS + 32, name: "X86_64_DTPOFF64" };
    a_thread_local_offset_without_symbol: |elf| {
        elf.add_segment(TLS);
        elf.add_relocation(rela(WORDS + 32, R_X86_64_DTPOFF64, 0, 8));
    } => ImageError::NotThreadLocal { offset: WORDS + 32, name: "X86_64_DTPOFF64" };
    a_thread_local_offset_outside: |elf| {
        elf.add_segment(TLS);
        let index = elf.add_symbol("errno", symbol(STB_GLOBAL, STT_TLS, 3, 8, 0));
        elf.add_relocation(rela(WORDS + 32, R_X86_64_DTPOFF64, index, 0x39));
    } => ImageError::ThreadLocalOutside { offset: WORDS + 32, value: 0x41 };
    a_thread_local_offset_below_zero: |elf| {
        elf.add_segment(TLS);
        let index = elf.add_symbol("errno", symbol(STB_GLOBAL, STT_TLS, 3, 8, 0));
        elf.add_relocation(rela(WORDS + 32, R_X86_64_DTPOFF64, index, -9));
    } => ImageError::ThreadLocalOutside { offset: WORDS + 32, value: u64::MAX };
    a_thread_local_relocation_in_code: |elf| {
        elf.add_segment(TLS);
        elf.add_relocation(rela(CODE, R_X86_64_DTPMOD64, 0, 0));
    } => ImageError::RelocationOutside { offset: CODE };
    initial_exec: |elf| {
        elf.add_segment(TLS);
        let index = elf.add_symbol("errno", symbol(STB_GLOBAL, STT_TLS, 3, 8, 0));
        elf.add_relocation(rela(WORDS + 32, R_X86_64_TPOFF64, index, 0));
    } => ImageError::ThreadLocalModel { offset: WORDS + 32, name: "X86_64_TPOFF64" };
    thread_local_descriptors: |elf| {
        elf.add_segment(TLS);
        elf.add_relocation(rela(WORDS + 32, R_X86_64_TLSDESC, 0, 8));
    } => ImageError::ThreadLocalModel { offset: WORDS + 32, name: "X86_64_TLSDESC" };

    // The dynamic section.
    no_dynamic_section: |elf| elf.segments[DYNAMIC].p_type = PT_NULL => ImageError::NoDynamicSection;
    a_dynamic_section_in_bss: |elf| elf.segments[DYNAMIC].p_vaddr = 0x3f00 => outside("dynamic section", 0x3f00, 0x200);
    a_dynamic_section_without_end_of_memory: |elf| elf.segments[DYNAMIC].p_filesz = u64::MAX
        => outside("dynamic section", DATA, u64::MAX);
    a_dynamic_section_in_two_places: |elf| elf.segments[DYNAMIC].p_offset = DATA + 0x10
        => ImageError::MisplacedDynamic { offset: DATA + 0x10, address: DATA };
    a_dynamic_section_without_end: |elf| elf.segments[DYNAMIC].p_filesz = 13 * 16
        => ImageError::EndlessDynamic { count: 13 };
    a_needed_library: |elf| {
        elf.add_symbol("libc.so.6", symbol(STB_WEAK, STT_NOTYPE, 0, 0, 0));
        elf.add_dynamic(DT_NEEDED, 53);
    } => ImageError::NeedsLibrary { library: "libc.so.6".into() };
    a_needed_library_without_name: |elf| elf.add_dynamic(DT_NEEDED, u64::MAX)
        => ImageError::NeedsLibrary { library: String::new() };
    relocations_in_code: |elf| elf.add_dynamic(DT_TEXTREL, 0) => ImageError::TextRelocations;
    relocations_in_code_by_flag: |elf| elf.add_dynamic(DT_FLAGS, DF_TEXTREL) => ImageError::TextRelocations;
    static_thread_locals: |elf| elf.add_dynamic(DT_FLAGS, DF_STATIC_TLS) => ImageError::StaticThreadLocal;
    relocations_without_addends: |elf| elf.add_dynamic(DT_REL, RELA) => ImageError::RelocationForm { tag: "DT_REL" };
    compact_relocations: |elf| elf.add_dynamic(36, RELA) => ImageError::RelocationForm { tag: "DT_RELR" };
    jump_slots_without_addends: |elf| elf.set_dynamic(DT_PLTREL, DT_REL)
        => ImageError::RelocationForm { tag: "DT_PLTREL" };
    start_files: |elf| elf.add_dynamic(DT_INIT, CODE) => ImageError::StartFiles { tag: "DT_INIT" };
    end_files: |elf| elf.add_dynamic(DT_FINI, CODE) => ImageError::StartFiles { tag: "DT_FINI" };
    early_initialisers: |elf| elf.add_dynamic(DT_PREINIT_ARRAY, INIT)
        => ImageError::StartFiles { tag: "DT_PREINIT_ARRAY" };
    a_filter: |elf| elf.add_dynamic(0x7fff_ffff, 0) => ImageError::UnknownDynamic { tag: 0x7fff_ffff };
    two_symbol_tables: |elf| elf.add_dynamic(DT_SYMTAB, SYMBOLS) => ImageError::Duplicate { what: "DT_SYMTAB" };
    no_symbol_table: |elf| elf.remove_dynamic(DT_SYMTAB) => ImageError::MissingDynamic { tag: "DT_SYMTAB" };
    no_string_table: |elf| elf.remove_dynamic(DT_STRTAB) => ImageError::MissingDynamic { tag: "DT_STRTAB" };
    no_string_table_size: |elf| elf.remove_dynamic(DT_STRSZ) => ImageError::MissingDynamic { tag: "DT_STRSZ" };
    no_relocation_table: |elf| elf.remove_dynamic(DT_RELA) => ImageError::MissingDynamic { tag: "DT_RELA" };
    no_hash_table: |elf| elf.remove_dynamic(DT_GNU_HASH) => ImageError::MissingDynamic { tag: "DT_GNU_HASH" };
    symbols_of_another_size: |elf| elf.set_dynamic(DT_SYMENT, 16)
        => ImageError::WrongEntrySize { what: "symbol table", size: 16, expected: 24 };
    relocations_of_another_size: |elf| elf.set_dynamic(DT_RELAENT, 16)
        => ImageError::WrongEntrySize { what: "relocation table", size: 16, expected: 24 };
    initialisers_outside: |elf| elf.set_dynamic(DT_INIT_ARRAY, 0x4000)
        => ImageError::BadInitArray { address: 0x4000, size: 8 };
    misaligned_initialisers: |elf| elf.set_dynamic(DT_INIT_ARRAY, INIT + 4)
        => ImageError::BadInitArray { address: INIT + 4, size: 8 };
    initialisers_that_wrap_around: |elf| elf.set_dynamic(DT_INIT_ARRAYSZ, u64::MAX - 7)
        => ImageError::BadInitArray { address: INIT, size: u64::MAX - 7 };
    finalisers_outside: |elf| elf.add_finalisers(0x4000, 8) => ImageError::BadInitArray { address: 0x4000, size: 8 };
    misaligned_finalisers: |elf| elf.add_finalisers(INIT + 4, 8)
        => ImageError::BadInitArray { address: INIT + 4, size: 8 };
    half_a_finaliser: |elf| elf.add_finalisers(INIT, 12) => ImageError::BadInitArray { address: INIT, size: 12 };
    finalisers_without_a_place: |elf| elf.add_dynamic(DT_FINI_ARRAYSZ, 8)
        => ImageError::MissingDynamic { tag: "DT_FINI_ARRAY" };

    // Symbols.
    a_hash_table_outside: |elf| elf.set_dynamic(DT_GNU_HASH, u64::MAX - 3)
        => ImageError::DamagedHash { what: "hash table (DT_GNU_HASH)" };
    a_hash_table_at_the_edge: |elf| elf.set_dynamic(DT_GNU_HASH, 0xffc)
        => ImageError::DamagedHash { what: "hash table (DT_GNU_HASH)" };
    a_hash_table_with_huge_filters: |elf| elf.gnu_hash[2] = u32::MAX
        => ImageError::DamagedHash { what: "hash table (DT_GNU_HASH)" };
    a_hash_table_with_huge_buckets: |elf| elf.gnu_hash[0] = u32::MAX
        => ImageError::DamagedHash { what: "hash table (DT_GNU_HASH)" };
    a_hash_table_with_a_huge_first_symbol: |elf| elf.gnu_hash[1] = u32::MAX
        => ImageError::TooManySymbols { count: u64::from(u32::MAX) };
    a_bucket_past_the_chain: |elf| elf.gnu_hash[6] = 0x1000
        => ImageError::DamagedHash { what: "hash table (DT_GNU_HASH)" };
    too_many_symbols: |elf| {
        elf.remove_dynamic(DT_GNU_HASH);
        elf.add_dynamic(DT_HASH, HASH);
        elf.patch(HASH, &[0xff; 8]);
    } => ImageError::TooManySymbols { count: u64::from(u32::MAX) };
    an_old_hash_table_outside: |elf| {
        elf.remove_dynamic(DT_GNU_HASH);
        elf.add_dynamic(DT_HASH, u64::MAX);
    } => outside("hash table", u64::MAX, 8);
    a_symbol_table_outside: |elf| elf.set_dynamic(DT_SYMTAB, 0xfff) => outside("symbol table", 0xfff, 5 * 24);
    a_string_table_outside: |elf| elf.set_dynamic(DT_STRSZ, u64::MAX) => outside("string table", STRINGS, u64::MAX);
    a_name_outside: |elf| elf.patch(SYMBOLS + 24, &[0xff; 4])
        => ImageError::BadName { index: 1, offset: u64::from(u32::MAX) };
    a_name_without_end: |elf| elf.set_dynamic(DT_STRSZ, 10) => ImageError::BadName { index: 1, offset: 1 };
    an_undefined_symbol: |elf| elf.add_symbol("printf", symbol(STB_GLOBAL, STT_FUNC, 0, 0, 0))
        => ImageError::Undefined { name: "printf".into() };
    an_indirect_function: |elf| elf.add_symbol("memcpy", symbol(STB_GLOBAL, STT_GNU_IFUNC, 2, CODE, 0))
        => ImageError::IndirectFunction { name: "memcpy".into() };
    a_symbol_outside: |elf| elf.add_symbol("far", symbol(STB_GLOBAL, STT_FUNC, 2, 1 << 40, 0))
        => ImageError::SymbolOutside { name: "far".into(), value: 1 << 40 };
    no_start: |elf| elf.symbols[START].0 = "main" => ImageError::MissingSymbol { name: "monohull_start" };
    no_start_but_a_hidden_one: |elf| elf.symbols[START].1.st_info = STT_FUNC
        => ImageError::MissingSymbol { name: "monohull_start" };
    an_undefined_start: |elf| elf.symbols[START].1 = symbol(STB_WEAK, STT_FUNC, 0, 0, 0)
        => ImageError::MissingSymbol { name: "monohull_start" };
    a_start_that_is_data: |elf| elf.symbols[START].1.st_value = WORDS => ImageError::StartNotCode { address: WORDS };
    a_start_behind_the_code: |elf| elf.symbols[START].1.st_value = 0x1020 => ImageError::StartNotCode { address: 0x1020 };
    a_start_that_is_a_number: |elf| elf.symbols[START].1.st_shndx = 0xfff1
        => ImageError::NoPlace { name: "monohull_start".into(), section: 0xfff1 };
    no_image_header: |elf| elf.symbols[IMAGE].0 = "header" => ImageError::MissingSymbol { name: "MONOHULL_IMAGE" };
    an_image_header_that_is_cut: |elf| elf.symbols[IMAGE].1.st_value = 0xff8 => outside("image header", 0xff8, 16);
    an_image_header_in_bss: |elf| elf.symbols[IMAGE].1.st_value = 0x3800 => outside("image header", 0x3800, 16);
    another_image_magic: |elf| elf.image_header[0] = 0x1122 => ImageError::WrongMagic { magic: 0x1122 };
    another_interface_version: |elf| elf.image_header[1] = 1 << 33 => ImageError::WrongVersion { version: 1 << 33 };

    // Relocations.
    an_indirect_relocation: |elf| elf.add_relocation(rela(WORDS + 32, R_X86_64_IRELATIVE, 0, CODE as i64))
        => ImageError::IndirectRelocation { offset: WORDS + 32 };
    a_copy_relocation: |elf| elf.add_relocation(rela(WORDS + 32, R_X86_64_COPY, HELPER_SYMBOL, 0))
        => ImageError::RelocationType { offset: WORDS + 32, kind: R_X86_64_COPY, name: "X86_64_COPY" };
    a_32_bit_relocation: |elf| elf.add_relocation(rela(WORDS + 32, R_X86_64_32, HELPER_SYMBOL, 0))
        => ImageError::RelocationType { offset: WORDS + 32, kind: R_X86_64_32, name: "X86_64_32" };
    an_unknown_relocation: |elf| elf.add_relocation(rela(WORDS + 32, 12345, 0, 0))
        => ImageError::RelocationType { offset: WORDS + 32, kind: 12345, name: "R_UNKNOWN_X86_64" };
    a_relocation_in_code: |elf| elf.add_relocation(rela(CODE, R_X86_64_RELATIVE, 0, 0))
        => ImageError::RelocationOutside { offset: CODE };
    a_relocation_in_constants: |elf| elf.add_relocation(rela(IMAGE_HEADER, R_X86_64_RELATIVE, 0, 0))
        => ImageError::RelocationOutside { offset: IMAGE_HEADER };
    a_relocation_in_bss: |elf| elf.add_relocation(rela(0x3100, R_X86_64_RELATIVE, 0, 0))
        => ImageError::RelocationOutside { offset: 0x3100 };
    a_relocation_past_the_end: |elf| elf.add_relocation(rela(0x4000, R_X86_64_RELATIVE, 0, 0))
        => ImageError::RelocationOutside { offset: 0x4000 };
    a_relocation_that_wraps_around: |elf| elf.add_relocation(rela(u64::MAX - 7, R_X86_64_RELATIVE, 0, 0))
        => ImageError::RelocationOutside { offset: u64::MAX - 7 };
    a_relocation_across_the_edge: |elf| {
        elf.segments[WRITE].p_filesz = 0x10fc;
        elf.add_relocation(rela(0x30f8, R_X86_64_RELATIVE, 0, 0));
    } => ImageError::RelocationOutside { offset: 0x30f8 };
    a_misaligned_relocation: |elf| elf.add_relocation(rela(WORDS + 33, R_X86_64_RELATIVE, 0, 0))
        => ImageError::MisalignedRelocation { offset: WORDS + 33 };
    two_relocations_of_one_word: |elf| elf.add_relocation(rela(WORDS + 24, R_X86_64_RELATIVE, 0, 0))
        => ImageError::DuplicateRelocation { offset: WORDS + 24 };
    a_relocation_to_an_address_outside: |elf| elf.add_relocation(rela(WORDS + 32, R_X86_64_RELATIVE, 0, 0x4001))
        => ImageError::ValueOutside { offset: WORDS + 32, value: 0x4001 };
    a_relocation_to_a_negative_address: |elf| elf.add_relocation(rela(WORDS + 32, R_X86_64_64, HELPER_SYMBOL, i64::MIN))
        => ImageError::ValueOutside { offset: WORDS + 32, value: (1 << 63) + HELPER };
    a_relocation_with_a_symbol_that_is_not_there: |elf| elf.add_relocation(rela(WORDS + 32, R_X86_64_64, 5, 0))
        => ImageError::BadSymbolIndex { offset: WORDS + 32, index: 5, count: 5 };
    a_relocation_without_symbol: |elf| elf.add_relocation(rela(WORDS + 32, R_X86_64_GLOB_DAT, 0, 0))
        => ImageError::Undefined { name: String::new() };
    a_relocation_with_a_number: |elf| {
        let index = elf.add_symbol("number", symbol(STB_GLOBAL, STT_NOTYPE, 0xfff1, 5, 0));
        elf.add_relocation(rela(WORDS + 32, R_X86_64_64, index, 0));
    } => ImageError::NoPlace { name: "number".into(), section: 0xfff1 };
    a_ragged_relocation_table: |elf| elf.set_dynamic(DT_RELASZ, 4 * 24 + 1)
        => ImageError::RaggedTable { what: "relocation table", size: 4 * 24 + 1 };
    too_many_relocations: |elf| elf.set_dynamic(DT_RELASZ, u64::MAX - 15)
        => ImageError::TooManyRelocations { count: (u64::MAX - 15) / 24 + 1 };
    a_relocation_table_outside: |elf| elf.set_dynamic(DT_RELA, 0x10_0000) => outside("relocation table", 0x10_0000, 96);
}

/// Instructions are the checker's business; `verify` asks it, `parse` does not.
#[test]
fn forbidden_instructions_are_refused_by_verify() {
    let file = changed(|elf| elf.code[7..10].copy_from_slice(&[0x0f, 0x01, 0xef])).build();
    assert!(Image::parse("test", &file).is_ok());
    let Err(ImageError::Forbidden { finding }) = verify("test", &file) else { panic!("wrpkru was accepted") };
    assert_eq!((finding.kind, finding.offset, finding.address), (Kind::Wrpkru, CODE + 7, CODE + 7));
    assert_eq!(finding.symbol.as_deref(), Some("monohull_start + 0x7"));
}

/// The bytes of the file behind the code are mapped with its last page, so they count.
#[test]
fn bytes_behind_the_code_are_checked() {
    let file = changed(|elf| elf.patch(0x1ffd, &[0x0f, 0x01, 0xef])).build();
    assert!(matches!(verify("test", &file), Err(ImageError::Forbidden { .. })));
    // Between the segments' file parts the pages have no owner.
    let file = changed(|elf| elf.patch(0x30f0, &[0x0f, 0x01, 0xef])).build();
    assert!(verify("test", &file).is_ok());
}

/// What the checker cannot judge is not accepted. (The loader's own checks come first and are stricter.)
#[test]
fn an_unjudged_file_is_an_error() {
    assert_eq!(ImageError::from(CheckError::NotElf).to_string().split(':').next(), Some("the code cannot be checked"));
}

#[test]
fn every_truncation_is_refused() {
    let whole = Elf::valid().build();
    for length in 0..whole.len() {
        assert!(verify("test", &whole[..length]).is_err(), "cut to {length} bytes");
    }
}

/// Every byte of the file header, the program headers and the tables, with several values.
#[test]
fn no_single_byte_panics() {
    let whole = Elf::valid().build();
    let mut refused = 0;
    let headers = 0..CODE as usize;
    let dynamic = DATA as usize..DATA as usize + 0x200;
    for at in headers.chain(dynamic) {
        let mut file = whole.clone();
        for change in [0x01, 0x08, 0x80, 0xff] {
            file[at] = whole[at] ^ change;
            refused += u32::from(verify("test", &file).is_err());
        }
    }
    assert!(refused > 1000, "only {refused} of the changes were noticed");
}

/// What fuzzing starts from, and what it has found: the files are kept in the repository.
#[test]
fn the_corpus_never_panics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/image_parse");
    // What the loader knows of thread-local variables is in a seed of its own.
    let (seed, built) = (folder.join("by-hand-thread-locals"), with_thread_locals().build());
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        std::fs::write(&seed, &built).expect("written");
    }
    assert!(std::fs::read(&seed).is_ok_and(|seed| seed == built), "UPDATE_CORPUS=1 writes {}", seed.display());
    let mut accepted = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the corpus is in the repository") {
        let path = entry.expect("the folder can be listed").path();
        let file = std::fs::read(&path).expect("the file can be read");
        if let Ok(image) = verify("corpus", &file) {
            loader_builder::promises::check_promises(&image, &file);
            accepted.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    accepted.sort();
    assert_eq!(
        accepted,
        ["by-hand", "by-hand-old-hash", "by-hand-thread-locals", "by-rustc"],
        "the seeds are valid images"
    );
}

mod random {
    use super::loader_builder::promises::check_promises;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn mutations_never_panic(changes in prop::collection::vec((0..0x2200_usize, any::<u8>()), 1..12)) {
            let mut file = Elf::valid().build();
            for (at, value) in changes {
                file[at] = value;
            }
            if let Ok(image) = verify("test", &file) {
                check_promises(&image, &file);
            }
        }

        #[test]
        fn strange_words_never_panic(
            changes in prop::collection::vec((0..0x2200_usize / 8, prop_oneof![
                Just(0), Just(u64::MAX), Just(1 << 63), Just(u64::MAX - 7), 0..0x5000_u64, any::<u64>(),
            ]), 1..4),
        ) {
            let mut file = Elf::valid().build();
            for (at, value) in changes {
                file[at * 8..at * 8 + 8].copy_from_slice(&value.to_le_bytes());
            }
            if let Ok(image) = verify("test", &file) {
                check_promises(&image, &file);
            }
        }

        #[test]
        fn noise_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
            prop_assert!(verify("test", &bytes).is_err());
        }
    }
}

/// Memory that has fewer bytes than the image, as it is when the host cannot read all of it.
#[test]
fn an_image_whose_memory_cannot_be_read_has_no_hash_and_an_error() {
    let mut image = LoadedImage::new("test", &Elf::valid().build()).expect("a valid one");
    image.image.bytes += 1 << 30;
    let error = image.hash().expect_err("not all of it is there");
    assert!(error.to_string().contains("the memory of an image cannot be read"), "{error}");
}
