//! Many buffers are freed in batches, between which others are served.
//!
//! What runs "meanwhile" here is what another carrier would do while the module makes system calls. Were the table locked then, it
//! would wait for ever.

use super::*;
use crate::batches::{BATCH, BATCH_BYTES, STEP};
use crate::slots::key_of;
use monohull_abi::module::Ending::{Done, Failed};
use std::format;

/// Buffers that one instance leaves behind: three batches and a bit.
const MANY: usize = 3 * BATCH + 10;

/// Runs `work`; each time the module makes system calls meanwhile, B has calls served, and then `other` runs. Returns how many
/// buffers there were each time.
fn counted(mm: &Mm, work: impl FnOnce(), mut other: impl FnMut()) -> Vec<u64> {
    let mut counts = std::vec![mm.stats(B).arena_buffers];
    let served = || {
        let own = mm.alloc(B, PAGE);
        assert!(mm.owns(B, own, PAGE));
        assert_eq!(mm.free(B, own), 0);
        counts.push(mm.stats(B).arena_buffers);
        other();
    };
    mm.meanwhile(&mut { served }, work);
    counts.push(mm.stats(B).arena_buffers);
    counts
}

fn in_batches(counts: &[u64]) {
    assert!(counts.windows(2).all(|pair| pair[0] - pair[1] <= BATCH as u64), "{counts:?}");
    assert!(counts.len() > MANY / BATCH, "{counts:?}");
}

#[test]
fn others_are_served_while_the_buffers_of_an_instance_that_ended_are_freed() {
    for ending in [Done, Failed] {
        let mm = Mm::start();
        let buffers: Vec<u64> = (0..MANY).map(|_| mm.alloc(A, PAGE)).collect();
        mm.poke(buffers[0], b"secret");
        let counts = counted(&mm, || assert!(mm.end(A, ending)), || ());
        in_batches(&counts);
        assert_eq!((counts.last(), mm.charged(A)), (Some(&0), 0));
        assert!(buffers.iter().all(|address| !mm.owns(A, *address, 1)));
        let again = mm.alloc(B, (MANY * 4096) as u64);
        assert_eq!(mm.peek(again, 4096), [0; 4096]);
    }
}

#[test]
fn slots_of_a_failed_instance_are_empty_before_they_are_withdrawn() {
    let mm = Mm::start();
    let name = |number: usize| format!("slot {number}");
    for number in 0..MANY {
        assert_eq!(mm.publish(A, &name(number), mm.alloc(A, PAGE), 1, BYTES), 0);
    }
    let filled_anew = mm.alloc(B, PAGE);
    let mut first = true;
    let work = || assert!(mm.end(A, Failed), "others have seen nothing");
    let counts = counted(&mm, work, || {
        for number in 0..MANY {
            let is_new = number == MANY - 1 && !first;
            assert_eq!(mm.look(&name(number)).is_ok(), is_new);
            assert_eq!(mm.next("").is_some(), !first);
            if !is_new {
                assert_eq!(mm.take(B, &name(number), BYTES), Err(Errno::NotFound));
            }
        }
        if core::mem::take(&mut first) {
            // The buffer that A has left under this name is among the last to be withdrawn.
            assert_eq!(mm.publish(B, &name(MANY - 1), filled_anew, 1, BYTES), 0, "{}", mm.explained());
        }
    });
    in_batches(&counts);
    assert_eq!(mm.take(3, &name(MANY - 1), BYTES).map(|view| view.address), Ok(filled_anew));
    assert_eq!(mm.take(3, &name(0), BYTES), Err(Errno::NotFound));
    assert_eq!((counts.last(), mm.charged(A)), (Some(&1), 0));
}

#[test]
fn slots_of_an_instance_that_is_done_stay_filled_meanwhile() {
    let mm = Mm::start();
    for number in 0..MANY {
        mm.alloc(A, PAGE);
        assert_eq!(mm.publish(A, &format!("slot {number}"), mm.alloc(A, PAGE), 1, BYTES), 0);
    }
    counted(&mm, || assert!(mm.end(A, Done)), || assert!(mm.look("slot 0").is_ok()));
    (0..MANY).for_each(|number| _ = mm.take(B, &format!("slot {number}"), BYTES).unwrap());
}

/// What an instance that is done has published is another's as soon as it has been taken.
#[test]
fn a_buffer_that_is_taken_meanwhile_is_its_takers() {
    let mm = Mm::start();
    (0..MANY).for_each(|_| _ = mm.alloc(A, PAGE));
    let outputs = ["held", "retained", "freed"].map(|name| {
        let address = mm.alloc(A, PAGE);
        assert_eq!(mm.publish(A, name, address, 1, BYTES), 0);
        address
    });
    let mut first = true;
    counted(
        &mm,
        || assert!(mm.end(A, Done)),
        || {
            if core::mem::take(&mut first) {
                for (instance, name) in [(3, "held"), (3, "retained"), (4, "freed")] {
                    mm.take(instance, name, BYTES).unwrap();
                }
                assert_eq!(mm.free(3, outputs[1]), 0);
                assert_eq!([mm.touch(4, outputs[2]), mm.free(4, outputs[2])], [0; 2]);
                assert_eq!(mm.alloc(4, PAGE), outputs[2], "another buffer at the same address");
            }
        },
    );
    assert!(mm.owns(3, outputs[0], PAGE) && mm.owns(4, outputs[2], PAGE));
    assert_eq!((mm.charged(3), mm.charged(4)), (2 * PAGE, PAGE));
    assert!(mm.end(3, Failed), "its inputs go back");
    assert_eq!(mm.look("retained").map(|(info, _)| info.address), Ok(outputs[1]));
    assert!(mm.look("held").is_ok());
}

/// An input belongs to the instance that has taken it, not to its producer, even while the producer's own slots are withdrawn.
#[test]
fn an_input_goes_back_into_its_slot_while_its_producer_is_withdrawn() {
    let mm = Mm::start();
    let input = mm.alloc(A, PAGE);
    mm.publish(A, "in", input, 1, BYTES);
    mm.take(3, "in", BYTES).unwrap();
    (0..MANY).for_each(|_| _ = mm.alloc(A, PAGE));
    mm.take_woken();
    let mut first = true;
    let work = || assert!(!mm.end(A, Failed), "another instance has its output");
    counted(&mm, work, || {
        if core::mem::take(&mut first) {
            assert!(mm.end(3, Failed));
            assert_eq!(mm.take_woken(), [key_of("in")]);
            assert!(mm.look("in").is_ok(), "a thread that was woken for it finds it");
        }
    });
    assert_eq!(mm.next("").map(|(_, filled)| filled.producer), Some(A.into()), "A has made it, though 3 had taken it");
    assert_eq!(mm.take(4, "in", BYTES).map(|view| view.address), Ok(input));
}

#[test]
fn many_inputs_go_back_in_batches() {
    let mm = Mm::start();
    let name = |number: usize| format!("slot {number}");
    for number in 0..MANY {
        mm.publish(A, &name(number), mm.alloc(A, PAGE), 1, BYTES);
    }
    mm.end(A, Done);
    (0..MANY).for_each(|number| _ = mm.take(3, &name(number), BYTES).unwrap());
    let counts = counted(&mm, || assert!(mm.end(3, Failed)), || ());
    assert!(counts.len() > MANY / BATCH, "{counts:?}");
    assert_eq!(mm.stats(B).arena_buffers, MANY as u64);
    (0..MANY).for_each(|number| _ = mm.take(4, &name(number), BYTES).unwrap());
}

#[test]
fn many_retained_inputs_are_freed_in_batches() {
    let mm = Mm::start();
    for number in 0..=MANY {
        mm.publish(A, &format!("slot {number}"), mm.alloc(A, PAGE), 1, BYTES);
    }
    mm.end(A, Done);
    let inputs: Vec<u64> = (0..=MANY).map(|n| mm.take(3, &format!("slot {n}"), BYTES).unwrap().address).collect();
    for address in &inputs[1..] {
        assert_eq!(mm.free(3, *address), 0);
    }
    assert_eq!(mm.charged(3), (MANY as u64 + 1) * PAGE, "they are kept while their taker may be repeated");
    let counts = counted(&mm, || assert_eq!(mm.touch(3, inputs[0]), 0), || ());
    in_batches(&counts);
    assert_eq!((counts.last(), mm.charged(3)), (Some(&1), PAGE));
}

/// Retained inputs that another instance has made useless are freed by their own instance.
#[test]
fn an_instance_frees_its_retained_inputs_itself() {
    let mm = Mm::start();
    mm.publish(A, "in", mm.alloc(A, PAGE), 1, BYTES);
    mm.take(B, "in", BYTES).map(|view| mm.free(B, view.address)).unwrap();
    mm.publish(B, "out", mm.alloc(B, PAGE), 1, BYTES);
    mm.take(3, "out", BYTES).unwrap();
    assert_eq!(mm.charged(B), PAGE, "B has given something away, and cannot be repeated");
    assert_eq!(mm.free(B, mm.alloc(B, PAGE)), 0);
    assert_eq!(mm.charged(B), 0);
}

/// Between two steps the carrier does other work; no buffer of the instance is in use any more, and each step frees some.
#[test]
fn an_instance_with_many_buffers_ends_in_steps() {
    for ending in [Done, Failed] {
        let mm = Mm::start();
        const STEPS: usize = 3;
        for number in 0..STEPS * STEP * BATCH {
            let address = mm.alloc(A, PAGE);
            assert!(number % 2 == 0 || mm.publish(A, &format!("slot {number}"), address, 1, BYTES) == 0);
        }
        let mut counts = std::vec![mm.stats(B).arena_buffers];
        let intact = mm.end_in_steps(A, ending, || {
            counts.push(mm.stats(B).arena_buffers);
            assert_eq!(mm.look("slot 1").is_ok(), ending == Done);
            assert_eq!(mm.free(B, mm.alloc(B, PAGE)), 0);
        });
        assert!(intact);
        assert!((STEPS..=STEPS + 1).contains(&(counts.len() - 1)), "{counts:?}");
        assert!(counts.windows(2).all(|pair| pair[0] - pair[1] <= (STEP * BATCH) as u64), "{counts:?}");
        let kept = if ending == Done { (STEPS * STEP * BATCH) as u64 / 2 } else { 0 };
        assert_eq!((mm.stats(B).arena_buffers, mm.charged(A)), (kept, 0));
    }
}

/// Two instances that end at the same time do not mix up what is left of them.
#[test]
fn instances_end_in_turns() {
    let mm = Mm::start();
    mm.publish(B, "of B", mm.alloc(B, PAGE), 1, BYTES);
    let input = mm.take(3, "of B", BYTES).unwrap().address;
    (0..STEP * BATCH + 1).for_each(|_| _ = mm.alloc(A, PAGE));
    let mut steps = 0;
    assert!(mm.end_in_steps(A, Done, || {
        steps += 1;
        if steps == 1 {
            assert!(!mm.end(B, Failed), "another instance has what it published");
            assert!(mm.end(3, Failed));
        }
    }));
    assert_eq!((steps, mm.stats(B).arena_buffers), (1, 1));
    assert_eq!(mm.take(4, "of B", BYTES).map(|view| view.address), Ok(input));
}

#[test]
fn a_large_buffer_is_freed_piece_by_piece() {
    let mm = Mm::start();
    let large = mm.alloc(A, 5 * BATCH_BYTES / 2);
    mm.poke(large, b"secret");
    let mut steps = 0;
    assert!(mm.end_in_steps(A, Done, || steps += 1));
    assert_eq!((steps, mm.stats(B).arena_buffers, mm.stats(B).arena_bytes), (2, 0, 0));
    let again = mm.alloc(B, 5 * BATCH_BYTES / 2);
    assert_eq!((again, mm.peek(again, 6)), (large, [0; 6].to_vec()));
}
