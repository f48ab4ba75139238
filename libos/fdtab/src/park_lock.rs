//! A lock whose waiting calls park.

use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::module::{Call, NEVER};
use monohull_module::{FutexMutex, HostRef};

/// Keys of modules have the topmost bit; these have this module's number below it.
const KEYS: u64 = 1 << 63 | 96 << 48;

/// A lock that one call at a time holds.
pub(crate) struct ParkLock {
    key: u64,
    state: FutexMutex<State>,
}

#[derive(Default)]
struct State {
    locked: bool,
    contended: bool,
}

/// The locked state; unlocks when it is dropped.
pub(crate) struct ParkGuard<'t> {
    lock: &'t ParkLock,
    host: HostRef,
}

impl ParkLock {
    /// An unlocked lock with a wait key of its own.
    pub(crate) fn new() -> ParkLock {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed) & ((1 << 48) - 1);
        ParkLock { key: KEYS | number, state: FutexMutex::default() }
    }

    /// Locks it; or registers the call for the wake-up, and the call must park.
    pub(crate) fn acquire(&self, host: HostRef, call: &mut Call) -> Option<ParkGuard<'_>> {
        let mut state = self.state.lock();
        if state.locked {
            state.contended = true;
            host.wait(call, self.key, NEVER);
            return None;
        }
        state.locked = true;
        Some(ParkGuard { lock: self, host })
    }
}

impl Drop for ParkGuard<'_> {
    fn drop(&mut self) {
        let contended = {
            let mut state = self.lock.state.lock();
            state.locked = false;
            core::mem::take(&mut state.contended)
        };
        if contended {
            // All of them: the thread of an instance that has just ended would not pass the wake-up on.
            self.host.wake(self.lock.key, u64::MAX);
        }
    }
}
