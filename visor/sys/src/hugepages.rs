//! The program's code and constants on huge pages, for the processes that are forked from this one.
//!
//! A fork does not copy page-table entries of files: the new process faults on them again, once for every sixteen, and unmaps each
//! when it ends. For a process that lives for a millisecond that is a fifth of its cost. A huge page is one entry that a fork
//! copies.
//!
//! ```text
//!  file         | constants r-- |        | code r-x |             each segment in pieces of memory of its own: `build.rs`
//!  before       ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒        ▒▒▒▒▒▒▒▒▒▒▒▒             pages of the file
//!  after        ████████████████████████ ███████████████████████  a copy, on pages of 2 MiB, filled up
//! ```
//!
//! The copy is complete and has its final rights before it replaces the original, in one step: nothing is writable and
//! executable at once, and no address changes.

use super::fork::OnlyThread;
use std::fs;
use std::io;
use std::ops::Range;

/// A huge page.
const HUGE: u64 = 2 << 20;
/// From Linux 6.1 on: puts these pages on huge pages now.
const MADV_COLLAPSE: i32 = 25;
/// `int3` (Intel SDM volume 2): fills the pages behind the code.
const FILLER: u8 = 0xcc;

/// Segments of this program: where, and whether they are code.
struct Segment {
    pages: Range<u64>,
    code: bool,
}

/// Moves the segments that are never written to onto huge pages. Where the host has none all stays as it is.
pub fn move_program(only: &OnlyThread) -> io::Result<()> {
    only.confirm()?;
    let program = fs::read_link("/proc/self/exe")?;
    let program = program.to_string_lossy();
    let maps = fs::read_to_string("/proc/self/maps")?;
    let all: Vec<Range<u64>> = maps.lines().filter_map(pages).collect();
    for line in maps.lines().filter(|line| line.ends_with(&*program)) {
        let rights = line.split_whitespace().nth(1).unwrap_or_default();
        let Some(pages) = pages(line) else { continue };
        let around = around(&pages);
        let alone = all.iter().all(|other| *other == pages || other.end <= around.start || around.end <= other.start);
        if alone && !rights.contains('w') {
            replace(&Segment { pages, code: rights.contains('x') })?;
        }
    }
    Ok(())
}

/// The addresses of a line of `/proc/self/maps`.
pub(crate) fn pages(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// The huge pages that these lie on.
fn around(pages: &Range<u64>) -> Range<u64> {
    pages.start / HUGE * HUGE..pages.end.div_ceil(HUGE) * HUGE
}

fn replace(segment: &Segment) -> io::Result<()> {
    let around = around(&segment.pages);
    let len = (around.end - around.start) as usize;
    let rights = libc::PROT_READ | if segment.code { libc::PROT_EXEC } else { 0 };
    // SAFETY: mmap(2), mremap(2): a new mapping, large enough to hold the huge pages somewhere in it, is filled with what the
    // segment's pages hold, which are not writable. The move replaces these pages, and the huge pages around them, which
    // nothing else lies on; what is read or executed there is the same before and after. There is no other thread that
    // could run there in between.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let room =
            libc::mmap(std::ptr::null_mut(), len + HUGE as usize, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if room == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let copy = (room as u64).div_ceil(HUGE) * HUGE;
        let before = (segment.pages.start - around.start) as usize;
        let size = (segment.pages.end - segment.pages.start) as usize;
        let fill = if segment.code { FILLER } else { 0 };
        std::ptr::write_bytes(copy as *mut u8, fill, len);
        std::ptr::copy_nonoverlapping(segment.pages.start as *const u8, (copy as *mut u8).add(before), size);
        let moved = libc::madvise(copy as *mut _, len, MADV_COLLAPSE) == 0
            && libc::mprotect(copy as *mut _, len, rights) == 0
            && libc::mremap(
                copy as *mut _,
                len,
                len,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                around.start as *mut libc::c_void,
            ) != libc::MAP_FAILED;
        let error = io::Error::last_os_error();
        // The rest of the mapping; all of it, if the copy was not moved.
        libc::munmap(room, (copy - room as u64) as usize);
        if !moved {
            libc::munmap(copy as *mut _, len);
        }
        libc::munmap((copy as usize + len) as *mut _, HUGE as usize - (copy - room as u64) as usize);
        if moved { Ok(()) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    const PAGE: u64 = 4096;
    /// `mov eax, 42; ret`
    const CODE: [u8; 6] = [0xb8, 42, 0, 0, 0, 0xc3];

    /// A file's pages in the middle of a range that is inaccessible otherwise.
    fn segment(len: u64, rights: i32) -> Range<u64> {
        let file = fs::File::from(memfd_create(c"segment", MFdFlags::empty()).expect("a file"));
        let bytes: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
        file.write_all_at(&bytes, 0).expect("room");
        file.write_all_at(&CODE, 0).expect("room");
        // SAFETY: a new mapping, and another one in the middle of it.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let room = libc::mmap(std::ptr::null_mut(), (len + 4 * HUGE) as usize, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(room, libc::MAP_FAILED);
            let start = (room as u64).div_ceil(HUGE) * HUGE + HUGE + 3 * PAGE;
            let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
            let at = libc::mmap(start as *mut _, len as usize, rights, flags, file.as_raw_fd(), 0);
            assert_eq!(at as u64, start);
            start..start + len
        }
    }

    fn bytes(range: Range<u64>) -> &'static [u8] {
        // SAFETY: the pages of `segment`, which stay.
        unsafe { std::slice::from_raw_parts(range.start as *const u8, (range.end - range.start) as usize) }
    }

    #[test]
    fn what_is_moved_is_what_it_was_and_nothing_is_added_that_runs() {
        let pages = segment(HUGE + 5 * PAGE, libc::PROT_READ | libc::PROT_EXEC);
        let before = bytes(pages.clone()).to_vec();
        let moved = replace(&Segment { pages: pages.clone(), code: true });
        assert!(bytes(pages.clone()) == before);
        // SAFETY: the code above, which keeps to the calling convention.
        let answer = unsafe { std::mem::transmute::<u64, extern "C" fn() -> u32>(pages.start)() };
        assert_eq!(answer, 42);
        let around = around(&pages);
        let maps = fs::read_to_string("/proc/self/maps").expect("the kernel's list");
        let line = maps
            .lines()
            .find(|line| super::pages(line).is_some_and(|pages| pages.contains(&(around.start + 3 * PAGE))));
        assert!(line.is_some_and(|line| line.contains(" r-xp ")), "{line:?}");
        if moved.is_ok() {
            let added = [around.start..pages.start, pages.end..around.end];
            assert!(added.into_iter().all(|range| bytes(range).iter().all(|byte| *byte == FILLER)));
        }
    }

    #[test]
    fn huge_pages_around_pages() {
        assert_eq!(around(&(HUGE..2 * HUGE)), HUGE..2 * HUGE);
        assert_eq!(around(&(HUGE - PAGE..2 * HUGE + PAGE)), 0..3 * HUGE);
        assert_eq!(pages("1000-3000 r-xp 00000000 fe:00 1 /program"), Some(0x1000..0x3000));
        assert_eq!(pages("nothing"), None);
    }
}
