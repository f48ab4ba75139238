//! A workflow that only waits, and stays in its process.
//!
//! ```text
//!   only waits ─▶ captured ─▶ stands still ── Residence::stay ──▶ elsewhere: the capture is kept ─┬─▶ the process ends: it is restored later
//!                                  │                             │                                └─▶ GoOn ─┐
//!                                  │                             └─▶ it cannot be kept ─▶ Unkept ────────────┤
//!                                  └─ no timer is served, no event is given, no thread runs ◀───────────────┘
//! ```
//!
//! A domain that stands still is what its capture says. So its process may end at any time: what was captured goes on elsewhere. If it goes
//! on here instead, it does so as a restored one would: the clock has advanced as far as the first timer and no further, the lineage is that of
//! the run which goes on, and what the capture has as taken or sent is not remembered. Events are those of the mailbox. The domain has
//! some of them already, the first ones; if they are others, it does not go on, and is restored.
//!
//! A domain whose capture could not be kept goes on as if there had been none, and is suspended again after a pause.

use super::{Lineage, Suspended};
use crate::given_events::GivenEvent;

/// Keeps a run that stands still.
pub trait Residence: Send + Sync {
    /// Takes the capture of a domain that stands still from here on; called on a carrier, with no lock held.
    fn stay(&self, captured: Suspended);

    /// Whether there is an order to go on.
    fn has_order(&self) -> bool;

    /// That order, once.
    fn take_order(&self) -> Option<Order>;

    /// Whether the domain goes on as ordered. It is called before anything runs. A domain that does not go on stands still, and is good for
    /// nothing more.
    fn answer(&self, goes_on: bool);
}

/// What a domain that stands still does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// It goes on from its capture, which is kept.
    GoOn(GoOn),
    /// It ends: its capture is kept, and goes on elsewhere.
    End,
    /// Its capture is not kept, for this reason: it goes on as if there were none.
    Unkept(String),
}

/// What a domain that stands still goes on with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GoOn {
    /// Where the run stands now.
    pub lineage: Lineage,
    /// Whether the run's time is up when it was to be at the capture; if not, the run may take as long as it likes.
    pub keeps_deadline: bool,
    /// Whether the next capture may leave out what is as in the last one.
    pub may_leave: bool,
    /// The whole mailbox.
    pub events: Vec<GivenEvent>,
}

/// A domain that stands still: what its capture says of it.
pub(crate) struct Standing {
    /// Domain time of the capture, and the wall clock's.
    pub(super) clock: u64,
    /// See `clock`.
    pub(super) wall: u64,
    /// The host's time (monotonic ns).
    pub(super) since: u64,
    /// The events that it has as taken.
    pub(super) taken: Vec<u64>,
    /// How many of the outbox's it has.
    pub(super) sent: usize,
}
