//! Large anonymous mappings, and reservations: pages that the system maps for this purpose (`MAP`). Unlike pages of the heap they have a
//! protection, cost nothing while they are inaccessible, and return to the system.
//!
//! ```text
//!   mmap(PROT_NONE, 1 GiB)   reserved: no memory
//!   mprotect(a part)         usable, and counted
//!   madvise(MADV_DONTNEED)   its memory is free; it reads as zero
//!   munmap                   gone
//! ```

use super::pages::{Run, cut, insert};
use super::{PROT_READ, PROT_WRITE};
use crate::errno::Answer;
use crate::host;
use crate::lock::Lock;
use alloc::vec::Vec;
use monohull_abi::number;
use monohull_abi::types::MapAccess;

/// From this size on. The system's list of mappings has an end, and a mapping costs more than pages of the heap.
pub(super) const LARGE: u64 = 1 << 20;

/// What is mapped, in order; ranges that touch are one.
static MAPPED: Lock<Vec<Run>> = Lock::new(Vec::new());

/// Maps zeroed pages: where they are.
pub(super) fn take(len: u64, protection: u64) -> Answer {
    let mut mapped = MAPPED.hold();
    let start = host::call(number::MAP, [len, 0, access(protection)]);
    if start > 0 {
        insert(&mut mapped, Run { start: start as u64, len });
    }
    start
}

/// Whether all of it is such memory.
pub(super) fn holds(start: u64, len: u64) -> bool {
    MAPPED.hold().iter().any(|run| run.holds(start, len))
}

/// Unmaps it, if all of it is such memory.
pub(super) fn release(start: u64, len: u64) -> Option<Answer> {
    let mut mapped = MAPPED.hold();
    mapped.iter().any(|run| run.holds(start, len)).then(|| {
        let answer = host::call(number::UNMAP, [start, len]);
        if answer == 0 {
            cut(&mut mapped, start, len);
        }
        answer
    })
}

/// Frees the memory of pages that are held.
pub(super) fn discard(start: u64, len: u64) -> Answer {
    host::call(number::DISCARD, [start, len])
}

/// Changes what pages that are held may be used for.
pub(super) fn protect(start: u64, len: u64, protection: u64) -> Answer {
    host::call(number::PROTECT, [start, len, access(protection)])
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
