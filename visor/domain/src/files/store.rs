//! Memory for the contents of files in memory.
//!
//! Small pieces come from the heap. Large ones are mappings of their own, aligned to huge pages and asking for them: a
//! file of many megabytes then costs a page fault for every two megabytes instead of one for every four kilobytes.

use std::alloc::Layout;

/// Pieces from this size on are mappings.
const HUGE: u64 = 2 << 20;

/// What a small piece is aligned to.
const ALIGN: usize = 4096;

/// Zeroed memory: its address, or 0.
pub(crate) fn store_alloc(bytes: u64) -> u64 {
    let Some(layout) = layout(bytes) else { return 0 };
    if bytes < HUGE {
        // SAFETY: the size is not zero.
        return unsafe { std::alloc::alloc_zeroed(layout) } as u64;
    }
    let room = bytes + HUGE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping where the kernel likes; it replaces nothing.
    let mapped =
        unsafe { libc::mmap(std::ptr::null_mut(), room as usize, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return 0;
    }
    let (start, end) = (mapped as u64, mapped as u64 + room);
    let address = start.next_multiple_of(HUGE);
    // SAFETY: what is unmapped lies in the new mapping, outside of what is returned. Advice may be ignored.
    unsafe {
        unmap(start, address - start);
        unmap(address + bytes, end - (address + bytes));
        libc::madvise(address as *mut libc::c_void, bytes as usize, libc::MADV_HUGEPAGE);
    }
    address
}

/// Takes it back.
///
/// # Safety
/// The address came from [`store_alloc`] with this size, and the memory is used no more.
pub(crate) unsafe fn store_free(address: u64, bytes: u64) {
    let Some(layout) = layout(bytes) else { return };
    // SAFETY: the caller's promise.
    unsafe {
        match bytes < HUGE {
            true => std::alloc::dealloc(address as *mut u8, layout),
            false => unmap(address, bytes),
        }
    }
}

fn layout(bytes: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(bytes).ok()?, ALIGN).ok().filter(|layout| layout.size() > 0)
}

/// # Safety
/// The range is whole pages of a mapping that is not used any more.
unsafe fn unmap(address: u64, bytes: u64) {
    if bytes > 0 {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(address as *mut libc::c_void, bytes as usize) };
    }
}
