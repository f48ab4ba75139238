//! A domain stands still, and goes on as it would if it had been restored. See [`residence`](super::residence).

use super::Suspended;
use super::keeper::Base;
use super::residence::{GoOn, Order, Standing};
use crate::host_time::monotonic_ns;
use crate::sched::Scheduler;
use crate::shared::Shared;
use std::time::Duration;

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

    /// Does as ordered, unless another carrier does.
    pub(crate) fn follow_order(&self) {
        let Some(residence) = &self.options.residence else { return };
        let Some(order) = residence.take_order() else { return };
        let Some(standing) = self.suspension.take_standing() else { return residence.answer(false) };
        match order {
            Order::GoOn(order) => {
                if !self.make_ready(standing, order) {
                    return residence.answer(false);
                }
                residence.answer(true);
                self.lock().go_on_here();
            }
            Order::End => {
                self.suspension.hand_over();
                self.lock().finish();
            }
            Order::Unkept(why) => {
                self.changes.answered(Base::Before);
                self.suspension.not_kept(why, |pause| self.clock.after(pause));
                residence.answer(true);
                self.lock().go_on_as_it_was();
            }
        }
        self.sched.wake_all();
    }

    /// Makes the domain what a restored one would be; false if it cannot be made that.
    fn make_ready(&self, standing: Standing, order: GoOn) -> bool {
        let GoOn { lineage, keeps_deadline, may_leave, mut events } = order;
        self.suspension.kept();
        self.given.forget(&standing.taken);
        {
            let given = self.given.lock();
            let has_first = events.len() >= given.len() && given.iter().zip(&events).all(|(has, event)| has == event);
            if !has_first {
                return false;
            }
            events.drain(..given.len());
        }
        if may_leave {
            self.changes.answered(Base::This);
        } else {
            self.changes.answered(Base::None);
            self.files.pager.capture_all();
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
            let time = Duration::from_nanos(monotonic_ns().saturating_sub(standing.since));
            driver.stood_still(time, Duration::from_nanos(away));
        }
        events.into_iter().all(|event| {
            let number = event.number;
            let given = self.give_event(event);
            given.inspect_err(|errno| tracing::warn!("event {number} cannot be given now: {errno}")).is_ok()
        })
    }
}
