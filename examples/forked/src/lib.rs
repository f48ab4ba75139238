//! An agent that asks, waits for an answer, and decides what to ask next.
//!
//! It has no idea of checkpoints, and none is needed: its plan, its map and its half-finished line are memory, and memory is what is
//! kept. If its workflow is forked while it waits (`monohull fork`, `monohull resume --count`), each copy has all of that, asks which one
//! it is, and goes another way. If it is taken back (`monohull rewind`) it has forgotten what came later.
//!
//! It may also make the save point and the copies itself, and go several ways from there.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::collections::HashMap;
use monohull_std::durable::{self, Checkpointed, Forked};
use monohull_std::error::Error;
use monohull_std::fmt::Write;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::time::Duration;
use monohull_std::{fork, generation, random, thread};

/// What is asked by the workflow itself, and by its copies.
const WAYS: [&str; 4] = ["the index", "a search", "an expert", "nobody"];

/// Asks `rounds` times, waits so many milliseconds for each answer, and fills the slot `diary`. If it is to go several `ways` it makes a save point, and
/// a copy of itself for each way but its own.
#[monohull::main]
fn main(rounds: u32, milliseconds: u64, ways: Option<u32>) -> Result<(), Box<dyn Error>> {
    let mut asked: HashMap<&str, u32> = HashMap::new();
    let mut diary = SlotString::with_slot("diary");
    let (mut ticket, mut drawn_in) = (draw(), generation());
    if let Some(ways) = ways {
        if durable::checkpoint("before the question")? == Checkpointed::CameBack {
            let _ = writeln!(diary, "came back");
        }
        match durable::fork(ways - 1)? {
            Forked::Original(copies) => println!("{} copies go other ways", copies.len()),
            Forked::Copy(number) => println!("copy {number}"),
        }
    }
    for round in 1..=rounds {
        let way = WAYS[fork().index as usize % WAYS.len()];
        *asked.entry(way).or_default() += 1;
        print!("round {round}: {way} … ");
        thread::sleep(Duration::from_millis(milliseconds));
        println!("answered");
        let _ = writeln!(diary, "round {round}: asked {way}");
        // Each copy has the ticket that was drawn before the fork. Nothing that must be one's own is kept over a restore.
        if generation() != drawn_in {
            (ticket, drawn_in) = (draw(), generation());
        }
    }
    let mut ways: Vec<_> = asked.into_iter().collect();
    ways.sort();
    for (way, times) in ways {
        let _ = writeln!(diary, "{way}: {times}");
    }
    let copy = fork();
    let _ = writeln!(diary, "copy {} of {}, generation {}, ticket {ticket:016x}", copy.index, copy.count, generation());
    Ok(())
}

/// A number that nothing else has. The system's random numbers differ in copies.
fn draw() -> u64 {
    let mut bytes = [0; 8];
    random::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}
