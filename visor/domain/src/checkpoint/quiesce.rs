//! When a domain can be captured: nothing runs, and nothing will before a timer is due.
//!
//! ```text
//!   a carrier has nothing to do ── others idle? will anything change? ──▶ deadlock, if not
//!                                        │ the first timer is far
//!                                        ▼
//!                       Work::Suspend ──▶ driver's lock, scheduler's lock, still so? ──▶ capture ──▶ the run ends
//!                                                                                    └─▶ refused: it goes on
//! ```

use super::{CaptureError, Rejected, Suspended};
use crate::sched::{Resources, Scheduler};
use crate::shared::Shared;
use monohull_abi::module::NEVER;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Whether the domain is to be suspended, and what became of it.
#[derive(Default)]
pub(crate) struct Suspension(Mutex<State>);

#[derive(Default)]
struct State {
    suspended: Option<Box<Suspended>>,
    /// Why it could not be suspended. It is not tried again: what is in the way is there to stay, as a rule.
    refused: Option<String>,
}

impl Suspension {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("suspension")
    }

    /// Whether the run has ended that way.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().suspended.is_some()
    }

    /// Takes what the run ended with, if it was suspended.
    pub(crate) fn take(&self) -> Option<Box<Suspended>> {
        self.lock().suspended.take()
    }

    /// Why the run was not suspended when it only waited.
    pub(crate) fn refused(&self) -> Option<String> {
        self.lock().refused.clone()
    }
}

impl Shared {
    /// How long the workflow must only wait to be suspended now; `None` if it is not to be suspended.
    pub(crate) fn wants_suspension(&self) -> Option<Duration> {
        self.options.suspend.filter(|_| self.suspension.lock().refused.is_none())
    }

    /// The workflow only waits: captures it, and ends the run. If it cannot be captured the run goes on.
    pub(crate) fn suspend(&self) {
        let mut driver = self.driver.lock().expect("driver");
        let mut scheduler = self.lock();
        // Another carrier may have found something to do meanwhile.
        let still = self.wants_suspension().is_some_and(|least| scheduler.only_waits(least, self.now()));
        if !still || scheduler.is_done() {
            return;
        }
        match self.capture(&scheduler, driver.as_deref_mut()) {
            Ok(suspended) => {
                self.suspension.lock().suspended = Some(Box::new(suspended));
                scheduler.finish();
                self.sched.wake_all();
            }
            // The first timer became due meanwhile: it is served, and then there is another wait.
            Err(CaptureError::Unfit(Rejected::Time)) => {}
            Err(error) => self.suspension.lock().refused = Some(error.to_string()),
        }
    }
}

impl<I> Scheduler<I> {
    /// Whether no thread is ready or on a carrier, nothing comes from outside, and the first timer is at least so far away.
    pub(crate) fn only_waits(&self, least: Duration, now: u64) -> bool {
        let first = self.live_timers().map(|(at, _)| at).min().unwrap_or(NEVER);
        let far = u128::from(first.saturating_sub(now)) >= least.as_nanos();
        far && self.is_at_rest() && !self.is_disturbed()
    }
}
