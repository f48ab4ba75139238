//! `Cell` and `RefCell` for several threads: the same methods, under a mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that is copied in and out.
#[derive(Default)]
pub(crate) struct Value<T>(Mutex<T>);

/// A value that one thread at a time reads or changes.
#[derive(Default)]
pub(crate) struct Locked<T>(Mutex<T>);

/// A failed test may have poisoned it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Value<T> {
    pub(crate) fn new(value: T) -> Value<T> {
        Value(Mutex::new(value))
    }

    pub(crate) fn get(&self) -> T
    where
        T: Copy,
    {
        *lock(&self.0)
    }

    pub(crate) fn set(&self, value: T) {
        *lock(&self.0) = value;
    }

    pub(crate) fn replace(&self, value: T) -> T {
        std::mem::replace(&mut *lock(&self.0), value)
    }
}

impl<T> Locked<T> {
    pub(crate) fn new(value: T) -> Locked<T> {
        Locked(Mutex::new(value))
    }

    pub(crate) fn borrow(&self) -> MutexGuard<'_, T> {
        lock(&self.0)
    }

    pub(crate) fn borrow_mut(&self) -> MutexGuard<'_, T> {
        lock(&self.0)
    }

    pub(crate) fn take(&self) -> T
    where
        T: Default,
    {
        std::mem::take(&mut *lock(&self.0))
    }
}
