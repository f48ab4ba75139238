//! Wires that lose, delay, reorder, double and damage frames: what functions write still arrives, whole and in order.

use crate::peer::{Fate, World};
use crate::{connected, pattern};
use proptest::prelude::*;

/// Numbers that look random, always the same ones for the same seed.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// A wire that does each of these to so many frames of a hundred.
fn bad_wire(seed: u64, lost: u64, doubled: u64, damaged: u64, late_ms: u64) -> Fate {
    let mut number = numbers(seed);
    Box::new(move |mut frame: Vec<u8>| {
        let after = if late_ms == 0 { 0 } else { number() % late_ms * 1_000_000 };
        if number() % 100 < lost {
            return vec![];
        }
        if number() % 100 < damaged {
            // Behind the addresses: the kernel does not look for damage there, so we must.
            let place = 34 + number() as usize % (frame.len() - 34);
            frame[place] ^= 1 << (number() % 8);
        }
        if number() % 100 < doubled {
            return vec![(after, frame.clone()), (after + 3_000_000, frame)];
        }
        vec![(after, frame)]
    })
}

fn survives(fate: Fate) {
    let mut world = World::new();
    let socket = connected(&mut world);
    world.fate = fate;
    let data = pattern(120_000);
    world.write_all(socket, &data);
    assert_eq!(world.peer_reads(data.len()), data, "from the function");
    world.peer_writes(&data);
    assert_eq!(world.read_exactly(socket, data.len()), data, "to the function");
}

#[test]
fn delays_and_reordering() {
    survives(bad_wire(1, 0, 0, 0, 20));
}

#[test]
fn losses_and_doubles() {
    survives(bad_wire(2, 10, 10, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn all_at_once(seed: u64, lost in 0u64..8, doubled in 0u64..8, late in 0u64..10) {
        survives(bad_wire(seed, lost, doubled, 0, late));
    }
}

#[test]
fn what_is_damaged_on_its_way_to_us_is_lost_and_sent_again() {
    let mut world = World::new();
    let socket = connected(&mut world);
    let mut damage = bad_wire(5, 0, 0, 10, 0);
    // Our checksums are marked as partial for the peer, so it cannot find damage; we can.
    world.fate =
        Box::new(move |frame| if frame[6..12] == [2, 0, 0, 0, 0, 2] { damage(frame) } else { vec![(0, frame)] });
    let data = pattern(500_000);
    world.peer_writes(&data);
    assert_eq!(world.read_exactly(socket, data.len()), data);
}
