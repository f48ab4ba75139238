//! A continuation as plain data. No address of trusted memory is in it and no descriptor.
//!
//! Limits and arguments of an instance come from the plan. A few words that follow from the plan, the image or user memory are recorded
//! as well: they show a reader of the checkpoint what an instance is, and must be as the restored domain has them.
//!
//! Times are domain time ([`clock`](crate::clock)) in ns.

pub use crate::fault::FaultHandler;
pub use crate::mapped_ranges::RangeState;
pub use crate::pager::record::MappedFileRecord;
use crate::processor::vector_state;
use monohull_abi::layout::CELL_COUNT;
use monohull_trampoline::system::Registers;
use monohull_trampoline::system::interrupted::{GENERAL, NoRegisters};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The most queues: each has a thread.
const QUEUES_MAX: usize = 1 << 20;

/// Where a run stands among those that one workflow has had. Functions read it; nothing depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lineage {
    /// How often the workflow has gone on from a checkpoint.
    pub generation: u64,
    /// Which copy of a forked workflow it is, from 1; 0 if it is none.
    pub copy: u32,
    /// How many copies were made together with it; 0 if it is none.
    pub copies: u32,
}

/// The rest of a domain's run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Continuation<P = Vec<PageRun>> {
    /// At a capture, of the run that was captured. Before going on it is set to that of the run which does.
    pub lineage: Lineage,
    /// Domain time of the capture.
    pub clock: u64,
    /// Wall-clock time of the capture, in ns since 1970.
    pub wall: u64,
    /// When the whole run's time is up.
    pub run_deadline: Option<u64>,
    /// How many instances have been started: ids go on from there.
    pub started: u32,
    /// All live instances with their threads.
    pub instances: Vec<InstanceRecord>,
    /// Instances that wait to be started: the driver's token and the attempt.
    pub pending: Vec<(u64, u32)>,
    /// Which thread is next, and what waits for what.
    pub scheduler: SchedulerRecord,
    /// The state of libos modules.
    pub modules: Vec<ModuleRecord>,
    /// Requests of effects.
    pub requests: RequestsRecord,
    /// The driver's own state.
    #[serde(with = "serde_bytes")]
    pub driver: Vec<u8>,
    /// Contents of user memory that differ from a fresh mapping.
    pub pages: P,
    /// Pages that differ from a fresh mapping as well, and are as in the last capture that was kept: addresses and bytes. What has some is
    /// gone on with only after they have been put among the others.
    pub unchanged: Vec<(u64, u64)>,
    /// Pages that the run has touched since it went on, as far as that is known, or in an earlier part: addresses and bytes. They are had first
    /// the next time. Nothing depends on their being right.
    pub touched: Vec<(u64, u64)>,
}

impl<P> Continuation<P> {
    /// The same with its pages in another form.
    pub fn map_pages<Q>(self, pages: impl FnOnce(P) -> Q) -> Continuation<Q> {
        Continuation {
            lineage: self.lineage,
            clock: self.clock,
            wall: self.wall,
            run_deadline: self.run_deadline,
            started: self.started,
            instances: self.instances,
            pending: self.pending,
            scheduler: self.scheduler,
            modules: self.modules,
            requests: self.requests,
            driver: self.driver,
            pages: pages(self.pages),
            unchanged: self.unchanged,
            touched: self.touched,
        }
    }

    /// The domain time of what happens first by itself.
    pub fn first_timer(&self) -> Option<u64> {
        let threads = self.instances.iter().flat_map(|instance| &instance.threads);
        let ends = threads.filter_map(|thread| match thread.state {
            ThreadState::Waits { until } => until,
            _ => None,
        });
        let deadlines = self.instances.iter().filter_map(|instance| instance.deadline);
        let timers = self.scheduler.timers.iter().map(|(at, _)| *at);
        ends.chain(deadlines).chain(timers).chain(self.run_deadline).min()
    }

    /// When it has to go on (wall clock, ns since 1970), unless nothing happens by itself.
    pub fn due(&self) -> Option<u64> {
        // Without a cell that is free, which a process knows better that has fewer keys, nothing starts.
        let starts = !self.pending.is_empty() && self.instances.len() < CELL_COUNT;
        let goes_on = !self.scheduler.ready.is_empty() || starts;
        let first = if goes_on { Some(self.clock) } else { self.first_timer() };
        first.map(|at| self.wall.saturating_add(at.saturating_sub(self.clock)))
    }
}

/// A live instance. Its code, limits and arguments come from the plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InstanceRecord {
    /// Its id, by which modules know it; the low byte is the cell.
    pub id: u32,
    /// The driver's name for it.
    pub token: u64,
    /// Its step, as the plan has it.
    pub step: String,
    /// Its function, as the plan has it.
    pub function: String,
    /// Which of the step's instances it is, as the plan has it.
    pub index: u32,
    /// How many instances the step has, as the plan has it.
    pub count: u32,
    /// Which attempt it is.
    pub attempt: u32,
    /// Bytes of each of its stacks, as the plan has them.
    pub stack_size: u64,
    /// When its time is up.
    pub deadline: Option<u64>,
    /// Where its heap begins, which follows from its image.
    pub heap_start: u64,
    /// Bytes of committed heap.
    pub heap: u64,
    /// Thread stacks that have ever been used.
    pub stacks: u32,
    /// Those among them that are free; the last is used first.
    pub free_stacks: Vec<u32>,
    /// What it has mapped, upwards.
    pub mapped: Vec<MappedRecord>,
    /// The parts of files that it has mapped, upwards.
    pub files: Vec<MappedFileRecord>,
    /// Where its faults go on.
    pub fault_handler: Option<FaultHandler>,
    /// Bytes taken over and bytes given to others by reference.
    pub passed: (u64, u64),
    /// The first call of it that the workflow file does not allow.
    pub refusal: Option<String>,
    /// What it has printed: stream and text.
    pub lines: Vec<(u32, String)>,
    /// What it has printed costs, and whether something was dropped.
    pub lines_cost: u64,
    /// See `lines_cost`.
    pub lines_full: bool,
    /// Its threads.
    pub threads: Vec<ThreadRecord>,
}

/// Whole pages that an instance has mapped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MappedRecord {
    /// The address of the first.
    pub start: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// What they may be used for.
    pub state: RangeState,
}

impl MappedRecord {
    /// Their addresses.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.bytes)
    }
}

/// A thread of an instance. Which instance follows from where the record stands, so that none can name another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ThreadRecord {
    /// Its number, which functions know; the high bits count how often its entry was used.
    pub number: u32,
    /// The stack slot; `None` for the main thread.
    pub stack: Option<u32>,
    /// Its stack pointer.
    pub user_rsp: u64,
    /// The hostcall in which it is, and its arguments; zeros if that is done.
    pub call: u32,
    /// See `call`.
    pub args: [u64; 6],
    /// How it goes on.
    pub state: ThreadState,
    /// All its registers, if it was interrupted in user code. Then it has made no call, and the stack pointer above is one that lies in
    /// its stack and has all below it that is in use.
    pub registers: Option<Box<RegistersRecord>>,
    /// The name of the slot or the event that it waits for. The call's handler reads it again from user memory; this one is for readers.
    pub name: Option<String>,
}

/// All registers of a thread that was interrupted in user code.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegistersRecord {
    /// The instruction pointer.
    pub ip: u64,
    /// The stack pointer, which need not be on a stack.
    pub sp: u64,
    /// The flags.
    pub flags: u64,
    /// r15 to r8, rdi, rsi, rbp, rbx, rdx, rcx, rax.
    pub general: [u64; GENERAL],
    /// What FXSAVE writes, 32 vector registers of 64 bytes, 8 mask registers of 8.
    #[serde(with = "serde_bytes")]
    pub extended: Vec<u8>,
}

impl RegistersRecord {
    pub(crate) fn of(registers: &Registers) -> RegistersRecord {
        RegistersRecord {
            ip: registers.ip(),
            sp: registers.sp(),
            flags: registers.flags(),
            general: *registers.general(),
            extended: registers.extended().to_vec(),
        }
    }

    /// The registers, unless there are none like that on this processor.
    pub(crate) fn registers(&self) -> Result<Registers, NoRegisters> {
        let words = (self.ip, self.sp, self.flags);
        Registers::of_parts(words, &self.general, &self.extended, vector_state())
    }
}

/// How a captured thread goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ThreadState {
    /// Its call is done and returns this value.
    Returns(i64),
    /// Its call's handler runs again and finds that what it waited for has changed.
    Woken,
    /// Its call's handler runs again and finds that the time is up.
    TimedOut,
    /// It waits in its call, at most until then.
    Waits {
        /// The end of the wait.
        until: Option<u64>,
    },
    /// Its call has not been served: its handler runs for the first time. Only a template has such a thread.
    Unserved,
}

/// Order among threads. Threads are named by their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SchedulerRecord {
    /// Threads that are ready, the next first.
    pub ready: Vec<u32>,
    /// Threads that wait for the same thing, the first come first.
    #[serde(deserialize_with = "monohull_bounded::at_most::<QUEUES_MAX, _, _>")]
    pub queues: Vec<Vec<u32>>,
    /// The numbers that new threads get, the next first.
    pub free: Vec<u32>,
    /// The driver's timers: when, and its token.
    pub timers: Vec<(u64, u64)>,
}

/// Requests of effects that have been answered. The others are in the driver's state.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RequestsRecord {
    /// The number of the last one.
    pub last: u32,
    /// Those whose replies may wait, upwards: the instance that has asked, and the number.
    pub answered: Vec<(u32, u32)>,
}

/// The state of a libos module. Only the module knows what the bytes mean.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// Its name.
    pub name: String,
    /// The record, which begins with a version.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// The pages of slot buffers or files in memory that belong to the state: address, or name, and bytes, in ascending order and with gaps
    /// between them.
    pub pages: Vec<(u64, u64)>,
}

/// Contents of whole pages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PageRun {
    /// The address of the first, or the name of one of a file in memory, which is as one.
    pub address: u64,
    /// The contents, a multiple of the page size.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}
