//! The heap of a function.
//!
//! `dlmalloc` keeps it, as the fastest of the allocators that need no operating system: on counting the words of
//! 10 MB it took 165 ms where rlsf took 180, talc 205, linked_list_allocator 1800 and buddy_system_allocator 3700.
//! In front of it every thread keeps free blocks of the small sizes, so that most allocations take no lock:
//!
//! ```text
//!   alloc(24) ──▶ cache of this thread: 16 | 32 | 48 | … | 512 bytes ──(empty: a batch)──▶ lock ▸ dlmalloc
//!                                                                                                   │ full
//!                        first 32 KiB of heap in the image's bss, then HEAP_GROW in growing steps ◀─┘
//! ```
//!
//! A block of a small size always goes back to a cache: its size, known when it is freed, names its list.
#![allow(unsafe_code, reason = "an allocator hands out raw memory")]

use super::header::with_header;
use crate::sync::raw::RawLock;
use crate::sys;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use dlmalloc::Dlmalloc;
use monohull_abi::layout::page_up;

/// Bytes of heap that an image brings along, so that a small function never asks for more.
const FIRST_BYTES: usize = 32 * 1024;
/// The smallest and the largest step by which the heap grows beyond what is needed.
const STEPS: (usize, usize) = (256 * 1024, 8 * 1024 * 1024);
/// Small sizes are rounded up to multiples of this.
const GRAIN: usize = 16;
/// Number of small sizes.
const SIZES: usize = 32;
/// The largest small size.
const SMALL: usize = GRAIN * SIZES;
/// The most blocks that move between a cache and the heap at once.
const BATCH: u32 = 32;

/// The global allocator of an image.
#[derive(Clone, Copy, Default, Debug)]
pub struct Heap;

/// The first piece of heap.
#[repr(align(4096))]
struct FirstPiece(UnsafeCell<[u8; FIRST_BYTES]>);

// SAFETY: only the allocator touches it, which takes it once.
unsafe impl Sync for FirstPiece {}

static FIRST: FirstPiece = FirstPiece(UnsafeCell::new([0; FIRST_BYTES]));

/// Where dlmalloc gets memory from. It calls under the heap's lock.
struct Source {
    first_taken: AtomicBool,
    total: AtomicUsize,
}

// SAFETY: `alloc` returns memory that is not in use: the first piece once, and what the host adds.
unsafe impl dlmalloc::Allocator for Source {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if size <= FIRST_BYTES && !self.first_taken.swap(true, Ordering::Relaxed) {
            return (FIRST.0.get().cast(), FIRST_BYTES, 0);
        }
        let needed = page_up(size as u64) as usize;
        let total = self.total.load(Ordering::Relaxed);
        let step = needed.max((total / 2).clamp(STEPS.0, STEPS.1));
        // Near the memory limit a whole step may be too much.
        let grown =
            sys::heap_grow(step).map(|at| (at, step)).or_else(|_| sys::heap_grow(needed).map(|at| (at, needed)));
        let Ok((address, bytes)) = grown else {
            return (null_mut(), 0, 0);
        };
        self.total.store(total + bytes, Ordering::Relaxed);
        (address as *mut u8, bytes, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        monohull_abi::layout::PAGE as usize
    }
}

/// dlmalloc behind a lock.
struct Shared {
    lock: RawLock,
    blocks: UnsafeCell<Dlmalloc<Source>>,
}

// SAFETY: `blocks` is only touched with the lock held.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    lock: RawLock::new(),
    blocks: UnsafeCell::new({
        let mut blocks =
            Dlmalloc::new_with_allocator(Source { first_taken: AtomicBool::new(false), total: AtomicUsize::new(0) });
        // Memory never goes back before the instance ends, so nothing is gained by looking for some to give.
        blocks.set_max_release_check_rate(0);
        assert!(blocks.set_granularity(4096));
        blocks
    }),
};

impl Shared {
    fn with<R>(&self, with: impl FnOnce(&mut Dlmalloc<Source>) -> R) -> R {
        self.lock.lock();
        // SAFETY: the lock is held, and `with` cannot come here again: dlmalloc calls nothing but `Source`.
        let result = with(unsafe { &mut *self.blocks.get() });
        self.lock.unlock();
        result
    }
}

/// A free block, in a list of blocks of its size.
struct Free {
    next: *mut Free,
}

/// The free blocks of one small size.
#[derive(Clone, Copy)]
struct List {
    first: *mut Free,
    count: u32,
    /// How many blocks to fetch next time: it doubles, so that a function that needs few takes few.
    batch: u32,
}

/// One thread's free blocks.
pub(crate) struct Cache {
    lists: [List; SIZES],
}

impl Cache {
    /// The calling thread's cache; null if there is no memory for one.
    #[inline]
    fn own() -> *mut Cache {
        with_header(|header| {
            let cache = header.cache.get();
            if cache.is_null() { Self::make(|cache| header.cache.set(cache)) } else { cache }
        })
    }

    #[cold]
    fn make(keep: impl FnOnce(*mut Cache)) -> *mut Cache {
        let layout = Layout::new::<Cache>();
        // SAFETY: the layout is not empty.
        let cache = SHARED.with(|blocks| unsafe { blocks.malloc(layout.size(), layout.align()) }).cast::<Cache>();
        if !cache.is_null() {
            let empty = List { first: null_mut(), count: 0, batch: 2 };
            // SAFETY: freshly allocated for a `Cache`.
            unsafe { cache.write(Cache { lists: [empty; SIZES] }) };
            keep(cache);
        }
        cache
    }
}

impl List {
    #[inline]
    fn pop(&mut self) -> *mut u8 {
        let block = self.first;
        if !block.is_null() {
            // SAFETY: blocks in the list are free, and were linked by `push`.
            self.first = unsafe { (*block).next };
            self.count -= 1;
        }
        block.cast()
    }

    /// # Safety
    /// `block` is a free block of this list's size.
    #[inline]
    unsafe fn push(&mut self, block: *mut u8) {
        let block = block.cast::<Free>();
        // SAFETY: the block is free, and at least `GRAIN` bytes.
        unsafe { block.write(Free { next: self.first }) };
        self.first = block;
        self.count += 1;
    }

    /// Fetches a batch of blocks of `size` bytes and returns one of them, or null.
    #[cold]
    fn refill(&mut self, size: usize) -> *mut u8 {
        let batch = self.batch;
        self.batch = (batch * 2).min(BATCH);
        SHARED.with(|blocks| {
            for _ in 1..batch {
                // SAFETY: the size is not 0; what comes back is a free block of that size.
                let block = unsafe { blocks.malloc(size, GRAIN) };
                if block.is_null() {
                    break;
                }
                // SAFETY: as above.
                unsafe { self.push(block) };
            }
            // SAFETY: as above.
            unsafe { blocks.malloc(size, GRAIN) }
        })
    }

    /// Gives `count` blocks of `size` bytes back.
    #[cold]
    fn give_back(&mut self, size: usize, count: u32) {
        SHARED.with(|blocks| {
            for _ in 0..count {
                let block = self.pop();
                if !block.is_null() {
                    // SAFETY: it came from `malloc` with this size.
                    unsafe { blocks.free(block, size, GRAIN) };
                }
            }
        });
    }
}

/// Gives the calling thread's free blocks back; the thread is about to end.
pub(crate) fn drop_cache() {
    let cache = with_header(|header| header.cache.replace(null_mut()));
    if cache.is_null() {
        return;
    }
    // SAFETY: the header held it, and there is no other reference to it.
    let lists = unsafe { &mut (*cache).lists };
    for (index, list) in lists.iter_mut().enumerate() {
        list.give_back((index + 1) * GRAIN, list.count);
    }
    let layout = Layout::new::<Cache>();
    // SAFETY: allocated with this layout in `Cache::make`.
    SHARED.with(|blocks| unsafe { blocks.free(cache.cast(), layout.size(), layout.align()) });
}

/// Which small size serves `layout`: the index of its list.
#[inline]
fn small(size: usize, align: usize) -> Option<usize> {
    (size <= SMALL && align <= GRAIN && size > 0).then(|| (size - 1) / GRAIN)
}

// SAFETY: blocks come from dlmalloc or from a list of free blocks of at least the size asked for; both are aligned to 16
// bytes, and larger alignments are left to dlmalloc.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match small(layout.size(), layout.align()) {
            Some(index) => {
                let cache = Cache::own();
                if cache.is_null() {
                    null_mut()
                } else {
                    // SAFETY: the cache is this thread's, and no other reference to the list is alive.
                    let list = unsafe { &mut (*cache).lists[index] };
                    let block = list.pop();
                    if block.is_null() { list.refill((index + 1) * GRAIN) } else { block }
                }
            }
            // SAFETY: the caller's layout.
            None => SHARED.with(|blocks| unsafe { blocks.malloc(layout.size(), layout.align()) }),
        };
        if block.is_null() {
            REFUSED.store(layout.size(), Ordering::Relaxed);
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match small(layout.size(), layout.align()) {
            Some(index) => {
                let cache = Cache::own();
                if cache.is_null() {
                    // A leak of one block, in an instance that is out of memory.
                    return;
                }
                // SAFETY: as in `alloc`.
                let list = unsafe { &mut (*cache).lists[index] };
                // SAFETY: `alloc` gave the block out for this size.
                unsafe { list.push(block) };
                if list.count >= 2 * BATCH {
                    list.give_back((index + 1) * GRAIN, BATCH);
                }
            }
            // SAFETY: `alloc` took it from dlmalloc with this layout.
            None => SHARED.with(|blocks| unsafe { blocks.free(block, layout.size(), layout.align()) }),
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, new) = (small(layout.size(), layout.align()), small(size, layout.align()));
        if old.is_some() && old == new {
            return block;
        }
        if old.is_none() && new.is_none() {
            // SAFETY: `alloc` took it from dlmalloc with this layout.
            let moved = SHARED.with(|blocks| unsafe { blocks.realloc(block, layout.size(), layout.align(), size) });
            if moved.is_null() {
                REFUSED.store(size, Ordering::Relaxed);
            }
            return moved;
        }
        // SAFETY: the caller promises that the new size fits a layout; the two blocks do not overlap and both have the
        // smaller of the two sizes.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                core::ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// The size of the allocation that was refused last.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// If `message` is what alloc panics with after a refused allocation: how many bytes it wanted.
pub(super) fn refused(message: &str) -> Option<usize> {
    let bytes: usize = message.strip_prefix("memory allocation of ")?.strip_suffix(" bytes failed")?.parse().ok()?;
    (bytes == REFUSED.load(Ordering::Relaxed)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use host_std::thread;
    use host_std::vec::Vec;

    /// Blocks of many sizes and alignments, freed and resized in a disorderly way, checked for overlaps by their bytes.
    fn churn(mut seed: u64) {
        let mut live: Vec<(*mut u8, Layout, u8)> = Vec::new();
        let check = |(block, layout, mark): (*mut u8, Layout, u8), len: usize| {
            assert_eq!(block as usize % layout.align(), 0);
            // SAFETY: a live block of `len` bytes at least.
            assert!(unsafe { core::slice::from_raw_parts(block, len) }.iter().all(|byte| *byte == mark));
        };
        for round in 0..20_000u64 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let size = 1 + (seed >> 8) as usize % if seed & 15 == 0 { 100_000 } else { 600 };
            let layout = Layout::from_size_align(size, 1 << (seed % 7)).unwrap();
            let mark = round as u8;
            if live.len() < 500 {
                // SAFETY: the layout is not empty.
                let block = unsafe { Heap.alloc(layout) };
                assert!(!block.is_null());
                // SAFETY: just allocated.
                unsafe { block.write_bytes(mark, size) };
                live.push((block, layout, mark));
            } else if seed & 64 == 0 {
                let old = live.swap_remove((seed >> 30) as usize % live.len());
                check(old, old.1.size());
                // SAFETY: allocated with this layout.
                unsafe { Heap.dealloc(old.0, old.1) };
            } else {
                let index = (seed >> 30) as usize % live.len();
                let (block, old, mark) = live[index];
                // SAFETY: allocated with this layout.
                let moved = unsafe { Heap.realloc(block, old, size) };
                let layout = Layout::from_size_align(size, old.align()).unwrap();
                check((moved, layout, mark), old.size().min(size));
                // SAFETY: it has `size` bytes now.
                unsafe { moved.write_bytes(mark, size) };
                live[index] = (moved, layout, mark);
            }
        }
        for old in live {
            check(old, old.1.size());
            // SAFETY: allocated with this layout.
            unsafe { Heap.dealloc(old.0, old.1) };
        }
        drop_cache();
    }

    #[test]
    fn blocks_are_aligned_and_never_overlap() {
        thread::scope(|scope| {
            for seed in 1..4 {
                scope.spawn(move || churn(seed << 40 | 0x9e37_79b9));
            }
        });
    }

    #[test]
    fn only_the_allocators_own_panic_is_about_memory() {
        REFUSED.store(4096, Ordering::Relaxed);
        assert_eq!(refused("memory allocation of 4096 bytes failed"), Some(4096));
        assert_eq!(refused("memory allocation of 4097 bytes failed"), None);
        assert_eq!(refused("index out of bounds"), None);
    }
}
