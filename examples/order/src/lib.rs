//! An order: the ship is reserved, the customer pays or is reminded, the ship is delivered. Whatever fails, what was done before is undone.
//!
//! ```text
//!   reserve ──▶ wait for `paid`, `cancelled` or a day ──▶ deliver, tried again while the yard is busy ──▶ delivered
//!      │                    │ no answer                         │ all attempts failed
//!      └── released ◀───────┴───────────── refunded ◀───────────┘
//! ```
//!
//! `monohull cancel` has the same effect as the customer's `cancelled`: the function waits for [`CANCEL`] too.
//!
//! This is ordinary code. Each effect on the outside is a step with a key; here it is a line of output. While the function waits, for the
//! customer or until the next attempt, it may be a file (`monohull run --state`), without a process.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::durable::{self, CANCEL};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::time::Duration;

/// Fills the slot `decision` with what has become of the order in the slot `order`. `busy` is how often the yard cannot deliver.
#[monohull::main]
fn main(remind_after_s: u64, reminders: u32, busy: u32) -> Result<(), Box<dyn Error>> {
    let order = SlotString::from_slot("order")?;
    let order = order.trim();
    let decision = match fulfil(order, Duration::from_secs(remind_after_s), reminders, busy) {
        Ok(receipt) => format!("delivered, paid with {receipt}"),
        Err(reason) => reason,
    };
    let mut answer = SlotString::with_slot("decision");
    answer.push_str(&format!("{order}: {decision}\n"));
    answer.publish()?;
    Ok(())
}

/// The receipt, or why there is none; then nothing is left of the order.
fn fulfil(order: &str, wait: Duration, reminders: u32, mut busy: u32) -> Result<String, String> {
    let mut undo = durable::scope();
    effect("reserve", order)?;
    undo.on_failure(|| _ = effect("release", order));
    let receipt = payment(order, wait, reminders)?;
    undo.on_failure(|| _ = effect("refund", order));
    let deliver = durable::step("deliver").attempts(4).backoff(Duration::from_secs(60), Duration::from_secs(3600));
    deliver.run(|key| {
        if busy > 0 {
            busy -= 1;
            println!("the yard is busy ({key})");
            return Err("not delivered: the yard is busy".to_string());
        }
        println!("deliver {order} ({key})");
        Ok(())
    })?;
    undo.commit();
    Ok(receipt)
}

/// Waits for the customer, and reminds.
fn payment(order: &str, wait: Duration, reminders: u32) -> Result<String, String> {
    for number in 0..=reminders {
        if number > 0 {
            println!("reminder {number} of {reminders}: {order} is not paid");
        }
        let answer = durable::select! {
            receipt = durable::event("paid") => return Ok(String::from_utf8_lossy(&receipt).into_owned()),
            reason = durable::event("cancelled") => return Err(format!("cancelled: {}", String::from_utf8_lossy(&reason))),
            _ = durable::event(CANCEL) => return Err("cancelled by the shop".to_string()),
            () = durable::after(wait) => {}
        };
        answer.map_err(|error| error.to_string())?;
    }
    Err("not paid".to_string())
}

/// Something that is done outside, in which nothing fails.
fn effect(name: &str, order: &str) -> Result<(), String> {
    durable::step(name).run(|key| {
        println!("{name} {order} ({key})");
        Ok(())
    })
}
