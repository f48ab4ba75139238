//! Slots of others, by their names: an owner writes a letter to a reader, and a thief knows what its slot is called.
//!
//! ```text
//!   owner ──▶ `letter` ──▶ reader ──▶ `answer`, the workflow's output
//!                │                       ▲
//!                └─────▶ thief ──────────┘ a forged one
//! ```
//!
//! `parts` is what the instances of one step do to each other: each fills its own part, and then its neighbour's.

use core::fmt::Display;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotString, indexed_name};

type Done = Result<(), Box<dyn Error>>;

/// What came of an attempt.
fn report(what: &str, tried: Result<(), impl Display>) {
    match tried {
        Ok(()) => println!("{what}: done"),
        Err(why) => println!("{what}: {why}"),
    }
}

fn fill(name: &str, text: &str) -> Result<(), impl Display + use<>> {
    let mut slot = SlotString::with_slot(name);
    slot.push_str(text);
    slot.publish()
}

pub(crate) fn owner() -> Done {
    report("fill letter", fill("letter", "dear reader"));
    Ok(())
}

pub(crate) fn thief() -> Done {
    report("take letter", SlotString::from_slot("letter").map(|letter| println!("got {}", letter.as_str())));
    // Not waiting is no way around a list.
    report("look for letter", SlotString::try_from_slot("letter").map(|found| println!("found {}", found.is_some())));
    report("fill answer", fill("answer", "forged"));
    Ok(())
}

pub(crate) fn reader() -> Done {
    report("take letter", SlotString::from_slot("letter").map(|letter| println!("read {}", letter.as_str())));
    report("fill answer", fill("answer", "genuine"));
    Ok(())
}

pub(crate) fn parts() -> Done {
    let own = monohull::instance().index;
    for index in [own, 1 - own] {
        report(&format!("fill {index}"), fill(&indexed_name("part", index), "x"));
    }
    report("take own", SlotBuffer::<[u8]>::from_slot(&indexed_name("part", own)).map(SlotBuffer::discard));
    Ok(())
}
