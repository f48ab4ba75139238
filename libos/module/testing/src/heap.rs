//! An allocator that counts, for tests that nothing is leaked.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// Install it with `#[global_allocator]` in the test build of a module.
pub struct CountingHeap;

/// Bytes that this thread has allocated and not freed.
pub fn live_bytes() -> i64 {
    LIVE.get()
}

// SAFETY: everything is the system allocator's; counting allocates nothing (the thread-local needs neither lazy
// initialisation nor a destructor).
unsafe impl GlobalAlloc for CountingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.set(LIVE.get() + layout.size() as i64);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size() as i64);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(memory, layout) }
    }
}
