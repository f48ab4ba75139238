//! Waiting for what threads of the runtime bring about: the standard input, answers of servers, addresses of names; and for sockets together
//! with that.
//!
//! ```text
//!   program waits for      by
//!   changes                a condition, which a thread notifies
//!   sockets                a queue of the system
//!   both                   a queue of the system, to which a thread posts
//! ```

use crate::errno::WasiError;
use crate::sockets::{Queue, Socket, post};
use alloc::sync::Arc;
use alloc::vec::Vec;
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

/// The queue in which the program waits for sockets as well.
static WAITING: Mutex<Option<u64>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Option<u64>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something has happened, which is known by now to those that ask.
pub(super) fn tell() {
    // What looks at this time has not seen it, and has the lock until it waits.
    if let Some(queue) = *lock() {
        post(queue);
    }
    CHANGED.notify_all();
}

/// Waits until something has happened, at most so many ns.
pub(super) fn wait(ns: u64, has_come: impl Fn() -> bool) {
    drop(CHANGED.wait_timeout_while(lock(), Duration::from_nanos(ns), |_| !has_come()));
}

/// The same, and until a socket is ready: what each is ready for then, as [`crate::sockets::wait`] has it.
pub(super) fn wait_with_sockets(
    sockets: &[(&Socket, u32)],
    ns: u64,
    has_come: impl Fn() -> bool,
) -> Result<Vec<u32>, WasiError> {
    let queue = Queue::new()?;
    *lock() = Some(queue.number());
    // What happens after this question is posted.
    let most = if has_come() { 0 } else { ns };
    let found = queue.wait_for(sockets, most);
    *lock() = None;
    found
}
