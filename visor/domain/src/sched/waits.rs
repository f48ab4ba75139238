//! What threads wait for, and what ends their waits: wake-ups, timers, a deadlock.

use super::instances::{InstanceThreads, Instances};
use super::thread::{Resumption, State, Thread, ThreadIndex, Threads};
use super::timers::TimerKind;
use super::waiting::Waiting;
use super::{Armed, Due, Scheduler, TIMEKEEPER_GRACE_NS, Timekeeper, Woken, wait_key};
use crate::event::Event;
use monohull_abi::module::{NEVER, Wake};
use monohull_abi::number;

/// Waits and what ends them.
impl<I> Scheduler<I> {
    /// Registers what a running thread is about to wait for.
    pub(crate) fn wait(&mut self, thread: ThreadIndex, key: u64, deadline: u64) -> Armed {
        let entry = &mut self.threads[thread];
        debug_assert_eq!(entry.state, State::Running, "a thread waits for one thing at a time");
        entry.state = State::Parking;
        entry.wait = entry.wait.wrapping_add(1);
        entry.timed = deadline != NEVER;
        let timer = TimerKind::Thread(entry.number, entry.wait);
        self.waiting.link(&mut self.threads, thread, key);
        if deadline == NEVER {
            return Armed::IN_TIME;
        }
        self.expected += 1;
        self.set_timer(deadline, timer)
    }

    /// The same for an external event, which may happen at any time.
    pub(crate) fn wait_external(&mut self, thread: ThreadIndex, key: u64, deadline: u64) -> Armed {
        let armed = self.wait(thread, key, deadline);
        self.threads[thread].external = true;
        self.expected += 1;
        self.external_waits += 1;
        armed
    }

    /// Wakes up to `most` threads that wait for `key`. With `complete` their call is done with that value; otherwise
    /// their handlers run again. The first one is handed to `carrier`, if that is one.
    pub(crate) fn wake(&mut self, key: u64, most: u64, complete: Option<i64>, carrier: usize) -> Woken {
        let mut woken = 0;
        let mut next = if most > 0 { self.waiting.first(&self.threads, key) } else { None };
        let how = complete.map_or(Resumption::Handler(Wake::Woken), Resumption::Value);
        while let Some(thread) = next {
            woken += 1;
            next = if woken < most { Waiting::after(&self.threads, thread) } else { None };
            self.resume(thread, how, Some(carrier));
        }
        Woken(woken)
    }

    /// All threads wait and nothing will change by itself. Wakes those that can report it: first all that wait for a
    /// libos module (a slot that no step fills), then, if there are none, one thread of each instance. False if no thread
    /// waits at all.
    pub(crate) fn break_deadlock(&mut self) -> bool {
        let mut in_modules = Vec::new();
        let mut others = Vec::new();
        for instance in self.instances.iter() {
            let parked = || instance.threads.iter().copied().filter(|t| self.threads[*t].state == State::Parked);
            in_modules.extend(parked().filter(|t| !wait_key::is_core(self.threads[*t].key)));
            others.extend(parked().take(1));
        }
        let victims = if in_modules.is_empty() { others } else { in_modules };
        for thread in &victims {
            self.resume(*thread, Resumption::Handler(Wake::Deadlock), None);
        }
        !victims.is_empty()
    }

    /// An instance that has parked threads.
    pub(crate) fn a_waiting_instance(&self) -> Option<u32> {
        let waits = |instance: &&InstanceThreads<I>| {
            instance.threads.iter().any(|thread| self.threads[*thread].state == State::Parked)
        };
        self.instances.iter().find(waits).map(InstanceThreads::id)
    }

    /// Whether something may change by itself: by a timer of a thread or the driver, by an external event, or by the
    /// timekeeper.
    pub(crate) fn will_change(&self) -> bool {
        self.expected > 0 || self.timekeeper == Timekeeper::Busy
    }

    /// Whether a thread waits for an event from outside.
    pub(crate) fn waits_for_event(&self) -> bool {
        let threads = self.instances.iter().flat_map(|instance| &instance.threads).map(|thread| &self.threads[*thread]);
        let waits = |thread: &Thread| {
            let call = thread.frame.as_deref().map(|frame| frame.number);
            thread.state == State::Parked && call == Some(number::EVENT_WAIT.into())
        };
        threads.into_iter().any(waits)
    }

    /// Whether nothing happens but for what threads wait for from outside.
    pub(crate) fn waits_outside(&self) -> bool {
        let works = self.timekeeper == Timekeeper::Busy || !self.carriers.others_idle() || !self.leaving.is_empty();
        self.external_waits > 0 && self.is_at_rest() && !works && self.events.is_empty()
    }

    /// Whether something besides timers and threads may change the domain: sockets, a device, events, instances that are being
    /// released, other carriers at work, the timekeeper.
    pub(crate) fn is_disturbed(&self) -> bool {
        let works = self.timekeeper == Timekeeper::Busy || !self.carriers.others_idle() || !self.leaving.is_empty();
        works || self.external_waits > 0 || !self.events.is_empty() || self.net.next() != NEVER
    }

    pub(super) fn resume(&mut self, thread: ThreadIndex, how: Resumption, carrier: Option<usize>) {
        self.waiting.unlink(&mut self.threads, thread);
        self.forget_timer(thread);
        self.forget_external(thread);
        let entry = &mut self.threads[thread];
        entry.resumption = how;
        if entry.state == State::Parking {
            entry.state = State::WokenBeforePark;
            return;
        }
        entry.state = State::Ready;
        self.run_queue.hand_off(thread, carrier);
    }

    /// The thread does not wait for an external event any more.
    pub(super) fn forget_external(&mut self, thread: ThreadIndex) {
        let waited = usize::from(std::mem::replace(&mut self.threads[thread].external, false));
        self.expected -= waited;
        self.external_waits -= waited;
    }

    pub(super) fn waits(&self, thread: ThreadIndex, wait: u32) -> bool {
        let entry = &self.threads[thread];
        entry.wait == wait && matches!(entry.state, State::Parking | State::Parked)
    }
}

/// Timers.
impl<I> Scheduler<I> {
    /// Sets a timer.
    pub(crate) fn set_timer(&mut self, at: u64, what: TimerKind) -> Armed {
        self.expected += usize::from(matches!(what, TimerKind::Driver(_)));
        self.timers.set(at, what);
        self.armed(at)
    }

    pub(super) fn armed(&self, at: u64) -> Armed {
        let timekeeper_late =
            matches!(self.timekeeper, Timekeeper::Asleep(until) if at.saturating_add(2 * TIMEKEEPER_GRACE_NS) < until);
        Armed { carriers_late: self.carriers.any_idle() && at < self.carriers.wakes_at(), timekeeper_late }
    }

    /// The run's time is not limited any more.
    pub(crate) fn drop_run_timers(&mut self) {
        self.timers.remove(TimerKind::Run);
    }

    /// When the next timer is due; [`NEVER`] if there is none.
    pub(super) fn next_timer(&self) -> u64 {
        self.timers.next().min(self.net.next())
    }

    /// Serves one timer that is due at `now`.
    pub(super) fn fire(&mut self, now: u64) -> Option<Due> {
        self.net.fire(now);
        let due = self.timers.take_due(now)?;
        if self.is_live(due) {
            self.something_happened();
        }
        match due {
            TimerKind::Instance(id) if self.instances.get(id).is_some() => return Some(Due::Instance(id)),
            TimerKind::Instance(_) => self.timers.was_stale(),
            TimerKind::Run => self.events.push_back(Event::Deadline),
            TimerKind::Driver(token) => {
                self.expected -= 1;
                self.events.push_back(Event::Timer { token });
            }
            TimerKind::Thread(number, wait) => match self.threads.find(number) {
                Some(thread) if self.waits(thread, wait) => {
                    self.threads[thread].timed = false;
                    self.expected -= 1;
                    self.resume(thread, Resumption::Handler(Wake::TimedOut), None);
                }
                _ => self.timers.was_stale(),
            },
        }
        Some(Due::Served)
    }

    /// Whether the timekeeper has to be started: no carrier is idle, and an instance that is on none has a deadline. It
    /// counts as started then.
    pub(crate) fn start_timekeeper(&mut self) -> bool {
        let needed = self.needs_timekeeper();
        if needed {
            self.timekeeper = Timekeeper::Busy;
        }
        needed
    }

    /// The timekeeper could not be started.
    pub(crate) fn timekeeper_failed(&mut self) {
        self.timekeeper = Timekeeper::Unavailable;
    }

    pub(super) fn needs_timekeeper(&self) -> bool {
        self.instances.unattended() > 0
            && !self.carriers.any_idle()
            && self.timekeeper == Timekeeper::Absent
            && !self.done
    }

    /// When the timekeeper is to wake: [`NEVER`] if there is no timer.
    pub(super) fn timekeeper_wakes_at(&self) -> u64 {
        self.next_timer().saturating_add(TIMEKEEPER_GRACE_NS)
    }

    /// The thread's timed wait is over; its timer stays in the heap until it is due or they are swept.
    pub(super) fn forget_timer(&mut self, thread: ThreadIndex) {
        if std::mem::replace(&mut self.threads[thread].timed, false) {
            self.expected -= 1;
            self.timer_is_stale();
        }
    }

    pub(super) fn timer_is_stale(&mut self) {
        let (threads, instances) = (&self.threads, &self.instances);
        self.timers.now_stale(|what| is_live(threads, instances, what));
    }

    /// Whether a timer is still wanted.
    pub(super) fn is_live(&self, what: TimerKind) -> bool {
        is_live(&self.threads, &self.instances, what)
    }
}

fn is_live<I>(threads: &Threads, instances: &Instances<I>, what: TimerKind) -> bool {
    match what {
        TimerKind::Thread(number, wait) => threads.find(number).is_some_and(|thread| {
            let entry = &threads[thread];
            entry.timed && entry.wait == wait && matches!(entry.state, State::Parking | State::Parked)
        }),
        TimerKind::Instance(id) => instances.get(id).is_some(),
        TimerKind::Driver(_) | TimerKind::Run => true,
    }
}
