//! The header of a thread: the top 64 bytes of the stack that it was started on, zero at first. `gs:[16]` is its address.
//!
//! ```text
//!   +0   thread pointer: musl's `struct pthread`, whose address `__get_tp` reads
//!   +8   free blocks kept for this thread (heap.rs)
//!   +16  the word to clear, and to wake a waiter of, when the thread ends
//!   +24  its number as Linux has them: 1 is the main thread
//!   +32  end and size of the stack that it runs on, if that is one of its own (threads.rs); otherwise zeros
//!   +48  bytes of the stack that the thread which it starts is to have, if that is one of its own
//!   +56  what few threads have, once it has something of that: a name, destructors of thread-local variables
//! ```

use crate::heap::Cache;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::AtomicU32;
use monohull_abi::layout::THREAD_HEADER_SIZE;

/// What belongs to one thread. Only that thread reads it.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) thread_pointer: Cell<u64>,
    pub(crate) cache: Cell<*mut Cache>,
    pub(crate) clear: Cell<*const AtomicU32>,
    pub(crate) number: Cell<u64>,
    pub(crate) stack: Cell<(u64, u64)>,
    pub(crate) asked: Cell<u64>,
    rare: Cell<*mut Rare>,
}

/// What few threads have.
#[derive(Default)]
pub(crate) struct Rare {
    /// The name that the thread has been given (`prctl`).
    pub(crate) name: Cell<Option<[u8; 16]>>,
    /// Destructors of thread-local variables, with their arguments, in the order of registration.
    pub(crate) destructors: Cell<Vec<(Destructor, *mut c_void)>>,
}

/// What ends a thread-local variable.
pub(crate) type Destructor = extern "C" fn(*mut c_void);

impl Header {
    /// What few threads have, if the thread has it.
    pub(crate) fn rare(&self) -> Option<&Rare> {
        // SAFETY: null, or what `rare_or_new` made, which lives until the thread calls `drop_rare`.
        unsafe { self.rare.get().as_ref() }
    }

    /// The same, made if the thread does not have it yet.
    pub(crate) fn rare_or_new(&self) -> &Rare {
        self.rare().unwrap_or_else(|| {
            let new = Box::into_raw(Box::default());
            self.rare.set(new);
            // SAFETY: it has just been made, and lives until the thread calls `drop_rare`.
            unsafe { &*new }
        })
    }

    /// Gives it back, at the end of the thread.
    pub(crate) fn drop_rare(&self) {
        let rare = self.rare.replace(core::ptr::null_mut());
        if !rare.is_null() {
            // SAFETY: `rare_or_new` made it, and no reference to it is left at the end of the thread.
            drop(unsafe { Box::from_raw(rare) });
        }
    }
}

const _: () = assert!(size_of::<Header>() as u64 <= THREAD_HEADER_SIZE);

/// The calling thread's header.
#[inline(always)]
pub(crate) fn own<'a>() -> &'a Header {
    let address: u64;
    // SAFETY: `gs` is the carrier's line, which functions may read; the run loop has put the address of the running
    // thread's header there, which lives as long as the thread.
    unsafe {
        core::arch::asm!("mov {}, gs:[16]", out(reg) address, options(nostack, readonly, preserves_flags));
        &*(address as *const Header)
    }
}
