//! How many invocations there may be.
//!
//! ```text
//! request ─ enter ─▶ [ place: runs or waits ] ─ turn ─▶ [ turn: runs ] ─▶ …
//!             └ none left: 429
//! ```
//!
//! There are as many turns as invocations may run, and as many places as may run or wait. Turns are given in the order
//! in which they were asked for.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::error::Refusal;

/// The door.
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    concurrency: usize,
    total: usize,
}

/// The right to run or wait; given back when dropped.
pub(crate) struct Place {
    _place: OwnedSemaphorePermit,
    turns: Arc<Semaphore>,
}

impl Admission {
    pub(crate) fn new(concurrency: usize, queue: usize) -> Admission {
        let concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS / 2);
        let total = concurrency + queue.min(Semaphore::MAX_PERMITS / 2);
        Admission {
            places: Arc::new(Semaphore::new(total)),
            turns: Arc::new(Semaphore::new(concurrency)),
            concurrency,
            total,
        }
    }

    /// A place, if there is one.
    pub(crate) fn enter(&self) -> Result<Place, Refusal> {
        match self.places.clone().try_acquire_owned() {
            Ok(place) => Ok(Place { _place: place, turns: self.turns.clone() }),
            Err(_) => {
                let waiting = self.total - self.concurrency;
                let message = format!("{} invocations run and {waiting} wait, as many as may", self.concurrency);
                Err(Refusal::full(message, 1))
            }
        }
    }

    /// How many run, and how many wait.
    pub(crate) fn load(&self) -> (usize, usize) {
        let running = self.concurrency - self.turns.available_permits();
        let inside = self.total - self.places.available_permits();
        (running, inside.saturating_sub(running))
    }
}

impl Place {
    /// Waits for a turn; it is over when what this returns is dropped.
    pub(crate) async fn turn(&self) -> OwnedSemaphorePermit {
        self.turns.clone().acquire_owned().await.expect("the semaphore is never closed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;

    #[tokio::test]
    async fn some_run_some_wait_the_rest_is_turned_away() {
        let door = Admission::new(1, 1);
        let first = door.enter().expect("a place");
        let turn = first.turn().await;
        let second = door.enter().expect("a place to wait");
        assert_eq!(door.load(), (1, 1));
        assert_eq!(door.enter().map(drop).expect_err("full").status, StatusCode::TOO_MANY_REQUESTS);
        drop(turn);
        let turn = second.turn().await;
        drop(first);
        assert_eq!(door.load(), (1, 0));
        assert!(door.enter().is_ok());
        drop(turn);
    }
}
