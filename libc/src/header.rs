//! The header of a thread: the top 64 bytes of the stack that it was started on, zero at first. `gs:[16]` is its address.
//!
//! ```text
//!   +0   thread pointer: musl's `struct pthread`, whose address `__get_tp` reads
//!   +8   free blocks kept for this thread (heap.rs)
//!   +16  the word to clear, and to wake a waiter of, when the thread ends
//!   +24  its number as Linux has them: 1 is the main thread
//! ```

use crate::heap::Cache;
use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use monohull_abi::layout::THREAD_HEADER_SIZE;

/// What belongs to one thread. Only that thread reads it.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) thread_pointer: Cell<u64>,
    pub(crate) cache: Cell<*mut Cache>,
    pub(crate) clear: Cell<*const AtomicU32>,
    pub(crate) number: Cell<u64>,
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
