//! The scheduler by itself: no carrier, no clock, no user code. Miri runs these tests too.

#[cfg(not(miri))]
mod orders;
mod random;

use super::*;
use monohull_abi::module::Wake;
use monohull_trampoline::system::VectorState;
use std::collections::{HashMap, HashSet};

const KEY: u64 = 0x1000;
const INSTANCE: u32 = 1 << 8 | 3;

impl<I> Scheduler<I> {
    fn start_carriers(&mut self, count: usize) {
        self.carriers.begin();
        (1..count).for_each(|_| _ = self.carriers.start_one(count));
    }
}

/// A scheduler with one instance of some threads, all of them ready and queued.
fn with_threads(count: usize) -> (Scheduler<()>, Vec<ThreadIndex>) {
    let mut scheduler = Scheduler::new();
    scheduler.start_carriers(2);
    assert_eq!(scheduler.insert(INSTANCE, (), NEVER), Armed::IN_TIME);
    let threads = (0..count)
        .map(|i| {
            let stack = (i > 0).then_some(i as u32);
            let thread = scheduler.spawn(INSTANCE, stack, 0x5000 + i as u64, i as i64).expect("room");
            scheduler.enqueue(thread);
            thread
        })
        .collect();
    (scheduler, threads)
}

fn take_next(scheduler: &mut Scheduler<()>, carrier: usize) -> Running {
    let thread = scheduler.next(carrier).expect("a ready thread");
    scheduler.mark_running(thread, 1)
}

/// Has a running thread wait and park.
fn park(scheduler: &mut Scheduler<()>, running: Running, key: u64, deadline: u64) {
    let _ = scheduler.wait(running.thread, key, deadline);
    assert!(scheduler.park(running.thread, running.frame, 2).is_ok());
}

#[test]
fn a_new_thread_begins_with_its_value() {
    let (mut scheduler, _) = with_threads(2);
    for value in 0..2 {
        let running = take_next(&mut scheduler, 0);
        assert!(running.completed);
        assert_eq!((running.frame.value, running.frame.user_rsp), (value, 0x5000 + value as u64));
        assert_eq!(running.frame.instance, INSTANCE);
    }
    assert_eq!(scheduler.running_of(INSTANCE), 2);
    assert!(scheduler.next(0).is_none());
}

#[test]
fn a_woken_thread_is_handed_to_its_waker_with_the_value() {
    let (mut scheduler, threads) = with_threads(2);
    let waiter = take_next(&mut scheduler, 0);
    park(&mut scheduler, waiter, KEY, NEVER);
    let waker = take_next(&mut scheduler, 1);
    let Woken(count) = scheduler.wake(KEY, 1, Some(42), 1);
    assert_eq!(count, 1);
    assert!(!scheduler.has_queued() && scheduler.run_queue.has_any(2));
    scheduler.end_running(waker.thread, waker.frame, 3);
    let woken = take_next(&mut scheduler, 1);
    assert_eq!((woken.thread, woken.completed, woken.frame.value), (threads[0], true, 42));
}

#[test]
fn a_wake_up_between_wait_and_park_is_not_lost() {
    let (mut scheduler, _) = with_threads(1);
    let running = take_next(&mut scheduler, 0);
    let _ = scheduler.wait(running.thread, KEY, 100);
    let Woken(count) = scheduler.wake(KEY, u64::MAX, None, 1);
    assert_eq!(count, 1);
    let Err(running) = scheduler.park(running.thread, running.frame, 2) else { panic!("it was woken") };
    assert!(!running.completed);
    assert_eq!(running.frame.wake, Wake::Woken);
    assert!(!scheduler.will_change(), "its timer counts no more");
    assert!(scheduler.next(0).is_none() && scheduler.next(1).is_none(), "it is on its carrier, and in no queue");
}

#[test]
fn a_wait_ends_at_its_deadline_and_only_that_wait() {
    let (mut scheduler, threads) = with_threads(1);
    let running = take_next(&mut scheduler, 0);
    park(&mut scheduler, running, KEY, 100);
    scheduler.wake(KEY, 1, None, 0).continues_here();
    let running = take_next(&mut scheduler, 0);
    park(&mut scheduler, running, KEY, 200);
    assert!(matches!(scheduler.fire(150), Some(Due::Served)), "the timer of the first wait");
    assert!(scheduler.next(0).is_none());
    assert!(scheduler.fire(199).is_none());
    assert!(matches!(scheduler.fire(200), Some(Due::Served)));
    let running = take_next(&mut scheduler, 0);
    assert_eq!((running.thread, running.frame.wake), (threads[0], Wake::TimedOut));
    assert!(!running.completed);
}

#[test]
fn threads_of_an_ended_instance_are_retired_in_batches_and_it_is_over_after_the_last() {
    let (mut scheduler, _) = with_threads(2 * RETIRED_AT_ONCE);
    let running = take_next(&mut scheduler, 0);
    assert!(scheduler.end(INSTANCE, Ok(())) && !scheduler.end(INSTANCE, Ok(())));
    assert!(scheduler.spawn(INSTANCE, None, 0, 0).is_none(), "nothing starts in an instance that ends");
    let mut holds = 1;
    while scheduler.retire_some(INSTANCE) {
        holds += 1;
        assert!(!scheduler.is_over(INSTANCE));
    }
    assert_eq!((holds, scheduler.threads_of(INSTANCE)), (2, 1));
    assert!(!scheduler.is_over(INSTANCE), "one is on a carrier");
    scheduler.end_running(running.thread, running.frame, 5);
    assert!(scheduler.is_over(INSTANCE));
    let ended = scheduler.remove(INSTANCE).expect("it is there");
    assert_eq!((ended.run, ended.park), (4, 0));
    assert!(scheduler.next(0).is_none(), "the queue has only stale entries");
}

#[test]
fn the_number_of_a_thread_that_has_ended_names_no_other() {
    let (mut scheduler, threads) = with_threads(1);
    let number = scheduler.number(threads[0]);
    assert_eq!(scheduler.find(number, INSTANCE), Some(threads[0]));
    assert_eq!(scheduler.find(number, INSTANCE + 256), None, "it is of another instance");
    let running = take_next(&mut scheduler, 0);
    scheduler.end_running(running.thread, running.frame, 5);
    for _ in 0..100 {
        let thread = scheduler.spawn(INSTANCE, None, 0, 0).expect("room");
        assert_ne!(scheduler.number(thread), number);
        assert_eq!(scheduler.find(number, INSTANCE), None);
        let running = scheduler.mark_running(thread, 5);
        scheduler.end_running(running.thread, running.frame, 5);
    }
}

/// The rule behind every timer: setting one that is due before the sleepers wake is reported, and so is going to work while the
/// others sleep past the next.
#[test]
fn timers_that_idle_carriers_would_serve_late_are_announced() {
    let (mut scheduler, _) = with_threads(0);
    let announced = |armed: Armed| armed.carriers_late;
    assert!(!announced(scheduler.set_timer(500, TimerKind::Driver(0))), "all carriers are busy");
    assert_eq!(scheduler.carrier_sleeps(0), 500);
    assert!(!announced(scheduler.set_timer(700, TimerKind::Driver(1))));
    assert!(announced(scheduler.set_timer(300, TimerKind::Driver(2))));
    assert!(announced(scheduler.set_net_deadline(200)));
    scheduler.carrier_wakes(0);
    assert_eq!(scheduler.carrier_sleeps(0), 200);
    assert_eq!(scheduler.carrier_sleeps(1), 200);
    // One of two goes to work at the first timer; the other one has slept with the same knowledge.
    scheduler.carrier_wakes(0);
    while scheduler.fire(200).is_some() {}
    assert!(scheduler.hand_over_timers() == WakeUp::Nothing);
    scheduler.carrier_wakes(1);
    while scheduler.fire(700).is_some() {}
    assert_eq!(scheduler.carrier_sleeps(1), NEVER);
    assert!(announced(scheduler.set_timer(900, TimerKind::Driver(3))), "it sleeps for ever");
    assert!(scheduler.hand_over_timers() == WakeUp::Sleeper);
}

#[test]
fn the_timekeeper_is_needed_for_deadlines_that_no_carrier_watches() {
    let mut scheduler = Scheduler::new();
    scheduler.start_carriers(1);
    let _ = scheduler.insert(INSTANCE, (), 1000);
    let thread = scheduler.spawn(INSTANCE, None, 0, 0).expect("room");
    assert!(scheduler.needs_timekeeper(), "the instance is ready, and no carrier idle");
    let running = scheduler.mark_running(thread, 0);
    assert!(!scheduler.needs_timekeeper(), "its carrier's timer watches");
    park(&mut scheduler, running, KEY, NEVER);
    assert!(scheduler.needs_timekeeper());
    scheduler.carrier_sleeps(0);
    assert!(!scheduler.needs_timekeeper(), "an idle carrier serves timers");
    scheduler.carrier_wakes(0);
    scheduler.timekeeper = Timekeeper::Asleep(scheduler.timekeeper_wakes_at());
    assert!(!scheduler.set_timer(999, TimerKind::Driver(0)).timekeeper_late, "within its grace");
    scheduler.timekeeper = Timekeeper::Asleep(NEVER);
    assert!(scheduler.set_timer(998, TimerKind::Driver(0)).timekeeper_late);
    assert!(scheduler.end(INSTANCE, Ok(())));
    assert!(!scheduler.retire_some(INSTANCE));
    scheduler.remove(INSTANCE);
    scheduler.timekeeper = Timekeeper::Absent;
    assert!(!scheduler.needs_timekeeper());
}

#[test]
fn a_deadlock_is_reported_by_those_that_wait_for_modules_first() {
    let (mut scheduler, threads) = with_threads(2);
    let module_key = 1 << 63 | 7;
    let running = take_next(&mut scheduler, 0);
    park(&mut scheduler, running, KEY, NEVER);
    let running = take_next(&mut scheduler, 0);
    park(&mut scheduler, running, module_key, NEVER);
    assert_eq!(scheduler.a_waiting_instance(), Some(INSTANCE));
    assert!(!scheduler.will_change() && scheduler.break_deadlock());
    let running = take_next(&mut scheduler, 0);
    assert_eq!((running.thread, running.frame.wake), (threads[1], Wake::Deadlock));
    assert!(scheduler.next(0).is_none(), "the other one waits on");
}

/// Resources of a domain without cells, at a fixed time.
#[derive(Clone, Copy)]
struct Fixed {
    now: u64,
    poller: bool,
    halts_at: u64,
}

impl Resources for Fixed {
    type Lease = ();

    fn now(&self) -> u64 {
        self.now
    }

    fn ticks(&self) -> u64 {
        1
    }

    fn lease(&self, _: &InstanceConfig) -> Option<()> {
        None
    }

    fn has_lease(&self, _: &InstanceConfig) -> bool {
        false
    }

    fn suspends(&self) -> Option<std::time::Duration> {
        None
    }

    fn halts_at(&self) -> u64 {
        self.halts_at
    }

    fn has_answer(&self) -> bool {
        false
    }

    fn has_poller(&self) -> bool {
        self.poller
    }
}

#[test]
fn due_timers_and_events_go_before_threads_and_the_run_ends_everything() {
    let (mut scheduler, threads) = with_threads(1);
    let fixed = Fixed { now: 10, poller: false, halts_at: NEVER };
    let _ = scheduler.set_timer(10, TimerKind::Driver(7));
    let _ = scheduler.set_timer(20, TimerKind::Driver(8));
    scheduler.device_ready();
    assert!(matches!(scheduler.next_work(0, false, &fixed), Work::PollNetwork));
    assert!(matches!(scheduler.next_work(0, false, &fixed), Work::Deliver(Event::Timer { token: 7 })));
    let Work::Run(running, ()) = scheduler.next_work(0, false, &fixed) else { panic!("a thread is ready") };
    assert_eq!(running.thread, threads[0]);
    assert!(matches!(scheduler.next_work(1, false, &fixed), Work::Idle(20)));
    park(&mut scheduler, running, KEY, NEVER);
    assert!(matches!(scheduler.next_work(0, false, &fixed), Work::Idle(20)), "a timer is pending");
    scheduler.carrier_wakes(0);
    scheduler.finish();
    assert!(matches!(scheduler.next_work(0, false, &fixed), Work::Stop));
}

#[test]
fn the_end_of_an_instance_takes_turns_with_threads_and_comes_last_otherwise() {
    let (mut scheduler, _) = with_threads(3);
    let fixed = Fixed { now: 10, poller: false, halts_at: NEVER };
    scheduler.push_leaving(Leaving::Threads(INSTANCE));
    let mut order = String::new();
    while order.len() < 8 {
        assert!(scheduler.has_queued(), "other carriers are called");
        match scheduler.next_work(0, false, &fixed) {
            Work::Run(running, ()) => {
                order.push('t');
                park(&mut scheduler, running, KEY, NEVER);
            }
            Work::Leave(leaving) => {
                order.push('e');
                scheduler.push_leaving(leaving);
            }
            _ => panic!("there is work"),
        }
    }
    assert_eq!(order, "teteteee");
    assert!(scheduler.take_leaving().is_some());
    assert!(matches!(scheduler.next_work(1, false, &fixed), Work::Idle(NEVER)), "the other carrier works");
    assert!(matches!(scheduler.next_work(0, false, &fixed), Work::Deadlock));
}

#[test]
fn the_last_working_carrier_finds_the_deadlock() {
    let (mut scheduler, threads) = with_threads(1);
    let fixed = Fixed { now: 10, poller: false, halts_at: NEVER };
    let running = take_next(&mut scheduler, 0);
    park(&mut scheduler, running, KEY, NEVER);
    assert!(matches!(scheduler.next_work(1, false, &fixed), Work::Idle(NEVER)), "the other carrier works");
    assert!(matches!(scheduler.next_work(0, false, &fixed), Work::Deadlock));
    assert!(scheduler.break_deadlock());
    let Work::Run(running, ()) = scheduler.next_work(0, false, &fixed) else { panic!("a thread is ready") };
    assert_eq!((running.thread, running.frame.wake), (threads[0], Wake::Deadlock));
}

#[test]
fn working_carriers_check_for_events_now_and_then_unless_an_idle_one_polls() {
    let (mut scheduler, _) = with_threads(0);
    let fixed = Fixed { now: 10, poller: true, halts_at: NEVER };
    let mut checks = 0;
    for _ in 0..8 {
        scheduler.device_ready();
        let mut work = scheduler.next_work(0, false, &fixed);
        if matches!(work, Work::CheckEvents) {
            checks += 1;
            work = scheduler.next_work(0, true, &fixed);
        }
        assert!(matches!(work, Work::PollNetwork));
    }
    assert_eq!(checks, 2);
    assert!(matches!(scheduler.next_work(1, true, &fixed), Work::Idle(NEVER)));
    assert!(scheduler.begin_polling());
    for _ in 0..8 {
        scheduler.device_ready();
        assert!(matches!(scheduler.next_work(0, false, &fixed), Work::PollNetwork));
    }
}

/// Order, waits, timers and numbers are the same in another scheduler, and go on in the same way.
#[test]
fn a_recorded_scheduler_goes_on_as_the_first_would() {
    use crate::checkpoint::record::ThreadState;
    use monohull_abi::number::{FUTEX_WAIT, NANOSLEEP};
    let (mut first, threads) = with_threads(5);
    let wait = |scheduler: &mut Scheduler<()>, number: u32, address: u64, until: u64| {
        let mut running = take_next(scheduler, 0);
        running.frame.number = number.into();
        running.frame.args[0] = address;
        let key = if number == NANOSLEEP { monohull_abi::module::NO_KEY } else { address };
        park(scheduler, running, key, until);
    };
    wait(&mut first, FUTEX_WAIT, KEY, NEVER);
    wait(&mut first, FUTEX_WAIT, KEY, 700);
    wait(&mut first, NANOSLEEP, 5, 300);
    let _ = first.set_timer(900, TimerKind::Driver(4));
    let ended = take_next(&mut first, 0);
    assert!(first.record(|at| at).is_err(), "a thread runs");
    first.end_running(ended.thread, ended.frame, 3);
    let (of_instances, order) = first.record(|at| at + 1000).expect("nothing runs");
    let states: Vec<_> = of_instances[0].1.iter().map(|thread| thread.state).collect();
    assert!(states.contains(&ThreadState::Waits { until: Some(1700) }) && states.contains(&ThreadState::Returns(4)));

    let mut second = Scheduler::new();
    second.start_carriers(2);
    let _ = second.insert(INSTANCE, (), NEVER);
    second.adopt(&of_instances, &order, |at| at - 1000);
    assert_eq!(second.record(|at| at + 1000).expect("nothing runs"), (of_instances, order));
    assert!(second.will_change() && second.is_at_rest());
    for scheduler in [&mut first, &mut second] {
        let ready = take_next(scheduler, 0);
        assert_eq!((ready.frame.value, ready.frame.thread), (4, scheduler.number(threads[4])));
        assert!(scheduler.next(0).is_none(), "the others wait");
        assert!(matches!(scheduler.fire(300), Some(Due::Served)));
        let slept = take_next(scheduler, 0);
        assert_eq!((slept.frame.wake, slept.frame.number), (Wake::TimedOut, NANOSLEEP.into()));
        let Woken(count) = scheduler.wake(KEY, 1, Some(0), 0);
        assert_eq!((count, take_next(scheduler, 0).thread), (1, threads[0]), "the first that came");
        assert!(matches!(scheduler.fire(700), Some(Due::Served)));
        assert_eq!(take_next(scheduler, 0).thread, threads[1]);
        let new = scheduler.spawn(INSTANCE, Some(9), 0, 0).expect("room");
        assert_ne!(scheduler.number(new), scheduler.number(threads[3]));
    }
    assert_eq!(
        first.threads.free().map(|t| first.number(t)).collect::<Vec<_>>(),
        second.threads.free().map(|t| second.number(t)).collect::<Vec<_>>()
    );
}

/// No carrier takes a thread; the last that comes back captures, and the others wait no longer than the limit.
#[test]
fn a_halt_is_over_when_the_last_carrier_is_back_or_the_limit_has_passed() {
    let (mut scheduler, threads) = with_threads(2);
    let before = Fixed { now: 9, poller: false, halts_at: 10 };
    let Work::Run(running, ()) = scheduler.next_work(0, false, &before) else { panic!("it is not yet time") };
    let now = Fixed { now: 12, ..before };
    let limit = 12 + HALT_LIMIT_NS;
    assert!(matches!(scheduler.next_work(1, false, &now), Work::Idle(until) if until == limit));
    assert!(scheduler.switch(0, Some(INSTANCE), 1, &now).is_none(), "there is a ready thread");
    assert!(!scheduler.is_halted());
    scheduler.requeue_interrupted(running, 2);
    assert!(matches!(scheduler.next_work(0, false, &now), Work::Halt));
    assert!(scheduler.is_halted());
    scheduler.push_event(Event::Begin);
    assert!(!scheduler.is_halted(), "it is to be delivered first");
    assert!(matches!(scheduler.next_work(0, false, &now), Work::Deliver(Event::Begin)));
    // It was captured, or could not be.
    scheduler.end_halt();
    let never = Fixed { halts_at: NEVER, ..now };
    let Work::Run(running, ()) = scheduler.next_work(0, false, &never) else { panic!("a thread is ready") };
    assert_eq!(running.thread, threads[1]);
    let late = Fixed { now: limit, ..now };
    scheduler.carrier_wakes(1);
    assert!(matches!(scheduler.next_work(1, false, &now), Work::Idle(until) if until == limit));
    scheduler.carrier_wakes(1);
    assert!(matches!(scheduler.next_work(1, false, &late), Work::GiveUpHalt));
    assert!(matches!(scheduler.next_work(1, false, &never), Work::Run(running, ()) if running.thread == threads[0]));
}

/// Resources of a domain that is suspended whenever it waits for 5 ns or longer, but not before a time.
#[derive(Clone, Copy)]
struct Suspending {
    now: u64,
    from: u64,
}

impl Resources for Suspending {
    type Lease = ();

    fn now(&self) -> u64 {
        self.now
    }

    fn ticks(&self) -> u64 {
        1
    }

    fn lease(&self, _: &InstanceConfig) -> Option<()> {
        None
    }

    fn has_lease(&self, _: &InstanceConfig) -> bool {
        false
    }

    fn suspends(&self) -> Option<std::time::Duration> {
        Some(std::time::Duration::from_nanos(5))
    }

    fn suspends_from(&self) -> u64 {
        self.from
    }

    fn halts_at(&self) -> u64 {
        NEVER
    }

    fn has_answer(&self) -> bool {
        false
    }

    fn has_poller(&self) -> bool {
        false
    }
}

/// What is in the way of a capture stays there while nothing happens: it is not tried again before that, and then after a pause.
#[test]
fn a_refused_capture_is_tried_again_when_a_thread_has_run_or_a_timer_has_fired() {
    let wait_for_event = |scheduler: &mut Scheduler<()>, deadline| {
        let mut running = take_next(scheduler, 0);
        running.frame.number = monohull_abi::number::EVENT_WAIT.into();
        park(scheduler, running, KEY, deadline);
    };
    let (mut scheduler, _) = with_threads(1);
    let first = Suspending { now: 10, from: 0 };
    wait_for_event(&mut scheduler, 100);
    assert!(matches!(scheduler.next_work(1, false, &first), Work::Idle(100)), "the other carrier works");
    assert!(matches!(scheduler.next_work(0, false, &first), Work::Suspend));
    scheduler.refuse();
    assert!(matches!(scheduler.next_work(0, false, &first), Work::Idle(100)), "nothing has happened");
    scheduler.carrier_wakes(0);
    let later = Suspending { now: 100, from: 150 };
    let Work::Run(running, ()) = scheduler.next_work(0, false, &later) else { panic!("its time is up") };
    assert_eq!(running.frame.wake, Wake::TimedOut);
    scheduler.requeue(running.thread, running.frame, 0, 2);
    wait_for_event(&mut scheduler, NEVER);
    assert!(matches!(scheduler.next_work(0, false, &later), Work::Idle(150)), "an event may arrive");
    scheduler.carrier_wakes(0);
    let now = Suspending { now: 150, ..later };
    assert!(matches!(scheduler.next_work(0, false, &now), Work::Suspend));
    scheduler.refuse();
    assert!(matches!(scheduler.next_work(0, false, &now), Work::Deadlock), "it can neither go on nor be suspended");
    let _ = scheduler.set_timer(150, TimerKind::Run);
    assert!(matches!(scheduler.next_work(0, false, &now), Work::Deliver(_)));
    assert!(matches!(scheduler.next_work(0, false, &now), Work::Suspend), "a timer has fired");
}

/// Whatever is due or ready waits, and none of that time is counted as a thread's.
#[test]
fn a_domain_that_stands_still_does_nothing_until_it_goes_on() {
    let (mut scheduler, threads) = with_threads(1);
    let early = Fixed { now: 5, poller: false, halts_at: NEVER };
    let Work::Run(running, ()) = scheduler.next_work(0, false, &early) else { panic!("it is ready") };
    park(&mut scheduler, running, KEY, 10);
    let _ = scheduler.set_timer(10, TimerKind::Driver(7));
    let _ = scheduler.set_timer(11, TimerKind::Run);
    scheduler.stand_still();
    let late = Fixed { now: 20, ..early };
    for carrier in 0..2 {
        assert!(matches!(scheduler.next_work(carrier, false, &late), Work::Idle(NEVER)));
    }
    assert!(matches!(scheduler.timekeeper_work(&late), Work::Idle(NEVER)));
    scheduler.drop_run_timers();
    scheduler.go_on_here();
    scheduler.carrier_wakes(0);
    assert!(matches!(scheduler.next_work(0, false, &late), Work::Deliver(Event::Timer { token: 7 })));
    let Work::Run(running, ()) = scheduler.next_work(0, false, &late) else { panic!("its wait is over") };
    assert_eq!((running.thread, running.frame.wake), (threads[0], Wake::TimedOut));
    assert_eq!(scheduler.threads[threads[0]].park, 0);
    assert!(scheduler.live_timers().next().is_none(), "the run's time is not limited any more");
}

fn some_registers() -> Registers {
    let parts = (0x1234, 0x5678, 2);
    let extended = [0; monohull_trampoline::system::interrupted::EXTENDED];
    Registers::of_parts(parts, &[7; 15], &extended, VectorState::Sse).expect("registers")
}

/// A report that asks what an instance was doing is about the thread that computes, not about the main thread that waits for it.
#[test]
fn the_place_of_an_instance_is_that_of_a_thread_that_was_interrupted() {
    let (mut scheduler, _) = with_threads(2);
    let [main, mut other] = [0, 1].map(|carrier| take_next(&mut scheduler, carrier));
    assert!(main.stack.is_none() && other.stack.is_some());
    scheduler.requeue(main.thread, main.frame, 0, 2);
    assert!(scheduler.last_place(INSTANCE).is_some_and(|(_, registers)| registers.is_none()));
    other.registers = Some(Box::new(some_registers()));
    scheduler.requeue_interrupted(other, 2);
    assert!(scheduler.last_place(INSTANCE).is_some_and(|(_, registers)| registers == Some(&some_registers())));
}

/// What an interrupted thread has in its registers comes back with it, once.
#[test]
fn an_interrupted_thread_goes_behind_the_others_with_its_registers() {
    let (mut scheduler, threads) = with_threads(2);
    let mut running = take_next(&mut scheduler, 0);
    let registers = some_registers();
    running.registers = Some(Box::new(registers.clone()));
    scheduler.requeue_interrupted(running, 2);
    assert_eq!(
        scheduler.last_place(INSTANCE).map(|(call, registers)| (call.user_rsp, registers.cloned())),
        Some((0x5678, Some(registers.clone())))
    );
    let other = take_next(&mut scheduler, 0);
    assert_eq!((other.thread, other.registers.is_none()), (threads[1], true));
    let again = take_next(&mut scheduler, 1);
    assert_eq!((again.thread, again.registers.as_deref()), (threads[0], Some(&registers)));
    assert!(again.completed && again.frame.user_rsp == 0x5678);
    scheduler.end_running(again.thread, again.frame, 3);
    let reused = scheduler.spawn(INSTANCE, None, 0x9000, 1).expect("room");
    assert!(scheduler.threads[reused].registers.is_none());
}
