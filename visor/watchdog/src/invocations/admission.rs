//! Limits the number of invocations.
//!
//! ```text
//! request ─ admit ─▶ [ queue slot: runs or waits ] ─ run_permit ─▶ [ permit: runs ] ─▶ …
//!             └ none left: 429
//! ```
//!
//! There are as many permits as invocations may run, and as many queue slots as may run or wait. Permits are given in the
//! order of the requests for them. Every process that runs a function has one, also one that makes a template or that resets itself. An invocation
//! whose process has ended may keep its queue slot: its end waits for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::error::ApiError;

/// Limits how many invocations run, and how many wait.
pub(crate) struct Admission {
    slots: Arc<Semaphore>,
    permits: Arc<Semaphore>,
    /// How many have a queue slot and wait for a permit.
    queued: Arc<AtomicUsize>,
    concurrency: usize,
    total: usize,
}

/// The right to run or wait. It ends when this is dropped.
pub(crate) struct QueueSlot {
    _slot: OwnedSemaphorePermit,
    permits: Arc<Semaphore>,
    queued: Arc<AtomicUsize>,
}

/// Counts one that waits, as long as it does.
struct Queued<'s>(&'s AtomicUsize);

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The right to run. It is held for as long as there is a process that does.
pub(crate) type RunPermit = OwnedSemaphorePermit;

/// The right to run, with what it takes to ask for it again.
pub(crate) type Turn = (QueueSlot, RunPermit);

impl Admission {
    pub(crate) fn new(concurrency: usize, queue: usize) -> Admission {
        let concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS / 2);
        let total = concurrency + queue.min(Semaphore::MAX_PERMITS / 2);
        Admission {
            slots: Arc::new(Semaphore::new(total)),
            permits: Arc::new(Semaphore::new(concurrency)),
            queued: Arc::default(),
            concurrency,
            total,
        }
    }

    /// A queue slot, or 429.
    pub(crate) fn admit(&self) -> Result<QueueSlot, ApiError> {
        match self.slots.clone().try_acquire_owned() {
            Ok(slot) => Ok(self.queue_slot(slot)),
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
        self.queue_slot(slot)
    }

    fn queue_slot(&self, slot: OwnedSemaphorePermit) -> QueueSlot {
        QueueSlot { _slot: slot, permits: self.permits.clone(), queued: self.queued.clone() }
    }

    /// Waits for the right to run, for what is no invocation: it takes the place of none in the queue.
    pub(crate) async fn permit(&self) -> RunPermit {
        self.permits.clone().acquire_owned().await.expect("the semaphore is never closed")
    }

    /// The right to run at once, if nothing waits for that.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        Some((self.queue_slot(slot), permit))
    }

    /// How many may run.
    pub(crate) fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// How many run, and how many wait.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.concurrency - self.permits.available_permits(), self.queued.load(Ordering::Relaxed))
    }
}

impl QueueSlot {
    /// Waits for the permit to run. Dropping it lets the next invocation run.
    pub(crate) async fn run_permit(&self) -> RunPermit {
        self.queued.fetch_add(1, Ordering::Relaxed);
        let _queued = Queued(&self.queued);
        self.permits.clone().acquire_owned().await.expect("the semaphore is never closed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;
    use std::pin::Pin;
    use std::task::Poll;

    /// What a future has come to, if it is ready.
    async fn now<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// What a process that makes a template or resets itself has is a permit alone, and one whose end waits for the disk has a queue slot alone.
    #[tokio::test]
    async fn a_permit_alone_and_a_queue_slot_alone_are_no_invocation_that_waits() {
        let admission = Admission::new(1, 1);
        let other = admission.permit().await;
        let first = admission.admit().expect("a queue slot");
        assert_eq!(admission.load(), (1, 0));
        assert!(admission.turn().is_none(), "another one runs");
        {
            let mut waits = std::pin::pin!(first.run_permit());
            assert!(now(waits.as_mut()).await.is_none(), "another one runs");
            assert_eq!(admission.load(), (1, 1));
        }
        assert_eq!(admission.load(), (1, 0), "it waits no longer");
        drop(other);
        let permit = first.run_permit().await;
        assert_eq!(admission.load(), (1, 0));
        drop(permit);
        assert_eq!(admission.load(), (0, 0));
        let second = admission.admit().expect("the other queue slot");
        drop(second.run_permit().await);
    }

    #[tokio::test]
    async fn invocations_beyond_the_queue_are_refused() {
        let admission = Admission::new(1, 1);
        let first = admission.admit().expect("a queue slot");
        let permit = first.run_permit().await;
        let second = admission.admit().expect("a queue slot");
        let permit = {
            let mut waits = std::pin::pin!(second.run_permit());
            assert!(now(waits.as_mut()).await.is_none(), "one runs");
            assert_eq!(admission.load(), (1, 1));
            assert_eq!(admission.admit().map(drop).expect_err("full").status, StatusCode::TOO_MANY_REQUESTS);
            drop(permit);
            waits.await
        };
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
