//! What a server needs of the store beside [`Meta`]: results that are asked for later, lists by time, and bounds.
//!
//! A command line prints what functions print, and writes outputs to files of its user. A server keeps both for later requests, so they are part
//! of the transaction that says how far an invocation has come.

use crate::meta::{Claim, Claimed, Commit, Committed, Controlled, Held, Meta, MetaError, NewInvocation, Started};
use crate::{InvocationId, Listed, Mail, Outbox, Outcome, Status, Undelivered};

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
    /// Where the end is to be told, if the invocation has ended by the commit. It is owed until [`Served::paid`].
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
    /// Of the reports of those that have failed only what is at this path (of JSON: `$.a.b`) is listed, and nothing of other reports.
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

/// The transactions that a server needs besides.
pub trait Served: Meta {
    /// Adds an invocation that already waits: one that was run before it was known that it would. `commit` is
    /// [`Commit::Suspended`], and the times are that of its start and the present one.
    fn start_suspended(
        &mut self,
        new: &NewInvocation<'_>,
        commit: &Commit,
        left: &Left,
        times: [u64; 2],
    ) -> Result<Started, MetaError>;

    /// Adds an invocation that its owner runs from now on, unless there is one of its name. If the owner dies it can be claimed, as its second attempt.
    /// The times are that of its start and the present one.
    fn start_running(
        &mut self,
        new: &NewInvocation<'_>,
        owner: &str,
        times: [u64; 2],
    ) -> Result<Option<Held>, MetaError>;

    /// Claims those that are due first, in one transaction: one, and others as long as `another` says so, which is asked when there is one more. A store may
    /// claim fewer, but one if there is one.
    fn claim_due(
        &mut self,
        owner: &str,
        now: u64,
        another: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Claimed>, MetaError>;

    /// [`Meta::commit`], and in the same transaction what is left for those who ask later, and what is sent.
    fn commit_with(&mut self, held: &Held, commit: &Commit, left: &Left, now: u64) -> Result<Committed, MetaError>;

    /// [`Served::commit_with`], and in the same transaction another claim of the invocation, if it waits and is due.
    fn commit_and_claim(
        &mut self,
        held: &Held,
        commit: &Commit,
        left: &Left,
        owner: &str,
        now: u64,
    ) -> Result<(Committed, Option<Claim>), MetaError>;

    /// Sends events of one that is not in the store; those that were not sent.
    fn send_all(&mut self, sender: &InvocationId, sent: &Outbox, now: u64) -> Result<Vec<Undelivered>, MetaError>;

    /// What a claimed invocation is given when it goes on: what waits in its mailbox, and what it is told of its checkpoint. Refused with
    /// [`MetaError::Stale`] if it is not the holder's any more.
    fn given(&self, held: &Held) -> Result<Vec<Mail>, MetaError>;

    /// Ends an invocation at once. Of one that runs, what its owner commits from now on is refused.
    fn kill(&mut self, id: &InvocationId, now: u64) -> Result<Controlled, MetaError>;

    /// Whether there was an invocation of this name that was removed by hand, as far as that is remembered, and there is none now. Another one of its name has a
    /// higher epoch.
    fn is_gone(&self, id: &InvocationId) -> Result<bool, MetaError>;

    /// Whether an event with this key was sent to an invocation, as far as that is remembered.
    fn knows_key(&self, id: &InvocationId, key: &str) -> Result<bool, MetaError>;

    /// Sends an empty event, unless one of its name waits already. One that has ended, or is not there, gets none.
    fn beat(&mut self, id: &InvocationId, name: &str, now: u64) -> Result<(), MetaError>;

    /// The outputs of an invocation, in the order of their slots' names.
    fn outputs(&self, id: &InvocationId) -> Result<Vec<Output>, MetaError>;

    /// What an invocation has printed, commit by commit.
    fn printed(&self, id: &InvocationId) -> Result<Vec<Vec<u8>>, MetaError>;

    /// The invocations whose end is still to be told, by name.
    fn owed(&self) -> Result<Vec<InvocationId>, MetaError>;

    /// Where the end of an invocation is still to be told.
    fn owed_to(&self, id: &InvocationId) -> Result<Option<String>, MetaError>;

    /// The end of an invocation has been told, or is not going to be.
    fn paid(&mut self, id: &InvocationId) -> Result<(), MetaError>;

    /// At most `limit` invocations, the last started first, and of those started at once the last name first. Of their reports there is only
    /// what the filter says.
    fn newest(&self, filter: &Filter, limit: usize) -> Result<Vec<Listed>, MetaError>;

    /// How many invocations have not ended.
    fn living(&self) -> Result<u64, MetaError>;

    /// How much there is.
    fn tally(&self, now: u64) -> Result<Tally, MetaError>;

    /// When the first of those that have ended did so.
    fn first_end(&self) -> Result<Option<u64>, MetaError>;

    /// Removes invocations that have ended and are more than is kept; how many. Those whose end is still to be told stay.
    fn forget(&mut self, bounds: Bounds) -> Result<usize, MetaError>;
}

/// The most bytes that are kept of what one invocation has printed: twice what a server has of one between two checkpoints. The oldest
/// goes first.
pub const PRINTED_MAX: u64 = 5 << 19;
