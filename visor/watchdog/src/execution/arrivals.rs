//! Events that are sent to a leg while it runs: from its mailbox to its process.
//!
//! ```text
//!   events/NAME ─▶ mailbox ── the invocation has changed ─▶ what is new in the mailbox ─▶ process
//!                     └── removed by the commit that says that they were taken
//! ```
//!
//! The process gets a copy. Whatever happens to it, the mailbox has the event until a checkpoint does: a leg that is run again is given all
//! that the mailbox has, and it was given nothing else.

use std::future::pending;
use std::sync::Arc;

use monohull_durable::{Held, InvocationId, Mail, Meta, MetaError};
use monohull_engine::Event;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::spawn_blocking;

use crate::service::Watchdog;

/// What arrives in the mailbox of a leg.
pub(crate) struct Arrivals {
    watchdog: Arc<Watchdog>,
    held: Held,
    changes: Receiver<Option<InvocationId>>,
    /// The mailbox may have something new.
    look: bool,
    /// The number of the last event that the process has been given.
    given: u64,
}

impl Arrivals {
    /// Of a claimed invocation, behind the events that its process is given at the start.
    pub(crate) fn new(watchdog: &Arc<Watchdog>, held: &Held, events: &[Event]) -> Arrivals {
        let changes = watchdog.ledger.changes();
        // Something may have come since those were read.
        Arrivals { look: true, ..Arrivals::since(changes, watchdog, held, events) }
    }

    /// The same, where `changes` has been there since before the events were read.
    pub(crate) fn since(
        changes: Receiver<Option<InvocationId>>,
        watchdog: &Arc<Watchdog>,
        held: &Held,
        events: &[Event],
    ) -> Arrivals {
        let given = last(events).unwrap_or(0);
        Arrivals { watchdog: watchdog.clone(), held: held.clone(), changes, look: false, given }
    }

    /// The next events, as soon as there are some. They are given only once this says so: [`Arrivals::given`]. Dropping the future loses
    /// nothing.
    pub(crate) async fn next(&mut self) -> Vec<Event> {
        loop {
            while !self.look {
                self.look = match self.changes.recv().await {
                    Ok(Some(id)) => id == self.held.id,
                    Ok(None) | Err(RecvError::Lagged(_)) => true,
                    Err(RecvError::Closed) => pending().await,
                };
            }
            let (watchdog, held, given) = (self.watchdog.clone(), self.held.clone(), self.given);
            let mail = spawn_blocking(move || watchdog.ledger.reader().mail(&held, given)).await;
            self.look = false;
            match mail {
                Ok(Ok(mail)) if mail.is_empty() => {}
                Ok(Ok(mail)) => {
                    let event = |Mail { number, name, bytes }| Event { number, name, bytes };
                    return mail.into_iter().map(event).collect();
                }
                // It is another's, and nothing of it counts any more.
                Ok(Err(MetaError::Stale(_))) => pending().await,
                // The next change may find the ledger well.
                Ok(Err(error)) => tracing::warn!(id = %self.held.id, %error, "events wait for the next leg"),
                Err(error) => tracing::error!(%error, "arrivals"),
            }
        }
    }

    /// They could not be given: the mailbox is looked at once more.
    pub(crate) fn not_given(&mut self) {
        self.look = true;
    }

    /// These have been given.
    pub(crate) fn given(&mut self, events: &[Event]) {
        self.given = last(events).unwrap_or(self.given);
    }
}

fn last(events: &[Event]) -> Option<u64> {
    events.iter().map(|event| event.number).max()
}
