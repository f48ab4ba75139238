//! What an instance leaves behind, and whether it can be repeated alone.

use super::*;
use crate::slots::key_of;
use monohull_abi::module::Ending::{Done, Failed};
use monohull_abi::module::SYSTEM_INSTANCE;
use monohull_module_testing::live_bytes;

/// B has taken a buffer from A, which is done.
fn with_input() -> (Mm, u64) {
    let mm = Mm::start();
    let address = mm.alloc(A, 10);
    mm.publish(A, "in", address, 10, BYTES);
    assert!(mm.end(A, Done));
    mm.take(B, "in", BYTES).unwrap();
    mm.take_woken();
    (mm, address)
}

#[test]
fn done_frees_what_is_owned_and_leaves_what_is_published() {
    let mm = Mm::start();
    mm.alloc(A, 10);
    mm.publish(A, "out", mm.alloc(A, 10), 10, BYTES);
    assert!(mm.end(A, Done));
    assert_eq!(mm.charged(A), 0);
    assert_eq!(mm.stats(B).arena_buffers, 1);
    assert!(mm.take(B, "out", BYTES).is_ok());
}

#[test]
fn failed_withdraws_what_was_published() {
    let mm = Mm::start();
    mm.alloc(A, 10);
    mm.publish(A, "out", mm.alloc(A, 10), 10, BYTES);
    assert!(mm.end(A, Failed), "it took nothing, and no other has seen what it made");
    assert_eq!(mm.take(B, "out", BYTES), Err(Errno::NotFound));
    assert_eq!((mm.charged(A), mm.stats(B).arena_buffers), (0, 0));
}

#[test]
fn an_untouched_input_goes_back_and_wakes() {
    let (mm, address) = with_input();
    assert!(mm.end(B, Failed));
    assert_eq!(mm.take_woken(), [key_of("in")]);
    assert_eq!(mm.charged(B), 0);
    let view = mm.take(3, "in", BYTES).unwrap();
    assert_eq!((view.address, view.count), (address, 10));
}

#[test]
fn pages_have_the_key_of_their_holder() {
    let (mm, address) = with_input();
    assert_eq!(mm.owner_of(address), B);
    assert!(mm.end(B, Failed));
    assert_eq!(mm.owner_of(address), SYSTEM_INSTANCE, "no instance's, in its slot again");
    mm.take(A, "in", BYTES).unwrap();
    assert_eq!(mm.owner_of(address), A);
    // Nothing lies behind it: it grows where it is.
    assert_eq!(mm.resize(A, address, 3 * PAGE) as u64, address);
    assert_eq!(mm.owner_of(address + 2 * PAGE), A);
    mm.free(A, address);
    assert_eq!([mm.owner_of(address), mm.owner_of(address + 2 * PAGE)], [SYSTEM_INSTANCE; 2]);
}

#[test]
fn a_touched_input_is_lost() {
    let (mm, address) = with_input();
    assert_eq!(mm.touch(B, address), 0);
    assert!(!mm.end(B, Failed));
    assert_eq!(mm.take(3, "in", BYTES), Err(Errno::NotFound));
    assert_eq!(mm.stats(3).arena_buffers, 0);
}

#[test]
fn touching_ones_own_buffer_loses_nothing() {
    let mm = Mm::start();
    let address = mm.alloc(A, 10);
    assert_eq!(mm.touch(A, address), 0);
    assert!(mm.end(A, Failed));
}

#[test]
fn resizing_an_input_is_a_touch() {
    let (mm, address) = with_input();
    mm.resize(B, address, 2 * PAGE);
    assert!(!mm.end(B, Failed));
}

#[test]
fn a_freed_input_goes_back_too() {
    let (mm, address) = with_input();
    assert_eq!(mm.free(B, address), 0);
    assert!(!mm.owns(B, address, 1), "freed is freed, for its taker");
    assert!(mm.end(B, Failed));
    assert_eq!(mm.take(3, "in", BYTES).unwrap().address, address);
    assert!(mm.end(3, Done));
    assert_eq!(mm.stats(3).arena_buffers, 0);
}

#[test]
fn freed_inputs_make_room_when_memory_is_short() {
    let (mm, address) = with_input();
    mm.free(B, address);
    assert_eq!(mm.charged(B), PAGE);
    mm.set_limit(B, 3 * PAGE);
    mm.alloc(B, 3 * PAGE);
    assert_eq!(mm.stats(B).arena_buffers, 1);
    assert!(!mm.end(B, Failed));

    let (mm, address) = {
        drop(mm);
        with_input()
    };
    mm.free(B, address);
    mm.set_limit(B, 3 * PAGE);
    assert!(mm.call(B, number::HEAP_GROW, [3 * PAGE, 0, 0, 0, 0, 0]) > 0);
    assert!(!mm.end(B, Failed));
}

#[test]
fn a_stream_of_inputs_is_not_kept_for_ever() {
    let mm = Mm::start();
    for _ in 0..100 {
        let address = mm.alloc(A, 1 << 20);
        mm.publish(A, "block", address, 1, BYTES);
        mm.take(B, "block", BYTES).unwrap();
        mm.free(B, address);
    }
    assert!(mm.charged(B) <= 64 << 20, "{}", mm.charged(B));
    assert!(!mm.end(B, Failed));
}

#[test]
fn what_others_have_seen_cannot_be_made_again() {
    let mm = Mm::start();
    mm.publish(A, "out", mm.alloc(A, 10), 10, BYTES);
    mm.take(B, "out", BYTES).unwrap();
    assert!(!mm.end(A, Failed));
    assert!(mm.end(B, Failed), "B itself could be repeated");
}

#[test]
fn taking_ones_own_buffer_back_loses_nothing() {
    let mm = Mm::start();
    let address = mm.alloc(A, 10);
    mm.publish(A, "mine", address, 10, BYTES);
    mm.take(A, "mine", BYTES).unwrap();
    assert_eq!(mm.charged(A), PAGE);
    mm.touch(A, address);
    assert!(mm.end(A, Failed));
    assert_eq!(mm.take(A, "mine", BYTES), Err(Errno::NotFound));
}

#[test]
fn an_input_handed_on_untouched_goes_back_where_it_was() {
    let (mm, address) = with_input();
    mm.publish(B, "out", address, 10, BYTES);
    assert!(mm.end(B, Failed));
    assert_eq!(mm.take(3, "out", BYTES), Err(Errno::NotFound));
    assert_eq!(mm.take(3, "in", BYTES).unwrap().address, address);
}

#[test]
fn an_output_under_the_name_of_an_input_gives_way() {
    let (mm, address) = with_input();
    mm.publish(B, "in", mm.alloc(B, 10), 10, BYTES);
    assert!(mm.end(B, Failed));
    assert_eq!(mm.take(3, "in", BYTES).unwrap().address, address);
    assert_eq!(mm.stats(3).arena_buffers, 1);
}

#[test]
fn a_name_that_was_filled_again_keeps_its_new_buffer() {
    let (mm, address) = with_input();
    let newer = mm.alloc(3, 10);
    mm.publish(3, "in", newer, 10, BYTES);
    assert!(!mm.end(B, Failed), "the slot of the input is filled");
    assert_eq!(mm.take(4, "in", BYTES).unwrap().address, newer);
    assert_ne!(newer, address);
}

#[test]
fn an_instance_that_never_called_has_whole_inputs() {
    let mm = Mm::start();
    assert!(mm.end(A, Failed) && mm.end(A, Done));
}

#[test]
fn ten_thousand_runs_leak_nothing() {
    let run = |fail: bool| {
        let mm = Mm::start();
        let input = mm.alloc(A, 5 * PAGE);
        mm.publish(A, "in", input, 5, BYTES);
        mm.publish(A, "never taken", mm.alloc(A, 1), 1, BYTES);
        mm.end(A, Done);
        mm.take(B, "in", BYTES).unwrap();
        mm.alloc(B, 3);
        mm.free(B, input);
        mm.end(B, if fail { Failed } else { Done });
        assert_eq!((mm.charged(A), mm.charged(B)), (0, 0));
    };
    run(true);
    let before = live_bytes();
    for i in 0..10_000 {
        run(i % 2 == 0);
    }
    assert_eq!(live_bytes(), before);
}

#[test]
fn ten_thousand_buffers_in_one_domain_leak_nothing() {
    let mm = Mm::start();
    let round = |fail| {
        let address = mm.alloc(A, 2 * PAGE);
        mm.publish(A, "x", address, 5, BYTES);
        mm.take(B, "x", BYTES).unwrap();
        mm.resize(B, address, 9 * PAGE);
        mm.end(B, if fail { Failed } else { Done });
        mm.end(A, Done);
        assert_eq!((mm.charged(A), mm.charged(B)), (0, 0));
    };
    round(true);
    round(false);
    let pages = mm.pages_in_arena();
    for i in 0..10_000 {
        round(i % 2 == 0);
    }
    // The miniature visor keeps what the test has placed in the cells, so heap bytes say nothing here.
    assert_eq!(mm.pages_in_arena(), pages);
    assert_eq!(mm.stats(A).arena_buffers, 0);
}
