//! The table of one thread's values, which hangs off its header.
#![allow(unsafe_code, reason = "values of any type are kept behind untyped pointers")]

use crate::boxed::Box;
use crate::vec::Vec;
use core::ptr::null_mut;

/// One thread's values.
#[derive(Default)]
pub(crate) struct Locals {
    pub(super) slots: Vec<Slot>,
    /// Indices of live slots with something to drop, in the order they were made.
    pub(super) order: Vec<usize>,
}

#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// A `Box<T>` as a raw pointer; null if there is no value.
    pub(super) value: *mut (),
    /// Drops it.
    pub(super) drop: unsafe fn(*mut ()),
    /// The value has been dropped for good.
    pub(super) gone: bool,
}

impl Slot {
    pub(super) const EMPTY: Slot = Slot { value: null_mut(), drop: drop_box::<()>, gone: false };
}

/// # Safety
/// `value` came from `Box::into_raw` of a `Box<T>` and is not used again.
pub(super) unsafe fn drop_box<T>(value: *mut ()) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(value.cast::<T>()) });
}
