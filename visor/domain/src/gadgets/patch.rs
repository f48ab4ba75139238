//! Changing code in place, without memory that is both writable and executable at any time.
//!
//! The kernel writes for us through `/proc/self/mem`, as it does for debuggers: it copies the page and keeps its rights
//! alone. Where that is forbidden, a changed copy of the page is made elsewhere, becomes executable when it is
//! finished, and is moved over the original.
//!
//! Neither is atomic for a thread that executes the very bytes: the caller ensures that no thread does.

use super::code;
use super::rewrite::{Edit, Island};
use monohull_abi::layout::{PAGE, page_down, page_up};
use std::fs::OpenOptions;
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;

/// Writes an edit.
///
/// # Safety
/// No thread executes that code now, and the new bytes do the same, or end the process where that is wanted.
pub(super) unsafe fn write(edit: &Edit) -> Result<()> {
    let by_kernel = || OpenOptions::new().write(true).open("/proc/self/mem")?.write_all_at(&edit.bytes, edit.address);
    if by_kernel().is_err() {
        // SAFETY: the caller's promise.
        unsafe { replace_pages(edit)? };
    }
    // SAFETY: executable memory of this process, which is readable.
    let now = unsafe { code::bytes(&edit.range()) };
    if now == edit.bytes { Ok(()) } else { Err(Error::other("the kernel did not write what it was given")) }
}

/// Moves a changed copy over the pages of an edit.
///
/// # Safety
/// As for [`write()`].
unsafe fn replace_pages(edit: &Edit) -> Result<()> {
    let pages = page_down(edit.address)..page_up(edit.range().end);
    // SAFETY: executable memory of this process, which is readable.
    let mut bytes = unsafe { code::bytes(&pages) }.to_vec();
    let at = (edit.address - pages.start) as usize;
    bytes[at..at + edit.bytes.len()].copy_from_slice(&edit.bytes);
    let copy = executable(None, &bytes)?;
    // SAFETY: the copy is ours; the pages it replaces hold the same code but for the edit.
    let moved = unsafe {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        libc::mremap(copy as *mut _, bytes.len(), bytes.len(), flags, pages.start as *mut libc::c_void)
    };
    if moved == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Maps an island. Nothing leads there yet.
pub(super) fn map(island: &Island) -> Result<()> {
    const INT3: u8 = 0xcc;
    let mut code = island.code.clone();
    code.resize(page_up(code.len() as u64) as usize, INT3);
    executable(Some(island.address), &code).map(drop)
}

/// New executable memory that holds `code`, a multiple of the page size; at `address`, which is free, if it is given.
fn executable(address: Option<u64>, code: &[u8]) -> Result<u64> {
    assert!(code.len().is_multiple_of(PAGE as usize));
    let fixed = if address.is_some() { libc::MAP_FIXED_NOREPLACE } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed;
    let wanted = address.unwrap_or_default() as *mut libc::c_void;
    // SAFETY: new memory, which replaces nothing.
    let got = unsafe { libc::mmap(wanted, code.len(), libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if got == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    let finish = || {
        if address.is_some_and(|address| address != got as u64) {
            // A kernel before 4.17 takes the address for a hint.
            return Err(Error::other("the kernel did not map at the requested address"));
        }
        // SAFETY: the mapping is ours and as long as the code.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), got.cast(), code.len()) };
        // SAFETY: as above; it is finished now.
        match unsafe { libc::mprotect(got, code.len(), libc::PROT_READ | libc::PROT_EXEC) } {
            0 => Ok(got as u64),
            _ => Err(Error::last_os_error()),
        }
    };
    finish().inspect_err(|_| {
        // SAFETY: ours, and nothing else uses it.
        unsafe { libc::munmap(got, code.len()) };
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mov eax, number; ret`
    fn code(number: u8) -> [u8; 6] {
        [0xb8, number, 0, 0, 0, 0xc3]
    }

    /// Two pages of code, with a function across the border between them.
    fn function() -> (u64, extern "C" fn() -> u32) {
        let mut bytes = vec![0xcc; 2 * PAGE as usize];
        let at = PAGE as usize - 1;
        bytes[at..at + 6].copy_from_slice(&code(1));
        let address = executable(None, &bytes).expect("memory") + at as u64;
        // SAFETY: a function that takes nothing and gives a number.
        (address, unsafe { std::mem::transmute::<u64, extern "C" fn() -> u32>(address) })
    }

    fn rights(address: u64) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
        let range = |line: &str| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
        };
        let line = maps.lines().find(|line| range(line).is_some_and(|range| range.contains(&address)));
        line.and_then(|line| line.split(' ').nth(1)).expect("mapped").to_owned()
    }

    #[test]
    fn code_is_changed_in_place() {
        let (address, function) = function();
        assert_eq!(function(), 1);
        // SAFETY: the function is private to this test.
        unsafe { write(&Edit { address, bytes: code(2).to_vec() }) }.expect("written");
        assert_eq!((function(), rights(address).as_str()), (2, "r-xp"));
    }

    #[test]
    fn pages_are_replaced_where_the_kernel_does_not_write() {
        let (address, function) = function();
        // SAFETY: the function is private to this test.
        unsafe { replace_pages(&Edit { address, bytes: code(3).to_vec() }) }.expect("replaced");
        assert_eq!((function(), rights(address).as_str()), (3, "r-xp"));
    }

    #[test]
    fn an_island_replaces_nothing() {
        let (address, function) = function();
        let island = Island { address: page_down(address), code: code(4).to_vec(), room: 4096 };
        assert!(map(&island).is_err());
        assert_eq!(function(), 1);
    }
}
