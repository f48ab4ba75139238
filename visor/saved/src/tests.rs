//! Both directions between a continuation and a checkpoint's records, and records that contradict themselves.

mod files;
mod packing;

use super::*;
use monohull_abi::layout::{ARENA_BASE, CELL_SIZE, MAPPINGS_OFFSET, THREAD_STACKS_OFFSET, cell_base};
use monohull_abi::number;
use monohull_checkpoint::record::{PageRange, Resumption, ThreadRecord, ThreadState, Timer, TimerRecord};
use monohull_checkpoint::{Key, Pages, count_pages};
use monohull_domain::checkpoint::{Lineage, record as domain};
use monohull_engine::{Event, IsolationWish};
use monohull_ipc::sealed_pages::{Most, read_pages_from};
use monohull_state_key::{KeyFile, StateKey};
use std::fs;

pub(crate) const KEY: Key = Key::new([5; 32]);
/// Bytes of a stack.
const STACK: u64 = 64 << 10;
const CLOCK: u64 = 5_000;
const DOCUMENT: &[u8] = br#"{ "name": "w", "functions": { "e": { "image": "e.so" }, "f": { "image": "f.so" } },
    "steps": [{ "name": "other", "function": "e" }, { "name": "wait", "function": "f", "instances": 2 }] }"#;

pub(crate) fn plan(document: &[u8], engine: &Engine) -> Result<Plan, String> {
    monohull_workflow::check_bytes(&engine.file, document).into_plan().map_err(|error| error.to_string())
}

/// What has been read, with a copy of its pages.
fn copied(saved: Saved<OwnedFd>) -> Saved {
    let Saved { workflow, generation, document, functions, engine, continuation } = saved;
    let file = File::from(continuation);
    let (record, runs) = read_pages_from::<Continuation<()>>(&file, Most::ANY).expect("it is as it should be");
    let copy = |(address, range): (u64, std::ops::Range<usize>)| {
        let mut bytes = vec![0; range.len()];
        ReadAt::read_exact_at(&file, &mut bytes, range.start as u64).expect("its bytes");
        domain::PageRun { address, bytes }
    };
    let continuation = record.map_pages(|()| runs.here.into_iter().map(copy).collect());
    Saved { workflow, generation, document, functions, engine, continuation }
}

fn of<S: ReadAt + Sync>(
    chain: &Chain<S>,
    plan: impl FnOnce(&[u8], &Engine) -> Result<Plan, String>,
) -> Result<Saved, NotOurs> {
    Saved::of(chain, plan, Reading::All).map(|(saved, _)| copied(saved))
}

fn read_back<'k>(
    path: &Path,
    keys: impl Into<Keys<'k>>,
    plan: impl FnOnce(&[u8], &Engine) -> Result<Plan, String>,
) -> Result<Saved, FileError> {
    Saved::read(path, keys, plan).map(copied)
}

fn thread(number: u32, stack: Option<u32>, call: u32, first: u64, state: domain::ThreadState) -> domain::ThreadRecord {
    let top = match stack {
        None => cell_base(0) + STACK,
        Some(slot) => cell_base(0) + THREAD_STACKS_OFFSET + u64::from(slot + 1) * STACK,
    };
    let name = matches!(call, number::SLOT_TAKE | number::EVENT_WAIT).then(|| "orders".to_owned());
    domain::ThreadRecord {
        number,
        stack,
        user_rsp: top - 256,
        call,
        args: [first, 6, 0, 0, 0, 0],
        state,
        registers: None,
        name,
    }
}

/// An instance with a thread in each state, and pages of each kind.
fn continuation() -> Continuation {
    let base = cell_base(0);
    let mapped = |pages_below: u64, count: u64, state| domain::MappedRecord {
        start: base + THREAD_STACKS_OFFSET - pages_below * PAGE,
        bytes: count * PAGE,
        state,
    };
    let heap_start = base + STACK + 4 * PAGE;
    let waits = |until| domain::ThreadState::Waits { until };
    let threads = vec![
        thread(0, None, number::THREAD_JOIN, 1, waits(None)),
        thread(1, Some(0), number::NANOSLEEP, 0, waits(Some(CLOCK + 10))),
        thread(2, Some(1), number::FUTEX_WAIT, heap_start + 8, waits(Some(CLOCK + 20))),
        thread(3, Some(2), number::SLOT_TAKE, heap_start, waits(None)),
        domain::ThreadRecord { args: [0; 6], ..thread(4, Some(4), 0, 0, domain::ThreadState::Returns(-3)) },
        thread(5, Some(5), number::FUTEX_WAIT, heap_start, domain::ThreadState::TimedOut),
        thread(6, Some(6), number::NANOSLEEP, 0, domain::ThreadState::Woken),
        thread(7, Some(7), number::QUEUE_WAIT, 9, waits(Some(CLOCK + 40))),
    ];
    let instance = domain::InstanceRecord {
        id: 0x300,
        token: 2 << 32 | 1,
        step: "wait".to_owned(),
        function: "f".to_owned(),
        index: 1,
        count: 2,
        attempt: 3,
        stack_size: STACK,
        deadline: Some(CLOCK + 90),
        heap_start,
        heap: 8 * PAGE,
        stacks: 8,
        free_stacks: vec![3],
        mapped: vec![
            mapped(8, 4, domain::RangeState::Reserved),
            mapped(4, 2, domain::RangeState::ReadWrite),
            mapped(2, 2, domain::RangeState::Read),
        ],
        files: vec![
            domain::MappedFileRecord {
                start: base + MAPPINGS_OFFSET,
                len: 100 * PAGE - 5,
                offset: 7,
                path: "work/big".to_owned(),
                writable: true,
                there: vec![(base + MAPPINGS_OFFSET, PAGE), (base + MAPPINGS_OFFSET + 8 * PAGE, 2 * PAGE)],
            },
            domain::MappedFileRecord {
                start: base + MAPPINGS_OFFSET + 101 * PAGE,
                len: 1,
                offset: 0,
                path: "work/small".to_owned(),
                writable: false,
                there: Vec::new(),
            },
        ],
        fault_handler: Some(domain::FaultHandler { entry: base + STACK, start: base + STACK + PAGE, bytes: PAGE }),
        passed: (17, 19),
        refusal: Some("no".to_owned()),
        lines: vec![(1, "a line".to_owned()), (2, "another".to_owned())],
        lines_cost: 200,
        lines_full: true,
        threads,
    };
    let page = |byte: u8| vec![byte; PAGE as usize];
    let run =
        |address, bytes: &[u8]| domain::PageRun { address, bytes: bytes.iter().flat_map(|byte| page(*byte)).collect() };
    Continuation {
        lineage: Lineage { generation: 3, copy: 1, copies: 2 },
        clock: CLOCK,
        wall: 77_000,
        run_deadline: Some(CLOCK + 100),
        started: 4,
        instances: vec![instance],
        pending: vec![(2 << 32, 1)],
        scheduler: domain::SchedulerRecord {
            ready: vec![5, 4, 6],
            queues: vec![vec![0], vec![2], vec![3], vec![7]],
            free: vec![(1 << 20) + 8],
            timers: vec![(CLOCK + 30, 9)],
        },
        modules: vec![domain::ModuleRecord {
            name: "mm".to_owned(),
            bytes: vec![1, 0, 0, 0, 42],
            pages: vec![(ARENA_BASE, 3 * PAGE), (ARENA_BASE + 8 * PAGE, PAGE)],
        }],
        requests: domain::RequestsRecord { last: 9, answered: vec![(0x300, 4), (0x300, 7)] },
        driver: b"{\"steps\":[]}".to_vec(),
        pages: vec![
            // Across the end of the main stack, with a zero page of data and equal pages.
            run(base + STACK - PAGE, &[1, 2, 0, 2]),
            run(heap_start, &[3]),
            run(ARENA_BASE + PAGE, &[4, 4]),
        ],
        unchanged: Vec::new(),
        touched: Vec::new(),
    }
}

pub(crate) fn saved() -> Saved {
    Saved {
        workflow: "w".to_owned(),
        generation: 3,
        document: DOCUMENT.to_vec(),
        functions: vec![("e".to_owned(), [6; 32], 8), ("f".to_owned(), [7; 32], 9)],
        engine: Engine {
            file: "w.json".into(),
            settings: Vec::new(),
            outputs: Vec::new(),
            inputs: Vec::new(),
            events: vec![Event { number: 4, name: "paid".to_owned(), bytes: b"17".to_vec() }],
            given: 5,
            copy: (1, 2),
            published: [("count".to_owned(), "17".to_owned())].into(),
            confined: Confined { isolation: IsolationWish::Process, cgroup: OwnCgroup::Require },
        },
        continuation: continuation(),
    }
}

#[test]
fn a_file_is_read_as_it_was_written_and_by_its_owner_alone() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let written = saved().write(&folder.path().join("new"), "w-1", &KEY, None).expect("written");
    let (path, size) = (written.path, written.bytes);
    let metadata = fs::metadata(&path).expect("it is there");
    assert_eq!(
        (metadata.len(), std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777),
        (size, 0o600)
    );
    let read = read_back(&path, &KEY, plan).expect("right");
    assert_eq!((read.continuation, read.engine), (continuation(), saved().engine));
    assert_eq!((read.generation, read.functions), (3, saved().functions));
    assert_eq!(fs::read_dir(folder.path().join("new")).expect("a folder").count(), 1, "nothing else is left");
}

/// The file of a continuation, as bytes.
fn file(contents: &Contents) -> Vec<u8> {
    let mut bytes = Vec::new();
    let continuation = continuation();
    let pages = records::pages(&continuation).expect("pages");
    write(&mut bytes, contents, &pages, Packing::Raw).expect("written");
    bytes
}

/// A file with none before it.
fn alone(file: &[u8]) -> Chain<&[u8]> {
    Chain::read(file, Trust::Unchecked, |name| panic!("{name} is opened")).expect("a checkpoint")
}

fn contents() -> Contents {
    saved().contents(PathBuf::new(), None).expect("contents")
}

#[test]
fn instances_threads_and_pages_are_records_of_the_format() {
    let contents = contents();
    let bytes = file(&contents);
    let checkpoint = Checkpoint::read(bytes.as_slice(), Trust::Unchecked).expect("a checkpoint");
    assert_eq!(contents.instances.len(), 1);
    assert_eq!((contents.instances[0].function, contents.threads.len()), (1, 8));
    assert_eq!(contents.threads.iter().map(|thread| thread.position).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
    let counts: Vec<_> = count_pages(&contents, checkpoint.runs())
        .into_iter()
        .map(|(kind, pages)| (kind.name(), pages.here, pages.zero))
        .collect();
    assert_eq!(counts, [("stacks", 1, 0), ("data of images", 2, 1), ("heaps", 1, 0), ("slot buffers", 2, 0)]);
    assert_eq!(checkpoint.stored_pages(), 4, "equal pages are stored once");
}

/// Buffers may lie side by side, and a run of pages goes across their ends.
#[test]
fn a_run_of_pages_may_be_of_two_buffers() {
    let mut contents = contents();
    let range = |page, count| PageRange { start: ARENA_BASE + page * PAGE, count };
    contents.modules[0].pages = vec![range(0, 2), range(2, 1), range(8, 1)];
    let bytes = file(&contents);
    assert_eq!(of(&alone(&bytes), plan).expect("right").continuation.pages, continuation().pages);
}

/// The engine section as version 3 had it, which ends before what has been published.
#[test]
fn the_engine_section_of_an_earlier_version_is_read() {
    let mut contents = contents();
    let (mut engine, state): (Engine, Vec<u8>) = postcard::from_bytes(&contents.engine.bytes).expect("it is right");
    let (file, settings, outputs, inputs) = (&engine.file, &engine.settings, &engine.outputs, &engine.inputs);
    let older = (((file, settings, outputs, inputs), &engine.events, engine.given, engine.copy), &state);
    contents.engine.bytes = postcard::to_extend(&older, Vec::new()).expect("encoded");
    contents.engine.version = 3;
    let bytes = super::tests::file(&contents);
    (engine.published, engine.confined) = Default::default();
    assert_eq!(of(&alone(&bytes), plan).expect("right").engine, engine);
    contents.engine.version = 4;
    let bytes = super::tests::file(&contents);
    of(&alone(&bytes), plan).expect_err("it ends too early");
}

#[test]
fn no_workflow_has_published_more_than_it_may() {
    let mut saved = saved();
    saved.engine.published.insert("\n".to_owned(), String::new());
    let bytes = saved.to_bytes(Path::new("w"), &KEY).expect("written");
    let error = of(&alone(&bytes), plan).expect_err("a name that nothing is published under");
    assert!(matches!(&error, NotOurs::Other(why) if why.contains("published")), "{error:?}");
}

/// A host that cannot open a file now may later. A file that is not there stays away, and what is no file does not become one.
#[test]
fn a_file_that_cannot_be_opened_now_is_no_fault_of_the_file() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = saved().write(folder.path(), "a", &KEY, None).expect("written").path;
    let is_hosts = |path: &Path| read_back(path, &KEY, plan).expect_err("it cannot be read").is_hosts();
    let place = |name: &str| folder.path().join(name);
    assert!(!is_hosts(&place("missing")) && !is_hosts(folder.path()) && !is_hosts(&path.join("inside")));
    std::os::unix::fs::symlink("loop", place("loop")).expect("made");
    assert!(is_hosts(&place("loop")), "the kernel follows it nowhere");
    for errno in [nix::Error::EMFILE, nix::Error::EIO, nix::Error::ESTALE, nix::Error::ENOMEM] {
        assert!(FileError::Unreadable { path: path.clone(), source: errno.into() }.is_hosts(), "{errno}");
    }
}

/// What the format can say and a continuation cannot take over is refused, and not dropped.
#[test]
fn what_no_suspended_workflow_has_is_refused() {
    type Change = fn(&mut Contents);
    let changes: [(&str, Change); 10] = [
        ("another version", |c| c.engine.version += 1),
        ("cannot be read", |c| c.engine.bytes.push(0)),
        ("times outside", |c| c.instances[0].usage.run_ns = 1),
        ("not kept there", |c| c.threads[0].waits = 1),
        ("not kept there", |c| c.threads[0].park_ns = 1),
        ("not kept there", |c| c.threads[0].frame.value = 1),
        ("not been served", |c| c.threads[6].state = ThreadState::Ready(Resumption::First)),
        ("a gap in the list", |c| {
            let mut other = c.instances[0].clone();
            other.id = 0x401;
            other.mapped.clear();
            (other.heap_start, other.heap_end) = (other.heap_start + CELL_SIZE, other.heap_end + CELL_SIZE);
            c.instances.push(other);
            let mut main =
                ThreadRecord { number: 8, instance: 0x401, stack: None, position: 1, ..c.threads[4].clone() };
            main.frame.user_rsp = cell_base(1) + STACK - 256;
            c.threads.push(main);
            c.scheduler.ready.push(8);
            c.scheduler.free.clear();
        }),
        ("two deadlines", |c| c.scheduler.timers.push(TimerRecord { at: CLOCK, what: Timer::Run })),
        ("differs from another", |c| {
            let id = CheckpointId::random().expect("a number");
            c.identity.parent = Some(Parent { id, digest: Hash::of(b"") });
        }),
    ];
    for (why, change) in changes {
        let mut contents = contents();
        change(&mut contents);
        let bytes = file(&contents);
        match of(&alone(&bytes), plan) {
            Err(NotOurs::Other(reason)) if reason.contains(why) => {}
            other => panic!("{why}: {other:?}"),
        }
    }
}

/// A small file may name many zero pages. They are made if the workflow's limits have room for them, and not otherwise.
#[test]
fn more_pages_than_the_workflow_may_have_are_refused() {
    let document =
        String::from_utf8_lossy(DOCUMENT).replace("\"steps\"", "\"limits\": { \"slots\": \"1MiB\" }, \"steps\"");
    let document = document.replace("\"instances\"", "\"memory\": \"2MiB\", \"stack\": \"64KiB\", \"instances\"");
    let mut contents = contents();
    contents.plan = document.into_bytes();
    contents.identity.plan = Hash::of(&contents.plan);
    contents.instances[0].heap_end = contents.instances[0].heap_start + (8 << 20);
    let mut pages = Pages::new();
    pages.zero(contents.instances[0].heap_start, (4 << 20) / PAGE).expect("pages");
    let mut bytes = Vec::new();
    write(&mut bytes, &contents, &pages, Packing::Raw).expect("written");
    assert!(matches!(of(&alone(&bytes), plan), Err(NotOurs::Other(reason)) if reason.contains("more than")));
}

#[test]
fn pages_as_in_the_image_are_left_to_it() {
    let base = cell_base(0) + STACK;
    let mut pages = Pages::new();
    pages.base(base, 2).expect("pages");
    let mut bytes = Vec::new();
    write(&mut bytes, &contents(), &pages, Packing::Raw).expect("written");
    assert_eq!(of(&alone(&bytes), plan).expect("right").continuation.pages, []);
}

/// Pages of [`Many`].
pub(crate) const COUNT: u64 = 3000;

/// A heap of many pages, some of them equal or zero, in a file and in one after it that takes pages from it.
pub(crate) struct Many {
    pub(crate) heap: u64,
    pub(crate) first: PathBuf,
    pub(crate) second: PathBuf,
}

/// These have changed when the second is written.
pub(crate) const CHANGED: std::ops::Range<u64> = 1000..1100;

impl Many {
    pub(crate) fn write(folder: &Path, keys: Keys<'_>) -> Many {
        let heap = continuation().instances[0].heap_start;
        let first = Many::saved(0..COUNT, 1, Vec::new()).write(folder, "a", keys, None).expect("written");
        let stays = vec![(heap, CHANGED.start * PAGE), (heap + CHANGED.end * PAGE, (COUNT - CHANGED.end) * PAGE)];
        let second = Many::saved(CHANGED, 2, stays).write(folder, "b", keys, Some(&first.base));
        Many { heap, first: first.path, second: second.expect("written").path }
    }

    /// The same as the first, of a run that says to have touched these.
    pub(crate) fn write_touched(&self, folder: &Path, name: &str, touched: &[(u64, u64)]) -> PathBuf {
        let mut saved = Many::saved(0..COUNT, 1, Vec::new());
        saved.continuation.touched = touched.to_vec();
        saved.write(folder, name, &KEY, None).expect("written").path
    }

    pub(crate) fn saved(pages: std::ops::Range<u64>, file: u64, unchanged: Vec<(u64, u64)>) -> Saved {
        let mut saved = saved();
        saved.document = String::from_utf8_lossy(DOCUMENT)
            .replace("\"instances\"", "\"memory\": \"64MiB\", \"instances\"")
            .into_bytes();
        let instance = &mut saved.continuation.instances[0];
        instance.heap = COUNT * PAGE;
        let address = instance.heap_start + pages.start * PAGE;
        let bytes = pages.flat_map(|page| Many::page(page, file)).collect();
        saved.continuation.pages = vec![domain::PageRun { address, bytes }];
        saved.continuation.unchanged = unchanged;
        saved
    }

    /// What a page holds that was written for this file.
    pub(crate) fn page(page: u64, file: u64) -> Vec<u8> {
        let word = match page % 59 {
            0 => 0,
            1 | 2 => 1,
            _ => page * 10 + file,
        };
        word.to_le_bytes().repeat(PAGE as usize / 8)
    }

    /// The file that a page of the second one was written for.
    pub(crate) fn file_of(page: u64) -> u64 {
        if CHANGED.contains(&page) { 2 } else { 1 }
    }
}

/// Enough pages for several threads: each is in its place, and one that is damaged is named, wherever it is.
#[test]
fn many_pages_are_read_side_by_side() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let Many { heap, first, second } = Many::write(folder.path(), (&KEY).into());
    let read = |path: &Path| read_back(path, &KEY, plan);
    let is_right = |saved: &Saved, time: &dyn Fn(u64) -> u64| {
        let [run] = &saved.continuation.pages[..] else { panic!("there are holes") };
        let pages = run.bytes.chunks(PAGE as usize);
        assert_eq!((run.address, pages.len() as u64), (heap, COUNT));
        for (page, bytes) in (0..).zip(pages) {
            assert_eq!(bytes, Many::page(page, time(page)), "page {page}");
        }
    };
    is_right(&read(&first).expect("right"), &|_| 1);
    is_right(&read(&second).expect("right"), &Many::file_of);
    let good = fs::read(&first).expect("a file");
    for from_end in [1, 700 * PAGE as usize, good.len() / 2] {
        let mut damaged = good.clone();
        let at = damaged.len() - from_end;
        damaged[at] ^= 1;
        fs::write(&first, damaged).expect("written");
        for path in [&first, &second] {
            let error = read(path).expect_err("a page is damaged").to_string();
            assert!(error.contains("has changed"), "{error}");
        }
    }
}

/// Two that go on with what was read have the same memory, and neither can change it.
#[test]
fn what_is_read_is_sealed() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = saved().write(folder.path(), "a", &KEY, None).expect("written").path;
    let read = Saved::read(&path, &KEY, plan).expect("right");
    let memory = File::from(read.continuation);
    std::os::unix::fs::FileExt::write_all_at(&memory, b"x", 0).expect_err("it is sealed");
    memory.set_len(0).expect_err("it is sealed");
    // The file may be removed, or be another one, meanwhile.
    fs::write(&path, b"other").expect("written");
    let (record, _) = read_pages_from::<Continuation<()>>(&memory, Most::ANY).expect("it is as it should be");
    assert_eq!(record.instances, continuation().instances);
}

/// A page is compared with its hash when it is taken over: the seal covers the hash alone.
#[test]
fn a_damaged_page_is_refused() {
    let mut bytes = file(&contents());
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert!(matches!(of(&alone(&bytes), plan), Err(NotOurs::Damaged(Error::DamagedPage { .. }))));
}

/// A worker in the wrong hands may send anything.
#[test]
fn a_continuation_that_no_checkpoint_can_have_is_not_written() {
    let folder = tempfile::TempDir::new().expect("a folder");
    type Change = fn(&mut Continuation);
    let changes: [Change; 11] = [
        |c| c.instances[0].function = "other".to_owned(),
        |c| c.instances[0].id = u32::MAX,
        |c| c.instances[0].heap = u64::MAX,
        |c| c.instances[0].lines[0].0 = 300,
        |c| c.instances[0].threads[3].name = None,
        |c| c.instances[0].threads[0].args[0] = u64::MAX,
        |c| c.instances[0].threads[1].call = number::EXIT,
        |c| c.instances[0].threads[7].args[0] = 64,
        |c| c.pages[0].address = 0,
        |c| c.modules[0].pages[0].0 = 0,
        |c| c.unchanged.push((c.instances[0].heap_start + PAGE, PAGE)),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut saved = saved();
        change(&mut saved.continuation);
        assert!(saved.write(folder.path(), "w-1", &KEY, None).is_err(), "change {index}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left");
}

/// A capture of the same instance a moment later: with these pages, and these as they were.
fn later(pages: &[(u64, u8)], unchanged: &[(u64, u64)]) -> Saved {
    let run = |(address, byte): &(u64, u8)| domain::PageRun { address: *address, bytes: vec![*byte; PAGE as usize] };
    let (pages, unchanged) = (pages.iter().map(run).collect(), unchanged.to_vec());
    Saved { continuation: Continuation { pages, unchanged, ..continuation() }, ..saved() }
}

/// Each page of a continuation.
fn pages_of(saved: &Saved) -> Vec<(u64, u8)> {
    let runs = saved.continuation.pages.iter();
    let pages = runs.flat_map(|run| (run.address..).step_by(PAGE as usize).zip(run.bytes.chunks(PAGE as usize)));
    pages.map(|(address, bytes)| (address, bytes[0])).collect()
}

/// The files lie in one folder, and each names the one before it. They can be moved together.
#[test]
fn files_that_have_only_what_changed_are_read_with_those_before_them() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let (heap, arena) = (continuation().instances[0].heap_start, ARENA_BASE + PAGE);
    let first = saved().write(folder.path(), "a", &KEY, None).expect("written").base;
    // A page of the heap has changed, one is new; the stack and one page of data are gone.
    let stays = [(heap - 3 * PAGE, PAGE), (arena, 2 * PAGE)];
    let second = later(&[(heap, 9), (heap + PAGE, 8)], &stays);
    let second = second.write(folder.path(), "b", &KEY, Some(&first)).expect("written").base;
    let third = later(&[(arena, 0)], &[(heap, PAGE), (heap + PAGE, PAGE), (arena + PAGE, PAGE)]);
    let third = third.write(folder.path(), "c", &KEY, Some(&second)).expect("written");
    assert_eq!((first.depth(), second.depth(), third.base.depth()), (0, 1, 2));
    let moved = folder.path().join("moved");
    fs::create_dir(&moved).expect("made");
    for name in ["a", "b", "c"] {
        let name = format!("{name}.checkpoint");
        fs::rename(folder.path().join(&name), moved.join(&name)).expect("moved");
    }
    let read = |name: &str| read_back(&moved.join(format!("{name}.checkpoint")), &KEY, plan);
    assert_eq!(read("a").expect("right").continuation, continuation());
    let expected = [(heap - 3 * PAGE, 0), (heap, 9), (heap + PAGE, 8), (arena, 4), (arena + PAGE, 4)];
    assert_eq!(pages_of(&read("b").expect("right")), expected);
    assert_eq!(pages_of(&read("c").expect("right")), [(heap, 9), (heap + PAGE, 8), (arena, 0), (arena + PAGE, 4)]);
    fs::remove_file(moved.join("a.checkpoint")).expect("removed");
    let error = read("c").expect_err("it needs the first one").to_string();
    assert!(
        error.contains("c.checkpoint") && error.contains("takes pages from a.checkpoint, which is not there"),
        "{error}"
    );
    let whole = later(&[(heap, 9)], &[]).write(&moved, "d", &KEY, Some(&third.base)).expect("written");
    assert_eq!((whole.base.depth(), pages_of(&read("d").expect("right"))), (0, vec![(heap, 9)]), "it needs none");
}

pub(crate) fn state_key(folder: &Path) -> StateKey {
    let path = folder.join("state.key");
    KeyFile::create(&path).expect("a new one");
    KeyFile::load(&path).expect("a key").new_state_key().expect("made").0
}

/// Those of a state folder that has a key: each is encrypted, and read in its own place alone. What was changed is no fault of the host.
#[test]
fn encrypted_files_are_read_with_their_key_in_their_own_place() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let heap = continuation().instances[0].heap_start;
    let (own, other) = (state_key(folder.path()), tempfile::TempDir::new().expect("a folder"));
    let other = state_key(other.path());
    let keys = Keys { seal: &KEY, state: Some(&own) };
    let first = saved().write(folder.path(), "a", keys, None).expect("written");
    let second = later(&[(heap, 9)], &[(heap - 3 * PAGE, PAGE)]).write(folder.path(), "b", keys, Some(&first.base));
    let second = second.expect("written");
    let read = |path: &Path, keys: Keys<'_>| read_back(path, keys, plan);
    assert_eq!(read(&first.path, keys).expect("right").continuation, continuation());
    assert_eq!(pages_of(&read(&second.path, keys).expect("right")), [(heap - 3 * PAGE, 0), (heap, 9)]);
    for path in [&first.path, &second.path] {
        let bytes = fs::read(path).expect("a file");
        assert!(!bytes.windows(DOCUMENT.len()).any(|window| window == DOCUMENT), "it is encrypted");
        assert_eq!(bytes.len() as u64, [first.bytes, second.bytes][usize::from(path == &second.path)]);
    }
    let refused = |path: &Path, keys: Keys<'_>| {
        let error = read(path, keys).expect_err("it is refused");
        assert!(!error.is_hosts(), "{error}");
        error.to_string()
    };
    assert!(refused(&first.path, (&KEY).into()).contains("it is encrypted: `monohull wake"));
    let changed = "it was changed or cut off";
    assert!(refused(&first.path, Keys { state: Some(&other), ..keys }).contains(changed));
    // The one that another needs is changed, is another, and is not encrypted.
    let whole = fs::read(&first.path).expect("a file");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for (damage, why) in [
        (flipped, changed),
        (whole[..whole.len() - 1].to_vec(), changed),
        (fs::read(&second.path).expect("a file"), changed),
        (b"plain".to_vec(), "it is not encrypted"),
    ] {
        fs::write(&first.path, damage).expect("written");
        let said = refused(&second.path, keys);
        assert!(said.contains("a.checkpoint") && said.contains(why), "{said}");
        assert!(refused(&first.path, keys).contains(why));
    }
    fs::write(&first.path, whole).expect("written");
    read(&second.path, keys).expect("the control");
}

/// It does not become a file by itself.
#[test]
fn a_device_in_the_place_of_a_file_that_another_needs_is_not_the_hosts_fault() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let heap = continuation().instances[0].heap_start;
    let first = saved().write(folder.path(), "a", &KEY, None).expect("written");
    let second = later(&[], &[(heap, PAGE)]).write(folder.path(), "b", &KEY, Some(&first.base)).expect("written");
    read_back(&second.path, &KEY, plan).expect("the control");
    fs::remove_file(&first.path).expect("removed");
    std::os::unix::fs::symlink("/dev/zero", &first.path).expect("a link");
    for path in [&first.path, &second.path] {
        let error = read_back(path, &KEY, plan).expect_err("it is refused");
        assert!(!error.is_hosts() && error.to_string().contains("no regular file but a device"), "{error}");
    }
}

/// A worker in the wrong hands may say that anything is as it was.
#[test]
fn what_was_not_there_cannot_be_as_it_was() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let heap = continuation().instances[0].heap_start;
    let first = saved().write(folder.path(), "a", &KEY, None).expect("written").base;
    let count = || fs::read_dir(folder.path()).expect("a folder").count();
    for unchanged in [
        (heap + PAGE, PAGE),
        (heap, 2 * PAGE),
        (heap, 9),
        (heap + 8, PAGE),
        (0, PAGE),
        (cell_base(0) + STACK - 2 * PAGE, PAGE),
        (u64::MAX - 4095, PAGE),
        (heap, u64::MAX),
    ] {
        assert!(later(&[], &[unchanged]).write(folder.path(), "b", &KEY, Some(&first)).is_err(), "{unchanged:x?}");
        assert!(later(&[], &[(heap, PAGE), unchanged]).write(folder.path(), "b", &KEY, Some(&first)).is_err());
    }
    assert!(later(&[(heap, 1)], &[(heap, PAGE)]).write(folder.path(), "b", &KEY, Some(&first)).is_err(), "twice");
    assert!(later(&[], &[(heap, PAGE)]).write(folder.path(), "b", &KEY, None).is_err(), "there is none before it");
    assert_eq!(count(), 1, "nothing is left");
    later(&[], &[(heap, PAGE)]).write(folder.path(), "b", &KEY, Some(&first)).expect("the positive control");
}

/// More than so many do not depend on each other.
#[test]
fn a_chain_of_files_has_an_end() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let heap = continuation().instances[0].heap_start;
    let mut last = saved().write(folder.path(), "0", &KEY, None).expect("written").base;
    for number in 1..=CHAIN_MAX {
        assert!(!last.is_last());
        let next = later(&[(heap + PAGE, number as u8)], &[(heap, PAGE)]);
        last = next.write(folder.path(), &number.to_string(), &KEY, Some(&last)).expect("written").base;
    }
    assert!(last.is_last());
    assert!(later(&[], &[(heap, PAGE)]).write(folder.path(), "more", &KEY, Some(&last)).is_err());
    let read = read_back(&folder.path().join(format!("{CHAIN_MAX}.checkpoint")), &KEY, plan).expect("right");
    assert_eq!(pages_of(&read), [(heap, 3), (heap + PAGE, CHAIN_MAX as u8)]);
}

/// What is kept elsewhere until the disk has the file is what the file has.
#[test]
fn a_file_that_is_not_waited_for_comes_with_its_content() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let written = saved().write_unsynced(folder.path(), "w-1", &KEY, 1 << 20).expect("written");
    let content = written.unsynced.expect("it is small");
    assert_eq!((content.len() as u64, &content), (written.bytes, &fs::read(&written.path).expect("it is there")));
    read_back(&written.path, &KEY, plan).expect("right");
    // The same name is not taken again.
    assert!(saved().write_unsynced(folder.path(), "w-1", &KEY, 1 << 20).is_err());
    let bytes = saved().to_bytes(&folder.path().join("w-4.checkpoint"), &KEY).expect("sealed");
    fs::write(folder.path().join("w-4.checkpoint"), &bytes).expect("written");
    let read = read_back(&folder.path().join("w-4.checkpoint"), &KEY, plan).expect("right");
    assert_eq!((read.continuation, bytes.len() as u64), (continuation(), written.bytes));
    let large = saved().write_unsynced(folder.path(), "w-2", &KEY, written.bytes - 1).expect("written");
    assert_eq!((large.unsynced, large.bytes), (None, written.bytes));
    assert!(saved().write(folder.path(), "w-3", &KEY, None).expect("written").unsynced.is_none());
}
