//! One page that is assembled from pieces before it is copied: the last of a file, or one whose bytes are not contiguous.
//!
//! The pieces may be unreadable. Only carriers survive faults ([`crate::fault`]), so the kernel reads them: it writes each
//! piece to a page of a memory file, or returns an error.

use super::source::Source;
use monohull_abi::layout::PAGE;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;

/// The page.
#[derive(Debug)]
pub(super) struct Scratch {
    file: File,
    page: NonNull<libc::c_void>,
}

// SAFETY: the mapping is the value's own.
unsafe impl Send for Scratch {}

impl Scratch {
    pub(super) fn new() -> io::Result<Scratch> {
        // SAFETY: a name that ends with a zero byte; the result is checked.
        let file = unsafe {
            match libc::memfd_create(c"monohull-page".as_ptr(), libc::MFD_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error()),
                descriptor => File::from_raw_fd(descriptor),
            }
        };
        file.set_len(PAGE)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel likes; it replaces nothing.
        let page =
            unsafe { libc::mmap(std::ptr::null_mut(), PAGE as usize, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        match NonNull::new(page) {
            Some(page) if page.as_ptr() != libc::MAP_FAILED => Ok(Scratch { file, page }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Assembles the page at an offset of a mapping. Its address, valid until the next call.
    pub(super) fn page(&mut self, source: &Source, offset: u64) -> io::Result<u64> {
        // SAFETY: the page is mapped, and only this thread uses it.
        unsafe { self.page.as_ptr().cast::<u8>().write_bytes(0, PAGE as usize) };
        let mut done = 0;
        while done < PAGE {
            let segment = source.at(offset + done);
            let step = segment.len.min(PAGE - done);
            if step == 0 {
                break;
            }
            if let Some(from) = segment.address {
                self.write(from, step, done)?;
            }
            done += step;
        }
        Ok(self.page.as_ptr() as u64)
    }

    fn write(&mut self, mut from: u64, mut len: u64, mut at: u64) -> io::Result<()> {
        while len > 0 {
            let file = self.file.as_raw_fd();
            // SAFETY: the kernel reads what it can, and survives what it cannot.
            let written = unsafe { libc::pwrite64(file, from as *const libc::c_void, len as usize, at as i64) };
            match u64::try_from(written) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => (from, len, at) = (from + written, len - written, at + written),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours, which is not used any more.
        unsafe { libc::munmap(self.page.as_ptr(), PAGE as usize) };
    }
}
