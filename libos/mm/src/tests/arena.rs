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
fn the_first_large_buffer_lies_on_huge_pages() {
    let committed = |bytes| {
        let mm = Mm::start();
        mm.alloc(A, bytes);
        mm.committed_in_arena()
    };
    let large = committed(1 << 20);
    assert!(large.end.is_multiple_of(HUGE) && large.end - large.start >= HUGE, "{large:x?}");
    let small = committed(PAGE);
    assert!(small.end - small.start < HUGE, "a huge page is not zeroed for a small one: {small:x?}");
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
fn buffers_of_gigabytes_lie_side_by_side() {
    let mm = Mm::start();
    mm.set_limit(A, 1 << 40);
    let buffers: Vec<u64> = (0..3).map(|_| mm.alloc(A, 3 << 30)).collect();
    assert_eq!(buffers, [ARENA_BASE, ARENA_BASE + (3 << 30), ARENA_BASE + (6 << 30)]);
    let giant = mm.alloc(A, 20 << 30);
    assert!(mm.owns(A, giant, 20 << 30));
    buffers.into_iter().for_each(|address| assert_eq!(mm.free(A, address), 0));
    assert_eq!(mm.free(A, giant), 0);
    assert_eq!(mm.alloc(A, 3 << 30), ARENA_BASE);
}

/// Many buffers of many sizes come, grow and go; none touches another, none shows what another held.
#[test]
fn buffers_never_overlap_and_always_start_zeroed() {
    let mm = Mm::start();
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    // Start, bytes and mark of every living buffer; the mark stands at both ends.
    let mut living: Vec<(u64, u64, u8)> = Vec::new();
    let stamp = |address: u64, bytes: u64, mark: u8| {
        mm.poke(address, &[mark]);
        mm.poke(address + bytes - 1, &[mark]);
    };
    for step in 0..5000 {
        let mark = step as u8 | 1;
        match random(3) {
            0 if !living.is_empty() => {
                let (address, bytes, mark) = living.swap_remove(random(living.len() as u64) as usize);
                assert_eq!((mm.peek(address, 1)[0], mm.peek(address + bytes - 1, 1)[0]), (mark, mark));
                assert_eq!(mm.free(A, address), 0);
            }
            1 if !living.is_empty() => {
                let (address, bytes, mark) = living.swap_remove(random(living.len() as u64) as usize);
                let larger = bytes + PAGE * random(20);
                let moved = mm.resize(A, address, larger) as u64;
                assert_eq!((mm.peek(moved, 1)[0], mm.peek(moved + bytes - 1, 1)[0]), (mark, mark));
                if larger > bytes {
                    assert_eq!(mm.peek(moved + larger - 1, 1), [0]);
                }
                stamp(moved, larger, mark);
                living.push((moved, larger, mark));
            }
            _ => {
                let bytes = PAGE * (1 + random(if step % 50 == 0 { 2000 } else { 30 }));
                let address = mm.alloc(A, bytes);
                assert_eq!((mm.peek(address, 1)[0], mm.peek(address + bytes - 1, 1)[0]), (0, 0));
                stamp(address, bytes, mark);
                living.push((address, bytes, mark));
            }
        }
        if step % 100 == 0 {
            let mut sorted = living.clone();
            sorted.sort_unstable();
            assert!(sorted.is_sorted_by(|(a, bytes, _), (b, ..)| a + bytes <= *b), "two buffers overlap");
            assert_eq!(mm.stats(A).arena_bytes, living.iter().map(|(_, bytes, _)| bytes).sum::<u64>());
        }
        if living.len() > 300 {
            living.drain(..150).for_each(|(address, ..)| assert_eq!(mm.free(A, address), 0));
        }
    }
}

/// Pages that cannot be taken from their last owner are emptied, and wait until they can.
#[test]
fn memory_that_keeps_its_owner_is_not_reused_until_it_loses_it() {
    let mm = Mm::start();
    mm.keep_apart();
    let (first, second) = (mm.alloc(A, 1), mm.alloc(A, 1));
    mm.poke(first, b"secret");
    mm.refuse_to_assign(true);
    assert_eq!(mm.free(A, first), 0);
    assert_eq!((mm.owner_of(first), mm.peek(first, 6)), (A, [0; 6].to_vec()));
    mm.refuse_to_assign(false);
    let next = mm.alloc(B, 1);
    assert_ne!(next, first, "it is not handed out as it is");
    mm.poke(first, b"said by the holder of key");
    mm.free(A, second);
    assert_ne!(mm.owner_of(first), A, "taken away at the next occasion");
    assert_eq!(mm.peek(first, 6), [0; 6]);
}

/// Memory that the host does not wipe, because it is locked for one, gets no other owner until it is wiped.
#[test]
fn memory_that_cannot_be_wiped_is_not_reused_until_it_can() {
    let mm = Mm::start();
    // Larger than what is kept: it is given back when it is freed.
    let bytes = 65 << 20;
    let secret = mm.alloc(A, bytes);
    mm.poke(secret, b"secret");
    mm.refuse_to_discard(true);
    assert_eq!(mm.free(A, secret), 0);
    assert_eq!(mm.peek(secret, 6), b"secret", "otherwise this shows nothing");
    let (large, small) = (mm.alloc(B, bytes), mm.alloc(B, 1));
    for (address, bytes) in [(large, bytes), (small, PAGE)] {
        assert!(address + bytes <= secret || secret + bytes <= address, "it has another owner");
    }
    // It is tried again with each buffer that is freed.
    assert_eq!(mm.free(B, small), 0);
    assert_eq!(mm.peek(secret, 6), b"secret");
    mm.refuse_to_discard(false);
    let small = mm.alloc(B, 1);
    assert_eq!(mm.free(B, small), 0);
    let again = mm.alloc(B, bytes);
    assert_eq!((again, mm.peek(again, 6)), (secret, [0; 6].to_vec()));
}

const NO_MEMORY: (i64, &str) = (Errno::OutOfMemory.to_value(), "the host has no memory for the slot buffer");

#[test]
fn memory_that_cannot_be_zeroed_goes_back() {
    let mm = Mm::start();
    let first = mm.alloc(A, 2 * PAGE);
    mm.poke(first, b"secret");
    mm.free(A, first);
    mm.fail_to_write_arena(true);
    let answer = mm.call(B, number::SLOT_ALLOC, [2 * PAGE, 8, 0, 0, 0, 0]);
    assert_eq!((answer, mm.explained().as_str()), NO_MEMORY);
    assert_eq!((mm.charged(B), mm.stats(B).arena_buffers), (0, 0));
    mm.fail_to_write_arena(false);
    assert_eq!(mm.alloc(B, 2 * PAGE), first, "it is free again");
    assert_eq!(mm.peek(first, 6), [0; 6]);
}

#[test]
fn a_buffer_whose_move_fails_stays_as_it_was() {
    let mm = Mm::start();
    let (address, wall) = (mm.alloc(A, PAGE), mm.alloc(A, PAGE));
    mm.poke(address, b"kept");
    let before = mm.stats(A);
    mm.fail_to_write_arena(true);
    assert_eq!((mm.resize(A, address, 3 * PAGE), mm.explained().as_str()), NO_MEMORY);
    mm.fail_to_write_arena(false);
    assert_eq!((mm.stats(A), mm.charged(A)), (before, 2 * PAGE));
    assert!(mm.owns(A, address, PAGE) && mm.peek(address, 4) == b"kept");
    // The copy succeeds, and then the pages cannot be handed to the instance.
    mm.refuse_to_assign(true);
    assert_eq!(mm.resize(A, address, 3 * PAGE), Errno::OutOfMemory.to_value());
    mm.refuse_to_assign(false);
    assert_eq!((mm.stats(A), mm.charged(A)), (before, 2 * PAGE));
    let moved = mm.resize(A, address, 3 * PAGE) as u64;
    assert_ne!(moved, address);
    assert_eq!((mm.peek(moved, 4), mm.charged(A)), (b"kept".to_vec(), 4 * PAGE));
    assert_eq!([mm.free(A, moved), mm.free(A, wall)], [0; 2]);
    assert_eq!((mm.stats(A).arena_buffers, mm.charged(A)), (0, 0));
}

/// While a buffer moves there are two of it, and both are charged.
#[test]
fn a_buffer_that_moves_fits_into_the_limit_twice_or_stays() {
    let mm = Mm::start();
    mm.set_limit(A, 10 * PAGE);
    let (address, wall) = (mm.alloc(A, 5 * PAGE), mm.alloc(B, PAGE));
    mm.poke(address, b"kept");
    let before = mm.stats(A);
    assert_eq!(mm.resize(A, address, 6 * PAGE), Errno::OutOfMemory.to_value());
    assert!(mm.explained().starts_with("memory limit of"), "{}", mm.explained());
    assert_eq!((mm.stats(A), mm.charged(A), mm.peek(address, 4)), (before, 5 * PAGE, b"kept".to_vec()));
    mm.set_limit(A, 11 * PAGE);
    let moved = mm.resize(A, address, 6 * PAGE) as u64;
    assert_ne!(moved, address);
    assert_eq!((mm.charged(A), mm.peek(moved, 4)), (6 * PAGE, b"kept".to_vec()), "of two there is one left");
    // In its place it needs nothing but what is new.
    assert_eq!(mm.resize(A, moved, 11 * PAGE) as u64, moved);
    assert_eq!([mm.free(A, moved), mm.free(B, wall)], [0; 2]);
    assert_eq!(mm.charged(A), 0);
}

#[test]
fn pages_that_cannot_be_added_in_place_are_free_again() {
    let mm = Mm::start();
    let address = mm.alloc(A, PAGE);
    mm.refuse_to_assign(true);
    assert_eq!(mm.resize(A, address, 3 * PAGE), Errno::OutOfMemory.to_value());
    mm.refuse_to_assign(false);
    assert!(!mm.owns(A, address, PAGE + 1), "it is no longer than it was");
    assert_eq!((mm.charged(A), mm.stats(A).arena_bytes), (PAGE, PAGE));
    // What could not be handed over is tried again when memory is freed.
    (0..3).for_each(|_| assert_eq!(mm.free(B, mm.alloc(B, PAGE)), 0));
    assert_eq!(mm.resize(A, address, 6 * PAGE) as u64, address);
}

#[test]
fn a_buffer_keeps_its_alignment_wherever_it_goes() {
    const ALIGN: u64 = 1 << 16;
    let mm = Mm::start();
    mm.alloc(A, PAGE);
    let first = mm.call(A, number::SLOT_ALLOC, [1, ALIGN, 0, 0, 0, 0]) as u64;
    let grow = |instance, address, from: u64, to: u64| {
        let wall = mm.alloc(instance, (300 + from) * PAGE);
        assert_eq!(wall, address + from * PAGE, "it has to move");
        let moved = mm.resize(instance, address, to * PAGE) as u64;
        assert!(moved != address && moved.is_multiple_of(ALIGN), "{moved:#x}");
        moved
    };
    mm.poke(first, b"kept");
    let second = grow(A, first, 1, 2);
    let third = grow(A, second, 2, 4);
    assert_eq!(mm.publish(A, "x", third, 4, BYTES), 0);
    mm.end(A, Ending::Done);
    mm.take(B, "x", BYTES).unwrap();
    assert!(mm.end(B, Ending::Failed), "it goes back into its slot");
    mm.take(3, "x", BYTES).unwrap();
    let last = grow(3, third, 4, 600);
    assert_eq!(mm.peek(last, 4), b"kept");
}
