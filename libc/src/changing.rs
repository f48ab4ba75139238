//! A value that threads change and wait for: with a call that blocks, or together with others in a queue.
//!
//! ```text
//!   act ── the value as it is is not enough ──▶ FUTEX_WAIT on the count of changes ──▶ act once more
//!    └──── the value changes ──▶ count + 1, FUTEX_WAKE for those that block, QUEUE_POST to each queue that watches
//! ```

use crate::errno::{Answer, EAGAIN};
use crate::futex;
use crate::lock::Lock;
use crate::queue;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

/// What came of an attempt.
pub(crate) enum Step {
    /// Nothing: it has to wait for a change.
    Wait,
    /// The call's answer; the value is as it was.
    Same(Answer),
    /// The call's answer; the value has changed.
    Changed(Answer),
}

/// The value.
pub(crate) struct Changing<T> {
    /// How often it has changed: what blocked calls wait on.
    changes: AtomicU32,
    state: Lock<State<T>>,
}

struct State<T> {
    value: T,
    /// The queues that are posted to at each change. One may be here several times.
    queues: Vec<u64>,
}

impl<T> Changing<T> {
    pub(crate) const fn new(value: T) -> Changing<T> {
        Changing { changes: AtomicU32::new(0), state: Lock::new(State { value, queues: Vec::new() }) }
    }

    /// Attempts something until it need not wait; `EAGAIN` in place of waiting.
    pub(crate) fn act(&self, may_wait: bool, mut attempt: impl FnMut(&mut T) -> Step) -> Answer {
        loop {
            let mut state = self.state.hold();
            let seen = self.changes.load(Ordering::Relaxed);
            match attempt(&mut state.value) {
                Step::Same(answer) => return answer,
                Step::Changed(answer) => {
                    self.changes.fetch_add(1, Ordering::Relaxed);
                    // Under the lock: the number of a queue that is not watching any more may be another's.
                    state.queues.iter().for_each(|queue| queue::post(*queue));
                    drop(state);
                    futex::wake(&self.changes, u64::from(u32::MAX));
                    return answer;
                }
                Step::Wait if !may_wait => return EAGAIN,
                Step::Wait => {}
            }
            drop(state);
            futex::wait(&self.changes, seen, u64::MAX);
        }
    }

    /// Looks at the value.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.state.hold().value)
    }

    /// From now on each change is posted to this queue.
    pub(crate) fn watch(&self, queue: u64) {
        self.state.hold().queues.push(queue);
    }

    /// Takes one such request back.
    pub(crate) fn unwatch(&self, queue: u64) {
        let queues = &mut self.state.hold().queues;
        if let Some(at) = queues.iter().position(|watching| *watching == queue) {
            queues.swap_remove(at);
        }
    }
}
