//! Memory for the contents of files in memory.
//!
//! ```text
//!   … 64 KiB            128 KiB … 1 MiB                             2 MiB
//!   the heap            a part of a piece of a memory file          a piece of it, on a huge page
//!                       (`super::parts`)                            (`super::pool`)
//! ```
//!
//! What is in the memory file can be shown by mappings, and a mapping of less is copied at once in any case. If there is no memory file, what is small comes from the
//! heap, and what is large is a mapping of its own. Large ones are on huge pages: a file of many megabytes then costs a page fault for every two megabytes instead of
//! one for every four kilobytes.

use super::mount::{Mount, Source};
use super::parts::Parts;
use super::pool::{PIECE, Pool, unmap};
use crate::pager::Window;
use std::alloc::Layout;
use std::ops::Range;
use std::sync::OnceLock;

/// Pieces from this size on do not come from the heap.
const LARGE: u64 = PIECE;

/// What a small piece is aligned to.
const ALIGN: usize = 4096;

/// The memory of all files in memory of a domain.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    /// Made for the first piece; `None` if it could not be.
    pool: OnceLock<Option<Pool>>,
    /// Which of its pieces are divided.
    parts: Parts,
}

impl Stores {
    /// Zeroed memory: its address, or 0.
    pub(crate) fn alloc(&self, mounts: &[Mount], bytes: u64) -> u64 {
        let Some(layout) = layout(bytes) else { return 0 };
        let pool = || self.pool.get_or_init(|| Pool::new(size(mounts)).ok()).as_ref();
        if bytes < LARGE {
            let part = || self.parts.take(pool()?, bytes);
            // SAFETY: the size is not zero.
            let of_heap = || unsafe { std::alloc::alloc_zeroed(layout) } as u64;
            return Parts::has(bytes).then(part).flatten().unwrap_or_else(of_heap);
        }
        let piece = (bytes == PIECE).then(|| pool()?.take()).flatten();
        piece.unwrap_or_else(|| map(bytes))
    }

    /// Takes it back.
    ///
    /// # Safety
    /// The address came from [`Stores::alloc`] with this size, and the memory is used no more.
    pub(crate) unsafe fn free(&self, address: u64, bytes: u64) {
        let Some(layout) = layout(bytes) else { return };
        if bytes < LARGE {
            if self.pool().is_some_and(|pool| self.parts.put(pool, address, bytes)) {
                return;
            }
            // SAFETY: the caller's promise.
            return unsafe { std::alloc::dealloc(address as *mut u8, layout) };
        }
        if !self.pool().is_some_and(|pool| pool.put(address)) {
            // SAFETY: the caller's promise.
            unsafe { unmap(address, bytes) };
        }
    }

    /// The file behind an address of such memory, if there is one.
    pub(crate) fn window(&self, address: u64) -> Option<Window<'_>> {
        self.pool()?.window(address)
    }

    /// Which addresses of a range of such memory are to be read, to know all of it: the rest is zero.
    pub(crate) fn memory(&self, range: Range<u64>) -> Vec<Range<u64>> {
        // What is no hole of a memory file has its pages, or shows the page of zeros.
        self.pool().and_then(|pool| pool.memory(&range)).unwrap_or_else(|| vec![range])
    }

    fn pool(&self) -> Option<&Pool> {
        self.pool.get()?.as_ref()
    }
}

/// Bytes that files in memory may have: what each mount allows, and a piece that replaces another.
fn size(mounts: &[Mount]) -> u64 {
    let of_mount = |mount: &Mount| match mount.source {
        Source::Memory { size } => size.saturating_add(2 * PIECE),
        _ => 0,
    };
    mounts.iter().map(of_mount).fold(0, u64::saturating_add)
}

/// A mapping of its own: its address, or 0.
fn map(bytes: u64) -> u64 {
    let room = bytes + PIECE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping where the kernel likes; it replaces nothing.
    let mapped =
        unsafe { libc::mmap(std::ptr::null_mut(), room as usize, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return 0;
    }
    let (start, end) = (mapped as u64, mapped as u64 + room);
    let address = start.next_multiple_of(PIECE);
    // SAFETY: what is unmapped lies in the new mapping, outside of what is returned. Advice may be ignored.
    unsafe {
        unmap(start, address - start);
        unmap(address + bytes, end - (address + bytes));
        libc::madvise(address as *mut libc::c_void, bytes as usize, libc::MADV_HUGEPAGE);
    }
    address
}

fn layout(bytes: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(bytes).ok()?, ALIGN).ok().filter(|layout| layout.size() > 0)
}
