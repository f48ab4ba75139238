//! Reading a file that has the pages of a program: some of them, to where they belong, at once or as each is touched; and all of them.
#![allow(unsafe_code, reason = "reading to memory that is mapped for it is what is measured")]

use super::last_error;
use crate::harness::Result;
use crate::page_cache;
use monohull_sys::userfaultfd;
use std::fmt::Display;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Instant;

const PAGE: usize = 4096;

/// Reads the first `pages` pages of a file into as many pages that lie apart in `bytes` of fresh memory, so often. The file is in the page cache.
pub(super) fn some(path: &Path, count: usize, bytes: usize, pages: usize) -> Result<f64> {
    so_often(path, count, bytes / pages.max(1), pages, |file, memory, stride| {
        let place = |page| libc::iovec { iov_base: memory.wrapping_byte_add(page * stride), iov_len: PAGE };
        let places: Vec<_> = (0..pages).map(place).collect();
        // SAFETY: each place is a page of the mapping, and no two are the same.
        let read = unsafe { libc::preadv(file.as_raw_fd(), places.as_ptr(), places.len() as i32, 0) };
        if read == (pages * PAGE) as isize { Ok(()) } else { Err(format!("{read} bytes were read of {pages} pages")) }
    })
}

/// The same of a page at a time, each when it is touched: a thread that the kernel tells of it reads it and puts it there.
pub(super) fn touched(path: &Path, count: usize, bytes: usize, pages: usize) -> Result<f64> {
    so_often(path, count, bytes / pages.max(1), pages, |file, memory, stride| {
        let first = memory as u64;
        let faults = watched(first..first + (stride * pages) as u64).map_err(|error| error.to_string())?;
        let serve = thread::spawn(move || (0..pages).try_for_each(|page| serve(&faults, &file, page)));
        for page in 0..pages {
            // SAFETY: it is a page of the mapping, which the thread fills; if that ends, the descriptor is closed and the page is zero.
            unsafe { memory.cast::<u8>().add(page * stride).write_volatile(1) };
        }
        let served = serve.join().map_err(|_| "the thread that fills pages panicked".to_owned())?;
        served.map_err(|error| error.to_string())
    })
}

/// The time of `once`, in ns: it gets the file, fresh memory for so many pages, and how far apart these are.
fn so_often(
    path: &Path,
    count: usize,
    apart: usize,
    pages: usize,
    once: impl Fn(File, *mut libc::c_void, usize) -> Result<()>,
) -> Result<f64> {
    let said = |error: &dyn Display| format!("{}: {error}", path.display());
    black_box(std::fs::read(path).map_err(|error| said(&error))?);
    let stride = apart.next_multiple_of(PAGE);
    let bytes = stride * pages;
    let start = Instant::now();
    for _ in 0..count {
        let file = File::open(path).map_err(|error| said(&error))?;
        let memory = fresh(bytes)?;
        let done = once(file, memory, stride);
        // SAFETY: the mapping is ours, and nothing of it is used any more.
        unsafe { libc::munmap(memory, bytes) };
        done.map_err(|error| said(&error))?;
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

/// So many bytes of memory that nothing has touched.
fn fresh(bytes: usize) -> Result<*mut libc::c_void> {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping where the kernel likes; it replaces nothing.
    match unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0) } {
        libc::MAP_FAILED => Err(last_error("mmap")),
        memory => Ok(memory),
    }
}

/// A descriptor that tells of missing pages, and waits for them.
fn watched(range: Range<u64>) -> std::io::Result<OwnedFd> {
    /// `UFFDIO_REGISTER_MODE_MISSING`.
    const MISSING: u32 = 1;
    let faults = userfaultfd::open(0)?;
    // SAFETY: it only changes whether reads of the descriptor wait.
    if unsafe { libc::fcntl(faults.as_raw_fd(), libc::F_SETFL, 0) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    userfaultfd::register(&faults, range, MISSING)?;
    Ok(faults)
}

/// Waits for a page that is touched, and fills it with a page of the file.
fn serve(faults: &OwnedFd, file: &File, page: usize) -> std::io::Result<()> {
    /// `UFFDIO_COPY`, and its structure.
    const COPY: libc::c_ulong = 0xc028_aa03;
    #[repr(C)]
    struct Copy {
        to: u64,
        from: u64,
        len: u64,
        mode: u64,
        copied: i64,
    }
    let mut room = [0_u8; PAGE];
    // `struct uffd_msg`, whose third word is the address.
    let mut message = [0_u64; 4];
    // SAFETY: the buffer has this size.
    let read = unsafe { libc::read(faults.as_raw_fd(), message.as_mut_ptr().cast(), size_of_val(&message)) };
    if read != size_of_val(&message) as isize {
        return Err(std::io::Error::last_os_error());
    }
    file.read_exact_at(&mut room, (page * PAGE) as u64)?;
    let to = message[2] & !(PAGE as u64 - 1);
    let mut copy = Copy { to, from: room.as_ptr() as u64, len: PAGE as u64, mode: 0, copied: 0 };
    // SAFETY: the request reads and writes this structure, and fills a page that is missing.
    match unsafe { libc::ioctl(faults.as_raw_fd(), COPY, &raw mut copy) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
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
