//! Asynchronous calls of workflows that may not be run twice: each is a row of the ledger before it is acknowledged, and this server runs it at once.
//!
//! ```text
//! POST ─▶ row: running, this server's ─▶ 202 ─▶ runs ─▶ end: commit ─▶ shown, callback
//!                      │                          └─▶ it waits: checkpoint, commit ─▶ goes on as any durable one
//!     killed here: failed, `interrupted`
//! ```
//!
//! No thread that serves waits for the disk. Inputs are not kept before there is a checkpoint: a call that has none is not run again.

use std::sync::Arc;

use monohull_durable::InvocationId;
use tokio::task::spawn_blocking;

use crate::execution::basis::start_without_files;
use crate::execution::commit::OwnRow;
use crate::execution::run::Task;
use crate::http::error::ApiError;
use crate::invocations::callback::Callback;
use crate::service::Watchdog;

impl Watchdog {
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
                let start = start_without_files(invocation.head(), &document, &workflow, url);
                ledgers.ledger.change(|ledger| ledger.start_running(&id, &start, invocation.accepted_ns()))
            });
            let held = kept.await.map_err(|error| ApiError::monohull(error.to_string()))??;
            task.row = Some(OwnRow { held, callback });
            watchdog.begin(task);
            Ok(())
        });
        accepted.await.map_err(|error| ApiError::monohull(error.to_string()))?
    }
}
