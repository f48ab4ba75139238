//! Versions of workflows: which there are, the invocations whose code they are, and how such an invocation comes to another one.
//!
//! What a version is, the caller knows. Here it is a name.

use crate::meta::{Claim, Commit, Committed, Held, MetaError};
use crate::{Invocation, InvocationId, Left, Status};

/// An invocation whose code is needed.
#[derive(Debug)]
pub struct Member<'r> {
    /// Where it is. One that has failed can be taken back.
    pub status: Status,
    /// When it was started (ns since 1970).
    pub started: u64,
    /// When it goes on by itself (ns since 1970).
    pub due: Option<u64>,
    /// What it was started with, in the starter's own encoding.
    pub start: &'r [u8],
}

/// An invocation that is to be moved.
#[derive(Debug)]
pub enum Moving {
    /// It waits, and is the caller's until [`Versions::commit_moved`] or [`Versions::give_back`].
    Claimed(Box<Claim>, Before),
    /// It has not begun: [`Versions::replace_start`] is all that is needed.
    NotBegun(Box<Invocation>),
    /// One of this status cannot be moved.
    Refused(Status),
    /// There is none of this name.
    Unknown,
}

/// What a claim to move an invocation has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Before {
    /// When it was due.
    pub due: Option<u64>,
    /// Why it was paused, or not run.
    pub reason: Option<String>,
    /// Whether it was paused.
    pub was_paused: bool,
}

/// Looks at an invocation; whether it looks at another one.
pub type Look<'l> = &'l mut dyn FnMut(&InvocationId, Member<'_>) -> Result<bool, MetaError>;

/// The transactions on versions of workflows.
pub trait Versions {
    /// Keeps when a version of a workflow was registered for the first time.
    fn registered(&mut self, workflow: &str, version: &str, now: u64) -> Result<(), MetaError>;

    /// The versions of a workflow that are known, and when each was registered for the first time.
    fn registrations(&self, workflow: &str) -> Result<Vec<(String, u64)>, MetaError>;

    /// Looks at each invocation of a workflow that needs its code, in no order: those that have not ended, and those that have failed and can be taken
    /// back. One whose row is damaged is passed over, as lists name it.
    fn each_member(
        &self,
        workflow: &str,
        look: &mut dyn FnMut(&InvocationId, Member<'_>) -> Result<(), MetaError>,
    ) -> Result<(), MetaError>;

    /// Looks at the invocations of a workflow that have not ended and whose names are behind this one, by name, as long as `look` says so. As in
    /// [`Versions::each_member`] damaged ones are passed over.
    fn living_members(&self, workflow: &str, after: &str, look: Look<'_>) -> Result<(), MetaError>;

    /// Claims an invocation that waits, whether it is due or not. It is no attempt of the version that it is in.
    fn claim_to_move(&mut self, owner: &str, id: &InvocationId, now: u64) -> Result<Moving, MetaError>;

    /// Makes a claimed invocation one that was started with `start`, and has come so far in it: it waits, or has ended. Its earlier checkpoints go.
    fn commit_moved(
        &mut self,
        held: &Held,
        start: &[u8],
        commit: &Commit,
        left: &Left,
        now: u64,
    ) -> Result<Committed, MetaError>;

    /// Makes a claimed invocation what it was before, unless something else was asked of it meanwhile: what it is now.
    fn give_back(&mut self, held: &Held, before: &Before, now: u64) -> Result<Status, MetaError>;

    /// Makes an invocation that has not begun one that was started with `start`; whether it is as it was when it was looked at.
    fn replace_start(&mut self, looked_at: &Invocation, start: &[u8], now: u64) -> Result<bool, MetaError>;
}
