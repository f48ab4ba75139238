//! The program's allocator: the C library's, which in some processes wipes every block before it takes it back.
//!
//! A freed block keeps what was written to it until it is written to again. In a process that serves one invocation after the
//! other, inputs, outputs and names of an earlier one would lie about for as long as it lives. The C library has a setting for
//! that (`M_PERTURB`), which leaves out the blocks up to a kilobyte that it keeps at hand for each thread.
//!
//! Blocks that move while they grow are freed where they were, and those that shrink lose their end, so both are copies here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

/// The allocator. A program installs it with `#[global_allocator]`; until [`begin`] it is [`System`].
#[derive(Debug)]
pub struct WipingAllocator;

/// Blocks of this size lose their whole pages instead of having them written to: most are mappings of their own, of which parts
/// were never touched.
const LARGE: usize = 256 << 10;

/// Whether freed blocks are wiped.
static WIPES: AtomicBool = AtomicBool::new(false);
/// A block has been wiped.
static HAS_WIPED: AtomicBool = AtomicBool::new(false);

/// The program has another allocator.
#[derive(Debug)]
pub struct NotInstalled;

/// From here on every block of this process is wiped when it is freed.
pub fn begin() -> Result<(), NotInstalled> {
    WIPES.store(true, Ordering::Relaxed);
    drop(black_box(Box::new(1u64)));
    if HAS_WIPED.load(Ordering::Relaxed) { Ok(()) } else { Err(NotInstalled) }
}

// SAFETY: blocks are `System`'s. They are written to only between the caller's last use of them and their return.
unsafe impl GlobalAlloc for WipingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if WIPES.load(Ordering::Relaxed) {
            // SAFETY: the block has this size, and the caller does not use it any more.
            unsafe { wipe(block, layout.size()) };
            if !HAS_WIPED.load(Ordering::Relaxed) {
                HAS_WIPED.store(true, Ordering::Relaxed);
            }
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !WIPES.load(Ordering::Relaxed) {
            // SAFETY: the caller's promise.
            return unsafe { System.realloc(block, layout, size) };
        }
        // SAFETY: the caller promises that the size is not zero and, rounded up to the alignment, not too large.
        let layout_after = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: as above.
        let copy = unsafe { System.alloc(layout_after) };
        if !copy.is_null() {
            // SAFETY: both blocks are at least as long, and the new one is apart from the old one.
            unsafe { std::ptr::copy_nonoverlapping(block, copy, layout.size().min(size)) };
            // SAFETY: the caller uses the copy from here on.
            unsafe { self.dealloc(block, layout) };
        }
        copy
    }
}

/// Makes a block zero.
///
/// # Safety
/// It is so long, may be written to, and what it holds is not needed any more.
unsafe fn wipe(block: *mut u8, size: usize) {
    const PAGE: usize = 4096;
    if size >= LARGE {
        let (start, end) = ((block as usize).next_multiple_of(PAGE), (block as usize + size) / PAGE * PAGE);
        // SAFETY: madvise(2): whole pages of the block. Private memory without a file behind it is zero afterwards.
        if unsafe { libc::madvise(start as *mut _, end - start, libc::MADV_DONTNEED) } == 0 {
            let (head, tail) = (start - block as usize, block as usize + size - end);
            // SAFETY: what is left of the block on both sides of them. The compiler does not leave this function's calls out.
            unsafe {
                libc::explicit_bzero(block.cast(), head);
                libc::explicit_bzero(end as *mut _, tail);
            }
            return;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { libc::explicit_bzero(block.cast(), size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The allocator of this test program.
    #[global_allocator]
    static ALLOCATOR: WipingAllocator = WipingAllocator;

    /// How many words are left of a block. The C library keeps pointers and a random number in it, of which single bytes may be the
    /// same by chance.
    fn left(block: *const u8, size: usize) -> usize {
        // SAFETY: small blocks stay mapped, and nothing else takes this one before this has been read: its size is unusual.
        let bytes = unsafe { std::slice::from_raw_parts(block, size) };
        bytes.chunks_exact(8).filter(|word| *word == [0xa7; 8]).count()
    }

    #[test]
    fn a_freed_block_is_wiped_and_one_that_grows_keeps_its_content() {
        begin().expect("it is this program's allocator");
        const SIZE: usize = 77_777;
        let mut bytes = vec![0xa7u8; SIZE];
        let before = bytes.as_ptr();
        bytes.reserve_exact(SIZE);
        assert_ne!(bytes.as_ptr(), before, "wiping makes a copy");
        assert_eq!(bytes, [0xa7; SIZE]);
        assert_eq!(left(before, SIZE), 0);
        let mut shrunk = vec![0xa7u8; SIZE];
        let before = shrunk.as_ptr();
        shrunk.truncate(10);
        shrunk.shrink_to_fit();
        assert_eq!(shrunk, [0xa7; 10]);
        assert_eq!(left(before, SIZE), 0);
        // Small ones, which the C library keeps at hand.
        let small = Box::new([0xa7u8; 333]);
        let before = small.as_ptr();
        drop(black_box(small));
        assert_eq!(left(before, 333), 0);
    }

    #[test]
    fn a_large_block_is_wiped_to_its_edges() {
        let layout = Layout::from_size_align(LARGE + 12_345, 16).expect("a layout");
        // SAFETY: a block of this layout, which is freed below.
        let block = unsafe { System.alloc(layout) };
        assert!(!block.is_null());
        // SAFETY: it is so long and nothing else's.
        let bytes = unsafe { std::slice::from_raw_parts_mut(block, layout.size()) };
        bytes.fill(7);
        // SAFETY: as above.
        unsafe { wipe(block, layout.size()) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        // SAFETY: allocated above.
        unsafe { System.dealloc(block, layout) };
    }
}
