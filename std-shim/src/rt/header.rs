//! The thread header: what belongs to one thread, found from its stack pointer.
//!
//! Every stack is a power of two in size and aligned to it, and its top 64 bytes are ours:
//!
//! ```text
//!   stack base (aligned)                              rsp                        base + size
//!   | guard |        …free…             | frames …     | return word | ThreadHeader, 64 bytes |
//!
//!   header = (rsp | (size - 1)) + 1 - 64
//! ```
//!
//! A header is zero when its thread starts; null pointers mean "not yet".
#![allow(unsafe_code, reason = "the header is at an address computed from the stack pointer")]

use super::heap::Cache;
use crate::thread::{Inner, Locals};
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::layout::THREAD_HEADER_SIZE;

/// The top of a stack. Only its own thread reads it.
#[repr(C)]
pub(crate) struct ThreadHeader {
    /// The thread's `Arc<Inner>` as a raw pointer, which this header owns.
    pub(crate) thread: Cell<*const Inner>,
    /// Values of thread-local variables.
    pub(crate) locals: Cell<*mut Locals>,
    /// Free blocks kept for this thread.
    pub(crate) cache: Cell<*mut Cache>,
    reserved: [u64; 5],
}

const _: () = assert!(size_of::<ThreadHeader>() as u64 == THREAD_HEADER_SIZE);

#[cfg(test)]
impl ThreadHeader {
    const fn new() -> ThreadHeader {
        ThreadHeader {
            thread: Cell::new(core::ptr::null()),
            locals: Cell::new(core::ptr::null_mut()),
            cache: Cell::new(core::ptr::null_mut()),
            reserved: [0; 5],
        }
    }
}

/// Size of every stack of this instance, less one.
static STACK_MASK: AtomicU64 = AtomicU64::new(0);

/// To be called once, before anything asks for a header.
pub(super) fn learn_stack_size(bytes: u64) {
    STACK_MASK.store(bytes - 1, Ordering::Relaxed);
}

/// Runs `with` on the calling thread's header.
#[cfg(not(test))]
#[inline]
pub(crate) fn with_header<R>(with: impl FnOnce(&ThreadHeader) -> R) -> R {
    let top = (monohull_trampoline::user::stack_pointer() | STACK_MASK.load(Ordering::Relaxed)) + 1;
    // SAFETY: the stack was made with this header on top, zeroed, and it lives as long as the thread that asks.
    with(unsafe { &*((top - THREAD_HEADER_SIZE) as *const ThreadHeader) })
}

/// Runs `with` on a header of the host's thread: the tests' stacks have none.
#[cfg(test)]
pub(crate) fn with_header<R>(with: impl FnOnce(&ThreadHeader) -> R) -> R {
    host_std::thread_local!(static HEADER: ThreadHeader = const { ThreadHeader::new() });
    HEADER.with(with)
}
