//! Gives back what it is given: slot `in` becomes slot `out`, and no byte moves. It may take its time, and say so.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::prelude::*;
use monohull_std::slot::{SlotError, SlotVec};
use monohull_std::thread;
use monohull_std::time::Duration;

/// `wait_ms` is how long it waits, `say` what it prints before.
#[monohull::main]
fn main(wait_ms: Option<u64>, say: Option<String>) -> Result<(), SlotError> {
    if let Some(text) = say {
        println!("{text}");
    }
    if let Some(wait_ms) = wait_ms {
        thread::sleep(Duration::from_millis(wait_ms));
    }
    SlotVec::<u8>::from_slot("in")?.hand_on("out")
}
