//! Large anonymous mappings, and reservations: pages that the system maps for this purpose (`MAP`). Unlike pages of the heap they have a
//! protection, cost nothing while they are inaccessible, and return to the system.
//!
//! ```text
//!   mmap(PROT_NONE, 1 GiB)   reserved: no memory
//!   mprotect(a part)         usable, and counted
//!   madvise(MADV_DONTNEED)   its memory is free; it reads as zero
//!   munmap                   gone
//! ```

use super::pages::{Run, cut, first, insert, make_room};
use super::{PROT_READ, PROT_WRITE};
use crate::errno::{Answer, ENOBUFS, ENOMEM};
use crate::host;
use crate::lock::Lock;
use alloc::vec::Vec;
use core::ops::Range;
use monohull_abi::number;
use monohull_abi::types::MapAccess;

/// From this size on. The system's list of mappings has an end, and a mapping costs more than pages of the heap.
pub(super) const LARGE: u64 = 1 << 20;

/// What is mapped, in order; ranges that touch are one.
static MAPPED: Lock<Vec<Run>> = Lock::new(Vec::new());

/// Bytes that the system unmaps at a time. Of more it may unmap a part before it fails.
const AT_ONCE: u64 = 64 << 20;

/// Maps zeroed pages: where they are.
pub(super) fn take(len: u64, protection: u64) -> Answer {
    let mut mapped = MAPPED.hold();
    if let Err(error) = make_room(&mut mapped, 1) {
        return error;
    }
    let start = host::call(number::MAP, [len, 0, access(protection)]);
    if start > 0 {
        insert(&mut mapped, Run { start: start as u64, len });
    }
    start
}

/// Maps pages that are inaccessible, for a part of a file: where they are. Such memory is none of this list.
pub(super) fn reserve(len: u64) -> Answer {
    host::call(number::MAP, [len, 0, MapAccess::None as u64])
}

/// Unmaps what [`reserve`] gave.
pub(super) fn unreserve(run: Run) {
    for start in (run.start..run.end()).step_by(AT_ONCE as usize) {
        // What cannot be unmapped is lost.
        host::call(number::UNMAP, [start, AT_ONCE.min(run.end() - start)]);
    }
}

/// The first part of a range that is such memory.
pub(super) fn first_mapped(range: &Range<u64>) -> Option<Run> {
    first(&MAPPED.hold(), range)
}

/// Unmaps what is such memory.
pub(super) fn release(run: Run) -> Result<(), Answer> {
    let mut mapped = MAPPED.hold();
    let mut range = run.start..run.end();
    while let Some(part) = first(&mapped, &range) {
        let part = Run { len: part.len.min(AT_ONCE), ..part };
        make_room(&mut mapped, 1)?;
        done(host::call(number::UNMAP, [part.start, part.len]))?;
        cut(&mut mapped, part);
        range.start = part.end();
    }
    Ok(())
}

/// Frees the memory of what is such memory.
pub(super) fn discard(run: Run) -> Result<(), Answer> {
    done(host::call(number::DISCARD, [run.start, run.len]))
}

/// Changes what such memory may be used for.
pub(super) fn protect(run: Run, protection: u64) -> Result<(), Answer> {
    done(host::call(number::PROTECT, [run.start, run.len, access(protection)]))
}

/// A program knows that there may be no more mappings as `ENOMEM`.
fn done(answer: Answer) -> Result<(), Answer> {
    match answer {
        ENOBUFS => Err(ENOMEM),
        error @ ..0 => Err(error),
        _ => Ok(()),
    }
}

/// What may be written may be read, as on every processor of this kind.
fn access(protection: u64) -> u64 {
    let access = match protection & (PROT_READ | PROT_WRITE) {
        0 => MapAccess::None,
        PROT_READ => MapAccess::Read,
        _ => MapAccess::ReadWrite,
    };
    access as u64
}
