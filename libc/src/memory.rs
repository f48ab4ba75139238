//! `mmap` and its kin.
//!
//! Anonymous mappings are runs of pages that come from the heap's end (`HEAP_GROW`) and return to a list of free runs,
//! first fit; they are zeroed when they are used again. Files are mapped privately (`FILE_MMAP`), or copied where that is
//! not possible. Pages have no protection of their own: `mprotect` is accepted and changes nothing.

use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EACCES, EBADF, EINVAL, ENODEV, ENOMEM};
use crate::host;
use crate::lock::Lock;
use crate::refuse::{Missing, refuse};
use alloc::vec::Vec;
use monohull_abi::file::{Advice, map};
use monohull_abi::layout::{PAGE, page_up};
use monohull_abi::number;

const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const MAP_SHARED: u64 = 1;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MREMAP_MAYMOVE: u64 = 1;
const MADV_DONTNEED: u64 = 4;

/// Pages side by side.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Run {
    start: u64,
    len: u64,
}

impl Run {
    fn end(self) -> u64 {
        self.start + self.len
    }

    fn holds(self, start: u64, len: u64) -> bool {
        self.start <= start && start.checked_add(len).is_some_and(|end| end <= self.end())
    }
}

/// What is mapped and what is free.
struct Mappings {
    /// Free runs, in order; no two touch.
    free: Vec<Run>,
    /// All that has ever been taken from the heap's end for anonymous mappings, in order; those that touch are one.
    taken: Vec<Run>,
    /// Mapped files.
    files: Vec<Run>,
}

static MAPPINGS: Lock<Mappings> = Lock::new(Mappings { free: Vec::new(), taken: Vec::new(), files: Vec::new() });

/// Adds a run to a list that is in order, and joins it with its neighbours.
fn insert(list: &mut Vec<Run>, run: Run) {
    let at = list.partition_point(|other| other.start < run.start);
    list.insert(at, run);
    if list.get(at + 1).is_some_and(|next| next.start == run.end()) {
        list[at].len += list.remove(at + 1).len;
    }
    if at > 0 && list[at - 1].end() == run.start {
        list[at - 1].len += list.remove(at).len;
    }
}

/// Takes the part `start..start + len` out of every run of a list.
fn cut(list: &mut Vec<Run>, start: u64, len: u64) {
    let end = start + len;
    let old = core::mem::take(list);
    for run in old {
        if run.start < start.min(run.end()) {
            list.push(Run { start: run.start, len: start.min(run.end()) - run.start });
        }
        if run.end() > end.max(run.start) {
            list.push(Run { start: end.max(run.start), len: run.end() - end.max(run.start) });
        }
    }
}

impl Mappings {
    /// Zeroed pages.
    fn take(&mut self, len: u64) -> Answer {
        if let Some(at) = self.free.iter().position(|run| run.len >= len) {
            let start = self.free[at].start;
            self.free[at] = Run { start: start + len, len: self.free[at].len - len };
            if self.free[at].len == 0 {
                self.free.remove(at);
            }
            // SAFETY: pages of this instance that nothing uses.
            unsafe { (start as *mut u8).write_bytes(0, len as usize) };
            return start as Answer;
        }
        let start = host::call(number::HEAP_GROW, [len]);
        if start > 0 {
            insert(&mut self.taken, Run { start: start as u64, len });
        }
        start
    }

    /// Whether all of it is anonymous and mapped.
    fn is_mapped(&self, start: u64, len: u64) -> bool {
        let overlaps = |run: &Run| run.start < start + len && start < run.end();
        self.taken.iter().any(|run| run.holds(start, len)) && !self.free.iter().any(overlaps)
    }

    fn release(&mut self, start: u64, len: u64) -> Answer {
        if self.taken.iter().any(|run| run.holds(start, len)) {
            // What is free in it already stays so.
            cut(&mut self.free, start, len);
            insert(&mut self.free, Run { start, len });
            return 0;
        }
        let at = self.files.iter().position(|file| file.start == start && page_up(file.len) <= page_up(len));
        match at {
            Some(at) => {
                self.files.swap_remove(at);
                host::call(number::FILE_MUNMAP, [start])
            }
            // A part of a mapped file goes with the whole of it.
            None => 0,
        }
    }
}

/// `mmap(address, length, protection, flags, descriptor, offset)`.
pub(crate) fn mmap([address, len, protection, flags, descriptor, offset]: [u64; 6]) -> Answer {
    if len == 0 || !offset.is_multiple_of(PAGE) {
        return EINVAL;
    }
    if protection & PROT_EXEC != 0 {
        return refuse(Missing::Executable, EACCES);
    }
    let pages = page_up(len);
    if pages > isize::MAX as u64 {
        return ENOMEM;
    }
    let mut mappings = MAPPINGS.hold();
    if flags & MAP_FIXED != 0 {
        // Over what is mapped already, as a reservation that is put to use is.
        if flags & MAP_ANONYMOUS == 0 || !address.is_multiple_of(PAGE) || !mappings.is_mapped(address, pages) {
            return EINVAL;
        }
        // SAFETY: pages of the caller's, which it replaces by zeros.
        unsafe { (address as *mut u8).write_bytes(0, pages as usize) };
        return address as Answer;
    }
    if flags & MAP_ANONYMOUS != 0 {
        return mappings.take(pages);
    }
    if flags & MAP_SHARED != 0 && protection & PROT_WRITE != 0 {
        return refuse(Missing::SharedMapping, ENODEV);
    }
    let file = match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => file,
        Ok(_) => return ENODEV,
        Err(_) => return EBADF,
    };
    let writable = if protection & PROT_WRITE != 0 { map::WRITE } else { 0 };
    let start = host::call(number::FILE_MMAP, [file, offset, len, writable]);
    if start > 0 {
        mappings.files.push(Run { start: start as u64, len });
        return start;
    }
    // A range that reaches beyond the file's end, or a file system that maps nothing: a copy does as well.
    let start = mappings.take(pages);
    if start > 0 {
        let mut done = 0;
        while done < len {
            let read = host::call(number::FILE_PREAD, [file, start as u64 + done, len - done, offset + done]);
            match read {
                0 => break,
                1.. => done += read as u64,
                error => {
                    mappings.release(start as u64, pages);
                    return error;
                }
            }
        }
    }
    start
}

/// `munmap(address, length)`.
pub(crate) fn munmap([address, len, ..]: [u64; 6]) -> Answer {
    if len == 0 || !address.is_multiple_of(PAGE) || len > isize::MAX as u64 {
        return EINVAL;
    }
    MAPPINGS.hold().release(address, page_up(len))
}

/// `mremap(address, old length, new length, flags)`, of anonymous mappings.
pub(crate) fn mremap([address, old, new, flags, ..]: [u64; 6]) -> Answer {
    if old == 0 || new == 0 || new > isize::MAX as u64 || !address.is_multiple_of(PAGE) {
        return EINVAL;
    }
    let (old, new) = (page_up(old), page_up(new));
    let mut mappings = MAPPINGS.hold();
    if !mappings.is_mapped(address, old) {
        return EINVAL;
    }
    if new <= old {
        if new < old {
            mappings.release(address + new, old - new);
        }
        return address as Answer;
    }
    if flags & MREMAP_MAYMOVE == 0 {
        return ENOMEM;
    }
    let to = mappings.take(new);
    if to > 0 {
        // SAFETY: both are mapped, and they do not overlap: one has just been taken.
        unsafe { core::ptr::copy_nonoverlapping(address as *const u8, to as *mut u8, old as usize) };
        mappings.release(address, old);
    }
    to
}

/// `mprotect(address, length, protection)`: accepted where it cannot matter, refused where memory would become code.
pub(crate) fn mprotect([_, _, protection, ..]: [u64; 6]) -> Answer {
    if protection & PROT_EXEC != 0 { refuse(Missing::Executable, EACCES) } else { 0 }
}

/// `madvise(address, length, advice)`: zeros for `MADV_DONTNEED`, a hint for mapped files, otherwise nothing.
pub(crate) fn madvise([address, len, advice, ..]: [u64; 6]) -> Answer {
    let mappings = MAPPINGS.hold();
    let len = page_up(len);
    if advice == MADV_DONTNEED && len > 0 && mappings.is_mapped(address, len) {
        // SAFETY: pages of the caller's, which it gives up the contents of.
        unsafe { (address as *mut u8).write_bytes(0, len as usize) };
    }
    if let Some(file) = mappings.files.iter().find(|file| file.holds(address, len.min(file.len)))
        && Advice::from_raw(advice).is_some()
    {
        let (start, mut done) = (address - file.start, 0);
        // What is needed now is filled some at a time.
        while done < len {
            match host::call(number::FILE_MADVISE, [file.start, start + done, len - done, advice]) {
                ..=0 => break,
                filled => done += filled as u64,
            }
        }
    }
    0
}

/// `brk(address)`: the program break does not move; `malloc` needs none.
pub(crate) fn brk(_: [u64; 6]) -> Answer {
    ENOMEM
}
