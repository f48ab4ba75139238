//! Pages that a workflow will touch, put in place before it comes.
//!
//! Between its job and the first instruction of a function a process spends most of its time on page faults: after a fork every page
//! is mapped, or copied, when it is first touched, at 1 to 3 µs each. An idle worker has time to do that, and one system call for
//! many pages costs a tenth. The ranges are a guess; a wrong one costs memory or time, and nothing else.

use super::fork::{OnlyThread, ThreadsError};
use monohull_abi::layout::{page_down, page_up};
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

/// How far down its stack a workflow without threads reaches.
const STACK: u64 = 28 << 10;
/// How much a small workflow takes from the allocator.
const HEAP: usize = 40 << 10;

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

/// The allocator's memory, as far as a workflow will touch it; empty if that is unknown.
#[derive(Debug, Default)]
pub struct Heap(Range<u64>);

/// Arranges the allocator's memory for the processes that are forked from here on: blocks that they allocate lie together, on pages
/// that were not written to. In holes between the blocks of this process, each block would be on another page, which a fork
/// would copy.
pub fn compact_heap(only: &OnlyThread) -> Result<Heap, ThreadsError> {
    only.confirm()?;
    // SAFETY: mallopt(3), malloc_trim(3), malloc(3): no preconditions. Blocks in holes are never used; all others are given
    // back once. No other thread takes memory meanwhile, so what lies behind the last block's head is free.
    unsafe {
        // Small blocks that are freed are merged at once.
        libc::mallopt(libc::M_MXFAST, 0);
        libc::malloc_trim(0);
        let end = top();
        let mut size = HOLE_MAX;
        while size >= HOLE_MIN {
            let block = libc::malloc(size);
            if block.is_null() || block as u64 >= end {
                // It goes back to the rest. A small block would be kept for the next of its size, so it is made large first. The
                // compiler knows these functions and would remove the calls without `black_box`.
                let block = if size < LARGE { black_box(libc::realloc(block, LARGE)) } else { block };
                libc::free(block);
                // Small blocks have a list for each size.
                size -= if size > SMALL { size.div_ceil(8).next_multiple_of(HOLE_MIN) } else { HOLE_MIN };
            }
        }
        // Room at the top of the heap that stays, so that no process has to ask the kernel for more.
        let start = top();
        let block = black_box(libc::malloc(HEAP)) as u64;
        libc::free(block as *mut _);
        if block != start + BLOCK_HEAD || top() != start {
            // The allocator does not use `brk`, and its memory is unknown.
            return Ok(Heap::default());
        }
        // There is nothing but the head of the one block that this is, and a block that is allocated there has no content yet.
        let unused = page_up(start + BLOCK_HEAD);
        libc::madvise(unused as *mut _, (libc::sbrk(0) as u64 - unused) as usize, libc::MADV_DONTNEED);
        Ok(Heap(start..start + HEAP as u64))
    }
}

/// Where the last free block of the allocator begins: the rest of its memory, if that is from `brk`.
fn top() -> u64 {
    // SAFETY: these have no preconditions.
    unsafe { libc::sbrk(0) as u64 - libc::mallinfo2().keepcost as u64 }
}

/// Puts those pages in place that a workflow will touch.
pub fn populate(heap: &Heap) {
    // The first reading of the clock maps the kernel's page for it.
    black_box(Instant::now());
    let here = 0u8;
    let sp = std::ptr::from_ref(&here) as u64;
    populate_range(sp - STACK, sp);
    populate_range(heap.0.start, heap.0.end);
}

/// Makes these pages this process's own.
fn populate_range(start: u64, end: u64) {
    let start = page_down(start);
    let len = page_up(end) - start;
    // SAFETY: madvise(2): MADV_POPULATE_WRITE leaves the content of the pages as it is. Kernels before 5.14 refuse, and the pages come one by one.
    unsafe { libc::madvise(start as *mut _, len as usize, libc::MADV_POPULATE_WRITE) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};
    use std::env;
    use std::process::Command;

    /// How the C library is asked for this: all threads take from the memory that a spawner's only one takes from.
    const ONE_ARENA: (&str, &str) = ("MALLOC_ARENA_MAX", "1");

    #[test]
    fn what_is_taken_afterwards_lies_together() {
        if env::var_os(ONE_ARENA.0).is_none() {
            let mut again = Command::new(env::current_exe().expect("this program"));
            again.args(["--exact", "prefault::tests::what_is_taken_afterwards_lies_together"]);
            let output = again.env(ONE_ARENA.0, ONE_ARENA.1).output().expect("this program runs");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        // SAFETY: the child takes memory and ends. No other thread holds a lock of the allocator's: `fork` sees to that.
        match unsafe { fork() }.expect("a process") {
            // SAFETY: ends the process.
            ForkResult::Child => unsafe {
                let heap = OnlyThread::new().and_then(|only| compact_heap(&only));
                libc::_exit(heap.map_or(-1, |heap| blocks_elsewhere(&heap)))
            },
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None).expect("a child"), WaitStatus::Exited(child, 0));
            }
        }
    }

    /// How many small blocks, one of each size until there is no more room, are not where they should be.
    fn blocks_elsewhere(Heap(room): &Heap) -> i32 {
        let mut taken = 0;
        let fit = |size: &usize| {
            taken += size + 2 * BLOCK_HEAD as usize;
            taken < HEAP
        };
        let sizes = (HOLE_MIN..LARGE).step_by(HOLE_MIN).take_while(fit);
        // SAFETY: has no preconditions. Nothing reads or writes the block.
        let blocks = sizes.map(|size| unsafe { black_box(libc::malloc(size)) } as u64);
        blocks.filter(|block| !room.contains(block)).count() as i32
    }
}
