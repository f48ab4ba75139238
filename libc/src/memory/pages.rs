//! Runs of pages for small anonymous mappings: they come from the heap's end (`HEAP_GROW`) and return to a list of free runs, first fit. They are
//! zeroed when they are used again.

use crate::errno::Answer;
use crate::host;
use crate::lock::Lock;
use alloc::vec::Vec;
use monohull_abi::number;

/// Pages side by side.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) len: u64,
}

impl Run {
    pub(super) fn end(self) -> u64 {
        self.start + self.len
    }

    pub(super) fn holds(self, start: u64, len: u64) -> bool {
        self.start <= start && start.checked_add(len).is_some_and(|end| end <= self.end())
    }
}

/// What is mapped and what is free.
struct Pages {
    /// Free runs, in order; no two touch.
    free: Vec<Run>,
    /// All that has ever been taken from the heap's end, in order; those that touch are one.
    taken: Vec<Run>,
}

static PAGES: Lock<Pages> = Lock::new(Pages { free: Vec::new(), taken: Vec::new() });

/// Adds a run to a list that is in order, and joins it with its neighbours.
pub(super) fn insert(list: &mut Vec<Run>, run: Run) {
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
pub(super) fn cut(list: &mut Vec<Run>, start: u64, len: u64) {
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

/// Takes zeroed pages: where they are.
pub(super) fn take(len: u64) -> Answer {
    let mut pages = PAGES.hold();
    if let Some(at) = pages.free.iter().position(|run| run.len >= len) {
        let start = pages.free[at].start;
        pages.free[at] = Run { start: start + len, len: pages.free[at].len - len };
        if pages.free[at].len == 0 {
            pages.free.remove(at);
        }
        // SAFETY: pages of this instance that nothing uses.
        unsafe { (start as *mut u8).write_bytes(0, len as usize) };
        return start as Answer;
    }
    let start = host::call(number::HEAP_GROW, [len]);
    if start > 0 {
        insert(&mut pages.taken, Run { start: start as u64, len });
    }
    start
}

/// Whether all of it is anonymous and mapped.
pub(super) fn are_mapped(start: u64, len: u64) -> bool {
    let pages = PAGES.hold();
    let overlaps = |run: &Run| run.start < start + len && start < run.end();
    pages.taken.iter().any(|run| run.holds(start, len)) && !pages.free.iter().any(overlaps)
}

/// Frees them, if all of it is anonymous. What is free in it already stays so.
pub(super) fn release(start: u64, len: u64) -> bool {
    let mut pages = PAGES.hold();
    let anonymous = pages.taken.iter().any(|run| run.holds(start, len));
    if anonymous {
        cut(&mut pages.free, start, len);
        insert(&mut pages.free, Run { start, len });
    }
    anonymous
}
