//! Pages that a workflow will touch, put in place before it comes.
//!
//! Of what a process does between its job and the first instruction of a function, most is page faults: after a fork every
//! page is mapped, or copied, when it is first touched, at 1 to 3 µs each. A blank has time to do that, and in one system
//! call for many pages it costs a tenth. What follows is a guess at what will be touched; a wrong one costs memory or time,
//! and nothing else.

use crate::domain::carrier::monotonic_ns;
use monohull_abi::layout::{page_down, page_up};

/// How far down its stack a workflow without threads reaches.
const STACK: u64 = 32 << 10;
/// How much a small workflow takes from the allocator. Below the size at which that asks the kernel for a mapping.
const HEAP: usize = 80 << 10;

/// Puts them in place.
pub(super) fn pages() {
    // The first reading of the clock maps the kernel's page for it.
    monotonic_ns();
    let here = 0u8;
    let sp = std::ptr::from_ref(&here) as u64;
    populate(sp - STACK, sp);
    // The allocator takes a large block from the top of its heap, and keeps it there when it is given back.
    let block = Vec::<u8>::with_capacity(HEAP);
    let start = block.as_ptr() as u64;
    populate(start, start + HEAP as u64);
}

/// Makes these pages this process's own.
fn populate(start: u64, end: u64) {
    let start = page_down(start);
    let len = page_up(end) - start;
    // SAFETY: leaves the content of the pages as it is. Kernels before 5.14 refuse, and the pages come one by one.
    unsafe { libc::madvise(start as *mut _, len as usize, libc::MADV_POPULATE_WRITE) };
}
