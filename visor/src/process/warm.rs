//! Pages that a workflow will touch, put in place before it comes.
//!
//! Of what a process does between its job and the first instruction of a function, most is page faults: after a fork every
//! page is mapped, or copied, when it is first touched, at 1 to 3 µs each. A blank has time to do that, and in one system
//! call for many pages it costs a tenth. What follows is a guess at what will be touched; a wrong one costs memory or time,
//! and nothing else.

use crate::domain::carrier::monotonic_ns;
use monohull_abi::layout::{page_down, page_up};
use std::ops::Range;

/// How far down its stack a workflow without threads reaches.
const STACK: u64 = 32 << 10;
/// How much a small workflow takes from the allocator beyond what that has free already.
const MORE: usize = 16 << 10;
/// The allocator of a program that has just started has less than this, and a workflow touches most of it.
const SMALL: u64 = 256 << 10;

/// The allocator's memory, as far as a workflow will touch it.
pub(super) struct Heap(Range<u64>);

/// Joins the memory that the allocator has free, for the processes that are forked from here on: otherwise each of them
/// does, and gets a copy of every page it looks at.
pub(super) fn gather() -> Heap {
    // SAFETY: these have no preconditions.
    let start = unsafe {
        // Small blocks that are given back are joined at once.
        libc::mallopt(libc::M_MXFAST, 0);
        libc::malloc_trim(0);
        libc::sbrk(0) as u64 - libc::mallinfo2().arena as u64
    };
    // Room at the top of the heap that stays there, so that nobody has to ask the kernel for more.
    let room = Vec::<u8>::with_capacity(6 * MORE);
    let top = room.as_ptr() as u64;
    Heap(if top.saturating_sub(start) < SMALL { start } else { top }..top + MORE as u64)
}

/// Puts them in place.
pub(super) fn pages(heap: &Heap) {
    // The first reading of the clock maps the kernel's page for it.
    monotonic_ns();
    let here = 0u8;
    let sp = std::ptr::from_ref(&here) as u64;
    populate(sp - STACK, sp);
    populate(heap.0.start, heap.0.end);
}

/// Makes these pages this process's own.
fn populate(start: u64, end: u64) {
    let start = page_down(start);
    let len = page_up(end) - start;
    // SAFETY: leaves the content of the pages as it is. Kernels before 5.14 refuse, and the pages come one by one.
    unsafe { libc::madvise(start as *mut _, len as usize, libc::MADV_POPULATE_WRITE) };
}
