//! A function that returns more than once: [`pay`] returns every way to pay an amount, one after the other.
//!
//! ```text
//!   pay ─▶ 5 ─▶ note ─▶ next ─┐ memory goes back into the midst of `pay`;
//!    ▲                        │ what has been found so far goes along as the value
//!    └─▶ 2 2 1 ─▶ note ─▶ next ─ … ─▶ nothing left ─▶ slot `ways`
//! ```
#![no_std]
#![deny(unsafe_code)]

use monohull_std::continuation::{Captured, Checkpoint, capture, rewind};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;

/// Where a generator goes on, and what it has given so far.
#[derive(Default)]
struct Generator {
    points: Vec<Checkpoint>,
    found: String,
}

impl Generator {
    /// Returns true, and later, at [`Self::next`], false.
    fn both(&mut self) -> Result<bool, Box<dyn Error>> {
        match capture()? {
            Captured::Original(checkpoint) => {
                self.points.push(checkpoint);
                Ok(true)
            }
            Captured::Resumed { value, .. } => {
                self.found = String::from_utf8(value)?;
                Ok(false)
            }
        }
    }

    /// Goes on where there is something else to return. Returns itself if there is nothing left.
    fn next(&mut self) {
        if let Some(checkpoint) = self.points.pop() {
            rewind(&checkpoint, self.found.as_bytes());
        }
    }
}

/// Pays an amount with these coins, the largest first; `None` where that does not work out.
fn pay(generator: &mut Generator, mut amount: u32, mut coins: &[u32]) -> Result<Option<Vec<u32>>, Box<dyn Error>> {
    let mut paid = Vec::new();
    while amount > 0 {
        let [coin, others @ ..] = coins else { return Ok(None) };
        if *coin <= amount && generator.both()? {
            paid.push(*coin);
            amount -= coin;
        } else {
            coins = others;
        }
    }
    Ok(Some(paid))
}

#[monohull::main]
fn main(amount: u32, coins: Vec<u32>) -> Result<(), Box<dyn Error>> {
    let mut generator = Generator::default();
    // From here on everything happens once for each way.
    if let Some(way) = pay(&mut generator, amount, &coins)? {
        let way: Vec<String> = way.iter().map(u32::to_string).collect();
        println!("{}", way.join(" "));
        generator.found.push_str(&format!("{}\n", way.join(" ")));
    }
    generator.next();
    SlotString::with_slot("ways").push_str(&generator.found);
    Ok(())
}
