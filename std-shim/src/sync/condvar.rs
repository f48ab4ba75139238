//! Condition variables: a counter of notifications, which waiters wait to see changed.

use super::mutex::MutexGuard;
use super::poison::LockResult;
use crate::time::{Duration, Instant};
use crate::{fmt, sys};
use core::mem::ManuallyDrop;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

/// Waits for something to become true of a mutex' data.
#[derive(Default)]
pub struct Condvar {
    /// Counts notifications. A waiter read it while it held the mutex, so it cannot miss one.
    notified: AtomicU32,
    /// Number of waiting threads: without any, a notification costs nothing.
    waiting: AtomicU32,
}

/// Whether a wait ended because its time was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time was over.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Condvar {
        Condvar { notified: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    /// Unlocks, waits for a notification, locks again. May return without one.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        Ok(self.park(guard, None).0)
    }

    /// Waits while `condition` is true.
    pub fn wait_while<'a, T, F>(&self, guard: MutexGuard<'a, T>, mut condition: F) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        let mut guard = guard;
        while condition(&mut guard) {
            guard = self.park(guard, None).0;
        }
        Ok(guard)
    }

    /// Waits at most for `timeout`.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (guard, notified) = self.park(guard, Some(timeout));
        Ok((guard, WaitTimeoutResult(!notified)))
    }

    /// Waits while `condition` is true, at most for `timeout`.
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        let start = Instant::now();
        let mut guard = guard;
        loop {
            if !condition(&mut guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            let Some(left) = timeout.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else {
                return Ok((guard, WaitTimeoutResult(true)));
            };
            guard = self.park(guard, Some(left)).0;
        }
    }

    /// Wakes one waiter, if there is one.
    pub fn notify_one(&self) {
        self.notify(1);
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.notify(u32::MAX);
    }

    fn notify(&self, most: u32) {
        if self.waiting.load(SeqCst) != 0 {
            self.notified.fetch_add(1, SeqCst);
            sys::futex_wake(&self.notified, most);
        }
    }

    /// False if the time ran out.
    fn park<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>, timeout: Option<Duration>) -> (MutexGuard<'a, T>, bool) {
        // The guard stays ours over the wait; only the lock itself is let go and taken again.
        let guard = ManuallyDrop::new(guard);
        let raw = guard.mutex().raw();
        let seen = self.notified.load(SeqCst);
        self.waiting.fetch_add(1, SeqCst);
        raw.unlock();
        let notified = sys::futex_wait(&self.notified, seen, timeout);
        self.waiting.fetch_sub(1, SeqCst);
        raw.lock();
        (ManuallyDrop::into_inner(guard), notified)
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
