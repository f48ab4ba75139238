//! `mmap` and its kin.
//!
//! ```text
//!   anonymous          pages.rs         runs of pages from the heap's end
//!   a file, private    here             FILE_MMAP, or a copy where that is not possible
//!   a file, shared     shared_files.rs  the same, which the libc keeps equal with the file
//! ```
//!
//! Pages have no protection of their own: `mprotect` is accepted and changes nothing.

mod copies;
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

const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const MAP_SHARED: u64 = 1;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MREMAP_MAYMOVE: u64 = 1;
const MADV_DONTNEED: u64 = 4;

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
        let over = address.is_multiple_of(PAGE) && pages::are_mapped(address, pages);
        if flags & MAP_ANONYMOUS == 0 || !over || shared_files::overlap(address, pages) {
            return EINVAL;
        }
        // SAFETY: pages of the caller's, which it replaces by zeros.
        unsafe { (address as *mut u8).write_bytes(0, pages as usize) };
        return address as Answer;
    }
    if flags & MAP_ANONYMOUS != 0 {
        return pages::take(pages);
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

/// `munmap(address, length)`.
pub(crate) fn munmap([address, len, ..]: [u64; 6]) -> Answer {
    if len == 0 || !address.is_multiple_of(PAGE) || len > isize::MAX as u64 {
        return EINVAL;
    }
    let len = page_up(len);
    if shared_files::unmap(address, len) || pages::release(address, len) {
        return 0;
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
    if !pages::are_mapped(address, old) {
        return EINVAL;
    }
    if new <= old {
        if new < old {
            pages::release(address + new, old - new);
        }
        return address as Answer;
    }
    if !may_move {
        return ENOMEM;
    }
    let to = pages::take(new);
    if to > 0 {
        // SAFETY: both are mapped, and they do not overlap: one has just been taken.
        unsafe { core::ptr::copy_nonoverlapping(address as *const u8, to as *mut u8, old as usize) };
        pages::release(address, old);
    }
    to
}

/// `mprotect(address, length, protection)`: refused where memory would become code. A shared mapping that was read only takes stores from
/// then on; otherwise it is accepted where it cannot matter.
pub(crate) fn mprotect([address, len, protection, ..]: [u64; 6]) -> Answer {
    if protection & PROT_EXEC != 0 {
        return refuse(Missing::Executable, EACCES);
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

/// `madvise(address, length, advice)`: zeros for `MADV_DONTNEED`, a hint for mapped files, otherwise nothing.
pub(crate) fn madvise([address, len, advice, ..]: [u64; 6]) -> Answer {
    let len = page_up(len);
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
