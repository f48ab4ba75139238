//! A counter that is served by name for years: each event `add` adds to it, what it shows is read without waking it.
//!
//! Its state is a local variable. Between two events it may be a file (`monohull run --state`, or a server), without a process. What it publishes
//! is enough for a later version of it to go on with.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::durable::{self, Answered};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::time::Duration;

/// Counts until the event `close`, and fills the slot `total`. With `confirm` a client that knows a secret has to agree to the end; with `silence_s` it has
/// to say within so many seconds that it is still at it, as long as it does not answer.
#[monohull::main]
fn main(confirm: Option<bool>, silence_s: Option<u64>) -> Result<(), Box<dyn Error>> {
    let before = durable::handed_over("count").map(|text| text.parse::<i64>()).transpose()?;
    let mut count = before.unwrap_or(0);
    durable::publish("count", &count.to_string())?;
    while let Some(("add", bytes)) = durable::first_of(["add", "close"]).wait()? {
        let text = String::from_utf8_lossy(&bytes);
        match text.trim().parse::<i64>() {
            Ok(number) => count = count.saturating_add(number),
            Err(_) => println!("{text:?} is no number"),
        }
        durable::publish("count", &count.to_string())?;
    }
    if confirm == Some(true) {
        let callback = durable::callback();
        println!("to end: {} {}", durable::invocation_id(), callback.token());
        let answer = match silence_s {
            Some(seconds) => callback.answer().heartbeat(Duration::from_secs(seconds)),
            None => callback.answer(),
        };
        match answer.wait()? {
            Answered::Completed(_) => {}
            Answered::Rejected(why) => println!("not confirmed: {}", String::from_utf8_lossy(&why)),
            Answered::TimedOut | Answered::Silent => println!("not confirmed: no answer"),
        }
    }
    let mut total = SlotString::with_slot("total");
    total.push_str(&format!("{count}\n"));
    total.publish()?;
    Ok(())
}
