//! Forbidden bytes hidden everywhere they could be, and a second, naive scanner that must agree.

use monohull_checker::{
    CheckError, Kind, LISTED_PER_KIND, Rules, Severity, check, check_by, instruction, is_refused, parts, refusal,
};
use proptest::prelude::*;

const PAGE: usize = 4096;
const READ: u32 = 4;
const READ_WRITE: u32 = 6;
const READ_EXECUTE: u32 = 5;

/// One loaded part of a file: rights, file offset, address, bytes.
struct Part {
    flags: u32,
    offset: usize,
    address: usize,
    size: usize,
}

fn part(flags: u32, offset: usize, address: usize, size: usize) -> Part {
    Part { flags, offset, address, size }
}

/// An ELF file with these parts over `content`, which begins in the file's second page.
fn elf(parts: &[Part], content: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([3u16, 62].into_iter().flat_map(u16::to_le_bytes));
    file.extend(1u32.to_le_bytes());
    file.extend([0u64, 64, 0].into_iter().flat_map(u64::to_le_bytes));
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, parts.len() as u16, 64, 0, 0].into_iter().flat_map(u16::to_le_bytes));
    for part in parts {
        file.extend([1, part.flags].into_iter().flat_map(u32::to_le_bytes));
        let (offset, address, size) = (part.offset as u64, part.address as u64, part.size as u64);
        file.extend([offset, address, address, size, size, 0x1000].into_iter().flat_map(u64::to_le_bytes));
    }
    file.resize(PAGE, 0);
    file.extend(content);
    file
}

/// An ELF file whose only segment is `code`, page-aligned.
fn code(code: &[u8]) -> Vec<u8> {
    elf(&[part(READ_EXECUTE, PAGE, 3 * PAGE, code.len())], code)
}

/// One spelling of everything that is looked for.
const SPELLINGS: [(&[u8], Kind); 27] = [
    (&[0x0f, 0x01, 0xef], Kind::Wrpkru),
    (&[0xd5, 0x80, 0x01, 0xef], Kind::Wrpkru),
    (&[0x0f, 0xae, 0x28], Kind::Xrstor),
    (&[0x0f, 0xae, 0x6c], Kind::Xrstor),
    (&[0x0f, 0xae, 0xaf], Kind::Xrstor),
    (&[0x0f, 0xc7, 0x18], Kind::Xrstors),
    (&[0x0f, 0xc7, 0x9f], Kind::Xrstors),
    (&[0xf3, 0x0f, 0xae, 0xd0], Kind::Wrfsbase),
    (&[0xf3, 0x48, 0x0f, 0xae, 0xd7], Kind::Wrfsbase),
    (&[0xf3, 0x66, 0x2e, 0x4f, 0x0f, 0xae, 0xdf], Kind::Wrgsbase),
    (&[0xf3, 0x0f, 0xae, 0xd8], Kind::Wrgsbase),
    (&[0xf3, 0xd5, 0x91, 0xae, 0xd8], Kind::Wrgsbase),
    (&[0x0f, 0x05], Kind::Syscall),
    (&[0xd5, 0xff, 0x05], Kind::Syscall),
    (&[0x0f, 0x34], Kind::Sysenter),
    (&[0xcd, 0x80], Kind::Int),
    (&[0xcd, 0x2e], Kind::Int),
    (&[0xff, 0x1d], Kind::FarTransfer),
    (&[0xff, 0x6c], Kind::FarTransfer),
    (&[0xca], Kind::FarTransfer),
    (&[0xcb], Kind::FarTransfer),
    (&[0xcf], Kind::FarTransfer),
    (&[0x8e, 0xd8], Kind::SegmentLoad),
    (&[0x8e, 0x20], Kind::SegmentLoad),
    (&[0x0f, 0xa1], Kind::SegmentLoad),
    (&[0x0f, 0xa9], Kind::SegmentLoad),
    (&[0x0f, 0xb4, 0x00], Kind::SegmentLoad),
];

/// Similar bytes that are harmless: LFENCE, FXRSTOR, LDMXCSR, WRFSBASE without its prefix or with a byte
/// between, RDPKRU, CMPXCHG8B, RDFSBASE, a near indirect call, MOV from a segment register, a `d5` without the map bit.
const HARMLESS: [&[u8]; 11] = [
    &[0x0f, 0xae, 0xe8],
    &[0x0f, 0xae, 0x08],
    &[0x0f, 0xae, 0x10],
    &[0x0f, 0xae, 0xd0],
    &[0xf3, 0x90, 0x0f, 0xae, 0xd0],
    &[0x0f, 0x01, 0xee],
    &[0x0f, 0xc7, 0x08],
    &[0xf3, 0x0f, 0xae, 0xc0],
    &[0xff, 0x10],
    &[0x8c, 0xd8],
    &[0xd5, 0x00, 0x01, 0xef],
];

#[test]
fn every_spelling_is_found_at_every_offset() {
    for (bytes, kind) in SPELLINGS {
        for at in 0..=2 * PAGE - bytes.len() {
            // Around the page border and at every alignment; in between one of 13 places.
            if at > 64 && at % 13 != 0 && !(PAGE - 16..PAGE + 16).contains(&at) && at < 2 * PAGE - 16 {
                continue;
            }
            let mut content = vec![0x90; 2 * PAGE];
            content[at..at + bytes.len()].copy_from_slice(bytes);
            let report = check(&code(&content)).expect("the file can be judged");
            let [finding] = &report.findings[..] else { panic!("{kind:?} at {at:#x}: {:?}", report.findings) };
            assert_eq!((finding.kind, &finding.bytes[..]), (kind, bytes), "at {at:#x}");
            assert_eq!((finding.offset, finding.address), ((PAGE + at) as u64, (3 * PAGE + at) as u64));
            assert_eq!(report.is_refused(), kind.severity() == Severity::Refuse);
            assert_eq!(report.scanned_bytes, 2 * PAGE as u64);
        }
    }
}

#[test]
fn what_only_looks_similar_is_not_found() {
    for bytes in HARMLESS {
        let report = check(&code(bytes)).expect("the file can be judged");
        assert_eq!(report.findings, [], "{bytes:02x?}");
    }
}

/// A prefix counts as long as the whole can be one instruction, which has at most 15 bytes.
#[test]
fn prefixes_are_followed_to_the_length_of_an_instruction() {
    for (between, found) in [(0, true), (11, true), (12, false)] {
        let mut content = vec![0xf3];
        content.resize(1 + between, 0x66);
        content.extend([0x0f, 0xae, 0xd0]);
        assert_eq!(check(&code(&content)).expect("the file can be judged").is_refused(), found, "{between} prefixes");
    }
}

/// Two segments that touch in memory but lie elsewhere in the file, in the other order.
#[test]
fn a_sequence_across_two_segments_is_found() {
    for (bytes, kind) in SPELLINGS {
        for split in 1..bytes.len() {
            let (first, second) = bytes.split_at(split);
            let mut content = vec![0x90; 3 * PAGE];
            content[3 * PAGE - first.len()..].copy_from_slice(first);
            content[..second.len()].copy_from_slice(second);
            let parts = [part(READ_EXECUTE, 3 * PAGE, 0x8000, PAGE), part(READ_EXECUTE, PAGE, 0x9000, PAGE)];
            let report = check(&elf(&parts, &content)).expect("the file can be judged");
            let found = report.findings.iter().find(|finding| finding.bytes == bytes).expect("it is found");
            assert_eq!((found.kind, found.address), (kind, (0x9000 - split) as u64));
            assert_eq!(found.offset, (4 * PAGE - split) as u64);
            // With a gap between the segments, the same bytes are nothing.
            let parts = [part(READ_EXECUTE, 3 * PAGE, 0x8000, PAGE), part(READ_EXECUTE, PAGE, 0xa000, PAGE)];
            let report = check(&elf(&parts, &content)).expect("the file can be judged");
            assert!(report.findings.iter().all(|finding| finding.bytes != bytes));
        }
    }
}

/// Whole pages are mapped, so the file's bytes around a segment are executable, too.
#[test]
fn bytes_around_a_segment_in_its_pages_are_found() {
    for at in [0, 0x7d, 0x7e, 0x7f, 0x80, 0xff, 0x100, PAGE - 3] {
        let mut content = vec![0x90; PAGE];
        content[at..at + 3].copy_from_slice(&[0x0f, 0x01, 0xef]);
        let report = check(&elf(&[part(READ_EXECUTE, PAGE + 0x80, 0x3080, 0x80)], &content)).expect("it can be judged");
        let found = report.refusal().expect("it is found");
        assert_eq!((found.offset, found.address), ((PAGE + at) as u64, (0x3000 + at) as u64));
    }
}

/// The verdict of the parts of a file, each looked at by itself.
fn refused_in_parts(file: &[u8], most: usize) -> bool {
    let parts = parts(file, most).expect("the file can be judged").expect("its pages are in the file as in memory");
    let refused: Vec<_> = parts.into_iter().filter(|part| is_refused(&file[part.clone()])).collect();
    !refused.is_empty()
}

#[test]
fn parts_of_a_file_have_the_verdict_of_the_whole() {
    for (bytes, kind) in SPELLINGS {
        for most in [1, 100, PAGE] {
            // On both sides of a border between two parts, and at the ends.
            for at in (PAGE - 32..PAGE + 32).chain([0, 2 * PAGE - bytes.len()]) {
                let mut content = vec![0x90; 2 * PAGE];
                content[at..at + bytes.len()].copy_from_slice(bytes);
                let refused = refused_in_parts(&code(&content), most);
                assert_eq!(refused, kind.severity() == Severity::Refuse, "{kind:?} at {at:#x}, parts of {most}");
            }
        }
    }
    for between in 0..16 {
        let mut content = vec![0x90; PAGE - 16];
        content.push(0xf3);
        content.resize(content.len() + between, 0x66);
        content.extend([0x0f, 0xae, 0xd0]);
        for most in [1, PAGE - 8, PAGE] {
            let file = code(&content);
            let whole = refusal(&file).expect("the file can be judged").is_some();
            assert_eq!(refused_in_parts(&file, most), whole, "{between} prefixes, parts of {most}");
        }
    }
}

#[test]
fn parts_hold_what_is_executable_and_are_none_where_memory_has_another_order() {
    let content = vec![0x90; 3 * PAGE];
    let file = elf(&[part(READ_EXECUTE, PAGE, 0x3000, 100), part(READ, 3 * PAGE, 0x5000, PAGE)], &content);
    let whole = PAGE..2 * PAGE;
    assert_eq!(parts(&file, 3 * PAGE), Ok(Some(Vec::from([whole]))));
    let halves = vec![PAGE..PAGE + PAGE / 2 + 15, PAGE + PAGE / 2 - 15..2 * PAGE];
    assert_eq!(parts(&file, PAGE / 2), Ok(Some(halves)));
    let file = elf(&[part(READ_EXECUTE, 2 * PAGE, 0x3000, PAGE), part(READ_EXECUTE, PAGE, 0x4000, PAGE)], &content);
    assert_eq!(parts(&file, PAGE), Ok(None));
    assert_eq!(parts(b"no image", PAGE), Err(CheckError::NotElf));
}

#[test]
fn data_is_not_scanned() {
    let mut content = vec![0x90; 2 * PAGE];
    content[PAGE + 5..PAGE + 8].copy_from_slice(&[0x0f, 0x01, 0xef]);
    for flags in [READ, READ_WRITE] {
        let parts = [part(READ_EXECUTE, PAGE, 0x3000, PAGE), part(flags, 2 * PAGE, 0x4000, PAGE)];
        let report = check(&elf(&parts, &content)).expect("the file can be judged");
        assert_eq!((report.findings.len(), report.scanned_bytes), (0, PAGE as u64));
    }
}

#[test]
fn a_flood_is_counted_but_not_listed() {
    let mut content = vec![0xcb; 4 * PAGE];
    content.extend([0x0f, 0x01, 0xef]);
    let report = check(&code(&content)).expect("the file can be judged");
    assert_eq!(report.count(Kind::FarTransfer), 4 * PAGE as u64);
    assert_eq!(report.findings.len() as u64, LISTED_PER_KIND + 1);
    assert!(report.is_refused());
}

#[test]
fn a_finding_says_what_and_why_and_what_to_do() {
    let report = check(&code(&[0x90, 0x0f, 0x01, 0xef])).expect("the file can be judged");
    let finding = report.refusal().expect("it is found");
    assert_eq!(finding.to_string(), "WRPKRU at file offset 0x1001 (address 0x3001), bytes 0f 01 ef");
    assert!(Kind::ALL.iter().all(|kind| !kind.why().is_empty() && !kind.remedy().is_empty()));
}

#[test]
fn what_cannot_be_judged_is_an_error() {
    let nops = vec![0x90; 2 * PAGE];
    let judged = |parts: &[Part]| check(&elf(parts, &nops)).map(|report| report.scanned_bytes);
    assert_eq!(judged(&[part(READ_EXECUTE, PAGE, 0x3000, PAGE)]), Ok(PAGE as u64));
    assert_eq!(judged(&[part(7, PAGE, 0x3000, PAGE)]), Err(CheckError::Writable(0)));
    assert_eq!(judged(&[part(READ, PAGE, 0x3000, PAGE)]), Err(CheckError::NothingExecutable));
    assert_eq!(judged(&[part(READ_EXECUTE, PAGE, 0x3001, PAGE)]), Err(CheckError::Incongruent(0)));
    assert_eq!(judged(&[part(READ_EXECUTE, PAGE, 0x3000, 2 * PAGE + 1)]), Err(CheckError::Outside(0)));
    assert_eq!(judged(&[part(READ_EXECUTE, PAGE, usize::MAX - 0xfff, PAGE)]), Err(CheckError::Outside(0)));
    let overlap = [part(READ_EXECUTE, PAGE, 0x3000, PAGE + 1), part(READ_WRITE, PAGE, 0x4000, PAGE)];
    assert_eq!(judged(&overlap), Err(CheckError::Overlap(0x4000)));
    let many: Vec<Part> = (0..65).map(|index| part(READ_EXECUTE, PAGE, index * PAGE, PAGE)).collect();
    assert_eq!(judged(&many), Err(CheckError::TooMany(65)));
    assert_eq!(check(b"\x7fELF"), Err(CheckError::NotElf));
    let whole = code(&nops);
    assert_eq!(check(&whole[..100]), Err(CheckError::Headers));
    assert!((0..whole.len()).all(|length| check(&whole[..length]).is_err()));
}

/// Another description of the forbidden sequences: masks and values, and prefixes read forwards.
fn naive(memory: &[u8]) -> Vec<(usize, usize, Kind)> {
    let masked = |at: usize, pattern: &[(u8, u8)]| {
        memory.len() >= at + pattern.len()
            && pattern.iter().zip(&memory[at..]).all(|((mask, value), byte)| byte & mask == *value)
    };
    let is_register = |at: usize| memory.get(at).is_some_and(|byte| *byte >= 0xc0);
    let mut found = Vec::new();
    for at in 0..memory.len() {
        for escape in [&[(0xff, 0x0f)][..], &[(0xff, 0xd5), (0x80, 0x80)]] {
            if !masked(at, escape) {
                continue;
            }
            let opcode = at + escape.len();
            let mut add = |pattern: &[(u8, u8)], memory_only: bool, kind| {
                if masked(opcode, pattern) && !(memory_only && is_register(opcode + 1)) {
                    found.push((at, escape.len() + pattern.len(), kind));
                }
            };
            add(&[(0xff, 0x01), (0xff, 0xef)], false, Kind::Wrpkru);
            add(&[(0xff, 0xae), (0x38, 0x28)], true, Kind::Xrstor);
            add(&[(0xff, 0xc7), (0x38, 0x18)], true, Kind::Xrstors);
            add(&[(0xff, 0x05)], false, Kind::Syscall);
            add(&[(0xff, 0x34)], false, Kind::Sysenter);
            add(&[(0xf7, 0xa1)], false, Kind::SegmentLoad);
            add(&[(0xff, 0xb2), (0, 0)], true, Kind::SegmentLoad);
            add(&[(0xfe, 0xb4), (0, 0)], true, Kind::SegmentLoad);
        }
        if memory[at] == 0xf3 {
            let prefix = |byte: &u8| b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2".contains(byte) || byte & 0xf0 == 0x40;
            let between = memory[at + 1..].iter().take_while(|byte| prefix(byte)).count();
            let behind = at + 1 + between;
            for (escape, length) in
                [(masked(behind, &[(0xff, 0x0f)]), 1), (masked(behind, &[(0xff, 0xd5), (0x80, 0x80)]), 2)]
            {
                for (middle, kind) in [(0xd0, Kind::Wrfsbase), (0xd8, Kind::Wrgsbase)] {
                    if between <= 11 && escape && masked(behind + length, &[(0xff, 0xae), (0xf8, middle)]) {
                        found.push((at, 1 + between + length + 2, kind));
                    }
                }
            }
        }
        if masked(at, &[(0xff, 0xcd), (0, 0)]) {
            found.push((at, 2, Kind::Int));
        }
        if masked(at, &[(0xff, 0xff), (0x28, 0x08)]) || masked(at, &[(0xff, 0xff), (0x38, 0x28)]) {
            // Above: /1, /3 (bit 5 clear, bit 3 set); /1 is DEC.
            if !is_register(at + 1) && memory[at + 1] & 0x38 != 0x08 {
                found.push((at, 2, Kind::FarTransfer));
            }
        }
        if masked(at, &[(0xfe, 0xca)]) || masked(at, &[(0xff, 0xcf)]) {
            found.push((at, 1, Kind::FarTransfer));
        }
        if masked(at, &[(0xff, 0x8e), (0, 0)]) && ![1, 6, 7].contains(&((memory[at + 1] >> 3) & 7)) {
            found.push((at, 2, Kind::SegmentLoad));
        }
    }
    found.sort_by_key(|entry| (entry.0, entry.1));
    found
}

/// Bytes that forbidden sequences are made of, so that random memory is full of them.
fn dense() -> impl Strategy<Value = Vec<u8>> {
    let interesting = prop::sample::select(
        &[
            0x0f, 0x0f, 0x0f, 0xae, 0xae, 0xc7, 0x01, 0xef, 0x05, 0x34, 0xcd, 0x80, 0xf3, 0xf3, 0x66, 0x48, 0xd0, 0xd8,
            0x28, 0x18, 0xd5, 0x80, 0xff, 0x8e, 0xca, 0xcf, 0xb2, 0xb4, 0xa1,
        ][..],
    );
    prop::collection::vec(prop_oneof![4 => interesting, 1 => any::<u8>()], 1..600)
}

/// `cases` of each property; `PROPTEST_CASES` asks for another number.
fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|number| number.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn scanners_agree(memory in dense()) {
        let mut found: Vec<_> = instruction::scan(&memory)
            .map(|found| (found.start, found.length, found.kind))
            .collect();
        found.sort_by_key(|entry| (entry.0, entry.1));
        prop_assert_eq!(found, naive(&memory));
        let refused: Vec<_> =
            instruction::scan(&memory).filter(|found| found.kind.severity() == Severity::Refuse).collect();
        prop_assert_eq!(instruction::scan_refused(&memory), refused);
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert_eq!(check(&bytes).err(), refusal(&bytes).err());
        prop_assert!(check(&bytes).is_err());
    }

    #[test]
    fn damaged_headers_never_panic(changes in prop::collection::vec((0..64 + 2 * 56_usize, any::<u8>()), 1..8)) {
        let parts = [part(READ_EXECUTE, PAGE, 0x3000, PAGE), part(READ_EXECUTE, 2 * PAGE, 0x4000, PAGE)];
        let mut file = elf(&parts, &[0x90; 2 * PAGE]);
        for (at, value) in changes {
            file[at] = value;
        }
        if let Ok(report) = check(&file) {
            prop_assert!(report.scanned_bytes <= 64 * file.len() as u64);
            prop_assert_eq!(refusal(&file).ok().flatten(), report.refusal().cloned());
        }
    }

    /// Any spelling, behind any prefixes, in any surroundings, at any offset: half of them around a border between segments.
    #[test]
    fn what_is_planted_is_found(
        (bytes, kind) in prop::sample::select(&SPELLINGS[..]),
        prefixes in prop::collection::vec(prop::sample::select(&b"\x26\x2e\x36\x3e\x64\x65\x66\x67\x48\x4f\xf0\xf2\xf3"[..]), 0..9),
        surroundings in prop::collection::vec(any::<u8>(), 61),
        at in prop_oneof![0..2 * PAGE - 32, PAGE - 16..PAGE + 4],
    ) {
        let mut content: Vec<u8> = surroundings.into_iter().cycle().take(2 * PAGE).collect();
        let start = at + prefixes.len();
        content[at..start].copy_from_slice(&prefixes);
        content[start..start + bytes.len()].copy_from_slice(bytes);
        let parts = [part(READ_EXECUTE, PAGE, 0x8000, PAGE), part(READ_EXECUTE, 2 * PAGE, 0x9000, PAGE)];
        let linked = elf(&parts, &content);
        // Where the opcode begins: a prefix in front may belong to what is found, and then it begins earlier.
        let hit = |found: &instruction::Found| {
            found.kind == kind && found.start <= start && found.start + found.length == start + bytes.len()
        };
        prop_assert!(instruction::scan(&content).any(|found| hit(&found)), "{bytes:02x?} at {start:#x}");
        let report = check(&linked).expect("the file can be judged");
        prop_assert!(report.count(kind) > 0);
        prop_assert!(kind.severity() == Severity::Warn || report.is_refused());
        prop_assert_eq!(refusal(&linked).expect("the file can be judged"), report.refusal().cloned());
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn explaining_never_panics_nor_changes_the_verdict(memory in dense()) {
        let file = code(&memory);
        let plain = check(&file).expect("the file can be judged");
        let explained = check_by(Rules { explain: true, ..Rules::IMAGE }, &file).expect("the file can be judged");
        prop_assert_eq!(&plain.counts, &explained.counts);
        prop_assert_eq!(refusal(&file).expect("the file can be judged"), plain.refusal().cloned());
        prop_assert!(explained.findings.iter().all(|finding| finding.context.is_some()));
    }
}
