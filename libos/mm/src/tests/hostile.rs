//! Arguments that a hostile function might choose. Each is refused, explained, and leaves everything as it was.

use super::*;
use crate::table::{HELD_SHARE, HELD_TOGETHER};
use monohull_abi::layout::{ARENA_BASE, ARENA_END, CELL_SIZE, INFO_BASE, cell_base};

const FAULT: i64 = Errno::Fault.to_value();
const INVALID: i64 = Errno::Invalid.to_value();

/// A has one buffer, and so has B.
fn scene() -> (Mm, u64, u64) {
    let mm = Mm::start();
    let (own, foreign) = (mm.alloc(A, 100), mm.alloc(B, 100));
    mm.poke(foreign, b"B's own");
    (mm, own, foreign)
}

fn unharmed(mm: &Mm, own: u64, foreign: u64) {
    assert!(mm.owns(A, own, PAGE) && mm.owns(B, foreign, PAGE));
    assert_eq!(mm.peek(foreign, 7), b"B's own");
    assert_eq!(mm.stats(A).arena_buffers, 2);
    assert_eq!((mm.charged(A), mm.charged(B)), (PAGE, PAGE));
}

/// Addresses that are never A's, with what is wrong with them.
fn wrong_addresses(mm: &Mm, foreign: u64) -> Vec<(&'static str, u64)> {
    std::vec![
        ("null", 0),
        ("wraps", u64::MAX - 7),
        ("trusted", (&raw const MONOHULL_MODULE) as u64),
        ("other cell", mm.place(B, &[1; 64])),
        ("unmapped", cell_base(A as usize) + CELL_SIZE / 2),
        ("cell's end", cell_base(A as usize) + CELL_SIZE - 8),
        ("info page", INFO_BASE),
        ("free arena", ARENA_BASE + (1 << 30)),
        ("arena's end", ARENA_END - 8),
        ("other's buffer", foreign),
        ("not canonical", 1 << 63),
    ]
}

#[test]
fn addresses_of_buffers() {
    let (mm, own, foreign) = scene();
    let mut wrong = wrong_addresses(&mm, foreign);
    wrong.extend([("inside", own + 8), ("before", own - PAGE), ("behind", own + PAGE), ("misaligned", own + 1)]);
    for (what, address) in wrong {
        assert_eq!(mm.free(A, address), FAULT, "free: {what}");
        assert_eq!(mm.touch(A, address), FAULT, "touch: {what}");
        assert_eq!(mm.resize(A, address, 2 * PAGE), FAULT, "resize: {what}");
        assert_eq!(mm.publish(A, "x", address, 1, BYTES), FAULT, "publish: {what}");
        assert_eq!(mm.explained(), std::format!("{address:#x} is not the start of a slot buffer that the caller owns"));
    }
    assert_eq!(mm.take(A, "x", BYTES), Err(Errno::NotFound));
    unharmed(&mm, own, foreign);
}

#[test]
fn addresses_of_names_types_and_answers() {
    let (mm, own, foreign) = scene();
    let name = mm.place(A, b"x");
    let desc = mm.describe(A, BYTES);
    for (what, address) in wrong_addresses(&mm, foreign) {
        let publish = |args| mm.call(A, number::SLOT_PUBLISH, args);
        assert_eq!(publish([address, 8, own, 1, desc, 0]), FAULT, "name: {what}");
        assert!(mm.explained().starts_with("the slot's name: "), "{}", mm.explained());
        assert_eq!(publish([name, 1, own, 1, address, 0]), FAULT, "type: {what}");
        assert!(mm.explained().starts_with("the description of the type: "), "{}", mm.explained());
        let words = [BYTES.fingerprint, address, 4, 1];
        let lying = mm.place(A, words.map(u64::to_ne_bytes).as_flattened());
        assert_eq!(publish([name, 1, own, 1, lying, 0]), FAULT, "type's name: {what}");
        assert!(mm.explained().starts_with("the type's name: "), "{}", mm.explained());
        let take = |args| mm.call(A, number::SLOT_TAKE, args);
        assert_eq!(take([name, 1, desc, address, TAKE_NOW, 0]), FAULT, "view: {what}");
        assert!(mm.explained().starts_with("the address for the slot's view: "), "{}", mm.explained());
        assert_eq!(mm.call(A, number::MEMORY_STATS, [address, 0, 0, 0, 0, 0]), FAULT, "statistics: {what}");
    }
    let odd = mm.place(A, &[0; 64]) + 1;
    assert_eq!(mm.call(A, number::SLOT_PUBLISH, [name, 1, own, 1, odd, 0]), FAULT);
    assert_eq!(mm.explained(), "the description of the type: the address is not a multiple of 8");
    unharmed(&mm, own, foreign);
}

#[test]
fn a_view_that_cannot_be_written_takes_nothing() {
    let (mm, own, foreign) = scene();
    mm.publish(B, "b", foreign, 1, BYTES);
    let (mut call, _) = mm.prepare_take(A, "b", BYTES, 0);
    call.args[3] = foreign;
    assert_eq!(mm.step(&mut call), Step::Ready(FAULT));
    assert!(mm.look("b").is_ok());
    assert!(mm.owns(A, own, 1));
}

#[test]
fn a_range_may_not_leave_its_buffer() {
    let (mm, own, foreign) = scene();
    assert_eq!(foreign, own + PAGE, "neighbours");
    assert!(mm.owns(A, own + PAGE - 1, 1) && !mm.owns(A, own + PAGE - 1, 2));
    assert!(!mm.owns(A, own, u64::MAX) && !mm.owns(A, u64::MAX, 2) && !mm.owns(A, own - 1, 2));
    let out = own + PAGE - 8;
    assert_eq!(mm.call(A, number::MEMORY_STATS, [out, 0, 0, 0, 0, 0]), FAULT);
    unharmed(&mm, own, foreign);
    assert_eq!(mm.call(A, number::MEMORY_STATS, [own, 0, 0, 0, 0, 0]), 0, "a buffer of one's own is fine");
}

#[test]
fn names() {
    let (mm, own, foreign) = scene();
    let long = "n".repeat(256);
    assert_eq!(mm.publish(A, &long, own, 1, BYTES), INVALID);
    assert_eq!(mm.explained(), "the slot's name has 256 bytes, more than 255");
    assert_eq!(mm.publish(A, "", own, 1, BYTES), INVALID);
    assert_eq!(mm.explained(), "the slot's name is empty");
    let name = mm.place(A, b"\xff\xfe");
    let desc = mm.describe(A, BYTES);
    for len in [u64::MAX, 1 << 32, 256] {
        assert_eq!(mm.call(A, number::SLOT_PUBLISH, [name, len, own, 1, desc, 0]), INVALID);
        assert_eq!(mm.call(A, number::SLOT_TAKE, [name, len, desc, name, 0, 0]), INVALID);
    }
    assert_eq!(mm.call(A, number::SLOT_PUBLISH, [name, 2, own, 1, desc, 0]), INVALID);
    assert_eq!(mm.explained(), "the slot's name is not UTF-8");
    let unnamed = Type { name: "", ..BYTES };
    assert_eq!(mm.publish(A, "x", own, 1, unnamed), INVALID);
    assert_eq!(mm.publish(A, &long[..255], own, 1, BYTES), 0, "the longest name");
    assert!(mm.take(A, &long[..255], BYTES).is_ok());
    unharmed(&mm, own, foreign);
}

#[test]
fn counts_and_sizes() {
    let (mm, own, foreign) = scene();
    for (count, size) in [(u64::MAX, 1), (PAGE + 1, 1), (513, 8), (1 << 61, 8), (u64::MAX, u64::MAX), (1, PAGE + 1)] {
        let ty = Type { size, ..BYTES };
        assert_eq!(mm.publish(A, "x", own, count, ty), INVALID, "{count} × {size}");
        assert!(mm.explained().ends_with("do not fit in a buffer of 4096 bytes"), "{}", mm.explained());
    }
    let alloc = |bytes, align| mm.call(A, number::SLOT_ALLOC, [bytes, align, 0, 0, 0, 0]);
    for align in [0, 3, 4 << 20, u64::MAX, 1 << 63] {
        assert_eq!(alloc(1, align), INVALID, "alignment {align}");
    }
    for bytes in [u64::MAX, u64::MAX - PAGE, 1 << 63, i64::MAX as u64, 1 << 41] {
        assert_eq!(alloc(bytes, 1), Errno::OutOfMemory.to_value(), "{bytes} bytes");
        assert_eq!(mm.resize(A, own, bytes), Errno::OutOfMemory.to_value(), "resize to {bytes} bytes");
        assert_eq!(mm.call(A, number::HEAP_GROW, [bytes, 0, 0, 0, 0, 0]), Errno::OutOfMemory.to_value());
    }
    unharmed(&mm, own, foreign);
}

#[test]
fn more_than_the_arena_even_without_a_limit() {
    let (mm, own, foreign) = scene();
    for bytes in [1 << 41, u64::MAX] {
        assert_eq!(mm.system(number::SLOT_ALLOC, [bytes, 1, 0, 0, 0, 0]), Errno::OutOfMemory.to_value());
    }
    mm.set_limit(A, u64::MAX);
    assert_eq!(mm.call(A, number::SLOT_ALLOC, [1 << 41, 1, 0, 0, 0, 0]), Errno::OutOfMemory.to_value());
    assert_eq!(mm.explained(), "the memory for slot buffers is exhausted");
    assert_eq!(mm.resize(A, own, 1 << 41), Errno::OutOfMemory.to_value());
    unharmed(&mm, own, foreign);
}

#[test]
fn using_what_was_handed_on_or_freed() {
    let (mm, own, foreign) = scene();
    mm.publish(A, "x", own, 1, BYTES);
    assert_eq!(mm.publish(A, "y", own, 1, BYTES), FAULT, "published twice");
    assert_eq!(mm.free(A, own), FAULT, "freed after publishing");
    assert_eq!(mm.resize(A, own, 2 * PAGE), FAULT, "resized after publishing");
    assert_eq!(mm.call(A, number::MEMORY_STATS, [own, 0, 0, 0, 0, 0]), FAULT, "named after publishing");
    mm.take(A, "x", BYTES).unwrap();
    unharmed(&mm, own, foreign);
    assert_eq!(mm.free(A, own), 0);
    assert_eq!(mm.free(A, own), FAULT, "freed twice");
    assert_eq!(mm.publish(A, "x", own, 1, BYTES), FAULT, "published after freeing");
}

#[test]
fn functions_may_not_make_the_calls_of_trusted_code() {
    let (mm, own, _) = scene();
    let denied = Errno::NotPermitted.to_value();
    assert_eq!(mm.call(A, number::SLOT_PIN, [A.into(), own, 1, 0, 0, 0]), denied);
    assert_eq!(mm.call(A, number::SLOT_UNPIN, [own, 0, 0, 0, 0, 0]), denied);
    let name = mm.place(A, b"x");
    assert_eq!(mm.call(A, number::SLOT_PEEK, [name, 1, name, name, 1, 0]), denied);
    assert_eq!(mm.call(A, number::SLOT_NEXT, [name, 1, name, name, 1, 0]), denied);
}

/// Where each instance has a key of its own, buffers that are held are mappings: who takes all it can gets an error, and the others
/// get theirs.
#[test]
fn an_instance_that_hoards_buffers_leaves_some_to_others() {
    let mm = Mm::start();
    mm.keep_apart();
    let alloc = |instance| mm.call(instance, number::SLOT_ALLOC, [1, 8, 0, 0, 0, 0]);
    let hoard: Vec<u64> = (0..HELD_TOGETHER).map(|_| mm.alloc(A, 1)).collect();
    assert_eq!(alloc(A), Errno::OutOfMemory.to_value());
    assert!(mm.explained().contains("1024 slot buffers at a time"), "{}", mm.explained());
    // Memory that is not held is charged to no instance.
    assert_eq!(mm.publish(A, "x", hoard[0], 1, BYTES), 0);
    assert_eq!(mm.free(A, hoard[1]), 0);
    assert!(alloc(A) > 0 && alloc(A) > 0);
    assert_eq!(alloc(A), Errno::OutOfMemory.to_value());
    for _ in 0..HELD_SHARE {
        assert!(alloc(B) > 0);
    }
    assert_eq!(alloc(B), Errno::OutOfMemory.to_value());
    // What one may not hold stays where it is.
    assert_eq!(mm.take(B, "x", BYTES).err(), Some(Errno::OutOfMemory));
    mm.end(A, Ending::Done);
    assert_eq!(mm.take(B, "x", BYTES).map(|view| view.address), Ok(hoard[0]));
}

#[test]
fn without_separate_keys_buffers_are_as_many_as_memory_allows() {
    let mm = Mm::start();
    for _ in 0..2 * HELD_TOGETHER {
        mm.alloc(A, 1);
    }
}
