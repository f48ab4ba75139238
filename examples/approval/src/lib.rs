//! An order waits for an approval: for the event `approved`, whose content is the name of the approver, or for an answer to a link that only its reader
//! can know. Each time that the wait times out a reminder is printed. After the last one the order is refused.
//!
//! This is ordinary code with a loop and local variables. While it waits it may be a file for days (`monohull run --state`), without a process.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::durable::{self, Answered, Callback, EventError};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::time::Duration;

/// Fills the slot `decision` with what has become of the order in the slot `order`. If it is to be approved `by_link`, that is printed, as in a letter.
#[monohull::main]
fn main(remind_after_s: u64, reminders: u32, by_link: Option<bool>) -> Result<(), Box<dyn Error>> {
    let order = SlotString::from_slot("order")?;
    let order = order.trim();
    let wait = Duration::from_secs(remind_after_s);
    let link = (by_link == Some(true)).then(durable::callback);
    if let Some(link) = &link {
        println!("to approve {order}: POST {}", link.url());
    }
    let mut reminded = 0;
    let decision = loop {
        let answer = match &link {
            Some(link) => by_letter(link, wait)?,
            None => by_name(wait)?,
        };
        match answer {
            Some(answer) => break answer,
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

/// Those who may send events to the invocation approve.
fn by_name(wait: Duration) -> Result<Option<String>, EventError> {
    let name = durable::event("approved").timeout(wait).wait()?;
    Ok(name.map(|name| format!("approved by {}", String::from_utf8_lossy(&name))))
}

/// The one who has the link approves or rejects, once.
fn by_letter(link: &Callback, wait: Duration) -> Result<Option<String>, EventError> {
    Ok(match link.answer().timeout(wait).wait()? {
        Answered::Completed(name) => Some(format!("approved by {}", String::from_utf8_lossy(&name))),
        Answered::Rejected(why) => Some(format!("refused: {}", String::from_utf8_lossy(&why))),
        Answered::TimedOut | Answered::Silent => None,
    })
}
