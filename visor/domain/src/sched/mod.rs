//! The scheduler: threads, their waits and timers, carriers, and what each carrier does next. Plain data under one lock: no
//! system call, no unsafe code, and no memory but its own.
//!
//! ```text
//!             wait(key, deadline)                     wake(key) / deadline
//!   Running ────────────▶ Parking ──handler returns──▶ Parked ───────────▶ Ready ──▶ Running
//!                            │ wake                                          ▲
//!                            └─▶ WokenBeforePark ── handler returns ── runs again at once
//! ```
//!
//! A thread registers its wait while its handler still holds the lock of what it waits for, so a wake-up cannot fall
//! between the two.
//!
//! A change that carriers asleep must know of is returned as a value that cannot be ignored ([`Woken`], [`Armed`]); only
//! `Dispatcher::notify` and `Dispatcher::announce` take them.
#![forbid(unsafe_code)]

mod carrier_set;
mod instances;
mod net_timer;
mod record;
mod run_queue;
#[cfg(test)]
mod tests;
mod thread;
mod timers;
pub(crate) mod wait_key;
mod waiting;
mod waits;
mod work;

pub(crate) use carrier_set::WakeUp;
pub(crate) use record::{ThreadsOf, Unfit, WAITS};
pub(crate) use thread::{CHUNK, INDEX_BITS, THREADS_MAX, ThreadIndex};
pub(crate) use timers::TimerKind;
pub(crate) use work::{HALT_LIMIT_NS, Resources, Work};

use crate::event::Event;
use crate::instance::InstanceConfig;
use crate::leaving::Leaving;
use carrier_set::CarrierSet;
use instances::{InstanceThreads, Instances};
use monohull_abi::module::{Call, NEVER};
use monohull_report::failure::Failure;
use monohull_trampoline::system::Registers;
use net_timer::{AfterPoll, NetTimer};
use run_queue::RunQueue;
use std::collections::VecDeque;
use thread::{Resumption, State, Threads};
use timers::Timers;
use waiting::Waiting;

/// So many threads of an instance that ends are taken off the table under one hold of the lock.
const RETIRED_AT_ONCE: usize = if cfg!(miri) { 16 } else { 4096 };
/// So many threads of an instance are searched for one that was interrupted: the lock is held meanwhile.
const LOOKED_AT: usize = 64;
/// How long after a timer was due the timekeeper checks whether a carrier has served it. Idle carriers do so at
/// once; then the timekeeper need not run for each timer.
const TIMEKEEPER_GRACE_NS: u64 = 5_000_000;

/// Everything that changes under the scheduler's lock. `I` is what the domain knows of an instance.
///
/// Each part decides one thing: [`RunQueue`] which thread is next, [`CarrierSet`] which carrier is woken, [`NetTimer`] when
/// the network is polled. [`Scheduler::next_work`] puts their answers in order.
pub(super) struct Scheduler<I> {
    threads: Threads,
    instances: Instances<I>,
    run_queue: RunQueue,
    carriers: CarrierSet,
    waiting: Waiting,
    timers: Timers,
    net: NetTimer,
    timekeeper: Timekeeper,
    /// Instances that wait to be started.
    pending: VecDeque<InstanceConfig>,
    /// What is left to do for instances that have ended.
    leaving: VecDeque<Leaving>,
    /// Events for the driver.
    events: VecDeque<Event>,
    /// The run is over.
    done: bool,
    /// The next run is the rest of one that was captured.
    goes_on: bool,
    /// Nothing happens, and no time passes, until [`Scheduler::go_on_here`].
    stands_still: bool,
    /// The domain could not be captured to be suspended, and since then no thread has run and no timer has fired.
    refused: bool,
    /// Since when nothing happens but for what may come from outside (monotonic ns), as far as that was looked at.
    rests_since: Option<u64>,
    /// By when the domain is to come to rest (monotonic ns), if it is.
    halting: Option<u64>,
    /// Counts the choices of work, so that no kind of it is starved by another.
    tick: u32,
    /// Threads that wait for something external.
    external_waits: usize,
    /// What may change by itself: threads that wait with a deadline or for something external, and the driver's timers.
    expected: usize,
}

/// What the scheduler knows of the timekeeper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timekeeper {
    /// It does not run; it is started when it is first needed.
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
    /// The stack slot it started on; `None` for the main stack.
    pub(super) stack: Option<u32>,
    /// Its frame, the carrier's own until it parks or ends.
    pub(super) frame: Box<Call>,
    /// Its call is done, and the frame holds what it returns; else the call's handler is to run again.
    pub(super) completed: bool,
    /// All its registers, if it was interrupted in user code and has not been there since.
    pub(super) registers: Option<Box<Registers>>,
}

/// What a due timer requires.
enum Due {
    /// An instance's time is up.
    Instance(u32),
    /// Nothing more; threads and driver have been served.
    Served,
}

/// So many threads have been woken: idle carriers must know, unless the waker's own goes on with them.
#[must_use]
pub(super) struct Woken(pub(super) u64);

impl Woken {
    /// The waker's own carrier looks for work next: it takes the first, and wakes others if there are more.
    pub(super) fn continues_here(self) {}
}

/// A timer has been set: those that sleep longer than that must be woken.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Armed {
    /// No idle carrier wakes in time.
    pub(super) carriers_late: bool,
    /// The timekeeper does not wake in time.
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
            run_queue: RunQueue::new(),
            carriers: CarrierSet::new(),
            waiting: Waiting::new(),
            timers: Timers::default(),
            net: NetTimer::new(),
            timekeeper: Timekeeper::Absent,
            pending: VecDeque::new(),
            leaving: VecDeque::new(),
            events: VecDeque::new(),
            done: false,
            goes_on: false,
            stands_still: false,
            refused: false,
            rests_since: None,
            halting: None,
            tick: 0,
            external_waits: 0,
            expected: 0,
        }
    }
}

/// The run, and the driver's requests.
impl<I> Scheduler<I> {
    /// A run begins, or goes on, on the first carrier.
    pub(super) fn begin(&mut self) {
        self.done = false;
        self.carriers.begin();
        if !std::mem::take(&mut self.goes_on) {
            self.push_event(Event::Begin);
        }
    }

    /// The next run is the rest of one that was captured.
    pub(super) fn goes_on(&mut self) {
        self.goes_on = true;
    }

    /// The run is over: carriers stop as soon as they leave user code.
    pub(super) fn finish(&mut self) {
        self.done = true;
    }

    /// Whether the run is over.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// After a run: the events that the driver has not been given. Timers are dropped.
    pub(super) fn close(&mut self) -> VecDeque<Event> {
        self.timers.clear();
        self.net.clear();
        self.expected = 0;
        self.external_waits = 0;
        std::mem::take(&mut self.events)
    }

    /// Queues an event for the driver.
    pub(super) fn push_event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Queues an instance to be started. Handlers come before those that may be waiting for them: the deeper the earlier.
    pub(super) fn push_pending(&mut self, config: InstanceConfig) {
        let depth = config.depth();
        let at = self.pending.iter().position(|other| other.depth() < depth).unwrap_or(self.pending.len());
        self.pending.insert(at, config);
    }

    /// Drops an instance that waits to be started. False if it does not.
    pub(super) fn remove_pending(&mut self, token: u64) -> bool {
        let at = self.pending.iter().position(|config| config.token == token);
        at.and_then(|at| self.pending.remove(at)).is_some()
    }

    /// Drops those that wait to be started and whose tokens are chosen; their tokens.
    pub(super) fn remove_pending_that(&mut self, chosen: impl Fn(u64) -> bool) -> Vec<u64> {
        let tokens: Vec<u64> = self.pending.iter().map(|config| config.token).filter(|token| chosen(*token)).collect();
        self.pending.retain(|config| !tokens.contains(&config.token));
        tokens
    }

    /// The instances that wait to be started, the next first.
    pub(crate) fn pending_instances(&self) -> impl Iterator<Item = &InstanceConfig> {
        self.pending.iter()
    }

    /// How many instances wait to be started.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Drops the instances that wait to be started.
    pub(super) fn clear_pending(&mut self) {
        self.pending.clear();
    }
}

/// Carriers.
impl<I> Scheduler<I> {
    /// How many carriers have been started; their indices are below this.
    pub(super) fn carriers(&self) -> usize {
        self.carriers.started()
    }

    /// A carrier that was started could not be set up.
    pub(super) fn fail_carrier(&mut self) {
        self.carriers.fail_one();
    }

    /// There is work that an idle carrier could take.
    pub(super) fn wake_one(&mut self) -> WakeUp {
        self.carriers.wake_one()
    }

    /// Whether an idle carrier waits for external events.
    pub(super) fn is_polling(&self) -> bool {
        self.carriers.is_polling()
    }

    /// An idle carrier begins to wait for external events. False if another one does already.
    pub(super) fn begin_polling(&mut self) -> bool {
        self.carriers.begin_polling()
    }

    /// It has come back. Whether another idle carrier can take over.
    pub(super) fn end_polling(&mut self) -> bool {
        self.carriers.end_polling()
    }
}

/// The network.
impl<I> Scheduler<I> {
    /// Sets when the network stack must be polled at the latest.
    pub(super) fn set_net_deadline(&mut self, at: u64) -> Armed {
        self.net.set_stack_deadline(at);
        self.armed(at)
    }

    /// The device has frames.
    pub(super) fn device_ready(&mut self) {
        self.net.device_ready();
    }

    /// Whether no event announces the next frame of the device.
    pub(super) fn device_is_unarmed(&self) -> bool {
        self.net.is_unarmed()
    }

    /// The network stack has been polled; see [`NetTimer::polled`]. Whether the device is to be armed.
    pub(super) fn net_polled(
        &mut self,
        was_unarmed: bool,
        frames_taken: bool,
        now: impl FnOnce() -> u64,
    ) -> (bool, Armed) {
        match self.net.polled(was_unarmed, frames_taken, self.external_waits > 0, now) {
            AfterPoll::Done => (false, Armed::IN_TIME),
            AfterPoll::ArmDevice => (true, Armed::IN_TIME),
            AfterPoll::Repoll(at) => (false, self.armed(at)),
        }
    }

    /// A thread begins to wait for frames. Whether the device is to be armed.
    pub(super) fn frame_waiter_came(&mut self) -> bool {
        self.net.waiter_came()
    }

    /// When the network is polled next by time; [`NEVER`] if it is not.
    pub(super) fn next_net_poll(&self) -> u64 {
        self.net.next()
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

    /// What an instance was doing, for a report: the registers of a thread that was interrupted, or else the call in which the main
    /// thread waits. Of threads that are off the carriers.
    pub(super) fn last_place(&self, id: u32) -> Option<(&Call, Option<&Registers>)> {
        let threads = &self.instances.get(id)?.threads;
        let interrupted = threads.iter().take(LOOKED_AT).find(|thread| self.threads[**thread].registers.is_some());
        let thread = interrupted.or_else(|| threads.iter().find(|thread| self.threads[**thread].stack.is_none()))?;
        let thread = &self.threads[*thread];
        Some((thread.frame.as_deref()?, thread.registers.as_deref()))
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

    /// Queues what is left to do for an instance that has ended, behind other work.
    pub(super) fn push_leaving(&mut self, leaving: Leaving) {
        self.leaving.push_back(leaving);
    }

    /// Takes what has waited longest of that.
    pub(super) fn take_leaving(&mut self) -> Option<Leaving> {
        self.leaving.pop_front()
    }

    /// Forgets an instance that has no threads any more.
    pub(super) fn remove(&mut self, id: u32) -> Option<Box<InstanceThreads<I>>> {
        let instance = self.instances.remove(id)?;
        if instance.deadline != NEVER {
            self.timer_is_stale();
        }
        Some(instance)
    }
}

/// Threads: from their start to their end.
impl<I> Scheduler<I> {
    /// A new thread of an instance, to go on at `user_rsp` with `value`; it is in no queue yet. `None` if the instance is
    /// being ended, because its memory is about to be reclaimed, or if there are too many threads.
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
        self.run_queue.push(thread);
    }

    /// Puts a ready thread on a carrier.
    pub(super) fn mark_running(&mut self, thread: ThreadIndex, now: u64) -> Running {
        self.something_happened();
        let entry = &mut self.threads[thread];
        entry.state = State::Running;
        if entry.left_at != 0 {
            entry.park += now.saturating_sub(entry.left_at);
        }
        entry.taken_at = now;
        let id = entry.instance;
        let frame = entry.frame.take().expect("a thread off the carriers has its frame");
        self.instances.count_running(id, 1);
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

    /// The thread yields; its call is done and returns `value`.
    pub(super) fn requeue(&mut self, thread: ThreadIndex, frame: Box<Call>, value: i64, now: u64) {
        self.threads[thread].resumption = Resumption::Value(value);
        self.put_back(thread, frame, State::Ready, now);
        self.enqueue(thread);
    }

    /// The thread is interrupted before it has been entered again, or in user code with these registers: others go first.
    pub(super) fn requeue_interrupted(&mut self, running: Running, now: u64) {
        let Running { thread, mut frame, registers, .. } = running;
        if let Some(registers) = &registers {
            frame.user_rsp = registers.sp();
        }
        self.threads[thread].registers = registers;
        let value = frame.value;
        self.requeue(thread, frame, value, now);
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
        self.instances.count_running(id, -1);
    }

    /// What a thread goes on with, after how its last wait ended.
    fn resumed(&mut self, thread: ThreadIndex, mut frame: Box<Call>) -> Running {
        let entry = &mut self.threads[thread];
        let completed = match entry.resumption {
            Resumption::Value(value) => {
                frame.value = value;
                true
            }
            Resumption::Handler(wake) => {
                frame.wake = wake;
                false
            }
        };
        Running { thread, stack: entry.stack, frame, completed, registers: entry.registers.take() }
    }

    /// Takes a thread off the table that is on no carrier.
    fn retire(&mut self, thread: ThreadIndex) {
        self.waiting.unlink(&mut self.threads, thread);
        self.forget_timer(thread);
        self.forget_external(thread);
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
