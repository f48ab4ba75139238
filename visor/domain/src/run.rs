//! The run loop: user code as a virtual processor.
//!
//! A carrier takes a thread, enters it, serves what it asks for, and enters it again, until it parks or ends; then it
//! goes on with the next one. Between two threads there is nothing on the carrier's stack but this loop.

use super::carrier::{self, Carrier, CarrierError, NUDGE, monotonic_ns, ticks, timer_signal};
use super::hostcall::core::{futex_wait, join_key};
use super::instance::{Instance, Spec};
use super::lifecycle::{Place, cancelled};
use super::outside::{FRAMES, Outside};
use super::sched::{Armed, Due, Running, Scheduler, ThreadIndex, TimerKind, Woken};
use super::threads::{self, EndProcessOnPanic};
use super::{Event, SchedulerGuard, Shared, fault};
use monohull_abi::module::{Call, NEVER, Outcome, SYSTEM_INSTANCE, Wake};
use monohull_abi::number::{FUTEX_WAIT, NETWORK_BUSY};
use monohull_network::Network;
use monohull_report::failure::{Blame, Failure, FailureKind};
use monohull_trampoline::system::{Exit, enter};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What [`Shared::this_carrier`] is on threads that are no carriers.
const NO_CARRIER: usize = usize::MAX;

thread_local! {
    /// The carrier the thread is.
    static THIS: Cell<usize> = const { Cell::new(NO_CARRIER) };
    /// The instance whose thread it runs; null in between.
    static CURRENT: Cell<*const Instance> = const { Cell::new(std::ptr::null()) };
}

/// After this many switches a carrier looks for more than ready threads: timers, events, instances to start.
const SWITCHES_IN_A_ROW: u32 = 16;

/// Ready threads go before instances that wait to be started, so that cells are used again while they are warm; but
/// at every so many looks it is the other way round, so that a thread that polls cannot keep the instance it waits for from
/// starting.
const LOOKS_BETWEEN_JOBS: u32 = 4;
/// How long a run that is over waits for its network, at most.
const SETTLE_NS: u64 = 5_000_000_000;
/// While frames come and no thread waits for any, functions move them when they make calls; in case they make none, a carrier
/// looks this much later.
const MOVED_BY_FUNCTIONS_NS: u64 = 1_000_000;
/// An event announced frames, and a function is moving them. A thread waits for them, so a carrier looks again soon.
const BEING_MOVED_NS: u64 = 50_000;
/// So many looks for work, and one at what happens outside.
const LOOKS_BETWEEN_HEARING: u32 = 4;

/// What a carrier does next.
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once and never kept")]
enum Work {
    Run(Running, Arc<Instance>),
    Launch(Spec, Place),
    Tell(Event),
    TimeUp(u32),
    Poll,
    Stop,
}

/// How a thread left its carrier.
enum Left<'s> {
    /// It waits, or is in the ready queue again. The scheduler's lock is passed on, so that the next thread is chosen under
    /// it.
    Waiting(SchedulerGuard<'s>),
    /// It has ended. Its frame comes back.
    Gone(Running),
}

/// What came of a thread's call.
enum Served<'s> {
    /// The handler's answer.
    Outcome(Outcome),
    /// The thread waits on a futex now; the scheduler's lock is passed on.
    FutexWait(SchedulerGuard<'s>),
}

/// The instance whose thread's call is being served on this thread, if it is a function's call.
pub(super) fn current_instance<'i>(call: &Call) -> Option<&'i Instance> {
    if call.instance == SYSTEM_INSTANCE {
        return None;
    }
    served_instance().filter(|instance| instance.id == call.instance)
}

/// The instance whose threads run on this thread, for services that modules use without saying for which call.
pub(super) fn served_instance<'i>() -> Option<&'i Instance> {
    // SAFETY: `run_threads` on this very thread sets it, and holds the instance until it sets it anew, which is not before the
    // handler that asks here has returned.
    unsafe { CURRENT.get().as_ref() }
}

/// Whether the call that is being served on this thread is to stop half-way: its instance, or the run, has to end. Operations
/// that take more than some milliseconds ask now and then.
pub(super) fn is_interrupted() -> bool {
    carrier::is_interrupted(THIS.get())
}

impl Shared {
    /// The life of one carrier.
    pub(super) fn carry(&self, mut carrier: Carrier) -> Result<(), CarrierError> {
        let _end = EndProcessOnPanic;
        if !self.options.time_stamp_counter {
            carrier.deny_time_stamp_counter()?;
        }
        let index = carrier.index();
        THIS.set(index);
        loop {
            match self.next_work(index) {
                Work::Run(first, instance) => self.run_threads(first, instance, &mut carrier),
                Work::Launch(spec, place) => self.launch(spec, place),
                Work::TimeUp(id) => self.time_up(id),
                Work::Poll => self.poll_network(),
                Work::Tell(event) => self.tell(event),
                Work::Stop => {
                    THIS.set(NO_CARRIER);
                    return Ok(());
                }
            }
        }
    }

    /// Lets the driver decide on an event.
    pub(super) fn tell(&self, event: Event) {
        if let Some(driver) = self.driver.lock().expect("driver").as_mut() {
            driver.on_event(event, self);
        }
        if !self.lock().done {
            self.wipe_cells();
        }
    }

    /// The carrier the calling thread is; the index of none if it is no carrier.
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
                // No carrier listens, for all are busy; threads that wait for something outside must not wait for that to end.
                scheduler = self.hear(outside, Some(0), scheduler);
                if scheduler.listening {
                    // Another has begun to listen meanwhile, and may have missed a wake-up that was consumed here.
                    outside.ring();
                }
            }
            // Only now: what has just been heard may be that the run is over.
            if scheduler.done {
                return Work::Stop;
            }
            if let Some(id) = serve_timers(&mut scheduler) {
                return self.go_to_work(scheduler, Work::TimeUp(id));
            }
            if let Some(work) = self.find_work(&mut scheduler, index) {
                return self.go_to_work(scheduler, work);
            }
            if scheduler.idle + scheduler.lost + 1 == scheduler.carriers && !scheduler.will_change() {
                if !scheduler.jobs.is_empty() && self.mend_cells() > 0 {
                    continue;
                }
                if let Some(id) = scheduler.a_waiting_instance().filter(|_| !scheduler.jobs.is_empty()) {
                    drop(scheduler);
                    self.no_place_for_jobs(id);
                    scheduler = self.lock();
                    continue;
                }
                if !scheduler.break_deadlock() {
                    // No thread is left: a driver that has not finished would wait for ever.
                    scheduler.done = true;
                    self.wake_all();
                    return Work::Stop;
                }
            }
            if scheduler.has_more() {
                continue;
            }
            scheduler = self.idle(index, scheduler);
        }
    }

    /// What is to be done, if there is anything.
    fn find_work(&self, scheduler: &mut Scheduler<Arc<Instance>>, index: usize) -> Option<Work> {
        if std::mem::take(&mut scheduler.frames) {
            return Some(Work::Poll);
        }
        if let Some(event) = scheduler.events.pop_front() {
            return Some(Work::Tell(event));
        }
        if scheduler.looks.is_multiple_of(LOOKS_BETWEEN_JOBS)
            && let Some((spec, place)) = self.next_job(scheduler)
        {
            return Some(Work::Launch(spec, place));
        }
        if let Some(thread) = scheduler.next(index) {
            let (running, instance) = take(scheduler, thread, ticks());
            return Some(Work::Run(running, instance));
        }
        self.next_job(scheduler).map(|(spec, place)| Work::Launch(spec, place))
    }

    /// A carrier goes to work: it leaves to others what they can do meanwhile.
    fn go_to_work(&self, mut scheduler: SchedulerGuard<'_>, work: Work) -> Work {
        if scheduler.sleeps_past_timer() {
            self.wake_carrier(&mut scheduler);
        }
        if scheduler.has_more() || !scheduler.jobs.is_empty() && self.has_place() {
            self.call_carrier(scheduler);
        } else {
            self.see_to_timekeeper(scheduler);
        }
        work
    }

    /// Waits until there may be work. One idle carrier listens to what happens outside, the others wait for a call.
    fn idle<'s>(&'s self, index: usize, mut scheduler: SchedulerGuard<'s>) -> SchedulerGuard<'s> {
        let until = Some(scheduler.carrier_sleeps(index)).filter(|until| *until != NEVER);
        let mut scheduler = match self.outside.get() {
            Some(outside) if !scheduler.listening => {
                scheduler.listening = true;
                let mut scheduler = self.hear(outside, until, scheduler);
                scheduler.listening = false;
                if scheduler.idle > 1 {
                    // Another carrier is to listen while this one works.
                    self.work.notify_one();
                }
                scheduler
            }
            _ => match until.map(|at| Duration::from_nanos(at.saturating_sub(monotonic_ns()))) {
                Some(time) => self.work.wait_timeout(scheduler, time).expect("scheduler").0,
                None => self.work.wait(scheduler).expect("scheduler"),
            },
        };
        scheduler.carrier_wakes(index);
        scheduler
    }

    /// Waits for what happens outside until `until` (monotonic ns), and wakes the threads that waited for it.
    fn hear<'s>(&'s self, outside: &Outside, until: Option<u64>, scheduler: SchedulerGuard<'s>) -> SchedulerGuard<'s> {
        drop(scheduler);
        let heard = outside.listen(until);
        let mut scheduler = self.lock();
        for key in outside.keys(&heard) {
            match key {
                FRAMES => (scheduler.frames, scheduler.device_armed) = (true, false),
                // This carrier looks for work next.
                key => scheduler.wake(key, u64::MAX, None, self.this_carrier()).goes_on_here(),
            }
        }
        scheduler
    }

    /// Frames have arrived, or it is time for the network to do something.
    pub(super) fn poll_network(&self) {
        let heard = !self.lock().device_armed;
        self.modules.poll("socket");
        if let (Some(outside), Network::Tap(_)) = (self.outside.get(), &self.options.network) {
            let taken = outside.frames_taken();
            let mut scheduler = self.lock();
            let look_at = match scheduler.waits_outside {
                _ if scheduler.device_armed => NEVER,
                0 if taken => monotonic_ns() + MOVED_BY_FUNCTIONS_NS,
                1.. if heard && !taken => monotonic_ns() + BEING_MOVED_NS,
                _ => NEVER,
            };
            let armed = scheduler.look_for_frames_at(look_at);
            self.announce(&mut scheduler, armed);
            if look_at == NEVER && !scheduler.device_armed {
                scheduler.device_armed = true;
                drop(scheduler);
                // Those that came meanwhile raise an event at once.
                let _ = outside.arm_device();
            }
        }
    }

    /// There is work for another carrier: wakes an idle one, or starts one more.
    pub(super) fn call_carrier(&self, mut scheduler: SchedulerGuard<'_>) {
        if scheduler.idle > 0 {
            self.wake_carrier(&mut scheduler);
        } else if scheduler.carriers < self.options.carriers && scheduler.lost == 0 && !scheduler.done {
            let index = scheduler.carriers;
            scheduler.carriers += 1;
            // A thread is started without the lock: the kernel takes its time.
            drop(scheduler);
            self.start_carrier(index);
            return;
        }
        self.see_to_timekeeper(scheduler);
    }

    fn start_carrier(&self, index: usize) {
        let Some(shared) = self.weak.upgrade() else { return };
        let body = move || {
            let _end = EndProcessOnPanic;
            let attached = Carrier::attach(&shared.partition, index);
            if let Err(error) = attached.and_then(|carrier| shared.carry(carrier)) {
                shared.lose_carrier(index, &error);
            }
        };
        let started = carrier::expect_nudges()
            .map_err(|error| error.to_string())
            .and_then(|()| threads::spawn(format!("carrier-{index}"), None, body).map_err(|error| error.to_string()));
        match started {
            Ok(helper) => self.helpers.lock().expect("helpers").push(helper),
            Err(error) => self.lose_carrier(index, &error),
        }
    }

    /// A carrier could not be set up. Its work stays with the others; one of them may be waiting for this one to become
    /// idle.
    fn lose_carrier(&self, index: usize, error: &dyn std::fmt::Display) {
        tracing::error!("carrier {index} cannot run: {error}");
        self.lock().lost += 1;
        self.wake_all();
    }

    /// There is work that an idle carrier could take; one call at a time is enough.
    pub(super) fn wake_carrier(&self, scheduler: &mut Scheduler<Arc<Instance>>) {
        if scheduler.idle > 0 && !scheduler.called {
            scheduler.called = true;
            match self.outside.get() {
                Some(outside) if scheduler.listening && scheduler.idle == 1 => outside.ring(),
                _ => self.work.notify_one(),
            }
        }
    }

    /// Threads have been woken: an idle carrier may take one. How many they are.
    pub(super) fn notify(&self, scheduler: &mut Scheduler<Arc<Instance>>, Woken(count): Woken) -> u64 {
        if count > 0 {
            self.wake_carrier(scheduler);
        }
        count
    }

    /// A timer has been set: wakes who would look too late.
    pub(super) fn announce(&self, scheduler: &mut Scheduler<Arc<Instance>>, armed: Armed) {
        if armed.carriers_late {
            self.wake_carrier(scheduler);
        }
        if armed.timekeeper_late {
            self.wake_timekeeper();
        }
    }

    /// Sets a timer, and wakes who would look too late.
    pub(super) fn arm(&self, at: u64, what: TimerKind) {
        let mut scheduler = self.lock();
        let armed = scheduler.set_timer(at, what);
        self.announce(&mut scheduler, armed);
    }

    /// All that sleep are to look.
    pub(super) fn wake_all(&self) {
        self.work.notify_all();
        self.wake_timekeeper();
        if let Some(outside) = self.outside.get() {
            outside.ring();
        }
    }

    /// Runs threads, one after the other, until there is none or something else is to be done.
    fn run_threads(&self, first: Running, instance: Arc<Instance>, carrier: &mut Carrier) {
        let mut next = Some((first, Some(instance)));
        let mut current: Option<Arc<Instance>> = None;
        let mut switches = 0;
        while let Some((mut running, other)) = next.take() {
            if let Some(instance) = other {
                let deadline = instance.deadline.min(self.run_deadline.load(Ordering::Relaxed));
                let turned = carrier.turn_to(&self.partition, instance.key, &instance.stop, deadline);
                CURRENT.set(Arc::as_ptr(&instance));
                let instance = current.insert(instance);
                if let Err(error) = turned {
                    let text = format!("its carrier cannot be readied: {error}");
                    self.end(instance, Err(Box::new(Failure::blamed(FailureKind::Load, Blame::Host, text))));
                    next = self.leave(running, carrier, &mut current, switches);
                    continue;
                }
                self.note_start(instance);
            }
            let Some(instance) = &current else { return };
            running.frame.carrier = carrier.index() as u32;
            let left = self.run_thread(running, instance, carrier);
            switches += 1;
            next = match left {
                Left::Waiting(scheduler) => self.pick(scheduler, carrier, &mut current, switches),
                Left::Gone(running) => self.leave(running, carrier, &mut current, switches),
            };
        }
    }

    /// Runs one thread until it waits or ends.
    #[inline]
    fn run_thread(&self, mut running: Running, instance: &Instance, carrier: &Carrier) -> Left<'_> {
        let context = carrier.context();
        let mut served = self.go_on(&mut running);
        loop {
            match served {
                Served::FutexWait(mut scheduler) => {
                    if instance.stop.load(Ordering::Relaxed) {
                        return Left::Gone(running);
                    }
                    match scheduler.park(running.thread, running.frame, ticks()) {
                        Ok(()) => return Left::Waiting(scheduler),
                        // Not so far: the lock has been held since the wait was registered.
                        Err(woken) => running = woken,
                    }
                    drop(scheduler);
                    served = self.go_on(&mut running);
                    continue;
                }
                Served::Outcome(Outcome { tag: Outcome::READY, value }) => running.frame.value = value,
                Served::Outcome(Outcome { tag: Outcome::PARK, .. }) => {
                    let mut scheduler = self.lock();
                    if instance.stop.load(Ordering::Relaxed) {
                        return Left::Gone(running);
                    }
                    match scheduler.park(running.thread, running.frame, ticks()) {
                        Ok(()) => return Left::Waiting(scheduler),
                        Err(woken) => running = woken,
                    }
                    drop(scheduler);
                    if carrier.has_attention() && self.must_leave(instance) {
                        return Left::Gone(running);
                    }
                    served = self.go_on(&mut running);
                    continue;
                }
                Served::Outcome(Outcome { tag: Outcome::YIELD, value }) => {
                    let mut scheduler = self.lock();
                    if instance.stop.load(Ordering::Relaxed) {
                        return Left::Gone(running);
                    }
                    scheduler.requeue(running.thread, running.frame, value, ticks());
                    return Left::Waiting(scheduler);
                }
                Served::Outcome(_) => return Left::Gone(running),
            }
            if instance.stop.load(Ordering::Relaxed) || carrier.has_attention() && self.must_leave(instance) {
                return Left::Gone(running);
            }
            // SAFETY: the context is this carrier's, attached to this thread; the frame does not move; no lock is held.
            match unsafe { enter(context, &mut *running.frame) } {
                Exit::Hostcall => {
                    running.frame.wake = Wake::First;
                    running.frame.scratch = [0; 4];
                    served = self.serve_thread(&mut running.frame);
                }
                Exit::Fault => {
                    carrier.recover();
                    self.fault(instance, carrier);
                    return Left::Gone(running);
                }
            }
        }
    }

    /// What a thread that a carrier has just taken begins with: its call is done, or its handler runs again.
    fn go_on(&self, running: &mut Running) -> Served<'_> {
        match running.completed {
            true => Served::Outcome(Outcome::ready(running.frame.value)),
            false => self.serve_thread(&mut running.frame),
        }
    }

    /// Serves a thread's call.
    #[inline]
    fn serve_thread(&self, call: &mut Call) -> Served<'_> {
        if call.number == u64::from(FUTEX_WAIT) {
            return match futex_wait(self, call) {
                Ok(scheduler) => Served::FutexWait(scheduler),
                Err(outcome) => Served::Outcome(outcome),
            };
        }
        Served::Outcome(self.serve(call))
    }

    /// A signal found this carrier in trusted code. Looks whether the time of what it runs is up, ends it if so, and says
    /// whether it has to go.
    #[cold]
    fn must_leave(&self, instance: &Instance) -> bool {
        carrier::attention_given(self.this_carrier());
        self.end_if_late(instance);
        instance.stop.load(Ordering::Relaxed)
    }

    /// Ends an instance whose time, or whose run's, is up. Whether it was.
    fn end_if_late(&self, instance: &Instance) -> bool {
        let now = monotonic_ns();
        let run_deadline = self.run_deadline.load(Ordering::Relaxed);
        // Of both the earlier one is to blame.
        if now >= instance.deadline && instance.deadline <= run_deadline {
            self.time_up(instance.id);
        } else if now >= run_deadline {
            self.lock().events.push_back(Event::Deadline);
            self.end(instance, Err(Box::new(cancelled())));
        } else {
            return false;
        }
        true
    }

    /// The next thread to switch to at once, if nothing else is more urgent, and its instance if that is another one.
    fn pick(
        &self,
        mut scheduler: SchedulerGuard<'_>,
        carrier: &mut Carrier,
        current: &mut Option<Arc<Instance>>,
        switches: u32,
    ) -> Option<(Running, Option<Arc<Instance>>)> {
        let others_first = scheduler.done || !scheduler.events.is_empty() || switches.is_multiple_of(SWITCHES_IN_A_ROW);
        let next = if others_first { None } else { scheduler.next(carrier.index()) };
        let stays = next.is_some_and(|thread| {
            current.as_ref().is_some_and(|instance| instance.id == scheduler.instance_of(thread))
        });
        if !stays {
            // Still under the lock: from here on this carrier is not nudged for the instance it leaves, which may go.
            carrier.turn_away();
            CURRENT.set(std::ptr::null());
        }
        let Some(thread) = next else {
            drop(scheduler);
            *current = None;
            return None;
        };
        let picked = match stays {
            true => (scheduler.take(thread, ticks()), None),
            false => {
                let (running, instance) = take(&mut scheduler, thread, ticks());
                (running, Some(instance))
            }
        };
        if scheduler.has_queued() {
            self.wake_carrier(&mut scheduler);
        }
        self.see_to_timekeeper(scheduler);
        Some(picked)
    }

    /// A thread has ended: its entry is freed, and with the last thread of an ended instance everything else. Then the next
    /// one is picked.
    fn leave(
        &self,
        running: Running,
        carrier: &mut Carrier,
        current: &mut Option<Arc<Instance>>,
        switches: u32,
    ) -> Option<(Running, Option<Arc<Instance>>)> {
        carrier.turn_away();
        CURRENT.set(std::ptr::null());
        *current = None;
        let (id, number) = (running.frame.instance, running.frame.thread);
        let mut scheduler = self.lock();
        scheduler.end_running(running.thread, running.frame, ticks());
        // `pick` takes the first, and calls carriers for the others.
        scheduler.wake(join_key(number), u64::MAX, Some(0), carrier.index()).goes_on_here();
        if scheduler.is_over(id) {
            self.reclaim(scheduler, id);
            scheduler = self.lock();
        }
        self.pick(scheduler, carrier, current, switches)
    }

    fn note_start(&self, instance: &Instance) {
        if instance.counters.started.load(Ordering::Relaxed) == 0 {
            let now = ticks();
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
        if !instance.stop.load(Ordering::Relaxed) && !self.end_if_late(instance) {
            // A signal that finds user code running has a cause. So there was none.
            let text = "jumped to the entry point of signal handlers";
            self.end(instance, Err(Box::new(Failure::new(FailureKind::Trap, text))));
        }
        // If its time was up, this is what it was doing. The thread is this carrier's still, so the instance is there.
        let timed_out = self.lock().instance(instance.id).is_some_and(|i| is_timeout(i.ending.as_ref()));
        if timed_out {
            let mut place = Failure::new(FailureKind::Timeout, "");
            fault::add_place_of_interrupt(instance, &fault, &mut place);
            let mut scheduler = self.lock();
            let ending = scheduler.instance_mut(instance.id).and_then(|i| i.ending.as_mut());
            if let Some(Err(failure)) = ending {
                (failure.ip, failure.backtrace) = (place.ip, place.backtrace);
            }
        }
    }

    /// An instance's time is up.
    pub(super) fn time_up(&self, id: u32) {
        let Some(instance) = self.instance(id) else { return };
        let timeout = instance.spec.timeout.unwrap_or_default();
        let mut failure = Failure::new(FailureKind::Timeout, format!("ran longer than {timeout:?}, its timeout"));
        // The stack is read under the lock, so that the thread stays where it is; what the addresses mean is found out after.
        let frames = {
            let scheduler = self.lock();
            match scheduler.running_of(id) {
                0 => scheduler.main_call(id).map(|call| fault::frames_of_call(&instance, call)),
                _ => None,
            }
        };
        if let Some(frames) = frames {
            fault::add_frames_of_call(&instance, &frames, &mut failure);
        }
        self.end(&instance, Err(Box::new(failure)));
    }

    /// Every thread waits, and instances wait to be started for which there is no place: what the threads wait for may be
    /// up to those.
    fn no_place_for_jobs(&self, id: u32) {
        let Some(instance) = self.instance(id) else { return };
        let waiting = self.lock().jobs.len();
        let what = if self.partition.keys().separate() { "protection keys" } else { "places" };
        let text = format!(
            "waits, as do all other instances; {waiting} more cannot be started, because those hold all {what} for instances. \
             Let fewer run at a time, or with \"isolation\": \"workflow\""
        );
        self.end(&instance, Err(Box::new(Failure::blamed(FailureKind::Deadlock, Blame::Workflow, text))));
    }
}

/// Puts a ready thread on the calling carrier, with its instance.
fn take(scheduler: &mut Scheduler<Arc<Instance>>, thread: ThreadIndex, now: u64) -> (Running, Arc<Instance>) {
    let instance = scheduler.instance(scheduler.instance_of(thread)).expect("a ready thread's instance is alive");
    let instance = instance.instance.clone();
    (scheduler.take(thread, now), instance)
}

fn is_timeout(ending: Option<&Result<(), Box<Failure>>>) -> bool {
    matches!(ending, Some(Err(failure)) if failure.kind == FailureKind::Timeout)
}

/// Serves all timers that are due; the instance whose time is up, if one is.
pub(super) fn serve_timers(scheduler: &mut Scheduler<Arc<Instance>>) -> Option<u32> {
    if scheduler.next_timer() == NEVER {
        return None;
    }
    let now = monotonic_ns();
    while let Some(due) = scheduler.fire(now) {
        if let Due::Instance(id) = due {
            return Some(id);
        }
    }
    None
}
