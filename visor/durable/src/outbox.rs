//! What an invocation sends to others, and the children that it starts: in the transaction of its commit.
//!
//! ```text
//!   commit of the sender ─┬─ checkpoint, events taken, …
//!                         ├─ each event ─▶ mailbox of its receiver, which is due if it waits for it
//!                         └─ each start of a child ─▶ an invocation, which is due
//! ```
//!
//! So an event is sent if the state is kept in which the sender has sent it, and a sender that is killed before that sends it when it comes there
//! again. Each has a key that is made of its sender and its place: one that an instance sends again, after it has failed or was taken
//! back, is a duplicate.

use crate::InvocationId;
use monohull_report::{Outgoing, What};
use sha2::{Digest, Sha256};
use std::fmt;

/// The workflow of any name, in a list of those that may be sent events.
pub const ANY_WORKFLOW: &str = "*";

/// What leaves with a commit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outbox {
    /// Events, starts and ends of children, in the order in which they were sent.
    pub events: Vec<Outgoing>,
    /// The workflows whose invocations may be sent some: the sender's workflow file names them.
    pub workflows: Vec<String>,
    /// For each start of a child what its invocation is started with, or why it cannot be.
    pub starts: Vec<Result<Vec<u8>, String>>,
    /// How many copies of the sender there may be besides all that there are; `None` for any number.
    pub room: Option<u64>,
}

impl Outbox {
    /// What a workflow sends that may send events to these workflows. What a child is started with is asked for each.
    pub fn new(
        events: Vec<Outgoing>,
        workflows: &[String],
        mut start: impl FnMut(&Outgoing) -> Result<Vec<u8>, String>,
    ) -> Outbox {
        let starts = events.iter().filter(|event| matches!(event.what, What::Start { .. })).map(&mut start).collect();
        Outbox { events, workflows: workflows.to_vec(), starts, room: None }
    }

    /// The key of an event that an invocation sends, which was started then: the same if the same is sent at the same place again.
    pub fn key(sender: &InvocationId, started: u64, event: &Outgoing) -> String {
        key(sender, started, event)
    }

    /// Whether it changes children.
    pub fn has_children(&self) -> bool {
        self.events.iter().any(|event| matches!(event.what, What::Start { .. } | What::Cancel))
    }

    /// Whether an invocation of this workflow may be sent events.
    pub fn permits(&self, workflow: &str) -> bool {
        self.workflows.iter().any(|name| name == workflow || name == ANY_WORKFLOW)
    }

    /// The invocations that are named.
    pub fn receivers(&self) -> impl Iterator<Item = InvocationId> {
        let events = self.events.iter().filter(|event| event.what == What::Event);
        events.filter_map(|event| event.to.parse().ok())
    }
}

/// An event that was not sent, or a child that was not started. The commit is made without it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undelivered {
    /// What it is.
    pub what: What,
    /// To which invocation, or which child.
    pub to: String,
    /// The event's name, or the workflow of the child.
    pub name: String,
    /// Why.
    pub why: WhyUndelivered,
}

/// Why.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    /// A child cannot be started, or a copy not be made.
    NotStarted(String),
}

impl fmt::Display for WhyUndelivered {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            WhyUndelivered::Unknown => "there is no such invocation",
            WhyUndelivered::NotPermitted => "`sends_to` of the workflow file does not name its workflow",
            WhyUndelivered::Ended => "it has ended",
            WhyUndelivered::Full => "as many events wait for it as may",
            WhyUndelivered::KeyTaken => "another event has its key",
            WhyUndelivered::NotStarted(why) => why,
        })
    }
}

impl fmt::Display for Undelivered {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [receiver, name] = [&self.to, &self.name].map(monohull_report::escape::shown);
        let why = monohull_report::escape::shown(&self.why.to_string()).to_string();
        match self.what {
            What::Event => write!(to, "event `{name}` was not sent to `{receiver}`: {why}"),
            What::Start { .. } => write!(to, "child `{receiver}` of workflow `{name}` was not started: {why}"),
            What::Cancel => write!(to, "child `{receiver}` was not cancelled: {why}"),
            What::Checkpoint => write!(to, "checkpoint `{name}` was not kept: {why}"),
            What::Fork { copies } => write!(to, "{copies} copies were not made: {why}"),
        }
    }
}

/// The key of an event: the same if the same is sent at the same place again. An invocation that has the name of one that was removed is another sender.
pub(crate) fn key(sender: &InvocationId, started: u64, event: &Outgoing) -> String {
    let mut hash = Sha256::new();
    for part in [
        sender.as_str().as_bytes(),
        started.to_le_bytes().as_slice(),
        event.origin.as_bytes(),
        event.name.as_bytes(),
        &event.bytes,
    ] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest.iter().fold("sent:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
