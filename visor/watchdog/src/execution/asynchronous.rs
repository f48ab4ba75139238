//! Asynchronous calls of workflows that may not be run twice: each is a row of the ledger before it is acknowledged, and this server runs it at once.
//!
//! ```text
//! POST ─▶ row: running, this server's ─▶ 202 ─▶ runs ─▶ end: commit ─▶ shown, callback
//!                      │                          └─▶ it waits: checkpoint, commit ─▶ goes on as any durable one
//!     killed here: failed, `interrupted`             the host failed before anything was run: its inputs are kept, and it is run when it is due
//! ```
//!
//! No thread that serves waits for the disk. Inputs are not kept before there is a checkpoint: a call that has none is not run again.

use std::sync::Arc;

use monohull_durable::{InvocationId, Left};
use tokio::task::spawn_blocking;

use crate::endpoints::durable::full;
use crate::execution::basis::start_without_files;
use crate::execution::came::{Accepted, NotBegun};
use crate::execution::commit::{OwnRow, Pauses, later};
use crate::execution::run::Task;
use crate::http::error::ApiError;
use crate::invocations::callback::Callback;
use crate::invocations::status::Status;
use crate::invocations::stored::Start;
use crate::service::Watchdog;

impl Watchdog {
    /// The host failed before anything of a call was run. From now on it is one that is run when it is due, and its inputs are kept. As long as the
    /// disk does not take them they are here, and so is `held_until`.
    pub(crate) async fn begin_later(self: &Arc<Self>, call: Accepted, not_begun: NotBegun, held_until: impl Send) {
        let Accepted { row: OwnRow { held, callback }, invocation, document, workflow } = call;
        let NotBegun { refusal, inputs } = not_begun;
        tracing::warn!(id = %held.id, error = refusal.error.message, "a call is begun later");
        self.metrics.not_resumed("host");
        invocation.release_permit();
        let inputs = Arc::new(inputs);
        let mut pauses = Pauses::default();
        let added = loop {
            let (watchdog, head, document) = (self.clone(), invocation.head(), document.clone());
            let (workflow, inputs, url, epoch) = (workflow.clone(), inputs.clone(), callback.clone(), held.epoch);
            let add = move || {
                let ledger = &watchdog.ledger;
                let adding = ledger.adding()?;
                let start = ledger.add_start(&adding, head, &document, &workflow, &inputs, url)?;
                let start = Start { unbegun: epoch, ..start }.encode()?;
                Ok::<_, ApiError>((start, adding))
            };
            let added = spawn_blocking(add).await.map_err(|error| ApiError::monohull(error.to_string())).flatten();
            let refusal = match added {
                Ok(added) => break Some(added),
                // The next server finds a call that was interrupted.
                Err(_) if self.is_ending() => return self.leave(&invocation, Status::Suspended),
                Err(refusal) => refusal,
            };
            let error = &refusal.error.message;
            tracing::error!(id = %held.id, error, "a call waits for the disk");
            // Without what it is started with it ends as one that was interrupted, or is cancelled.
            if !pauses.wait(&invocation, refusal.status).await {
                break None;
            }
        };
        let (start, adding) = added.unzip();
        let has_callback = callback.is_some();
        let left = Left { start, callback, ..Left::default() };
        self.commit(&held, later(1, refusal.error.message), left).await;
        drop((adding, held_until));
        self.leave(&invocation, Status::Suspended);
        // It may have been cancelled meanwhile.
        if has_callback {
            self.call_back(&held.id);
        }
    }

    /// Puts an asynchronous call into the ledger, then begins it. This continues if the client disconnects.
    pub(crate) async fn begin_asynchronous(
        self: &Arc<Self>,
        mut task: Task,
        callback: Option<&Callback>,
    ) -> Result<(), ApiError> {
        let (watchdog, guard, callback) = (self.clone(), self.work.track(), callback.map(Callback::url));
        let accepted = tokio::spawn(async move {
            let _guard = guard;
            let (ledgers, invocation, workflow) = (watchdog.clone(), task.invocation.clone(), task.workflow.clone());
            let (document, url) = (task.document.clone().unwrap_or_default(), callback.clone());
            let kept = spawn_blocking(move || {
                let id: InvocationId = invocation.id.parse().map_err(|_| ApiError::monohull("an id is none"))?;
                let start = start_without_files(invocation.head(), &document, &workflow, url)?;
                let most = ledgers.settings.durable;
                ledgers.ledger.change(|ledger| {
                    let held = ledger.start_running(&id, &start, invocation.accepted_ns(), most)?;
                    held.ok_or_else(|| full(most))
                })
            });
            let held = kept.await.map_err(|error| ApiError::monohull(error.to_string()))??;
            task.row = Some(OwnRow { held, callback });
            watchdog.begin(task);
            Ok(())
        });
        accepted.await.map_err(|error| ApiError::monohull(error.to_string()))?
    }
}
