//! Pieces of memory that can be mapped a second time: those of files in memory.
//!
//! ```text
//!   memory file   | piece 0: 2 MiB | piece 1 | hole | piece 3 | …      MAP_SHARED: where modules read and write
//!                       └── MAP_PRIVATE: what a mapping of the file shows (crate::pager)
//! ```
//!
//! Each piece is a huge page where the host has one: it costs one page fault, as anonymous memory on huge pages does, and so does
//! showing it. The lowest free piece is taken first, so that a file which is written from start to end lies in one run.

use crate::pager::Window;
use monohull_trampoline::system::copy;
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::{Whence, lseek64};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Bytes of a piece: a huge page.
pub(super) const PIECE: u64 = 2 << 20;
/// Most bytes of a pool: a part of the addresses that a process has.
const BYTES_MAX: u64 = 1 << 44;
/// From Linux 6.1 on: puts these pages on a huge page now.
const MADV_COLLAPSE: i32 = 25;

/// The memory file, and where modules see it.
#[derive(Debug)]
pub(super) struct Pool {
    file: File,
    address: u64,
    pieces: u64,
    free: Mutex<Free>,
    /// The host has had a huge page each time so far.
    has_huge_pages: AtomicBool,
    /// It puts no memory file on huge pages. Then other memory is better, which may lie on some.
    is_unfit: AtomicBool,
}

/// Which pieces are not in use.
#[derive(Debug, Default)]
struct Free {
    /// From here on none has been taken yet.
    next: u64,
    /// Below that, those that have been given back; their memory has been freed.
    back: BTreeSet<u64>,
}

impl Pool {
    /// A pool of pieces for files of `bytes` together. It takes addresses, and no memory.
    pub(super) fn new(bytes: u64) -> io::Result<Pool> {
        let len = bytes.checked_next_multiple_of(PIECE).filter(|len| (1..=BYTES_MAX).contains(len));
        let len = len.ok_or(io::ErrorKind::FileTooLarge)?;
        let file = File::from(memfd_create(c"monohull-files", MFdFlags::MFD_CLOEXEC)?);
        file.set_len(len)?;
        let room = (len + PIECE) as usize;
        let reserved = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping where the kernel likes; it replaces nothing.
        let reserved = unsafe { libc::mmap(std::ptr::null_mut(), room, libc::PROT_NONE, reserved, -1, 0) };
        if reserved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let (start, end) = (reserved as u64, reserved as u64 + room as u64);
        let address = start.next_multiple_of(PIECE);
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: it replaces a part of the mapping that has just been made; what is unmapped lies in that one too, outside of what is
        // kept.
        unsafe {
            unmap(start, address - start);
            unmap(address + len, end - (address + len));
            let view = libc::mmap(address as *mut libc::c_void, len as usize, rights, flags, file.as_raw_fd(), 0);
            if view == libc::MAP_FAILED {
                let error = io::Error::last_os_error();
                unmap(address, len);
                return Err(error);
            }
        }
        let (has_huge_pages, is_unfit) = (AtomicBool::new(true), AtomicBool::new(false));
        Ok(Pool { file, address, pieces: len / PIECE, free: Mutex::default(), has_huge_pages, is_unfit })
    }

    /// A piece of zeros: its address; `None` if all are in use, or if the host cannot put memory files on huge pages.
    pub(super) fn take(&self) -> Option<u64> {
        if self.is_unfit.load(Ordering::Relaxed) {
            return None;
        }
        let address = self.take_without_memory()?;
        if self.has_huge_pages.load(Ordering::Relaxed) {
            // SAFETY: a piece of the view that nothing uses, which holds zeros before and after; a fault is survived. The kernel asks for
            // a page to begin with.
            let status = unsafe {
                copy(address as *mut u8, [0].as_ptr(), 1);
                libc::madvise(address as *mut libc::c_void, PIECE as usize, MADV_COLLAPSE)
            };
            if status != 0 {
                // It looks for one each time it is asked.
                self.has_huge_pages.store(false, Ordering::Relaxed);
                if io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
                    self.is_unfit.store(true, Ordering::Relaxed);
                    self.put(address);
                    return None;
                }
            }
        }
        Some(address)
    }

    /// The same, without any page: each costs what it costs when it is used.
    pub(super) fn take_without_memory(&self) -> Option<u64> {
        let mut free = self.free();
        let piece = match free.back.pop_first() {
            Some(piece) => piece,
            None if free.next < self.pieces => {
                free.next += 1;
                free.next - 1
            }
            None => return None,
        };
        Some(self.address + piece * PIECE)
    }

    /// The piece that an address is in, if it is one of this pool.
    pub(super) fn piece_of(&self, address: u64) -> Option<u64> {
        self.offset(address).map(|offset| address - offset % PIECE)
    }

    /// Takes a piece back, if it is one of this pool. Its memory is the host's again.
    pub(super) fn put(&self, address: u64) -> bool {
        let Some(offset) = self.offset(address) else { return false };
        let mode = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
        // SAFETY: a system call on a descriptor that is open; nothing uses the piece any more.
        let freed = unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset as i64, PIECE as i64) } == 0;
        // One that may still hold something is not used again.
        if freed {
            self.free().back.insert(offset / PIECE);
        }
        true
    }

    /// The file behind an address, from there on.
    pub(super) fn window(&self, address: u64) -> Option<Window<'_>> {
        let offset = self.offset(address)?;
        Some(Window { file: self.file.as_fd(), offset, len: self.pieces * PIECE - offset })
    }

    /// Which addresses of a range have memory, if it is one of this pool: elsewhere it is a hole of zeros, which a look at it would fill. What the
    /// kernel has swapped out has some.
    pub(super) fn memory(&self, range: &Range<u64>) -> Option<Vec<Range<u64>>> {
        let (start, end) = (self.offset(range.start)?, range.end.checked_sub(self.address)?);
        let mut memory = Vec::new();
        let mut at = start;
        let find = |from: u64, whence| lseek64(&self.file, from as i64, whence).map(|found| found as u64);
        while at < end {
            let found = match find(at, Whence::SeekData) {
                Ok(found) => found,
                // There is no more.
                Err(Errno::ENXIO) => break,
                Err(_) => return None,
            };
            if found >= end {
                break;
            }
            at = find(found, Whence::SeekHole).ok()?.min(end);
            memory.push(self.address + found..self.address + at);
        }
        Some(memory)
    }

    fn offset(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.address).filter(|offset| *offset < self.pieces * PIECE)
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().expect("the free pieces")
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own; the modules that used it have been stopped.
        unsafe { unmap(self.address, self.pieces * PIECE) };
    }
}

/// # Safety
/// The range is whole pages of a mapping that is not used any more.
pub(super) unsafe fn unmap(address: u64, bytes: u64) {
    if bytes > 0 {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(address as *mut libc::c_void, bytes as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(address: u64) -> &'static mut u8 {
        // SAFETY: the tests name addresses of pieces that they have taken, one reference at a time.
        unsafe { &mut *(address as *mut u8) }
    }

    /// A pool whose pieces are on usual pages, which every host has.
    fn pool(bytes: u64) -> (Pool, u64) {
        let pool = Pool::new(bytes).expect("a memory file");
        pool.has_huge_pages.store(false, Ordering::Relaxed);
        let first = pool.take().expect("a piece");
        (pool, first)
    }

    #[test]
    fn a_host_that_puts_no_memory_file_on_huge_pages_gets_other_memory() {
        let pool = Pool::new(2 * PIECE).expect("a memory file");
        let first = pool.take();
        assert_eq!(first.is_none(), pool.is_unfit.load(Ordering::Relaxed));
        pool.is_unfit.store(true, Ordering::Relaxed);
        assert_eq!(pool.take(), None);
    }

    #[test]
    fn pieces_are_zero_when_they_are_used_again() {
        let (pool, first) = pool(3 * PIECE - 1);
        let taken = [Some(first), pool.take(), pool.take()].map(|piece| piece.expect("a piece"));
        assert_eq!(taken.map(|address| address - taken[0]), [0, PIECE, 2 * PIECE], "side by side");
        assert_eq!(pool.take(), None, "there are no more");
        for address in taken {
            *byte(address) = 7;
            *byte(address + PIECE - 1) = 9;
        }
        assert!(pool.put(taken[2]) && pool.put(taken[1]));
        let again = pool.take().expect("a piece");
        assert_eq!(again, taken[1], "the lowest first");
        assert_eq!((*byte(again), *byte(again + PIECE - 1)), (0, 0));
        assert_eq!((*byte(taken[0]), *byte(taken[0] + PIECE - 1)), (7, 9), "others are as they were");
        assert!(!pool.put(taken[0] - 1) && !pool.put(taken[0] + 3 * PIECE), "memory of others is not the pool's");
    }

    /// To look at them all would give each a page.
    #[test]
    fn it_is_known_which_pages_there_are() {
        use std::os::unix::fs::MetadataExt;
        const PAGE: u64 = 4096;
        let (pool, first) = pool(2 * PIECE);
        assert_eq!(pool.memory(&(first..first + PIECE)), Some(Vec::new()));
        let second = pool.take().expect("a piece");
        for page in [3, 4, 400, 511] {
            *byte(first + page * PAGE) = 7;
        }
        *byte(second) = 9;
        let blocks = || pool.file.metadata().expect("it is open").blocks();
        let before = blocks();
        let page = |page: u64| first + page * PAGE;
        let memory = |pages: Range<u64>| {
            let found = pool.memory(&(page(pages.start)..page(pages.end))).expect("the pool's");
            let pages = found.into_iter().flat_map(|range| range.step_by(PAGE as usize));
            pages.map(|address| (address - first) / PAGE).collect::<Vec<_>>()
        };
        assert_eq!(memory(0..512), [3, 4, 400, 511]);
        assert_eq!(memory(511..1024), [511, 512]);
        assert!(memory(4..4).is_empty());
        assert_eq!(memory(4..300), [4]);
        assert_eq!(pool.memory(&(first - PAGE..first)), None, "memory of others");
        assert_eq!(blocks(), before);
        assert_eq!(*byte(page(5)), 0);
        assert!(blocks() > before, "the control: a look at a hole fills it");
    }

    #[test]
    fn a_window_is_the_rest_of_the_file() {
        let (pool, first) = pool(2 * PIECE);
        let window = pool.window(first + PIECE + 5).expect("inside");
        assert_eq!((window.offset, window.len), (PIECE + 5, PIECE - 5));
        assert!(pool.window(first + 2 * PIECE).is_none() && pool.window(first - 1).is_none());
    }

    #[test]
    fn no_pool_is_empty_or_larger_than_the_addresses() {
        for bytes in [0, BYTES_MAX + 1, u64::MAX] {
            assert!(Pool::new(bytes).is_err(), "{bytes}");
        }
    }
}
