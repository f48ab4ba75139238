//! A cell that is written once.
#![allow(unsafe_code, reason = "the cell's contents are valid by the state of its `Once`")]

use super::once::Once;
use crate::fmt;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// A cell that any thread may fill, once.
pub struct OnceLock<T> {
    once: Once,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: threads share `&T` (`Sync`), and the one that drops the cell may be another than the one that filled it (`Send`).
unsafe impl<T: Sync + Send> Sync for OnceLock<T> {}
// SAFETY: the value moves with the cell.
unsafe impl<T: Send> Send for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// An empty cell.
    pub const fn new() -> OnceLock<T> {
        OnceLock { once: Once::new(), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// The value, if it is there.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: a completed `once` means that the value was written, and there are no more writes.
        self.once.is_completed().then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// The value, if it is there.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as in `get`, and `self` is borrowed exclusively.
        self.once.is_completed().then(|| unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Fills the cell, or gives the value back if it is full.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("the closure runs once"));
        value.map_or(Ok(()), Err)
    }

    /// The value, made by `init` if the cell is empty.
    #[inline]
    pub fn get_or_init<F: FnOnce() -> T>(&self, init: F) -> &T {
        self.once.call_once(|| {
            let value = init();
            // SAFETY: `once` lets one thread in here, and readers only when it has completed.
            unsafe { (*self.value.get()).write(value) };
        });
        // SAFETY: as in `get`.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    /// Waits until the cell has been filled.
    pub fn wait(&self) -> &T {
        self.once.wait();
        // SAFETY: as in `get`.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    /// Takes the value out.
    pub fn take(&mut self) -> Option<T> {
        if !self.once.is_completed() {
            return None;
        }
        self.once = Once::new();
        // SAFETY: it was complete, and is empty from here on.
        Some(unsafe { self.value.get_mut().assume_init_read() })
    }

    /// The value.
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        self.get().map_or_else(OnceLock::new, |value| OnceLock::from(value.clone()))
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        let cell = OnceLock::new();
        cell.get_or_init(|| value);
        cell
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &OnceLock<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => text.field(value),
            None => text.field(&format_args!("<uninit>")),
        };
        text.finish()
    }
}
