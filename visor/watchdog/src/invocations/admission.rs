//! Limits the number of invocations.
//!
//! ```text
//! request ─ admit ─▶ [ queue slot: runs or waits ] ─ run_permit ─▶ [ permit: runs ] ─▶ …
//!             └ none left: 429
//! ```
//!
//! There are as many permits as invocations may run, and as many queue slots as may run or wait. Permits are given in the
//! order of the requests for them.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::error::ApiError;

/// Limits how many invocations run, and how many wait.
pub(crate) struct Admission {
    slots: Arc<Semaphore>,
    permits: Arc<Semaphore>,
    concurrency: usize,
    total: usize,
}

/// The right to run or wait. It ends when this is dropped.
pub(crate) struct QueueSlot {
    _slot: OwnedSemaphorePermit,
    permits: Arc<Semaphore>,
}

/// The right to run.
pub(crate) type Turn = (QueueSlot, OwnedSemaphorePermit);

impl Admission {
    pub(crate) fn new(concurrency: usize, queue: usize) -> Admission {
        let concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS / 2);
        let total = concurrency + queue.min(Semaphore::MAX_PERMITS / 2);
        Admission {
            slots: Arc::new(Semaphore::new(total)),
            permits: Arc::new(Semaphore::new(concurrency)),
            concurrency,
            total,
        }
    }

    /// A queue slot, or 429.
    pub(crate) fn admit(&self) -> Result<QueueSlot, ApiError> {
        match self.slots.clone().try_acquire_owned() {
            Ok(slot) => Ok(QueueSlot { _slot: slot, permits: self.permits.clone() }),
            Err(_) => {
                let waiting = self.total - self.concurrency;
                let message = format!("{} invocations run and {waiting} wait, as many as may", self.concurrency);
                Err(ApiError::full(message, 1))
            }
        }
    }

    /// A queue slot for an invocation that is in no hurry: it waits for one.
    pub(crate) async fn wait(&self) -> QueueSlot {
        let slot = self.slots.clone().acquire_owned().await.expect("the semaphore is never closed");
        QueueSlot { _slot: slot, permits: self.permits.clone() }
    }

    /// The right to run at once, if nothing waits for that.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        Some((QueueSlot { _slot: slot, permits: self.permits.clone() }, permit))
    }

    /// How many run, and how many wait.
    pub(crate) fn load(&self) -> (usize, usize) {
        let running = self.concurrency - self.permits.available_permits();
        let admitted = self.total - self.slots.available_permits();
        (running, admitted.saturating_sub(running))
    }
}

impl QueueSlot {
    /// Waits for the permit to run. Dropping it lets the next invocation run.
    pub(crate) async fn run_permit(&self) -> OwnedSemaphorePermit {
        self.permits.clone().acquire_owned().await.expect("the semaphore is never closed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;

    #[tokio::test]
    async fn invocations_beyond_the_queue_are_refused() {
        let admission = Admission::new(1, 1);
        let first = admission.admit().expect("a queue slot");
        let permit = first.run_permit().await;
        let second = admission.admit().expect("a queue slot");
        assert_eq!(admission.load(), (1, 1));
        assert_eq!(admission.admit().map(drop).expect_err("full").status, StatusCode::TOO_MANY_REQUESTS);
        drop(permit);
        let permit = second.run_permit().await;
        drop(first);
        assert_eq!(admission.load(), (1, 0));
        assert!(admission.turn().is_none(), "one runs");
        assert!(admission.admit().is_ok());
        drop(permit);
        drop(second);
        let turn = admission.turn().expect("none runs");
        assert!(admission.turn().is_none());
        assert_eq!(admission.load(), (1, 0));
        drop(turn);
    }
}
