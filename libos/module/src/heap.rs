//! A module's heap is the visor's, and so is the end of a panic.
//!
//! The services for both come from the [`Host`] of the first `start`. They take no domain, and the visor stays mapped longer than any
//! module, so they serve all domains of the process.

use crate::{HostRef, Text};
use core::alloc::{GlobalAlloc, Layout};
use core::fmt::Write;
use core::panic::PanicInfo;
use core::ptr::null_mut;
use monohull_abi::module::Host;
use spin::Once;

/// A copy of the first table. Its domain may have ended: only services without a domain are called through it.
static SERVICES: Once<Host> = Once::new();

/// Every `start` calls this before the module's own code runs; the first call counts.
pub(crate) fn set_services(host: HostRef) {
    SERVICES.call_once(|| *host.raw());
}

/// The global allocator of a module.
pub struct VisorHeap;

// SAFETY: the visor's `alloc` and `dealloc` keep to the contract of an allocator (see `Host`), and nothing has been allocated
// before `set_services`.
unsafe impl GlobalAlloc for VisorHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match SERVICES.get() {
            // SAFETY: the layout is not empty, by the contract of `GlobalAlloc`.
            Some(services) => unsafe { services.alloc(layout.size(), layout.align()) },
            None => null_mut(),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match SERVICES.get() {
            // SAFETY: the layout is not empty, by the contract of `GlobalAlloc`.
            Some(services) => unsafe { services.alloc_zeroed(layout.size(), layout.align()) },
            None => null_mut(),
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if let Some(services) = SERVICES.get() {
            // SAFETY: the memory came from `alloc` with this layout, by the contract of `GlobalAlloc`.
            unsafe { services.dealloc(memory, layout.size(), layout.align()) }
        }
    }
}

/// The panic handler of a module: passes message and source location to the visor, and does not return.
pub fn panicked(info: &PanicInfo<'_>) -> ! {
    let mut text = Text::<512>::new();
    // A `Text` takes what fits and never fails.
    let _ = write!(text, "{}", info.message());
    if let Some(location) = info.location() {
        let _ = write!(text, " ({}:{})", location.file(), location.line());
    }
    let text = text.as_bytes();
    match SERVICES.get() {
        // SAFETY: the text is readable for its length.
        Some(services) => unsafe { services.panicked(text.as_ptr(), text.len()) },
        // No code of a module runs before `set_services`.
        None => loop {
            core::hint::spin_loop();
        },
    }
}
