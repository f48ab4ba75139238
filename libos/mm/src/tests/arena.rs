//! The memory behind the buffers.

use super::*;
use crate::pages::HUGE;
use monohull_abi::layout::ARENA_BASE;

#[test]
fn reused_memory_is_zero() {
    let mm = Mm::start();
    let first = mm.alloc(A, 3 * PAGE);
    mm.poke(first, &[7; 3 * 4096]);
    mm.free(A, first);
    let second = mm.alloc(B, 3 * PAGE);
    assert_eq!(second, first, "warm memory is used first");
    assert_eq!(mm.peek(second, 3 * 4096), [0; 3 * 4096]);
}

#[test]
fn memory_that_a_buffer_grows_into_is_zero() {
    let mm = Mm::start();
    let (first, wall) = (mm.alloc(A, PAGE), mm.alloc(A, 1));
    let dirty = mm.alloc(A, 2 * PAGE);
    mm.poke(dirty, &[7; 2 * 4096]);
    mm.free(A, dirty);
    let moved = mm.resize(A, first, 2 * PAGE) as u64;
    assert_eq!(moved, dirty);
    assert_eq!(mm.peek(moved, 2 * 4096), [0; 2 * 4096]);
    assert!(mm.owns(A, wall, 1));
}

#[test]
fn large_buffers_are_aligned_for_huge_pages() {
    let mm = Mm::start();
    mm.alloc(A, 1);
    for bytes in [HUGE, 3 * HUGE + 1, HUGE - PAGE] {
        let address = mm.alloc(A, bytes);
        assert_eq!(address.is_multiple_of(HUGE), bytes >= HUGE);
    }
    let aligned = mm.call(A, number::SLOT_ALLOC, [1, 1 << 16, 0, 0, 0, 0]) as u64;
    assert!(aligned.is_multiple_of(1 << 16));
}

#[test]
fn free_memory_beyond_the_budget_is_given_back() {
    let mm = Mm::start();
    mm.set_limit(A, 1 << 40);
    let buffers: Vec<u64> = (0..100).map(|_| mm.alloc(A, 1 << 20)).collect();
    for address in &buffers {
        // One page of each is really there.
        mm.poke(*address, b"x");
    }
    assert!(mm.pages_in_arena() >= 100);
    for address in buffers {
        mm.free(A, address);
    }
    assert_eq!(mm.pages_in_arena(), 64);
    let huge = mm.alloc(A, 65 << 20);
    mm.poke(huge, b"x");
    mm.free(A, huge);
    assert_eq!(mm.pages_in_arena(), 64, "larger than the budget: not kept at all");
}

#[test]
fn small_warm_buffers_make_room_for_a_large_one() {
    let mm = Mm::start();
    let small: Vec<u64> = (0..64).map(|_| mm.alloc(A, 1 << 20)).collect();
    let large = mm.alloc(A, 32 << 20);
    small.into_iter().for_each(|address| assert_eq!(mm.free(A, address), 0));
    mm.free(A, large);
    assert_eq!(mm.alloc(A, 32 << 20), large);
}

#[test]
fn discarded_neighbours_merge() {
    let mm = Mm::start();
    mm.set_limit(A, 1 << 40);
    let big: Vec<u64> = (0..4).map(|_| mm.alloc(A, 100 << 20)).collect();
    big.into_iter().for_each(|address| assert_eq!(mm.free(A, address), 0));
    assert_eq!(mm.alloc(A, 400 << 20), ARENA_BASE);
}

#[test]
fn the_arena_goes_on_where_the_first_generation_ends() {
    let mm = Mm::start();
    mm.set_limit(A, 1 << 40);
    let buffers: Vec<u64> = (0..3).map(|_| mm.alloc(A, 3 << 30)).collect();
    assert_eq!(buffers, [ARENA_BASE, ARENA_BASE + (4 << 30), ARENA_BASE + (8 << 30)]);
    let giant = mm.alloc(A, 20 << 30);
    assert!(mm.owns(A, giant, 20 << 30));
    buffers.into_iter().for_each(|address| assert_eq!(mm.free(A, address), 0));
    assert_eq!(mm.free(A, giant), 0);
    assert_eq!(mm.alloc(A, 3 << 30), ARENA_BASE);
}
