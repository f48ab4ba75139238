//! Going back by hand: pages of a private mapping of a file in memory are written to, and dropped. What a rewind cannot be below.
#![allow(unsafe_code, reason = "madvise is what is measured")]

use super::last_error;
use crate::harness::Result;
use std::ptr;
use std::time::Instant;

/// Writes to so many pages, spread over so many bytes, and takes the file's in their place; so often.
pub(super) fn written_and_dropped(count: usize, bytes: usize, pages: usize) -> Result<f64> {
    // SAFETY: memfd_create(2): the name is a string that ends with a zero.
    let file = unsafe { libc::memfd_create(c"bench".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(last_error("memfd_create"));
    }
    // SAFETY: ftruncate(2): a descriptor and a number.
    if unsafe { libc::ftruncate(file, bytes as libc::off_t) } != 0 {
        return Err(last_error("ftruncate"));
    }
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: mmap(2): a new mapping, in a place that the kernel chooses.
    let map = |flags| match unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, file, 0) } {
        libc::MAP_FAILED => Err(last_error("mmap")),
        start => Ok(start.cast::<u8>()),
    };
    // The file has all of its pages.
    // SAFETY: the mapping has so many bytes, which the file has as well.
    unsafe { map(libc::MAP_SHARED)?.write_bytes(1, bytes) };
    let memory = map(libc::MAP_PRIVATE)?;
    let start = Instant::now();
    for round in 0..count {
        for page in 0..pages {
            // SAFETY: the place is within the mapping.
            unsafe { memory.add(bytes / pages * page).write_volatile(round as u8) };
        }
        // SAFETY: madvise(2): a mapping of this function's own, to which nothing refers.
        if unsafe { libc::madvise(memory.cast(), bytes, libc::MADV_DONTNEED) } != 0 {
            return Err(last_error("madvise"));
        }
    }
    // The process ends with the measurement, and the mappings and the descriptor with it.
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}
