//! Counts what is going on, so that somebody can wait until nothing is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// A number of things that go on.
#[derive(Default)]
pub(crate) struct Tally {
    inside: AtomicUsize,
    empty: Notify,
}

/// One of them, until it is dropped.
pub(crate) struct Guard(Arc<Tally>);

impl Tally {
    /// Counts something in.
    pub(crate) fn enter(self: &Arc<Self>) -> Guard {
        self.inside.fetch_add(1, Ordering::SeqCst);
        Guard(self.clone())
    }

    /// Comes back when everything that was counted in is over.
    pub(crate) async fn emptied(&self) {
        loop {
            let mut empty = std::pin::pin!(self.empty.notified());
            // From here on no end is missed.
            empty.as_mut().enable();
            if self.inside.load(Ordering::SeqCst) == 0 {
                return;
            }
            empty.await;
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.0.inside.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.empty.notify_waiters();
        }
    }
}
