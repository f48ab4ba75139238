//! What is known of an invocation.

use crate::{InvocationId, Woken};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Where an invocation is between its start and its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Started, and not run yet, or run again from its beginning.
    Pending,
    /// A process runs it.
    Running,
    /// It waits as a checkpoint.
    Suspended,
    /// It goes on only by hand.
    Paused,
    /// It has ended well.
    Completed,
    /// It has ended, not well.
    Failed,
    /// It was ended by hand.
    Cancelled,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 7] = [
        Status::Pending,
        Status::Running,
        Status::Suspended,
        Status::Paused,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
    ];

    /// Its name in documents and on terminals.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Running => "running",
            Status::Suspended => "suspended",
            Status::Paused => "paused",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// Whether it can be claimed once it is due.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Status::Pending | Status::Suspended)
    }

    /// Whether nothing follows.
    pub const fn is_end(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }
}

/// A checkpoint in the state folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The name of its file.
    pub file: String,
    /// The bytes of the file.
    pub bytes: u64,
}

/// What an instance of a suspended invocation waits for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wait {
    /// Its step, and which of the step's instances it is.
    pub step: String,
    /// See `step`.
    pub instance: u32,
    /// A description of what is waited for.
    pub what: String,
    /// The end of the wait (ns since 1970), if it has one.
    pub until: Option<u64>,
    /// The name of the event, if it is one.
    #[serde(default)]
    pub event: Option<String>,
}

/// A row of a list: an invocation, or one whose row is damaged.
pub type Listed = Result<Invocation, DamagedRow>;

/// A row with a value that no transaction writes. It stays where it is, and the others go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRow {
    /// The name that the row has.
    pub id: String,
    /// The name of its workflow.
    pub workflow: String,
    /// When it says that it was started (ns since 1970).
    pub started: u64,
    /// Which of its values is wrong.
    pub what: &'static str,
}

impl fmt::Display for DamagedRow {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "its row in the database is damaged: it has a wrong {}", self.what)
    }
}

/// An invocation, as its row says. Times are in ns since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invocation {
    /// Its name.
    pub id: InvocationId,
    /// The name of its workflow.
    pub workflow: String,
    /// Where it is.
    pub status: Status,
    /// When it was started.
    pub started: u64,
    /// When its row has changed last.
    pub changed: u64,
    /// When it goes on by itself. Without one nothing happens by itself.
    pub due: Option<u64>,
    /// How often it has been claimed.
    pub epoch: u64,
    /// Claims since the last commit that came further.
    pub attempts: u32,
    /// How often it has been suspended.
    pub generation: u64,
    /// The process that runs it.
    pub owner: Option<String>,
    /// What it goes on from; without one it is its beginning.
    pub checkpoint: Option<Checkpoint>,
    /// What it waits for.
    pub waits: Vec<Wait>,
    /// Why it is paused, or was not run.
    pub reason: Option<String>,
    /// What it is to become at its next commit: paused or cancelled.
    pub wanted: Option<Status>,
    /// What it was started with, in the starter's own encoding.
    pub start: Vec<u8>,
    /// Its report (JSON), once it has ended.
    pub report: Option<Vec<u8>>,
    /// What it has published, by name.
    pub published: BTreeMap<String, String>,
    /// If it runs: when the process began that runs it.
    pub began: Option<u64>,
    /// If it runs: why. If it does not: the event that has made it due.
    pub woken: Option<Woken>,
    /// How many entries its timeline has had.
    pub entries: u64,
}
