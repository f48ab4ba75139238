//! Asynchronous calls and the [`crate::invocations::journal`]: a call is acknowledged, and its result shown, only after it
//! has been recorded. The event loop does not wait for the disk.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::execution::run::Task;
use crate::http::error::ApiError;
use crate::invocations::callback::Callback;
use crate::invocations::history::History;
use crate::invocations::invocation::Invocation;
use crate::invocations::journal::{Found, Journal};
use crate::invocations::record::End;
use crate::invocations::status::Mode;
use crate::service::Watchdog;
use crate::store::error::StateError;

/// The most concurrent callbacks of calls from an earlier server. It is low, so that current calls come first.
const LATE_CALLBACKS: usize = 16;

/// A callback of a call that an earlier server accepted.
pub(crate) type LateCallback = (Arc<Invocation>, String);

/// Restores the calls of an earlier server. Returns those whose callback has not been made.
pub(crate) fn restore(history: &History, journal: &Journal, found: Vec<Found>) -> Vec<LateCallback> {
    let mut late = Vec::new();
    for Found { invocation, age, callback } in found {
        forget(journal, &history.recall(&invocation, age));
        late.extend(callback.map(|url| (invocation, url)));
    }
    late
}

fn forget(journal: &Journal, ids: &[String]) {
    if let Err(error) = journal.forget(ids) {
        tracing::warn!(%error, "the record of a forgotten call could not be removed");
    }
}

impl Watchdog {
    /// Records an asynchronous invocation, then starts it. This continues if the client disconnects.
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

    /// Records the result of an asynchronous invocation. Returns whether the result survives this server.
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
                tracing::warn!(id = invocation.id, why, "the result is not recorded, and is lost when the server ends");
                false
            }
        }
    }

    /// Remembers an invocation that has ended. Its report is counted; a long one on another thread.
    pub(crate) async fn remember(self: &Arc<Self>, invocation: &Arc<Invocation>) {
        let (watchdog, ended) = (self.clone(), invocation.clone());
        let remember = move || watchdog.history.end(&ended);
        let forgotten =
            if invocation.is_long() { spawn_blocking(remember).await.unwrap_or_default() } else { remember() };
        self.forget(forgotten);
    }

    /// Removes the records of forgotten calls.
    pub(crate) fn forget(self: &Arc<Self>, ids: Vec<String>) {
        if !ids.is_empty() {
            let watchdog = self.clone();
            spawn_blocking(move || forget(&watchdog.journal, &ids));
        }
    }

    /// Makes the callback for an invocation that has ended. Returns when it was made or given up.
    pub(crate) async fn call_back(self: &Arc<Self>, invocation: &Arc<Invocation>, callback: &Callback) {
        if callback.send(invocation, || self.is_ending()).await {
            self.called_back(invocation).await;
        }
    }

    /// Records that the callback needs no further attempt.
    pub(crate) async fn called_back(self: &Arc<Self>, invocation: &Invocation) {
        let id = invocation.id.clone();
        let noted = self.with_journal(move |journal| journal.callback_done(&id)).await;
        if let Err(refusal) = noted.and_then(|noted| noted.map_err(ApiError::not_kept)) {
            tracing::warn!(id = invocation.id, why = refusal.error.message, "a callback may come twice");
        }
    }

    /// Makes the callbacks that an earlier server has not made. What is not made before the shutdown remains for the next server.
    pub(crate) async fn call_back_late(self: Arc<Self>, late: Vec<LateCallback>) {
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
