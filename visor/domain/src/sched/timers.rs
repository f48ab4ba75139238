//! Timers, earliest first.
//!
//! A timer is not taken out when what it was set for is over: it stays until it is due, or until there are so many of
//! these *stale* ones that a sweep is worth its time.

use monohull_abi::module::NEVER;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Fewer stale timers than this are left alone.
const STALE_MIN: usize = 1024;

#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
pub(super) struct Timer {
    /// When it is due (monotonic ns).
    pub(super) at: u64,
    pub(super) what: TimerKind,
}

/// What a timer is for.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy, Debug)]
pub(crate) enum TimerKind {
    /// The wait of a thread: number and count of its waits.
    Thread(u32, u32),
    /// The deadline of an instance.
    Instance(u32),
    /// The driver's own: it will go on by itself when this is due.
    Driver(u64),
    /// The deadline of the whole run.
    Run,
}

#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    stale: usize,
}

impl Timers {
    pub(super) fn set(&mut self, at: u64, what: TimerKind) {
        self.heap.push(Reverse(Timer { at, what }));
    }

    /// When the next one is due; [`NEVER`] if there is none.
    pub(super) fn next(&self) -> u64 {
        self.heap.peek().map_or(NEVER, |Reverse(timer)| timer.at)
    }

    /// All of them, stale ones too, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, TimerKind)> {
        self.heap.iter().map(|Reverse(timer)| (timer.at, timer.what))
    }

    /// Takes out one that is due.
    pub(super) fn take_due(&mut self, now: u64) -> Option<TimerKind> {
        let Reverse(timer) = *self.heap.peek()?;
        if timer.at > now {
            return None;
        }
        self.heap.pop();
        Some(timer.what)
    }

    /// One that was due turned out to be stale.
    pub(super) fn was_stale(&mut self) {
        self.stale = self.stale.saturating_sub(1);
    }

    /// One has become stale; when there are many, those that are not `live` are dropped.
    pub(super) fn now_stale(&mut self, live: impl Fn(TimerKind) -> bool) {
        self.stale += 1;
        if self.stale > STALE_MIN && self.stale > self.heap.len() / 2 {
            self.heap.retain(|Reverse(timer)| live(timer.what));
            self.stale = 0;
        }
    }

    /// Takes out those of a kind.
    pub(super) fn remove(&mut self, what: TimerKind) {
        self.heap.retain(|Reverse(timer)| timer.what != what);
    }

    pub(super) fn clear(&mut self) {
        self.heap.clear();
        self.stale = 0;
    }
}
