//! Callbacks of durable invocations: after their end, and after the end of the server that owed them.

use std::sync::Arc;

use monohull_durable::{InvocationId, MetaError};
use tokio::task::spawn_blocking;

use crate::invocations::callback::Callback;
use crate::service::Watchdog;

impl Watchdog {
    /// Calls back after the end of a durable invocation, if it has a callback.
    pub(crate) async fn call_back_durable(self: &Arc<Self>, id: &InvocationId) {
        let (watchdog, of) = (self.clone(), id.clone());
        let owed = spawn_blocking(move || -> Result<Option<String>, MetaError> {
            let owed = watchdog.ledger.meta().owed()?;
            Ok(owed.into_iter().find(|(owed, _)| *owed == of).map(|(_, url)| url))
        });
        let Ok(Ok(Some(url))) = owed.await else { return };
        let Ok(Some(known)) = self.recall(id.as_str()).await else { return };
        match (Callback::to(url.as_bytes(), &self.settings.callbacks), self.callbacks.try_acquire()) {
            (Ok(callback), Ok(_turn)) => {
                if !callback.send(&known.invocation, || self.is_ending()).await {
                    return;
                }
            }
            (Ok(_), Err(_)) => tracing::warn!(%id, "no callback: too many are under way"),
            (Err(refusal), _) => tracing::warn!(%id, why = refusal.error.message, "no callback"),
        }
        let (watchdog, of) = (self.clone(), id.clone());
        let paid = spawn_blocking(move || watchdog.ledger.meta().paid(&of)).await;
        if let Ok(Err(error)) = paid {
            tracing::warn!(%id, %error, "a callback may come twice");
        }
    }

    /// Makes the calls back that an earlier server has not made.
    pub(crate) async fn call_back_late_durable(self: Arc<Self>) {
        let watchdog = self.clone();
        let owed = spawn_blocking(move || watchdog.ledger.meta().owed()).await;
        let Ok(Ok(owed)) = owed.inspect_err(|error| tracing::warn!(%error, "callbacks")) else { return };
        for (id, _) in owed {
            if self.is_ending() {
                return;
            }
            self.call_back_durable(&id).await;
        }
    }
}
