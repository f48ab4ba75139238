//! Attacks by a function on everything that is not its own, each of a few lines, and a victim that watches over its data.
//!
//! ```text
//!   test      where everything lies in this process ──▶ input slot `places`
//!   victim    leaves the addresses of what is dear to it ──▶ slot `addresses`, and waits
//!   attacker  attempt 1, 2, …: attacks, each time with as many threads as its arguments say
//!             before the last attempt ──▶ slot `done` ──▶ victim: is everything as it was? ──▶ slot `verdict`
//!             if it has survived ──▶ slot `end`
//! ```
//!
//! An attack that succeeds says so on standard output, in a line that begins with `got`. One that fails ends the instance,
//! and the report says why. What `kind`, `what` and `how` mean stands in the module of that kind. `giver` and `taker` are a
//! pair of their own, in `handover`; the attacker of an invocation that is to be without an attack is in `honest`; `gather` stands in `gather`; `owner`, `thief`, `reader` and `parts` stand in `slots`; `remains`
//! is what invocations of one process do to each other.
#![no_std]
#![allow(unsafe_code, reason = "they are attacks: nothing here is sound, and none of it is meant to be")]

mod deputies;
mod doors;
mod exhaustion;
mod gather;
mod handover;
mod honest;
mod instructions;
mod jumps;
mod leap;
mod leftovers;
mod memory;
mod own;
mod places;
mod remains;
mod signals;
mod slots;
mod victim;

use core::hint::black_box;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};
use monohull_std::sync::Barrier;
use monohull_std::thread;
use monohull_std::time::Duration;
use places::Places;

/// What the victim keeps, everywhere.
pub(crate) const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;
/// What an attacker writes.
pub(crate) const MARK: u64 = 0xbad_bad_bad;

/// What to do.
pub(crate) struct Attack {
    /// The target, or the means.
    pub(crate) what: String,
    /// What is done to it.
    pub(crate) how: String,
    /// The first attempt is 1.
    pub(crate) attempt: u32,
    /// Where everything lies.
    pub(crate) places: Places,
    /// The threads that attack at once: those of a crowd do what makes the next step possible before any of them does that.
    pub(crate) crowd: Barrier,
}

#[monohull::main]
fn main(
    role: String,
    kind: Option<String>,
    what: Option<String>,
    how: Option<String>,
    threads: Option<String>,
    rounds: Option<u32>,
    nap: Option<u64>,
) -> Result<(), Box<dyn Error>> {
    // Meanwhile the workflow may be suspended: the rest happens in another process.
    if let Some(nap) = nap.filter(|_| monohull::instance().attempt == 1) {
        thread::sleep(Duration::from_millis(nap));
    }
    match (role.as_str(), kind) {
        ("victim", _) => victim::watch(what.as_deref().unwrap_or_default()),
        ("giver", _) => handover::give(&what.unwrap_or_default(), &how.unwrap_or_default(), rounds.unwrap_or_default()),
        ("taker", _) => handover::take(&how.unwrap_or_default(), rounds.unwrap_or_default()),
        ("gather", _) => gather::gather(how.unwrap_or_default().parse()?),
        ("owner", _) => slots::owner(),
        ("thief", _) => slots::thief(),
        ("reader", _) => slots::reader(),
        ("parts", _) => slots::parts(),
        ("remains", _) => remains::serve(),
        ("rest", _) => {
            println!("resting");
            thread::sleep(Duration::from_secs(1_000_000));
            Ok(())
        }
        ("attacker", Some(kind)) => {
            let places = Places::read()?;
            if places.are_none() {
                return honest::serve();
            }
            let attempt = monohull::instance().attempt;
            let threads = threads.unwrap_or_default();
            let crowds: Vec<usize> = threads.split(',').filter_map(|number| number.parse().ok()).collect();
            let crowd = crowds.get(attempt as usize - 1).copied().unwrap_or(1);
            let attack = Attack {
                what: what.unwrap_or_default(),
                how: how.unwrap_or_default(),
                attempt,
                places,
                crowd: Barrier::new(crowd),
            };
            attacker(&kind, &attack, crowd, attempt as usize == crowds.len())
        }
        _ => Err(
            "role is victim, giver, taker, gather, owner, thief, reader, parts, remains, rest, or attacker with a kind"
                .into(),
        ),
    }
}

/// What an attack is made by.
pub(crate) type Strike = fn(&Attack) -> Booty;

/// The attack of this kind.
pub(crate) fn strike_of(kind: &str) -> Result<Strike, Box<dyn Error>> {
    Ok(match kind {
        "memory" => memory::strike,
        "jump" => jumps::strike,
        "instruction" => instructions::strike,
        "signal" => signals::strike,
        "deputy" => deputies::strike,
        "door" => doors::strike,
        "exhaustion" => exhaustion::strike,
        "leftovers" => leftovers::strike,
        _ => return Err("there is no such kind of attack".into()),
    })
}

/// An attempt, with so many threads; `threads` says how many for each: `1,8,1`.
fn attacker(kind: &str, attack: &Attack, crowd: usize, is_last: bool) -> Result<(), Box<dyn Error>> {
    let strike = strike_of(kind)?;
    if is_last && attack.attempt > 1 {
        // The earlier attempts have failed. Have they?
        SlotVec::<u64>::with_slot("done").publish()?;
        SlotBuffer::<[u8]>::from_slot("verdict")?.discard();
    }
    if crowd == 1 {
        println!("got {}", strike(attack)?);
    } else {
        let each = || {
            attack.crowd.wait();
            strike(attack).map(|got| println!("got {got}")).map_err(|error| error.to_string())
        };
        let ends: Vec<Result<(), String>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..crowd).map(|_| scope.spawn(each)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("it panicked".into()))).collect()
        });
        ends.into_iter().collect::<Result<(), String>>()?;
    }
    if attack.attempt == 1 {
        SlotVec::<u64>::with_slot("done").publish()?;
    }
    SlotVec::<u64>::with_slot("end").publish()?;
    Ok(())
}

/// An attack's end: what it got, in words.
pub(crate) type Booty = Result<String, Box<dyn Error>>;

/// A value as booty.
pub(crate) fn number(value: u64) -> Booty {
    Ok(format!("{:#x}", black_box(value)))
}
