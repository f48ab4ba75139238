//! An agent that is told what to do, one instruction after the other, and waits for the next one as long as it takes.
//!
//! It is an ordinary program over Rust's own std: what it knows is a hash map, what it has done a list. Between two instructions it may be a
//! file for months, without a process (`monohull run --state`, or a server). Forked while it waits, each copy knows what the original knew, and
//! is told other things from then on. Taken back, it has forgotten what it was told since.
#![deny(unsafe_code)]

use std::collections::HashMap;
use std::error::Error;
use std::io::Write;

use monohull::slot::SlotVec;
use monohull::{durable, fork, generation};

/// What the agent has in mind.
#[derive(Default)]
struct Mind {
    known: HashMap<String, String>,
    done: Vec<String>,
}

/// Follows instructions, each an event `instruction`, until one says `end`. Fills the slot `diary`.
#[monohull::main]
fn main() -> Result<(), Box<dyn Error>> {
    let mut mind = Mind::default();
    while let Some(instruction) = durable::event("instruction").wait()? {
        let instruction = String::from_utf8_lossy(&instruction);
        let instruction = instruction.trim();
        if instruction == "end" {
            break;
        }
        let answer = mind.follow(instruction);
        println!("{instruction}: {answer}");
        mind.done.push(format!("{instruction}: {answer}"));
        // It is read without waking the agent.
        durable::publish("answer", &answer)?;
    }
    let mut diary = SlotVec::<u8>::with_slot("diary");
    for line in &mind.done {
        writeln!(diary, "{line}")?;
    }
    writeln!(diary, "{} instructions, generation {}", mind.done.len(), generation())?;
    Ok(diary.publish()?)
}

impl Mind {
    fn follow(&mut self, instruction: &str) -> String {
        let (verb, rest) = instruction.split_once(' ').unwrap_or((instruction, ""));
        match (verb, rest.split_once('=')) {
            ("learn", Some((name, value))) => {
                self.known.insert(name.to_owned(), value.to_owned());
                format!("{} things known", self.known.len())
            }
            ("tell", _) => self.known.get(rest).cloned().unwrap_or_else(|| "unknown".to_owned()),
            ("which", _) => {
                let copy = fork();
                format!("copy {} of {}", copy.index, copy.count)
            }
            _ => "that is beyond me".to_owned(),
        }
    }
}
