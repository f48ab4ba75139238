//! Many readers or one writer. A waiting writer holds new readers back, so that it is not starved.
#![allow(unsafe_code, reason = "the lock gives out its data by a promise the compiler cannot see")]

use super::poison::{LockResult, TryLockError, TryLockResult};
use crate::{fmt, sys};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// The value of `state` while a writer holds the lock; smaller values count readers.
const WRITTEN: u32 = u32::MAX;

/// A lock that many may share for reading.
pub struct RwLock<T: ?Sized> {
    state: AtomicU32,
    /// Writers that want the lock.
    writers: AtomicU32,
    /// Threads that wait, or are about to.
    waiting: AtomicU32,
    /// Changes whenever the lock has become free and threads wait.
    freed: AtomicU32,
    data: UnsafeCell<T>,
}

// SAFETY: the data moves between threads with the lock.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: readers share it (`Sync`), and a writer on another thread may take it out (`Send`).
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

/// Shared access; dropping it unlocks.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    not_send: PhantomData<*const ()>,
}

/// Exclusive access; dropping it unlocks.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives nothing but `&T`.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock {
            state: AtomicU32::new(0),
            writers: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            freed: AtomicU32::new(0),
            data: UnsafeCell::new(value),
        }
    }

    /// The data.
    pub fn into_inner(self) -> LockResult<T> {
        Ok(self.data.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits for shared access.
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.wait_until(|| self.writers.load(SeqCst) == 0 && self.enter_reader());
        Ok(RwLockReadGuard { lock: self, not_send: PhantomData })
    }

    /// Takes shared access if no writer has the lock.
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if self.enter_reader() {
            Ok(RwLockReadGuard { lock: self, not_send: PhantomData })
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Waits for exclusive access.
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        if !self.enter_writer() {
            self.writers.fetch_add(1, SeqCst);
            self.wait_until(|| self.enter_writer());
            self.writers.fetch_sub(1, SeqCst);
        }
        Ok(RwLockWriteGuard { lock: self, not_send: PhantomData })
    }

    /// Takes exclusive access if the lock is free.
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if self.enter_writer() {
            Ok(RwLockWriteGuard { lock: self, not_send: PhantomData })
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// The data, without locking.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        Ok(self.data.get_mut())
    }

    /// Always false.
    pub fn is_poisoned(&self) -> bool {
        false
    }

    /// Does nothing.
    pub fn clear_poison(&self) {}

    fn enter_reader(&self) -> bool {
        let mut state = self.state.load(Relaxed);
        while state < WRITTEN - 1 {
            match self.state.compare_exchange_weak(state, state + 1, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    fn enter_writer(&self) -> bool {
        self.state.compare_exchange(0, WRITTEN, Acquire, Relaxed).is_ok()
    }

    /// Parks until `enter` succeeds. The thread that frees the lock either sees this thread in `waiting` and changes `freed`, or did
    /// so early enough for the second try to see it.
    fn wait_until(&self, enter: impl Fn() -> bool) {
        if enter() {
            return;
        }
        self.waiting.fetch_add(1, SeqCst);
        loop {
            let seen = self.freed.load(SeqCst);
            if enter() {
                break;
            }
            sys::futex_wait(&self.freed, seen, None);
        }
        self.waiting.fetch_sub(1, SeqCst);
    }

    /// The lock has just become free.
    fn wake(&self) {
        core::sync::atomic::fence(SeqCst);
        if self.waiting.load(SeqCst) != 0 {
            self.freed.fetch_add(1, SeqCst);
            sys::futex_wake(&self.freed, u32::MAX);
        }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Keeps the lock for reading only; no writer comes in between.
    pub fn downgrade(s: RwLockWriteGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        let lock = s.lock;
        core::mem::forget(s);
        lock.state.store(1, Release);
        lock.wake();
        RwLockReadGuard { lock, not_send: PhantomData }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        if self.lock.state.fetch_sub(1, Release) == 1 {
            self.lock.wake();
        }
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.state.store(0, Release);
        self.lock.wake();
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock for reading, so there are no writers.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock alone.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock alone, and is borrowed exclusively.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => text.field("data", &&*guard),
            Err(_) => text.field("data", &format_args!("<locked>")),
        };
        text.field("poisoned", &false).finish_non_exhaustive()
    }
}

like_its_value!(RwLock, RwLockReadGuard, RwLockWriteGuard);
