//! Whether a file is in the kernel's page cache.
#![allow(unsafe_code, reason = "posix_fadvise and mincore are calls of the host's C library")]

use crate::harness::Result;
use std::fs::File;
use std::io::Error;
use std::os::fd::AsRawFd;
use std::path::Path;

const PAGE: usize = 4096;

/// Has a file leave the page cache. An error if the kernel keeps some of it.
pub(crate) fn evict(path: &Path) -> Result<()> {
    let said = |error: Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(said)?;
    // Pages that the disk does not have yet would stay.
    file.sync_all().map_err(said)?;
    // SAFETY: posix_fadvise(2): advice about a descriptor that is open.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => {}
        error => return Err(said(Error::from_raw_os_error(error))),
    }
    match cached(&file).map_err(said)? {
        0 => Ok(()),
        pages => Err(format!("{}: {pages} pages stay in the cache", path.display())),
    }
}

/// How many pages of a file are in the page cache.
fn cached(file: &File) -> std::io::Result<usize> {
    let bytes = file.metadata()?.len() as usize;
    if bytes == 0 {
        return Ok(0);
    }
    let mut there = vec![0_u8; bytes.div_ceil(PAGE)];
    // SAFETY: a new mapping where the kernel likes, which is not accessed; mincore(2) writes a byte for each page of it.
    let looked = unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if memory == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let looked = libc::mincore(memory, bytes, there.as_mut_ptr());
        libc::munmap(memory, bytes);
        looked
    };
    if looked != 0 {
        return Err(Error::last_os_error());
    }
    Ok(there.iter().filter(|page| *page & 1 == 1).count())
}
