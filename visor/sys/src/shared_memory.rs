//! Memory that two processes read and write, mapped where both can.
//!
//! The other process may change it at any time, so there is never a reference to it: bytes are copied into it and out of it, and what was
//! copied is what is used. It may not take it away: a file that can be shortened is refused, since a page without a file behind it would
//! end the process that touches it.

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// A mapping of a file that keeps its size.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    len: u64,
}

// SAFETY: the mapping belongs to this value, and its bytes are accessed by copying alone.
unsafe impl Send for SharedMemory {}
// SAFETY: as above. Copies that threads of this process make at the same time are what those of another process are: a mixture of bytes.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps the first so many bytes of a file. An error if it has fewer, or may have fewer later.
    pub fn map(file: &File, len: u64) -> io::Result<SharedMemory> {
        // For anything but a memfd this is an error.
        let seals = SealFlag::from_bits_truncate(fcntl(file.as_fd(), FcntlArg::F_GET_SEALS)?);
        if !seals.contains(SealFlag::F_SEAL_SHRINK) || file.metadata()?.len() < len || len == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the memory may become too short"));
        }
        let (rights, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: mmap(2): a new mapping at an address that the kernel chooses, which nothing else uses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len as usize, rights, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMemory { start, len })
    }

    /// Copies the bytes there into a buffer of the same length.
    ///
    /// # Panics
    /// If there are no such bytes, or not as many as the buffer takes. So do the others.
    pub fn read(&self, part: Range<u64>, into: &mut [u8]) {
        let from = self.at(&part);
        assert_eq!(part.end - part.start, into.len() as u64, "{part:?}");
        // SAFETY: the part lies in the mapping, and the buffer, which is as long, outside of it. Its bytes are not initialised by anything
        // else but may have any value.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    /// A copy of the bytes there.
    pub fn to_vec(&self, part: Range<u64>) -> Vec<u8> {
        let from = self.at(&part);
        let len = (part.end - part.start) as usize;
        let mut bytes = Vec::with_capacity(len);
        // SAFETY: as in `read`; the vector has room for as many bytes, which are initialised then.
        unsafe {
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len);
            bytes.set_len(len);
        }
        bytes
    }

    /// Copies bytes to that place.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        let to = self.at(&(at..at.saturating_add(bytes.len() as u64)));
        // SAFETY: as in `read`, the other way.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Makes these bytes zero.
    pub fn clear(&self, part: Range<u64>) {
        // SAFETY: the part lies in the mapping.
        unsafe { std::ptr::write_bytes(self.at(&part), 0, (part.end - part.start) as usize) };
    }

    /// Where a part begins.
    fn at(&self, part: &Range<u64>) -> *mut u8 {
        assert!(part.start <= part.end && part.end <= self.len, "{part:?} of {}", self.len);
        // SAFETY: it lies in the mapping, or at its end.
        unsafe { self.start.as_ptr().add(part.start as usize) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: munmap(2): the mapping that was made for this value, to whose bytes there are no references.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use std::os::unix::fs::FileExt;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn file(len: u64, seals: SealFlag) -> File {
        let file = File::from(memfd_create(c"test", MFdFlags::MFD_ALLOW_SEALING).expect("a file"));
        file.set_len(len).expect("its size");
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).expect("seals");
        file
    }

    #[test]
    fn what_one_writes_the_other_reads() {
        let file = file(10_000, SealFlag::F_SEAL_SHRINK);
        let (ours, theirs) = [&file; 2].map(|file| SharedMemory::map(file, 10_000).expect("mapped")).into();
        ours.write(5000, b"some bytes");
        assert_eq!(theirs.to_vec(5000..5010), b"some bytes");
        let mut four = [0; 4];
        theirs.read(5005..5009, &mut four);
        assert_eq!(&four, b"byte");
        theirs.clear(5000..5005);
        let mut whole = vec![7; 10_000];
        file.read_exact_at(&mut whole, 0).expect("all of it");
        assert_eq!(&whole[5000..5010], b"\0\0\0\0\0bytes");
        assert_eq!(whole.iter().filter(|byte| **byte != 0).count(), 5);
        assert!(theirs.to_vec(10_000..10_000).is_empty());
    }

    #[test]
    fn files_that_are_too_short_or_may_become_so_are_refused() {
        for (len, seals) in [(4095, SealFlag::F_SEAL_SHRINK), (4096, SealFlag::F_SEAL_GROW)] {
            SharedMemory::map(&file(len, seals), 4096).expect_err("it is refused");
        }
        SharedMemory::map(&file(0, SealFlag::F_SEAL_SHRINK), 0).expect_err("nothing");
        SharedMemory::map(&File::open("/proc/self/exe").expect("a file"), 4096).expect_err("no memory file");
    }

    #[test]
    fn nothing_outside_of_it_is_touched() {
        let memory = SharedMemory::map(&file(8192, SealFlag::F_SEAL_SHRINK), 4096).expect("mapped");
        let panics = |call: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        panics(&mut || memory.write(4090, &[7; 7]));
        panics(&mut || memory.write(u64::MAX, &[7; 7]));
        panics(&mut || memory.clear(4096..4097));
        panics(&mut || drop(memory.to_vec(4000..4097)));
        #[allow(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        panics(&mut || drop(memory.to_vec(2..1)));
        panics(&mut || memory.read(0..4, &mut [0; 5]));
    }
}
