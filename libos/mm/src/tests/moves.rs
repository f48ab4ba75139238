//! Memory that moves between buffers and what an instance has mapped: whose it is, what is charged, what is refused. How the kernel's pages
//! move is tested in the domain.

use super::*;
use crate::arena::FROM_CELLS_MAX;
use monohull_abi::types::{MOVED_MIN, MapAccess};
use std::vec;

const SIZE: u64 = 2 * MOVED_MIN;

impl Mm {
    fn mapped(&self, instance: u32, bytes: u64) -> u64 {
        let args = [bytes, 0, MapAccess::ReadWrite as u64, 0, 0, 0];
        Errno::from_value(self.call(instance, number::MAP, args)).expect("memory")
    }

    fn move_in(&self, instance: u32, buffer: u64, address: u64, bytes: u64) -> Result<u64, Errno> {
        Errno::from_value(self.call(instance, number::SLOT_MOVE_IN, [buffer, address, bytes, 0, 0, 0]))
    }

    fn move_out(&self, instance: u32, address: u64, bytes: u64) -> Result<u64, Errno> {
        Errno::from_value(self.call(instance, number::SLOT_MOVE_OUT, [address, bytes, 0, 0, 0, 0]))
    }
}

#[test]
fn memory_moves_out_of_one_cell_and_into_another() {
    let mm = Mm::start();
    let (from, to) = (mm.mapped(A, SIZE + PAGE), mm.mapped(B, SIZE + PAGE));
    let bytes: Vec<u8> = (0..SIZE + 5).map(|index| index as u8 | 1).collect();
    mm.poke(from, &bytes);
    let buffer = mm.move_out(A, from, SIZE + 5).expect("a buffer");
    assert_eq!(mm.peek(buffer, bytes.len()), bytes);
    assert_eq!(mm.peek(from, bytes.len())[..SIZE as usize], vec![0; SIZE as usize], "whole pages are zero");
    assert_eq!(mm.peek(buffer + SIZE + 5, 16), [0; 16], "nothing lies behind");
    assert_eq!((mm.stats(A).owned, mm.owns(A, buffer, SIZE)), (SIZE + PAGE, true));
    assert_eq!(mm.publish(A, "x", buffer, SIZE + 5, BYTES), 0);
    let view = mm.take(B, "x", BYTES).expect("it is there");
    assert_eq!((view.address, view.count), (buffer, SIZE + 5));
    assert_eq!((mm.stats(A).owned, mm.stats(B).owned), (0, SIZE + PAGE));
    assert_eq!(mm.move_in(B, view.address, to, view.count), Ok(0));
    assert_eq!(mm.peek(to, bytes.len()), bytes);
    assert_eq!(mm.peek(buffer, SIZE as usize), vec![0; SIZE as usize]);
    // It is still a buffer, until it is freed.
    assert_eq!((mm.stats(B).owned, mm.owns(B, buffer, SIZE), mm.remapped_pages()), (SIZE + PAGE, true, 32));
    assert_eq!(mm.free(B, buffer), 0);
    assert_eq!((mm.stats(B).owned, mm.remapped_pages()), (0, 0), "what it was is renewed");
    assert_eq!(mm.alloc(A, SIZE), buffer);
    assert_eq!(mm.peek(buffer, SIZE as usize), vec![0; SIZE as usize]);
}

/// What is moved is charged twice until one of the two is given back, as what is copied.
#[test]
fn a_buffer_that_does_not_fit_into_the_limit_is_not_made() {
    let mm = Mm::start();
    mm.set_limit(A, 3 * SIZE);
    let own = mm.mapped(A, 2 * SIZE);
    mm.poke(own, &[7; 64]);
    assert_eq!(mm.move_out(A, own, 2 * SIZE), Err(Errno::OutOfMemory));
    assert!(mm.explained().starts_with("memory limit of"), "{}", mm.explained());
    assert_eq!((mm.peek(own, 64), mm.stats(A).owned), (vec![7; 64], 0));
    assert!(mm.move_out(A, own, SIZE).is_ok());
}

/// The inputs of an instance that has moved one are not what they were.
#[test]
fn an_input_that_was_moved_does_not_come_back() {
    for moves in [false, true] {
        let mm = Mm::start();
        let input = mm.alloc(A, SIZE);
        assert_eq!(mm.publish(A, "in", input, SIZE, BYTES), 0);
        mm.end(A, Ending::Done);
        let own = mm.mapped(B, SIZE);
        mm.take(B, "in", BYTES).expect("it is there");
        // A refusal changes nothing.
        assert_eq!(mm.move_in(B, input, own + PAGE, SIZE), Err(Errno::Fault));
        if moves {
            assert_eq!(mm.move_in(B, input, own, SIZE), Ok(0));
        }
        assert_eq!(mm.free(B, input), 0);
        mm.end(B, Ending::Failed);
        assert_eq!(mm.look("in").is_ok(), !moves);
    }
}

#[test]
fn what_is_not_the_callers_is_refused_in_words_and_stays() {
    let mm = Mm::start();
    let (own, others) = (mm.mapped(A, SIZE), mm.mapped(B, SIZE));
    let (buffer, others_buffer) = (mm.alloc(A, SIZE), mm.alloc(B, SIZE));
    for address in [own, others, buffer, others_buffer] {
        mm.poke(address, &[7; 16]);
    }
    let refused = |answer: Result<u64, Errno>, errno: Errno, why: &str| {
        assert_eq!(answer, Err(errno), "{why}");
        assert!(mm.explained().contains(why), "{}", mm.explained());
    };
    let not_mapped = "not writable memory that the caller has mapped";
    for address in [0, PAGE, others, buffer, others_buffer, own - PAGE, own + PAGE, own + SIZE, !(PAGE - 1)] {
        refused(mm.move_in(A, buffer, address, SIZE), Errno::Fault, not_mapped);
        refused(mm.move_out(A, address, SIZE), Errno::Fault, not_mapped);
    }
    for address in [own + 8, own + PAGE - 1] {
        refused(mm.move_in(A, buffer, address, PAGE), Errno::Fault, "not the start of a page");
        refused(mm.move_out(A, address, PAGE), Errno::Fault, "not the start of a page");
    }
    refused(mm.move_in(A, buffer, own, 0), Errno::Invalid, "0 bytes");
    refused(mm.move_out(A, own, 0), Errno::Invalid, "0 bytes");
    for bytes in [SIZE + 1, 1 << 40, u64::MAX] {
        refused(mm.move_in(A, buffer, own, bytes), Errno::Invalid, "the slot buffer has 131072 bytes");
    }
    refused(mm.move_out(A, own, u64::MAX), Errno::OutOfMemory, "memory limit");
    let not_held = "not the start of a slot buffer that the caller owns";
    for address in [others_buffer, buffer + PAGE, own, 0] {
        refused(mm.move_in(A, address, own, PAGE), Errno::Fault, not_held);
    }
    for access in [MapAccess::Read, MapAccess::None] {
        let args = [own, SIZE, access as u64, 0, 0, 0];
        assert_eq!(mm.call(A, number::PROTECT, args), 0);
        refused(mm.move_in(A, buffer, own, SIZE), Errno::Fault, not_mapped);
        refused(mm.move_out(A, own, SIZE), Errno::Fault, not_mapped);
    }
    assert!(mm.pin(A, buffer, 8));
    refused(mm.move_in(A, buffer, own, SIZE), Errno::Busy, "another thread");
    mm.unpin(buffer);
    for address in [own, others, buffer, others_buffer] {
        assert_eq!(mm.peek(address, 16), [7; 16]);
    }
    assert_eq!(mm.system(number::SLOT_MOVE_IN, [buffer, own, SIZE, 0, 0, 0]), Errno::NotPermitted.to_value());
    assert_eq!(mm.system(number::SLOT_MOVE_OUT, [own, SIZE, 0, 0, 0, 0]), Errno::NotPermitted.to_value());
    assert_eq!(mm.stats(A).owned, SIZE);
}

/// A buffer from which the host could move only a part is still the caller's, and its memory goes back.
#[test]
fn what_fails_half_way_loses_no_pages() {
    let mm = Mm::start();
    let own = mm.mapped(A, SIZE);
    let buffer = mm.alloc(A, SIZE);
    mm.move_at_most(MOVED_MIN);
    assert_eq!(mm.move_in(A, buffer, own, SIZE), Err(Errno::OutOfMemory));
    assert!(mm.explained().contains("no memory to move"), "{}", mm.explained());
    assert_eq!((mm.owns(A, buffer, SIZE), mm.free(A, buffer)), (true, 0));
    assert_eq!(mm.move_out(A, own, SIZE), Err(Errno::OutOfMemory));
    assert_eq!((mm.stats(A).owned, mm.remapped_pages()), (0, 0));
    mm.move_at_most(u64::MAX);
    assert_eq!(mm.move_out(A, own, SIZE), Ok(buffer), "the pages can be had again");
}

/// There are only so many buffers with memory from cells, however large; others get copies.
#[test]
fn more_buffers_than_mappings_get_copies() {
    let mm = Mm::start();
    mm.set_limit(A, 1 << 40);
    let own = mm.mapped(A, MOVED_MIN);
    let pages = (MOVED_MIN / PAGE) as usize;
    let buffers: Vec<u64> =
        (0..FROM_CELLS_MAX + 8).map(|_| mm.move_out(A, own, MOVED_MIN).expect("a buffer")).collect();
    assert_eq!(mm.remapped_pages(), FROM_CELLS_MAX * pages);
    let resized = mm.resize(A, buffers[0], 2 * MOVED_MIN);
    assert!(resized > 0);
    mm.free(A, resized as u64);
    buffers[1..].iter().for_each(|buffer| assert_eq!(mm.free(A, *buffer), 0));
    assert_eq!((mm.stats(A).owned, mm.remapped_pages()), (0, 0));
    for _ in 0..2 {
        // Small ones are never moved; that they could have been is forgotten.
        let small: Vec<u64> = (0..FROM_CELLS_MAX).map(|_| mm.move_out(A, own, PAGE).expect("a buffer")).collect();
        assert_eq!(mm.remapped_pages(), 0);
        let moved = mm.move_out(A, own, MOVED_MIN).expect("a buffer");
        assert_eq!(mm.remapped_pages(), pages);
        small.into_iter().chain([moved]).for_each(|buffer| assert_eq!(mm.free(A, buffer), 0));
    }
}

/// What an instance leaves behind is renewed with its end, also what is freed piece by piece.
#[test]
fn the_end_of_an_instance_renews_its_buffers() {
    let mm = Mm::start();
    mm.set_limit(A, 1 << 40);
    let own = mm.mapped(A, 130 << 20);
    for bytes in [130 << 20, MOVED_MIN, 65 << 20] {
        mm.move_out(A, own, bytes).expect("a buffer");
    }
    assert!(mm.remapped_pages() > 0);
    mm.end(A, Ending::Done);
    assert_eq!(mm.remapped_pages(), 0);
    mm.set_limit(B, 1 << 40);
    mm.mapped(B, MOVED_MIN);
}

#[test]
fn pages_that_cannot_be_renewed_are_not_used_before_they_can() {
    let mm = Mm::start();
    let own = mm.mapped(A, SIZE);
    let buffer = mm.move_out(A, own, SIZE).expect("a buffer");
    mm.refuse_to_discard(true);
    assert_eq!(mm.free(A, buffer), 0);
    let other = mm.alloc(A, SIZE);
    assert_ne!(other, buffer);
    mm.refuse_to_discard(false);
    // With the next buffer that is freed it is tried again.
    assert_eq!(mm.free(A, other), 0);
    assert_eq!(mm.remapped_pages(), 0);
}
