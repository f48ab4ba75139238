//! A mutex whose waiters sleep, on a futex.
//!
//! The host may have fewer processors than the domain has carriers, or preempt the carrier that holds a lock. A waiter that only spun
//! would then use up the time slice that the holder needs.

use crate::futex;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};
use lock_api::GuardSend;

/// A value under a lock whose waiters sleep.
pub type FutexMutex<T> = lock_api::Mutex<RawFutexMutex, T>;
/// The value of a [`FutexMutex`], locked.
pub type FutexMutexGuard<'l, T> = lock_api::MutexGuard<'l, RawFutexMutex, T>;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Locked, and threads may be asleep.
const CONTENDED: u32 = 2;
/// Unlocked, for a thread that was asleep; other threads wait.
const TRANSFERRED: u32 = 3;
/// Attempts before the first sleep: about a microsecond, less than a sleep costs.
const ATTEMPTS: u32 = 32;

/// The state of a [`FutexMutex`].
#[derive(Debug)]
pub struct RawFutexMutex(AtomicU32);

impl RawFutexMutex {
    #[cold]
    fn wait(&self) {
        for _ in 0..ATTEMPTS {
            if self.0.load(Ordering::Relaxed) == FREE && lock_api::RawMutex::try_lock(self) {
                return;
            }
            spin_loop();
        }
        if self.0.load(Ordering::Relaxed) == TRANSFERRED {
            // The unlock of the thread that takes it wakes this one. Once is enough: it may also have been woken to take it.
            futex::sleep_while(&self.0, TRANSFERRED);
        }
        while !matches!(self.0.swap(CONTENDED, Ordering::Acquire), FREE | TRANSFERRED) {
            futex::sleep_while(&self.0, CONTENDED);
        }
    }

    /// Wakes a thread that sleeps; false if none does.
    fn wake_one(&self) -> bool {
        futex::wake(&self.0, 1) == 1
    }
}

// SAFETY: the word is FREE unless the lock is held, and only the thread that changes it from FREE gets the lock.
unsafe impl lock_api::RawMutex for RawFutexMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "each lock begins with a word of its own")]
    const INIT: RawFutexMutex = RawFutexMutex(AtomicU32::new(FREE));

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
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            self.wake_one();
        }
    }
}

/// For long work in batches: [`unlock_fair`](lock_api::MutexGuard::unlock_fair) lets a thread that waits go first. After an ordinary
/// unlock the same thread may lock again before a thread that sleeps has woken up, and the latter waits for hundreds of batches.
// SAFETY: TRANSFERRED means unlocked, as FREE does, and only the thread that changes it from there gets the lock.
unsafe impl lock_api::RawMutexFair for RawFutexMutex {
    unsafe fn unlock_fair(&self) {
        if self.0.load(Ordering::Relaxed) != CONTENDED {
            // SAFETY: the caller's promise.
            return unsafe { lock_api::RawMutex::unlock(self) };
        }
        self.0.store(TRANSFERRED, Ordering::Release);
        let taker = self.wake_one();
        let open = || self.0.compare_exchange(TRANSFERRED, FREE, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !taker && open() {
            // No thread slept then; one that came meanwhile may.
            self.wake_one();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{FutexMutex, FutexMutexGuard};
    use core::hint::spin_loop;
    use core::sync::atomic::{AtomicI32, Ordering};
    use std::thread;

    #[test]
    fn one_thread_at_a_time_has_it() {
        const TURNS: u64 = 20_000;
        let total = FutexMutex::new(0);
        thread::scope(|scope| {
            for number in 0..4 {
                let total = &total;
                scope.spawn(move || {
                    for turn in 0..TURNS {
                        let mut guard = total.lock();
                        let seen = *guard;
                        (0..turn % 8).for_each(|_| spin_loop());
                        *guard = seen + 1;
                        if turn % 3 == number % 3 {
                            FutexMutexGuard::unlock_fair(guard);
                        }
                    }
                });
            }
        });
        assert_eq!(*total.lock(), 4 * TURNS);
    }

    #[test]
    fn a_thread_that_sleeps_goes_first_after_a_fair_unlock() {
        for _ in 0..50 {
            let (lock, sleeper) = (FutexMutex::new(0), AtomicI32::new(0));
            thread::scope(|scope| {
                let guard = lock.lock();
                scope.spawn(|| {
                    sleeper.store(thread_id(), Ordering::Relaxed);
                    *lock.lock() += 1;
                });
                while !is_asleep(sleeper.load(Ordering::Relaxed)) {
                    thread::yield_now();
                }
                FutexMutexGuard::unlock_fair(guard);
                assert_eq!(*lock.lock(), 1, "this thread was first");
            });
        }
    }

    unsafe extern "C" {
        fn gettid() -> i32;
    }

    /// The kernel's number of the calling thread.
    pub(crate) fn thread_id() -> i32 {
        // SAFETY: no conditions.
        unsafe { gettid() }
    }

    /// Whether a thread of this process sleeps in the kernel.
    pub(crate) fn is_asleep(thread: i32) -> bool {
        let stat = std::fs::read_to_string(std::format!("/proc/self/task/{thread}/stat"));
        stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S")))
    }
}
