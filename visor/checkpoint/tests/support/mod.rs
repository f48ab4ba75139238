//! A small captured workflow, and a writer that takes anything.
//!
//! The writer is made after the documentation (`docs/continuations.md`) and not after the crate's own, so that one that reads and
//! writes the same mistake is found.

#![allow(dead_code, reason = "each test program uses a part")]

use monohull_abi::layout::{ARENA_BASE, MAPPINGS_OFFSET, PAGE, THREAD_STACKS_OFFSET, cell_base};
use monohull_abi::number::{FUTEX_WAIT, NANOSLEEP, NULL, QUEUE_WAIT, SLOT_TAKE, THREAD_JOIN};
use monohull_checkpoint::record::*;
use monohull_checkpoint::{CheckpointId, Hash, Heat, Key, Layout, Packing, Pages, Processor, seal, write};
use serde::Serialize;
use std::fs::File;
use std::io::Write;

/// Bytes of the stacks of the sample's instances.
pub(crate) const STACK: u64 = 64 << 10;
/// Cells of the sample's instances.
pub(crate) const CELLS: [usize; 2] = [0, 3];
/// Numbers of the sample's instances.
pub(crate) const IDS: [u32; 2] = [0x100, 0x203];
/// The key that seals samples.
pub(crate) const KEY: Key = Key::new([7; 32]);
/// The plan's bytes.
pub(crate) const PLAN: &[u8] = b"a plan";

/// Pages of memory with an address.
pub(crate) struct Memory {
    /// Where they are.
    pub(crate) address: u64,
    /// Their contents.
    pub(crate) bytes: Vec<u8>,
    /// Whether the last run touched them.
    pub(crate) heat: Heat,
}

fn mapped(start: u64, count: u64, state: MappedState) -> MappedRange {
    MappedRange { pages: PageRange { start, count }, state }
}

fn instance(cell: usize, id: u32, index: u32) -> InstanceRecord {
    let base = cell_base(cell);
    InstanceRecord {
        id,
        function: 0,
        token: 40 + u64::from(index),
        step: "wait".to_owned(),
        index,
        count: 2,
        attempt: 1,
        stack_size: STACK,
        heap_start: base + STACK + 16 * PAGE,
        heap_end: base + STACK + 24 * PAGE,
        stacks: 4,
        free_stacks: vec![1],
        mapped: vec![
            mapped(base + (32 << 30) - 8 * PAGE, 4, MappedState::Reserved),
            mapped(base + (32 << 30) - 4 * PAGE, 4, MappedState::ReadWrite),
        ],
        deadline: Some(90_000_000_000),
        refusal: Some("takes slot `x`".to_owned()),
        usage: UsageRecord { started_ns: Some(1_000), load_ns: 2, run_ns: 3, park_ns: 4, bytes_in: 5, bytes_out: 6 },
        lines: vec![LineRecord { stream: 1, text: "still here\u{1b}[2J".to_owned() }],
        lines_cost: 42,
        lines_full: false,
    }
}

fn thread(number: u32, owner: usize, stack: Option<u32>, call: u32, argument: u64, state: ThreadState) -> ThreadRecord {
    let base = cell_base(CELLS[owner]);
    let top = match stack {
        None => base + STACK,
        Some(slot) => base + THREAD_STACKS_OFFSET + (u64::from(slot) + 1) * STACK,
    };
    ThreadRecord {
        number,
        instance: IDS[owner],
        stack,
        position: stack.map_or(0, |slot| slot + 1),
        waits: 5,
        frame: Frame { user_rsp: top - 0x200, value: 0, number: call, args: [argument, 1, 2, 3, 4, 5] },
        state,
        run_ns: 10,
        park_ns: 11,
    }
}

/// What the sample says.
pub(crate) fn contents() -> Contents {
    let word = cell_base(CELLS[0]) + STACK + 17 * PAGE + 8;
    let waiting = |on: WaitOn, deadline| ThreadState::Waiting { on, deadline };
    Contents {
        identity: Identity {
            id: CheckpointId([0x11; 16]),
            generation: 2,
            parent: Some(Parent { id: CheckpointId([0x22; 16]), digest: Hash([0x33; 32]) }),
            label: "before the payment".to_owned(),
            workflow: "orders".to_owned(),
            plan: Hash::of(PLAN),
            tenant: "shop".to_owned(),
            wall_ns: 1_790_000_000_000_000_000,
            domain_ns: 5_000_000_000,
            processor: Processor { words: vec![0b11] },
            layout: Layout::HERE,
            abi: monohull_abi::ABI_VERSION,
            program: "0.1.0".to_owned(),
        },
        functions: vec![FunctionRecord { name: "order".to_owned(), image: Hash([0x44; 32]), image_bytes: 70_000 }],
        instances: vec![instance(CELLS[0], IDS[0], 0), instance(CELLS[1], IDS[1], 1)],
        threads: vec![
            thread(0, 0, None, NANOSLEEP, 60_000_000_000, waiting(WaitOn::Time, Some(61_000_000_000))),
            thread(
                0x10_0001,
                0,
                Some(0),
                FUTEX_WAIT,
                word,
                waiting(WaitOn::Futex { address: word }, Some(7_000_000_000)),
            ),
            thread(2, 0, Some(2), FUTEX_WAIT, word, waiting(WaitOn::Futex { address: word }, None)),
            thread(3, 0, Some(3), THREAD_JOIN, 2, waiting(WaitOn::Thread { number: 2 }, None)),
            thread(4, 1, None, SLOT_TAKE, word, waiting(WaitOn::Slot { name: "payment".to_owned() }, None)),
            thread(5, 1, Some(0), NULL, 0, ThreadState::Ready(Resumption::Value(-11))),
            thread(6, 1, Some(2), SLOT_TAKE, word, ThreadState::Ready(Resumption::Woken)),
        ],
        scheduler: SchedulerRecord {
            ready: vec![6, 5],
            queues: vec![vec![2, 0x10_0001], vec![3], vec![4]],
            free: vec![0x30_0007, 8],
            timers: vec![
                TimerRecord { at: 8_000_000_000, what: Timer::Driver(40) },
                TimerRecord { at: 100_000_000_000, what: Timer::Run },
            ],
            pending: vec![PendingRecord { token: 42, attempt: 1 }, PendingRecord { token: 43, attempt: 2 }],
            started: 3,
        },
        plan: PLAN.to_vec(),
        engine: EngineRecord { version: 1, bytes: b"steps".to_vec() },
        modules: vec![
            ModuleRecord {
                name: "mm".to_owned(),
                bytes: [1u32.to_le_bytes().as_slice(), b"buffers"].concat(),
                pages: vec![
                    PageRange { start: ARENA_BASE, count: 2 },
                    PageRange { start: ARENA_BASE + 8 * PAGE, count: 1 },
                ],
            },
            ModuleRecord { name: "stdio".to_owned(), bytes: 1u32.to_le_bytes().to_vec(), pages: Vec::new() },
        ],
        // The files that are kept have none of the first two; tests of `round_trip` have.
        handlers: Vec::new(),
        registers: Vec::new(),
        files: Vec::new(),
        requests: None,
        chain: None,
    }
}

/// The sample's pages that have contents: some are equal, and one is zero.
pub(crate) fn memory() -> Vec<Memory> {
    let page = |text: &str| {
        let mut page = text.as_bytes().repeat(12);
        page.resize(PAGE as usize, 0);
        page
    };
    let base = cell_base(CELLS[0]);
    let (stack, heap) = (base + STACK - PAGE, base + STACK + 17 * PAGE);
    let other_stack = cell_base(CELLS[1]) + STACK - PAGE;
    vec![
        Memory { address: ARENA_BASE, bytes: [page("a buffer"), page("of two pages")].concat(), heat: Heat::Rest },
        Memory { address: stack, bytes: page("frames"), heat: Heat::Active },
        Memory { address: heap, bytes: [page("objects"), page(""), page("a buffer")].concat(), heat: Heat::Rest },
        Memory { address: base + (32 << 30) - 2 * PAGE, bytes: page("mapped"), heat: Heat::Rest },
        Memory { address: other_stack, bytes: page("frames"), heat: Heat::Active },
    ]
}

/// Pages of the sample.
pub(crate) fn pages(memory: &[Memory]) -> Pages<'_> {
    let mut pages = Pages::new();
    for Memory { address, bytes, heat } in memory {
        pages.here(*address, bytes, *heat).expect("user memory");
    }
    let base = cell_base(CELLS[1]) + STACK;
    pages.base(base + 2 * PAGE, 3).expect("user memory");
    pages.zero(base + 5 * PAGE, 1).expect("user memory");
    pages.parent(base + 16 * PAGE, 4).expect("user memory");
    pages
}

/// The sample as a file, without a seal.
pub(crate) fn sample(packing: Packing) -> Vec<u8> {
    let memory = memory();
    let mut file = Vec::new();
    write(&mut file, &contents(), &pages(&memory), packing).expect("the sample is good");
    file
}

/// What the sample says, where it names the file of its parent.
pub(crate) fn child_contents() -> Contents {
    let chain = Some(ChainRecord { file: "orders.1.checkpoint".to_owned(), depth: 3 });
    Contents { chain, ..contents() }
}

/// What the sample says, where threads of both instances wait in the queues of the same number.
pub(crate) fn queue_contents() -> Contents {
    let mut contents = contents();
    for (at, deadline) in [(2, Some(6_000_000_000)), (3, None), (4, None)] {
        let thread = &mut contents.threads[at];
        (thread.frame.number, thread.frame.args[0]) = (QUEUE_WAIT, 1);
        thread.state = ThreadState::Waiting { on: WaitOn::Queue { number: 1 }, deadline };
    }
    contents.scheduler.queues = vec![vec![0x10_0001], vec![3, 2], vec![4]];
    contents
}

/// What the sample says, where instances have asked for effects.
pub(crate) fn requests_contents() -> Contents {
    let answered = [(IDS[0], 3), (IDS[0], 4), (IDS[1], 1)];
    let mut answered = answered.map(|(instance, number)| AnsweredRecord { instance, number });
    answered.sort_unstable();
    Contents { requests: Some(RequestsRecord { last: 5, answered: answered.to_vec() }), ..contents() }
}

/// What the sample says, where instances have mapped files: one whole, one of which some pages are there.
pub(crate) fn files_contents() -> Contents {
    let file = |owner: usize, page: u64, bytes: u64, there: &[(u64, u64)]| {
        let start = cell_base(CELLS[owner]) + MAPPINGS_OFFSET + page * PAGE;
        let there = there.iter().map(|(first, count)| PageRange { start: start + first * PAGE, count: *count });
        let (path, writable) = (format!("work/file {page}"), page == 0);
        MappedFileRecord { instance: IDS[owner], start, bytes, offset: 100, path, writable, there: there.collect() }
    };
    let files = vec![
        file(0, 0, 3 * PAGE - 7, &[(0, 3)]),
        file(0, 4, 200 * PAGE, &[(16, 16), (40, 1), (199, 1)]),
        file(1, 8, 1, &[]),
    ];
    Contents { files, ..contents() }
}

/// The sample with a fault handler, and a thread that was interrupted, as a file without a seal.
pub(crate) fn interrupted() -> Vec<u8> {
    let image = |owner: usize| cell_base(CELLS[owner]) + STACK;
    let handler = HandlerRecord { instance: IDS[0], entry: image(0), start: image(0) + PAGE, bytes: 15 * PAGE };
    let registers = RegistersRecord {
        thread: 5,
        ip: image(1),
        sp: u64::MAX,
        flags: 2,
        general: std::array::from_fn(|index| index as u64),
        extended: vec![7; EXTENDED_BYTES],
    };
    let mut contents = Contents { handlers: vec![handler], registers: vec![registers], ..contents() };
    for thread in contents.threads.iter_mut().filter(|thread| thread.number == 5) {
        thread.state = ThreadState::Ready(Resumption::Value(0));
    }
    let (memory, mut file) = (memory(), Vec::new());
    write(&mut file, &contents, &pages(&memory), Packing::Raw).expect("the sample is good");
    file
}

/// That as a file, without a seal. A page of a mapping has contents, and one is zero.
pub(crate) fn files() -> Vec<u8> {
    let mut memory = memory();
    let start = cell_base(CELLS[0]) + MAPPINGS_OFFSET;
    let mut written = b"changed".repeat(100);
    written.resize(2 * PAGE as usize, 0);
    memory.push(Memory { address: start + PAGE, bytes: written, heat: Heat::Rest });
    let mut file = Vec::new();
    write(&mut file, &files_contents(), &pages(&memory), Packing::Raw).expect("the sample is good");
    file
}

/// That as a file, without a seal.
pub(crate) fn queue() -> Vec<u8> {
    let memory = memory();
    let mut file = Vec::new();
    write(&mut file, &queue_contents(), &pages(&memory), Packing::Raw).expect("the sample is good");
    file
}

/// The one with requests as a file, without a seal.
pub(crate) fn requests() -> Vec<u8> {
    let memory = memory();
    let mut file = Vec::new();
    write(&mut file, &requests_contents(), &pages(&memory), Packing::Raw).expect("the sample is good");
    file
}

/// The child as a file, without a seal.
pub(crate) fn child() -> Vec<u8> {
    let memory = memory();
    let mut file = Vec::new();
    write(&mut file, &child_contents(), &pages(&memory), Packing::Raw).expect("the sample is good");
    file
}

/// The same, sealed.
pub(crate) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    seal(&file, &KEY).expect("sealed");
    read(&file)
}

fn read(file: &File) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; file.metadata().expect("a file").len() as usize];
    file.read_exact_at(&mut bytes, 0).expect("read");
    bytes
}

/// A section of a file, as it stands in the table.
#[derive(Clone)]
pub(crate) struct Section {
    pub(crate) id: u32,
    pub(crate) version: u16,
    pub(crate) flags: u16,
    pub(crate) bytes: Vec<u8>,
}

/// A file in its parts.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) sections: Vec<Section>,
    pub(crate) pages: Vec<u8>,
    /// Whether the pages begin at a page.
    pub(crate) aligned: bool,
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("so many bytes")
}

impl Parts {
    /// Takes a good file apart.
    pub(crate) fn of(file: &[u8]) -> Parts {
        let count = u32::from_le_bytes(word(file, 12)) as usize;
        let section = |entry: &[u8]| {
            let offset = u64::from_le_bytes(word(entry, 8)) as usize;
            let length = u64::from_le_bytes(word(entry, 16)) as usize;
            Section {
                id: u32::from_le_bytes(word(entry, 0)),
                version: u16::from_le_bytes(word(entry, 4)),
                flags: u16::from_le_bytes(word(entry, 6)),
                bytes: file[offset..offset + length].to_vec(),
            }
        };
        let sections = file[128..128 + count * 64].chunks(64).map(section).collect();
        let pages_offset = u64::from_le_bytes(word(file, 24)) as usize;
        Parts { sections, pages: file[pages_offset..].to_vec(), aligned: pages_offset.is_multiple_of(4096) }
    }

    /// The section with this number.
    pub(crate) fn section(&mut self, id: u32) -> &mut Section {
        self.sections.iter_mut().find(|section| section.id == id).expect("it is there")
    }

    /// Puts records into the sections that have them.
    pub(crate) fn with(mut self, contents: &Contents) -> Parts {
        self.section(1).bytes = record(&contents.identity);
        self.section(2).bytes = record(&contents.functions);
        self.section(3).bytes = record(&contents.instances);
        self.section(4).bytes = record(&contents.threads);
        self.section(5).bytes = record(&contents.scheduler);
        self.section(6).bytes = contents.plan.clone();
        self.section(7).bytes = record(&contents.engine);
        let at = self.sections.iter().position(|section| section.id == 8).expect("modules");
        let module = Section { bytes: Vec::new(), ..self.sections[at].clone() };
        self.sections.retain(|section| section.id != 8);
        let modules = contents.modules.iter().map(|record| Section { bytes: self::record(record), ..module.clone() });
        self.sections.splice(at..at, modules.collect::<Vec<_>>());
        self
    }

    /// Puts them together, with hashes and digest as they must be, and `seal` for a seal.
    pub(crate) fn file(&self, seal: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 128];
        let mut offset = 128 + self.sections.len() * 64;
        for section in &self.sections {
            file.extend_from_slice(&section.id.to_le_bytes());
            file.extend_from_slice(&section.version.to_le_bytes());
            file.extend_from_slice(&section.flags.to_le_bytes());
            file.extend_from_slice(&(offset as u64).to_le_bytes());
            file.extend_from_slice(&(section.bytes.len() as u64).to_le_bytes());
            file.extend_from_slice(&[0; 8]);
            file.extend_from_slice(&Hash::of(&section.bytes).0);
            offset += section.bytes.len().next_multiple_of(8);
        }
        let table = file[128..].to_vec();
        for section in &self.sections {
            file.extend_from_slice(&section.bytes);
            file.resize(file.len().next_multiple_of(8), 0);
        }
        if self.aligned {
            file.resize(file.len().next_multiple_of(4096), 0);
        }
        let pages_offset = file.len() as u64;
        file.extend_from_slice(&self.pages);
        let bytes = file.len() as u64;
        file[0..8].copy_from_slice(b"\x89MHULL\r\n");
        file[8..10].copy_from_slice(&1u16.to_le_bytes());
        file[10..12].copy_from_slice(&128u16.to_le_bytes());
        file[12..16].copy_from_slice(&(self.sections.len() as u32).to_le_bytes());
        file[16..24].copy_from_slice(&bytes.to_le_bytes());
        file[24..32].copy_from_slice(&pages_offset.to_le_bytes());
        file[32..40].copy_from_slice(&(self.pages.len() as u64).to_le_bytes());
        let digest = Hash::of(&[&file[..40], &table].concat());
        file[64..96].copy_from_slice(&digest.0);
        file[40..48].copy_from_slice(&seal[..8]);
        file[96..128].copy_from_slice(&seal[8..]);
        file
    }

    /// The same without a seal.
    pub(crate) fn unsealed(&self) -> Vec<u8> {
        self.file(&[0; 40])
    }
}

/// The number of the key and the seal of a file.
pub(crate) fn seal_of(file: &[u8]) -> Vec<u8> {
    [&file[40..48], &file[96..128]].concat()
}

/// A record as a section has it.
pub(crate) fn record(record: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(record).expect("plain data")
}
