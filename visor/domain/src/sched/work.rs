//! The choice of what a carrier does next.

use super::thread::ThreadIndex;
use super::{Due, Running, Scheduler, Timekeeper, WakeUp};
use crate::event::Event;
use crate::instance::InstanceConfig;
use crate::leaving::Leaving;
use monohull_abi::module::NEVER;
use std::time::Duration;

/// Ready threads go before instances that wait to be started, so that cells are used again while they are warm. Every so
/// many ticks it is the other way round: a thread that polls cannot keep the instance it waits for from starting.
const PENDING_FIRST_EVERY: u32 = 4;
/// What is left to do for instances that have ended comes last, so that it delays nothing else. Every so many ticks it comes before
/// ready threads: those that never wait cannot put it off for ever.
const LEAVING_FIRST_EVERY: u32 = 2;
/// Every so many ticks a working carrier checks for external events, unless an idle one waits for them.
const POLL_EVERY_N_TICKS: u32 = 4;
/// So long after it was asked to, a domain is at rest, or goes on. User code is interrupted after a slice of time at the latest; what takes
/// longer is a hostcall.
pub(crate) const HALT_LIMIT_NS: u64 = 50_000_000;
/// After this many switches in a row a carrier considers more than ready threads: timers, events, instances to start.
const SWITCHES_IN_A_ROW: u32 = 16;

/// What a carrier does next.
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once and never kept")]
pub(crate) enum Work<I, L> {
    /// Check for external events without waiting, and ask again.
    CheckEvents,
    /// End an instance whose time is up.
    TimeUp(u32),
    /// Poll the network stack.
    PollNetwork,
    /// Pass an event to the driver.
    Deliver(Event),
    /// Start an instance in this cell.
    Launch(InstanceConfig, L),
    /// Take a step of this.
    Leave(Leaving),
    /// Run a thread of this instance.
    Run(Running, I),
    /// The workflow only waits, for as long as [`Resources::suspends`] asks for: capture it, and ask again.
    Suspend,
    /// The domain was asked to come to rest, and has: capture it, and ask again.
    Halt,
    /// It was asked to, and a carrier does not come back. It goes on.
    GiveUpHalt,
    /// There is an answer to a capture: take it, and ask again.
    TakeAnswer,
    /// A domain that stands still is to go on: do that, and ask again.
    GoOn,
    /// Events have come from outside: give them, and ask again.
    TakeArrivals,
    /// Nothing can change by itself. The caller resolves it under the same hold of the lock, and asks again.
    Deadlock,
    /// The workflow only waits, and at this time the first wait ends: move the clock there, and ask again.
    SkipTo(u64),
    /// Wait for a wake-up, at most until then (monotonic ns); [`NEVER`] for no limit. The carrier counts as idle until
    /// [`Scheduler::carrier_wakes`].
    Idle(u64),
    /// The run is over.
    Stop,
}

/// What the choice depends on outside the scheduler.
pub(crate) trait Resources {
    /// A cell that has been taken for an instance.
    type Lease;

    /// Monotonic time in ns.
    fn now(&self) -> u64;
    /// The time-stamp counter.
    fn ticks(&self) -> u64;
    /// Takes a cell for an instance; `None` if there is none.
    fn lease(&self, config: &InstanceConfig) -> Option<Self::Lease>;
    /// Whether [`Self::lease`] would find one.
    fn has_lease(&self, config: &InstanceConfig) -> bool;
    /// How long a workflow must only wait to be suspended; `None` if it is not to be.
    fn suspends(&self) -> Option<Duration>;
    /// It is not suspended before that (monotonic ns).
    fn suspends_from(&self) -> u64 {
        0
    }
    /// Whether the clock is moved when the workflow only waits for a time.
    fn skips_time(&self) -> bool {
        false
    }
    /// When the domain is to come to rest (monotonic ns); [`NEVER`] if it is not.
    fn halts_at(&self) -> u64;
    /// Whether there is an answer to a capture with which the run went on.
    fn has_answer(&self) -> bool;
    /// Whether a domain that stands still is to go on.
    fn has_order(&self) -> bool {
        false
    }
    /// Whether events may come from outside while the workflow runs.
    fn receives_events(&self) -> bool {
        false
    }
    /// Whether some have come that were not given yet.
    fn has_arrivals(&self) -> bool {
        false
    }
    /// Whether there is something that external events come from.
    fn has_poller(&self) -> bool;
}

impl<I: Clone> Scheduler<I> {
    /// What `carrier` does next. `checked`: it has just done [`Work::CheckEvents`].
    pub(crate) fn next_work<R: Resources>(
        &mut self,
        carrier: usize,
        checked: bool,
        resources: &R,
    ) -> Work<I, R::Lease> {
        if !checked {
            self.tick = self.tick.wrapping_add(1);
            if self.tick.is_multiple_of(POLL_EVERY_N_TICKS) && !self.carriers.is_polling() && resources.has_poller() {
                // All carriers work; threads that wait for something external must not wait for that to end.
                return Work::CheckEvents;
            }
        }
        // Only now: the check may have found that the run is over.
        if self.done {
            return Work::Stop;
        }
        if self.stands_still {
            if resources.has_order() {
                return Work::GoOn;
            }
            self.carriers.sleep(carrier, NEVER);
            return Work::Idle(NEVER);
        }
        if resources.has_answer() {
            return Work::TakeAnswer;
        }
        if resources.has_arrivals() {
            return Work::TakeArrivals;
        }
        if let Some(id) = self.serve_timers(resources) {
            return Work::TimeUp(id);
        }
        if self.net.take_due() {
            return Work::PollNetwork;
        }
        if let Some(event) = self.events.pop_front() {
            return Work::Deliver(event);
        }
        if self.halts(resources) {
            return match self.take_leaving() {
                Some(leaving) => Work::Leave(leaving),
                None => self.come_to_rest(carrier, resources.now()),
            };
        }
        if self.tick.is_multiple_of(PENDING_FIRST_EVERY)
            && let Some(work) = self.launch(resources)
        {
            return work;
        }
        if self.tick.is_multiple_of(LEAVING_FIRST_EVERY)
            && let Some(leaving) = self.take_leaving()
        {
            return Work::Leave(leaving);
        }
        if let Some(thread) = self.next(carrier) {
            let (running, instance) = self.take_with_instance(thread, resources.ticks());
            return Work::Run(running, instance);
        }
        if let Some(work) = self.launch(resources) {
            return work;
        }
        if let Some(leaving) = self.take_leaving() {
            return Work::Leave(leaving);
        }
        if self.carriers.others_idle() {
            // What was in the way of a capture is as it was until something has happened.
            let suspends = resources.suspends().filter(|_| !self.refused);
            // Events arrive while the workflow is suspended, or is not and has an inbox.
            let may_receive = suspends.is_some() || resources.receives_events();
            let may_change = self.will_change() || may_receive && self.waits_for_event();
            if !may_change {
                return Work::Deadlock;
            }
            // A clock is moved no further than it goes.
            if resources.skips_time()
                && let Some(at) = self.waits_until(resources.now()).filter(|at| i64::try_from(*at).is_ok())
            {
                return Work::SkipTo(at);
            }
            if let Some(from) = suspends.and_then(|least| self.suspends_at(least, resources.now())) {
                let from = resources.suspends_from().max(from);
                if from <= resources.now() {
                    return Work::Suspend;
                }
                let until = self.next_timer().min(from);
                self.carriers.sleep(carrier, until);
                return Work::Idle(until);
            }
        }
        Work::Idle(self.carrier_sleeps(carrier))
    }

    /// Whether no thread is to run, because the domain was asked to come to rest.
    fn halts<R: Resources>(&mut self, resources: &R) -> bool {
        if self.halting.is_none() {
            let at = resources.halts_at();
            let now = (at != NEVER).then(|| resources.now()).filter(|now| *now >= at);
            self.halting = now.map(|now| now.saturating_add(HALT_LIMIT_NS));
        }
        self.halting.is_some()
    }

    /// What a carrier does that has nothing to do but to be at rest.
    fn come_to_rest<L>(&mut self, carrier: usize, now: u64) -> Work<I, L> {
        if self.is_halted() {
            return Work::Halt;
        }
        let latest = self.halting.unwrap_or(NEVER);
        if now >= latest {
            self.end_halt();
            return Work::GiveUpHalt;
        }
        // A halt that has more time is looked at again as often.
        let until = self.next_timer().min(latest).min(now.saturating_add(HALT_LIMIT_NS));
        self.carriers.sleep(carrier, until);
        Work::Idle(until)
    }

    /// The instance that has waited longest to be started, if there is a cell for it. Both are taken under one hold of the
    /// lock, so that of several carriers none serves a later one first.
    pub(crate) fn launch<R: Resources>(&mut self, resources: &R) -> Option<Work<I, R::Lease>> {
        let lease = resources.lease(self.pending.front()?)?;
        self.pending.pop_front().map(|config| Work::Launch(config, lease))
    }

    /// After `switches` threads in a row, the last of instance `current`: the next one to switch to at once, unless
    /// something else is more urgent, and its instance if that is another one.
    pub(crate) fn switch<R: Resources>(
        &mut self,
        carrier: usize,
        current: Option<u32>,
        switches: u32,
        resources: &R,
    ) -> Option<(Running, Option<I>)> {
        if self.done || self.halting.is_some() || !self.events.is_empty() || switches.is_multiple_of(SWITCHES_IN_A_ROW)
        {
            return None;
        }
        let thread = self.next(carrier)?;
        if current == Some(self.threads[thread].instance) {
            return Some((self.mark_running(thread, resources.ticks()), None));
        }
        let (running, instance) = self.take_with_instance(thread, resources.ticks());
        Some((running, Some(instance)))
    }

    fn take_with_instance(&mut self, thread: ThreadIndex, now: u64) -> (Running, I) {
        let instance = self.instances.get(self.threads[thread].instance).expect("a ready thread's instance is alive");
        let instance = instance.instance.clone();
        (self.mark_running(thread, now), instance)
    }

    /// What the timekeeper does next: one of `TimeUp`, `Deliver`, `Idle`, `Stop`.
    pub(crate) fn timekeeper_work<R: Resources>(&mut self, resources: &R) -> Work<I, R::Lease> {
        if self.done {
            self.timekeeper = Timekeeper::Absent;
            return Work::Stop;
        }
        if self.stands_still {
            self.timekeeper = Timekeeper::Asleep(NEVER);
            return Work::Idle(NEVER);
        }
        self.timekeeper = Timekeeper::Busy;
        if self.timekeeper_wakes_at() <= resources.now()
            && let Some(id) = self.serve_timers(resources)
        {
            return Work::TimeUp(id);
        }
        if !self.carriers.any_idle()
            && let Some(event) = self.events.pop_front()
        {
            return Work::Deliver(event);
        }
        let until = self.timekeeper_wakes_at();
        self.timekeeper = Timekeeper::Asleep(until);
        Work::Idle(until)
    }

    /// Serves all timers that are due; the instance whose time is up, if one is.
    fn serve_timers<R: Resources>(&mut self, resources: &R) -> Option<u32> {
        if self.next_timer() == NEVER {
            return None;
        }
        let now = resources.now();
        while let Some(due) = self.fire(now) {
            if let Due::Instance(id) = due {
                return Some(id);
            }
        }
        None
    }
}

impl<I> Scheduler<I> {
    /// A carrier goes to work. Whether an idle one must be woken because the next timer would be served late.
    pub(crate) fn hand_over_timers(&mut self) -> WakeUp {
        let late = self.carriers.any_idle() && self.next_timer() < self.carriers.wakes_at();
        if late { self.carriers.wake_one() } else { WakeUp::Nothing }
    }

    /// Whether there is work besides what a carrier has just taken.
    pub(crate) fn has_more(&self, resources: &impl Resources) -> bool {
        self.has_queued()
            || self.run_queue.has_any(self.carriers.started())
            || self.pending.front().is_some_and(|config| resources.has_lease(config))
    }

    /// Whether something is queued that any carrier may take.
    pub(crate) fn has_queued(&self) -> bool {
        self.run_queue.has_queued() || !self.events.is_empty() || !self.leaving.is_empty()
    }

    /// The index of a carrier to start, if one more is of use and there are fewer than `most`.
    pub(crate) fn start_carrier(&mut self, most: usize) -> Option<usize> {
        if self.done { None } else { self.carriers.start_one(most) }
    }

    /// Whether the domain was asked to come to rest and has: no thread is on a carrier, no other carrier does anything, and there is
    /// nothing left to do that has begun.
    pub(crate) fn is_halted(&self) -> bool {
        let works = self.timekeeper == Timekeeper::Busy || !self.carriers.others_idle();
        let begun = !self.leaving.is_empty() || !self.events.is_empty();
        self.halting.is_some() && self.is_at_rest() && !works && !begun
    }

    /// The domain cannot be captured as it is now.
    pub(crate) fn refuse(&mut self) {
        self.refused = true;
    }

    /// A thread runs, or a timer has fired.
    pub(super) fn something_happened(&mut self) {
        (self.refused, self.rests_since) = (false, None);
    }

    /// When a domain that waits for so long at least is captured, or is found to be in no state for that.
    fn suspends_at(&mut self, least: Duration, now: u64) -> Option<u64> {
        if self.only_waits(least, now) {
            return Some(0);
        }
        let least = u64::try_from(least.as_nanos()).unwrap_or(NEVER);
        self.waits_outside().then(|| self.rests_since.get_or_insert(now).saturating_add(least))
    }

    /// Whether it has been found that it cannot be captured, and nothing has happened since.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Nothing happens any more, not even at its time.
    pub(crate) fn stand_still(&mut self) {
        self.stands_still = true;
    }

    /// Everything goes on. The time meanwhile is none in which threads have waited.
    pub(crate) fn go_on_here(&mut self) {
        self.stands_still = false;
        for instance in self.instances.iter() {
            for thread in &instance.threads {
                self.threads[*thread].left_at = 0;
            }
        }
    }

    /// Everything goes on as if it had not stood still.
    pub(crate) fn go_on_as_it_was(&mut self) {
        self.stands_still = false;
    }

    /// No thread is put on a carrier any more, until all are back. At `latest` it is given up.
    pub(crate) fn begin_halt(&mut self, latest: u64) {
        self.halting = Some(latest);
    }

    /// Threads run again.
    pub(crate) fn end_halt(&mut self) {
        self.halting = None;
    }

    /// A carrier has nothing to do. When it must wake by itself; [`NEVER`] if it need not.
    pub(super) fn carrier_sleeps(&mut self, carrier: usize) -> u64 {
        let until = self.next_timer();
        self.carriers.sleep(carrier, until);
        until
    }

    /// It has woken.
    pub(crate) fn carrier_wakes(&mut self, carrier: usize) {
        self.carriers.wake(carrier);
    }

    /// The next ready thread for a carrier.
    pub(super) fn next(&mut self, carrier: usize) -> Option<ThreadIndex> {
        let threads = &self.threads;
        self.run_queue.take(carrier, self.carriers.started(), |thread| threads[thread].state == super::State::Ready)
    }
}
