//! `mmap` and its kin.
//!
//! ```text
//!   anonymous, small   pages.rs         runs of pages from the heap's end
//!   anonymous, large   mapped.rs        MAP, UNMAP, DISCARD, PROTECT
//!   a file, private    here             FILE_MMAP, or a copy where that is not possible
//!   a file, shared     shared_files.rs  the same, which the libc keeps equal with the file
//! ```
//!
//! Large anonymous mappings have the protection that was asked for. Other pages have none of their own: there `mprotect` is accepted and
//! changes nothing.

mod copies;
mod mapped;
mod pages;
mod shared_files;

pub(crate) use shared_files::{resized, write_back, write_back_all, writing};

use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EACCES, EBADF, EINVAL, ENODEV, ENOMEM};
use crate::host;
use crate::lock::Lock;
use crate::refuse::{Missing, refuse};
use alloc::vec::Vec;
use monohull_abi::file::{Advice, map};
use monohull_abi::layout::{PAGE, page_up};
use monohull_abi::number;
use pages::Run;

const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const MAP_SHARED: u64 = 1;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MREMAP_MAYMOVE: u64 = 1;
const MADV_DONTNEED: u64 = 4;
const MADV_FREE: u64 = 8;

/// Files that are mapped privately.
static FILES: Lock<Vec<Run>> = Lock::new(Vec::new());

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
    if flags & MAP_FIXED != 0 {
        // Over what is mapped already, as a reservation that is put to use is.
        let over = address.is_multiple_of(PAGE) && is_anonymous(address, pages);
        if flags & MAP_ANONYMOUS == 0 || !over || shared_files::overlap(address, pages) {
            return EINVAL;
        }
        if mapped::holds(address, pages) {
            let done = match mapped::protect(address, pages, protection) {
                0 => mapped::discard(address, pages),
                error => error,
            };
            return if done == 0 { address as Answer } else { done };
        }
        // SAFETY: pages of the caller's, which it replaces by zeros.
        unsafe { (address as *mut u8).write_bytes(0, pages as usize) };
        return address as Answer;
    }
    if flags & MAP_ANONYMOUS != 0 {
        return anonymous(pages, protection);
    }
    let kind = match descriptors::get(descriptor) {
        Ok(kind) => kind,
        Err(_) => return EBADF,
    };
    let Kind::File(file) = kind else { return ENODEV };
    let writable = protection & PROT_WRITE != 0;
    if flags & MAP_SHARED != 0 {
        return shared_files::map(file, offset, len, writable);
    }
    let start = host::call(number::FILE_MMAP, [file, offset, len, if writable { map::WRITE } else { 0 }]);
    if start > 0 {
        FILES.hold().push(Run { start: start as u64, len });
        return start;
    }
    // A range that reaches beyond the file's end, or a file system that maps nothing: a copy does as well.
    copies::of(file, offset, len)
}

/// New anonymous pages.
fn anonymous(len: u64, protection: u64) -> Answer {
    if len < mapped::LARGE {
        return pages::take(len);
    }
    match mapped::take(len, protection) {
        // There are as many mappings as there may be.
        error @ ..0 if error != ENOMEM => pages::take(len),
        answer => answer,
    }
}

/// Whether all of it is anonymous and mapped.
fn is_anonymous(address: u64, len: u64) -> bool {
    mapped::holds(address, len) || pages::are_mapped(address, len)
}

/// Gives anonymous pages back.
fn release(address: u64, len: u64) -> Option<Answer> {
    mapped::release(address, len).or_else(|| pages::release(address, len).then_some(0))
}

/// `munmap(address, length)`.
pub(crate) fn munmap([address, len, ..]: [u64; 6]) -> Answer {
    if len == 0 || !address.is_multiple_of(PAGE) || len > isize::MAX as u64 {
        return EINVAL;
    }
    let len = page_up(len);
    if shared_files::unmap(address, len) {
        return 0;
    }
    if let Some(answer) = release(address, len) {
        return answer;
    }
    let mut files = FILES.hold();
    match files.iter().position(|file| file.start == address && page_up(file.len) <= len) {
        Some(at) => {
            files.swap_remove(at);
            host::call(number::FILE_MUNMAP, [address])
        }
        // A part of a mapped file goes with the whole of it.
        None => 0,
    }
}

/// `mremap(address, old length, new length, flags)`, of anonymous and of shared mappings.
pub(crate) fn mremap([address, old, new, flags, ..]: [u64; 6]) -> Answer {
    if old == 0 || new == 0 || new > isize::MAX as u64 || !address.is_multiple_of(PAGE) {
        return EINVAL;
    }
    let (old, new) = (page_up(old), page_up(new));
    let may_move = flags & MREMAP_MAYMOVE != 0;
    if let Some(answer) = shared_files::remap(address, old, new, may_move) {
        return answer;
    }
    if !is_anonymous(address, old) {
        return EINVAL;
    }
    if new <= old {
        if new < old {
            release(address + new, old - new);
        }
        return address as Answer;
    }
    if !may_move {
        return ENOMEM;
    }
    // A part of it may be inaccessible.
    if mapped::holds(address, old)
        && let error @ ..0 = mapped::protect(address, old, PROT_READ | PROT_WRITE)
    {
        return error;
    }
    let to = anonymous(new, PROT_READ | PROT_WRITE);
    if to > 0 {
        // SAFETY: both are mapped, and they do not overlap: one has just been taken.
        unsafe { core::ptr::copy_nonoverlapping(address as *const u8, to as *mut u8, old as usize) };
        release(address, old);
    }
    to
}

/// `mprotect(address, length, protection)`: refused where memory would become code. Large anonymous mappings are protected; a shared mapping
/// that was read only takes stores from then on; otherwise it is accepted where it cannot matter.
pub(crate) fn mprotect([address, len, protection, ..]: [u64; 6]) -> Answer {
    if protection & PROT_EXEC != 0 {
        return refuse(Missing::Executable, EACCES);
    }
    let pages = page_up(len);
    if len > 0 && address.is_multiple_of(PAGE) && mapped::holds(address, pages) {
        return mapped::protect(address, pages, protection);
    }
    if protection & PROT_WRITE != 0 { shared_files::make_writable(address, len) } else { 0 }
}

/// `msync(address, length, flags)`: what was stored in shared mappings is written to their files.
pub(crate) fn msync([address, len, flags, ..]: [u64; 6]) -> Answer {
    const MS_SYNC: u64 = 4;
    if !address.is_multiple_of(PAGE) {
        return EINVAL;
    }
    shared_files::sync(address, len, flags & MS_SYNC != 0)
}

/// `madvise(address, length, advice)`: `MADV_DONTNEED` frees the memory of large anonymous mappings and zeroes others, `MADV_FREE` frees that
/// of large ones; a hint for mapped files; otherwise nothing.
pub(crate) fn madvise([address, len, advice, ..]: [u64; 6]) -> Answer {
    let len = page_up(len);
    if len > 0 && matches!(advice, MADV_DONTNEED | MADV_FREE) && mapped::holds(address, len) {
        return mapped::discard(address, len);
    }
    let shared = shared_files::overlap(address, len);
    if advice == MADV_DONTNEED && len > 0 && !shared && pages::are_mapped(address, len) {
        // SAFETY: pages of the caller's, which it gives up the contents of.
        unsafe { (address as *mut u8).write_bytes(0, len as usize) };
    }
    let mapped = FILES.hold().iter().find(|file| file.holds(address, len.min(file.len))).map(|file| file.start);
    if let Some(start) = mapped.or_else(|| shared_files::mapped_by_system(address))
        && Advice::from_raw(advice).is_some()
    {
        let (offset, mut done) = (address - start, 0);
        // What is needed now is filled some at a time.
        while done < len {
            match host::call(number::FILE_MADVISE, [start, offset + done, len - done, advice]) {
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
