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
fn memory_that_keeps_its_owner_is_nobodys_until_it_does_not() {
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
    mm.poke(first, b"said by whoever has the key");
    mm.free(A, second);
    assert_ne!(mm.owner_of(first), A, "taken away at the next occasion");
    assert_eq!(mm.peek(first, 6), [0; 6]);
}

/// Memory that the host does not wipe, because it is locked for one, gets no other owner until it is wiped.
#[test]
fn memory_that_cannot_be_wiped_is_nobodys_until_it_can() {
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
