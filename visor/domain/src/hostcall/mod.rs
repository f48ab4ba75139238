//! Hostcalls on the trusted side: the dispatch table, the visor's own calls, the modules that serve the rest.
//!
//! ```text
//! number ─▶ table[number] ─▶ Binding { handler, state }
//!                              at first: (load_module, domain)     slow path, once per module
//!                              then:     (the module's handler, its state)
//!                              or:       (refuse, domain)          the module is missing or did not start
//! ```

pub mod core;
mod host;
mod modules;
pub(crate) mod network;

pub use host::Services;
pub use modules::{Loaded, ModuleError, Modules, NAMES, preload};

use super::Shared;
use monohull_abi::module::{Call, Handler, Outcome};
use monohull_abi::number::{SYSTEM_ONLY, TABLE_SIZE};
use monohull_abi::{Errno, number};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Who serves a number at the moment.
pub struct Binding {
    /// The code.
    pub handler: Handler,
    /// Its first argument.
    pub state: *mut c_void,
}

/// The dispatch table of a domain.
pub struct Table {
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
    pub fn bind(&self, numbers: impl IntoIterator<Item = u32>, handler: Handler, state: *mut c_void) {
        let mut bindings = self.bindings.lock().expect("bindings");
        for number in numbers {
            let mut binding = Box::new(Binding { handler, state });
            self.entries[number as usize].store(&raw mut *binding, Ordering::Release);
            bindings.push(binding);
        }
    }
}

impl Shared {
    /// Serves the call that a function has just made. Its number is not yet trusted.
    #[inline]
    pub fn serve(&self, call: &mut Call) -> Outcome {
        let outcome = match call.number < u64::from(SYSTEM_ONLY) {
            true => self.dispatch(call),
            false => Outcome::error(Errno::NoSuchCall),
        };
        if outcome.tag == Outcome::READY
            && let Err(errno) = Errno::from_value(outcome.value)
            && let Some(instance) = self.caller(call)
        {
            instance.explanations.complete(call.thread, call.number, errno);
        }
        outcome
    }

    /// Serves a call by trusted code: the visor or a module.
    pub fn call(&self, number: u32, args: [u64; 6]) -> Result<u64, Errno> {
        let mut call = Call::system(number, args);
        let outcome = self.dispatch(&mut call);
        if outcome.tag != Outcome::READY {
            return Err(Errno::Deadlock);
        }
        Errno::from_value(outcome.value)
    }

    #[inline]
    fn dispatch(&self, call: &mut Call) -> Outcome {
        let Some(entry) = self.table.entries.get(call.number as usize) else {
            return Outcome::error(Errno::NoSuchCall);
        };
        let binding = entry.load(Ordering::Acquire);
        if binding.is_null() {
            return self.bind_on_demand(call);
        }
        // SAFETY: published bindings stay until the domain ends.
        let binding = unsafe { &*binding };
        // SAFETY: the handler was published with this state for such calls.
        unsafe { (binding.handler)(binding.state, call) }
    }

    /// Whether a number has been bound: its module has been called, or all are loaded at the start.
    fn is_bound(&self, number: u32) -> bool {
        self.table.entries.get(number as usize).is_some_and(|entry| !entry.load(Ordering::Acquire).is_null())
    }

    /// The slow path: the first call of a module.
    #[cold]
    fn bind_on_demand(&self, call: &mut Call) -> Outcome {
        let Some(module) = number::module_of(call.number as u32) else {
            return Outcome::error(Errno::NoSuchCall);
        };
        if module == core::NAME {
            core::bind(self);
        } else {
            self.modules.load(self, module);
        }
        self.dispatch(call)
    }
}
