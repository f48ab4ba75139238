//! The thread header: what belongs to one thread.
//!
//! The top 64 bytes of the stack that a thread starts on are ours, and the system passes their address:
//!
//! ```text
//!   stack base (aligned)                              rsp at first             base + size
//!   | guard |        …free…             | frames …     | return word | ThreadHeader, 64 bytes |
//!                                                                    ↑ gs:[16]
//! ```
//!
//! The address does not depend on the stack pointer, so a thread may run on stacks of its own making, as coroutines do.
//! A header is zero when its thread starts; null pointers mean "not yet".
#![allow(unsafe_code, reason = "the header is at an address that the system passes")]

use super::heap::Cache;
use super::last_error;
use crate::thread::{Inner, Locals};
use core::cell::Cell;
use core::mem::offset_of;
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
    /// Panics of this thread, which none survives: those of a hook, or of a message, come on top.
    pub(crate) panics: Cell<u32>,
    /// The number of the last hostcall's refusal, which [`last_error`] keeps; 0 for none.
    _last_error: Cell<i32>,
    reserved: [u64; 4],
}

const _: () = assert!(size_of::<ThreadHeader>() as u64 == THREAD_HEADER_SIZE);
const _: () = assert!(offset_of!(ThreadHeader, _last_error) == last_error::OFFSET);

#[cfg(any(test, panic = "unwind"))]
impl ThreadHeader {
    const fn new() -> ThreadHeader {
        ThreadHeader {
            thread: Cell::new(core::ptr::null()),
            locals: Cell::new(core::ptr::null_mut()),
            cache: Cell::new(core::ptr::null_mut()),
            panics: Cell::new(0),
            _last_error: Cell::new(0),
            reserved: [0; 4],
        }
    }
}

/// Runs `with` on the calling thread's header.
#[cfg(not(any(test, panic = "unwind")))]
#[inline]
pub(crate) fn with_header<R>(with: impl FnOnce(&ThreadHeader) -> R) -> R {
    let header = monohull_trampoline::user::thread_header() as *const ThreadHeader;
    // SAFETY: the thread's first stack was made with this header on top, zeroed, and it lives as long as the thread.
    with(unsafe { &*header })
}

/// Runs `with` on a header of the host's thread: the stacks of unit tests have none.
#[cfg(any(test, panic = "unwind"))]
pub(crate) fn with_header<R>(with: impl FnOnce(&ThreadHeader) -> R) -> R {
    host_std::thread_local!(static HEADER: ThreadHeader = const { ThreadHeader::new() });
    HEADER.with(with)
}
