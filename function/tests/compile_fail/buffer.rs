//! The handles ask for the same.
use monohull::slot::{SlotBuffer, SlotVec};

fn check() {
    drop(SlotBuffer::<String>::from_slot("x"));
    drop(SlotBuffer::<[&'static u8]>::from_slot("x"));
    drop(SlotVec::<Vec<u8>>::with_slot("x"));
}

fn main() {}
