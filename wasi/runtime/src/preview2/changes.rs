//! Waiting for what threads of the runtime bring about: the standard input, answers of servers.

use alloc::sync::Arc;
use monohull_std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use monohull_std::time::Duration;

/// Something that a thread of the runtime brings about.
pub(super) trait Change: Send + Sync {
    /// Whether it has happened.
    fn has_come(&self) -> bool;
    /// Whether it can happen while the program waits.
    fn can_come(&self) -> bool;
}

/// One of several things that are waited for together.
pub(super) type Awaited = Arc<dyn Change>;

static WAITING: Mutex<()> = Mutex::new(());
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, ()> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something has happened, which is known by now to those that ask.
pub(super) fn tell() {
    // What looks at this time has not seen it, and has the lock until it waits.
    drop(lock());
    CHANGED.notify_all();
}

/// Waits until something has happened, at most so many ns.
pub(super) fn wait(ns: u64, has_come: impl Fn() -> bool) {
    drop(CHANGED.wait_timeout_while(lock(), Duration::from_nanos(ns), |()| !has_come()));
}
