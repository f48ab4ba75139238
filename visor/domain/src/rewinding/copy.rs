//! The memory file that has a cell's memory as it was at a capture. Offsets in it are those in the cell.

use monohull_abi::layout::{CELL_SIZE, PAGE};
use monohull_trampoline::system;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

/// Bytes of a page.
pub(super) type PageBytes = [u8; PAGE as usize];

/// The memory file, and where trusted code sees it.
pub(super) struct Copy {
    file: File,
    view: *mut u8,
    base: u64,
}

// SAFETY: the view is a mapping of this value's own, and is used through it alone.
unsafe impl Send for Copy {}

impl Copy {
    /// An empty one for the cell that begins at `base`.
    pub(super) fn new(base: u64) -> io::Result<Copy> {
        let file = File::from(memfd_create(c"monohull-rewind", MFdFlags::MFD_CLOEXEC)?);
        file.set_len(CELL_SIZE)?;
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping where the kernel likes; it replaces nothing.
        let view = unsafe { libc::mmap(ptr::null_mut(), CELL_SIZE as usize, rights, flags, file.as_raw_fd(), 0) };
        if view == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Copy { file, view: view.cast(), base })
    }

    /// The file, to be mapped into the cell.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Where trusted code sees what the copy has of a page of the cell.
    fn at(&self, page: u64) -> *mut u8 {
        let offset = page - self.base;
        assert!(offset.is_multiple_of(PAGE) && offset < CELL_SIZE, "a page of the cell");
        // SAFETY: the view is as long as a cell.
        unsafe { self.view.add(offset as usize) }
    }

    /// What it has of a page.
    pub(super) fn read(&self, page: u64, to: &mut PageBytes) -> io::Result<()> {
        // SAFETY: a page of the view, and the caller's own; a fault is survived.
        copied(unsafe { system::copy(to.as_mut_ptr(), self.at(page), to.len()) })
    }

    /// Replaces what it has of a page.
    pub(super) fn write(&self, page: u64, bytes: &PageBytes) -> io::Result<()> {
        // SAFETY: as in `read`.
        copied(unsafe { system::copy(self.at(page), bytes.as_ptr(), bytes.len()) })
    }

    /// Frees the memory of all pages from this address on. Nothing of them is mapped in the cell that is still of use.
    pub(super) fn cut(&self, address: u64) -> io::Result<()> {
        self.file.set_len(address - self.base)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by this value and ends with it.
        unsafe { libc::munmap(self.view.cast(), CELL_SIZE as usize) };
    }
}

/// Reads a page of the cell.
///
/// # Safety
/// It lies in a cell.
pub(super) unsafe fn read_cell(page: u64, to: &mut PageBytes) -> io::Result<()> {
    // SAFETY: the caller's promise; a fault is survived.
    copied(unsafe { system::copy(to.as_mut_ptr(), page as *const u8, to.len()) })
}

fn copied(done: bool) -> io::Result<()> {
    if done { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
}
