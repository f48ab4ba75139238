//! A workflow that only waits, and stays in its process.
//!
//! ```text
//!   only waits ─▶ captured ─▶ stands still ── Residence::stay ──▶ elsewhere: the capture is kept ─┬─▶ the process ends: it is restored later
//!                                  │                                                              └─▶ GoOn ─┐
//!                                  └─ no timer is served, no event is given, no thread runs ◀───────────────┘
//! ```
//!
//! A domain that stands still is what its capture says. So its process may end at any time: what was captured goes on elsewhere. If it goes
//! on here instead, it does so as a restored one would: the clock has advanced as far as the first timer and no further, the lineage is that of
//! the run which goes on, and what the capture has as taken or sent is not remembered. Events are those of the mailbox. The domain has
//! some of them already, the first ones; if they are others, it does not go on, and is restored.

use super::{Lineage, Suspended};
use crate::given_events::GivenEvent;
use crate::host_time::monotonic_ns;
use crate::sched::Scheduler;
use crate::shared::Shared;
use std::time::Duration;

/// Keeps a run that stands still.
pub trait Residence: Send + Sync {
    /// Takes the capture of a domain that stands still from here on; called on a carrier, with no lock held.
    fn stay(&self, captured: Suspended);

    /// Whether there is an order to go on.
    fn has_order(&self) -> bool;

    /// That order, once.
    fn take_order(&self) -> Option<GoOn>;

    /// Whether the domain goes on as ordered. It is called before anything runs. A domain that does not go on stands still, and is good for
    /// nothing more.
    fn answer(&self, goes_on: bool);
}

/// What a domain that stands still goes on with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GoOn {
    /// Where the run stands now.
    pub lineage: Lineage,
    /// Whether the run's time is up when it was to be at the capture; if not, the run may take as long as it likes.
    pub keeps_deadline: bool,
    /// The whole mailbox.
    pub events: Vec<GivenEvent>,
}

/// A domain that stands still: what its capture says of it.
pub(crate) struct Standing {
    /// Domain time of the capture, and the wall clock's.
    clock: u64,
    wall: u64,
    /// The host's time (monotonic ns).
    since: u64,
    /// The events that it has as taken.
    taken: Vec<u64>,
    /// How many of the outbox's it has.
    sent: usize,
}

impl Shared {
    /// The domain, which was captured under this hold of the lock, stands still.
    pub(super) fn stand_still<I>(&self, scheduler: &mut Scheduler<I>, captured: &Suspended) {
        scheduler.stand_still();
        self.suspension.stand(Standing {
            clock: captured.continuation.clock,
            wall: captured.continuation.wall,
            since: monotonic_ns(),
            taken: captured.events_taken.clone(),
            sent: captured.sent.len(),
        });
    }

    /// Whether the domain is to go on.
    pub(crate) fn has_order(&self) -> bool {
        self.options.residence.as_ref().is_some_and(|residence| residence.has_order())
    }

    /// Goes on as ordered, unless another carrier does.
    pub(crate) fn go_on(&self) {
        let Some(residence) = &self.options.residence else { return };
        let Some(order) = residence.take_order() else { return };
        let standing = self.suspension.take_standing();
        if !standing.is_some_and(|standing| self.make_ready(standing, order)) {
            return residence.answer(false);
        }
        residence.answer(true);
        self.lock().go_on_here();
        self.sched.wake_all();
    }

    /// Makes the domain what a restored one would be; false if it cannot be made that.
    fn make_ready(&self, standing: Standing, order: GoOn) -> bool {
        let GoOn { lineage, keeps_deadline, mut events } = order;
        self.given.forget(&standing.taken);
        {
            let given = self.given.lock();
            let has_first = events.len() >= given.len() && given.iter().zip(&events).all(|(has, event)| has == event);
            if !has_first {
                return false;
            }
            events.drain(..given.len());
        }
        self.outbox.forget(standing.sent);
        self.published.begin();
        *self.lineage.lock().expect("lineage") = lineage;
        if !keeps_deadline {
            self.sched.drop_run_deadline();
        }
        let first = self.clock.of_host(self.lock().first_timer());
        // As a restored one: a clock that was set back does not take the domain back.
        let away = self.clock.wall().saturating_sub(standing.wall);
        self.clock.go_on_at(standing.clock.saturating_add(away).min(first.max(standing.clock)));
        if let Some(driver) = self.driver.lock().expect("driver").as_mut() {
            driver.stood_still(Duration::from_nanos(monotonic_ns().saturating_sub(standing.since)));
        }
        events.into_iter().all(|event| {
            let number = event.number;
            let given = self.give_event(event);
            given.inspect_err(|errno| tracing::warn!("event {number} cannot be given now: {errno}")).is_ok()
        })
    }
}
