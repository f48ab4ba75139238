//! The scheduler with its lock, and how carriers and the timekeeper sleep until there is something to do.
//!
//! ```text
//!   idle carrier ─┬─ no other polls: epoll (sockets, device, wake-ups) ─▶ wakes the threads that waited
//!                 └─ else: condition variable
//! ```

use super::epoll_set::EpollSet;
use super::host_time::monotonic_ns;
use super::instance::Instance;
use super::poller::{FRAMES, Poller};
use super::sched::{Armed, Scheduler, TimerKind, WakeUp, Woken};
use super::this_thread;
use monohull_abi::module::NEVER;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// The scheduler, locked.
pub(crate) type SchedulerGuard<'s> = MutexGuard<'s, Scheduler<Arc<Instance>>>;

/// The scheduler, and where its carriers sleep.
pub(crate) struct Dispatcher {
    scheduler: Mutex<Scheduler<Arc<Instance>>>,
    /// Idle carriers wait here, with the scheduler's lock.
    sleepers: Sleepers,
    /// The timekeeper sleeps here, with the same lock.
    timekeeper: Sleepers,
    /// Made when the first socket is.
    poller: OnceLock<Poller>,
    /// When the run's time is up (monotonic ns); carriers in user code are interrupted then.
    run_deadline: AtomicU64,
}

impl Dispatcher {
    pub(crate) fn new() -> Dispatcher {
        Dispatcher {
            scheduler: Mutex::new(Scheduler::new()),
            sleepers: Sleepers::default(),
            timekeeper: Sleepers::default(),
            poller: OnceLock::new(),
            run_deadline: AtomicU64::new(NEVER),
        }
    }

    /// Locks the scheduler.
    pub(crate) fn lock(&self) -> SchedulerGuard<'_> {
        self.scheduler.lock().expect("the scheduler does not panic")
    }

    /// Where external events come from, if there is a socket or a device.
    pub(crate) fn poller(&self) -> Option<&Poller> {
        self.poller.get()
    }

    /// The same, made if there is none yet.
    pub(crate) fn open_poller(&self, epoll_set: Option<&EpollSet>) -> io::Result<&Poller> {
        if self.poller.get().is_none() {
            // If two are made at once, one is kept.
            let epoll_set = epoll_set.ok_or(io::ErrorKind::NotFound)?;
            let _ = self.poller.set(Poller::new(epoll_set.sockets.try_clone()?)?);
        }
        Ok(self.poller.get().expect("just set"))
    }

    /// When the run's time is up (monotonic ns), or [`NEVER`].
    pub(crate) fn run_deadline(&self) -> u64 {
        self.run_deadline.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub(crate) fn set_run_deadline(&self, at: u64) {
        self.run_deadline.store(at, Ordering::Relaxed);
        self.arm(at, TimerKind::Run);
    }

    /// The run's time is not limited any more.
    pub(crate) fn drop_run_deadline(&self) {
        self.run_deadline.store(NEVER, Ordering::Relaxed);
        self.lock().drop_run_timers();
    }

    /// Sets a timer, and wakes those that would serve it late.
    pub(crate) fn arm(&self, at: u64, what: TimerKind) {
        let mut scheduler = self.lock();
        let armed = scheduler.set_timer(at, what);
        self.announce(&mut scheduler, armed);
    }

    /// A timer has been set: wakes those that would serve it late.
    pub(crate) fn announce(&self, scheduler: &mut Scheduler<Arc<Instance>>, armed: Armed) {
        if armed.carriers_late {
            self.wake_carrier(scheduler);
        }
        if armed.timekeeper_late {
            self.wake_timekeeper();
        }
    }

    /// Threads have been woken: an idle carrier may take one. How many they are.
    pub(crate) fn notify(&self, scheduler: &mut Scheduler<Arc<Instance>>, Woken(count): Woken) -> u64 {
        if count > 0 {
            self.wake_carrier(scheduler);
        }
        count
    }

    /// There is work that an idle carrier could take.
    pub(crate) fn wake_carrier(&self, scheduler: &mut Scheduler<Arc<Instance>>) {
        let wake_up = scheduler.wake_one();
        self.send(wake_up);
    }

    /// Wakes a carrier as the scheduler has decided.
    pub(crate) fn send(&self, wake_up: WakeUp) {
        match (wake_up, self.poller()) {
            (WakeUp::Nothing, _) => {}
            (WakeUp::Poller, Some(poller)) => poller.wake(),
            (WakeUp::Poller | WakeUp::Sleeper, _) => self.sleepers.notify_one(),
        }
    }

    fn wake_timekeeper(&self) {
        self.timekeeper.notify_one();
    }

    /// Wakes all carriers and the timekeeper.
    pub(crate) fn wake_all(&self) {
        self.sleepers.notify_all();
        self.wake_timekeeper();
        if let Some(poller) = self.poller() {
            poller.wake();
        }
    }

    /// A carrier sleeps until it is woken, or until `until` (monotonic ns). One idle carrier polls for external events.
    pub(crate) fn sleep<'s>(
        &'s self,
        carrier: usize,
        until: u64,
        mut scheduler: SchedulerGuard<'s>,
    ) -> SchedulerGuard<'s> {
        let mut scheduler = match self.poller() {
            Some(poller) if scheduler.begin_polling() => {
                let until = Some(until).filter(|until| *until != NEVER);
                let mut scheduler = self.poll(poller, until, scheduler);
                if scheduler.end_polling() {
                    // Another one polls while this one works.
                    self.sleepers.notify_one();
                }
                scheduler
            }
            _ => self.sleepers.wait_until(scheduler, until),
        };
        scheduler.carrier_wakes(carrier);
        scheduler
    }

    /// The timekeeper sleeps until it is woken, or until `until` (monotonic ns).
    pub(crate) fn sleep_timekeeper<'s>(&'s self, until: u64, scheduler: SchedulerGuard<'s>) -> SchedulerGuard<'s> {
        self.timekeeper.wait_until(scheduler, until)
    }

    /// Handles the external events that have happened, without waiting for any.
    pub(crate) fn check_events<'s>(&'s self, scheduler: SchedulerGuard<'s>) -> SchedulerGuard<'s> {
        let Some(poller) = self.poller() else { return scheduler };
        let scheduler = self.poll(poller, Some(0), scheduler);
        if scheduler.is_polling() {
            // Another carrier has begun to poll meanwhile, and may have missed a wake-up that was consumed here.
            poller.wake();
        }
        scheduler
    }

    /// The same in the middle of a hostcall: other carriers serve the threads that are woken.
    pub(crate) fn collect_events(&self) {
        let Some(poller) = self.poller() else { return };
        let events = poller.wait(Some(0));
        let mut scheduler = self.lock();
        for key in poller.keys(&events) {
            match key {
                FRAMES => scheduler.device_ready(),
                key => {
                    let woken = scheduler.wake(key, u64::MAX, None, this_thread::carrier());
                    self.notify(&mut scheduler, woken);
                }
            }
        }
        if Poller::has_wake_up(&events) && scheduler.is_polling() {
            // It was for the carrier that polls.
            poller.wake();
        }
    }

    /// Waits for external events until `until` (monotonic ns), and wakes the threads that waited for them.
    pub(crate) fn poll<'s>(
        &'s self,
        poller: &Poller,
        until: Option<u64>,
        scheduler: SchedulerGuard<'s>,
    ) -> SchedulerGuard<'s> {
        drop(scheduler);
        let events = poller.wait(until);
        let mut scheduler = self.lock();
        for key in poller.keys(&events) {
            match key {
                FRAMES => scheduler.device_ready(),
                // This carrier looks for work next.
                key => scheduler.wake(key, u64::MAX, None, this_thread::carrier()).continues_here(),
            }
        }
        scheduler
    }
}

/// Threads that sleep with the scheduler's lock. To wake them while there are none takes no system call, which a run on one carrier would
/// make at each of its steps.
#[derive(Default)]
struct Sleepers {
    condition: Condvar,
    /// How many there are. Changed with the lock: what they sleep for was changed with the lock before they are woken, so that a thread
    /// which has not seen the change is counted by then.
    count: AtomicUsize,
}

impl Sleepers {
    /// Sleeps until it is woken, or until `until` (monotonic ns).
    fn wait_until<'s>(&self, scheduler: SchedulerGuard<'s>, until: u64) -> SchedulerGuard<'s> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let scheduler = if until == NEVER {
            self.condition.wait(scheduler).expect("scheduler")
        } else {
            let time = Duration::from_nanos(until.saturating_sub(monotonic_ns()));
            self.condition.wait_timeout(scheduler, time).expect("scheduler").0
        };
        self.count.fetch_sub(1, Ordering::SeqCst);
        scheduler
    }

    fn notify_one(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.condition.notify_one();
        }
    }

    fn notify_all(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.condition.notify_all();
        }
    }
}
