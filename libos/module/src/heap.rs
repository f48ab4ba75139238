//! A module's heap is the visor's, and so is the end of a panic.
//!
//! The services needed for both are copied from the [`Host`](monohull_abi::module::Host) of the first `start`. They
//! take no domain, and the visor stays mapped longer than any module, so they serve all domains of the process.

use crate::{HostRef, Text};
use core::alloc::{GlobalAlloc, Layout};
use core::fmt::Write;
use core::panic::PanicInfo;
use core::ptr::null_mut;
use spin::Once;

/// The visor's services that belong to no domain.
struct Services {
    alloc: unsafe extern "C" fn(bytes: usize, align: usize) -> *mut u8,
    alloc_zeroed: unsafe extern "C" fn(bytes: usize, align: usize) -> *mut u8,
    dealloc: unsafe extern "C" fn(memory: *mut u8, bytes: usize, align: usize),
    panicked: unsafe extern "C" fn(text: *const u8, len: usize) -> !,
}

static SERVICES: Once<Services> = Once::new();

/// Called by every `start`, before the module's own code runs; the first call counts.
pub(crate) fn lend(host: HostRef) {
    let host = host.raw();
    SERVICES.call_once(|| Services {
        alloc: host.alloc,
        alloc_zeroed: host.alloc_zeroed,
        dealloc: host.dealloc,
        panicked: host.panicked,
    });
}

/// The global allocator of a module.
pub struct VisorHeap;

// SAFETY: the visor's `alloc` and `dealloc` keep to the contract of an allocator (see `Host`), and memory that was
// allocated has been allocated after `lend`.
unsafe impl GlobalAlloc for VisorHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match SERVICES.get() {
            // SAFETY: the layout is not empty, by the contract of `GlobalAlloc`.
            Some(services) => unsafe { (services.alloc)(layout.size(), layout.align()) },
            None => null_mut(),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match SERVICES.get() {
            // SAFETY: the layout is not empty, by the contract of `GlobalAlloc`.
            Some(services) => unsafe { (services.alloc_zeroed)(layout.size(), layout.align()) },
            None => null_mut(),
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if let Some(services) = SERVICES.get() {
            // SAFETY: the memory came from `alloc` with this layout, by the contract of `GlobalAlloc`.
            unsafe { (services.dealloc)(memory, layout.size(), layout.align()) }
        }
    }
}

/// The panic handler of a module: tells the visor message and place, and does not come back.
pub fn panicked(info: &PanicInfo<'_>) -> ! {
    let mut text = Text::<512>::new();
    // A `Text` takes what fits and never fails.
    let _ = write!(text, "{}", info.message());
    if let Some(place) = info.location() {
        let _ = write!(text, " ({}:{})", place.file(), place.line());
    }
    let text = text.as_bytes();
    match SERVICES.get() {
        // SAFETY: the text is readable for its length.
        Some(services) => unsafe { (services.panicked)(text.as_ptr(), text.len()) },
        // Nothing of a module runs before `lend`.
        None => loop {
            core::hint::spin_loop();
        },
    }
}
