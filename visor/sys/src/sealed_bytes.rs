//! The bytes of sealed memory, mapped where they can be read as a slice.
//!
//! A slice promises that its bytes do not change and stay where they are. Another process may hold the same file, so only the kernel can
//! promise that: the seals forbid every write, and every change of the size (memfd_create(2), fcntl(2)).
//!
//! The seals say nothing of what was there before. Through a mapping a process can write behind the end of its file, up to the end of the
//! last page. Reads do not show these bytes, and other mappings do, so a file that has some is refused.

use monohull_abi::layout::page_up;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// A read-only mapping of a sealed file.
#[derive(Debug)]
pub struct SealedBytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is only read, and belongs to this value.
unsafe impl Send for SealedBytes {}
// SAFETY: as above.
unsafe impl Sync for SealedBytes {}

impl SealedBytes {
    /// Maps a file. An error if it is not sealed against writes and against changes of its size, or if there is anything behind its end.
    pub fn map(file: impl AsFd) -> io::Result<SealedBytes> {
        let needed = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        // For anything but a memfd this is an error.
        let seals = SealFlag::from_bits_truncate(fcntl(file.as_fd(), FcntlArg::F_GET_SEALS)?);
        if !seals.contains(needed) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the memory is not sealed"));
        }
        let len = std::fs::File::from(file.as_fd().try_clone_to_owned()?).metadata()?.len() as usize;
        if len == 0 {
            return Ok(SealedBytes { start: NonNull::dangling(), len });
        }
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: mmap(2): a new mapping at an address that the kernel chooses, which nothing else uses. It is private, because older
        // kernels take a shared one of a sealed file for one that may become writable; it is never written, so its pages are the file's.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let bytes = SealedBytes { start, len };
        // SAFETY: the mapping has whole pages, and this is the rest of its last one; by the seals no process changes it.
        let rest = unsafe { std::slice::from_raw_parts(start.as_ptr().add(len), page_up(len as u64) as usize - len) };
        if rest.iter().any(|byte| *byte != 0) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the memory has bytes behind its end"));
        }
        Ok(bytes)
    }
}

impl Deref for SealedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has `len` bytes and lives as long as this value; by the seals no process changes them, and none lies behind the
        // file's end. A `len` of 0 has no mapping, and needs none.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for SealedBytes {
    fn drop(&mut self) {
        if self.len != 0 {
            // SAFETY: munmap(2): the mapping that was made for this value, to whose bytes there are no more references.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn memory(bytes: &[u8]) -> File {
        let file = memfd_create(c"test", MFdFlags::MFD_ALLOW_SEALING).expect("a file");
        let file = File::from(file);
        file.write_all_at(bytes, 0).expect("written");
        file
    }

    #[test]
    fn sealed_files_are_read_in_place() {
        for bytes in [&b""[..], b"a few", &[7; 10_000]] {
            let file = memory(bytes);
            fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::all())).expect("sealed");
            let mapped = SealedBytes::map(&file).expect("it is sealed");
            drop(file);
            assert_eq!(&*mapped, bytes);
        }
    }

    #[test]
    fn bytes_behind_the_end_are_refused() {
        let file = memory(b"a few");
        // SAFETY: mmap(2), munmap(2): a new mapping of one page, which nothing else uses.
        unsafe {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let page = libc::mmap(std::ptr::null_mut(), 5, rights, libc::MAP_SHARED, file.as_raw_fd(), 0);
            assert_ne!(page, libc::MAP_FAILED);
            page.cast::<u8>().add(100).write(1);
            libc::munmap(page, 5);
        }
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::all())).expect("sealed");
        assert_eq!(SealedBytes::map(&file).expect_err("they are hidden").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn files_that_may_change_are_refused() {
        let size = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        for seals in [SealFlag::empty(), size, SealFlag::F_SEAL_WRITE, SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW] {
            let file = memory(b"bytes");
            fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).expect("some seals");
            assert_eq!(SealedBytes::map(&file).expect_err("it may change").kind(), io::ErrorKind::InvalidInput);
        }
        let file = File::open("/proc/self/exe").expect("a file");
        SealedBytes::map(&file).expect_err("no memory file");
    }
}
