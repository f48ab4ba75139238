//! A lock for what may take longer than a few instructions: system calls, say. Whoever waits for it sleeps.
//!
//! The host may have fewer processors than carriers, or take one away from whoever holds a lock. Who only spins then keeps it from
//! him for a whole time slice.

use core::ffi::c_long;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};
use lock_api::GuardSend;

/// A value under a lock whose waiters sleep.
pub type SleepingMutex<T> = lock_api::Mutex<RawSleeping, T>;
/// The value of a [`SleepingMutex`], locked.
pub type SleepingGuard<'l, T> = lock_api::MutexGuard<'l, RawSleeping, T>;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Somebody may be asleep.
const AWAITED: u32 = 2;
/// Looks before the first sleep: about a microsecond, less than a sleep costs.
const LOOKS: u32 = 32;

const SYS_FUTEX: c_long = 202;
const FUTEX_WAIT_PRIVATE: c_long = 128;
const FUTEX_WAKE_PRIVATE: c_long = 129;

// libc's, as `memcpy` is; `core` has no system calls.
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// The state of a [`SleepingMutex`].
#[derive(Debug)]
pub struct RawSleeping(AtomicU32);

impl RawSleeping {
    #[cold]
    fn wait(&self) {
        for _ in 0..LOOKS {
            if self.0.load(Ordering::Relaxed) == FREE && lock_api::RawMutex::try_lock(self) {
                return;
            }
            spin_loop();
        }
        while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
            // SAFETY: the word is this lock's, and there is no time limit. It returns at once if the word has changed meanwhile, and
            // may return for no reason: then this looks again.
            unsafe { syscall(SYS_FUTEX, &self.0, FUTEX_WAIT_PRIVATE, c_long::from(AWAITED), 0 as c_long) };
        }
    }
}

// SAFETY: the word is FREE unless somebody has the lock, and only who changes it from FREE gets it.
unsafe impl lock_api::RawMutex for RawSleeping {
    #[allow(clippy::declare_interior_mutable_const, reason = "each lock begins with a word of its own")]
    const INIT: RawSleeping = RawSleeping(AtomicU32::new(FREE));

    type GuardMarker = GuardSend;

    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            // SAFETY: only the address of the word is used, to find one who sleeps.
            unsafe { syscall(SYS_FUTEX, &self.0, FUTEX_WAKE_PRIVATE, 1 as c_long) };
        }
    }
}
