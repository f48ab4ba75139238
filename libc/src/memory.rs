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
const MAP_STACK: u64 = 0x20000;
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
        let is_anonymous = flags & MAP_ANONYMOUS != 0;
        return if is_anonymous && address.is_multiple_of(PAGE) { over(address, pages, protection) } else { EINVAL };
    }
    if flags & MAP_ANONYMOUS != 0 {
        // A stack that has a guard has it for certain.
        let has_guard = flags & MAP_STACK != 0 && protection == 0;
        return if has_guard { mapped::take(pages, protection) } else { anonymous(pages, protection) };
    }
    let kind = match descriptors::get(descriptor) {
        Ok(kind) => kind,
        Err(_) => return EBADF,
    };
    let file = match kind {
        Kind::File(file) => file,
        Kind::Zero if flags & MAP_SHARED == 0 => return anonymous(pages, protection),
        _ => return ENODEV,
    };
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
        ENOMEM if protection == 0 => refuse(Missing::Reservation, ENOMEM),
        answer => answer,
    }
}

/// New anonymous pages over what is mapped already, as a reservation that is put to use is: nothing else is replaced.
fn over(address: u64, len: u64, protection: u64) -> Answer {
    if !is_mapped(address, len) || shared_files::overlap(address, len) {
        return EINVAL;
    }
    let each = |part| match part {
        Part::System(run) => mapped::protect(run, protection).and_then(|()| mapped::discard(run)),
        Part::Heap(run) => pages::become_anonymous(run).map(|()| pages::zero(run)),
    };
    parts(address, len).try_for_each(each).map_or_else(|error| error, |()| address as Answer)
}

/// A part of a range of addresses.
#[derive(Clone, Copy)]
enum Part {
    /// Of a large anonymous mapping.
    System(Run),
    /// Of a small one, or of one that has a part of a file.
    Heap(Run),
}

impl Part {
    fn run(self) -> Run {
        let (Part::System(run) | Part::Heap(run)) = self;
        run
    }
}

/// The parts of a range that are mapped, upwards.
fn parts(address: u64, len: u64) -> impl Iterator<Item = Part> {
    let mut range = address..address.saturating_add(len);
    core::iter::from_fn(move || {
        let both = [mapped::first_mapped(&range).map(Part::System), pages::first_mapped(&range).map(Part::Heap)];
        let next = both.into_iter().flatten().min_by_key(|part| part.run().start)?;
        range.start = next.run().end();
        Some(next)
    })
}

/// Whether all of a range is mapped.
fn is_mapped(address: u64, len: u64) -> bool {
    parts(address, len).map(|part| part.run().len).sum::<u64>() == len
}

/// What is said of a range once its parts have been changed: what is mapped of it is changed also if there are gaps.
fn unless_gaps(address: u64, len: u64) -> Answer {
    // Of a range without large mappings it is not known what is mapped: it may be the image's, or a stack.
    let is_large = mapped::first_mapped(&(address..address.saturating_add(len))).is_some();
    if is_large && !is_mapped(address, len) { ENOMEM } else { 0 }
}

/// `munmap(address, length)`: a mapped file goes as a whole, if all of it is in the range.
pub(crate) fn munmap([address, len, ..]: [u64; 6]) -> Answer {
    if len == 0 || !address.is_multiple_of(PAGE) || len > isize::MAX as u64 {
        return EINVAL;
    }
    let len = page_up(len);
    if shared_files::unmap(address, len) {
        return 0;
    }
    if let Err(error) = release(address, len) {
        return error;
    }
    let range = Run { start: address, len };
    let mut files = FILES.hold();
    while let Some(at) = files.iter().position(|file| range.holds(file.start, page_up(file.len))) {
        match host::call(number::FILE_MUNMAP, [files[at].start]) {
            error @ ..0 => return error,
            _ => files.swap_remove(at),
        };
    }
    0
}

/// Gives back what is mapped of a range.
fn release(address: u64, len: u64) -> Result<(), Answer> {
    parts(address, len).try_for_each(|part| match part {
        Part::System(run) => mapped::release(run),
        Part::Heap(run) => pages::release(run),
    })
}

/// `mremap(address, old length, new length, flags)`, of anonymous and of shared mappings. What becomes longer may be read and written.
pub(crate) fn mremap([address, old, new, flags, ..]: [u64; 6]) -> Answer {
    if old == 0 || new == 0 || new > isize::MAX as u64 || !address.is_multiple_of(PAGE) {
        return EINVAL;
    }
    if flags & !MREMAP_MAYMOVE != 0 {
        return refuse(Missing::Move, EINVAL);
    }
    let (old, new) = (page_up(old), page_up(new));
    let may_move = flags & MREMAP_MAYMOVE != 0;
    if let Some(answer) = shared_files::remap(address, old, new, may_move) {
        return answer;
    }
    if !is_mapped(address, old) {
        return EINVAL;
    }
    if new <= old {
        let rest = if new < old { release(address + new, old - new) } else { Ok(()) };
        return rest.map_or_else(|error| error, |()| address as Answer);
    }
    if !may_move {
        return ENOMEM;
    }
    let to = anonymous(new, PROT_READ | PROT_WRITE);
    if to < 0 {
        return to;
    }
    // A part of it may be inaccessible.
    let moved = parts(address, old).try_for_each(|part| match part {
        Part::System(run) => mapped::protect(run, PROT_READ | PROT_WRITE),
        Part::Heap(_) => Ok(()),
    });
    if let Err(error) = moved {
        // What cannot be given back is lost.
        let _ = release(to as u64, new);
        return error;
    }
    // SAFETY: both are mapped, and they do not overlap: one has just been taken.
    unsafe { core::ptr::copy_nonoverlapping(address as *const u8, to as *mut u8, old as usize) };
    // As above.
    let _ = release(address, old);
    to
}

/// `mprotect(address, length, protection)`: refused where memory would become code. Large anonymous mappings are protected; a shared mapping
/// that was read only takes stores from then on; otherwise it is accepted where it cannot matter.
pub(crate) fn mprotect([address, len, protection, ..]: [u64; 6]) -> Answer {
    if protection & PROT_EXEC != 0 {
        return refuse(Missing::Executable, EACCES);
    }
    if !address.is_multiple_of(PAGE) {
        return EINVAL;
    }
    let pages = page_up(len);
    let protected = parts(address, pages).try_for_each(|part| match part {
        Part::System(run) => mapped::protect(run, protection),
        Part::Heap(_) => Ok(()),
    });
    if let Err(error) = protected {
        return error;
    }
    if protection & PROT_WRITE != 0
        && let error @ ..0 = shared_files::make_writable(address, len)
    {
        return error;
    }
    unless_gaps(address, pages)
}

/// `msync(address, length, flags)`: what was stored in shared mappings is written to their files.
pub(crate) fn msync([address, len, flags, ..]: [u64; 6]) -> Answer {
    const MS_SYNC: u64 = 4;
    if !address.is_multiple_of(PAGE) {
        return EINVAL;
    }
    shared_files::sync(address, len, flags & MS_SYNC != 0)
}

/// `madvise(address, length, advice)`: `MADV_DONTNEED` frees the memory of large anonymous mappings and zeroes small ones, `MADV_FREE` frees
/// that of large ones; a hint for mapped files; otherwise nothing.
pub(crate) fn madvise([address, len, advice, ..]: [u64; 6]) -> Answer {
    if !address.is_multiple_of(PAGE) {
        return EINVAL;
    }
    let len = page_up(len);
    let frees = matches!(advice, MADV_DONTNEED | MADV_FREE);
    let free = |part| match part {
        Part::System(run) => mapped::discard(run),
        Part::Heap(run) if advice == MADV_DONTNEED => {
            pages::zero(run);
            Ok(())
        }
        Part::Heap(_) => Ok(()),
    };
    if frees && let Err(error) = parts(address, len).try_for_each(free) {
        return error;
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
    if frees { unless_gaps(address, len) } else { 0 }
}

/// `brk(address)`: the program break does not move; `malloc` needs none.
pub(crate) fn brk(_: [u64; 6]) -> Answer {
    ENOMEM
}
