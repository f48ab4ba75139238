//! Buffers that a hostcall copies from or to: they stay where and whose they are.

use super::*;
use monohull_abi::user::{AccessError, UserSlice};

const BUSY: i64 = Errno::Busy.to_value();
const WORDS_OF_REFUSAL: &str = "a call of another thread is reading or writing this slot buffer";

#[test]
fn a_pinned_buffer_is_neither_freed_handed_on_nor_moved() {
    let mm = Mm::start();
    let (address, wall) = (mm.alloc(A, PAGE), mm.alloc(A, PAGE));
    assert_eq!(wall, address + PAGE, "it cannot grow where it is");
    assert!(mm.pin(A, address + 8, 16));
    for _ in 0..2 {
        assert_eq!((mm.free(A, address), mm.explained().as_str()), (BUSY, WORDS_OF_REFUSAL));
        assert_eq!((mm.publish(A, "x", address, 1, BYTES), mm.explained().as_str()), (BUSY, WORDS_OF_REFUSAL));
        assert_eq!((mm.resize(A, address, 2 * PAGE), mm.explained().as_str()), (BUSY, WORDS_OF_REFUSAL));
    }
    assert_eq!(mm.take(B, "x", BYTES), Err(Errno::NotFound), "nothing was published");
    assert_eq!(mm.charged(A), 2 * PAGE, "nothing was charged");
    assert_eq!(mm.resize(A, address, PAGE), address as i64, "what moves nothing is fine");
    assert_eq!(mm.touch(A, address), 0);
    mm.unpin(address + 8);
    assert_eq!(mm.publish(A, "x", address, 1, BYTES), 0);
    assert_eq!(mm.take(B, "x", BYTES).unwrap().address, address);
    assert_eq!(mm.free(B, address), 0, "a pin does not follow a buffer to its next owner");
}

#[test]
fn pins_are_counted() {
    let mm = Mm::start();
    let (address, wall) = (mm.alloc(A, PAGE), mm.alloc(A, PAGE));
    assert!(mm.pin(A, address, 1) && mm.pin(A, address + PAGE - 1, 1) && mm.pin(A, wall, 1));
    mm.unpin(address);
    mm.unpin(wall);
    assert_eq!(mm.free(A, address), BUSY);
    assert_eq!(mm.free(A, wall), 0);
    mm.unpin(address);
    let moved = mm.resize(A, address, PAGE * 2);
    assert!(moved > 0, "{}", mm.explained());
    assert_eq!(mm.free(A, moved as u64), 0);
}

#[test]
fn only_the_holder_of_a_buffer_can_pin_it() {
    let mm = Mm::start();
    let (own, foreign) = (mm.alloc(A, PAGE), mm.alloc(B, PAGE));
    assert!(!mm.pin(A, foreign, 1) && !mm.pin(A, own, PAGE + 1) && !mm.pin(A, own - 1, 1));
    mm.publish(A, "x", own, 1, BYTES);
    assert!(!mm.pin(A, own, 1), "it lies in a slot");
    mm.take(B, "x", BYTES).unwrap();
    assert!(!mm.pin(A, own, 1), "it is B's");
    assert_eq!((mm.free(B, own), mm.free(B, foreign)), (0, 0), "what was refused has left no pin behind");
    assert!(!mm.pin(B, own, 1), "it is no instance's");
}

#[test]
fn an_input_that_is_pinned_is_not_retained() {
    let mm = Mm::start();
    let address = mm.alloc(A, PAGE);
    mm.publish(A, "x", address, 1, BYTES);
    mm.take(B, "x", BYTES).unwrap();
    assert!(mm.pin(B, address, 1));
    assert_eq!(mm.free(B, address), BUSY);
    mm.unpin(address);
    assert_eq!(mm.free(B, address), 0);
    assert!(mm.end(B, Ending::Failed), "its inputs are intact");
    assert!(mm.look("x").is_ok());
}

/// A module that panicked in the middle of a copy has left its pin behind.
#[test]
fn what_an_instance_leaves_pinned_is_freed_with_it() {
    let mm = Mm::start();
    let address = mm.alloc(A, PAGE);
    assert!(mm.pin(A, address, 1));
    mm.end(A, Ending::Done);
    assert_eq!(mm.stats(B).arena_buffers, 0);
    let again = mm.alloc(B, PAGE);
    assert_eq!(again, address);
    assert_eq!(mm.free(B, again), 0);
}

#[test]
fn a_checked_slice_is_a_pin() {
    let mm = Mm::start();
    let address = mm.alloc(A, PAGE);
    let call = mm.prepare(A, 0, [0; 6]);
    let slice = UserSlice::<u64>::new(address, 4).check(mm.host(), &call).unwrap();
    assert_eq!(mm.free(A, address), BUSY);
    slice.write(&[1, 2, 3, 4]).unwrap();
    drop(slice);
    assert_eq!(mm.words(address, 4), [1, 2, 3, 4]);
    let nothing = UserSlice::<u64>::new(address, 0).check(mm.host(), &call).unwrap();
    assert_eq!(mm.free(A, address), 0, "an empty slice is no pin");
    drop(nothing);
    assert_eq!(UserSlice::<u64>::new(address, 4).check(mm.host(), &call).err(), Some(AccessError::NotYourBuffer));
    let at = mm.alloc(A, PAGE);
    let word = UserSlice::<u32>::new(at, 1);
    assert_eq!(word.check_cell(mm.host(), &call).err(), Some(AccessError::NotYours));
    assert!(word.check(mm.host(), &call).is_ok());
}

/// Whatever threads do, the table sees it one after the other: so random sequences are all there is to try.
#[test]
fn in_any_order_a_pinned_buffer_stays_its_holders() {
    let mut seed = 1u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below
    };
    for _ in 0..20 {
        let mm = Mm::start();
        // Who holds which buffer, and how often it is pinned; those in slots lie beside.
        let mut held: Vec<(u32, u64, u32)> = Vec::new();
        let mut slots: Vec<std::string::String> = Vec::new();
        let mut names = 0;
        for _ in 0..300 {
            let who = [A, B][random(2)];
            if held.is_empty() || random(6) == 0 {
                held.push((who, mm.alloc(who, PAGE), 0));
            }
            if random(5) == 0 && !slots.is_empty() {
                let name = slots.swap_remove(random(slots.len()));
                held.push((who, mm.take(who, &name, BYTES).unwrap().address, 0));
            }
            let chosen = random(held.len());
            let (holder, address, pins) = &mut held[chosen];
            let answer = if *pins > 0 { BUSY } else { 0 };
            match random(6) {
                0 | 1 => {
                    assert_eq!(mm.pin(who, *address + 1, 8), who == *holder);
                    *pins += u32::from(who == *holder);
                }
                2 if *pins > 0 => {
                    mm.unpin(*address + 1);
                    *pins -= 1;
                }
                3 => {
                    assert_eq!(mm.free(*holder, *address), answer);
                    if answer == 0 {
                        held.swap_remove(chosen);
                    }
                }
                4 => {
                    names += 1;
                    let name = std::format!("slot {names}");
                    assert_eq!(mm.publish(*holder, &name, *address, 1, BYTES), answer);
                    if answer == 0 {
                        held.swap_remove(chosen);
                        slots.push(name);
                    }
                }
                _ => {
                    let resized = mm.resize(*holder, *address, 64 * PAGE);
                    assert!(resized == BUSY && *pins > 0 || resized > 0, "{resized}");
                    if resized > 0 {
                        assert!(*pins == 0 || resized as u64 == *address, "it moved under a pin");
                        *address = resized as u64;
                    }
                }
            }
            // Only the holder owns it.
            for (holder, address, _) in &held {
                assert!(mm.owns(*holder, *address, 8) && !mm.owns(A + B - *holder, *address, 8));
            }
        }
    }
}
