//! The same ways over a file of the host's, mapped by the kernel.

use super::last_error;
use crate::harness::Result;
use example_kernels::mapped::Sweep;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

/// Nanoseconds per page of one way; with `populate` everything is mapped beforehand.
pub(super) fn sweep(path: &Path, bytes: usize, rounds: usize, which: usize, populate: bool) -> Result<f64> {
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut options = File::options();
    let mut file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(said)?;
    if file.metadata().map_err(said)?.len() != bytes as u64 {
        (0..bytes >> 20).try_for_each(|_| file.write_all(&[7; 1 << 20])).map_err(said)?;
    }
    let sweep = *Sweep::ALL.get(which).ok_or("there is no such way")?;
    let flags = libc::MAP_PRIVATE | if populate { libc::MAP_POPULATE } else { 0 };
    let start = Instant::now();
    for _ in 0..rounds {
        // SAFETY: a new mapping where the kernel likes; it replaces nothing.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(last_error("mmap"));
        }
        // SAFETY: as many bytes have just been mapped there, and no process writes to the file.
        black_box(sweep.run(unsafe { std::slice::from_raw_parts(address.cast::<u8>(), bytes) }));
        // SAFETY: the mapping is ours, and nothing of it is used any more.
        unsafe { libc::munmap(address, bytes) };
    }
    Ok(start.elapsed().as_nanos() as f64 / rounds as f64 / sweep.pages(bytes) as f64)
}
