//! When a domain can be captured: nothing runs, and nothing will before a timer is due, or before the domain may go on.
//!
//! ```text
//!   a carrier has nothing to do ── others idle? will anything change? ──▶ deadlock, if not
//!                                        │ the first timer is far
//!                                        ▼
//!                       Work::Suspend ──▶ driver's lock, scheduler's lock, still so? ──▶ capture ──▶ the run ends
//!                                                                                    └─▶ refused: it goes on
//!   it is time to come to rest ──▶ no carrier takes a thread any more; user code comes back after its slice of time
//!                                        │ the last carrier has come back                     │ one has not for 50 ms
//!                                        ▼                                                    ▼
//!                       Work::Halt ──▶ as above                              Work::GiveUpHalt: it goes on
//! ```

use super::{CaptureError, Rejected, Suspended};
use crate::carrier;
use crate::sched::{HALT_LIMIT_NS, Resources, Scheduler};
use crate::shared::{Shared, after};
use monohull_abi::module::NEVER;
use monohull_abi::number;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The first pause before a domain that could not be captured is halted again; each is twice as long, up to the usual time.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// Whether the domain is to be suspended, and what became of it.
pub(crate) struct Suspension {
    state: Mutex<State>,
    /// When it is to come to rest (monotonic ns), or [`NEVER`].
    halts_at: AtomicU64,
}

impl Default for Suspension {
    fn default() -> Suspension {
        Suspension { state: Mutex::default(), halts_at: AtomicU64::new(NEVER) }
    }
}

#[derive(Default)]
struct State {
    suspended: Option<Box<Suspended>>,
    /// Why it could not be suspended. It is not tried again: what is in the way is there to stay, as a rule.
    refused: Option<String>,
    /// Why it could not be captured when it had come to rest, or why it has not come to rest.
    not_halted: Option<String>,
    /// How often in a row.
    refusals: u32,
}

impl Suspension {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("suspension")
    }

    /// Whether the run has ended that way.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().suspended.is_some()
    }

    /// Takes what the run ended with, if it was suspended.
    pub(crate) fn take(&self) -> Option<Box<Suspended>> {
        self.lock().suspended.take()
    }

    /// Why the run was not suspended when it only waited, or was halted.
    pub(crate) fn refused(&self) -> Option<String> {
        let state = self.lock();
        state.refused.clone().or_else(|| state.not_halted.clone())
    }

    /// The run begins; after so long it is to come to rest.
    pub(crate) fn begin(&self, halt: Option<Duration>) {
        self.halts_at.store(halt.map_or(NEVER, after), Ordering::Relaxed);
    }

    /// When the domain is to come to rest.
    pub(crate) fn halts_at(&self) -> u64 {
        self.halts_at.load(Ordering::Relaxed)
    }

    /// It was not captured, for this reason: that is tried again, after `usual` at the latest.
    fn halt_again(&self, why: String, usual: Duration) {
        let mut state = self.lock();
        let pause = FIRST_PAUSE.saturating_mul(1 << state.refusals.min(16)).min(usual);
        state.not_halted = Some(why);
        state.refusals += 1;
        self.halts_at.store(after(pause), Ordering::Relaxed);
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

impl Shared {
    /// The domain has come to rest because it was asked to: captures it, and ends the run. If it cannot be captured the run goes on.
    pub(crate) fn halt(&self) {
        let mut driver = self.driver.lock().expect("driver");
        let mut scheduler = self.lock();
        // Another carrier may have found something to do meanwhile.
        if !scheduler.is_halted() || scheduler.is_done() {
            return;
        }
        match self.capture(&scheduler, driver.as_deref_mut()) {
            Ok(suspended) => {
                self.suspension.lock().suspended = Some(Box::new(suspended));
                scheduler.finish();
            }
            // A timer became due meanwhile: it is served first.
            Err(CaptureError::Unfit(Rejected::Time)) => return,
            Err(error) => {
                scheduler.end_halt();
                self.suspension.halt_again(error.to_string(), self.options.halt.unwrap_or_default());
            }
        }
        drop(scheduler);
        self.sched.wake_all();
    }

    /// A carrier has not come back in time: says what keeps it, and lets the others go on.
    pub(crate) fn give_up_halt(&self) {
        let carriers = self.lock().carriers();
        let instances = self.instances.live();
        let mut busy = (0..carriers).filter_map(|index| {
            let instance = instances.iter().find(|instance| carrier::runs(index, &instance.stop))?;
            Some((instance.described(), carrier::call_under_way(index)))
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
        self.suspension.halt_again(why, self.options.halt.unwrap_or_default());
        self.sched.wake_all();
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
