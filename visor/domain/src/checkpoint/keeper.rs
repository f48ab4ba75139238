//! Captures of a run that goes on: who takes them, and what comes back.
//!
//! ```text
//!   halted ─▶ captured ─▶ functions run again           ┌─ the next time is `every` after this one
//!                 │                                     │
//!                 └─▶ Keeper::keep ── elsewhere: encoded, written, made durable ──▶ Answer ─▶ events that have come meanwhile are given
//! ```
//!
//! Each capture after the first has only the pages that are not as in the last one that was kept, see [`Base`].
//!
//! There is one capture on its way at a time. The pages in it are a copy that was made while the domain stood still, so it is exact
//! whatever functions do from then on.

use super::Suspended;
use crate::given_events::GivenEvent;

/// Takes the captures of a run that goes on after each of them.
pub trait Keeper: Send + Sync {
    /// Takes a capture; called on a carrier, with no lock held. It returns soon: what takes time is done elsewhere.
    fn keep(&self, captured: Suspended);

    /// Whether there is an answer to the last one. Asked by each carrier that looks for work.
    fn has_answer(&self) -> bool;

    /// That answer, once.
    fn take_answer(&self) -> Option<Answer>;

    /// Waits for the answer to a capture that has none yet; `None` if there is no such capture, or there will be no answer.
    fn wait_for_answer(&self) -> Option<Answer>;
}

/// What the next capture is compared with: it leaves out what is as there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Base {
    /// The capture that is answered: it was kept.
    This,
    /// What this one was compared with: it was not kept.
    #[default]
    Before,
    /// Nothing: the next one is whole.
    None,
}

/// What became of a capture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// What the next one is compared with.
    pub next: Base,
    /// The numbers of the events that are in it and nowhere else now; none if it was not kept.
    pub taken: Vec<u64>,
    /// How many events for other invocations have left with it; none if it was not kept.
    pub sent: usize,
    /// Events that have come since the last answer.
    pub events: Vec<GivenEvent>,
}
