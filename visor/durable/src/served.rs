//! What a server needs of the store beside [`Meta`](crate::Meta): results that are asked for later, lists by time, and bounds.
//!
//! A command line prints what functions print, and writes outputs to files of its user. A server keeps both for later requests, so they are part
//! of the transaction that says how far an invocation has come.

use crate::{Outbox, Outcome, Status};

/// An output slot of an invocation that has completed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// The slot.
    pub slot: String,
    /// Where its bytes are.
    pub at: OutputAt,
    /// How many bytes it has.
    pub bytes: u64,
}

/// Where the bytes of an output are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutputAt {
    /// In a file of the store, which this hash names.
    File([u8; 32]),
    /// In the database. Bytes that are few are on the disk sooner there than in a file.
    Row(Vec<u8>),
}

/// What a commit leaves for others: those who ask later, and invocations that are sent events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Left {
    /// What was printed since the last commit, in the caller's own encoding; empty if nothing was.
    pub printed: Vec<u8>,
    /// The outputs.
    pub outputs: Vec<Output>,
    /// Where the end is to be told, if the invocation has ended by the commit. It is owed until [`Sqlite::paid`](crate::Sqlite::paid).
    pub callback: Option<String>,
    /// Events for other invocations, and children.
    pub sent: Outbox,
    /// Of an end: what its parent is told, if it has one.
    pub outcome: Outcome,
    /// The file of the checkpoint that is committed and its content, if the disk may not have the file yet. Then the content is part of the
    /// transaction, until [`Store::sync_files`](crate::Store::sync_files).
    pub unsynced: Option<(String, Vec<u8>)>,
    /// What the invocation was started with, if more of it is kept from now on than since its start.
    pub start: Option<Vec<u8>>,
}

/// Which invocations a list has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Those of this workflow.
    pub workflow: Option<String>,
    /// Those of these statuses; all if there are none.
    pub statuses: Vec<Status>,
    /// Those that were started after this time (ns since 1970).
    pub started_after: Option<u64>,
    /// Those behind this one: the last of the list before, by its start and its name.
    pub before: Option<(u64, String)>,
    /// Of the reports of those that have failed only what is at this path (SQLite's, of JSON) is listed, and nothing of other reports.
    pub report_path: Option<&'static str>,
}

/// What is kept of invocations that have ended: the oldest end goes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// How many.
    pub number: usize,
    /// Bytes of what they were started with, of their reports and outputs.
    pub bytes: u64,
    /// Those that ended before this time (ns since 1970) go.
    pub ended_after: u64,
}

/// How much there is, for those who watch over a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// How many invocations have each status, of those that have not ended. Statuses that none has are left out.
    pub living: Vec<(Status, u64)>,
    /// How many could be claimed now.
    pub due: u64,
    /// Bytes of all checkpoints.
    pub checkpoint_bytes: u64,
    /// How many schedules there are.
    pub schedules: u64,
}

/// The most bytes that are kept of what one invocation has printed. The oldest goes first.
pub const PRINTED_MAX: u64 = 2 << 20;
