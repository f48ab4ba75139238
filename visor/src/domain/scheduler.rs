//! Who runs next: the ready queue, the waiting, the timers.
//!
//! ```text
//!             wait(key, deadline)                     wake(key) / deadline
//!   Running ────────────▶ Parking ──handler returns──▶ Parked ───────────▶ Ready ──▶ Running
//!                            │ wake                                          ▲
//!                            └────▶ Overtaken ── handler returns ── runs again at once
//! ```
//!
//! A thread registers its wait while its handler still holds the lock of whatever it waits for, so a wake-up cannot
//! fall between the two. A woken thread goes to its waker's *handoff* place: when the waker parks or ends, its carrier
//! goes on with the woken thread without touching the queue.

use super::Event;
use super::instance::{Instance, Roster, Spec};
use super::thread::{State, Thread, ThreadRef, Threads};
use super::waiting::Waiting;
use hashbrown::HashMap;
use monohull_abi::layout::CARRIER_MAX;
use monohull_abi::module::{NEVER, Wake};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering;

/// After this many handoffs in a row the ready queue gets its turn.
const HANDOFFS_IN_A_ROW: u32 = 64;

/// Everything that changes under the scheduler's lock.
pub(super) struct Scheduler {
    /// All control blocks.
    pub(super) threads: Threads,
    /// What is kept for each live instance, by id.
    pub(super) rosters: HashMap<u32, Roster, foldhash::fast::FixedState>,
    /// What the driver has not heard yet.
    pub(super) events: VecDeque<Event>,
    /// Instances waiting to be started.
    pub(super) jobs: VecDeque<Spec>,
    /// Carriers that have been started, and how many of them have nothing to do.
    pub(super) carriers: usize,
    /// See `carriers`.
    pub(super) idle: usize,
    /// Carriers that could not be set up.
    pub(super) lost: usize,
    /// A carrier has been called and has not looked yet.
    pub(super) called: bool,
    /// When the network is to be polled, at the latest (monotonic ns).
    pub(super) alarm: u64,
    /// The network is to be polled now.
    pub(super) frames: bool,
    /// When frames are looked for although nobody is told of them (monotonic ns).
    pub(super) look_for_frames: u64,
    /// Frames that arrive are told of.
    pub(super) device_armed: bool,
    /// Threads that wait for something outside.
    pub(super) waits_outside: usize,
    /// One of the idle carriers listens to what happens outside.
    pub(super) listening: bool,
    /// The run is over.
    pub(super) done: bool,
    /// Counts the looks for work, so that no kind of it is starved by another.
    pub(super) looks: u32,
    ready: VecDeque<ThreadRef>,
    handoff: [Option<ThreadRef>; CARRIER_MAX],
    handoffs: [u32; CARRIER_MAX],
    waiting: Waiting,
    timers: BinaryHeap<Reverse<Timer>>,
    /// Timers in the heap whose wait is over.
    stale: usize,
    /// Threads that wait with a deadline or for something outside, and driver's timers: what may change by itself.
    pending: usize,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct Timer {
    at: u64,
    what: TimerKind,
}

/// What a timer is for.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy, Debug)]
pub(super) enum TimerKind {
    /// The wait of a thread: number and count of its waits.
    Thread(u32, u32),
    /// The deadline of an instance.
    Instance(u32),
    /// The driver's own: it will go on by itself when this is due.
    Driver(u64),
    /// The deadline of the whole run.
    Run,
}

/// What a due timer asks for.
pub(super) enum Due {
    /// An instance's time is up.
    Instance(u32),
    /// Nothing more; threads and driver have been served.
    Served,
}

impl Scheduler {
    /// Nothing to do yet.
    pub(super) fn new() -> Scheduler {
        Scheduler {
            threads: Threads::default(),
            rosters: HashMap::default(),
            events: VecDeque::new(),
            jobs: VecDeque::new(),
            carriers: 0,
            idle: 0,
            lost: 0,
            called: false,
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
            timers: BinaryHeap::new(),
            stale: 0,
            pending: 0,
        }
    }

    /// A new thread of `instance`, ready to go on at `user_rsp` with `value`.
    pub(super) fn spawn(
        &mut self,
        instance: &Instance,
        stack: Option<u32>,
        user_rsp: u64,
        value: i64,
    ) -> Option<ThreadRef> {
        // Nothing starts in an instance that is being ended: its memory is about to go.
        let roster = self.rosters.get_mut(&instance.id).filter(|roster| roster.ending.is_none())?;
        let thread = self.threads.take()?;
        let block = get(thread);
        block.call.user_rsp = user_rsp;
        block.call.value = value;
        block.call.instance = instance.id;
        block.call.wake = Wake::First;
        block.instance = instance;
        block.stack = stack;
        block.state = State::Ready;
        block.completed = true;
        block.left_at = 0;
        block.run = 0;
        block.park = 0;
        block.position = roster.threads.len() as u32;
        roster.threads.push(thread);
        Some(thread)
    }

    /// Queues a ready thread.
    pub(super) fn enqueue(&mut self, thread: ThreadRef) {
        self.ready.push_back(thread);
    }

    /// Takes a thread that has ended out of its instance's list and frees its block.
    pub(super) fn retire(&mut self, thread: ThreadRef) {
        let block = get(thread);
        self.waiting.unlink(thread);
        self.forget_timer(thread);
        self.forget_outside(thread);
        // SAFETY: the instance is alive as long as it has threads.
        if let Some(instance) = unsafe { block.instance.as_ref() } {
            instance.counters.run.fetch_add(block.run, Ordering::Relaxed);
            if block.stack.is_none() {
                instance.counters.park.store(block.park, Ordering::Relaxed);
            }
        }
        if let Some(roster) = self.rosters.get_mut(&block.call.instance) {
            let position = block.position as usize;
            roster.threads.swap_remove(position);
            if let Some(moved) = roster.threads.get(position) {
                get(*moved).position = position as u32;
            }
        }
        self.threads.give(thread);
    }

    /// Registers what a running thread is about to wait for.
    pub(super) fn wait(&mut self, thread: ThreadRef, key: u64, deadline: u64) {
        let block = get(thread);
        block.state = State::Parking;
        block.completed = false;
        block.wait = block.wait.wrapping_add(1);
        self.waiting.link(thread, key);
        block.timed = deadline != NEVER;
        if block.timed {
            self.pending += 1;
            self.timers.push(Reverse(Timer { at: deadline, what: TimerKind::Thread(block.call.thread, block.wait) }));
        }
    }

    /// The same for something outside the domain, which may happen at any time.
    pub(super) fn wait_outside(&mut self, thread: ThreadRef, key: u64, deadline: u64) {
        self.wait(thread, key, deadline);
        get(thread).outside = true;
        self.pending += 1;
        self.waits_outside += 1;
    }

    /// The handler has returned "park": false if the thread was woken meanwhile and must go on.
    pub(super) fn park(&mut self, thread: ThreadRef) -> bool {
        let block = get(thread);
        if block.state == State::Overtaken {
            block.state = State::Running;
            return false;
        }
        block.state = State::Parked;
        true
    }

    /// Wakes up to `most` threads that wait for `key`. With `complete` their call is done with that value; otherwise
    /// their handlers run again. `carrier` gets the first one handed over.
    pub(super) fn wake(&mut self, key: u64, most: u64, complete: Option<i64>, carrier: usize) -> u64 {
        let mut woken = 0;
        let mut next = if most > 0 { self.waiting.first(key) } else { None };
        while let Some(thread) = next {
            woken += 1;
            next = if woken < most { Waiting::after(thread) } else { None };
            self.waiting.unlink(thread);
            self.resume(thread, Wake::Woken, complete, Some(carrier));
        }
        woken
    }

    /// The next thread for a carrier.
    pub(super) fn next(&mut self, carrier: usize) -> Option<ThreadRef> {
        let its_turn = self.handoffs[carrier] < HANDOFFS_IN_A_ROW || self.ready.is_empty();
        if its_turn
            && let Some(thread) = self.handoff[carrier].take()
            && get(thread).state == State::Ready
        {
            self.handoffs[carrier] += 1;
            return Some(thread);
        }
        self.handoffs[carrier] = 0;
        while let Some(thread) = self.ready.pop_front() {
            if get(thread).state == State::Ready {
                return Some(thread);
            }
        }
        // Nothing queued: take what another carrier was handed and has not got round to.
        let handed = |place: &mut Option<ThreadRef>| place.take().filter(|t| get(*t).state == State::Ready);
        self.handoff[..self.carriers].iter_mut().find_map(handed)
    }

    /// Whether something is queued for whoever comes.
    pub(super) fn has_queued(&self) -> bool {
        !self.ready.is_empty() || !self.events.is_empty()
    }

    /// Whether an idle carrier would find something to do: what is queued, or was handed to a carrier that is busy.
    pub(super) fn has_more(&self) -> bool {
        self.has_queued() || self.handoff[..self.carriers].iter().any(Option::is_some)
    }

    /// After a run: the events the driver has not heard; timers are dropped.
    pub(super) fn close(&mut self) -> VecDeque<Event> {
        self.timers.clear();
        self.alarm = NEVER;
        self.frames = false;
        self.look_for_frames = NEVER;
        self.pending = 0;
        self.waits_outside = 0;
        self.stale = 0;
        std::mem::take(&mut self.events)
    }

    /// Sets a timer for an instance or the driver.
    pub(super) fn set_timer(&mut self, at: u64, what: TimerKind) {
        self.pending += usize::from(matches!(what, TimerKind::Driver(_)));
        self.timers.push(Reverse(Timer { at, what }));
    }

    /// When the next timer is due.
    pub(super) fn next_timer(&self) -> Option<u64> {
        let alarm = Some(self.alarm.min(self.look_for_frames)).filter(|at| *at != NEVER);
        self.timers.peek().map(|Reverse(timer)| timer.at).into_iter().chain(alarm).min()
    }

    /// Serves one timer that is due at `now`.
    pub(super) fn fire(&mut self, now: u64) -> Option<Due> {
        if self.alarm <= now {
            self.alarm = NEVER;
            self.frames = true;
        }
        if self.look_for_frames <= now {
            self.look_for_frames = NEVER;
            self.frames = true;
        }
        let Reverse(timer) = *self.timers.peek()?;
        if timer.at > now {
            return None;
        }
        self.timers.pop();
        match timer.what {
            TimerKind::Instance(id) if self.rosters.contains_key(&id) => return Some(Due::Instance(id)),
            TimerKind::Instance(_) => self.stale = self.stale.saturating_sub(1),
            TimerKind::Run => self.events.push_back(Event::Deadline),
            TimerKind::Driver(token) => {
                self.pending -= 1;
                self.events.push_back(Event::Timer { token });
            }
            TimerKind::Thread(number, wait) => match self.threads.find(number) {
                Some(thread) if waits(thread, wait) => {
                    self.waiting.unlink(thread);
                    get(thread).timed = false;
                    self.pending -= 1;
                    self.resume(thread, Wake::TimedOut, None, None);
                }
                _ => self.stale = self.stale.saturating_sub(1),
            },
        }
        Some(Due::Served)
    }

    /// Whether something may change by itself: a timer that a thread or the driver waits for, or the world outside.
    pub(super) fn will_change(&self) -> bool {
        self.pending > 0
    }

    /// Everybody waits and nothing will change by itself. Wakes those who can be told so: first all that wait for a libos module
    /// (a slot nobody fills), then, if there are none, one thread of each instance. False if nobody waits at all.
    pub(super) fn break_deadlock(&mut self) -> bool {
        let mut in_modules = Vec::new();
        let mut others = Vec::new();
        for roster in self.rosters.values() {
            let parked = || roster.threads.iter().copied().filter(|t| get(*t).state == State::Parked);
            in_modules.extend(parked().filter(|t| !super::hostcall::core::is_core_key(get(*t).key)));
            others.extend(parked().take(1));
        }
        let victims = if in_modules.is_empty() { others } else { in_modules };
        for thread in &victims {
            self.waiting.unlink(*thread);
            self.resume(*thread, Wake::Nobody, None, None);
        }
        !victims.is_empty()
    }

    /// The thread's timed wait is over; its timer stays in the heap until it is due or they are swept.
    fn forget_timer(&mut self, thread: ThreadRef) {
        if !std::mem::replace(&mut get(thread).timed, false) {
            return;
        }
        self.pending -= 1;
        self.sweep_timers();
    }

    /// The thread does not wait for something outside any more.
    fn forget_outside(&mut self, thread: ThreadRef) {
        let waited = usize::from(std::mem::replace(&mut get(thread).outside, false));
        self.pending -= waited;
        self.waits_outside -= waited;
    }

    /// One timer more has become stale (its wait is over, or its instance has ended); when there are many they are dropped.
    pub(super) fn sweep_timers(&mut self) {
        self.stale += 1;
        if self.stale > 1024 && self.stale > self.timers.len() / 2 {
            let (threads, rosters) = (&self.threads, &self.rosters);
            self.timers.retain(|Reverse(timer)| match timer.what {
                TimerKind::Thread(number, wait) => threads.find(number).is_some_and(|t| get(t).timed && waits(t, wait)),
                TimerKind::Instance(id) => rosters.contains_key(&id),
                TimerKind::Driver(_) | TimerKind::Run => true,
            });
            self.stale = 0;
        }
    }

    fn resume(&mut self, thread: ThreadRef, why: Wake, complete: Option<i64>, carrier: Option<usize>) {
        self.forget_timer(thread);
        self.forget_outside(thread);
        let block = get(thread);
        block.call.wake = why;
        if let Some(value) = complete {
            block.call.value = value;
            block.completed = true;
        }
        if block.state == State::Parking {
            block.state = State::Overtaken;
            return;
        }
        block.state = State::Ready;
        match carrier {
            Some(carrier) if self.handoff[carrier].is_none() => self.handoff[carrier] = Some(thread),
            _ => self.ready.push_back(thread),
        }
    }
}

fn waits(thread: ThreadRef, wait: u32) -> bool {
    let block = get(thread);
    block.wait == wait && matches!(block.state, State::Parking | State::Parked)
}

/// The block behind a reference.
#[allow(clippy::mut_from_ref, reason = "blocks are shared by design; the scheduler's lock is what makes it sound")]
pub(super) fn get<'b>(thread: ThreadRef) -> &'b mut Thread {
    // SAFETY: blocks never move and live as long as the domain. Every caller holds the scheduler's lock, or is the
    // carrier on which this thread runs and touches only its call. No two references overlap in one function's use.
    unsafe { &mut *thread.0.as_ptr() }
}
