//! When a domain can be captured: nothing runs, and nothing will before a timer is due.
//!
//! ```text
//!   a carrier has nothing to do ── others idle? will anything change? ──▶ deadlock, if not
//!                                        │ the first timer is far
//!                                        ▼
//!                       Work::Suspend ──▶ driver's lock, scheduler's lock, still so? ──▶ capture ──▶ the run ends
//!                                                                                    └─▶ refused: it goes on
//! ```

use super::{CaptureError, Rejected};
use crate::sched::{Resources, Scheduler};
use crate::shared::Shared;
use monohull_abi::module::NEVER;
use std::time::Duration;

impl Shared {
    /// How long the workflow must only wait to be suspended now; `None` if it is not to be suspended.
    pub(crate) fn wants_suspension(&self) -> Option<Duration> {
        self.options.suspend.filter(|_| !self.suspension.is_refused())
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
                self.suspension.succeed(suspended);
                scheduler.finish();
                self.sched.wake_all();
            }
            // The first timer became due meanwhile: it is served, and then there is another wait.
            Err(CaptureError::Unfit(Rejected::Time)) => {}
            Err(error) => self.suspension.refuse(error.to_string()),
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
