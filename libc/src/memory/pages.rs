//! Runs of pages for small anonymous mappings: they come from the heap's end (`HEAP_GROW`) and return to a list of free runs, first fit. They are
//! zeroed when they are used again.

use crate::errno::{Answer, ENOMEM};
use crate::host;
use crate::lock::Lock;
use alloc::vec::Vec;
use core::ops::Range;
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
    /// Parts of files that are not free, in order.
    files: Vec<Run>,
}

static PAGES: Lock<Pages> = Lock::new(Pages { free: Vec::new(), taken: Vec::new(), files: Vec::new() });

/// Makes room for so many more in a list: a program that has no memory left gets an error, and is not ended.
pub(super) fn make_room(list: &mut Vec<Run>, more: usize) -> Result<(), Answer> {
    list.try_reserve(more).map_err(|_| ENOMEM)
}

/// Adds a run to a list that is in order, and joins it with its neighbours. The list may grow by one.
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

/// Takes a part out of every run of a list. The list may grow by one for each run that the part is inside of.
pub(super) fn cut(list: &mut Vec<Run>, part: Run) {
    let mut at = 0;
    while let Some(&run) = list.get(at) {
        let before = run.start..part.start.min(run.end());
        let after = part.end().max(run.start)..run.end();
        let [before, after] =
            [before, after].map(|rest| Run { start: rest.start, len: rest.end.saturating_sub(rest.start) });
        match (before.len, after.len) {
            (0, 0) => {
                list.remove(at);
                continue;
            }
            (0, _) => list[at] = after,
            (_, 0) => list[at] = before,
            _ => {
                list[at] = before;
                at += 1;
                list.insert(at, after);
            }
        }
        at += 1;
    }
}

/// The first part of a range that a list which is in order has.
pub(super) fn first(list: &[Run], range: &Range<u64>) -> Option<Run> {
    let run = list.get(list.partition_point(|run| run.end() <= range.start))?;
    let start = run.start.max(range.start);
    (start < range.end).then(|| Run { start, len: run.end().min(range.end) - start })
}

/// The first part of a range that a list which is in order has not.
fn first_gap(list: &[Run], range: &Range<u64>) -> Option<Run> {
    let mut start = range.start;
    while let Some(run) = first(list, &(start..range.end)).filter(|run| run.start == start) {
        start = run.end();
    }
    let end = first(list, &(start..range.end)).map_or(range.end, |run| run.start);
    (start < end).then(|| Run { start, len: end - start })
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
    if let Err(error) = make_room(&mut pages.taken, 1) {
        return error;
    }
    let start = host::call(number::HEAP_GROW, [len]);
    if start > 0 {
        insert(&mut pages.taken, Run { start: start as u64, len });
    }
    start
}

/// Notes that pages which have been taken have a part of a file.
pub(super) fn are_of_a_file(start: u64, len: u64) -> Result<(), Answer> {
    let mut pages = PAGES.hold();
    make_room(&mut pages.files, 1)?;
    insert(&mut pages.files, Run { start, len });
    Ok(())
}

/// The first part of a range that is such pages, and not free.
pub(super) fn first_mapped(range: &Range<u64>) -> Option<Run> {
    let pages = PAGES.hold();
    let mut range = range.clone();
    loop {
        let taken = first(&pages.taken, &range)?;
        match first_gap(&pages.free, &(taken.start..taken.end())) {
            Some(mapped) => return Some(mapped),
            None => range.start = taken.end(),
        }
    }
}

/// Zeroes mapped pages but those with parts of files, which Linux would read again.
pub(super) fn zero(run: Run) {
    let mut range = run.start..run.end();
    // The lock is not held while pages are zeroed: it may take long.
    while let Some(part) = { first_gap(&PAGES.hold().files, &range) } {
        // SAFETY: pages of the caller's, which it gives up the contents of.
        unsafe { (part.start as *mut u8).write_bytes(0, part.len as usize) };
        range.start = part.end();
    }
}

/// Mapped pages are anonymous from now on, whatever they were.
pub(super) fn become_anonymous(run: Run) -> Result<(), Answer> {
    let mut pages = PAGES.hold();
    make_room(&mut pages.files, 1)?;
    cut(&mut pages.files, run);
    Ok(())
}

/// Frees mapped pages.
pub(super) fn release(run: Run) -> Result<(), Answer> {
    let mut pages = PAGES.hold();
    make_room(&mut pages.free, 1)?;
    make_room(&mut pages.files, 1)?;
    cut(&mut pages.files, run);
    insert(&mut pages.free, run);
    Ok(())
}
