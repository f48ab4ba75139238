//! Counts tasks, and waits until none is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// A number of running tasks.
#[derive(Default)]
pub(crate) struct TaskTracker {
    running: AtomicUsize,
    /// All that have ever begun.
    begun: AtomicUsize,
    idle: Notify,
}

/// One running task; it ends when this is dropped.
pub(crate) struct TaskGuard(Arc<TaskTracker>);

impl TaskTracker {
    /// Counts a task that begins.
    pub(crate) fn track(self: &Arc<Self>) -> TaskGuard {
        self.running.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        TaskGuard(self.clone())
    }

    /// How many are running, and how many have ever begun.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.running.load(Ordering::SeqCst), self.begun.load(Ordering::SeqCst))
    }

    /// Returns when no task is running.
    pub(crate) async fn wait_idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            // From here on a notification is not missed.
            idle.as_mut().enable();
            if self.running.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }
}

impl TaskGuard {
    /// Counts a task as long as this takes.
    pub(crate) async fn around<T>(self, task: impl Future<Output = T>) -> T {
        task.await
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
