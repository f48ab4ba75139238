//! A leg of a durable invocation: what it begins with, and how far it has come.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use monohull_domain::checkpoint::GoOn;
use monohull_durable::{Claim, InvocationId};
use monohull_engine::{Event, Ready};
use monohull_saved::Base;
use monohull_worker::{Data, Rest};
use tokio::sync::broadcast::Receiver;

use crate::invocations::stored::Start;
use crate::invocations::workers::Run;

/// What a leg begins with.
pub(crate) struct Leg {
    pub(crate) ready: Arc<Ready>,
    pub(crate) inputs: Vec<(String, Data)>,
    /// What it goes on from; without it it begins.
    pub(crate) continuation: Option<Rest>,
    pub(crate) events: Vec<Event>,
    /// What an earlier version has handed over to it.
    pub(crate) handed_over: String,
    /// Its process may stay with it at its next wait.
    pub(crate) resident: bool,
}

/// What is needed of a leg's beginning when it is over.
pub(crate) struct Begun {
    /// Where its end is told.
    pub(crate) callback: Option<String>,
    /// It may be run again from its beginning.
    pub(crate) again: bool,
    pub(crate) document: Bytes,
    pub(crate) ready: Arc<Ready>,
    pub(crate) copy: (u32, u32),
    /// The checkpoint that it has gone on from, if its next one may take pages from that.
    pub(crate) base: Option<Base>,
    /// When it was given its turn: before its grants and secrets were read.
    pub(crate) since: Instant,
}

/// The process of a claimed invocation, in which it goes on.
pub(crate) struct Here {
    pub(crate) process: Run,
    pub(crate) begun: Begun,
    pub(crate) start: Start,
    pub(crate) order: GoOn,
    /// What has changed since before the mailbox was read.
    pub(crate) changes: Receiver<Option<InvocationId>>,
    /// What [`Ledger::marked`](crate::invocations::ledger::Ledger::marked) said before its claim.
    pub(crate) marked: u64,
}

/// How far a leg has come.
pub(crate) enum Far {
    /// To its next wait, or to the end.
    Over,
    /// To a wait that is over already: it has been claimed again, and goes on in its process, if that is here.
    GoesOn(Arc<Claim>, Option<Box<Here>>),
}
