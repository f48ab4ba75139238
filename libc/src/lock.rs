//! A lock whose waiters park.

use crate::futex;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED_FOR: u32 = 2;

/// A value behind a lock.
pub(crate) struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock reaches the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    pub(crate) fn hold(&self) -> Held<'_, T> {
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.word.swap(WAITED_FOR, Ordering::Acquire) != FREE {
                futex::wait(&self.word, WAITED_FOR, u64::MAX);
            }
        }
        Held { lock: self }
    }
}

/// A held lock; dropping it releases it.
pub(crate) struct Held<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if self.lock.word.swap(FREE, Ordering::Release) == WAITED_FOR {
            futex::wake(&self.lock.word, 1);
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}
