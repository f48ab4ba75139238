//! What every libos module links, so that the modules themselves need no `unsafe` and read like ordinary services.
//!
//! A module is a plain `no_std` library crate: a type that implements [`Module`], methods that serve hostcalls, and
//! one [`module!`] that ties numbers to methods. Linked as a shared object it exports one symbol and needs no library but libc:
//!
//! ```text
//! cargo rustc -p monohull-libos-time --lib --crate-type cdylib --profile image -- \
//!     -C link-arg=-nostartfiles -C link-arg=-Wl,-z,now,-z,relro,-Bsymbolic -C link-arg=-lc
//!
//!  visor                                  module
//!  dlopen, dlsym("MONOHULL_MODULE") ────▶ ModuleTable { start, stop, ended, entries }
//!  start(host) ─────────────────────────▶ Module::start(HostRef)          one state per domain, on the visor's heap
//!  entries[n].handler(state, call) ─────▶ fn(&State, &mut Call)           from any carrier, several at once
//!  stop(state) ─────────────────────────▶ drop
//! ```
//!
//! The state and a handler of a module that counts calls. A real module ends with
//! `module! { Counter { NUMBER => Counter::count, } }`, which also defines the allocator and the panic handler of the shared object:
//!
//! ```
//! use monohull_module::abi::module::Call;
//! use monohull_module::record::{RecordsRef, Refused, fields};
//! use monohull_module::{FutexMutex, HostRef, Module, abi::Errno};
//!
//! struct Counter(FutexMutex<u64>);
//!
//! impl Module for Counter {
//!     const NAME: &'static str = "counter";
//!
//!     fn start(_: HostRef) -> Option<Counter> {
//!         Some(Counter(FutexMutex::new(0)))
//!     }
//!
//!     fn save(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
//!         records.write(&*self.0.lock())
//!     }
//!
//!     fn restore(&self, _version: u32, record: &[u8], _: RecordsRef<'_>) -> Result<(), Refused> {
//!         *self.0.lock() = fields(record)?;
//!         Ok(())
//!     }
//! }
//!
//! impl Counter {
//!     fn count(&self, call: &mut Call) -> Result<u64, Errno> {
//!         let mut count = self.0.lock();
//!         *count = count.checked_add(call.args[0]).ok_or(Errno::Invalid)?;
//!         Ok(*count)
//!     }
//! }
//! ```
//!
//! Memory comes from the visor ([`heap`]), and so do the few C routines the compiler asks for (`memcpy` and its kin),
//! which the dynamic linker finds in the libc of the process; `syscall` for the lock that sleeps is another.
//!
//! # Locks and panics
//!
//! Handlers get `&State`, so what changes lies under a lock: a [`FutexMutex`]. While it is held a module may allocate, ask the
//! visor for something that takes a system call (`arena_assign`, `line`) or the scheduler's lock (`wait`), or be preempted by the
//! host. A carrier that waited by spinning would use up a processor meanwhile, so there is no other mutex here.
//!
//! No lock is held across a call that may come back into the module, as checking an address in the arena does. Work on many things
//! at once is done in batches, and ends each with [`unlock_fair`](lock_api::MutexGuard::unlock_fair).
//!
//! Files have a [`FutexRwLock`], under which readers copy bytes side by side. Its waiters sleep, too.
//!
//! A panic ends the process, so there is no poisoning.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod fs;
mod futex;
#[doc(hidden)]
pub mod glue;
pub mod heap;
mod host;
mod lock;
mod network;
pub mod record;
mod rwlock;
mod segments;
mod store;
mod text;

pub use host::{FileToMap, HostRef};
pub use lock::{FutexMutex, FutexMutexGuard, RawFutexMutex};
pub use monohull_abi as abi;
pub use network::NetworkRef;
pub use rwlock::{FutexRwLock, FutexRwLockWriteGuard, RawFutexRwLock};
pub use segments::Segments;
pub use spin::Once;
pub use store::{Checked, Memory, Store};
pub use text::Text;

use abi::module::{Ending, Released};
use record::{RecordsRef, Refused};

/// One service of the libos. The value is its state in one domain.
pub trait Module: Send + Sync + Sized + 'static {
    /// The module's name, as in [`abi::number::module_of`]; at most 15 bytes.
    const NAME: &'static str;

    /// Makes the state for a domain; `None` if that is impossible.
    fn start(host: HostRef) -> Option<Self>;

    /// An instance has ended and none of its threads runs any more: releases what it holds here. An instance may hold very
    /// much, and other instances may wait for this carrier; so one call works for some milliseconds at most. It is called
    /// again after [`Released::More`].
    fn ended(&self, instance: u32, ending: Ending) -> Released {
        let _ = (instance, ending);
        Released::InputsIntact
    }

    /// An event outside the domain has occurred for which the module registered.
    fn poll(&self) {}

    /// Version of the record that [`Module::save`] writes. It rises with every change of the record's fields, and the code that
    /// reads older versions stays.
    const RECORD_VERSION: u32 = 1;

    /// Writes the state as a record and changes nothing. Refuses if something in it cannot be captured. No call is under way,
    /// except parked ones.
    fn save(&self, records: RecordsRef<'_>) -> Result<(), Refused>;

    /// Rebuilds the state from a record of this version or an older one, before the first call. The record may be anyone's: every
    /// field is checked. After a refusal the state is dropped.
    fn restore(&self, version: u32, record: &[u8], records: RecordsRef<'_>) -> Result<(), Refused>;
}

/// Defines what a module exports: its table, and the things that exist once per shared object (the global allocator
/// and the panic handler, left out of unit tests, which have those of std).
///
/// A module that other modules' tests link has a feature `hosted`, which leaves them out as well.
///
/// Each handler is a function `(&State, &mut Call) -> impl Into<Outcome>`.
#[macro_export]
macro_rules! module {
    ($state:ty { $($number:path => $handler:path,)* }) => {
        /// Everything the visor needs to know of this module.
        #[cfg_attr(not(any(test, feature = "hosted")), unsafe(no_mangle))]
        pub static MONOHULL_MODULE: $crate::abi::module::ModuleTable = {
            use $crate::abi::module::{Call, ModuleEntry, Outcome};
            static ENTRIES: &[ModuleEntry] = &[$(ModuleEntry {
                number: $number,
                handler: {
                    unsafe extern "C" fn handler(state: *mut ::core::ffi::c_void, call: *mut Call) -> Outcome {
                        // SAFETY: the visor passes what `start` of this table returned, and a call that is this
                        // handler's alone while it runs.
                        let (state, call) = unsafe { $crate::glue::enter::<$state>(state, call) };
                        ::core::convert::Into::into($handler(state, call))
                    }
                    handler
                },
            },)*];
            $crate::glue::table::<$state>(ENTRIES)
        };

        #[cfg(not(any(test, feature = "hosted")))]
        #[global_allocator]
        static MONOHULL_HEAP: $crate::heap::VisorHeap = $crate::heap::VisorHeap;

        // The precompiled core and alloc name these two for unwinding, which a module never does: a panic ends in the
        // handler below.
        #[cfg(not(any(test, feature = "hosted")))]
        #[unsafe(no_mangle)]
        extern "C" fn rust_eh_personality() {}

        #[cfg(not(any(test, feature = "hosted")))]
        #[unsafe(no_mangle)]
        extern "C" fn _Unwind_Resume(_: *mut ::core::ffi::c_void) -> ! {
            panic!("a module does not unwind")
        }

        #[cfg(not(any(test, feature = "hosted")))]
        #[panic_handler]
        fn monohull_panic(info: &::core::panic::PanicInfo<'_>) -> ! {
            $crate::heap::panicked(info)
        }
    };
}
