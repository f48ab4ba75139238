//! Events that an invocation sends to others: they reach the mailboxes in the transaction of its commit.
//!
//! ```text
//!   commit of the sender ─┬─ checkpoint, events taken, …
//!                         └─ each event ─▶ mailbox of its receiver, which is due if it waits for it
//! ```
//!
//! So an event is sent if the state is kept in which the sender has sent it, and a sender that is killed before that sends it when it comes there
//! again. Each has a key that is made of its sender and its place: one that an instance sends again, after it has failed or was taken
//! back, is a duplicate.

use crate::InvocationId;
use monohull_report::Outgoing;
use sha2::{Digest, Sha256};
use std::fmt;

/// The workflow of any name, in a list of those that may be sent events.
pub const ANY_WORKFLOW: &str = "*";

/// Events that leave with a commit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outbox {
    /// The events, in the order in which they were sent.
    pub events: Vec<Outgoing>,
    /// The workflows whose invocations may be sent some: the sender's workflow file names them.
    pub workflows: Vec<String>,
}

impl Outbox {
    /// Whether an invocation of this workflow may be sent events.
    pub(crate) fn permits(&self, workflow: &str) -> bool {
        self.workflows.iter().any(|name| name == workflow || name == ANY_WORKFLOW)
    }

    /// The invocations that are named.
    pub fn receivers(&self) -> impl Iterator<Item = InvocationId> {
        self.events.iter().filter_map(|event| event.to.parse().ok())
    }
}

/// An event that was not sent. The commit is made without it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undelivered {
    /// To which invocation.
    pub to: String,
    /// Its name.
    pub name: String,
    /// Why.
    pub why: WhyUndelivered,
}

/// Why an event was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhyUndelivered {
    /// There is no such invocation.
    Unknown,
    /// The sender's workflow file does not name the receiver's workflow.
    NotPermitted,
    /// The receiver has ended.
    Ended,
    /// As many events wait for the receiver as may.
    Full,
    /// Another event has its key.
    KeyTaken,
}

impl fmt::Display for Undelivered {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            WhyUndelivered::Unknown => "there is no such invocation",
            WhyUndelivered::NotPermitted => "`sends_to` of the workflow file does not name its workflow",
            WhyUndelivered::Ended => "it has ended",
            WhyUndelivered::Full => "as many events wait for it as may",
            WhyUndelivered::KeyTaken => "another event has its key",
        };
        let [receiver, name] = [&self.to, &self.name].map(monohull_report::escape::shown);
        write!(to, "event `{name}` was not sent to `{receiver}`: {why}")
    }
}

/// The key of an event: the same if the same is sent at the same place again.
pub(crate) fn key(sender: &InvocationId, event: &Outgoing) -> String {
    let mut hash = Sha256::new();
    for part in [sender.as_str().as_bytes(), event.origin.as_bytes(), event.name.as_bytes(), &event.bytes] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest.iter().fold("sent:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
