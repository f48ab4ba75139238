//! An order waits for the event `approved`, whose content is the name of the approver. Each time that the wait times out a reminder is
//! printed. After the last one the order is refused.
//!
//! This is ordinary code with a loop and local variables. While it waits it may be a file for days (`monohull run --state`), without a process.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::durable;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::time::Duration;

/// Fills the slot `decision` with what has become of the order in the slot `order`.
#[monohull::main]
fn main(remind_after_s: u64, reminders: u32) -> Result<(), Box<dyn Error>> {
    let order = SlotString::from_slot("order")?;
    let order = order.trim();
    let mut reminded = 0;
    let decision = loop {
        let wait = Duration::from_secs(remind_after_s);
        match durable::event("approved").timeout(wait).wait()? {
            Some(name) => break format!("approved by {}", String::from_utf8_lossy(&name)),
            None if reminded == reminders => break "refused: no answer".to_string(),
            None => {
                reminded += 1;
                println!("reminder {reminded} of {reminders}: {order} waits to be approved");
            }
        }
    };
    let mut answer = SlotString::with_slot("decision");
    answer.push_str(&format!("{order}: {decision}\n"));
    answer.publish()?;
    Ok(())
}
