//! Mapped memory after a sleep: whatever is done to it before it is touched, what is left of it is as it was, and what is dropped is zero.

use crate::point;
use core::time::Duration;
use monohull_abi::layout::PAGE;
use monohull_abi::number;
use monohull_abi::types::MapAccess;
use monohull_std::continuation::rewind;
use monohull_std::fs::{File, OpenOptions};
use monohull_std::io::{Read, Seek, SeekFrom, Write};
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_trampoline::user::hostcall;

/// Pages of an area, and of a part of it.
const AREA: u64 = 256;
const PART: u64 = 64;

/// What the word at an address holds; 0 in none.
fn word(area: u64, at: u64) -> u64 {
    (at + area).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

fn words(start: u64, pages: u64) -> impl Iterator<Item = (u64, *mut u64)> {
    (0..pages * PAGE / 8).map(move |at| (at, (start + at * 8) as *mut u64))
}

fn fill(area: u64, start: u64, pages: u64) {
    // SAFETY: the callers have mapped it, or own the buffer.
    words(start, pages).for_each(|(at, to)| unsafe { to.write_volatile(word(area, at)) });
}

/// Whether pages, from one on, are as the area that begins at `start` was filled.
fn is_as_it_was(area: u64, start: u64, first: u64, pages: u64) -> bool {
    let skipped = first * PAGE / 8;
    // SAFETY: as above.
    words(start + first * PAGE, pages).all(|(at, from)| unsafe { from.read_volatile() } == word(area, at + skipped))
}

fn is_zero(start: u64, pages: u64) -> bool {
    // SAFETY: as above.
    words(start, pages).all(|(_, from)| unsafe { from.read_volatile() } == 0)
}

fn call(number: u32, first: u64, second: u64, third: u64) -> u64 {
    let answer = hostcall(number, [first, second, third, 0, 0, 0]);
    assert!(answer >= 0, "{number}: {answer}");
    answer as u64
}

fn map(pages: u64) -> u64 {
    call(number::MAP, pages * PAGE, 0, MapAccess::ReadWrite as u64)
}

/// Pages, for a call.
fn bytes(start: u64, pages: u64) -> &'static mut [u8] {
    // SAFETY: the callers have mapped it, and use it no otherwise meanwhile.
    unsafe { core::slice::from_raw_parts_mut(start as *mut u8, (pages * PAGE) as usize) }
}

/// The host writes from memory that nothing has touched, and reads into such memory.
fn by_way_of(file: &mut File, from: u64, to: u64) {
    file.seek(SeekFrom::Start(0)).expect("the beginning");
    file.write_all(bytes(from, PART)).expect("written");
    file.seek(SeekFrom::Start(0)).expect("the beginning");
    file.read_exact(bytes(to, PART)).expect("read");
}

pub(crate) fn mapped(milliseconds: u64) {
    let mut file = OpenOptions::new();
    let file = file.read(true).write(true).create(true).truncate(true).open("/host/file");
    let mut file = file.expect("a file of the host");
    let areas: [u64; 13] = core::array::from_fn(|area| {
        let start = map(AREA);
        fill(area as u64, start, AREA);
        start
    });
    thread::sleep(Duration::from_millis(milliseconds));
    let [dropped, unmapped, hidden, moved_out, moved_in, captured, last, from, to, later @ ..] = areas;

    // From memory that was dropped before it was touched, to such that is as it was; and the other way round.
    call(number::DISCARD, from, PART * PAGE, 0);
    by_way_of(&mut file, from, to);
    assert!(is_zero(to, PART) && is_zero(from, PART) && is_as_it_was(8, to, PART, AREA - PART));
    call(number::DISCARD, to, 2 * PART * PAGE, 0);
    by_way_of(&mut file, from + PART * PAGE, to + PART * PAGE);
    assert!(is_zero(to, PART) && bytes(to + PART * PAGE, PART) == bytes(from + PART * PAGE, PART));
    // Memory that was mapped where other memory was.
    call(number::UNMAP, to, AREA * PAGE, 0);
    let anew = map(AREA);
    by_way_of(&mut file, from + 2 * PART * PAGE, anew);
    assert!(bytes(anew, PART) == bytes(from + 2 * PART * PAGE, PART) && is_zero(anew + PART * PAGE, AREA - PART));
    assert!(is_as_it_was(7, from, PART, AREA - PART));

    // SAFETY: a word of memory that is mapped.
    assert_eq!(unsafe { (dropped as *const u64).read_volatile() }, word(0, 0));
    call(number::DISCARD, dropped, 2 * PART * PAGE, 0);
    assert!(is_zero(dropped, 2 * PART) && is_as_it_was(0, dropped, 2 * PART, AREA - 2 * PART));

    call(number::UNMAP, unmapped + PART * PAGE, PART * PAGE, 0);
    let other = map(PART);
    assert!(is_zero(other, PART), "new memory, wherever it is");
    assert!(is_as_it_was(1, unmapped, 0, PART) && is_as_it_was(1, unmapped, 2 * PART, AREA - 2 * PART));

    call(number::PROTECT, hidden + PART * PAGE, PART * PAGE, MapAccess::None as u64);
    call(number::PROTECT, hidden, PART * PAGE, MapAccess::Read as u64);
    assert!(is_as_it_was(2, hidden, 0, PART) && is_as_it_was(2, hidden, 2 * PART, AREA - 2 * PART));
    call(number::PROTECT, hidden + PART * PAGE, PART * PAGE, MapAccess::ReadWrite as u64);
    assert!(is_as_it_was(2, hidden, PART, PART));

    let buffer = call(number::SLOT_MOVE_OUT, moved_out, 2 * PART * PAGE, 0);
    assert!(is_as_it_was(3, buffer, 0, 2 * PART), "what was moved to a buffer");
    assert!(is_zero(moved_out, 2 * PART) && is_as_it_was(3, moved_out, 2 * PART, AREA - 2 * PART));

    fill(30, buffer, 2 * PART);
    call(number::SLOT_MOVE_IN, buffer, moved_in + PART * PAGE, 2 * PART * PAGE);
    assert!(is_as_it_was(30, moved_in + PART * PAGE, 0, 2 * PART), "what was moved from a buffer");
    assert!(is_as_it_was(4, moved_in, 0, PART) && is_as_it_was(4, moved_in, 3 * PART, AREA - 3 * PART));
    call(number::SLOT_FREE, buffer, 0, 0);

    changed(later, milliseconds);

    let (checkpoint, rewinds, _) = point();
    assert!(is_as_it_was(5, captured, 0, AREA), "after {rewinds} rewinds");
    fill(rewinds + 50, captured, PART);
    if rewinds < 2 {
        rewind(&checkpoint, &[]);
    }
    assert!(is_as_it_was(6, last, 0, AREA));
}

/// Areas that are changed before they are touched, and looked at after another sleep.
fn changed([dropped, hidden, moved_out, moved_in]: [u64; 4], milliseconds: u64) {
    call(number::DISCARD, dropped, PART * PAGE, 0);
    call(number::PROTECT, hidden, PART * PAGE, MapAccess::None as u64);
    let out = call(number::SLOT_MOVE_OUT, moved_out, PART * PAGE, 0);
    let back = call(number::SLOT_MOVE_OUT, moved_in, PART * PAGE, 0);
    call(number::SLOT_MOVE_IN, back, moved_in + PART * PAGE, PART * PAGE);
    thread::sleep(Duration::from_millis(milliseconds));
    assert!(is_zero(dropped, PART) && is_as_it_was(9, dropped, PART, AREA - PART));
    call(number::PROTECT, hidden, PART * PAGE, MapAccess::Read as u64);
    assert!(is_as_it_was(10, hidden, 0, AREA));
    assert!(is_as_it_was(11, out, 0, PART), "what is in a buffer");
    assert!(is_zero(moved_out, PART) && is_as_it_was(11, moved_out, PART, AREA - PART));
    assert!(is_zero(moved_in, PART) && is_as_it_was(12, moved_in + PART * PAGE, 0, PART), "what was in a buffer");
    assert!(is_as_it_was(12, moved_in, 2 * PART, AREA - 2 * PART));
    call(number::SLOT_FREE, out, 0, 0);
    call(number::SLOT_FREE, back, 0, 0);
}
