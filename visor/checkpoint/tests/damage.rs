//! A file of which anything was changed is refused, and the error says what and where.

mod support;

use monohull_checkpoint::{Checkpoint, Error, Key, KeyId, Packing, Part, Processor, SectionId, Trust, compare};
use std::collections::BTreeSet;
use support::{KEY, Parts, Section, child, contents, files, record, requests, sample, seal_of, sealed};

/// Reads all of a file.
fn read(bytes: &[u8], trust: Trust<'_>) -> Result<(), Error> {
    Checkpoint::read(bytes, trust)?.verify_pages()
}

fn samples() -> [Vec<u8>; 2] {
    [Packing::Raw, Packing::Lz4].map(|packing| sealed(&sample(packing)))
}

fn pages_offset(file: &[u8]) -> usize {
    u64::from_le_bytes(file[24..32].try_into().expect("8 bytes")) as usize
}

/// The contents of all stored pages.
fn contents_of(file: &[u8]) -> Vec<u8> {
    let read = Checkpoint::read(file, Trust::Unchecked).expect("good");
    let mut pages = vec![0; 4096 * read.stored_pages() as usize];
    read.read_pages(0, &mut pages).expect("good");
    pages
}

#[test]
fn every_changed_byte_is_found() {
    for good in samples() {
        read(&good, Trust::Key(&KEY)).expect("the good file");
        let mut bytes = good.clone();
        let pages = pages_offset(&good);
        // Of the contents of pages, some bytes of each.
        for at in (0..pages).chain((pages..good.len()).step_by(61)) {
            bytes[at] ^= 1 << (at % 8);
            let error = match read(&bytes, Trust::Key(&KEY)) {
                Err(error) => error,
                Ok(()) => {
                    // There is more than one way to compress a page.
                    assert!(at >= pages && contents_of(&bytes) == contents_of(&good), "byte {at}");
                    bytes[at] = good[at];
                    continue;
                }
            };
            let seal = (40..48).contains(&at) || (96..128).contains(&at);
            match &error {
                Error::Foreign => assert!(at < 8),
                Error::NewerFormat { .. } => assert!((8..10).contains(&at)),
                Error::Damaged { at: range, .. } | Error::DamagedPage { at: range, .. } => {
                    assert!(range.contains(&(at as u64)) && !seal, "byte {at}: {error}");
                }
                Error::OtherKey { .. } => assert!((40..48).contains(&at)),
                Error::Edited(_) => assert!((96..128).contains(&at)),
                Error::Truncated { .. } => assert!((12..16).contains(&at), "byte {at}: {error}"),
                error => panic!("byte {at}: {error}"),
            }
            // Who does not ask for the seal finds everything but another seal.
            assert_eq!(read(&bytes, Trust::Unchecked).is_ok(), seal, "byte {at}");
            bytes[at] = good[at];
        }
    }
}

#[test]
fn every_truncation_is_found_and_called_one() {
    for good in samples() {
        for length in 0..good.len() {
            match read(&good[..length], Trust::Key(&KEY)) {
                Err(Error::Truncated { needed, there, .. }) => assert!(there == length as u64 && needed > there),
                other => panic!("{length} bytes: {other:?}"),
            }
        }
        let longer = [good.as_slice(), &[0]].concat();
        assert!(matches!(read(&longer, Trust::Key(&KEY)), Err(Error::TooLong { .. })));
    }
}

#[test]
fn what_is_cut_off_is_named() {
    let [good, _] = samples();
    let text = |length: usize| read(&good[..length], Trust::Key(&KEY)).expect_err("truncated").to_string();
    assert!(text(0).contains("in the header: 128 bytes are needed, and there are 0"), "{}", text(0));
    assert!(text(200).contains("the table of sections"), "{}", text(200));
    assert!(text(128 + 11 * 64 + 4).contains("section `identity`"), "{}", text(128 + 11 * 64 + 4));
    assert!(text(good.len() - 1).contains("the contents of pages"), "{}", text(good.len() - 1));
}

#[test]
fn foreign_files_are_refused() {
    for foreign in [b"\x7fELF".as_slice(), b"{}", b"\x89PNG\r\n\x1a\n", &[0; 8192], b"\x89MHULL\n"] {
        assert!(matches!(read(foreign, Trust::Unchecked), Err(Error::Foreign)), "{foreign:?}");
    }
}

/// Without the key one can make digests but no seals.
#[test]
fn an_edited_file_is_refused_whatever_was_edited() {
    let good = sealed(&sample(Packing::Raw));
    let parts = Parts::of(&good);
    assert_eq!(parts.file(&seal_of(&good)), good, "the positive control: the same parts make the same file");

    let mut edited = contents();
    edited.identity.label = "after the payment".to_owned();
    let edited = parts.with(&edited).file(&seal_of(&good));
    assert!(matches!(read(&edited, Trust::Key(&KEY)), Err(Error::Edited(id)) if id == KEY.id()));
    read(&edited, Trust::Unchecked).expect("nothing else is wrong with it");

    let other = Key::new([8; 32]);
    assert!(matches!(read(&good, Trust::Key(&other)), Err(Error::OtherKey { .. })));
    let claims = [other.id().0.as_slice(), &[1; 32]].concat();
    assert!(matches!(read(&parts_of(&good).file(&claims), Trust::Key(&other)), Err(Error::Edited(_))));

    let unsealed = sample(Packing::Raw);
    assert!(matches!(read(&unsealed, Trust::Key(&KEY)), Err(Error::NotSealed)));
    read(&unsealed, Trust::NotSealed).expect("a worker's file");
    assert!(matches!(read(&good, Trust::NotSealed), Err(Error::Sealed(_))));
    assert_ne!(KEY.id(), KeyId::NONE);
}

fn parts_of(file: &[u8]) -> Parts {
    Parts::of(file)
}

/// The sections that the sample has: all but those that are there only if they hold something.
fn sections() -> impl Iterator<Item = SectionId> {
    let optional = |section: &SectionId| {
        use SectionId::{Chain, Files, Handlers, Registers, Requests};
        matches!(section, Handlers | Registers | Chain | Files | Requests)
    };
    SectionId::ALL.into_iter().filter(move |section| !optional(section))
}

/// Samples that have one of the others, and which it is.
fn optional() -> [(Vec<u8>, SectionId); 2] {
    [(files(), SectionId::Files), (requests(), SectionId::Requests)]
}

#[test]
fn newer_files_are_refused_by_name_and_optional_sections_skipped() {
    let good = sample(Packing::Raw);
    let mut newer = good.clone();
    newer[8] = 2;
    assert!(matches!(read(&newer, Trust::Unchecked), Err(Error::NewerFormat { found: 2, known: 1 })));

    for section in sections() {
        let mut parts = Parts::of(&good);
        parts.section(section as u32).version = 2;
        match read(&parts.unsealed(), Trust::NotSealed) {
            Err(Error::NewerSection { section: named, found: 2, known: 1 }) => assert_eq!(named, section),
            other => panic!("{section}: {other:?}"),
        }
    }

    for (file, section) in optional() {
        let mut parts = Parts::of(&file);
        parts.section(section as u32).version = 2;
        match read(&parts.unsealed(), Trust::NotSealed) {
            Err(Error::NewerSection { section: named, found: 2, known: 1 }) => assert_eq!(named, section),
            other => panic!("{section}: {other:?}"),
        }
    }

    let unknown = |flags| Section { id: 77, version: 9, flags, bytes: b"of the future".to_vec() };
    let mut parts = Parts::of(&good);
    parts.sections.push(unknown(1));
    assert!(matches!(read(&parts.unsealed(), Trust::NotSealed), Err(Error::UnknownSection { id: 77 })));
    let mut parts = Parts::of(&good);
    parts.sections.push(unknown(0));
    let file = parts.unsealed();
    let skipped = Checkpoint::read(file.as_slice(), Trust::NotSealed).expect("it need not be known");
    let without = Checkpoint::read(good.as_slice(), Trust::NotSealed).expect("the good file");
    assert!(compare(&skipped, &without).is_same());
    assert!(skipped.sections().any(|section| section.id == 77));
}

#[test]
fn sections_that_are_missing_twice_or_misplaced_are_refused() {
    let good = Parts::of(&sample(Packing::Raw));
    for section in sections() {
        let mut parts = good.clone();
        parts.sections.retain(|entry| entry.id != section as u32);
        let read_it = read(&parts.unsealed(), Trust::NotSealed);
        match section {
            // A checkpoint may have no modules; but then the sample's pages of the arena have no owner.
            SectionId::Module => assert!(matches!(read_it, Err(Error::Wrong { .. }))),
            _ => assert!(matches!(read_it, Err(Error::MissingSection(missing)) if missing == section), "{read_it:?}"),
        }

        let mut parts = good.clone();
        let twice = parts.section(section as u32).clone();
        let at = parts.sections.iter().position(|entry| entry.id == section as u32).expect("it is there");
        parts.sections.insert(at, twice);
        read(&parts.unsealed(), Trust::NotSealed).expect_err("a section is there twice");
    }
    for (file, section) in optional() {
        let mut parts = Parts::of(&file);
        let twice = parts.section(section as u32).clone();
        parts.sections.push(twice);
        read(&parts.unsealed(), Trust::NotSealed).expect_err("a section is there twice");
    }
    let mut parts = good.clone();
    parts.sections.swap(0, 1);
    assert!(matches!(read(&parts.unsealed(), Trust::NotSealed), Err(Error::Malformed { .. })));
}

/// Lengths that are not those of the file are found before anything is allocated by them.
#[test]
fn numbers_that_are_too_large_allocate_nothing() {
    let good = Parts::of(&sample(Packing::Raw));
    let malformed = |parts: &Parts, named: SectionId| match read(&parts.unsealed(), Trust::NotSealed) {
        Err(Error::Malformed { part: Part::Section(section), .. }) => assert_eq!(section, named),
        other => panic!("{named}: {other:?}"),
    };
    let many = record(&(u64::MAX >> 1));
    for section in [SectionId::Functions, SectionId::Instances, SectionId::Threads, SectionId::Runs, SectionId::Module]
    {
        let mut parts = good.clone();
        parts.section(section as u32).bytes = many.clone();
        malformed(&parts, section);
    }
    type Change = fn(&[u8]) -> Vec<u8>;
    let changes: [Change; 3] = [|_| record(&(u64::MAX >> 1)), |bytes| [bytes, &[0]].concat(), |_| Vec::new()];
    for (file, section) in optional() {
        for change in changes {
            let mut parts = Parts::of(&file);
            let bytes = &mut parts.section(section as u32).bytes;
            *bytes = change(bytes);
            malformed(&parts, section);
        }
    }
    for (at, value) in [(8, u64::MAX), (8, u64::MAX / 32 + 1), (8, 6), (8, 4), (16, 6), (0, 1), (0, 2), (0, u64::MAX)] {
        let mut parts = good.clone();
        parts.section(SectionId::Pages as u32).bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        malformed(&parts, SectionId::Pages);
    }
    for section in sections().filter(|section| !matches!(section, SectionId::Plan)) {
        let mut parts = good.clone();
        parts.section(section as u32).bytes.push(0);
        malformed(&parts, section);
        parts.section(section as u32).bytes.clear();
        malformed(&parts, section);
    }
}

/// Where the parent is found is a section like any other.
#[test]
fn a_damaged_chain_is_found() {
    let good = Parts::of(&child());
    read(&good.unsealed(), Trust::NotSealed).expect("the good file");
    let changed = |change: fn(&mut Section)| {
        let mut parts = good.clone();
        change(parts.section(SectionId::Chain as u32));
        read(&parts.unsealed(), Trust::NotSealed)
    };
    assert!(matches!(changed(|section| section.version = 2), Err(Error::NewerSection { found: 2, known: 1, .. })));
    for change in [|section: &mut Section| section.bytes.push(0), |section: &mut Section| section.bytes.clear()] {
        let malformed = Part::Section(SectionId::Chain);
        assert!(matches!(changed(change), Err(Error::Malformed { part, .. }) if part == malformed));
    }
    let long = |section: &mut Section| section.bytes = [record(&u32::MAX), vec![b'x'; 100]].concat();
    assert!(matches!(changed(long), Err(Error::Malformed { .. })));
    let mut parts = good.clone();
    let twice = parts.section(SectionId::Chain as u32).clone();
    parts.sections.push(twice);
    read(&parts.unsealed(), Trust::NotSealed).expect_err("a section is there twice");
}

#[test]
fn a_smaller_processor_is_refused_by_the_names_of_what_it_lacks() {
    let file = sample(Packing::Raw);
    let read = Checkpoint::read(file.as_slice(), Trust::NotSealed).expect("the good file");
    read.check_processor(&Processor { words: vec![0b111] }).expect("a larger one is enough");
    let error = read.check_processor(&Processor { words: vec![0b1] }).expect_err("a smaller one is not");
    assert_eq!(error.to_string(), "this processor is not enough: it has no ssse3");
}

/// A page is named by its address, whichever it is.
#[test]
fn a_damaged_page_is_named() {
    for good in samples() {
        let mut addresses = BTreeSet::new();
        let step = if good.len() > 8192 { 61 } else { 1 };
        for at in (pages_offset(&good)..good.len()).step_by(step) {
            let mut bytes = good.clone();
            bytes[at] ^= 0x80;
            match read(&bytes, Trust::Key(&KEY)) {
                Ok(()) => assert_eq!(contents_of(&bytes), contents_of(&good)),
                Err(Error::DamagedPage { address, at: range }) => {
                    assert!(range.contains(&(at as u64)));
                    addresses.insert(address);
                }
                other => panic!("byte {at}: {other:?}"),
            }
        }
        assert_eq!(addresses.len(), 5, "{addresses:x?}");
    }
}
