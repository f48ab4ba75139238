//! The run loop: user code as a virtual processor.
//!
//! A carrier takes a thread, enters it, serves its hostcall, and enters it again, until it parks, ends or has used up its
//! slice of time. Then the carrier takes the next one. Between two threads there is nothing on the carrier's stack but this
//! loop.

use super::carrier::Carrier;
use super::cell_pool::CellLease;
use super::dispatcher::SchedulerGuard;
use super::event::Event;
use super::fault_injection::{self, Mitigation};
use super::host_time::ticks;
use super::hostcall::{futex_wait, note_numbers};
use super::instance::{Instance, InstanceConfig};
use super::preemption;
use super::preemption::is_interrupt;
use super::sched::{Resources, Running, Work, wait_key};
use super::shared::Shared;
use super::thread_setup::CarrierError;
use super::threads::{self, EndProcessOnPanic};
use super::{fault, this_thread};
use monohull_abi::effect::EFFECT_DEPTH_MAX;
use monohull_abi::module::{Call, Outcome, Wake};
use monohull_abi::number::FUTEX_WAIT;
use monohull_report::failure::{Blame, Failure, FailureKind};
use monohull_trampoline::system::interrupted::{Place, UnknownRegisters};
use monohull_trampoline::system::{Exit, FaultInfo, enter};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Why a thread does not run any more.
enum Stopped<'s> {
    /// It waits, or is in the ready queue again. The scheduler's lock is passed on, so that the next thread is chosen under
    /// it.
    Waiting(SchedulerGuard<'s>),
    /// It was interrupted and is in the ready queue again, behind others: the carrier considers all there is to do.
    Interrupted(SchedulerGuard<'s>),
    /// It has ended. Its frame is returned.
    Ended(Running),
}

/// What is to be done about user code that a timer or another carrier has interrupted.
enum Interrupted {
    /// Its instance has ended.
    End,
    /// It was about to make the call that its frame holds now.
    Call,
    /// It has used up its slice of time. It goes on where it was.
    Preempt,
}

/// The result of a thread's call.
enum Served<'s> {
    /// What the handler has returned.
    Outcome(Outcome),
    /// The thread waits on a futex now; the scheduler's lock is passed on.
    FutexWait(SchedulerGuard<'s>),
}

impl Shared {
    /// Runs threads on the calling thread, which is a carrier, until the run is over.
    pub(super) fn run_carrier(&self, carrier: &mut Carrier) -> Result<(), CarrierError> {
        let _end = EndProcessOnPanic;
        if !self.options.time_stamp_counter {
            carrier.deny_time_stamp_counter()?;
        }
        if let Some(slice) = self.options.time_slice
            && !fault_injection::disabled(Mitigation::TimeSlices)
        {
            carrier.slice_time(slice);
        }
        let index = carrier.index();
        this_thread::become_carrier(index);
        loop {
            match self.next_work(index) {
                Work::Run(first, instance) => self.run_threads(first, instance, carrier),
                Work::Launch(config, place) => self.launch(config, place),
                Work::TimeUp(id) => self.time_up(id),
                Work::Leave(leaving) => self.continue_leaving(leaving),
                Work::PollNetwork => self.poll_network(),
                Work::Deliver(event) => self.deliver(event),
                Work::Suspend => self.suspend(),
                Work::Halt => self.halt(),
                Work::GiveUpHalt => self.give_up_halt(),
                Work::TakeAnswer => self.take_answer(),
                Work::TakeArrivals => self.take_arrivals(),
                Work::GoOn => self.follow_order(),
                Work::Stop => {
                    this_thread::end_carrier();
                    return Ok(());
                }
                Work::CheckEvents | Work::Deadlock | Work::SkipTo(_) | Work::Idle(_) => {
                    unreachable!("`next_work` does these itself")
                }
            }
        }
    }

    /// Calls the driver with an event.
    pub(super) fn deliver(&self, event: Event) {
        if let Some(driver) = self.driver.lock().expect("driver").as_mut() {
            driver.on_event(event, self);
        }
        if !self.lock().is_done() {
            self.cells.wipe_dirty();
        }
    }

    /// What a carrier does next, once there is something.
    fn next_work(&self, index: usize) -> Work<Arc<Instance>, CellLease> {
        let mut scheduler = self.lock();
        let mut checked = false;
        loop {
            let work = scheduler.next_work(index, checked, self);
            checked = matches!(work, Work::CheckEvents);
            scheduler = match work {
                Work::CheckEvents => self.sched.check_events(scheduler),
                Work::Deadlock => self.resolve_deadlock(scheduler),
                Work::SkipTo(at) => {
                    self.clock.skip_to(at);
                    // Others have been waiting for a time that is over now.
                    self.sched.wake_all();
                    scheduler
                }
                Work::Idle(until) => self.sched.sleep(index, self.clock.on_kernel(until), scheduler),
                Work::Stop => return Work::Stop,
                work => {
                    self.share_work(scheduler);
                    return work;
                }
            };
        }
    }

    /// A carrier goes to work: wakes another one for what else there is to do.
    fn share_work(&self, mut scheduler: SchedulerGuard<'_>) {
        let timers = scheduler.hand_over_timers();
        self.sched.send(timers);
        if scheduler.has_more(self) {
            self.call_carrier(scheduler);
        } else {
            self.ensure_timekeeper(scheduler);
        }
    }

    /// All threads wait and nothing changes by itself. Wakes threads that report the deadlock, or ends the run.
    fn resolve_deadlock<'s>(&'s self, mut scheduler: SchedulerGuard<'s>) -> SchedulerGuard<'s> {
        let has_pending = scheduler.pending() > 0;
        if has_pending && self.cells.retry_failed() > 0 {
            return scheduler;
        }
        if let Some(id) = scheduler.a_waiting_instance().filter(|_| has_pending) {
            drop(scheduler);
            self.no_cell_for_pending(id);
            return self.lock();
        }
        if !scheduler.break_deadlock() {
            // No thread is left: a driver that has not finished would wait for ever.
            scheduler.finish();
            self.sched.wake_all();
        }
        scheduler
    }

    /// There is work for another carrier: wakes an idle one, or starts one more.
    pub(super) fn call_carrier(&self, mut scheduler: SchedulerGuard<'_>) {
        if let Some(index) = scheduler.start_carrier(self.options.carriers) {
            // A thread is started without the lock: the kernel takes its time.
            drop(scheduler);
            self.start_carrier(index);
            return;
        }
        self.sched.wake_carrier(&mut scheduler);
        self.ensure_timekeeper(scheduler);
    }

    fn start_carrier(&self, index: usize) {
        let Some(shared) = self.weak.upgrade() else { return };
        let body = move || {
            let _end = EndProcessOnPanic;
            let attached = Carrier::new(&shared.space, index);
            if let Err(error) = attached.and_then(|mut carrier| shared.run_carrier(&mut carrier)) {
                shared.carrier_failed(index, &error);
            }
        };
        let started = preemption::allow_preempting_first()
            .map_err(|error| error.to_string())
            .and_then(|()| threads::spawn(format!("carrier-{index}"), None, body).map_err(|error| error.to_string()));
        match started {
            Ok(helper) => self.threads.push(helper),
            Err(error) => self.carrier_failed(index, &error),
        }
    }

    /// A carrier could not be set up. The others do its work; one of them may be waiting for this one to become idle.
    fn carrier_failed(&self, index: usize, error: &dyn std::fmt::Display) {
        tracing::error!("carrier {index} cannot run: {error}");
        self.lock().fail_carrier();
        self.sched.wake_all();
    }

    /// Runs threads, one after the other, until there is none or something else is to be done.
    fn run_threads(&self, first: Running, instance: Arc<Instance>, carrier: &mut Carrier) {
        let mut next = Some((first, Some(instance)));
        let mut current: Option<Arc<Instance>> = None;
        let mut switches = 0;
        while let Some((mut running, other)) = next.take() {
            if let Some(instance) = other {
                let deadline = self.clock.on_kernel(instance.deadline.min(self.sched.run_deadline()));
                let turned = carrier.bind_instance(&self.space, instance.key, &instance.stop, deadline);
                let instance = current.insert(instance);
                // SAFETY: `current` keeps it until the carrier unbinds it.
                unsafe { this_thread::enter_instance(instance) };
                if let Err(error) = turned {
                    let text = format!("its carrier cannot be readied: {error}");
                    self.end(instance, Err(Box::new(Failure::blamed(FailureKind::Load, Blame::Host, text))));
                    next = self.end_thread(running, carrier, &mut current, switches);
                    continue;
                }
                self.note_start(instance);
            }
            let Some(instance) = &current else { return };
            running.frame.carrier = carrier.index() as u32;
            carrier.put_on(instance.thread_header(running.stack));
            let left = self.run_thread(running, instance, carrier);
            switches += 1;
            next = match left {
                Stopped::Waiting(scheduler) => self.pick(scheduler, carrier, &mut current, switches),
                Stopped::Interrupted(scheduler) => {
                    put_down(carrier, &scheduler);
                    return;
                }
                Stopped::Ended(running) => self.end_thread(running, carrier, &mut current, switches),
            };
        }
    }

    /// Runs one thread until it waits or ends.
    #[inline]
    fn run_thread(&self, mut running: Running, instance: &Instance, carrier: &mut Carrier) -> Stopped<'_> {
        let context = carrier.context();
        let mut served = self.resume_call(&mut running);
        let mut entered = false;
        loop {
            match served {
                Served::FutexWait(mut scheduler) => {
                    if instance.stop.load(Ordering::Relaxed) {
                        return Stopped::Ended(running);
                    }
                    match scheduler.park(running.thread, running.frame, ticks()) {
                        Ok(()) => return Stopped::Waiting(scheduler),
                        // Does not happen today: the lock has been held since the wait was registered.
                        Err(woken) => running = woken,
                    }
                    drop(scheduler);
                    served = self.resume_call(&mut running);
                    continue;
                }
                Served::Outcome(Outcome { tag: Outcome::READY, value }) => running.frame.value = value,
                Served::Outcome(Outcome { tag: Outcome::PARK, .. }) => {
                    let mut scheduler = self.lock();
                    if instance.stop.load(Ordering::Relaxed) {
                        return Stopped::Ended(running);
                    }
                    match scheduler.park(running.thread, running.frame, ticks()) {
                        Ok(()) => return Stopped::Waiting(scheduler),
                        Err(woken) => running = woken,
                    }
                    drop(scheduler);
                    if carrier.has_attention() && self.must_stop(instance) {
                        return Stopped::Ended(running);
                    }
                    served = self.resume_call(&mut running);
                    continue;
                }
                Served::Outcome(Outcome { tag: Outcome::YIELD, value }) => {
                    let mut scheduler = self.lock();
                    if instance.stop.load(Ordering::Relaxed) {
                        return Stopped::Ended(running);
                    }
                    scheduler.requeue(running.thread, running.frame, value, ticks());
                    return Stopped::Waiting(scheduler);
                }
                Served::Outcome(_) => return Stopped::Ended(running),
            }
            if instance.stop.load(Ordering::Relaxed) {
                return Stopped::Ended(running);
            }
            if instance.watched.load(Ordering::Relaxed) {
                note_numbers(instance, &running.frame);
            }
            if carrier.has_attention() {
                if self.must_stop(instance) {
                    return Stopped::Ended(running);
                }
                carrier.slice_is_over(entered);
                if entered {
                    return self.preempt(running, instance);
                }
            }
            if let Some(registers) = &running.registers
                && let Err(error) = carrier.resume(&self.space, registers, &mut running.frame)
            {
                let text = format!("its carrier cannot be readied: {error}");
                self.end(instance, Err(Box::new(Failure::blamed(FailureKind::Load, Blame::Host, text))));
                return Stopped::Ended(running);
            }
            // SAFETY: the context is this carrier's, attached to this thread; the frame does not move; no lock is held.
            match unsafe { enter(context, &mut *running.frame) } {
                Exit::Hostcall => {
                    running.registers = None;
                    entered = true;
                }
                Exit::Fault => {
                    // SAFETY: the context is this carrier's; the handler that wrote it does not run any more.
                    let fault = unsafe { (*context).fault };
                    if is_interrupt(fault.signal) {
                        match self.interrupted(instance, carrier, &fault, &mut running) {
                            Interrupted::End => return Stopped::Ended(running),
                            Interrupted::Preempt => return self.preempt(running, instance),
                            Interrupted::Call => {
                                entered = true;
                                carrier.ask_for_attention();
                            }
                        }
                    } else {
                        running.registers = None;
                        if carrier.after_signal(&fault, |_| ()).is_none() {
                            self.end(instance, Err(Box::new(fault::describe_forged())));
                            return Stopped::Ended(running);
                        }
                        let stack = running.stack;
                        let Some(record) = fault::redirect(self, instance, stack, &fault, &mut running.frame) else {
                            self.end(instance, Err(Box::new(fault::describe(self, instance, &fault))));
                            return Stopped::Ended(running);
                        };
                        served = Served::Outcome(Outcome::ready(record));
                        continue;
                    }
                }
            }
            running.frame.wake = Wake::First;
            running.frame.scratch = [0; 4];
            served = self.serve_thread(&mut running.frame);
        }
    }

    /// The thread has used up its slice of time: it goes to the end of the ready queue.
    #[cold]
    fn preempt(&self, running: Running, instance: &Instance) -> Stopped<'_> {
        let mut scheduler = self.lock();
        if instance.stop.load(Ordering::Relaxed) {
            return Stopped::Ended(running);
        }
        scheduler.requeue_interrupted(running, ticks());
        Stopped::Interrupted(scheduler)
    }

    /// Continues the call of a thread that a carrier has just taken: it is done, or its handler runs again.
    fn resume_call(&self, running: &mut Running) -> Served<'_> {
        match running.completed {
            true => Served::Outcome(Outcome::ready(running.frame.value)),
            false => self.serve_thread(&mut running.frame),
        }
    }

    /// Serves a thread's call.
    #[inline]
    fn serve_thread(&self, call: &mut Call) -> Served<'_> {
        preemption::note_call(call.carrier as usize, call.number);
        if call.number == u64::from(FUTEX_WAIT) {
            return match futex_wait(self, call) {
                Ok(scheduler) => Served::FutexWait(scheduler),
                Err(outcome) => Served::Outcome(outcome),
            };
        }
        Served::Outcome(self.serve(call))
    }

    /// The next thread to switch to at once, if nothing else is more urgent, and its instance if that is another one.
    fn pick(
        &self,
        mut scheduler: SchedulerGuard<'_>,
        carrier: &mut Carrier,
        current: &mut Option<Arc<Instance>>,
        switches: u32,
    ) -> Option<(Running, Option<Arc<Instance>>)> {
        let picked = scheduler.switch(carrier.index(), current.as_ref().map(|instance| instance.id), switches, self);
        if !matches!(picked, Some((_, None))) {
            put_down(carrier, &scheduler);
        }
        let Some(picked) = picked else {
            drop(scheduler);
            *current = None;
            return None;
        };
        if scheduler.has_queued() {
            self.sched.wake_carrier(&mut scheduler);
        }
        self.ensure_timekeeper(scheduler);
        Some(picked)
    }

    /// A thread has ended: its entry is freed, and with the last thread of an ended instance everything else. Then the next
    /// one is picked.
    fn end_thread(
        &self,
        running: Running,
        carrier: &mut Carrier,
        current: &mut Option<Arc<Instance>>,
        switches: u32,
    ) -> Option<(Running, Option<Arc<Instance>>)> {
        if let Some(instance) = current
            && instance.stop.load(Ordering::Relaxed)
        {
            self.note_place_of_thread(instance, &running);
        }
        carrier.unbind_instance();
        this_thread::exit_instance();
        *current = None;
        let (id, number) = (running.frame.instance, running.frame.thread);
        let mut scheduler = self.lock();
        scheduler.end_running(running.thread, running.frame, ticks());
        // `pick` takes the first, and wakes carriers for the others.
        scheduler.wake(wait_key::join(number), u64::MAX, Some(0), carrier.index()).continues_here();
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
            self.milestones.entered(now);
        }
    }

    /// A timer or another carrier has taken user code off its carrier. Nothing here is believed because user code says it: the
    /// registers are the kernel's record, and user code's own affair. The place decides what becomes of them.
    #[cold]
    fn interrupted(
        &self,
        instance: &Instance,
        carrier: &mut Carrier,
        fault: &FaultInfo,
        running: &mut Running,
    ) -> Interrupted {
        let registers = carrier.after_signal(fault, |carrier| carrier.interrupted_registers(fault));
        if instance.stop.load(Ordering::Relaxed) || self.end_if_late(instance) {
            self.note_place_of_interrupt(instance, fault);
            return Interrupted::End;
        }
        let place = carrier.place(&self.space, fault.ip);
        carrier.slice_is_over(place != Place::Entering);
        let failure = match (registers, place) {
            (None, _) => fault::describe_forged(),
            // Where it goes on is known already, and it has not been there.
            (Some(_), Place::Entering) => return Interrupted::Preempt,
            (Some(Ok(registers)), Place::Leaving { saved }) => {
                registers.write_call(saved, &mut running.frame);
                running.registers = None;
                return Interrupted::Call;
            }
            (Some(Ok(registers)), Place::Elsewhere) if fault::is_own_code(instance, fault.ip) => {
                running.registers = Some(Box::new(registers));
                return Interrupted::Preempt;
            }
            (Some(Err(UnknownRegisters(which))), _) => {
                let text = format!(
                    "uses registers of the processor that cannot be kept while others run (components {which:#x} of XSAVE)"
                );
                Failure::new(FailureKind::Trap, text)
            }
            (Some(Ok(_)), _) => fault::describe_stray(self, instance, fault),
        };
        self.end(instance, Err(Box::new(failure)));
        Interrupted::End
    }

    /// All threads wait, and there is no cell for the pending instances, which may be what the threads wait for.
    fn no_cell_for_pending(&self, id: u32) {
        let Some(instance) = self.instance(id) else { return };
        let waiting = self.lock().pending();
        let what = if self.space.keys().separate() { "protection keys" } else { "places" };
        let text = format!(
            "waits, as do all other instances; {waiting} more cannot be started, because those hold all {what} for instances. \
             Let fewer run at a time, or with \"isolation\": \"workflow\""
        );
        self.end(&instance, Err(Box::new(Failure::blamed(FailureKind::Deadlock, Blame::Workflow, text))));
    }
}

impl Shared {
    /// How many cells have to be left when an instance has got one, so that there is always one for the handler of what those that have one
    /// ask for: one for each handler that may be above it.
    fn cells_kept_for_handlers(&self, config: &InstanceConfig) -> usize {
        if self.options.effects.is_empty() { 0 } else { EFFECT_DEPTH_MAX.saturating_sub(config.depth()) as usize }
    }
}

impl Resources for Shared {
    type Lease = CellLease;

    fn now(&self) -> u64 {
        self.clock.host_now()
    }

    fn ticks(&self) -> u64 {
        ticks()
    }

    fn lease(&self, config: &InstanceConfig) -> Option<CellLease> {
        if self.cells_kept_for_handlers(config) > 0 && !self.has_lease(config) {
            return None;
        }
        let own = self.cell_for_template(config);
        let own = own.and_then(|cell| self.cells.lease_reserved(cell, &config.image, config.stack_size));
        own.or_else(|| self.cells.lease(&config.image, config.stack_size))
    }

    fn has_lease(&self, config: &InstanceConfig) -> bool {
        match self.cells_kept_for_handlers(config) {
            0 => self.cells.has_free(),
            kept => self.cells.free() > kept,
        }
    }

    fn suspends(&self) -> Option<Duration> {
        self.options.suspend
    }

    fn suspends_from(&self) -> u64 {
        self.suspension.suspends_from()
    }

    fn skips_time(&self) -> bool {
        self.options.skip_time
    }

    fn halts_at(&self) -> u64 {
        self.suspension.halts_at()
    }

    fn has_answer(&self) -> bool {
        self.has_answer()
    }

    fn has_order(&self) -> bool {
        self.has_order()
    }

    fn receives_events(&self) -> bool {
        self.receives_events()
    }

    fn has_arrivals(&self) -> bool {
        self.has_arrivals()
    }

    fn has_poller(&self) -> bool {
        self.sched.poller().is_some()
    }
}

/// The carrier has nothing more to do with its instance. Still under the lock: from here on it is not preempted for the instance,
/// which may be reclaimed.
fn put_down(carrier: &mut Carrier, _locked: &SchedulerGuard<'_>) {
    carrier.unbind_instance();
    this_thread::exit_instance();
}
