//! Control blocks: everything the system side keeps for a user thread.
//!
//! A parked thread *is* its control block: the hostcall it waits in, the user stack pointer, and where it is queued.
//! There is no system stack behind it. Blocks live in chunks that never move, because the gate writes into them.

use super::instance::Instance;
use monohull_abi::module::{Call, SYSTEM_INSTANCE, Wake};
use std::collections::VecDeque;
use std::ptr::NonNull;

/// One user thread.
#[repr(C)]
pub(super) struct Thread {
    /// The hostcall it makes or waits in; the gate writes its first words.
    pub(super) call: Call,
    /// Its instance, alive while any thread of it is. Null in a free block.
    pub(super) instance: *const Instance,
    /// Neighbours in the queue of those who wait for the same key.
    pub(super) next: Option<ThreadRef>,
    /// See `next`.
    pub(super) previous: Option<ThreadRef>,
    /// What it waits for, or [`monohull_abi::module::NO_KEY`].
    pub(super) key: u64,
    /// Counts its waits, so that a timer knows whether it is still the same wait.
    pub(super) wait: u32,
    /// Where it stands.
    pub(super) state: State,
    /// The stack slot; `None` for the main thread.
    pub(super) stack: Option<u32>,
    /// Position in the instance's list of threads.
    pub(super) position: u32,
    /// The call's value is final: go on without calling the handler again.
    pub(super) completed: bool,
    /// The wait has a deadline.
    pub(super) timed: bool,
    /// What it waits for happens outside the domain.
    pub(super) outside: bool,
    /// Time-stamp counter when it last left a carrier.
    pub(super) left_at: u64,
    /// Ticks on carriers, and ticks parked.
    pub(super) run: u64,
    /// See `run`.
    pub(super) park: u64,
}

/// Where a thread stands. Changes only under the scheduler's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The block is free, or its thread has ended.
    Dead,
    /// In the ready queue or about to be handed a carrier.
    Ready,
    /// On a carrier.
    Running,
    /// On a carrier, in a handler that has registered a wait.
    Parking,
    /// Woken before the handler returned.
    Overtaken,
    /// Waiting.
    Parked,
}

/// A control block. Blocks never move and are never freed while their domain lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ThreadRef(pub(super) NonNull<Thread>);

// SAFETY: blocks are shared between carriers under the scheduler's lock; a running thread's call is its carrier's own.
unsafe impl Send for ThreadRef {}

/// Bits of a thread number that say which block; the rest count how often it was used.
const BLOCK_BITS: u32 = 20;
/// The most threads of one domain.
pub(super) const THREADS_MAX: u32 = (1 << BLOCK_BITS) - 1;
const CHUNK: usize = 16;

/// All control blocks of a domain.
#[derive(Default)]
pub(super) struct Threads {
    chunks: Vec<NonNull<[Thread; CHUNK]>>,
    /// The longest unused first, so that a number comes back as late as possible.
    free: VecDeque<ThreadRef>,
}

// SAFETY: the table owns its chunks.
unsafe impl Send for Threads {}

impl Threads {
    /// A block for a new thread, with a number of its own. `None` if there are too many.
    pub(super) fn take(&mut self) -> Option<ThreadRef> {
        if self.free.is_empty() {
            self.grow()?;
        }
        self.free.pop_front()
    }

    /// Gives a block back; its number becomes invalid.
    pub(super) fn give(&mut self, thread: ThreadRef) {
        // SAFETY: the block is the table's, and the caller holds the scheduler's lock and has ended its thread.
        let block = unsafe { &mut *thread.0.as_ptr() };
        block.state = State::Dead;
        block.instance = std::ptr::null();
        block.call.thread = block.call.thread.wrapping_add(1 << BLOCK_BITS);
        self.free.push_back(thread);
    }

    /// The thread with this number, if it is alive.
    pub(super) fn find(&self, number: u32) -> Option<ThreadRef> {
        let block = (number & THREADS_MAX) as usize;
        let chunk = self.chunks.get(block / CHUNK)?;
        // SAFETY: the index is below CHUNK, inside the chunk.
        let thread = unsafe { chunk.cast::<Thread>().add(block % CHUNK) };
        // SAFETY: blocks of a chunk are initialized and stay; the caller holds the scheduler's lock.
        let alive = unsafe { (*thread.as_ptr()).call.thread == number && (*thread.as_ptr()).state != State::Dead };
        alive.then_some(ThreadRef(thread))
    }

    fn grow(&mut self) -> Option<()> {
        let first = self.chunks.len() * CHUNK;
        if first + CHUNK > THREADS_MAX as usize {
            return None;
        }
        let chunk: Box<[Thread; CHUNK]> = Box::new(std::array::from_fn(|i| Thread::empty((first + i) as u32)));
        let chunk = NonNull::from(Box::leak(chunk));
        self.chunks.push(chunk);
        for i in 0..CHUNK {
            // SAFETY: inside the chunk.
            self.free.push_back(ThreadRef(unsafe { chunk.cast::<Thread>().add(i) }));
        }
        Some(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            // SAFETY: leaked from a Box in `grow`; the domain is ending and no carrier runs.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

impl Thread {
    fn empty(number: u32) -> Thread {
        let mut call = Call::system(0, [0; 6]);
        call.instance = SYSTEM_INSTANCE;
        call.thread = number;
        call.wake = Wake::First;
        Thread {
            call,
            instance: std::ptr::null(),
            next: None,
            previous: None,
            key: 0,
            wait: 0,
            state: State::Dead,
            stack: None,
            position: 0,
            completed: false,
            timed: false,
            outside: false,
            left_at: 0,
            run: 0,
            park: 0,
        }
    }
}
