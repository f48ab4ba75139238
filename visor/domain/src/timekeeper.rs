//! The timekeeper: a thread that serves timers while all carriers run user code.
//!
//! Timers are served by carriers between two threads. A carrier in a long hostcall does nothing else, nor does one whose user
//! code is not interrupted (see [`Options::time_slice`](crate::Options)). The deadline of the
//! instance that a carrier runs, and that of the whole run, are enforced by the carrier's own timer. What remains are the
//! deadlines of instances that wait or are ready: the timekeeper ends those, and calls the driver, which may end others.
//!
//! ```text
//!   timer due ──▶ an idle carrier serves it
//!             └─ 5 ms later none has ──▶ timekeeper: time_up(instance), driver
//! ```
//!
//! It is started when no carrier is idle and an instance that is on none has a deadline; most workflows never have one.
//! It runs no user code. Since it reads user stacks for reports, it has a carrier block of its own, the last one: a signal
//! stack and a context, by which a fault of such a read is survived.

use super::dispatcher::SchedulerGuard;
use super::preemption::allow_preempting_first;
use super::sched::Work;
use super::shared::Shared;
use super::thread_setup::{TIMEKEEPER_BLOCK, survive_faults};
use super::threads::{self, EndProcessOnPanic};

impl Shared {
    /// Starts the timekeeper if it is needed and does not run.
    pub(super) fn ensure_timekeeper(&self, mut scheduler: SchedulerGuard<'_>) {
        if !scheduler.start_timekeeper() {
            return;
        }
        drop(scheduler);
        let Some(shared) = self.weak.upgrade() else { return };
        let body = move || {
            let _end = EndProcessOnPanic;
            match survive_faults(&shared.space, TIMEKEEPER_BLOCK) {
                Ok(_block) => shared.run_timekeeper(),
                Err(error) => shared.timekeeper_failed(&error),
            }
        };
        // What it ends may run on the first carrier.
        if let Err(error) = allow_preempting_first() {
            tracing::warn!("the first carrier has no timer for preemption: {error}");
        }
        match threads::spawn("timekeeper".into(), None, body) {
            Ok(thread) => self.threads.push(thread),
            Err(error) => self.timekeeper_failed(&error),
        }
    }

    fn timekeeper_failed(&self, error: &dyn std::fmt::Display) {
        tracing::error!("deadlines may be kept late, for there is no timekeeper: {error}");
        let mut scheduler = self.lock();
        scheduler.timekeeper_failed();
        self.sched.wake_carrier(&mut scheduler);
    }

    fn run_timekeeper(&self) {
        let mut scheduler = self.lock();
        loop {
            let until = match scheduler.timekeeper_work(self) {
                Work::TimeUp(id) => {
                    drop(scheduler);
                    self.time_up(id);
                    scheduler = self.lock();
                    continue;
                }
                Work::Deliver(event) => {
                    drop(scheduler);
                    self.deliver(event);
                    scheduler = self.lock();
                    continue;
                }
                Work::Idle(until) => until,
                _ => return,
            };
            // Carriers that became idle meanwhile have left to this thread what it was doing.
            self.sched.wake_carrier(&mut scheduler);
            scheduler = self.sched.sleep_timekeeper(self.clock.on_kernel(until), scheduler);
        }
    }
}
