//! The lock under every lock: one word.
//!
//! ```text
//!   0 free ──lock──▶ 1 held ──a thread waits──▶ 2 held, and unlocking must wake
//! ```
//!
//! A thread spins for a moment, because most locks are held for less time than parking takes, then parks.

use crate::sys;
use core::hint::spin_loop;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// Attempts before parking. The holder may itself be parked, so it is not worth much.
const SPINS: u32 = 64;

/// A lock without data. Not recursive.
pub(crate) struct RawLock(AtomicU32);

impl RawLock {
    pub(crate) const fn new() -> RawLock {
        RawLock(AtomicU32::new(FREE))
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    #[cold]
    fn lock_contended(&self) {
        for _ in 0..SPINS {
            match self.0.load(Relaxed) {
                FREE if self.try_lock() => return,
                CONTENDED => break,
                _ => spin_loop(),
            }
        }
        // From here on this thread may have slept among others, so it leaves the lock marked as contended.
        while self.0.swap(CONTENDED, Acquire) != FREE {
            sys::futex_wait(&self.0, CONTENDED, None);
        }
    }

    /// The caller must hold the lock.
    #[inline]
    pub(crate) fn unlock(&self) {
        if self.0.swap(FREE, Release) == CONTENDED {
            sys::futex_wake(&self.0, 1);
        }
    }
}
