//! Reading a file that has the pages of a program: some of them, to where they belong, and all of them.
#![allow(unsafe_code, reason = "preadv to memory that is mapped for it is what is measured")]

use super::last_error;
use crate::harness::Result;
use crate::page_cache;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

const PAGE: usize = 4096;

/// Reads the first `pages` pages of a file into as many pages that lie apart in `bytes` of fresh memory, so often. The file is in the page cache.
pub(super) fn some(path: &Path, count: usize, bytes: usize, pages: usize) -> Result<f64> {
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    black_box(std::fs::read(path).map_err(said)?);
    let stride = (bytes / pages.max(1)).next_multiple_of(PAGE);
    let bytes = stride * pages;
    let start = Instant::now();
    for _ in 0..count {
        let file = File::open(path).map_err(said)?;
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping where the kernel likes; it replaces nothing.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(last_error("mmap"));
        }
        let places: Vec<_> = (0..pages)
            .map(|page| libc::iovec { iov_base: memory.wrapping_byte_add(page * stride), iov_len: PAGE })
            .collect();
        // SAFETY: each place is a page of the mapping, and no two are the same.
        let read = unsafe { libc::preadv(file.as_raw_fd(), places.as_ptr(), places.len() as i32, 0) };
        // SAFETY: the mapping is ours, and nothing of it is used any more.
        unsafe { libc::munmap(memory, bytes) };
        if read != (pages * PAGE) as isize {
            return Err(format!("{}: {read} bytes were read of {pages} pages", path.display()));
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

/// Reads a whole file that is not in the page cache, so often.
pub(super) fn whole(path: &Path, count: usize) -> Result<f64> {
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut buffer = vec![1; std::fs::metadata(path).map_err(said)?.len() as usize];
    let mut took = 0.0;
    for _ in 0..count {
        page_cache::evict(path)?;
        let start = Instant::now();
        File::open(path).and_then(|mut file| file.read_exact(&mut buffer)).map_err(said)?;
        took += start.elapsed().as_nanos() as f64;
        black_box(&buffer);
    }
    Ok(took / count as f64)
}
