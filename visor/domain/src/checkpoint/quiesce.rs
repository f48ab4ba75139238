//! When a domain can be captured: nothing runs, and nothing will before a timer is due, or before the domain may go on.
//!
//! ```text
//!   a carrier has nothing to do ── others idle? will anything change? ──▶ deadlock, if not
//!                                        │ the first timer is far
//!                                        ▼
//!                       Work::Suspend ──▶ driver's lock, scheduler's lock, still so? ──▶ capture ──▶ the run ends, or stands still
//!                                                                                    └─▶ refused: it goes on, and is captured in a later wait
//!   it is time to come to rest ──▶ no carrier takes a thread any more; user code comes back after its slice of time
//!                                        │ the last carrier has come back                     │ one has not for 50 ms
//!                                        ▼                                                    ▼
//!                       Work::Halt ──▶ as above, or captured and gone on     Work::GiveUpHalt: it goes on
//! ```

use super::capture::Then;
use super::{CaptureError, Rejected};
use crate::preemption;
use crate::sched::{HALT_LIMIT_NS, Resources, Scheduler};
use crate::shared::Shared;
use monohull_abi::module::NEVER;
use monohull_abi::number;
use std::time::Duration;

impl Shared {
    /// The workflow only waits: captures it, and ends the run, or keeps it where it is. If it cannot be captured the run goes on.
    pub(crate) fn suspend(&self) {
        let mut driver = self.driver.lock().expect("driver");
        let mut scheduler = self.lock();
        // Another carrier may have found something to do meanwhile.
        let still = self.options.suspend.is_some_and(|least| scheduler.only_waits(least, self.now()));
        let is_over = scheduler.is_done() || scheduler.is_refused();
        if scheduler.waits_outside() && !is_over {
            // What comes from outside would not come again.
            let why = self.waited_for_outside(&scheduler);
            scheduler.refuse();
            return self.suspension.suspend_later(why, |pause| self.clock.after(pause));
        }
        if !still || is_over {
            return;
        }
        let then = if self.options.residence.is_some() { Then::Stays } else { Then::Ends };
        let captured = match self.capture(&scheduler, driver.as_deref_mut(), then) {
            Ok(captured) => captured,
            // The first timer became due meanwhile: it is served, and then there is another wait.
            Err(CaptureError::Unfit(Rejected::Time)) => return,
            Err(error) => {
                scheduler.refuse();
                return self.suspension.suspend_later(error.to_string(), |pause| self.clock.after(pause));
            }
        };
        if let Some(residence) = &self.options.residence {
            self.stand_still(&mut scheduler, &captured);
            drop(scheduler);
            drop(driver);
            residence.stay(captured);
            return;
        }
        self.suspension.succeed(captured);
        scheduler.finish();
        self.sched.wake_all();
    }
}

impl Shared {
    /// The domain has come to rest because it was asked to: captures it, and ends the run, unless there is a keeper. If it cannot be
    /// captured the run goes on.
    pub(crate) fn halt(&self) {
        let mut driver = self.driver.lock().expect("driver");
        let mut scheduler = self.lock();
        // Another carrier may have found something to do meanwhile.
        if !scheduler.is_halted() || scheduler.is_done() {
            return;
        }
        let every = self.options.halt.unwrap_or_default();
        let mut to_keep = None;
        let then = if self.options.keeper.is_some() { Then::GoesOn } else { Then::Ends };
        match (self.capture(&scheduler, driver.as_deref_mut(), then), &self.options.keeper) {
            (Ok(captured), Some(keeper)) => {
                scheduler.end_halt();
                self.suspension.go_on(self.clock.after(every));
                to_keep = Some((keeper, captured));
            }
            (Ok(mut suspended), None) => {
                self.note_unserved(&mut suspended.continuation);
                self.suspension.succeed(suspended);
                scheduler.finish();
            }
            // A timer became due meanwhile: it is served first.
            (Err(CaptureError::Unfit(Rejected::Time)), _) => return,
            (Err(error), _) if self.makes_template() => {
                self.suspension.refuse(error.to_string());
                scheduler.finish();
            }
            (Err(error), _) => {
                scheduler.end_halt();
                self.suspension.halt_again(error.to_string(), every, |pause| self.clock.after(pause));
            }
        }
        drop(scheduler);
        drop(driver);
        self.sched.wake_all();
        if let Some((keeper, captured)) = to_keep {
            keeper.keep(captured);
        }
    }

    /// A carrier has not come back in time: says what keeps it, and lets the others go on.
    pub(crate) fn give_up_halt(&self) {
        let carriers = self.lock().carriers();
        let instances = self.instances.live();
        let mut busy = (0..carriers).filter_map(|index| {
            let instance = instances.iter().find(|instance| preemption::runs(index, &instance.stop))?;
            Some((instance.described(), preemption::call_under_way(index)))
        });
        let limit = HALT_LIMIT_NS / 1_000_000;
        let why = match busy.next() {
            Some((name, Some(call))) => {
                let call = u32::try_from(call).ok().and_then(number::name_of).unwrap_or("an unknown call");
                format!("{name} is in a call that takes longer than {limit} ms: {call}")
            }
            Some((name, None)) => format!("{name} computes, and cannot be interrupted"),
            None => format!("it does not come to rest within {limit} ms"),
        };
        if self.makes_template() {
            return self.no_template(why);
        }
        self.suspension.halt_again(why, self.options.halt.unwrap_or_default(), |pause| self.clock.after(pause));
        self.sched.wake_all();
    }
}

impl<I> Scheduler<I> {
    /// Whether no thread is ready or on a carrier, nothing comes from outside, and the first timer is at least so far away.
    pub(crate) fn only_waits(&self, least: Duration, now: u64) -> bool {
        let far = u128::from(self.first_timer().saturating_sub(now)) >= least.as_nanos();
        far && self.is_at_rest() && !self.is_disturbed()
    }

    /// When the first timer is due, if the workflow only waits for that.
    pub(crate) fn waits_until(&self, now: u64) -> Option<u64> {
        Some(self.first_timer()).filter(|at| *at != NEVER && self.only_waits(Duration::ZERO, now))
    }

    /// When the first timer is due that is still wanted.
    pub(super) fn first_timer(&self) -> u64 {
        self.live_timers().map(|(at, _)| at).min().unwrap_or(NEVER)
    }
}
