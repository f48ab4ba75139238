//! Files without segments, rules other than those for images, and findings explained.

use monohull_checker::context::Evidence;
use monohull_checker::{CheckError, Class, Context, Finding, Form, Kind, Report, Rules, check, check_by};

const PAGE: usize = 4096;
const WRPKRU: [u8; 3] = [0x0f, 0x01, 0xef];
const EXPLAIN: Rules = Rules { explain: true, ..Rules::IMAGE };
const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const RELA: u32 = 4;
const NOBITS: u32 = 8;
const CODE: u64 = 6;

/// A section: type, flags, what follows from it (`sh_link`, `sh_info`), entry size, bytes.
#[derive(Clone)]
struct Section {
    kind: u32,
    flags: u64,
    link: u32,
    info: u32,
    entry: u64,
    bytes: Vec<u8>,
}

fn section(kind: u32, flags: u64, bytes: &[u8]) -> Section {
    Section { kind, flags, link: 0, info: 0, entry: 0, bytes: bytes.to_vec() }
}

/// An object of these sections (the first is number 1). They lie one behind the other from `start` on.
fn object(abi: u8, start: usize, sections: &[Section]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.extend([abi, 0, 0, 0, 0, 0, 0, 0, 0]);
    file.extend([1u16, 62].into_iter().flat_map(u16::to_le_bytes));
    file.extend(1u32.to_le_bytes());
    let table = start + sections.iter().map(|section| section.bytes.len()).sum::<usize>();
    file.extend([0, 0, table as u64].into_iter().flat_map(u64::to_le_bytes));
    file.extend(0u32.to_le_bytes());
    file.extend([64, 0, 0, 64, sections.len() as u16 + 1, 0].into_iter().flat_map(u16::to_le_bytes));
    file.resize(start, 0xcc);
    sections.iter().for_each(|section| file.extend(&section.bytes));
    file.resize(table + 64, 0);
    let mut offset = start as u64;
    for section in sections {
        file.extend([0, section.kind].into_iter().flat_map(u32::to_le_bytes));
        let size = section.bytes.len() as u64;
        file.extend([section.flags, 0, offset, size].into_iter().flat_map(u64::to_le_bytes));
        file.extend([section.link, section.info].into_iter().flat_map(u32::to_le_bytes));
        file.extend([1, section.entry].into_iter().flat_map(u64::to_le_bytes));
        offset += size;
    }
    file
}

/// A table with one function symbol: in section `index`, from `value` on.
fn symbol(index: u16, value: u64, size: u64) -> Vec<u8> {
    let mut table = vec![0; 24];
    table.extend(1u32.to_le_bytes());
    table.extend([2, 0]);
    table.extend(index.to_le_bytes());
    table.extend([value, size].into_iter().flat_map(u64::to_le_bytes));
    table
}

fn judge(file: &[u8]) -> Report {
    check_by(EXPLAIN, file).expect("the file can be judged")
}

fn explained(report: &Report) -> (&Finding, &Context) {
    let finding = report.refusal().expect("it is refused");
    (finding, finding.context.as_ref().expect("it is explained"))
}

#[test]
fn an_object_is_judged_by_its_sections() {
    let data = section(PROGBITS, 2, &WRPKRU);
    let first = section(PROGBITS, CODE, &[0x90, 0x0f]);
    // Behind it in the file, but a linker may put anything between them.
    let second = section(PROGBITS, CODE, &[0x01, 0xef, 0x90, 0x0f, 0x01, 0xef]);
    let table = Section { link: 5, ..section(SYMTAB, 0, &symbol(3, 2, 4)) };
    let names = section(STRTAB, 0, b"\0second\0");
    let relocations = Section { info: 3, entry: 24, ..section(RELA, 0, &[0; 48]) };
    let file = object(0, 64, &[data, first, second, table, names, relocations]);
    let report = judge(&file);
    assert_eq!((report.form, report.scanned_bytes, report.filled_in_later), (Form::Relocatable, 8, 2));
    let (finding, context) = explained(&report);
    assert_eq!((report.count(Kind::Wrpkru), finding.offset, finding.address), (1, 64 + 8, 64 + 8));
    assert_eq!(finding.symbol.as_deref(), Some("second + 0x1"));
    assert_eq!((context.class, context.evidence), (Class::Instruction, Evidence::Symbol));
}

/// A linker's symbol at the start of an image, such as `__ehdr_start`, is no name of the code behind it.
#[test]
fn a_symbol_without_a_size_ends_with_its_section() {
    let named = |size| {
        let code = [section(PROGBITS, CODE, &[0x90; 4]), section(PROGBITS, CODE, &WRPKRU)];
        let table = Section { link: 4, ..section(SYMTAB, 0, &symbol(1, 0, size)) };
        let report = judge(&object(0, 64, &[&code[..], &[table, section(STRTAB, 0, b"\0first\0")]].concat()));
        explained(&report).0.symbol.clone()
    };
    assert_eq!(named(0), None);
    assert_eq!(named(7).as_deref(), Some("first + 0x4"));
}

/// Wasmtime's runtime maps whole pages, so what lies around the section counts, too.
#[test]
fn compiled_wasm_is_judged_by_its_pages() {
    let text = section(PROGBITS, CODE, &[0x90; 100]);
    let after = section(PROGBITS, 2, &WRPKRU);
    let sections = [text, after];
    let report = judge(&object(200, PAGE, &sections));
    assert_eq!(report.form, Form::Wasm);
    assert_eq!(report.refusal().map(|finding| finding.offset), Some(PAGE as u64 + 100));
    // The same as an ordinary object: only the section.
    let report = judge(&object(0, PAGE, &sections));
    assert_eq!((report.is_refused(), report.scanned_bytes), (false, 100));
}

#[test]
fn sections_that_share_bytes_are_looked_at_once() {
    let mut file = object(0, 64, &[section(PROGBITS, CODE, &WRPKRU), section(PROGBITS, CODE, &[])]);
    let headers = file.len() - 3 * 64;
    file.copy_within(headers + 64..headers + 128, headers + 128);
    let report = judge(&file);
    assert_eq!((report.scanned_bytes, report.count(Kind::Wrpkru)), (3, 1));
}

#[test]
fn an_object_that_cannot_be_judged_is_an_error() {
    let code = section(PROGBITS, CODE, &[0x90; 8]);
    let errors = |sections: &[Section]| check(&object(0, 64, sections)).expect_err("it cannot be judged");
    assert_eq!(errors(&[section(PROGBITS, 2, &WRPKRU)]), CheckError::NothingExecutable);
    assert_eq!(errors(&[section(PROGBITS, CODE | 1, &WRPKRU)]), CheckError::SectionUnfit(1));
    assert_eq!(errors(&[code.clone(), section(PROGBITS, CODE | 0x800, &WRPKRU)]), CheckError::SectionUnfit(2));
    assert_eq!(errors(&[section(NOBITS, CODE, &WRPKRU)]), CheckError::SectionUnfit(1));
    let whole = object(0, 64, &[code]);
    assert!((0..whole.len()).all(|length| check(&whole[..length]).is_err()));
    let mut outside = whole.clone();
    let size = whole.len() - 64 + 32;
    outside[size..size + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(check(&outside), Err(CheckError::SectionOutside(1)));
}

#[test]
fn without_dispatch_system_calls_are_refused() {
    let rules = Rules { dispatch_armed: false, ..Rules::IMAGE };
    let refused = |bytes: &[u8]| {
        let file = object(0, 64, &[section(PROGBITS, CODE, bytes)]);
        check_by(rules, &file).expect("it can be judged").is_refused()
    };
    for bytes in [&[0x0f, 0x05][..], &[0x0f, 0x34], &[0xcd, 0x80], &WRPKRU] {
        assert!(refused(bytes), "{bytes:02x?}");
    }
    for bytes in [&[0x0f, 0xc7, 0x18][..], &[0xcb], &[0x8e, 0xd8]] {
        assert!(!refused(bytes), "{bytes:02x?}");
    }
}

/// What is explained: the bytes, what it is, and whether a jump to it executes the finding.
#[test]
fn findings_are_distinguished() {
    for (bytes, class, here, jumped) in [
        (&[0x0f, 0x01, 0xef][..], Class::Instruction, "wrpkru", "wrpkru"),
        // With prefixes that change nothing.
        (&[0x2e, 0x48, 0x0f, 0xae, 0x28], Class::Instruction, "xrstor64 [rax]", "xrstor [rax]"),
        (&[0xf3, 0x48, 0x0f, 0xae, 0xd0], Class::Instruction, "wrfsbase rax", "wrfsbase rax"),
        (&[0xb8, 0x0f, 0x01, 0xef, 0x00], Class::Accident, "mov eax, 0xef010f", "wrpkru"),
        // `je` over fifteen bytes, then `add edi, ebp`.
        (&[0x74, 0x0f, 0x01, 0xef], Class::Accident, "je 0x", "wrpkru"),
    ] {
        let code = [&[0x90; 150], bytes, &[0x90; 30]].concat();
        let report = judge(&object(0, 64, &[section(PROGBITS, CODE, &code)]));
        let (finding, context) = explained(&report);
        assert_eq!(context.class, class, "{bytes:02x?}");
        assert_eq!(context.when_jumped_to.as_deref(), Some(jumped), "{bytes:02x?}");
        let line = context.neighbourhood.iter().find(|line| line.here).expect("it is shown");
        assert!(line.text.starts_with(here), "{}", line.text);
        assert!((line.address..line.address + line.bytes.len() as u64).contains(&finding.address));
        assert_eq!(context.neighbourhood.len(), 6);
    }
}

/// Behind a table the way from the symbol's start leads nowhere, and nearby starting points disagree or fail.
#[test]
fn what_decoding_does_not_decide_is_unclear() {
    let code = [&[0x06; 150][..], &WRPKRU, &[0x06; 30]].concat();
    let table = Section { link: 3, ..section(SYMTAB, 0, &symbol(1, 0, 183)) };
    let file = object(0, 64, &[section(PROGBITS, CODE, &code), table, section(STRTAB, 0, b"\0f\0")]);
    let report = judge(&file);
    let (finding, context) = explained(&report);
    assert_eq!((context.class, &context.neighbourhood[..]), (Class::Unclear, &[][..]));
    assert_eq!(context.evidence, Evidence::Starts { agree: 0, of: 0 });
    assert_eq!(finding.remedy, Kind::Wrpkru.remedy());
}

/// Only with the rule for the visor, only in the right symbol, and only with the comparison that makes it harmless.
#[test]
fn gates_are_recognised_by_symbol_and_bytes() {
    let visor = Rules { own_gates: true, ..Rules::IMAGE };
    let rights = [0x31, 0xc9, 0x31, 0xd2, 0xb8, 0xcb, 0xff, 0xff, 0xff, 0x0f, 0x01, 0xef, 0x83, 0xf8, 0xcb, 0x75, 0x14];
    let address = [0x11; 8];
    let carrier = [&[0xf3, 0x49, 0x0f, 0xae, 0xca, 0x49, 0xbb][..], &address, &[0x4d, 0x39, 0xda, 0x75, 0x00]].concat();
    let entry = [&rights[..], &carrier].concat();
    let exit = [0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0x0f, 0x01, 0xef, 0x85, 0xc0, 0x0f, 0x85, 0, 0, 0, 0];
    let own = |rules: Rules, name: &str, code: &[u8]| {
        let names = format!("\0{name}\0monohull_kill\0");
        // The kill stub comes right behind.
        let mut symbols = symbol(1, 0, code.len() as u64);
        let mut kill = symbol(1, code.len() as u64, 1).split_off(24);
        kill[..4].copy_from_slice(&(name.len() as u32 + 2).to_le_bytes());
        symbols.extend(kill);
        let table = Section { link: 3, ..section(SYMTAB, 0, &symbols) };
        let code = section(PROGBITS, CODE, &[code, &[0xf4]].concat());
        let report = check_by(rules, &object(0, 64, &[code, table, section(STRTAB, 0, names.as_bytes())]));
        let report = report.expect("it can be judged");
        assert_eq!(report.own_gates + report.count(Kind::Wrpkru), 1);
        report.own_gates == 1
    };
    assert!(own(visor, "monohull_entry_keys", &entry));
    assert!(own(visor, "monohull_exit_keys", &exit));
    assert!(!own(Rules::IMAGE, "monohull_entry_keys", &entry));
    assert!(!own(visor, "monohull_exit_keys", &entry));
    assert!(!own(visor, "monohull_entry_keys", &exit));
    assert!(!own(visor, "entry", &entry));
    // What is harmless at the exit needs more comparisons where signals are handled.
    assert!(!own(visor, "monohull_signal_entry_keys", &exit));
    for gate in [(&entry[..], "monohull_entry_keys"), (&exit[..], "monohull_exit_keys")] {
        for at in 0..gate.0.len() {
            // Only the WRPKRU itself is left as it is, or else there is nothing to find, and the carrier's address.
            if gate.0[at] != address[0]
                && !gate.0[at.saturating_sub(2)..].starts_with(&WRPKRU)
                && !gate.0[at..].starts_with(&WRPKRU)
                && !gate.0[at.saturating_sub(1)..].starts_with(&WRPKRU)
            {
                let mut changed = gate.0.to_vec();
                changed[at] ^= 0x10;
                assert!(!own(visor, gate.1, &changed), "{} with byte {at} changed", gate.1);
            }
        }
    }
}
