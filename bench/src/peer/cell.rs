//! What starting and ending an instance of a WebAssembly program takes of the kernel, by itself: no runtime, no workflow, no reports.
//!
//! ```text
//!   | data: copied | heap: mprotect | linear memory: mprotect … | stack |   pages of each are touched
//!     madvise        mmap             mprotect, madvise           madvise   and given back
//! ```
//!
//! These are the calls and pages of an instance in a cell that an instance before has left, as `strace` and `perf stat` show them. With protection
//! keys `mprotect` is `pkey_mprotect`, which does the same.

use super::last_error;
use crate::harness::Result;
use std::hint::black_box;
use std::time::Instant;

const PAGE: usize = 4096;
/// Bytes of the runtime's data, which are as relocation has left them when an instance starts.
const DATA: usize = 25 * PAGE;
/// Bytes of the first part of the heap, and its pages that are written to.
const HEAP: (usize, usize) = (256 << 10, 12);
/// The same of the program's memory.
const MEMORY: (usize, usize) = (6_553_600, 3);
/// The same of stacks.
const STACK: (usize, usize) = (1 << 20, 4);

/// Nanoseconds of one of so many instances.
pub(super) fn instances(count: usize) -> Result<f64> {
    let relocated = vec![1_u8; DATA];
    let [data, heap, memory, stack] = [DATA, HEAP.0, MEMORY.0, STACK.0].map(reserved);
    let (data, heap, memory, stack) = (data?, heap?, memory?, stack?);
    protect(data, DATA, libc::PROT_READ | libc::PROT_WRITE)?;
    protect(stack, STACK.0, libc::PROT_READ | libc::PROT_WRITE)?;
    let start = Instant::now();
    for _ in 0..count {
        // SAFETY: as many bytes are mapped there and may be written to.
        unsafe { data.copy_from_nonoverlapping(relocated.as_ptr(), DATA) };
        touch(stack, STACK.1);
        protect(heap, HEAP.0, libc::PROT_READ | libc::PROT_WRITE)?;
        touch(heap, HEAP.1);
        protect(memory, MEMORY.0, libc::PROT_READ | libc::PROT_WRITE)?;
        touch(memory, MEMORY.1);
        protect(memory, MEMORY.0, libc::PROT_NONE)?;
        discard(memory, MEMORY.0)?;
        discard(stack, STACK.0)?;
        map(heap, HEAP.0)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

/// So many bytes of addresses.
fn reserved(bytes: usize) -> Result<*mut u8> {
    map(std::ptr::null_mut(), bytes)
}

/// Maps pages without rights, where the kernel likes or in place of some that are ours.
fn map(at: *mut u8, bytes: usize) -> Result<*mut u8> {
    let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: replaces nothing, or what this module has mapped itself and uses by address alone.
    let address = unsafe { libc::mmap(at.cast(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if address == libc::MAP_FAILED { Err(last_error("mmap")) } else { Ok(address.cast()) }
}

fn protect(at: *mut u8, bytes: usize, rights: i32) -> Result<()> {
    // SAFETY: mapped by this module, which writes there only while it may.
    let done = unsafe { libc::mprotect(at.cast(), bytes, rights) };
    if done == 0 { Ok(()) } else { Err(last_error("mprotect")) }
}

fn discard(at: *mut u8, bytes: usize) -> Result<()> {
    // SAFETY: mapped by this module, and nothing there is used any more.
    let done = unsafe { libc::madvise(at.cast(), bytes, libc::MADV_DONTNEED) };
    if done == 0 { Ok(()) } else { Err(last_error("madvise")) }
}

/// Writes to the first pages of a part.
fn touch(at: *mut u8, pages: usize) {
    for page in 0..pages {
        // SAFETY: mapped by this module, and may be written to.
        unsafe { black_box(at.add(page * PAGE)).write_volatile(1) };
    }
}
