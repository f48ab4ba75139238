//! The dispatch table of hostcalls.
//!
//! ```text
//! number ─▶ table[number] ─▶ Binding { handler, state }
//!                              at first: none                      slow path, once per module
//!                              then:     (the module's handler, its state)
//!                              or:       (refuse, domain)          the module is missing or did not start
//! ```

use monohull_abi::module::Handler;
use monohull_abi::number::TABLE_SIZE;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What serves a number.
pub(crate) struct Binding {
    /// The code.
    pub(crate) handler: Handler,
    /// Its first argument.
    pub(crate) state: *mut c_void,
}

/// The dispatch table of a domain.
pub(crate) struct Table {
    entries: [AtomicPtr<Binding>; TABLE_SIZE],
    /// Every binding ever made for this domain; a carrier may still be using a replaced one.
    #[allow(clippy::vec_box, reason = "the table holds their addresses, so they must not move")]
    bindings: std::sync::Mutex<Vec<Box<Binding>>>,
}

// SAFETY: bindings are immutable once published, and what they point to may be called from any carrier.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

impl Table {
    /// Every entry unbound.
    pub(crate) fn new() -> Table {
        Table {
            entries: [const { AtomicPtr::new(std::ptr::null_mut()) }; TABLE_SIZE],
            bindings: std::sync::Mutex::new(Vec::new()),
        }
    }

    /// Binds some numbers.
    pub(crate) fn bind(&self, numbers: impl IntoIterator<Item = u32>, handler: Handler, state: *mut c_void) {
        let mut bindings = self.bindings.lock().expect("bindings");
        for number in numbers {
            let mut binding = Box::new(Binding { handler, state });
            self.entries[number as usize].store(&raw mut *binding, Ordering::Release);
            bindings.push(binding);
        }
    }

    /// What serves a number, if it has been bound.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<Option<&Binding>> {
        let entry = self.entries.get(number)?;
        // SAFETY: published bindings stay until the domain ends.
        Some(unsafe { entry.load(Ordering::Acquire).as_ref() })
    }

    /// Whether a number has been bound: its module has been called, or all are loaded at the start.
    pub(crate) fn is_bound(&self, number: u32) -> bool {
        self.get(number as usize).is_some_and(|binding| binding.is_some())
    }
}
