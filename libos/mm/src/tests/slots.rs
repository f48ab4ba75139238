//! What functions may rely on.

use super::*;
use crate::slots::key_of;
use monohull_abi::module::{NEVER, SYSTEM_INSTANCE, Wake};
use monohull_module_testing::Passed;

#[test]
fn a_buffer_goes_from_one_function_to_another_by_reference() {
    let mm = Mm::start();
    let address = mm.alloc(A, 100);
    assert_eq!(mm.peek(address, 4096), [0; 4096]);
    assert!(mm.owns(A, address, 4096) && !mm.owns(B, address, 1));
    mm.poke(address, b"hello");
    assert_eq!(mm.publish(A, "greeting", address, 5, BYTES), 0);
    assert!(!mm.owns(A, address, 1), "what has been handed on is not the giver's any more");
    let view = mm.take(B, "greeting", BYTES).unwrap();
    assert_eq!(view, SlotView { address, count: 5, capacity: 4096 });
    assert_eq!(mm.peek(view.address, 5), b"hello");
    assert!(mm.owns(B, address, 4096) && !mm.owns(A, address, 1));
    assert_eq!(mm.take(B, "greeting", BYTES), Err(Errno::NotFound), "a slot is emptied by taking");
    assert_eq!(mm.passed(A), Passed { published: 5, taken: 0 });
    assert_eq!(mm.passed(B), Passed { published: 0, taken: 5 });
    assert_eq!(mm.free(B, address), 0);
}

#[test]
fn an_empty_slice_travels_too() {
    let mm = Mm::start();
    let address = mm.alloc(A, 0);
    assert_eq!(mm.publish(A, "nothing", address, 0, WORDS), 0);
    assert_eq!(mm.take(B, "nothing", WORDS).unwrap(), SlotView { address, count: 0, capacity: PAGE });
}

#[test]
fn taking_parks_until_the_slot_is_filled() {
    let mm = Mm::start();
    let (mut call, out) = mm.prepare_take(B, "late", BYTES, 0);
    let key = key_of("late");
    assert_eq!(mm.step(&mut call), Step::Parked { key, deadline: NEVER });
    let address = mm.alloc(A, 10);
    mm.publish(A, "late", address, 10, BYTES);
    assert_eq!(mm.take_woken(), [key]);
    call.wake = Wake::Woken;
    assert_eq!(mm.step(&mut call), Step::Ready(0));
    assert_eq!(mm.view(out).address, address);
}

#[test]
fn the_second_to_come_waits_on() {
    let mm = Mm::start();
    let (mut first, _) = mm.prepare_take(A, "one", BYTES, 0);
    let (mut second, _) = mm.prepare_take(B, "one", BYTES, 0);
    mm.step(&mut first);
    mm.step(&mut second);
    mm.publish(3, "one", mm.alloc(3, 1), 1, BYTES);
    first.wake = Wake::Woken;
    second.wake = Wake::Woken;
    assert_eq!(mm.step(&mut second), Step::Ready(0));
    assert!(matches!(mm.step(&mut first), Step::Parked { .. }));
}

#[test]
fn a_slot_that_is_never_filled_is_an_error() {
    let mm = Mm::start();
    let (mut call, _) = mm.prepare_take(A, "never", BYTES, 0);
    assert!(matches!(mm.step(&mut call), Step::Parked { .. }));
    call.wake = Wake::Deadlock;
    assert_eq!(mm.step(&mut call), Step::Ready(Errno::NeverFilled.to_value()));
    assert_eq!(mm.explained(), "no instance is left that could fill slot `never`");
}

#[test]
fn one_that_comes_too_late_is_told_that_the_slot_was_taken() {
    let mm = Mm::start();
    mm.publish(A, "in", mm.alloc(A, 1), 1, BYTES);
    mm.take(B, "in", BYTES).expect("it is filled");
    let (mut call, _) = mm.prepare_take(3, "in", BYTES, 0);
    assert!(matches!(mm.step(&mut call), Step::Parked { .. }));
    call.wake = Wake::Deadlock;
    assert_eq!(mm.step(&mut call), Step::Ready(Errno::NeverFilled.to_value()));
    assert_eq!(mm.explained(), "slot `in` has been taken already, and no instance is left that could fill it again");
}

#[test]
fn a_mismatch_names_both_types() {
    let mm = Mm::start();
    mm.publish(A, "part.3", mm.alloc(A, 64), 8, WORDS);
    assert_eq!(mm.take(B, "part.3", BYTES), Err(Errno::WrongType));
    assert_eq!(mm.explained(), "slot `part.3` holds `[u64]`, `[u8]` was asked for");
    let other = Type { fingerprint: 1, ..WORDS };
    assert_eq!(mm.take(B, "part.3", other), Err(Errno::WrongType));
    assert_eq!(mm.explained(), "slot `part.3` holds a `[u64]` of another layout than the `[u64]` asked for");
    assert!(mm.take(B, "part.3", WORDS).is_ok(), "the slot is still filled");
}

#[test]
fn a_filled_slot_is_not_overwritten() {
    let mm = Mm::start();
    let (first, second) = (mm.alloc(A, 1), mm.alloc(B, 1));
    mm.publish(A, "x", first, 1, BYTES);
    assert_eq!(mm.publish(B, "x", second, 1, BYTES), Errno::Exists.to_value());
    assert_eq!(mm.explained(), "slot `x` is already filled");
    assert!(mm.owns(B, second, 1), "the buffer is still the caller's");
    assert_eq!(mm.take(B, "x", BYTES).unwrap().address, first);
}

#[test]
fn a_taken_buffer_can_be_handed_on() {
    let mm = Mm::start();
    let address = mm.alloc(A, 8);
    mm.publish(A, "first", address, 8, BYTES);
    mm.take(B, "first", BYTES).unwrap();
    assert_eq!(mm.publish(B, "second", address, 8, BYTES), 0);
    assert_eq!(mm.take(3, "second", BYTES).unwrap().address, address);
}

#[test]
fn buffers_grow_in_place_or_move_and_never_shrink() {
    let mm = Mm::start();
    let address = mm.alloc(A, PAGE);
    mm.poke(address, b"kept");
    assert_eq!(mm.resize(A, address, 3 * PAGE) as u64, address, "what lies behind is free");
    assert_eq!(mm.resize(A, address, 10) as u64, address, "shrinking changes nothing");
    assert!(mm.owns(A, address, 3 * PAGE));
    let wall = mm.alloc(A, PAGE);
    assert_eq!(wall, address + 3 * PAGE);
    let moved = mm.resize(A, address, 4 * PAGE) as u64;
    assert_ne!(moved, address);
    assert_eq!(mm.peek(moved, 4), b"kept");
    assert_eq!(mm.peek(moved + 3 * PAGE, 4096), [0; 4096]);
    assert!(!mm.owns(A, address, 1) && mm.owns(A, moved, 4 * PAGE));
    assert_eq!(mm.charged(A), 5 * PAGE);
    assert_eq!(mm.stats(A).arena_bytes, 5 * PAGE);
}

#[test]
fn the_heap_grows_by_pages_up_to_the_limit() {
    let mm = Mm::start();
    mm.set_limit(A, 10 * PAGE);
    let first = mm.call(A, number::HEAP_GROW, [1, 0, 0, 0, 0, 0]);
    let second = mm.call(A, number::HEAP_GROW, [PAGE + 1, 0, 0, 0, 0, 0]);
    assert_eq!(second - first, PAGE as i64);
    assert_eq!(mm.stats(A).heap, 3 * PAGE);
    mm.alloc(A, 2 * PAGE);
    assert_eq!(mm.call(A, number::HEAP_GROW, [6 * PAGE, 0, 0, 0, 0, 0]), Errno::OutOfMemory.to_value());
    let why = "memory limit of 40960 bytes reached (heap 12288 + buffers 8192 + 24576 asked for; pages of 4096)";
    assert_eq!(mm.explained(), why);
    assert_eq!(mm.call(A, number::HEAP_GROW, [0; 6]), Errno::Invalid.to_value());
}

#[test]
fn buffers_are_charged_to_their_holder() {
    let mm = Mm::start();
    mm.set_limit(A, 10 * PAGE);
    mm.set_limit(B, 4 * PAGE);
    let address = mm.alloc(A, 5 * PAGE);
    let args = [6 * PAGE, 8, 0, 0, 0, 0];
    assert_eq!(mm.call(A, number::SLOT_ALLOC, args), Errno::OutOfMemory.to_value());
    mm.publish(A, "big", address, 1, BYTES);
    assert_eq!(mm.charged(A), 5 * PAGE, "what no instance has taken is still the producer's");
    assert_eq!(mm.take(B, "big", BYTES), Err(Errno::OutOfMemory));
    assert!(mm.explained().starts_with("memory limit of 16384 bytes reached"), "{}", mm.explained());
    assert!(mm.look("big").is_ok(), "the slot is still filled");
    mm.set_limit(B, 5 * PAGE);
    mm.take(B, "big", BYTES).unwrap();
    assert_eq!((mm.charged(A), mm.charged(B)), (0, 5 * PAGE));
    let stats = mm.stats(B);
    assert_eq!((stats.owned, stats.limit, stats.arena_buffers), (5 * PAGE, 5 * PAGE, 1));
}

#[test]
fn trusted_code_fills_and_reads_slots_uncharged() {
    let mm = Mm::start();
    let address = mm.system(number::SLOT_ALLOC, [10, 1, 0, 0, 0, 0]) as u64;
    mm.poke(address, b"input");
    let desc = [BYTES_FINGERPRINT, "[u8]".as_ptr() as u64, 4, 1];
    let (name, desc) = ("input", desc.as_ptr() as u64);
    let args = [name.as_ptr() as u64, 5, address, 5, desc, 0];
    assert_eq!(mm.system(number::SLOT_PUBLISH, args), 0);
    let (info, text) = mm.look("input").unwrap();
    assert_eq!(info, SlotInfo { address, count: 5, element_size: 1, fingerprint: BYTES_FINGERPRINT });
    assert_eq!(text, b"[u8]");
    assert_eq!(mm.look("output").unwrap_err(), Errno::NotFound);
    let mut view = SlotView::default();
    let args = [name.as_ptr() as u64, 5, desc, (&raw mut view) as u64, TAKE_NOW, 0];
    assert_eq!(mm.system(number::SLOT_TAKE, args), 0);
    assert_eq!(view.address, address);
    assert!(mm.owns(SYSTEM_INSTANCE, address, PAGE));
    assert_eq!(mm.system(number::SLOT_FREE, [address, 0, 0, 0, 0, 0]), 0);
    assert_eq!(mm.stats(A).arena_buffers, 0);
}

#[test]
fn filled_slots_are_listed_in_order_with_their_producers() {
    let mm = Mm::start();
    assert_eq!(mm.next(""), None);
    for (producer, name, count) in [(B, "part.10", 3), (A, "part.2", 0), (A, "é", 7)] {
        assert_eq!(mm.publish(producer, name, mm.alloc(producer, 64), count, WORDS), 0);
    }
    let mut names = Vec::new();
    let mut last = String::new();
    while let Some((name, filled)) = mm.next(&last) {
        names.push((name.clone(), filled.bytes, filled.producer));
        last = name;
    }
    let (a, b) = (u64::from(A), u64::from(B));
    assert_eq!(names, [("part.10".into(), 24, b), ("part.2".into(), 0, a), ("é".into(), 56, a)]);
    assert_eq!(mm.next("part.1").map(|(name, _)| name).as_deref(), Some("part.10"), "a name need not be filled");
    mm.take(B, "part.2", WORDS).unwrap();
    assert_eq!(mm.next("part.10").map(|(name, _)| name).as_deref(), Some("é"), "a taken slot is not filled");
}

#[test]
fn what_an_instance_holds_is_listed_without_what_it_has_given_away_or_freed() {
    let mm = Mm::start();
    assert_eq!(mm.held(A), []);
    let [kept, given, freed] = [100, 5000, 100].map(|bytes| mm.alloc(A, bytes));
    let other = mm.alloc(B, 100);
    let mut all = [(kept, 4096), (given, 8192), (freed, 4096)];
    all.sort_unstable();
    assert_eq!(mm.held(A), all);
    assert_eq!(mm.publish(A, "given", given, 5, BYTES), 0);
    assert_eq!(mm.free(A, freed), 0);
    assert_eq!((mm.held(A), mm.held(B)), ([(kept, 4096)].into(), [(other, 4096)].into()));
    let view = mm.take(B, "given", BYTES).unwrap();
    assert!(mm.held(B).contains(&(view.address, 8192)));
    assert_eq!(mm.free(B, view.address), 0);
    assert_eq!(mm.held(B), [(other, 4096)], "an input that is kept for a retry is not the function's");
    let out = mm.place(A, &[0; 16]);
    assert_eq!(mm.call(A, number::SLOT_HELD, [A.into(), 0, out, 0, 0, 0]), Errno::NotPermitted.to_value());
}
