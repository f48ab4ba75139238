//! An author that waits for an editor which it does not know. Each is a step of its own; what goes from one to the next is the author's continuation.
//!
//! ```text
//!   author   fills `draft` ─ call_cc: publishes "question" ─ waits ───────────────────── the text ─▶ fills `page`
//!   reader                          takes "question" ─ publishes "passed"                    │
//!   editor                                       takes "passed" and `draft` ─ resume ────────┘
//! ```
#![no_std]
#![deny(unsafe_code)]

use monohull_std::continuation::{Continuation, call_cc};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;

/// Does what one of the three does.
#[monohull::main]
fn main(role: String) -> Result<(), Box<dyn Error>> {
    match &*role {
        "author" => author(),
        "reader" => Ok(Continuation::take("question")?.publish("passed")?),
        "editor" => editor(),
        other => Err(format!("there is no role {other:?}").into()),
    }
}

fn author() -> Result<(), Box<dyn Error>> {
    let mut draft = SlotString::with_slot("draft");
    draft.push_str("a draft\n");
    draft.publish()?;
    // The function waits here, without a thread of the host, until something resumes it.
    let text = call_cc(|continuation| continuation.publish("question"))?;
    text.hand_on("page")?;
    Ok(())
}

fn editor() -> Result<(), Box<dyn Error>> {
    let continuation = Continuation::take("passed")?;
    let draft = SlotString::from_slot("draft")?;
    continuation.resume(draft.to_uppercase().as_bytes())?;
    Ok(())
}
