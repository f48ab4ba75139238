//! Who runs next: the ready queue, the waits, the timers. Plain data under one lock: no system call, no unsafe code, and
//! no memory but its own.
//!
//! ```text
//!             wait(key, deadline)                     wake(key) / deadline
//!   Running ────────────▶ Parking ──handler returns──▶ Parked ───────────▶ Ready ──▶ Running
//!                            │ wake                                          ▲
//!                            └─▶ WokenBeforePark ── handler returns ── runs again at once
//! ```
//!
//! A thread registers its wait while its handler still holds the lock of what it waits for, so a wake-up cannot fall
//! between the two. A woken thread goes to its waker's *handoff* place: when the waker parks or ends, its carrier goes on
//! with the woken thread without touching the queue.
//!
//! A change that carriers asleep must know of is returned as a value that cannot be ignored ([`Woken`], [`Armed`]); only
//! `Shared::notify` and `Shared::announce` take them.
#![forbid(unsafe_code)]

mod instances;
#[cfg(test)]
mod tests;
mod thread;
mod timers;
mod waiting;

pub(super) use thread::{THREADS_MAX, ThreadIndex};
pub(super) use timers::TimerKind;

use super::Event;
use super::instance::Spec;
use instances::{InstanceThreads, Instances};
use monohull_abi::layout::CARRIER_MAX;
use monohull_abi::module::{Call, NEVER, Wake};
use monohull_report::failure::Failure;
use std::collections::VecDeque;
use thread::{Resumption, State, Threads};
use timers::Timers;
use waiting::Waiting;

/// After this many handoffs in a row the ready queue gets its turn.
const HANDOFFS_IN_A_ROW: u32 = 64;
/// So many threads of an instance that ends are taken off the table under one hold of the lock.
const RETIRED_AT_ONCE: usize = if cfg!(miri) { 16 } else { 4096 };
/// How long after a timer was due the timekeeper looks whether a carrier has served it. Carriers that have time do so at
/// once; then the timekeeper need not run for each timer.
const TIMEKEEPER_GRACE_NS: u64 = 5_000_000;

/// Everything that changes under the scheduler's lock. `I` is what the domain knows of an instance.
pub(super) struct Scheduler<I> {
    threads: Threads,
    instances: Instances<I>,
    /// Live instances whose deadline no carrier's timer watches over.
    unattended: usize,
    /// What the driver has not heard yet.
    pub(super) events: VecDeque<Event>,
    /// Instances waiting to be started.
    pub(super) jobs: VecDeque<Spec>,
    /// Carriers that have been started, and how many of them have nothing to do.
    pub(super) carriers: usize,
    /// See `carriers`.
    pub(super) idle: usize,
    /// When each idle carrier looks at the timers by itself (monotonic ns); [`NEVER`] for busy ones.
    looks_at: [u64; CARRIER_MAX],
    /// Carriers that could not be set up.
    pub(super) lost: usize,
    /// A carrier has been called and has not looked yet.
    pub(super) called: bool,
    /// The thread that serves timers while all carriers run user code.
    pub(super) timekeeper: Timekeeper,
    /// When the network is to be polled, at the latest (monotonic ns).
    pub(super) alarm: u64,
    /// The network is to be polled now.
    pub(super) frames: bool,
    /// When frames are looked for although no event announces them (monotonic ns).
    pub(super) look_for_frames: u64,
    /// Frames that arrive raise an event.
    pub(super) device_armed: bool,
    /// Threads that wait for something outside.
    pub(super) waits_outside: usize,
    /// One of the idle carriers listens to what happens outside.
    pub(super) listening: bool,
    /// The run is over.
    pub(super) done: bool,
    /// Counts the looks for work, so that no kind of it is starved by another.
    pub(super) looks: u32,
    ready: VecDeque<ThreadIndex>,
    handoff: [Option<ThreadIndex>; CARRIER_MAX],
    handoffs: [u32; CARRIER_MAX],
    waiting: Waiting,
    timers: Timers,
    /// Threads that wait with a deadline or for something outside, and driver's timers: what may change by itself.
    pending: usize,
}

/// What the scheduler knows of the timekeeper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timekeeper {
    /// There is none; it is started when it is first needed.
    Absent,
    /// It sleeps until then (monotonic ns).
    Asleep(u64),
    /// It serves what is due.
    Busy,
    /// It could not be started.
    Unavailable,
}

/// A thread on a carrier: what it goes on with.
pub(super) struct Running {
    /// Which thread.
    pub(super) thread: ThreadIndex,
    /// Its frame, the carrier's own until it parks or ends.
    pub(super) frame: Box<Call>,
    /// Its call is done, and the frame holds what it returns; else the call's handler is to run again.
    pub(super) completed: bool,
}

/// What a due timer asks for.
pub(super) enum Due {
    /// An instance's time is up.
    Instance(u32),
    /// Nothing more; threads and driver have been served.
    Served,
}

/// So many threads have been woken: idle carriers must know, unless the waker's own goes on with them.
#[must_use]
pub(super) struct Woken(pub(super) u64);

impl Woken {
    /// The waker's own carrier looks for work next: it takes the first, and calls others if there are more.
    pub(super) fn goes_on_here(self) {}
}

/// A timer has been set: who sleeps longer than that must be woken.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Armed {
    /// No idle carrier looks in time.
    pub(super) carriers_late: bool,
    /// The timekeeper does not look in time.
    pub(super) timekeeper_late: bool,
}

impl Armed {
    const IN_TIME: Armed = Armed { carriers_late: false, timekeeper_late: false };
}

impl<I> Scheduler<I> {
    /// Nothing to do yet.
    pub(super) fn new() -> Scheduler<I> {
        Scheduler {
            threads: Threads::default(),
            instances: Instances::new(),
            unattended: 0,
            events: VecDeque::new(),
            jobs: VecDeque::new(),
            carriers: 0,
            idle: 0,
            looks_at: [NEVER; CARRIER_MAX],
            lost: 0,
            called: false,
            timekeeper: Timekeeper::Absent,
            alarm: NEVER,
            frames: false,
            look_for_frames: NEVER,
            device_armed: true,
            waits_outside: 0,
            listening: false,
            done: false,
            looks: 0,
            ready: VecDeque::new(),
            handoff: [None; CARRIER_MAX],
            handoffs: [0; CARRIER_MAX],
            waiting: Waiting::new(),
            timers: Timers::default(),
            pending: 0,
        }
    }
}

/// Instances.
impl<I> Scheduler<I> {
    /// A new instance, without threads yet.
    pub(super) fn insert(&mut self, id: u32, instance: I, deadline: u64) -> Armed {
        self.instances.insert(id, instance, deadline);
        if deadline == NEVER {
            return Armed::IN_TIME;
        }
        self.unattended += 1;
        self.set_timer(deadline, TimerKind::Instance(id))
    }

    /// A live instance.
    pub(super) fn instance(&self, id: u32) -> Option<&InstanceThreads<I>> {
        self.instances.get(id)
    }

    /// The same, to change it.
    pub(super) fn instance_mut(&mut self, id: u32) -> Option<&mut InstanceThreads<I>> {
        self.instances.get_mut(id)
    }

    /// How many threads an instance has.
    pub(super) fn threads_of(&self, id: u32) -> usize {
        self.instances.get(id).map_or(0, |instance| instance.threads.len())
    }

    /// How many of an instance's threads are on carriers.
    pub(super) fn running_of(&self, id: u32) -> u32 {
        self.instances.get(id).map_or(0, |instance| instance.running)
    }

    /// The call in which the main thread of an instance waits, if it is off the carriers.
    pub(super) fn main_call(&self, id: u32) -> Option<&Call> {
        let threads = &self.instances.get(id)?.threads;
        let main = threads.iter().find(|thread| self.threads[**thread].stack.is_none())?;
        self.threads[*main].frame.as_deref()
    }

    /// Marks an instance as ended. False if it has ended already.
    pub(super) fn end(&mut self, id: u32, ending: Result<(), Box<Failure>>) -> bool {
        let Some(instance) = self.instances.get_mut(id).filter(|instance| instance.ending.is_none()) else {
            return false;
        };
        instance.ending = Some(ending);
        true
    }

    /// Takes some of an instance's threads that are on no carrier off the table. False if none is left.
    pub(super) fn retire_some(&mut self, id: u32) -> bool {
        let Some(instance) = self.instances.get(id) else { return false };
        let off_carriers = |thread: &&ThreadIndex| matches!(self.threads[**thread].state, State::Ready | State::Parked);
        let some: Vec<_> = instance.threads.iter().rev().filter(off_carriers).take(RETIRED_AT_ONCE).copied().collect();
        for thread in &some {
            self.retire(*thread);
        }
        some.len() == RETIRED_AT_ONCE
    }

    /// Whether an instance has ended and has no threads any more.
    pub(super) fn is_over(&self, id: u32) -> bool {
        self.instances.get(id).is_some_and(|instance| instance.ending.is_some() && instance.threads.is_empty())
    }

    /// Forgets an instance that has no threads any more.
    pub(super) fn remove(&mut self, id: u32) -> Option<Box<InstanceThreads<I>>> {
        let instance = self.instances.remove(id)?;
        self.unattended -= usize::from(instance.is_unattended());
        if instance.deadline != NEVER {
            self.timer_is_stale();
        }
        Some(instance)
    }

    /// Counts an instance's thread onto or off the carriers.
    fn count_running(&mut self, id: u32, change: i32) {
        let Some(instance) = self.instances.get_mut(id) else { return };
        let before = instance.is_unattended();
        instance.running = instance.running.wrapping_add_signed(change);
        match (before, instance.is_unattended()) {
            (true, false) => self.unattended -= 1,
            (false, true) => self.unattended += 1,
            _ => {}
        }
    }
}

/// Threads: from their start to their end.
impl<I> Scheduler<I> {
    /// A new thread of an instance, to go on at `user_rsp` with `value`; it is in no queue yet. `None` if the instance is
    /// being ended, because its memory is about to go, or if there are too many threads.
    pub(super) fn spawn(&mut self, id: u32, stack: Option<u32>, user_rsp: u64, value: i64) -> Option<ThreadIndex> {
        let instance = self.instances.get_mut(id).filter(|instance| instance.ending.is_none())?;
        let thread = self.threads.take()?;
        let entry = &mut self.threads[thread];
        entry.begin(id, stack, user_rsp, value);
        entry.position = instance.threads.len() as u32;
        instance.threads.push(thread);
        Some(thread)
    }

    /// The number by which its instance knows a thread.
    pub(super) fn number(&self, thread: ThreadIndex) -> u32 {
        self.threads[thread].number
    }

    /// The thread with this number, if it is alive and of this instance.
    pub(super) fn find(&self, number: u32, instance: u32) -> Option<ThreadIndex> {
        self.threads.find(number).filter(|thread| self.threads[*thread].instance == instance)
    }

    /// The stack slot of a thread; `None` for a main thread.
    pub(super) fn stack(&self, thread: ThreadIndex) -> Option<u32> {
        self.threads[thread].stack
    }

    /// Queues a ready thread.
    pub(super) fn enqueue(&mut self, thread: ThreadIndex) {
        self.ready.push_back(thread);
    }

    /// Puts a ready thread on a carrier.
    pub(super) fn take(&mut self, thread: ThreadIndex, now: u64) -> Running {
        let entry = &mut self.threads[thread];
        entry.state = State::Running;
        if entry.left_at != 0 {
            entry.park += now.saturating_sub(entry.left_at);
        }
        entry.taken_at = now;
        let id = entry.instance;
        let frame = entry.frame.take().expect("a thread off the carriers has its frame");
        self.count_running(id, 1);
        self.resumed(thread, frame)
    }

    /// The handler has asked to park. Gives the frame back if the thread was woken meanwhile and must go on.
    pub(super) fn park(&mut self, thread: ThreadIndex, frame: Box<Call>, now: u64) -> Result<(), Running> {
        if self.threads[thread].state == State::WokenBeforePark {
            self.threads[thread].state = State::Running;
            return Err(self.resumed(thread, frame));
        }
        self.put_back(thread, frame, State::Parked, now);
        Ok(())
    }

    /// The thread lets others go first; its call is done and returns `value`.
    pub(super) fn requeue(&mut self, thread: ThreadIndex, frame: Box<Call>, value: i64, now: u64) {
        self.threads[thread].resumption = Resumption::Value(value);
        self.put_back(thread, frame, State::Ready, now);
        self.enqueue(thread);
    }

    /// A thread on a carrier has ended.
    pub(super) fn end_running(&mut self, thread: ThreadIndex, frame: Box<Call>, now: u64) {
        self.put_back(thread, frame, State::Ready, now);
        self.retire(thread);
    }

    fn put_back(&mut self, thread: ThreadIndex, frame: Box<Call>, state: State, now: u64) {
        let entry = &mut self.threads[thread];
        entry.state = state;
        entry.frame = Some(frame);
        entry.run += now.saturating_sub(entry.taken_at);
        entry.left_at = now;
        let id = entry.instance;
        self.count_running(id, -1);
    }

    /// What a thread goes on with, after how its last wait ended.
    fn resumed(&self, thread: ThreadIndex, mut frame: Box<Call>) -> Running {
        let completed = match self.threads[thread].resumption {
            Resumption::Value(value) => {
                frame.value = value;
                true
            }
            Resumption::Handler(wake) => {
                frame.wake = wake;
                false
            }
        };
        Running { thread, frame, completed }
    }

    /// Takes a thread off the table that is on no carrier.
    fn retire(&mut self, thread: ThreadIndex) {
        self.waiting.unlink(&mut self.threads, thread);
        self.forget_timer(thread);
        self.forget_outside(thread);
        let entry = &self.threads[thread];
        let (id, position, is_main) = (entry.instance, entry.position as usize, entry.stack.is_none());
        let (run, park) = (entry.run, entry.park);
        if let Some(instance) = self.instances.get_mut(id) {
            instance.run += run;
            if is_main {
                instance.park = park;
            }
            instance.threads.swap_remove(position);
            if let Some(moved) = instance.threads.get(position) {
                self.threads[*moved].position = position as u32;
            }
        }
        self.threads.give(thread);
    }
}

/// Waits and what ends them.
impl<I> Scheduler<I> {
    /// Registers what a running thread is about to wait for.
    pub(super) fn wait(&mut self, thread: ThreadIndex, key: u64, deadline: u64) -> Armed {
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
        self.pending += 1;
        self.set_timer(deadline, timer)
    }

    /// The same for something outside the domain, which may happen at any time.
    pub(super) fn wait_outside(&mut self, thread: ThreadIndex, key: u64, deadline: u64) -> Armed {
        let armed = self.wait(thread, key, deadline);
        self.threads[thread].outside = true;
        self.pending += 1;
        self.waits_outside += 1;
        armed
    }

    /// Wakes up to `most` threads that wait for `key`. With `complete` their call is done with that value; otherwise
    /// their handlers run again. The first one is handed to `carrier`, if that is one.
    pub(super) fn wake(&mut self, key: u64, most: u64, complete: Option<i64>, carrier: usize) -> Woken {
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
    pub(super) fn break_deadlock(&mut self) -> bool {
        let mut in_modules = Vec::new();
        let mut others = Vec::new();
        for instance in self.instances.iter() {
            let parked = || instance.threads.iter().copied().filter(|t| self.threads[*t].state == State::Parked);
            in_modules.extend(parked().filter(|t| !super::hostcall::core::is_core_key(self.threads[*t].key)));
            others.extend(parked().take(1));
        }
        let victims = if in_modules.is_empty() { others } else { in_modules };
        for thread in &victims {
            self.resume(*thread, Resumption::Handler(Wake::Deadlock), None);
        }
        !victims.is_empty()
    }

    /// An instance that has parked threads.
    pub(super) fn a_waiting_instance(&self) -> Option<u32> {
        let waits = |instance: &&InstanceThreads<I>| {
            instance.threads.iter().any(|thread| self.threads[*thread].state == State::Parked)
        };
        self.instances.iter().find(waits).map(InstanceThreads::id)
    }

    /// Whether something may change by itself: a timer that a thread or the driver waits for, the world outside, or what
    /// the timekeeper is doing.
    pub(super) fn will_change(&self) -> bool {
        self.pending > 0 || self.timekeeper == Timekeeper::Busy
    }

    fn resume(&mut self, thread: ThreadIndex, how: Resumption, carrier: Option<usize>) {
        self.waiting.unlink(&mut self.threads, thread);
        self.forget_timer(thread);
        self.forget_outside(thread);
        let entry = &mut self.threads[thread];
        entry.resumption = how;
        if entry.state == State::Parking {
            entry.state = State::WokenBeforePark;
            return;
        }
        entry.state = State::Ready;
        match carrier.and_then(|carrier| self.handoff.get_mut(carrier)) {
            Some(place) if place.is_none() => *place = Some(thread),
            _ => self.ready.push_back(thread),
        }
    }

    /// The thread does not wait for something outside any more.
    fn forget_outside(&mut self, thread: ThreadIndex) {
        let waited = usize::from(std::mem::replace(&mut self.threads[thread].outside, false));
        self.pending -= waited;
        self.waits_outside -= waited;
    }

    fn waits(&self, thread: ThreadIndex, wait: u32) -> bool {
        let entry = &self.threads[thread];
        entry.wait == wait && matches!(entry.state, State::Parking | State::Parked)
    }
}

/// The choice of the next thread.
impl<I> Scheduler<I> {
    /// The next thread for a carrier.
    pub(super) fn next(&mut self, carrier: usize) -> Option<ThreadIndex> {
        let is_ready = |threads: &Threads, thread: ThreadIndex| threads[thread].state == State::Ready;
        let its_turn = self.handoffs[carrier] < HANDOFFS_IN_A_ROW || self.ready.is_empty();
        if its_turn
            && let Some(thread) = self.handoff[carrier].take()
            && is_ready(&self.threads, thread)
        {
            self.handoffs[carrier] += 1;
            return Some(thread);
        }
        self.handoffs[carrier] = 0;
        while let Some(thread) = self.ready.pop_front() {
            if is_ready(&self.threads, thread) {
                return Some(thread);
            }
        }
        // Nothing queued: take what another carrier was handed and has not got round to.
        let threads = &self.threads;
        let handed = |place: &mut Option<ThreadIndex>| place.take().filter(|thread| is_ready(threads, *thread));
        self.handoff[..self.carriers].iter_mut().find_map(handed)
    }

    /// The instance of a thread.
    pub(super) fn instance_of(&self, thread: ThreadIndex) -> u32 {
        self.threads[thread].instance
    }

    /// Whether something is queued that any carrier may take.
    pub(super) fn has_queued(&self) -> bool {
        !self.ready.is_empty() || !self.events.is_empty()
    }

    /// Whether an idle carrier would find something to do: what is queued, or was handed to a carrier that is busy.
    pub(super) fn has_more(&self) -> bool {
        self.has_queued() || self.handoff[..self.carriers].iter().any(Option::is_some)
    }

    /// A carrier has nothing to do. When it must look again by itself; [`NEVER`] if it need not.
    pub(super) fn carrier_sleeps(&mut self, carrier: usize) -> u64 {
        self.idle += 1;
        let until = self.next_timer();
        self.looks_at[carrier] = until;
        until
    }

    /// It looks again.
    pub(super) fn carrier_wakes(&mut self, carrier: usize) {
        self.idle -= 1;
        self.looks_at[carrier] = NEVER;
        self.called = false;
    }

    /// Whether the next timer would be served late, because the carriers that are idle sleep longer: one that goes to work
    /// has to see to that.
    pub(super) fn sleeps_past_timer(&self) -> bool {
        self.idle > 0 && self.next_timer() < self.idle_looks_at()
    }

    /// When an idle carrier looks at the timers by itself.
    fn idle_looks_at(&self) -> u64 {
        self.looks_at[..self.carriers].iter().copied().min().unwrap_or(NEVER)
    }
}

/// Timers.
impl<I> Scheduler<I> {
    /// Sets a timer.
    pub(super) fn set_timer(&mut self, at: u64, what: TimerKind) -> Armed {
        self.pending += usize::from(matches!(what, TimerKind::Driver(_)));
        self.timers.set(at, what);
        self.armed(at)
    }

    /// Sets when the network is to be polled at the latest.
    pub(super) fn set_alarm(&mut self, at: u64) -> Armed {
        self.alarm = at;
        self.armed(at)
    }

    /// Sets when frames are to be looked for although no event announces them; [`NEVER`] if not at all.
    pub(super) fn look_for_frames_at(&mut self, at: u64) -> Armed {
        self.look_for_frames = at;
        self.armed(at)
    }

    fn armed(&self, at: u64) -> Armed {
        let timekeeper_late =
            matches!(self.timekeeper, Timekeeper::Asleep(until) if at.saturating_add(2 * TIMEKEEPER_GRACE_NS) < until);
        Armed { carriers_late: self.idle > 0 && at < self.idle_looks_at(), timekeeper_late }
    }

    /// When the next timer is due; [`NEVER`] if there is none.
    pub(super) fn next_timer(&self) -> u64 {
        self.timers.next().min(self.alarm).min(self.look_for_frames)
    }

    /// Serves one timer that is due at `now`.
    pub(super) fn fire(&mut self, now: u64) -> Option<Due> {
        for at in [&mut self.alarm, &mut self.look_for_frames] {
            if *at <= now {
                *at = NEVER;
                self.frames = true;
            }
        }
        match self.timers.take_due(now)? {
            TimerKind::Instance(id) if self.instances.get(id).is_some() => return Some(Due::Instance(id)),
            TimerKind::Instance(_) => self.timers.was_stale(),
            TimerKind::Run => self.events.push_back(Event::Deadline),
            TimerKind::Driver(token) => {
                self.pending -= 1;
                self.events.push_back(Event::Timer { token });
            }
            TimerKind::Thread(number, wait) => match self.threads.find(number) {
                Some(thread) if self.waits(thread, wait) => {
                    self.threads[thread].timed = false;
                    self.pending -= 1;
                    self.resume(thread, Resumption::Handler(Wake::TimedOut), None);
                }
                _ => self.timers.was_stale(),
            },
        }
        Some(Due::Served)
    }

    /// After a run: the events the driver has not heard; timers are dropped.
    pub(super) fn close(&mut self) -> VecDeque<Event> {
        self.timers.clear();
        self.alarm = NEVER;
        self.frames = false;
        self.look_for_frames = NEVER;
        self.pending = 0;
        self.waits_outside = 0;
        std::mem::take(&mut self.events)
    }

    /// Whether the timekeeper has to be started: no carrier is idle, and an instance that is on none has a deadline.
    pub(super) fn needs_timekeeper(&self) -> bool {
        self.unattended > 0 && self.idle == 0 && self.timekeeper == Timekeeper::Absent && !self.done
    }

    /// When the timekeeper is to look: [`NEVER`] if there is no timer.
    pub(super) fn timekeeper_looks_at(&self) -> u64 {
        self.next_timer().saturating_add(TIMEKEEPER_GRACE_NS)
    }

    /// The thread's timed wait is over; its timer stays in the heap until it is due or they are swept.
    fn forget_timer(&mut self, thread: ThreadIndex) {
        if std::mem::replace(&mut self.threads[thread].timed, false) {
            self.pending -= 1;
            self.timer_is_stale();
        }
    }

    fn timer_is_stale(&mut self) {
        let (threads, instances) = (&self.threads, &self.instances);
        self.timers.now_stale(|what| match what {
            TimerKind::Thread(number, wait) => threads.find(number).is_some_and(|thread| {
                let entry = &threads[thread];
                entry.timed && entry.wait == wait && matches!(entry.state, State::Parking | State::Parked)
            }),
            TimerKind::Instance(id) => instances.get(id).is_some(),
            TimerKind::Driver(_) | TimerKind::Run => true,
        });
    }
}
