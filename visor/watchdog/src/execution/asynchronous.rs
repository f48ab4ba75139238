//! Asynchronous calls and the [`crate::invocations::journal`]: nothing is acknowledged or told before it has been recorded, and the loop
//! that serves clients waits for no disk.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::execution::run::Task;
use crate::http::error::ApiError;
use crate::invocations::callback::Callback;
use crate::invocations::history::History;
use crate::invocations::invocation::{End, Invocation, Mode};
use crate::invocations::journal::{Found, Journal};
use crate::service::Watchdog;
use crate::store::error::StateError;

/// Callbacks of an earlier server that are under way at the same time: few, as the calls of now come first.
const LATE_CALLBACKS: usize = 16;

/// A callback of a call that an earlier server accepted.
pub(crate) type Late = (Arc<Invocation>, String);

/// Remembers the calls of an earlier server; gives those whose callback has not been made.
pub(crate) fn recall(history: &History, journal: &Journal, found: Vec<Found>) -> Vec<Late> {
    let mut late = Vec::new();
    for Found { invocation, age, callback } in found {
        forget(journal, &history.recall(&invocation, age));
        late.extend(callback.map(|url| (invocation, url)));
    }
    late
}

fn forget(journal: &Journal, ids: &[String]) {
    if let Err(error) = journal.forget(ids) {
        tracing::warn!(%error, "a call that is not remembered any more could not be removed");
    }
}

impl Watchdog {
    /// Begins an asynchronous invocation once it has been recorded. That goes on even if its client goes away meanwhile.
    pub(crate) async fn begin_recorded(self: &Arc<Self>, task: Task) -> Result<(), ApiError> {
        let (watchdog, guard) = (self.clone(), self.work.track());
        let accepted = tokio::spawn(async move {
            let (invocation, callback) = (task.invocation.clone(), task.callback.clone());
            watchdog
                .with_journal(move |journal| journal.accept(&invocation, callback.as_ref()))
                .await?
                .map_err(ApiError::not_kept)?;
            watchdog.begin(task);
            drop(guard);
            Ok(())
        });
        accepted.await.map_err(|error| ApiError::monohull(error.to_string()))?
    }

    /// Records what came of an invocation, if it is an asynchronous one. Whether it outlives this server.
    pub(crate) async fn record(self: &Arc<Self>, invocation: &Arc<Invocation>, end: &Arc<End>) -> bool {
        if invocation.mode == Mode::Sync {
            return false;
        }
        let (recorded, end) = (invocation.clone(), end.clone());
        let kept = self.with_journal(move |journal| journal.end(&recorded, &end)).await;
        match kept.and_then(|kept| kept.map_err(ApiError::not_kept)) {
            Ok(()) => true,
            Err(refusal) => {
                let why = refusal.error.message;
                tracing::warn!(
                    id = invocation.id,
                    why,
                    "its end is not recorded, and known only until the server ends"
                );
                false
            }
        }
    }

    /// Remembers an invocation that has ended. Its report is counted; a long one is where nobody else waits.
    pub(crate) async fn remember(self: &Arc<Self>, invocation: &Arc<Invocation>) {
        let (watchdog, ended) = (self.clone(), invocation.clone());
        let remember = move || watchdog.history.end(&ended);
        let forgotten =
            if invocation.is_long() { spawn_blocking(remember).await.unwrap_or_default() } else { remember() };
        self.forget(forgotten);
    }

    /// Removes the records of calls that are not remembered any more.
    pub(crate) fn forget(self: &Arc<Self>, ids: Vec<String>) {
        if !ids.is_empty() {
            let watchdog = self.clone();
            spawn_blocking(move || forget(&watchdog.journal, &ids));
        }
    }

    /// Tells somebody of an end. Is over when they have been told, or it was given up.
    pub(crate) async fn call_back(self: &Arc<Self>, invocation: &Arc<Invocation>, callback: &Callback) {
        if callback.send(invocation, || self.is_ending()).await {
            self.called_back(invocation).await;
        }
    }

    /// Nobody has to be told of an end any more.
    pub(crate) async fn called_back(self: &Arc<Self>, invocation: &Invocation) {
        let id = invocation.id.clone();
        let noted = self.with_journal(move |journal| journal.told(&id)).await;
        if let Err(refusal) = noted.and_then(|noted| noted.map_err(ApiError::not_kept)) {
            tracing::warn!(id = invocation.id, why = refusal.error.message, "a callback may come twice");
        }
    }

    /// Makes the callbacks that an earlier server did not get to. What is not made before the end is left to the next.
    pub(crate) async fn call_back_late(self: Arc<Self>, late: Vec<Late>) {
        let turns = Arc::new(Semaphore::new(LATE_CALLBACKS));
        for (invocation, url) in late {
            let turn = turns.clone().acquire_owned().await.expect("the semaphore is never closed");
            if self.is_ending() {
                return;
            }
            let (watchdog, guard) = (self.clone(), self.work.track());
            tokio::spawn(async move {
                let _held = (turn, guard);
                // The operator may have changed their mind.
                match Callback::to(url.as_bytes(), &watchdog.settings.callbacks) {
                    Ok(callback) => watchdog.call_back(&invocation, &callback).await,
                    Err(refusal) => {
                        tracing::warn!(id = invocation.id, why = refusal.error.message, "no callback");
                        watchdog.called_back(&invocation).await;
                    }
                }
            });
        }
    }

    async fn with_journal<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Journal) -> Result<T, StateError> + Send + 'static,
    ) -> Result<Result<T, StateError>, ApiError> {
        let watchdog = self.clone();
        let done = spawn_blocking(move || work(&watchdog.journal)).await;
        done.map_err(|error| ApiError::monohull(error.to_string()))
    }
}
