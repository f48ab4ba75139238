//! Which pages of user memory belong to a continuation, and putting them back.
//!
//! ```text
//!   main stack                     image                              heap              thread stack
//!   | guard | dead … | rsp-128 ██ | code | const | relro | data | bss | ██ … | not yet |guard| dead … rsp-128 ██ |
//!                      \________/                  if not 0  ≠ image  ≠ 0  ≠ 0                         \_______/
//! ```
//!
//! Pages are compared by content: what was never touched reads as zero. That costs a look at each page in use, and is
//! right whether a page is present, swapped out or part of a huge page. What lies below a stack's red zone is dead. It may hold
//! old secrets, and is left out, in the first page by writing zeros.

use super::changes::Found;
use crate::cell::Cell;
use crate::image::map::Pristine;
use monohull_abi::layout::{PAGE, THREAD_HEADER_SIZE, page_down};
use monohull_abi::types::RED_ZONE;
use monohull_sys::written_pages::Mappings;
use std::ops::Range;

/// The stack of a thread in a cell: its slot, and the stack pointer, which is user code's own choice.
pub(super) type Stack = (Option<u32>, u64);

/// What of a stack is alive; `None` if the stack pointer lies outside it.
pub(super) fn live_stack(cell: &Cell, (slot, user_rsp): Stack) -> Option<Range<u64>> {
    let stack = cell.stack(slot);
    let lowest = stack.start + PAGE;
    (lowest..stack.end).contains(&user_rsp).then(|| user_rsp.saturating_sub(RED_ZONE).max(lowest)..stack.end)
}

/// A stack pointer for a thread that was interrupted with this one, which may be anything: it lies in the thread's stack, and what the
/// thread may use of that lies above its red zone.
pub(super) fn bound_of_use(cell: &Cell, (slot, sp): Stack) -> u64 {
    let stack = cell.stack(slot);
    let (lowest, top) = (stack.start + PAGE, stack.end - THREAD_HEADER_SIZE - 8);
    match (lowest..stack.end).contains(&sp) {
        true => (sp & !7).min(top),
        false => lowest,
    }
}

/// The pages of a cell that differ from a fresh mapping of its image.
///
/// # Safety
/// No thread of the cell runs.
pub(super) unsafe fn of_cell(cell: &Cell, live_stacks: &[Range<u64>], into: &mut Found) {
    let (pristine, zeros) = cell.first_state();
    for first in pristine {
        let before = first.bytes(cell.image()).chunks(PAGE as usize);
        for (page, before) in first.range().step_by(PAGE as usize).zip(before) {
            if into.add_unread(page) {
                continue;
            }
            // SAFETY: pages of a writable segment, which stay mapped while there is the cell.
            let now = unsafe { bytes_of(page) };
            if now != before {
                into.add(page, now);
            }
        }
    }
    let zeros = zeros.iter().map(|zeros| (zeros.clone(), Mappings::Any));
    for (zeros, mappings) in zeros.chain([(cell.heap(), cell.mappings_of_heap())]) {
        // SAFETY: as above; the heap up to its end is writable.
        unsafe { of_written(zeros, mappings, into) };
    }
    for live in live_stacks {
        let (page, skip) = (page_down(live.start), (live.start % PAGE) as usize);
        // SAFETY: above the guard, a stack is writable.
        let mut first = unsafe { bytes_of(page) }.to_vec();
        first[..skip].fill(0);
        if first.iter().any(|byte| *byte != 0) {
            into.add(page, &first);
        }
        // SAFETY: as above.
        unsafe { of_range(page + PAGE..live.end, into) };
    }
}

/// The pages of a range that are not zero.
///
/// # Safety
/// They are readable, and nothing writes to them meanwhile.
pub(super) unsafe fn of_range(range: Range<u64>, into: &mut Found) {
    for page in range.step_by(PAGE as usize) {
        // SAFETY: the caller's promise.
        let bytes = unsafe { bytes_of(page) };
        if !is_zero(bytes) {
            into.add(page, bytes);
        }
    }
}

/// The same, of a range that does not have other bounds from one capture to the next but by growing: pages that have not been written to
/// since the latest capture are not read. It consists of such `mappings`.
///
/// # Safety
/// As for [`of_range`]; and whatever changes the range's pages stores to them in this process, or maps others in their place.
pub(super) unsafe fn of_written(range: Range<u64>, mappings: Mappings, into: &mut Found) {
    let mut next = range.start;
    // SAFETY: the caller's promise.
    let read = |range: Range<u64>, into: &mut Found| unsafe {
        for page in range.step_by(PAGE as usize) {
            if into.add_unread(page) {
                continue;
            }
            let bytes = bytes_of(page);
            match is_zero(bytes) {
                true => into.leave_out(page),
                false => into.add(page, bytes),
            }
        }
    };
    for unwritten in into.unwritten(&range, mappings) {
        read(next..unwritten.start, into);
        next = unwritten.end;
        for unknown in into.add_unwritten(unwritten) {
            read(unknown, into);
        }
    }
    read(next..range.end, into);
    into.looked_at(range);
}

/// Where the pages of a cell's continuation may lie.
pub(super) fn writable(cell: &Cell) -> Vec<Range<u64>> {
    let (pristine, zeros) = cell.first_state();
    let data = pristine.iter().map(Pristine::range);
    let (stacks, _) = cell.used_stacks();
    let stacks = std::iter::once(None).chain((0..stacks).map(Some)).map(|slot| {
        let stack = cell.stack(slot);
        stack.start + PAGE..stack.end
    });
    let mapped = cell.mapped().ranges().filter(|(_, state)| state.is_charged()).map(|(range, _)| range);
    data.chain(zeros.iter().cloned())
        .chain([cell.heap()])
        .chain(mapped)
        .chain(stacks)
        .filter(|range| !range.is_empty())
        .collect()
}

/// Writes captured pages back.
///
/// # Safety
/// The run lies in writable memory of functions, and no function runs.
pub(super) unsafe fn put_back(address: u64, bytes: &[u8]) {
    // SAFETY: the caller's promise; the record's bytes are the visor's own.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
}

/// # Safety
/// The page is readable, and nothing writes to it while the bytes are used.
unsafe fn bytes_of<'p>(page: u64) -> &'p [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(page as *const u8, PAGE as usize) }
}

pub(super) fn is_zero(bytes: &[u8]) -> bool {
    // SAFETY: every bit pattern is a `u64`.
    let (before, words, after) = unsafe { bytes.align_to::<u64>() };
    words.iter().all(|word| *word == 0) && before.iter().chain(after).all(|byte| *byte == 0)
}
