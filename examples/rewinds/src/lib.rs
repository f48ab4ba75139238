//! What a rewind takes back, what it does not, and what it refuses: a test in each module. What goes wrong panics.
//!
//! `how` names the test. One that has succeeded fills the slot `result`.
#![no_std]
#![allow(unsafe_code, reason = "it looks at memory behind the back of the language, and makes calls that are wrong")]

mod asleep;
mod bounds;
mod memory;
mod model;
mod outside;
mod wrong;

use monohull_abi::number;
use monohull_abi::types::MemoryStats;
use monohull_std::continuation::{Captured, Checkpoint, capture};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_trampoline::user::hostcall;

#[monohull::main]
fn main(how: String, rounds: Option<u64>) -> Result<(), Box<dyn Error>> {
    let rounds = rounds.unwrap_or(0);
    match how.as_str() {
        "memory" => memory::all_of_it(),
        "heap" => memory::heap_grows_and_shrinks(),
        "mapped" => memory::mapped(),
        "asleep" => asleep::mapped(rounds),
        "nested" => memory::nested(),
        "forgotten" => memory::forgotten(),
        "deep" => memory::deep(),
        "model" => model::random_steps(rounds),
        "slots" => outside::slots(),
        "given-away" => outside::given_away(),
        "descriptors" => outside::descriptors(),
        "output" => outside::output(),
        "threads" => bounds::threads(),
        "many" => bounds::many(),
        "limit" => bounds::limit(),
        "value" => bounds::value(),
        "handles" => wrong::handles(),
        "foreign" => wrong::foreign(),
        "stack-pointer" => wrong::stack_pointer(),
        "places" => wrong::places(),
        "secret" => wrong::leave_a_secret(),
        "look" => wrong::look_for_it(),
        "sleep" => outside::sleep(rounds),
        _ => return Err(format!("no test is called {how}").into()),
    }
    // Another step follows that one.
    if how != "secret" {
        SlotString::with_slot("result").push_str(&how);
    }
    Ok(())
}

/// A new checkpoint, or the same again with how often it has been gone back to.
fn point() -> (Checkpoint, u64, Vec<u8>) {
    match capture().expect("a checkpoint") {
        Captured::Original(checkpoint) => (checkpoint, 0, Vec::new()),
        Captured::Resumed { checkpoint, value, rewinds } => (checkpoint, rewinds, value),
    }
}

fn stats() -> MemoryStats {
    let mut stats = MemoryStats::default();
    assert_eq!(hostcall(number::MEMORY_STATS, [&raw mut stats as u64, 0, 0, 0, 0, 0]), 0);
    stats
}
