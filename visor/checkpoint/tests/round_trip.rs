//! Every state that is written is read back unchanged.

mod support;

use monohull_abi::layout::{MAPPINGS_OFFSET, PAGE, cell_base};
use monohull_checkpoint::record::{
    Contents, EXTENDED_BYTES, HandlerRecord, MappedFileRecord, PageRange, RegistersRecord, RequestsRecord, Resumption,
    ThreadState,
};
use monohull_checkpoint::{
    Checkpoint, Content, Hash, Heat, NewFile, Packing, PageKind, Pages, Replace, SECTION_MAX, Trust, compare,
    count_pages, seal, write,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use support::{CELLS, KEY, Memory, STACK, contents, files_contents, memory, pages, requests_contents, sample};

/// What a page is given as: one of few contents, so that equal ones occur, or from elsewhere.
#[derive(Clone, Copy, Debug)]
enum Given {
    Filled(u8, bool),
    Zero,
    Base,
    Parent,
}

fn given() -> impl Strategy<Value = Given> {
    prop_oneof![
        4 => (0u8..6, any::<bool>()).prop_map(|(fill, active)| Given::Filled(fill, active)),
        1 => Just(Given::Zero),
        1 => Just(Given::Base),
        1 => Just(Given::Parent),
    ]
}

fn page(fill: u8) -> Vec<u8> {
    (0..PAGE).map(|i| if i % 7 == 0 { fill } else { fill.wrapping_mul(i as u8) }).collect()
}

proptest! {
    #[test]
    fn pages_are_read_as_they_were_given(
        given in btree_map(0u64..8, given(), 0..8),
        packing in prop_oneof![Just(Packing::Raw), Just(Packing::Lz4)],
    ) {
        let heap = cell_base(CELLS[0]) + STACK + 16 * PAGE;
        let filled: BTreeMap<u64, Vec<u8>> = given
            .iter()
            .filter_map(|(at, given)| match given {
                Given::Filled(fill, _) => Some((*at, page(*fill))),
                _ => None,
            })
            .collect();
        let mut pages = Pages::new();
        for (at, given) in &given {
            let address = heap + at * PAGE;
            match given {
                Given::Filled(_, true) => pages.here(address, &filled[at], Heat::Active),
                Given::Filled(_, false) => pages.here(address, &filled[at], Heat::Rest),
                Given::Zero => pages.zero(address, 1),
                Given::Base => pages.base(address, 1),
                Given::Parent => pages.parent(address, 1),
            }
            .expect("the heap");
        }
        let mut file = Vec::new();
        let written = write(&mut file, &contents(), &pages, packing).expect("written");
        prop_assert_eq!(written.bytes, file.len() as u64);

        let read = Checkpoint::read(file.as_slice(), Trust::NotSealed).expect("read");
        prop_assert_eq!(read.digest(), written.digest);
        prop_assert_eq!(read.contents(), &contents());
        read.verify_pages().expect("the pages are good");
        let mut found = BTreeMap::new();
        for run in read.runs() {
            for index in 0..run.count {
                found.insert((run.address - heap) / PAGE + index, (run.content, index));
            }
        }
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), given.keys().collect::<Vec<_>>());
        for (at, (content, index)) in found {
            match (given[&at], content) {
                (Given::Zero | Given::Filled(0, _), Content::Zero) | (Given::Base, Content::Base) | (Given::Parent, Content::Parent) => {}
                (Given::Filled(fill, active), Content::Here { stored }) => {
                    let mut room = [0; PAGE as usize];
                    read.read_pages(stored + index, &mut room).expect("it is stored");
                    prop_assert_eq!(room.as_slice(), page(fill));
                    prop_assert!(!active || stored + index < read.active_pages());
                    if let Some(offset) = read.page_offset(stored + index) {
                        prop_assert_eq!(offset % PAGE, 0);
                        prop_assert_eq!(&file[offset as usize..][..PAGE as usize], page(fill));
                    }
                }
                (given, content) => prop_assert!(false, "{given:?} has become {content:?}"),
            }
        }
        let fills: std::collections::BTreeSet<u8> =
            given.values().filter_map(|given| match given { Given::Filled(fill @ 1.., _) => Some(*fill), _ => None }).collect();
        prop_assert_eq!(read.stored_pages(), fills.len() as u64, "equal pages are stored once, zeros never");
    }

    #[test]
    fn texts_and_bytes_are_kept(
        label in ".{0,40}",
        line in ".{0,200}",
        plan in vec(any::<u8>(), 0..200),
        engine in vec(any::<u8>(), 0..200),
    ) {
        let mut contents = contents();
        contents.identity.label = label;
        contents.identity.plan = monohull_checkpoint::Hash::of(&plan);
        contents.instances[0].lines[0].text = line;
        contents.plan = plan;
        contents.engine.bytes = engine;
        let memory = memory();
        let mut file = Vec::new();
        write(&mut file, &contents, &pages(&memory), Packing::Raw).expect("written");
        let read = Checkpoint::read(file.as_slice(), Trust::NotSealed).expect("read");
        prop_assert_eq!(read.contents(), &contents);
    }

    /// A reader may be given anything.
    #[test]
    fn any_bytes_are_refused(bytes in vec(any::<u8>(), 0..400), good in 0usize..200) {
        let mut file = sample(Packing::Lz4)[..good].to_vec();
        file.extend_from_slice(&bytes);
        prop_assert!(Checkpoint::read(file.as_slice(), Trust::Unchecked).is_err());
    }
}

/// All the way: a file without a name, written, sealed, published, and read by descriptor.
#[test]
fn a_file_is_written_sealed_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("orders.checkpoint");
    let new = NewFile::beside(&path).expect("a file");
    let memory = memory();
    let written = write(&mut new.file(), &contents(), &pages(&memory), Packing::Raw).expect("written");
    assert_eq!(seal(new.file(), &KEY).expect("sealed"), written.digest);
    assert!(!path.exists());
    new.publish(Replace::No).expect("named");

    let read = Checkpoint::read(File::open(&path).expect("it is there"), Trust::Key(&KEY)).expect("read");
    assert_eq!((read.digest(), read.sealed_by()), (written.digest, Some(KEY.id())));
    read.verify_pages().expect("the pages are good");
    assert_eq!((written.stored_pages, written.zero_pages, written.same_pages), (5, 1, 2));
}

/// Pages that do not fit the records are refused when they are written: a reader would refuse them.
#[test]
fn pages_that_nothing_has_are_not_written() {
    let base = cell_base(CELLS[0]);
    let page = page(1);
    let mut refused = Vec::new();
    for address in [
        base,                                        // the guard of the main stack
        base + STACK + 24 * PAGE,                    // behind the heap
        cell_base(1) + STACK - PAGE,                 // a cell without an instance
        base + (32 << 30) - 8 * PAGE,                // mapped, but reserved
        base + (32 << 30),                           // the guard of a thread stack
        base + (32 << 30) + 4 * STACK + PAGE,        // a thread stack that was never used
        monohull_abi::layout::ARENA_BASE + 2 * PAGE, // the arena, but no module's
        monohull_abi::layout::FILES_BASE,            // a file in memory, but no module's
        monohull_abi::layout::INFO_BASE,
        monohull_abi::layout::FRAMES_BASE,
    ] {
        let mut pages = Pages::new();
        pages.here(address, &page, Heat::Rest).expect("user memory");
        let error = write(&mut Vec::new(), &contents(), &pages, Packing::Raw).expect_err("nothing has it");
        refused.push(error.to_string());
    }
    assert!(refused.iter().all(|text| text.contains("no instance and no module has the pages")), "{refused:#?}");

    let (files, behind) = (monohull_abi::layout::FILES_BASE, monohull_abi::layout::FILES_END);
    for address in [
        0,
        4096,
        monohull_abi::layout::CARRIER_BASE,
        monohull_abi::layout::ARENA_END,
        files - PAGE,
        files + 1,
        behind,
        u64::MAX - 4095,
        base + 1,
    ] {
        Pages::new().here(address, &page, Heat::Rest).expect_err("no user memory, or no page");
    }
    let mut pages = Pages::new();
    pages.here(base + STACK - PAGE, &page, Heat::Rest).expect("the stack");
    pages.zero(base + STACK - 2 * PAGE, 2).expect("the stack");
    write(&mut Vec::new(), &contents(), &pages, Packing::Raw).expect_err("a page is given twice");
}

/// Pages of files in memory are named behind all memory, and are a module's.
#[test]
fn files_in_memory_have_pages_of_their_own() {
    let (start, end) = (monohull_abi::layout::FILES_BASE, monohull_abi::layout::FILES_END);
    let mut contents = contents();
    let range = |start, count| PageRange { start, count };
    contents.modules[1].pages = vec![range(start, 2), range(end - PAGE, 1)];
    let (memory, two, last) = (memory(), [page(1), page(2)].concat(), page(3));
    let mut pages = pages(&memory);
    pages.here(start, &two, Heat::Rest).expect("of files");
    pages.here(end - PAGE, &last, Heat::Rest).expect("of files");
    let mut file = Vec::new();
    write(&mut file, &contents, &pages, Packing::Raw).expect("written");
    let read = Checkpoint::read(file.as_slice(), Trust::NotSealed).expect("read");
    let counts = count_pages(read.contents(), read.runs());
    assert_eq!(counts[&PageKind::FileInMemory].here, 3);
    assert_eq!(counts[&PageKind::Buffer].here, 2, "they are no buffers");
    for (start, count) in [(start, 3), (end - PAGE, 2), (start - PAGE, 2), (start, u64::MAX)] {
        contents.modules[1].pages = vec![range(start, count)];
        let error = write(&mut Vec::new(), &contents, &pages, Packing::Raw).map(drop).expect_err("not as it was given");
        let text = error.to_string();
        assert!(
            ["outside of the buffer arena", "no instance and no module"].iter().any(|why| text.contains(why)),
            "{text}"
        );
    }
}

#[test]
fn comparing_finds_what_differs_and_nothing_else() {
    let memory = memory();
    let file = |contents: &_, pages: &Pages<'_>, packing| {
        let mut file = Vec::new();
        write(&mut file, contents, pages, packing).expect("written");
        file
    };
    let first = file(&contents(), &pages(&memory), Packing::Raw);
    let packed = file(&contents(), &pages(&memory), Packing::Lz4);
    let read = |file: &'static [u8]| Checkpoint::read(file, Trust::NotSealed).expect("read");
    let first = read(first.leak());
    let same = compare(&first, &read(packed.leak()));
    assert!(same.is_same() && same.same_pages == 16, "{same:?}");

    let mut changed = contents();
    changed.identity.label.clear();
    changed.instances[1].attempt = 2;
    changed.modules.pop();
    let heap = cell_base(CELLS[0]) + STACK + 17 * PAGE;
    let (one, two) = (page(1), page(2));
    let mut some = Pages::new();
    some.here(heap - PAGE, &one, Heat::Rest).expect("the heap");
    some.here(heap, &two, Heat::Rest).expect("the heap");
    some.zero(heap + PAGE, 1).expect("the heap");
    let found = compare(&first, &read(file(&changed, &some, Packing::Raw).leak()));
    assert_eq!((found.same_pages, found.changed_pages, found.added_pages, found.removed_pages), (1, 1, 1, 14));
    let kinds: Vec<_> = found.records.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["instance", "module"]);

    let mut child = contents();
    child.identity.parent = Some(monohull_checkpoint::record::Parent {
        id: monohull_checkpoint::CheckpointId([9; 16]),
        digest: first.digest(),
    });
    let mut all = Pages::new();
    for run in first.runs() {
        all.parent(run.address, run.count).expect("user memory");
    }
    let child = read(file(&child, &all, Packing::Raw).leak());
    assert!(compare(&first, &child).is_same(), "a child without changes is its parent");
    child.check_parent(&first).expect("its parent");
    child.check_parent(&child).expect_err("another checkpoint");
    assert_eq!(child.stored_pages(), 0);
}

/// A small function that sleeps: one instance, its stack, and a few pages of data and heap.
#[test]
fn a_small_function_that_sleeps_is_small() {
    let mut contents = contents();
    contents.instances.truncate(1);
    contents.threads.truncate(1);
    contents.scheduler = Default::default();
    contents.modules.truncate(1);
    // What such pages hold: mostly zeros, with pointers and small numbers among them.
    let page = |seed: u64| -> Vec<u8> {
        let word = |i: u64| match i % 8 {
            0 => 0x1010_0010_0000 + (seed * 31 + i) % 4096 * 8,
            1 => i % 64,
            _ => 0,
        };
        (0..PAGE / 8).flat_map(|i| word(i).to_le_bytes()).collect()
    };
    let memory: Vec<Vec<u8>> = (0..5).map(page).collect();
    let mut pages = Pages::new();
    for (at, bytes) in memory.iter().enumerate() {
        pages.here(cell_base(CELLS[0]) + STACK + (8 + at as u64) * PAGE, bytes, Heat::Active).expect("data");
    }
    let bytes = |packing| write(&mut Vec::new(), &contents, &pages, packing).expect("written").bytes;
    let (raw, packed) = (bytes(Packing::Raw), bytes(Packing::Lz4));
    assert!(raw <= 32 << 10 && packed <= 8 << 10, "{raw} bytes, {packed} compressed");
}

#[test]
fn fault_handlers_are_kept_and_wrong_ones_refused() {
    let id = contents().instances[0].id;
    let image = cell_base(CELLS[0]) + STACK;
    let right = HandlerRecord { instance: id, entry: image, start: image + PAGE, bytes: 15 * PAGE };
    let written = |handlers: Vec<HandlerRecord>| {
        let (memory, mut file) = (memory(), Vec::new());
        let contents = monohull_checkpoint::record::Contents { handlers, ..contents() };
        write(&mut file, &contents, &pages(&memory), Packing::Raw).map(|_| file)
    };
    let file = written(vec![right]).expect("it is right");
    let read = Checkpoint::read(file.as_slice(), Trust::NotSealed).expect("what was written");
    assert_eq!(read.contents().handlers, [right]);
    for wrong in [
        vec![right, right],
        vec![HandlerRecord { instance: id + 0x100, ..right }],
        vec![HandlerRecord { instance: 0, ..right }],
        vec![HandlerRecord { entry: image - 1, ..right }],
        vec![HandlerRecord { entry: image + 16 * PAGE, ..right }],
        vec![HandlerRecord { entry: image + PAGE, ..right }],
        vec![HandlerRecord { entry: u64::MAX, ..right }],
        vec![HandlerRecord { bytes: 0, ..right }],
        vec![HandlerRecord { bytes: 15 * PAGE + 1, ..right }],
        vec![HandlerRecord { bytes: u64::MAX, ..right }],
        vec![HandlerRecord { start: image - PAGE, ..right }],
        vec![HandlerRecord { start: u64::MAX, ..right }],
    ] {
        assert!(matches!(written(wrong.clone()), Err(monohull_checkpoint::Error::Wrong { .. })), "{wrong:?}");
    }
}

#[test]
fn registers_are_kept_and_wrong_ones_refused() {
    let image = cell_base(CELLS[1]) + STACK;
    let right = RegistersRecord {
        thread: 5,
        ip: image,
        sp: u64::MAX,
        flags: 2,
        general: std::array::from_fn(|i| i as u64),
        extended: vec![7; EXTENDED_BYTES],
    };
    let written = |registers: Vec<RegistersRecord>| {
        let (memory, mut file) = (memory(), Vec::new());
        let mut contents = monohull_checkpoint::record::Contents { registers, ..contents() };
        for thread in contents.threads.iter_mut().filter(|thread| thread.number == 5) {
            thread.state = ThreadState::Ready(Resumption::Value(0));
        }
        write(&mut file, &contents, &pages(&memory), Packing::Raw).map(|_| file)
    };
    let file = written(vec![right.clone()]).expect("they are right");
    let read = Checkpoint::read(file.as_slice(), Trust::NotSealed).expect("what was written");
    assert_eq!(read.contents().registers, std::slice::from_ref(&right));
    for wrong in [
        vec![right.clone(), right.clone()],
        vec![RegistersRecord { thread: 4, ..right.clone() }],
        vec![RegistersRecord { thread: 6, ..right.clone() }],
        vec![RegistersRecord { thread: 99, ..right.clone() }],
        vec![RegistersRecord { ip: image - 1, ..right.clone() }],
        vec![RegistersRecord { ip: 0, ..right.clone() }],
        vec![RegistersRecord { ip: u64::MAX, ..right.clone() }],
        vec![RegistersRecord { ip: cell_base(CELLS[0]) + STACK, ..right.clone() }],
        vec![RegistersRecord { extended: vec![7; EXTENDED_BYTES - 1], ..right.clone() }],
        vec![RegistersRecord { extended: Vec::new(), ..right.clone() }],
    ] {
        assert!(matches!(written(wrong.clone()), Err(monohull_checkpoint::Error::Wrong { .. })), "{wrong:?}");
    }
}

#[test]
fn mapped_files_are_kept_and_wrong_ones_refused() {
    let right = files_contents().files;
    let start = cell_base(CELLS[0]) + MAPPINGS_OFFSET;
    let written = |files: Vec<MappedFileRecord>, page: Option<u64>| {
        let (mut memory, mut file) = (memory(), Vec::new());
        memory.extend(page.map(|address| Memory { address, bytes: vec![1; PAGE as usize], heat: Heat::Rest }));
        let contents = monohull_checkpoint::record::Contents { files, ..contents() };
        write(&mut file, &contents, &pages(&memory), Packing::Raw).map(|_| file)
    };
    let file = written(right.clone(), Some(start)).expect("they are right");
    let read = Checkpoint::read(file.as_slice(), Trust::NotSealed).expect("what was written");
    assert_eq!(read.contents().files, right);
    let counts = &count_pages(read.contents(), read.runs())[&PageKind::MappedFile];
    assert_eq!((counts.here, counts.zero), (1, 0));
    type Change = fn(&mut Vec<MappedFileRecord>);
    let changes: [Change; 24] = [
        |files| files.swap(0, 1),
        |files| files.swap(0, 2),
        |files| files[1] = files[0].clone(),
        |files| files[0].instance += 0x100,
        |files| files[0].instance = u32::MAX,
        |files| files[0].start += 1,
        |files| files[0].start -= PAGE,
        |files| files[0].start = 0,
        |files| files[0].start = u64::MAX - PAGE + 1,
        |files| files[0].start += PAGE,
        |files| files[1].start -= PAGE,
        |files| files[0].bytes = 0,
        |files| files[0].bytes += 8 * PAGE,
        |files| files[0].bytes = u64::MAX,
        |files| files[2].bytes = 64 << 30,
        |files| files[0].offset = u64::MAX,
        |files| files[0].offset = i64::MAX as u64,
        |files| files[0].path = "x".repeat(4097),
        |files| files[0].there[0].count = 0,
        |files| files[0].there[0].count = 4,
        |files| files[0].there[0].count = u64::MAX,
        |files| files[0].there[0].start -= PAGE,
        |files| files[1].there[0].start += 8,
        |files| files[1].there.swap(0, 1),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut wrong = right.clone();
        change(&mut wrong);
        let refused = written(wrong, None);
        assert!(matches!(refused, Err(monohull_checkpoint::Error::Wrong { .. })), "change {index}: {refused:?}");
    }
    let many = |count: u64| {
        let file = |index| MappedFileRecord {
            start: start + 2 * index * PAGE,
            bytes: 1,
            there: Vec::new(),
            ..right[0].clone()
        };
        (0..count).map(file).collect::<Vec<_>>()
    };
    assert!(written(many(1024), None).is_ok() && written(many(1025), None).is_err());
    // Contents belong to pages that are there.
    for page in
        [start + 3 * PAGE, start + 4 * PAGE, start + (4 + 41) * PAGE, cell_base(CELLS[1]) + MAPPINGS_OFFSET + 8 * PAGE]
    {
        assert!(written(right.clone(), Some(page)).is_err(), "{page:#x}");
    }
}

/// Files in memory are data, of which there may be more than what describes a workflow may have; and what is written can be read.
#[test]
fn a_module_may_have_more_than_other_sections_and_what_is_too_large_is_not_written() {
    let mut large = contents();
    large.modules[1].bytes.resize(SECTION_MAX as usize + 4097, 7);
    let (memory, file) = (memory(), tempfile::tempfile().expect("a file"));
    let written = write(&mut &file, &large, &pages(&memory), Packing::Raw).expect("it is data");
    let read = Checkpoint::read(&file, Trust::NotSealed).expect("what was written can be read");
    assert_eq!((read.contents(), read.bytes()), (&large, written.bytes));
    let described = Checkpoint::read(&file, Trust::Unchecked).expect("it is all there");
    assert_eq!(described.digest(), written.digest);

    let mut too_large = contents();
    too_large.identity.label.clear();
    too_large.plan = vec![b' '; SECTION_MAX as usize + 1];
    too_large.identity.plan = Hash::of(&too_large.plan);
    let before = file.metadata().expect("a file").len();
    let refused = write(&mut &file, &too_large, &pages(&memory), Packing::Raw).expect_err("it is too large");
    assert_eq!(refused.to_string(), "section `plan` would have 268435457 bytes, and may have 268435456");
    assert_eq!(file.metadata().expect("a file").len(), before, "nothing was written");
}

#[test]
fn requests_are_kept_and_wrong_ones_refused() {
    let memory = memory();
    let read = |contents: &Contents| {
        let mut file = Vec::new();
        write(&mut file, contents, &pages(&memory), Packing::Raw)?;
        Checkpoint::read(file.as_slice(), Trust::NotSealed).map(|read| read.contents().requests.clone())
    };
    let good = requests_contents();
    assert_eq!(read(&good).expect("they are good"), good.requests);
    let refused = |change: fn(&mut RequestsRecord)| {
        let mut wrong = requests_contents();
        change(wrong.requests.as_mut().expect("there are some"));
        read(&wrong).expect_err("they are wrong").to_string()
    };
    assert!(refused(|requests| requests.answered[0].instance ^= 0x100).contains("request "));
    assert!(refused(|requests| requests.answered[0].number = 0).contains("no request has this number"));
    assert!(refused(|requests| requests.answered.swap(0, 1)).contains("not in order"));
    assert!(refused(|requests| requests.answered[1] = requests.answered[0]).contains("it is there twice"));
    let many = refused(|requests| requests.answered = vec![requests.answered[0]; 257]);
    assert!(many.contains("replies that wait: there are 257; the most is 256"), "{many}");
}
