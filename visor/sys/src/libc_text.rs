//! The C library's code, in the processes that are forked from this one.
//!
//! A fork does not copy page-table entries of files: the new process faults on them again, once for every sixteen. Of a mapping with
//! one private page it copies all entries instead, so this gives the C library's code one. But each entry costs a process that
//! lives for a millisecond some 0.1 µs to copy and to free. So only the pages that a workflow touches should be mapped, and not
//! their neighbours, which a fault maps as well.
//!
//! ```text
//!  before                ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒     mapped, as the search for gadgets has read all of it
//!  OneByOne::begin       ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒     from now on a fault maps one page
//!  discard_clean_pages   ························     no entries
//!  warm-up               ··▒···▒▒·······▒···▒····     what a workflow touches
//!  make_inheritable      █·▒···▒▒·······▒···▒····     one private page: forks copy the entries
//! ```
//!
//! The program's own code lies on huge pages, of which there are few ([`super::hugepages`]); that of other objects hardly runs.

use super::{hugepages, userfaultfd};
use linux_raw_sys::general::{UFFD_FEATURE_WP_ASYNC, UFFDIO_REGISTER_MODE_WP};
use monohull_abi::layout::PAGE;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Bytes of `/proc/self/pagemap` for a page, and the bit of pages that are a file's (or shared).
const ENTRY: u64 = 8;
const FILES: u64 = 1 << 61;

/// While it exists, a fault in the C library's code maps one page, and not its neighbours as well.
#[derive(Debug)]
pub struct OneByOne {
    /// The kernel maps no neighbours where it tracks writes. The record of these writes is not read.
    _watch: OwnedFd,
}

impl OneByOne {
    /// From now on. Kernels before 6.7 refuse.
    pub fn begin() -> io::Result<OneByOne> {
        let watch = userfaultfd::open(UFFD_FEATURE_WP_ASYNC)?;
        userfaultfd::register(&watch, library()?, UFFDIO_REGISTER_MODE_WP)?;
        Ok(OneByOne { _watch: watch })
    }
}

/// Where the C library's code is.
fn library() -> io::Result<Range<u64>> {
    let function = libc::malloc as *const () as u64;
    let maps = fs::read_to_string("/proc/self/maps")?;
    let found = maps.lines().filter_map(hugepages::pages).find(|range| range.contains(&function));
    found.ok_or_else(|| io::Error::other("the C library's code is not among the mappings"))
}

/// Unmaps the pages of code that this process has only read, as the search for gadgets reads all of it. A fork would copy their
/// entries where an object has a private page.
pub fn discard_clean_pages() -> io::Result<()> {
    let pagemap = File::open("/proc/self/pagemap")?;
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        let (Some(range), Some("r-xp")) = (hugepages::pages(line), line.split_whitespace().nth(1)) else { continue };
        let mut start = range.start;
        for pages in entries(&pagemap, &range)?.chunk_by(|one, other| is_files(one) == is_files(other)) {
            let end = start + pages.len() as u64 * PAGE;
            if is_files(&pages[0]) {
                // SAFETY: madvise(2): what is there now is the file's (proc_pid_pagemap(5), bit 61), and is there again when it is
                // touched: what differs from the file is no page of the file.
                unsafe { libc::madvise(start as *mut _, (end - start) as usize, libc::MADV_DONTNEED) };
            }
            start = end;
        }
    }
    Ok(())
}

/// The kernel's entry for each page of a range.
fn entries(pagemap: &File, range: &Range<u64>) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; ((range.end - range.start) / PAGE * ENTRY) as usize];
    pagemap.read_exact_at(&mut bytes, range.start / PAGE * ENTRY)?;
    let (entries, _) = bytes.as_chunks();
    Ok(entries.iter().map(|entry| u64::from_le_bytes(*entry)).collect())
}

fn is_files(entry: &u64) -> bool {
    entry & FILES != 0
}

/// Has forks copy the entries of the C library's code that are present now.
pub fn make_inheritable() -> io::Result<()> {
    let range = library()?;
    // The kernel makes a private copy of the page, even if the content stays the same.
    let memory = File::options().read(true).write(true).open("/proc/self/mem")?;
    let mut byte = [0];
    memory.read_exact_at(&mut byte, range.start)?;
    memory.write_all_at(&byte, range.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    /// Pages that a fault maps at once, if they are there: `fault_around_bytes`.
    const AROUND: usize = 16;

    /// Touches one page of the C library's code of which no neighbour is mapped; how many of these are afterwards.
    fn mapped_with_one() -> io::Result<usize> {
        let range = library()?;
        discard_clean_pages()?;
        let pagemap = File::open("/proc/self/pagemap")?;
        let first = range.start / PAGE;
        // Neighbours are those that have all but the last bits of their number in common.
        let alike = |page: usize| (first as usize + page) / AROUND;
        let mapped = || Ok::<_, io::Error>(entries(&pagemap, &range)?.iter().map(is_files).collect::<Vec<bool>>());
        let before = mapped()?;
        let pages: Vec<usize> = (0..before.len()).collect();
        let mut groups = pages.chunk_by(|one, other| alike(*one) == alike(*other));
        let group = groups.find(|group| group.len() == AROUND && group.iter().all(|page| !before[*page]));
        let group = group.ok_or_else(|| io::Error::other("all of it is in use"))?;
        // SAFETY: code of the C library, which can be read and stays loaded.
        unsafe { (((first + group[AROUND / 2] as u64) * PAGE) as *const u8).read_volatile() };
        let after = mapped()?;
        Ok(group.iter().filter(|page| after[**page]).count())
    }

    /// In a process with one thread: others would touch code meanwhile.
    fn in_a_child(holds: impl FnOnce() -> io::Result<bool>) {
        // SAFETY: the child reads files, takes memory and ends; `fork` sees to the allocator's locks.
        match unsafe { fork() }.expect("a process") {
            ForkResult::Child => {
                let status = holds().map_or(2, |holds| i32::from(!holds));
                // SAFETY: ends the process.
                unsafe { libc::_exit(status) }
            }
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None).expect("a child"), WaitStatus::Exited(child, 0));
            }
        }
    }

    #[test]
    fn where_the_kernel_can_it_maps_one_page() {
        in_a_child(|| {
            let usual = mapped_with_one()?;
            let alone = match OneByOne::begin() {
                Ok(_until_dropped) => mapped_with_one()? == 1,
                // It does not know how.
                Err(_) => userfaultfd::open(UFFD_FEATURE_WP_ASYNC).is_err(),
            };
            Ok(usual > 1 && alone && mapped_with_one()? == usual)
        });
    }

    #[test]
    fn code_that_is_handed_down_is_the_same() {
        // SAFETY: readable code of the C library, which stays loaded.
        let code = || unsafe { std::slice::from_raw_parts(libc::malloc as *const u8, 64) }.to_vec();
        let before = code();
        make_inheritable().expect("the kernel writes for us");
        assert_eq!(code(), before);
        let range = library().expect("the library");
        let pagemap = File::open("/proc/self/pagemap").expect("the kernel's list");
        let first = entries(&pagemap, &range).expect("its entries")[0];
        assert!(!is_files(&first), "the mapping has a page of its own");
    }
}
