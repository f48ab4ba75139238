//! The heap: `malloc` and its kin over `dlmalloc`, the allocator of `monohull-std`, instead of musl's own.
//!
//! In front of it every thread keeps free blocks of small sizes, so that most calls take no lock:
//!
//! ```text
//!   malloc(24) ──▶ cache of this thread: chunks of 32 | 48 | 64 | … | 512 ──(empty: a batch)──▶ lock ▸ dlmalloc
//!                                                                                                   │ full
//!                                                                        HEAP_GROW in growing steps ◀┘
//!
//!   a chunk       | size of the one before, or its bytes | size, 2 flags | bytes …      | (next chunk)
//!                                                                        ↑ what malloc returns
//! ```
//!
//! `free` has no argument for the size. dlmalloc's own word before the block holds the chunk's, which names the list.

use crate::header;
use crate::host;
use crate::lock::Lock;
use alloc::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::ptr::null_mut;
use dlmalloc::Dlmalloc;
use monohull_abi::layout::{PAGE, page_up};
use monohull_abi::number;

/// The smallest and the largest step by which the heap grows beyond what is needed.
const STEPS: (u64, u64) = (256 * 1024, 8 * 1024 * 1024);
/// Chunks are multiples of this, and blocks are aligned to it.
const GRAIN: usize = 16;
/// The smallest chunk.
const LEAST: usize = 32;
/// The largest chunk that is kept for a thread.
const SMALL: usize = 512;
/// How many sizes that are.
const SIZES: usize = (SMALL - LEAST) / GRAIN + 1;
/// The most blocks that move between a cache and the heap at once.
const BATCH: u32 = 32;
/// Bytes of a chunk that are not the block's.
const OVERHEAD: usize = size_of::<usize>();

/// Where dlmalloc gets memory from.
struct Source {
    total: core::cell::Cell<u64>,
}

// SAFETY: the host's answer is fresh memory, which nothing else uses, zeroed.
unsafe impl dlmalloc::Allocator for Source {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let needed = page_up(size as u64);
        let step = needed.max((self.total.get() / 2).clamp(STEPS.0, STEPS.1));
        // Near the memory limit a whole step may be too much.
        for bytes in [step, needed] {
            let address = host::call(number::HEAP_GROW, [bytes]);
            if address > 0 {
                self.total.set(self.total.get() + bytes);
                return (address as *mut u8, bytes as usize, 0);
            }
        }
        (null_mut(), 0, 0)
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
        PAGE as usize
    }
}

/// dlmalloc, moved between threads under its lock.
struct Blocks(Dlmalloc<Source>);

// SAFETY: it has no relation to the thread that uses it, and the lock lets one thread at a time do that.
unsafe impl Send for Blocks {}

static SHARED: Lock<Blocks> = Lock::new(Blocks({
    let mut blocks = Dlmalloc::new_with_allocator(Source { total: core::cell::Cell::new(0) });
    // Memory never goes back before the instance ends, so nothing is gained by looking for some to give.
    blocks.set_max_release_check_rate(0);
    assert!(blocks.set_granularity(PAGE as usize));
    blocks
}));

/// A free block, in a list of blocks of its size.
struct Free {
    next: *mut Free,
}

/// The free blocks of one size.
#[derive(Clone, Copy)]
struct List {
    first: *mut Free,
    count: u32,
    /// How many blocks to fetch next time: it doubles, so that a thread that needs few takes few.
    batch: u32,
}

/// One thread's free blocks.
pub(crate) struct Cache {
    lists: [List; SIZES],
}

impl Cache {
    /// The calling thread's; null if there is no memory for one.
    #[inline]
    fn own() -> *mut Cache {
        let cache = header::own().cache.get();
        if cache.is_null() { Self::make() } else { cache }
    }

    #[cold]
    fn make() -> *mut Cache {
        // SAFETY: the size is that of a `Cache`, and dlmalloc's alignment is larger than its.
        let cache = unsafe { SHARED.hold().0.c_malloc(size_of::<Cache>()) }.cast::<Cache>();
        if !cache.is_null() {
            let empty = List { first: null_mut(), count: 0, batch: 2 };
            // SAFETY: just allocated for it.
            unsafe { cache.write(Cache { lists: [empty; SIZES] }) };
            header::own().cache.set(cache);
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
        // SAFETY: the block is free, and holds a pointer.
        unsafe { block.write(Free { next: self.first }) };
        self.first = block;
        self.count += 1;
    }

    /// Fetches a batch of blocks of `bytes`, and returns one of them, or null.
    #[cold]
    fn refill(&mut self, bytes: usize) -> *mut u8 {
        let batch = self.batch;
        self.batch = (batch * 2).min(BATCH);
        let mut blocks = SHARED.hold();
        for _ in 1..batch {
            // SAFETY: an ordinary allocation.
            let block = unsafe { blocks.0.c_malloc(bytes) };
            if block.is_null() {
                break;
            }
            // SAFETY: the block is free, and at least as large as asked for.
            unsafe { self.push(block) };
        }
        // SAFETY: as above.
        unsafe { blocks.0.c_malloc(bytes) }
    }

    /// Gives `count` blocks back.
    #[cold]
    fn give_back(&mut self, count: u32) {
        let mut blocks = SHARED.hold();
        for _ in 0..count {
            let block = self.pop();
            if !block.is_null() {
                // SAFETY: it came from dlmalloc and is in no list any more.
                unsafe { blocks.0.c_free(block) };
            }
        }
    }
}

/// Gives the calling thread's free blocks back; the thread is about to end.
pub(crate) fn drop_cache() {
    let cache = header::own().cache.replace(null_mut());
    if cache.is_null() {
        return;
    }
    // SAFETY: the header held it, and it is this thread's alone.
    for list in unsafe { &mut (*cache).lists } {
        list.give_back(list.count);
    }
    // SAFETY: it came from dlmalloc.
    unsafe { SHARED.hold().0.c_free(cache.cast()) };
}

/// Bytes of the chunk that serves a request.
#[inline]
const fn chunk_for(size: usize) -> usize {
    let chunk = (size + OVERHEAD + GRAIN - 1) & !(GRAIN - 1);
    if chunk < LEAST { LEAST } else { chunk }
}

/// Bytes of the chunk that a block lies in.
///
/// # Safety
/// `block` came from dlmalloc and has not been freed.
#[inline]
unsafe fn chunk_of(block: *mut u8) -> usize {
    // SAFETY: the word before a block in use is its chunk's size, with flags in the three lowest bits.
    unsafe { block.cast::<usize>().sub(1).read() & !7 }
}

fn allocate(size: usize) -> *mut u8 {
    if size <= SMALL - OVERHEAD {
        let cache = Cache::own();
        if !cache.is_null() {
            let chunk = chunk_for(size);
            // SAFETY: the cache is this thread's, and no other reference to the list is alive.
            let list = unsafe { &mut (*cache).lists[(chunk - LEAST) / GRAIN] };
            let block = list.pop();
            return if block.is_null() { list.refill(chunk - OVERHEAD) } else { block };
        }
    }
    // SAFETY: an ordinary allocation.
    unsafe { SHARED.hold().0.c_malloc(size) }
}

/// # Safety
/// `block` came from this heap and has not been freed.
unsafe fn release(block: *mut u8) {
    // SAFETY: the caller's promise.
    let chunk = unsafe { chunk_of(block) };
    if chunk <= SMALL {
        let cache = Cache::own();
        if !cache.is_null() {
            // SAFETY: as in `allocate`.
            let list = unsafe { &mut (*cache).lists[(chunk - LEAST) / GRAIN] };
            // SAFETY: the chunk is of this list's size.
            unsafe { list.push(block) };
            if list.count >= 2 * BATCH {
                list.give_back(BATCH);
            }
            return;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { SHARED.hold().0.c_free(block) }
}

fn aligned(align: usize, size: usize) -> *mut u8 {
    if align <= GRAIN {
        return allocate(size);
    }
    // SAFETY: an ordinary allocation with a power of two.
    unsafe { SHARED.hold().0.c_memalign(align, size) }
}

unsafe extern "C" {
    /// musl's.
    safe fn __errno_location() -> *mut i32;
}

const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;

/// C's answer to a request that cannot be served: null, and `errno`.
fn or_error(block: *mut u8) -> *mut c_void {
    if block.is_null() {
        // SAFETY: `errno` of the calling thread.
        unsafe { __errno_location().write(ENOMEM) };
    }
    block.cast()
}

/// C's `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    if size > isize::MAX as usize { or_error(null_mut()) } else { or_error(allocate(size)) }
}

/// C's `free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if !block.is_null() {
        // SAFETY: C's condition on what is freed.
        unsafe { release(block.cast()) }
    }
}

/// C's `calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else { return or_error(null_mut()) };
    let block = malloc(bytes);
    if !block.is_null() {
        // SAFETY: the block has that many bytes.
        unsafe { block.cast::<u8>().write_bytes(0, bytes) };
    }
    block
}

/// C's `realloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(size);
    }
    if size > isize::MAX as usize {
        return or_error(null_mut());
    }
    // SAFETY: C's condition: a block in use.
    let old = unsafe { chunk_of(block.cast()) };
    if old > SMALL && chunk_for(size) > SMALL {
        // SAFETY: as above.
        return or_error(unsafe { SHARED.hold().0.c_realloc(block.cast(), size) });
    }
    if chunk_for(size) <= old && old <= 2 * chunk_for(size) {
        return block;
    }
    let moved = malloc(size);
    if !moved.is_null() {
        // SAFETY: both blocks have that many bytes and do not overlap; the old one is in use until here.
        unsafe {
            core::ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), (old - OVERHEAD).min(size));
            release(block.cast());
        }
    }
    moved
}

/// C's `aligned_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() || size > isize::MAX as usize - align {
        return or_error(null_mut());
    }
    or_error(aligned(align, size))
}

/// `memalign`.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    aligned_alloc(align, size)
}

/// `posix_memalign`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> i32 {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return EINVAL;
    }
    if size > isize::MAX as usize - align {
        return ENOMEM;
    }
    let block = aligned(align, size);
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's pointer to a pointer.
    unsafe { out.write(block.cast()) };
    0
}

/// `malloc_usable_size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: the caller's block in use.
    if block.is_null() { 0 } else { unsafe { chunk_of(block.cast()) - OVERHEAD } }
}

/// What musl's own files call `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn __libc_malloc(size: usize) -> *mut c_void {
    malloc(size)
}

/// What musl's own files call `calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn __libc_calloc(count: usize, size: usize) -> *mut c_void {
    calloc(count, size)
}

/// What musl's own files call `realloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise is the same.
    unsafe { realloc(block, size) }
}

/// What musl's own files call `free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_free(block: *mut c_void) {
    // SAFETY: the caller's promise is the same.
    unsafe { free(block) }
}

/// The same heap for the personality's own vectors.
struct Own;

#[global_allocator]
static OWN: Own = Own;

// SAFETY: blocks are at least as large and as aligned as asked for, and belong to their owner until they are freed.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        aligned(layout.align(), layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: it came from `alloc`.
        unsafe { release(block) }
    }
}
