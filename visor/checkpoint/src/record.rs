//! What a checkpoint says, but for the pages: plain records that the domain, the engine and the modules fill.
//!
//! No record has an address of trusted memory. User addresses are absolute, because cells and arena lie at the same
//! addresses in every process. Times are nanoseconds of the *domain clock*, which begins anywhere and goes on after a
//! restore where it stood; only [`Identity::wall_ns`] is another clock's. A record says what is so, never what follows
//! from other records: accounts, counts and lists of neighbours are made anew.

use crate::hash::{CheckpointId, Hash};
use crate::host::{Layout, Processor};
use monohull_abi::layout::PAGE;
use serde::{Deserialize, Serialize};

/// The most threads: their numbers have so many indices.
const THREADS_MAX: usize = 1 << 20;

/// Everything in a checkpoint but its pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contents {
    /// Which checkpoint this is, of what, made where.
    pub identity: Identity,
    /// The functions whose images instances run.
    pub functions: Vec<FunctionRecord>,
    /// The instances that live.
    pub instances: Vec<InstanceRecord>,
    /// Their threads.
    pub threads: Vec<ThreadRecord>,
    /// Which threads run next, and which wait in which order.
    pub scheduler: SchedulerRecord,
    /// The workflow's plan, in the form that its writer goes on from. [`Identity::plan`] is its hash.
    pub plan: Vec<u8>,
    /// The engine's state.
    pub engine: EngineRecord,
    /// The state of each libos module that has any.
    pub modules: Vec<ModuleRecord>,
    /// Fault handlers of instances, by their ids upwards.
    pub handlers: Vec<HandlerRecord>,
    /// Registers of threads that were interrupted in user code, by the threads' numbers upwards.
    pub registers: Vec<RegistersRecord>,
    /// Parts of files that instances have mapped, by instance and address upwards.
    pub files: Vec<MappedFileRecord>,
    /// Requests of effects; absent if there were none.
    pub requests: Option<RequestsRecord>,
    /// Where the parent is; absent if there is none. [`Identity::parent`] says which file that has to be.
    pub chain: Option<ChainRecord>,
}

/// Which checkpoint a file is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// Its own number, random.
    pub id: CheckpointId,
    /// How often this continuation has been resumed and captured before.
    pub generation: u64,
    /// The checkpoint whose pages this one refers to, if it has only what changed.
    pub parent: Option<Parent>,
    /// A name given by the user; may be empty.
    pub label: String,
    /// The workflow's name.
    pub workflow: String,
    /// The hash of the workflow's plan.
    pub plan: Hash,
    /// Whose it is; empty where there is one owner.
    pub tenant: String,
    /// When it was captured, in ns since 1970.
    pub wall_ns: u64,
    /// The domain clock when it was captured.
    pub domain_ns: u64,
    /// What the processor could do whose code the functions chose.
    pub processor: Processor,
    /// The address-space layout that all addresses here mean.
    pub layout: Layout,
    /// The version of the hostcall interface.
    pub abi: u32,
    /// The version of the program that wrote it.
    pub program: String,
}

/// The checkpoint before this one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parent {
    /// Its number.
    pub id: CheckpointId,
    /// Its digest: that very file, and no other with the number.
    pub digest: Hash,
}

/// The most checkpoints before one that has only what changed.
pub const CHAIN_MAX: u32 = 32;

/// Where the parent is found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChainRecord {
    /// The name of its file, which lies in the same folder.
    pub file: String,
    /// How many checkpoints there are before this one, up to one that has no parent: at least 1, at most [`CHAIN_MAX`].
    pub depth: u32,
}

/// A function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionRecord {
    /// Its name in the workflow.
    pub name: String,
    /// The hash of its image.
    pub image: Hash,
    /// The image's bytes.
    pub image_bytes: u64,
}

/// An instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InstanceRecord {
    /// Its number in the domain; the low byte is its cell.
    pub id: u32,
    /// The function: an index into [`Contents::functions`].
    pub function: u32,
    /// The engine's name for it.
    pub token: u64,
    /// The step that it belongs to.
    pub step: String,
    /// Which of the step's instances.
    pub index: u32,
    /// How many instances the step has.
    pub count: u32,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Bytes of each of its stacks, a power of two.
    pub stack_size: u64,
    /// Where its heap begins; the image lies between the main stack and this.
    pub heap_start: u64,
    /// Where its heap ends.
    pub heap_end: u64,
    /// Thread stacks that have ever been used.
    pub stacks: u32,
    /// Those of them that no thread has, the next to be used last.
    pub free_stacks: Vec<u32>,
    /// Memory that it has mapped between heap and thread stacks, upwards.
    pub mapped: Vec<MappedRange>,
    /// When it must have ended.
    pub deadline: Option<u64>,
    /// The first call of it that the workflow file does not allow.
    pub refusal: Option<String>,
    /// What it has used.
    pub usage: UsageRecord,
    /// Lines that it has printed and that the report will have.
    pub lines: Vec<LineRecord>,
    /// What they, and those that were dropped, count against its limit of output.
    pub lines_cost: u64,
    /// Whether lines were dropped.
    pub lines_full: bool,
}

/// Whole pages that an instance has mapped (`MAP`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MappedRange {
    /// Where they are.
    pub pages: PageRange,
    /// What they may be used for.
    pub state: MappedState,
}

/// What mapped pages may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MappedState {
    /// Nothing; there is no memory behind them.
    Reserved,
    /// Nothing now; they keep what they hold.
    Hidden,
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// A part of a file that an instance has mapped (`FILE_MMAP`). Which file that is, the module says that has its descriptors.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MappedFileRecord {
    /// The instance's number.
    pub instance: u32,
    /// The address of its first page.
    pub start: u64,
    /// Bytes that are the file's.
    pub bytes: u64,
    /// Where in the file they begin.
    pub offset: u64,
    /// The file's path when it was opened, without the first `/`. Only for readers.
    pub path: String,
    /// Whether it may be written to.
    pub writable: bool,
    /// The pages that are there, in ascending order and with gaps between them. One without contents is as the file has it, or of a file
    /// of a granted directory zero. The others are made when they are touched.
    pub there: Vec<PageRange>,
}

impl MappedFileRecord {
    /// The address behind its last page; the highest address if that is beyond it.
    pub fn end(&self) -> u64 {
        PageRange { start: self.start, count: self.bytes.div_ceil(PAGE) }.end()
    }
}

/// The fault handler of an instance (`FAULT_HANDLER`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandlerRecord {
    /// The instance's number.
    pub instance: u32,
    /// Where the handler begins.
    pub entry: u64,
    /// First address of the code whose faults it handles.
    pub start: u64,
    /// Bytes of that code.
    pub bytes: u64,
}

/// Bytes of [`RegistersRecord::extended`].
pub const EXTENDED_BYTES: usize = 512 + 32 * 64 + 8 * 8;

/// All registers of a thread that was interrupted in user code. Such a thread is ready; its frame says nothing but which part of its stack
/// is in use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegistersRecord {
    /// The thread's number.
    pub thread: u32,
    /// The instruction pointer.
    pub ip: u64,
    /// The stack pointer, which need not be on a stack.
    pub sp: u64,
    /// The flags.
    pub flags: u64,
    /// r15 to r8, rdi, rsi, rbp, rbx, rdx, rcx, rax.
    pub general: [u64; 15],
    /// What FXSAVE writes, then 32 vector registers of 64 bytes and 8 mask registers of 8.
    #[serde(with = "serde_bytes")]
    pub extended: Vec<u8>,
}

/// What an instance has used.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct UsageRecord {
    /// When its first instruction ran.
    pub started_ns: Option<u64>,
    /// Spent mapping and relocating.
    pub load_ns: u64,
    /// On carriers, all ended threads together.
    pub run_ns: u64,
    /// The main thread parked.
    pub park_ns: u64,
    /// Bytes taken over by reference.
    pub bytes_in: u64,
    /// Bytes given to others by reference.
    pub bytes_out: u64,
}

/// A line of output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LineRecord {
    /// 1 for standard output, 2 for standard error.
    pub stream: u8,
    /// The text without its line end.
    pub text: String,
}

/// A user thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ThreadRecord {
    /// Its number, as functions see it.
    pub number: u32,
    /// The instance that it belongs to.
    pub instance: u32,
    /// Its stack slot; the main thread has none.
    pub stack: Option<u32>,
    /// Its position in the instance's list of threads.
    pub position: u32,
    /// How often it has waited.
    pub waits: u32,
    /// The hostcall that it has made.
    pub frame: Frame,
    /// Where it stands.
    pub state: ThreadState,
    /// Time on carriers.
    pub run_ns: u64,
    /// Time between them.
    pub park_ns: u64,
}

/// A hostcall that has been made. The handler's scratch words are zero in every captured call, so they are not here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Frame {
    /// The user stack pointer; the top word is where the thread goes on.
    pub user_rsp: u64,
    /// What the call returns once it is done.
    pub value: i64,
    /// The hostcall's number.
    pub number: u32,
    /// Its arguments.
    pub args: [u64; 6],
}

/// Where a thread stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ThreadState {
    /// It goes on as soon as it gets a carrier.
    Ready(Resumption),
    /// It waits.
    Waiting {
        /// For what.
        on: WaitOn,
        /// When it goes on in any case.
        deadline: Option<u64>,
    },
}

/// How a ready thread goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Resumption {
    /// Its call is done and returns this.
    Value(i64),
    /// Its call's handler runs for the first time.
    First,
    /// The handler runs again: what it waited for was woken.
    Woken,
    /// The handler runs again: the deadline has passed.
    TimedOut,
}

/// What a thread waits for. These are the waits whose handlers keep nothing between two runs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum WaitOn {
    /// The deadline alone.
    Time,
    /// A word of the instance's memory.
    Futex {
        /// Its address.
        address: u64,
    },
    /// The end of a thread of the same instance.
    Thread {
        /// Its number.
        number: u32,
    },
    /// A buffer in a slot.
    Slot {
        /// The slot's name.
        name: String,
    },
    /// An event from outside, or the first of several.
    Event {
        /// The event's name, or a list of names.
        name: String,
    },
    /// What other threads of the instance post to a queue.
    Queue {
        /// The queue's number.
        number: u64,
    },
}

/// Which threads run next, and which wait in which order.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SchedulerRecord {
    /// The numbers of all ready threads, the next one first.
    pub ready: Vec<u32>,
    /// The numbers of the threads that wait for the same thing, those that came first first. Each thread that waits for more
    /// than a deadline is in one queue.
    #[serde(deserialize_with = "monohull_bounded::at_most::<THREADS_MAX, _, _>")]
    pub queues: Vec<Vec<u32>>,
    /// The numbers that new threads get, the next one first.
    pub free: Vec<u32>,
    /// Timers that belong neither to a thread's wait nor to an instance.
    pub timers: Vec<TimerRecord>,
    /// The instances that wait for a cell, the next one first.
    pub pending: Vec<PendingRecord>,
    /// How many instances have been started: their numbers go on from there.
    pub started: u32,
}

/// An instance that waits for a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PendingRecord {
    /// The engine's name for it.
    pub token: u64,
    /// Which attempt it will be.
    pub attempt: u32,
}

/// A timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TimerRecord {
    /// When it is due.
    pub at: u64,
    /// What for.
    pub what: Timer,
}

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Timer {
    /// The engine's own.
    Driver(u64),
    /// The deadline of the whole run.
    Run,
}

/// The engine's state; only the engine knows what it means.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct EngineRecord {
    /// The version of the bytes.
    pub version: u16,
    /// The state.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// Requests of effects that have been answered. The others are in the engine's state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestsRecord {
    /// The number of the last one.
    pub last: u32,
    /// Those whose replies may wait, upwards.
    pub answered: Vec<AnsweredRecord>,
}

/// A request that has been answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct AnsweredRecord {
    /// The instance that has asked.
    pub instance: u32,
    /// The request's number.
    pub number: u32,
}

/// A libos module's state; only the module knows what it means.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// The module's name.
    pub name: String,
    /// The state. It begins with its version, a little-endian word of four bytes.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// The pages outside of cells that belong to the state, in ascending order.
    pub pages: Vec<PageRange>,
}

impl PageRange {
    /// The address behind the last page; the highest address if that is beyond it.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.count.saturating_mul(PAGE))
    }
}

impl ModuleRecord {
    /// The version of the state; `None` if there is none, which a checked record always has.
    pub fn version(&self) -> Option<u32> {
        self.bytes.first_chunk().map(|word| u32::from_le_bytes(*word))
    }
}

/// Whole pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct PageRange {
    /// The address of the first.
    pub start: u64,
    /// How many.
    pub count: u64,
}
