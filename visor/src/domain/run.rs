//! The run loop: user code as a virtual processor.
//!
//! A carrier takes a thread, enters it, serves what it asks for, and enters it again, until it parks or ends; then it
//! goes on with the next one. Between two threads there is nothing on the carrier's stack but this loop.

use super::carrier::{self, Carrier, CarrierError, NUDGE, monotonic_ns, ticks, timer_signal};
use super::failure::{Blame, Failure, FailureKind};
use super::hostcall::core::{futex_wait, join_key};
use super::instance::{Instance, Spec};
use super::lifecycle::{Place, cancelled};
use super::outside::{FRAMES, Outside};
use super::scheduler::{Due, Scheduler, get};
use super::thread::{State, ThreadRef};
use super::{Event, Shared, fault};
use crate::network::Network;
use monohull_abi::module::{Call, NEVER, Outcome, Wake};
use monohull_abi::number::{FUTEX_WAIT, NETWORK_BUSY};
use monohull_trampoline::system::{Exit, enter};
use std::cell::Cell;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

thread_local!(static THIS: Cell<usize> = const { Cell::new(0) });

/// After this many switches a carrier looks for more than ready threads: timers, events, instances to start.
const SWITCHES_IN_A_ROW: u32 = 16;

/// Why a thread left its carrier. The scheduler's lock is passed on, so that the next thread is chosen under it.
enum Left<'s> {
    /// It waits, or is in the ready queue again.
    Waiting(MutexGuard<'s, Scheduler>),
    /// It has ended.
    Gone,
}

/// Ready threads go before instances that wait to be started, so that cells are used again while they are warm; but
/// at every so many looks it is the other way round, so that nobody who polls can keep the one he waits for from starting.
const LOOKS_BETWEEN_JOBS: u32 = 4;
/// How long a run that is over waits for its network, at most.
const SETTLE_NS: u64 = 5_000_000_000;
/// While frames come and nobody waits for any, functions move them when they make calls; in case they make none, a carrier
/// looks this much later.
const MOVED_BY_FUNCTIONS_NS: u64 = 1_000_000;
/// Frames were told of, and somebody has the network in hand, who moves them. Somebody waits for them, so a carrier looks again
/// soon.
const BEING_MOVED_NS: u64 = 50_000;
/// So many looks for work, and one at what happens outside.
const LOOKS_BETWEEN_HEARING: u32 = 4;

/// What a carrier does next.
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once and never kept")]
enum Work {
    Run(ThreadRef),
    Launch(Spec, Place),
    Tell(Event),
    TimeUp(u32),
    Poll,
    Stop,
}

impl Shared {
    /// The life of one carrier.
    pub(super) fn carry(&self, mut carrier: Carrier) -> Result<(), CarrierError> {
        if !self.options.time_stamp_counter {
            carrier.deny_time_stamp_counter()?;
        }
        let index = carrier.index();
        THIS.set(index);
        loop {
            match self.next_work(index) {
                Work::Run(thread) => self.run_threads(thread, &mut carrier),
                Work::Launch(spec, place) => self.launch(spec, place),
                Work::TimeUp(id) => self.time_up(id),
                Work::Poll => self.poll_network(),
                Work::Tell(event) => {
                    if let Some(driver) = self.driver.lock().expect("driver").as_mut() {
                        driver.on_event(event, self);
                    }
                    if !self.lock().done {
                        self.wipe_cells();
                    }
                }
                Work::Stop => return Ok(()),
            }
        }
    }

    /// The carrier the calling thread is.
    pub(super) fn this_carrier(&self) -> usize {
        THIS.get()
    }

    fn next_work(&self, index: usize) -> Work {
        let mut scheduler = self.lock();
        loop {
            scheduler.looks = scheduler.looks.wrapping_add(1);
            if !scheduler.listening
                && scheduler.looks.is_multiple_of(LOOKS_BETWEEN_HEARING)
                && let Some(outside) = self.outside.get()
            {
                // Nobody listens, for all are busy; those who wait for something outside must not wait for that to end.
                scheduler = self.hear(outside, Some(0), scheduler);
                if scheduler.listening {
                    // Somebody has begun to listen meanwhile, and may have missed a bell that was heard here.
                    outside.ring();
                }
            }
            // Only now: what has just been heard may be that the run is over.
            if scheduler.done {
                return Work::Stop;
            }
            if let Some(id) = serve_timers(&mut scheduler) {
                return Work::TimeUp(id);
            }
            let jobs_turn = scheduler.looks.is_multiple_of(LOOKS_BETWEEN_JOBS);
            let work = if std::mem::take(&mut scheduler.frames) {
                Some(Work::Poll)
            } else if let Some(event) = scheduler.events.pop_front() {
                Some(Work::Tell(event))
            } else if jobs_turn && let Some((spec, place)) = self.next_job(&mut scheduler) {
                Some(Work::Launch(spec, place))
            } else if let Some(thread) = scheduler.next(index) {
                take(thread);
                Some(Work::Run(thread))
            } else {
                self.next_job(&mut scheduler).map(|(spec, place)| Work::Launch(spec, place))
            };
            if let Some(work) = work {
                if scheduler.has_more() || !scheduler.jobs.is_empty() && self.has_place() {
                    self.call_carrier(&mut scheduler);
                }
                return work;
            }
            if scheduler.idle + scheduler.lost + 1 == scheduler.carriers
                && !scheduler.will_change()
                && !scheduler.break_deadlock()
            {
                // Nobody is left at all: a driver that has not finished would wait for ever.
                scheduler.done = true;
                self.wake_all();
                return Work::Stop;
            }
            if scheduler.has_more() {
                continue;
            }
            scheduler = self.idle(scheduler);
        }
    }

    /// Waits until there may be work. One idle carrier listens to what happens outside, the others wait for a call.
    fn idle<'s>(&'s self, mut scheduler: MutexGuard<'s, Scheduler>) -> MutexGuard<'s, Scheduler> {
        scheduler.idle += 1;
        let until = scheduler.next_timer();
        let mut scheduler = match self.outside.get() {
            Some(outside) if !scheduler.listening => {
                scheduler.listening = true;
                let mut scheduler = self.hear(outside, until, scheduler);
                scheduler.listening = false;
                if scheduler.idle > 1 {
                    // Somebody else is to listen while this carrier works.
                    self.work.notify_one();
                }
                scheduler
            }
            _ => match until.map(|at| Duration::from_nanos(at.saturating_sub(monotonic_ns()))) {
                Some(time) => self.work.wait_timeout(scheduler, time).expect("scheduler").0,
                None => self.work.wait(scheduler).expect("scheduler"),
            },
        };
        scheduler.idle -= 1;
        scheduler.called = false;
        scheduler
    }

    /// Hears what happens outside until `until` (monotonic ns), and wakes those who waited for it.
    fn hear<'s>(
        &'s self,
        outside: &Outside,
        until: Option<u64>,
        scheduler: MutexGuard<'s, Scheduler>,
    ) -> MutexGuard<'s, Scheduler> {
        drop(scheduler);
        let heard = outside.listen(until);
        let mut scheduler = self.lock();
        for key in outside.keys(&heard) {
            match key {
                FRAMES => (scheduler.frames, scheduler.device_armed) = (true, false),
                key => _ = scheduler.wake(key, u64::MAX, None, self.this_carrier()),
            }
        }
        scheduler
    }

    /// Frames have arrived, or it is time for the network to do something.
    pub(super) fn poll_network(&self) {
        let heard = !self.lock().device_armed;
        self.modules.poll(self, "socket");
        if let (Some(outside), Network::Tap(_)) = (self.outside.get(), &self.options.network) {
            let taken = outside.frames_taken();
            let mut scheduler = self.lock();
            scheduler.look_for_frames = match scheduler.waits_outside {
                _ if scheduler.device_armed => NEVER,
                0 if taken => monotonic_ns() + MOVED_BY_FUNCTIONS_NS,
                1.. if heard && !taken => monotonic_ns() + BEING_MOVED_NS,
                _ => NEVER,
            };
            if scheduler.look_for_frames == NEVER && !scheduler.device_armed {
                scheduler.device_armed = true;
                drop(scheduler);
                // Those that came meanwhile are told of at once.
                let _ = outside.arm_device();
            }
        }
    }

    /// There is work for another carrier: wake an idle one, or start one more.
    pub(super) fn call_carrier(&self, scheduler: &mut Scheduler) {
        if scheduler.idle > 0 {
            self.wake_carrier(scheduler);
        } else if scheduler.carriers < self.options.carriers && scheduler.lost == 0 && !scheduler.done {
            let index = scheduler.carriers;
            let Some(shared) = self.weak.upgrade() else { return };
            if let Err(error) = carrier::expect_nudges() {
                tracing::error!("carrier {index} cannot run beside others: {error}");
                return;
            }
            let body = move || {
                if let Err(error) = Carrier::attach(&shared.partition, index).and_then(|carrier| shared.carry(carrier))
                {
                    // The work stays with the other carriers; one of them may be waiting for this one to become idle.
                    tracing::error!("carrier {index} cannot run: {error}");
                    shared.lock().lost += 1;
                    shared.wake_all();
                }
            };
            if let Ok(helper) = std::thread::Builder::new().name(format!("carrier-{index}")).spawn(body) {
                scheduler.carriers += 1;
                self.helpers.lock().expect("helpers").push(helper);
            }
        }
    }

    /// There is work that an idle carrier could take; one call at a time is enough.
    pub(super) fn wake_carrier(&self, scheduler: &mut Scheduler) {
        if scheduler.idle > 0 && !scheduler.called {
            scheduler.called = true;
            match self.outside.get() {
                Some(outside) if scheduler.listening && scheduler.idle == 1 => outside.ring(),
                _ => self.work.notify_one(),
            }
        }
    }

    /// A timer is due earlier than whoever listens believes.
    pub(super) fn wake_listener(&self, scheduler: &Scheduler) {
        if let Some(outside) = self.outside.get().filter(|_| scheduler.listening) {
            outside.ring();
        }
    }

    /// All idle carriers are to look.
    pub(super) fn wake_all(&self) {
        self.work.notify_all();
        if let Some(outside) = self.outside.get() {
            outside.ring();
        }
    }

    /// Runs threads, one after the other, until there is none or something else is to be done.
    fn run_threads(&self, first: ThreadRef, carrier: &mut Carrier) {
        let mut now = ticks();
        let mut next = Some(first);
        let mut current = None;
        let mut switches = 0;
        while let Some(thread) = next {
            let block = get(thread);
            // SAFETY: the instance lives until its last thread has been retired, which for this one is `leave` below.
            let instance = unsafe { &*block.instance };
            if current != Some(instance.id) {
                let deadline = instance.deadline.min(self.run_deadline.load(Ordering::Relaxed));
                if let Err(error) = carrier.turn_to(&self.partition, instance.key, &instance.stop, deadline) {
                    let text = format!("its carrier cannot be readied: {error}");
                    self.end(instance, Err(Box::new(Failure::blamed(FailureKind::Load, Blame::Host, text))));
                    carrier.turn_away();
                    let scheduler = self.leave(thread, instance);
                    next = self.pick(scheduler, carrier, None, switches);
                    continue;
                }
                current = Some(instance.id);
                self.note_start(instance, now);
            }
            if block.left_at != 0 {
                block.park += now.saturating_sub(block.left_at);
            }
            block.call.carrier = carrier.index() as u32;
            let left = self.run_thread(thread, instance, carrier);
            let then = ticks();
            // Still this carrier's: nobody else takes the thread before the scheduler's lock is free again.
            block.run += then.saturating_sub(now);
            block.left_at = then;
            now = then;
            switches += 1;
            let scheduler = match left {
                Left::Waiting(scheduler) => scheduler,
                Left::Gone => {
                    carrier.turn_away();
                    current = None;
                    self.leave(thread, instance)
                }
            };
            next = self.pick(scheduler, carrier, current, switches);
        }
    }

    /// Runs one thread until it waits or ends.
    #[inline]
    fn run_thread(&self, thread: ThreadRef, instance: &Instance, carrier: &Carrier) -> Left<'_> {
        let block = get(thread);
        let context = carrier.context();
        // A thread that was woken without its call being completed asks its handler again.
        let mut served = match block.completed {
            true => Ok(Outcome::ready(block.call.value)),
            false => self.serve_thread(&mut block.call),
        };
        loop {
            let outcome = match served {
                Ok(outcome) => outcome,
                Err(mut scheduler) => {
                    if instance.stop.load(Ordering::Relaxed) {
                        return Left::Gone;
                    }
                    scheduler.park(thread);
                    one_less(&instance.running);
                    return Left::Waiting(scheduler);
                }
            };
            match outcome.tag {
                Outcome::READY => block.call.value = outcome.value,
                Outcome::PARK => {
                    let mut scheduler = self.lock();
                    if instance.stop.load(Ordering::Relaxed) {
                        return Left::Gone;
                    }
                    if scheduler.park(thread) {
                        one_less(&instance.running);
                        return Left::Waiting(scheduler);
                    }
                    drop(scheduler);
                    served = match block.completed {
                        true => Ok(Outcome::ready(block.call.value)),
                        false => self.serve_thread(&mut block.call),
                    };
                    continue;
                }
                Outcome::YIELD => {
                    let mut scheduler = self.lock();
                    if instance.stop.load(Ordering::Relaxed) {
                        return Left::Gone;
                    }
                    block.call.value = outcome.value;
                    block.completed = true;
                    block.state = State::Ready;
                    scheduler.enqueue(thread);
                    one_less(&instance.running);
                    return Left::Waiting(scheduler);
                }
                _ => return Left::Gone,
            }
            if instance.stop.load(Ordering::Relaxed) {
                return Left::Gone;
            }
            // SAFETY: the context is this carrier's, attached to this thread; the block does not move; no lock is held.
            match unsafe { enter(context, &mut block.call) } {
                Exit::Hostcall => {
                    block.call.wake = Wake::First;
                    block.call.scratch = [0; 4];
                    served = self.serve_thread(&mut block.call);
                }
                Exit::Fault => {
                    carrier.recover();
                    self.fault(instance, carrier);
                    return Left::Gone;
                }
            }
        }
    }

    /// Serves a thread's call; the scheduler's lock if the thread waits on a futex now.
    #[inline]
    fn serve_thread(&self, call: &mut Call) -> Result<Outcome, MutexGuard<'_, Scheduler>> {
        if call.number == u64::from(FUTEX_WAIT) {
            return match futex_wait(self, call) {
                Ok(scheduler) => Err(scheduler),
                Err(outcome) => Ok(outcome),
            };
        }
        Ok(self.serve(call))
    }

    /// The next thread to switch to at once, if nothing else is more urgent.
    fn pick(
        &self,
        mut scheduler: MutexGuard<'_, Scheduler>,
        carrier: &mut Carrier,
        current: Option<u32>,
        switches: u32,
    ) -> Option<ThreadRef> {
        let others_first = scheduler.done || !scheduler.events.is_empty() || switches.is_multiple_of(SWITCHES_IN_A_ROW);
        let next = if others_first { None } else { scheduler.next(carrier.index()) };
        if next.is_none() || current != next.map(|thread| get(thread).call.instance) {
            // Still under the lock: from here on nobody nudges this carrier for the instance it leaves, which may go.
            carrier.turn_away();
        }
        let thread = next?;
        take(thread);
        if scheduler.has_queued() {
            self.wake_carrier(&mut scheduler);
        }
        Some(thread)
    }

    /// A thread has ended: its block is freed, and with the last thread of an ended instance everything else.
    fn leave(&self, thread: ThreadRef, instance: &Instance) -> MutexGuard<'_, Scheduler> {
        let mut scheduler = self.lock();
        let left = one_less(&instance.running);
        let id = instance.id;
        let number = get(thread).call.thread;
        scheduler.retire(thread);
        scheduler.wake(join_key(number), u64::MAX, Some(0), self.this_carrier());
        let ended = scheduler.rosters.get(&id).is_some_and(|r| r.ending.is_some());
        if left == 0 && ended {
            self.reclaim(scheduler, id);
            scheduler = self.lock();
        }
        scheduler
    }

    fn note_start(&self, instance: &Instance, now: u64) {
        if instance.counters.started.load(Ordering::Relaxed) == 0 {
            instance.counters.started.store(now, Ordering::Relaxed);
            let _ = self.first_entry.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The run is over; what functions have left to the network of their own is sent all the same, if that does not take too
    /// long. The kernel does that by itself with its sockets, ours end with the process.
    pub(super) fn settle_network(&self) {
        let Some(outside) = self.outside.get().filter(|_| matches!(self.options.network, Network::Tap(_))) else {
            return;
        };
        let latest = monotonic_ns() + SETTLE_NS;
        while monotonic_ns() < latest && self.call(NETWORK_BUSY, [0; 6]) == Ok(1) {
            let until = {
                let scheduler = self.lock();
                scheduler.alarm.min(scheduler.look_for_frames).min(latest)
            };
            drop(self.hear(outside, Some(until), self.lock()));
            self.poll_network();
        }
    }

    /// User code was taken off its carrier by a signal.
    fn fault(&self, instance: &Instance, carrier: &Carrier) {
        // SAFETY: the context is this carrier's; the handler that wrote it has left.
        let fault = unsafe { (*carrier.context()).fault };
        if fault.signal != NUDGE && fault.signal != timer_signal() {
            return self.end(instance, Err(Box::new(fault::describe(self, instance, &fault))));
        }
        if !instance.stop.load(Ordering::Relaxed) {
            let now = monotonic_ns();
            if now >= instance.deadline {
                self.time_up(instance.id);
            } else if now >= self.run_deadline.load(Ordering::Relaxed) {
                self.lock().events.push_back(Event::Deadline);
                self.end(instance, Err(Box::new(cancelled())));
            } else {
                // A signal that finds user code running has a cause. So there was none.
                let text = "called the handler of signals, as if it were the kernel";
                self.end(instance, Err(Box::new(Failure::new(FailureKind::Trap, text))));
            }
        }
        // If its time was up, this is what it was doing.
        let mut scheduler = self.lock();
        let ending = scheduler.rosters.get_mut(&instance.id).and_then(|roster| roster.ending.as_mut());
        if let Some(Err(failure)) = ending.filter(|e| e.as_ref().is_err_and(|f| f.kind == FailureKind::Timeout)) {
            fault::add_place_of_interrupt(instance, &fault, failure);
        }
    }

    fn time_up(&self, id: u32) {
        let Some(instance) = self.instance(id) else { return };
        let timeout = instance.spec.timeout.unwrap_or_default();
        let mut failure = Failure::new(FailureKind::Timeout, format!("ran longer than {timeout:?}, its timeout"));
        let scheduler = self.lock();
        if instance.running.load(Ordering::Relaxed) == 0
            && let Some(main) =
                scheduler.rosters.get(&id).and_then(|r| r.threads.iter().find(|t| get(**t).stack.is_none()))
        {
            fault::add_place_of_call(&instance, &get(*main).call, &mut failure);
        }
        drop(scheduler);
        self.end(&instance, Err(Box::new(failure)));
    }
}

/// The thread is on a carrier from here on. The caller holds the scheduler's lock.
fn take(thread: ThreadRef) {
    let block = get(thread);
    block.state = State::Running;
    // SAFETY: a ready thread's instance is alive.
    let running = unsafe { &(*block.instance).running };
    running.store(running.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// One thread less on a carrier. The caller holds the scheduler's lock, so no read-modify-write is needed.
fn one_less(running: &AtomicU32) -> u32 {
    let left = running.load(Ordering::Relaxed) - 1;
    running.store(left, Ordering::Relaxed);
    left
}

/// Serves all timers that are due; the instance whose time is up, if one is.
fn serve_timers(scheduler: &mut Scheduler) -> Option<u32> {
    scheduler.next_timer()?;
    let now = monotonic_ns();
    while let Some(due) = scheduler.fire(now) {
        if let Due::Instance(id) = due {
            return Some(id);
        }
    }
    None
}
