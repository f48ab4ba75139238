//! The table of user threads.
//!
//! A thread has two halves, because two parties write to it at the same time:
//!
//! ```text
//!   Thread   what the scheduler decides by: state, what it waits for, how its wait ended.
//!            An entry of this table, named by its index, under the scheduler's lock.
//!   frame    the hostcall it makes or waits in (`Call`): written by the gate and by handlers.
//!            In the table while the thread is off the carriers; the carrier's own while it runs there.
//! ```
//!
//! The frame is a `Box` that moves from one to the other, so the compiler sees to it that it has one owner. How a wait
//! ended is written to the entry, and copied into the frame when a carrier takes the thread. A parked thread has no
//! system stack: its entry and its frame are all there is.

use monohull_abi::module::{Call, NO_KEY, Wake};
use monohull_trampoline::system::Registers;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

/// The scheduler's half of a user thread.
pub(super) struct Thread {
    /// Its number: the index in the low bits, above them how often the entry has been used.
    pub(super) number: u32,
    /// Its instance.
    pub(super) instance: u32,
    /// Its frame, unless a carrier has it. A free entry keeps one for the next thread.
    pub(super) frame: Option<Box<Call>>,
    /// What it waits for, or [`NO_KEY`].
    pub(super) key: u64,
    /// Neighbours in the queue of threads that wait for the same key.
    pub(super) next: Option<ThreadIndex>,
    /// See `next`.
    pub(super) previous: Option<ThreadIndex>,
    /// Counts its waits, so that a timer knows whether it is still the same wait.
    pub(super) wait: u32,
    /// Position in the instance's list of threads.
    pub(super) position: u32,
    /// The stack slot; `None` for the main thread.
    pub(super) stack: Option<u32>,
    /// Where it stands.
    pub(super) state: State,
    /// How it goes on when it is taken next.
    pub(super) resumption: Resumption,
    /// All its registers, if it was interrupted in user code; else it goes on behind its hostcall. Only while it is off the carriers.
    pub(super) registers: Option<Box<Registers>>,
    /// The wait has a deadline.
    pub(super) timed: bool,
    /// What it waits for happens outside the domain.
    pub(super) external: bool,
    /// When it was last taken by a carrier, and when it last left one; in ticks, 0 for never.
    pub(super) taken_at: u64,
    /// See `taken_at`.
    pub(super) left_at: u64,
    /// Ticks on carriers, and ticks between them.
    pub(super) run: u64,
    /// See `run`.
    pub(super) park: u64,
}

/// Where a thread stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The entry is free.
    Dead,
    /// In the ready queue or about to be handed a carrier.
    Ready,
    /// On a carrier.
    Running,
    /// On a carrier, in a handler that has registered a wait.
    Parking,
    /// Woken before the handler returned.
    WokenBeforePark,
    /// Waiting.
    Parked,
}

/// How a thread goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Resumption {
    /// Its call is done and returns this value.
    Value(i64),
    /// Its call's handler runs again, with this reason.
    Handler(Wake),
}

/// Names an entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThreadIndex(u32);

/// Bits of a thread number that are the index.
pub(crate) const INDEX_BITS: u32 = 20;
/// The most threads of one domain.
pub(crate) const THREADS_MAX: u32 = (1 << INDEX_BITS) - 1;
/// Entries that are made at once.
pub(crate) const CHUNK: usize = 16;

impl ThreadIndex {
    /// The index in a thread's number.
    pub(super) fn of_number(number: u32) -> ThreadIndex {
        ThreadIndex(number & THREADS_MAX)
    }
}

/// All threads of a domain. Entries do not move when the table grows, so that growing takes no longer the larger it is.
#[derive(Default)]
pub(super) struct Threads {
    #[allow(clippy::vec_box, reason = "an entry stays where it is when the table grows")]
    chunks: Vec<Box<[Thread; CHUNK]>>,
    /// The longest unused first, so that a number comes back as late as possible.
    free: VecDeque<ThreadIndex>,
}

impl Threads {
    /// An entry for a new thread, with a number of its own. `None` if there are too many.
    pub(super) fn take(&mut self) -> Option<ThreadIndex> {
        if self.free.is_empty() {
            self.grow()?;
        }
        self.free.pop_front()
    }

    /// Frees an entry; its number becomes invalid.
    pub(super) fn give(&mut self, thread: ThreadIndex) {
        let entry = &mut self[thread];
        entry.state = State::Dead;
        entry.registers = None;
        entry.number = entry.number.wrapping_add(1 << INDEX_BITS);
        self.free.push_back(thread);
    }

    /// The thread with this number, if it is alive.
    pub(super) fn find(&self, number: u32) -> Option<ThreadIndex> {
        let thread = ThreadIndex::of_number(number);
        let entry = self.chunks.get(thread.0 as usize / CHUNK)?.get(thread.0 as usize % CHUNK)?;
        (entry.number == number && entry.state != State::Dead).then_some(thread)
    }

    /// The free entries, the next to be taken first.
    pub(super) fn free(&self) -> impl Iterator<Item = ThreadIndex> {
        self.free.iter().copied()
    }

    /// A table as it was captured: entries with these numbers, those of `free` free in this order. Each index from 0 on occurs
    /// in one number, and their count is one to which a table grows.
    pub(super) fn of_numbers(used: impl Iterator<Item = u32>, free: &[u32]) -> Threads {
        let mut threads = Threads::default();
        let numbers: Vec<u32> = used.chain(free.iter().copied()).collect();
        while threads.chunks.len() * CHUNK < numbers.len() && threads.grow().is_some() {}
        for number in numbers {
            threads[ThreadIndex::of_number(number)].number = number;
        }
        threads.free = free.iter().map(|number| ThreadIndex::of_number(*number)).collect();
        threads
    }

    fn grow(&mut self) -> Option<()> {
        let first = self.chunks.len() * CHUNK;
        if first + CHUNK > THREADS_MAX as usize {
            return None;
        }
        self.chunks.push(Box::new(std::array::from_fn(|i| Thread::unused((first + i) as u32))));
        self.free.extend((first..first + CHUNK).map(|index| ThreadIndex(index as u32)));
        Some(())
    }
}

impl Index<ThreadIndex> for Threads {
    type Output = Thread;

    fn index(&self, thread: ThreadIndex) -> &Thread {
        &self.chunks[thread.0 as usize / CHUNK][thread.0 as usize % CHUNK]
    }
}

impl IndexMut<ThreadIndex> for Threads {
    fn index_mut(&mut self, thread: ThreadIndex) -> &mut Thread {
        &mut self.chunks[thread.0 as usize / CHUNK][thread.0 as usize % CHUNK]
    }
}

impl Thread {
    fn unused(number: u32) -> Thread {
        Thread {
            number,
            instance: 0,
            frame: None,
            key: NO_KEY,
            next: None,
            previous: None,
            wait: 0,
            position: 0,
            stack: None,
            state: State::Dead,
            resumption: Resumption::Value(0),
            registers: None,
            timed: false,
            external: false,
            taken_at: 0,
            left_at: 0,
            run: 0,
            park: 0,
        }
    }

    /// Makes a free entry a thread that begins at `user_rsp` with `value`.
    pub(super) fn begin(&mut self, instance: u32, stack: Option<u32>, user_rsp: u64, value: i64) {
        let mut frame = self.frame.take().unwrap_or_else(|| Box::new(Call::system(0, [0; 6])));
        *frame = Call { user_rsp, instance, thread: self.number, ..Call::system(0, [0; 6]) };
        let (number, wait) = (self.number, self.wait);
        let resumption = Resumption::Value(value);
        *self = Thread { frame: Some(frame), instance, stack, resumption, wait, ..Thread::unused(number) };
        self.state = State::Ready;
    }
}
