//! Taking turns by parking.

use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::module::{Call, NEVER};
use monohull_module::{HostRef, SleepingMutex};

/// Keys of modules have the topmost bit; these have this module's number below it.
const KEYS: u64 = 1 << 63 | 96 << 48;

/// Something that one call at a time may use.
pub(crate) struct Turn {
    key: u64,
    state: SleepingMutex<State>,
}

#[derive(Default)]
struct State {
    taken: bool,
    awaited: bool,
}

/// The right to use it; gives the next one his turn when it is dropped.
pub(crate) struct Taken<'t> {
    turn: &'t Turn,
    host: HostRef,
}

impl Turn {
    /// Free, with a key of its own.
    pub(crate) fn new() -> Turn {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed) & ((1 << 48) - 1);
        Turn { key: KEYS | number, state: SleepingMutex::default() }
    }

    /// Takes it; or registers the call to be woken, which must then park.
    pub(crate) fn take(&self, host: HostRef, call: &mut Call) -> Option<Taken<'_>> {
        let mut state = self.state.lock();
        if state.taken {
            state.awaited = true;
            host.wait(call, self.key, NEVER);
            return None;
        }
        state.taken = true;
        Some(Taken { turn: self, host })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let awaited = {
            let mut state = self.turn.state.lock();
            state.taken = false;
            core::mem::take(&mut state.awaited)
        };
        if awaited {
            // All of them: one that is woken may belong to an instance that has just ended, and would wake nobody.
            self.host.wake(self.turn.key, u64::MAX);
        }
    }
}
