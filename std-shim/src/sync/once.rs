//! Something that happens once.

use crate::{fmt, sys};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const INCOMPLETE: u32 = 0;
const RUNNING: u32 = 1;
const COMPLETE: u32 = 2;
/// Added to the first two: threads wait for completion.
const AWAITED: u32 = 4;

/// A one-time event.
pub struct Once {
    state: AtomicU32,
}

/// The argument of the closure of `call_once_force`.
#[derive(Debug)]
pub struct OnceState(());

impl OnceState {
    /// Always false.
    pub fn is_poisoned(&self) -> bool {
        false
    }
}

impl Once {
    /// An event that has not happened.
    pub const fn new() -> Once {
        Once { state: AtomicU32::new(INCOMPLETE) }
    }

    /// Runs `f` if it has not run; returns when it has finished, on any thread.
    #[inline]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.is_completed() {
            self.run(f);
        }
    }

    /// The same: a failed attempt has ended the instance.
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        self.call_once(|| f(&OnceState(())));
    }

    /// Whether it has happened.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.state.load(Acquire) == COMPLETE
    }

    /// Waits until it has happened.
    pub fn wait(&self) {
        while !self.is_completed() {
            self.await_completion(self.state.load(Relaxed));
        }
    }

    #[cold]
    fn run(&self, f: impl FnOnce()) {
        loop {
            let state = self.state.load(Acquire);
            match state & !AWAITED {
                COMPLETE => return,
                INCOMPLETE => {
                    if self.state.compare_exchange(state, state | RUNNING, Acquire, Relaxed).is_ok() {
                        f();
                        if self.state.swap(COMPLETE, Release) & AWAITED != 0 {
                            sys::futex_wake(&self.state, u32::MAX);
                        }
                        return;
                    }
                }
                _ => self.await_completion(state),
            }
        }
    }

    /// Parks until `state`, which is not complete, has changed.
    fn await_completion(&self, state: u32) {
        let marked = state | AWAITED;
        if state == marked || self.state.compare_exchange(state, marked, Relaxed, Relaxed).is_ok() {
            sys::futex_wait(&self.state, marked, None);
        }
    }
}

impl Default for Once {
    fn default() -> Once {
        Once::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}
