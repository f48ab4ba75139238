//! Pages that a workflow will touch, put in place before it comes.
//!
//! Of what a process does between its job and the first instruction of a function, most is page faults: after a fork every
//! page is mapped, or copied, when it is first touched, at 1 to 3 µs each. A blank has time to do that, and in one system
//! call for many pages it costs a tenth. What follows is a guess at what will be touched; a wrong one costs memory or time,
//! and nothing else.

use super::huge;
use crate::domain::carrier::monotonic_ns;
use monohull_abi::layout::{PAGE, page_down, page_up};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// How far down its stack a workflow without threads reaches.
const STACK: u64 = 32 << 10;
/// How much a small workflow takes from the allocator.
const HEAP: usize = 56 << 10;

/// The smallest hole the allocator can have, and the largest it fills by itself: larger blocks are mappings.
const HOLE_MIN: usize = 16;
/// See `HOLE_MIN`.
const HOLE_MAX: usize = 120 << 10;

/// A block larger than what the allocator puts aside for the next of its size.
const LARGE: usize = 4 << 10;
/// What the allocator keeps at the beginning of a block.
const BLOCK_HEAD: u64 = 16;
/// Up to here the allocator keeps a list for each size.
const SMALL: usize = 1040;

/// Bytes that `/proc/self/pagemap` has for a page, and the bit that says that the page is a file's (or shared).
const ENTRY: u64 = 8;
const FILES: u64 = 1 << 61;

/// The allocator's memory, as far as a workflow will touch it; nothing if that is not known.
#[derive(Default)]
pub(super) struct Heap(Range<u64>);

/// Arranges the allocator's memory for the processes that are forked from here on: what they take lies together, on pages
/// that nobody has written to. In the holes that this process has left, each block would be on another page, and each of these
/// pages a copy.
pub(super) fn gather() -> Heap {
    // SAFETY: these have no preconditions. Blocks in holes are left to nobody; all others are given back once.
    unsafe {
        // Small blocks that are given back are joined at once.
        libc::mallopt(libc::M_MXFAST, 0);
        libc::malloc_trim(0);
        let end = top();
        let mut size = HOLE_MAX;
        while size >= HOLE_MIN {
            let block = libc::malloc(size);
            if block.is_null() || block as u64 >= end {
                // A small block would be put aside for the next of its size, and stay where it is. A large one goes back to the
                // rest.
                let block = libc::realloc(block, LARGE);
                libc::free(block);
                // Small blocks have a list for each size.
                size -= if size > SMALL { size.div_ceil(8).next_multiple_of(HOLE_MIN) } else { HOLE_MIN };
            }
        }
        // Room at the top of the heap that stays there, so that nobody has to ask the kernel for more.
        let start = top();
        let block = libc::malloc(HEAP) as u64;
        libc::free(block as *mut _);
        if block != start + BLOCK_HEAD || top() != start {
            // The allocator has its memory from elsewhere, and nothing is known of it.
            return Heap::default();
        }
        // There is nothing but the head of the one block that this is, and whoever gets a part of it expects nothing in it.
        let unused = page_up(start + BLOCK_HEAD);
        libc::madvise(unused as *mut _, (libc::sbrk(0) as u64 - unused) as usize, libc::MADV_DONTNEED);
        Heap(start..start + HEAP as u64)
    }
}

/// Where the last block begins that the allocator has free: the rest of its memory, unless that is from elsewhere.
fn top() -> u64 {
    // SAFETY: these have no preconditions.
    unsafe { libc::sbrk(0) as u64 - libc::mallinfo2().keepcost as u64 }
}

/// Gives back the pages of code that this process has only read, as the search for gadgets reads all of it. Of an object in
/// which nothing was changed a fork leaves them out anyway; of one with a single page of its own it copies them all.
pub(super) fn give_back_read() -> io::Result<()> {
    let pagemap = File::open("/proc/self/pagemap")?;
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        let (Some(range), Some("r-xp")) = (huge::pages(line), line.split_whitespace().nth(1)) else { continue };
        let mut entries = vec![0; ((range.end - range.start) / PAGE * ENTRY) as usize];
        pagemap.read_exact_at(&mut entries, range.start / PAGE * ENTRY)?;
        let is_files = |entry: &[u8]| entry.try_into().map(u64::from_le_bytes).is_ok_and(|entry| entry & FILES != 0);
        let mut start = range.start;
        for pages in entries.chunks(ENTRY as usize).map(is_files).collect::<Vec<_>>().chunk_by(bool::eq) {
            let end = start + pages.len() as u64 * PAGE;
            if pages[0] {
                // SAFETY: what is there now is the file's, and is there again when it is touched: what differs from the file
                // is no page of the file.
                unsafe { libc::madvise(start as *mut _, (end - start) as usize, libc::MADV_DONTNEED) };
            }
            start = end;
        }
    }
    Ok(())
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
