//! More than the workflow allows.

use core::hint::black_box;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, indexed_name};
use monohull_std::thread;
use monohull_std::time::Duration;

/// Allocates until it may not.
#[inline(never)]
pub(crate) fn too_much_memory() {
    let mut hoard = Vec::new();
    loop {
        hoard.push(black_box(vec![1u8; 1 << 20]));
    }
}

/// Fills slots until it may not. What it has handed on counts as its own as long as it runs.
#[inline(never)]
pub(crate) fn too_much_slot_memory() {
    for index in 0.. {
        SlotBuffer::<[u8]>::with_slot_len(&indexed_name("hoard", index), 1 << 20).fill(1);
    }
}

/// Prints more than is kept, and ends well.
#[inline(never)]
pub(crate) fn output_flood() {
    for line in 0..100_000 {
        println!("line {line} of very many");
    }
}

/// Starts threads until it may not.
#[inline(never)]
pub(crate) fn thread_flood() {
    loop {
        thread::spawn(|| thread::sleep(Duration::from_secs(1_000_000)));
    }
}
