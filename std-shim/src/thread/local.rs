//! Thread-local variables without `fs`: a table of boxes that hangs off the thread header.
//!
//! ```text
//!   LocalKey (static): index 3, init        header ──▶ Locals: slots [ – | box | – | box ]   order [1, 3]
//! ```
//!
//! A key gets its index when any thread first uses it. A thread's values are made when it first uses them, and dropped
//! at its end in the reverse order; access after that fails ([`AccessError`]). Values without anything to drop
//! stay until all others have been dropped.
#![allow(unsafe_code, reason = "values of any type are kept behind untyped pointers")]

use super::locals::{Locals, Slot, drop_box};
use crate::boxed::Box;
use crate::cell::{Cell, RefCell};
use crate::fmt;
use crate::rt::header::with_header;
use core::mem::needs_drop;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

/// A variable of which every thread has its own. Made by [`thread_local!`](crate::thread_local).
pub struct LocalKey<T: 'static> {
    /// Place in every thread's table, plus one; 0 until the first access.
    index: AtomicUsize,
    init: fn() -> T,
}

/// The thread is ending, and the variable has been dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("already destroyed")
    }
}

impl core::error::Error for AccessError {}

/// The calling thread's table. References to it must not live while foreign code runs, which may come here again.
fn locals() -> *mut Locals {
    with_header(|header| {
        if header.locals.get().is_null() {
            header.locals.set(Box::into_raw(Box::default()));
        }
        header.locals.get()
    })
}

/// Drops all values of the calling thread, the last made first, and its table.
pub(crate) fn drop_locals() {
    let locals = with_header(|header| header.locals.get());
    if locals.is_null() {
        return;
    }
    loop {
        let slot = {
            // SAFETY: the table is this thread's, and the reference ends before any value's `drop` runs.
            let locals = unsafe { &mut *locals };
            let Some(index) = locals.order.pop() else { break };
            let slot = &mut locals.slots[index];
            slot.gone = true;
            core::mem::replace(slot, Slot { gone: true, ..Slot::EMPTY })
        };
        // SAFETY: the slot held this value for this thread, and holds it no more.
        unsafe { (slot.drop)(slot.value) };
    }
    with_header(|header| header.locals.set(null_mut()));
    // SAFETY: the table came from a box, and the header has forgotten it.
    let rest = unsafe { Box::from_raw(locals) };
    for slot in rest.slots.iter().filter(|slot| !slot.value.is_null()) {
        // SAFETY: the value is this thread's, and nothing can reach it any more.
        unsafe { (slot.drop)(slot.value) };
    }
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> LocalKey<T> {
        LocalKey { index: AtomicUsize::new(0), init }
    }

    #[inline]
    fn index(&self) -> usize {
        match self.index.load(Ordering::Relaxed) {
            0 => self.assign_index(),
            index => index - 1,
        }
    }

    #[cold]
    fn assign_index(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let new = NEXT.fetch_add(1, Ordering::Relaxed);
        // Another thread may have been quicker; then the new index stays unused.
        match self.index.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new - 1,
            Err(index) => index - 1,
        }
    }

    /// The calling thread's value, or null if it is not there now.
    #[inline]
    fn find(&self, index: usize) -> *const T {
        let locals = with_header(|header| header.locals.get());
        if locals.is_null() {
            return null_mut();
        }
        // SAFETY: the table is this thread's, and the reference ends here.
        unsafe { &*locals }.slots.get(index).map_or(null_mut(), |slot| slot.value).cast::<T>()
    }

    /// Makes the calling thread's value; null if it has been dropped already.
    #[cold]
    fn make(&self, index: usize, init: impl FnOnce() -> T) -> *const T {
        let table = locals();
        // SAFETY: the table is this thread's; the reference ends with the statement.
        if unsafe { &*table }.slots.get(index).is_some_and(|slot| slot.gone) {
            return null_mut();
        }
        let value = Box::into_raw(Box::new(init()));
        let old = {
            // SAFETY: as above; `init`, which may have come here for other keys, has returned.
            let locals = unsafe { &mut *table };
            if locals.slots.len() <= index {
                locals.slots.resize(index + 1, Slot::EMPTY);
            }
            let new = Slot { value: value.cast(), drop: drop_box::<T>, gone: false };
            let old = core::mem::replace(&mut locals.slots[index], new);
            if needs_drop::<T>() && old.value.is_null() {
                locals.order.push(index);
            }
            old
        };
        if !old.value.is_null() {
            // SAFETY: `init` has made a value of its own on the way; the outer one takes its place, as in std.
            unsafe { (old.drop)(old.value) };
        }
        value
    }

    /// Runs `f` on this thread's value.
    ///
    /// # Panics
    /// If the value has been dropped, at the thread's end.
    #[inline]
    pub fn with<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        self.try_with(f).expect("cannot access a thread-local variable that has been dropped already")
    }

    /// Runs `f` on this thread's value, if it has not been dropped.
    #[inline]
    pub fn try_with<F, R>(&'static self, f: F) -> Result<R, AccessError>
    where
        F: FnOnce(&T) -> R,
    {
        let index = self.index();
        let mut value = self.find(index);
        if value.is_null() {
            value = self.make(index, self.init);
        }
        // SAFETY: null, or this thread's value: a box that is dropped at the thread's end, not while `f` runs in it.
        unsafe { value.as_ref() }.map(f).ok_or(AccessError)
    }

    /// Runs `f` on this thread's value, which is `first` if there was none; `first` comes back if it was not needed.
    fn with_first<R>(&'static self, first: T, f: impl FnOnce(Option<T>, &T) -> R) -> R {
        let index = self.index();
        let mut value = self.find(index);
        let mut first = Some(first);
        if value.is_null() {
            value = self.make(index, || first.take().expect("made once"));
        }
        // SAFETY: as in `try_with`.
        let value =
            unsafe { value.as_ref() }.expect("cannot access a thread-local variable that has been dropped already");
        f(first, value)
    }
}

impl<T: 'static> LocalKey<Cell<T>> {
    /// Sets the value.
    pub fn set(&'static self, value: T) {
        self.with_first(Cell::new(value), |value, cell| {
            if let Some(value) = value {
                cell.set(value.into_inner());
            }
        });
    }

    /// A copy of the value.
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Takes the value, leaving the default.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// Sets the value, returning the old one.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> LocalKey<RefCell<T>> {
    /// Runs `f` on the borrowed value.
    pub fn with_borrow<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        self.with(|cell| f(&cell.borrow()))
    }

    /// Runs `f` on the mutably borrowed value.
    pub fn with_borrow_mut<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&mut T) -> R,
    {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }

    /// Sets the value.
    pub fn set(&'static self, value: T) {
        self.with_first(RefCell::new(value), |value, cell| {
            if let Some(value) = value {
                *cell.borrow_mut() = value.into_inner();
            }
        });
    }

    /// Takes the value, leaving the default.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(RefCell::take)
    }

    /// Sets the value, returning the old one.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vec::Vec;
    use host_std::sync::{Arc, Mutex};

    type Log = Arc<Mutex<Vec<&'static str>>>;

    struct Noisy(&'static str, Log);

    impl Drop for Noisy {
        fn drop(&mut self) {
            let gone = LATE.try_with(|_| ()).is_err() || OTHER.try_with(|_| ()).is_ok();
            let word = if gone { "wrong" } else { self.0 };
            self.1.lock().unwrap().push(word);
        }
    }

    crate::thread_local! {
        static FIRST: RefCell<Option<Noisy>> = const { RefCell::new(None) };
        static SECOND: RefCell<Option<Noisy>> = RefCell::new(None);
        static LATE: Cell<u32> = const { Cell::new(7) };
        static OTHER: Box<u32> = Box::new(1);
    }

    #[test]
    fn values_are_per_thread_and_dropped_in_reverse() {
        let log = Log::default();
        let theirs = log.clone();
        host_std::thread::spawn(move || {
            FIRST.set(Some(Noisy("first", theirs.clone())));
            SECOND.set(Some(Noisy("second", theirs)));
            assert_eq!((LATE.replace(8), OTHER.with(|n| **n)), (7, 1));
            drop_locals();
        })
        .join()
        .unwrap();
        assert_eq!(*log.lock().unwrap(), ["second", "first"]);
        assert_eq!(LATE.get(), 7);
        drop_locals();
    }
}
