//! Pages of files in memory. They are a module's, which has them from the visor, and it names them: the names look like addresses, lie behind
//! [`FILES_BASE`], and stay what they are as long as the page is one of a file.
//!
//! ```text
//!   capture    module ─ names, addresses ─▶ contents that are not zero, under their names
//!   restore    module ─ names, addresses ─▶ contents under these names, checked, written to the addresses
//! ```
//!
//! So a continuation has no address of trusted memory, and a capture has no page that is not of a file.

use super::captured_pages::Run;
use super::changes::Found;
use super::check::{Rejected, check_runs};
use super::pages::is_zero;
use super::putting_back::each_piece;
use super::restore_error::RestoreError;
use crate::hostcall::FilePages;
use crate::pager::PageError;
use monohull_abi::layout::{FILES_BASE, PAGE};
use monohull_trampoline::system::copy;
use std::ops::Range;

/// A page cannot be read: the host has no memory to put there.
pub(super) struct Unreadable;

/// Adds the pages that are not zero, by their names upwards. Of a range `memory` says which parts are to be read: the rest is zero, and would take
/// memory if it were.
pub(super) fn capture(
    mut pages: Vec<FilePages>,
    memory: impl Fn(Range<u64>) -> Vec<Range<u64>>,
    into: &mut Found,
) -> Result<(), Unreadable> {
    pages.sort_unstable_by_key(|pages| pages.names.start);
    let mut bytes = [0; PAGE as usize];
    for FilePages { names, address: start } in pages {
        let parts = memory(start..start + (names.end - names.start));
        for address in parts.into_iter().flat_map(|part| part.step_by(PAGE as usize)) {
            let name = names.start + (address - start);
            // SAFETY: memory of a module that it has just named, and that no handler changes now; the calling thread is a carrier, which
            // survives a fault: the host may have no page to put there.
            if !unsafe { copy(bytes.as_mut_ptr(), address as *const u8, bytes.len()) } {
                return Err(Unreadable);
            }
            if !is_zero(&bytes) {
                into.add(name, &bytes);
            }
        }
    }
    Ok(())
}

/// Gives pages, which are zero, their contents: of the runs, which are untrusted and in the order of their addresses, those with such names.
pub(super) fn put_back(pages: &[FilePages], runs: &[Run<'_>]) -> Result<(), RestoreError> {
    let runs = of_files(runs);
    let mut pages: Vec<_> = pages.iter().collect();
    pages.sort_unstable_by_key(|pages| pages.names.start);
    if pages.windows(2).any(|pair| pair[0].names.end > pair[1].names.start) {
        return Err(Rejected::ModulePages.into());
    }
    let mut names: Vec<_> = pages.iter().map(|pages| pages.names.clone()).collect();
    check_runs(runs.iter().map(|run| (run.address, run.len)), &mut names)?;
    for run in runs {
        let mut is_written = true;
        each_piece(run, run.range(), |name, bytes| is_written &= write(&pages, name, bytes))?;
        if !is_written {
            return Err(PageError::Host("there is no memory for a file".to_owned()).into());
        }
    }
    Ok(())
}

/// The runs that have such names.
fn of_files<'r, 'p>(runs: &'r [Run<'p>]) -> &'r [Run<'p>] {
    &runs[runs.partition_point(|run| run.address < FILES_BASE)..]
}

/// The other ones, which are memory of functions.
pub(super) fn of_functions<'r, 'p>(runs: &'r [Run<'p>]) -> &'r [Run<'p>] {
    &runs[..runs.partition_point(|run| run.address < FILES_BASE)]
}

/// Writes contents where the pages with these names are; false if there is no memory, or if no page is there.
fn write(pages: &[&FilePages], name: u64, bytes: &[u8]) -> bool {
    let (mut name, mut bytes) = (name, bytes);
    let mut next = pages.partition_point(|pages| pages.names.end <= name);
    while !bytes.is_empty() {
        let Some(FilePages { names, address }) = pages.get(next).filter(|pages| pages.names.contains(&name)) else {
            return false;
        };
        let len = bytes.len().min((names.end - name) as usize);
        let to = address + (name - names.start);
        // SAFETY: memory of a module, whole pages that it has named and does not use now; the bytes fit. A fault is survived, as at a store of
        // the module itself.
        if !unsafe { copy(to as *mut u8, bytes.as_ptr(), len) } {
            return false;
        }
        (name, bytes, next) = (name + len as u64, &bytes[len..], next + 1);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hole may be on a page of its own afterwards, or, as here, be none that can be read.
    #[test]
    fn holes_are_not_looked_at() {
        const PAGES: u64 = 8;
        let len = (PAGES * PAGE) as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: mmap(2): a new mapping where the kernel likes.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let page = |index: u64| start as u64 + index * PAGE;
        for index in [2, 5, 6] {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: pages of that mapping, which nothing else uses.
            unsafe {
                assert_eq!(libc::mprotect(page(index) as *mut libc::c_void, PAGE as usize, rights), 0);
                // The page 5 stays zero.
                *(page(index) as *mut u8) = (index != 5).into();
            }
        }
        let name = |index: u64| FILES_BASE + index * PAGE;
        let pages = FilePages { names: name(0)..name(PAGES), address: page(0) };
        let mut found = Found::default();
        let memory = |range: Range<u64>| {
            assert_eq!(range, page(0)..page(PAGES));
            vec![page(2)..page(3), page(5)..page(7)]
        };
        capture(vec![pages], memory, &mut found).unwrap_or_else(|Unreadable| panic!("it is readable"));
        let runs = found.into_parts().pages;
        let places: Vec<_> = runs.iter().map(|run| (run.address, run.bytes.len() as u64, run.bytes[0])).collect();
        assert_eq!(places, [(name(2), PAGE, 1), (name(6), PAGE, 1)]);
        // SAFETY: the mapping is the test's own.
        unsafe { libc::munmap(start, len) };
    }
}
