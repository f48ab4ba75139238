//! Mutual exclusion.
#![allow(unsafe_code, reason = "a mutex gives out its data by a promise the compiler cannot see")]

use super::poison::{LockResult, TryLockError, TryLockResult};
use super::raw::RawLock;
use crate::fmt;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// A lock around data.
pub struct Mutex<T: ?Sized> {
    raw: RawLock,
    data: UnsafeCell<T>,
}

// SAFETY: the lock lets one thread at a time at the data, which therefore only has to be `Send`.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// Access to a mutex' data; dropping it unlocks.
#[must_use = "the mutex is unlocked as soon as the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives nothing but `&T`.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { raw: RawLock::new(), data: UnsafeCell::new(value) }
    }

    /// The data.
    pub fn into_inner(self) -> LockResult<T> {
        Ok(self.data.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.raw.lock();
        Ok(MutexGuard { mutex: self, not_send: PhantomData })
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if self.raw.try_lock() {
            Ok(MutexGuard { mutex: self, not_send: PhantomData })
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
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The guarded mutex, for condition variables.
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Mutex<T> {
    pub(super) fn raw(&self) -> &RawLock {
        &self.raw
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and is borrowed exclusively.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.raw.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => text.field("data", &&*guard),
            Err(_) => text.field("data", &"<locked>"),
        };
        text.field("poisoned", &false).finish_non_exhaustive()
    }
}

like_its_value!(Mutex, MutexGuard);
