//! A readers-writer lock whose waiters sleep, on a futex.
//!
//! File systems hold one while they copy the bytes of a file, up to a megabyte at a time. A waiter that only spun would use up the
//! processor that the holder needs (see [`crate::lock`]).
//!
//! ```text
//!   word  | ASLEEP | WRITER_WAITS | readers, or WRITER |
//!
//!   lock_shared     readers + 1, unless a writer holds the lock or waits for it
//!   lock_exclusive  0 readers ─▶ WRITER
//!   the last unlock clears the word; if ASLEEP was set, it wakes all that sleep, and they try again
//! ```

use crate::futex;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};
use lock_api::GuardSend;

/// A value that many threads may read or one thread may change. The waiters sleep.
pub type FutexRwLock<T> = lock_api::RwLock<RawFutexRwLock, T>;
/// The value of a [`FutexRwLock`], locked exclusively.
pub type FutexRwLockWriteGuard<'l, T> = lock_api::RwLockWriteGuard<'l, RawFutexRwLock, T>;

/// Threads may be asleep. Set only while the lock is held.
const ASLEEP: u32 = 1 << 31;
/// A writer sleeps: new readers let it go first. Set only together with ASLEEP.
const WRITER_WAITS: u32 = 1 << 30;
/// The number of readers, or WRITER.
const HOLDERS: u32 = WRITER_WAITS - 1;
const WRITER: u32 = HOLDERS;
/// Attempts before the first sleep.
const ATTEMPTS: u32 = 32;

/// The state of a [`FutexRwLock`].
#[derive(Debug)]
pub struct RawFutexRwLock(AtomicU32);

impl RawFutexRwLock {
    /// Repeats `attempt`, and sleeps while it fails, with `flags` set in the word.
    #[cold]
    fn wait(&self, flags: u32, attempt: impl Fn() -> bool) {
        for _ in 0..ATTEMPTS {
            if attempt() {
                return;
            }
            spin_loop();
        }
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & HOLDERS == 0 {
                if attempt() {
                    return;
                }
                continue;
            }
            let marked = word | ASLEEP | flags;
            // A reader also waits for a waiting writer; then the word is marked already.
            let blocks = flags != 0 || word & HOLDERS == WRITER || word & WRITER_WAITS != 0;
            if blocks && self.0.compare_exchange(word, marked, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                futex::sleep_while(&self.0, marked);
            }
            if attempt() {
                return;
            }
        }
    }

    fn wake(&self, word: u32) {
        if word & ASLEEP != 0 {
            futex::wake(&self.0, i32::MAX);
        }
    }
}

// SAFETY: the holders change from 0 to WRITER for one writer, which alone changes them back, and from a number of readers to another
// number only while they are not WRITER. So a writer excludes all others.
unsafe impl lock_api::RawRwLock for RawFutexRwLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "each lock begins with a word of its own")]
    const INIT: RawFutexRwLock = RawFutexRwLock(AtomicU32::new(0));

    type GuardMarker = GuardSend;

    fn lock_shared(&self) {
        if !self.try_lock_shared() {
            self.wait(0, || self.try_lock_shared());
        }
    }

    fn try_lock_shared(&self) -> bool {
        let one_more = |word: u32| (word & WRITER_WAITS == 0 && word & HOLDERS < WRITER - 1).then(|| word + 1);
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).is_ok()
    }

    unsafe fn unlock_shared(&self) {
        let one_less = |word: u32| Some(if word & HOLDERS == 1 { 0 } else { word - 1 });
        if let Ok(word) = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, one_less)
            && word & HOLDERS == 1
        {
            self.wake(word);
        }
    }

    fn lock_exclusive(&self) {
        if !self.try_lock_exclusive() {
            self.wait(WRITER_WAITS, || self.try_lock_exclusive());
        }
    }

    fn try_lock_exclusive(&self) -> bool {
        self.0.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    unsafe fn unlock_exclusive(&self) {
        self.wake(self.0.swap(0, Ordering::Release));
    }
}

#[cfg(test)]
mod tests {
    use super::FutexRwLock;
    use crate::lock::tests::{is_asleep, thread_id};
    use core::sync::atomic::{AtomicI32, Ordering};
    use std::thread;

    #[test]
    fn a_writer_is_alone_and_readers_see_whole_changes() {
        const ROUNDS: u64 = 10_000;
        let pair = FutexRwLock::new((0_u64, 0_u64));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let pair = pair.read();
                        assert_eq!(pair.0, pair.1);
                    }
                });
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let mut pair = pair.write();
                        pair.0 += 1;
                        core::hint::spin_loop();
                        pair.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*pair.read(), (2 * ROUNDS, 2 * ROUNDS));
    }

    /// One thread holds the lock, as a carrier that copies bytes does, until the waiter sleeps in the kernel.
    fn waits_asleep<G>(lock: &FutexRwLock<u32>, held: G, wait: impl Fn(&FutexRwLock<u32>) + Sync) {
        let waiter = AtomicI32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                waiter.store(thread_id(), Ordering::Relaxed);
                wait(lock);
            });
            while !is_asleep(waiter.load(Ordering::Relaxed)) {
                thread::yield_now();
            }
            drop(held);
        });
    }

    #[test]
    fn waiters_sleep() {
        let lock = FutexRwLock::new(0);
        waits_asleep(&lock, lock.write(), |lock| assert_eq!(*lock.read(), 0));
        waits_asleep(&lock, lock.write(), |lock| *lock.write() += 1);
        waits_asleep(&lock, lock.read(), |lock| *lock.write() += 1);
        assert_eq!(*lock.read(), 2);
    }

    #[test]
    fn readers_share_and_a_waiting_writer_goes_before_new_ones() {
        let lock = FutexRwLock::new(0);
        let first = lock.read();
        assert!(lock.try_read().is_some(), "a second reader");
        assert!(lock.try_write().is_none());
        let writer = AtomicI32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                writer.store(thread_id(), Ordering::Relaxed);
                *lock.write() += 1;
            });
            while !is_asleep(writer.load(Ordering::Relaxed)) {
                thread::yield_now();
            }
            assert!(lock.try_read().is_none(), "the writer would never get it");
            drop(first);
        });
        assert_eq!(*lock.read(), 1);
    }
}
