//! Callbacks of asynchronous calls: after their end, and after the end of the server that owed them.

use std::sync::Arc;

use monohull_durable::InvocationId;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::invocations::callback::Callback;
use crate::service::Watchdog;

/// The most concurrent callbacks that an earlier server has not made. It is low, so that current calls come first.
const LATE_CALLBACKS: usize = 16;

impl Watchdog {
    /// Calls back after the end of an invocation, if it has a callback. Nothing waits for that: a host that does not answer takes
    /// half a minute.
    pub(crate) fn call_back(self: &Arc<Self>, id: &InvocationId) {
        let (watchdog, id, guard) = (self.clone(), id.clone(), self.work.track());
        tokio::spawn(guard.around(async move { watchdog.call_back_as(&id, false).await }));
    }

    /// The same: it returns when the callback was made or given up. One that is late waits for those that are under way, and is not dropped.
    async fn call_back_as(self: &Arc<Self>, id: &InvocationId, is_late: bool) {
        let (watchdog, of) = (self.clone(), id.clone());
        let url = match spawn_blocking(move || watchdog.ledger.meta().owed_to(&of)).await {
            Ok(Ok(Some(url))) => url,
            Ok(Err(error)) => return tracing::warn!(%id, %error, "no callback"),
            Ok(Ok(None)) | Err(_) => return,
        };
        let known = match self.recall(id.as_str(), None).await {
            Ok(Some(known)) => known,
            Err(refusal) => return tracing::warn!(%id, why = refusal.error.message, "no callback"),
            Ok(None) => return,
        };
        let turn = match is_late && self.settings.callbacks_max > 0 {
            true => self.callbacks.acquire().await.ok(),
            false => self.callbacks.try_acquire().ok(),
        };
        if is_late && self.is_ending() {
            return;
        }
        match (Callback::to(url.as_bytes(), &self.settings.callbacks), turn) {
            (Ok(callback), Some(_turn)) => {
                if !callback.send(&known.invocation, || self.is_ending()).await {
                    return;
                }
            }
            (Ok(_), None) => tracing::warn!(%id, "no callback: too many are under way"),
            // The operator may have changed their mind.
            (Err(refusal), _) => tracing::warn!(%id, why = refusal.error.message, "no callback"),
        }
        let (watchdog, of) = (self.clone(), id.clone());
        let paid = spawn_blocking(move || watchdog.ledger.meta().paid(&of)).await;
        if let Ok(Err(error)) = paid {
            tracing::warn!(%id, %error, "a callback may come twice");
        }
    }

    /// Makes the callbacks that an earlier server owed. What is not made before the shutdown remains for the next server.
    pub(crate) async fn call_back_late(self: Arc<Self>, owed: Vec<InvocationId>) {
        let turns = Arc::new(Semaphore::new(LATE_CALLBACKS));
        for id in owed {
            let turn = turns.clone().acquire_owned().await.expect("the semaphore is never closed");
            if self.is_ending() {
                return;
            }
            let (watchdog, guard) = (self.clone(), self.work.track());
            tokio::spawn(async move {
                let _held = (turn, guard);
                watchdog.call_back_as(&id, true).await;
            });
        }
    }
}
