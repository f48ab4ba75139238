//! The first wait of a call: from now on it is in the ledger, and goes on from there.

use std::sync::Arc;

use bytes::Bytes;
use monohull_durable::{Held, InvocationId, Left, Status as RowStatus};
use monohull_engine::Ready;
use monohull_worker::{Data, SuspendedRun};
use tokio::task::spawn_blocking;

use crate::endpoints::durable::full_after;
use crate::execution::came::{NotYet, Waiting};
use crate::execution::checkpoints::{Waits, Written};
use crate::execution::commit::{OwnRow, Pauses};
use crate::http::error::{ApiError, Blame};
use crate::invocations::invocation::Invocation;
use crate::invocations::status::Status;
use crate::invocations::stored::encode_printed;
use crate::invocations::workers::Run;
use crate::service::Watchdog;

/// A call that is not durable yet.
pub(crate) struct First<'t> {
    pub(crate) invocation: &'t Arc<Invocation>,
    pub(crate) workflow: Arc<Ready>,
    pub(crate) document: Option<Bytes>,
    /// Of an asynchronous one, which the ledger has already.
    pub(crate) row: Option<&'t OwnRow>,
}

impl Watchdog {
    /// Keeps a call that waits. From now on it is in the ledger, and goes on from there. Its id, if its callback may be owed.
    pub(crate) async fn become_durable(
        self: &Arc<Self>,
        first: First<'_>,
        waiting: Waiting,
    ) -> Result<Option<InvocationId>, ApiError> {
        let Waiting { mut run, mut inputs, mut process } = waiting;
        let First { invocation, workflow, document, row } = first;
        let Some(document) = document else {
            return Err(ApiError::monohull("the workflow was suspended, which was not asked for"));
        };
        invocation.point("suspended");
        // It may have been cancelled meanwhile.
        let owed = row.filter(|row| row.callback.is_some()).map(|row| row.held.id.clone());
        let mut pauses = Pauses::default();
        let not_yet = loop {
            let (watchdog, of_call, workflow, document) =
                (self.clone(), invocation.clone(), workflow.clone(), document.clone());
            let (held, url) = (row.map(|row| row.held.clone()), row.and_then(|row| row.callback.clone()));
            let keep = spawn_blocking(move || {
                let call = (&*of_call, &workflow, document, url);
                let kept = watchdog.keep_first(call, held.as_ref(), (&run, &inputs), process);
                (kept, run, inputs)
            });
            let kept;
            (kept, run, inputs) = keep.await.map_err(|error| ApiError::monohull(error.to_string()))?;
            match kept {
                Ok(not_yet) => break not_yet,
                // One that was acknowledged is not given up because the disk does not take it now.
                Err(refusal) if row.is_some() && refusal.error.blame == Blame::Host && !self.is_ending() => {
                    let error = &refusal.error.message;
                    tracing::error!(id = invocation.id, error, "a checkpoint is written again later");
                    process = None;
                    if !pauses.wait(invocation, refusal.status).await {
                        return Err(refusal);
                    }
                }
                Err(refusal) => return Err(refusal),
            }
        };
        if let (Some(NotYet { both, resident, adding }), Some(row)) = (not_yet, row) {
            let status = self.commit_both(&row.held, both).await;
            self.settle_resident(resident, status);
            drop(adding);
        }
        tracing::info!(id = invocation.id, workflow = invocation.workflow, "suspended");
        Ok(owed)
    }

    /// Keeps the first wait of a call: its checkpoint, what it was started with, and the commit, if that can be made now.
    fn keep_first(
        self: &Arc<Self>,
        (call, workflow, document, url): (&Invocation, &Arc<Ready>, Bytes, Option<String>),
        held: Option<&Held>,
        (run, inputs): (&SuspendedRun, &[(String, Data)]),
        process: Option<Run>,
    ) -> Result<Option<NotYet>, ApiError> {
        self.ledger.change(|ledger| {
            let id: InvocationId = call.id.parse().map_err(|_| ApiError::monohull("an id is none"))?;
            let most = self.settings.durable;
            // One that is in the ledger has its place there.
            if held.is_none() && !ledger.has_room(1, most)? {
                return Err(full_after(most));
            }
            // It is higher if another one of its name was removed.
            let epoch = held.map_or(1, |held| held.epoch);
            let waits = Waits {
                id: &id,
                epoch,
                generation: 1,
                is_first: true,
                document: &document,
                ready: workflow,
                copy: (0, 0),
                base: None,
                may_go_on: false,
            };
            let own = ledger.adding()?;
            let start = ledger.add_start(&own, call.head(), &document, workflow, inputs, url)?;
            let Written { commit, sent, unsynced, adding, deadline, next_base, .. } =
                ledger.write_checkpoint(&waits, run)?;
            let sent = self.outbox(&adding, &id, workflow.plan(), sent);
            let (printed, callback) = (encode_printed(&call.printed()), start.callback.clone());
            let left = Left { printed, sent, callback, unsynced, ..Left::default() };
            let family = left.sent.has_children().then_some(id.clone());
            let encoded = start.encode()?;
            let own = Held { id: id.clone(), epoch };
            let of_process = (workflow, &document, (0, 0), deadline, next_base);
            let resident = self.keep_resident(process, (&own, 1, &encoded), call.begin, &commit, of_process);
            let Some(held) = held else {
                let committed = ledger.start_suspended(&id, &start, &commit, &left).map(|()| RowStatus::Suspended);
                self.settle_resident(resident, committed.as_ref().ok().copied());
                committed?;
                drop(adding);
                if let Some(id) = family {
                    self.settle(&id);
                }
                return Ok(None);
            };
            let both = Arc::new((commit, Left { start: Some(encoded), ..left }));
            match self.commit_once(held, &both) {
                Ok(status) => {
                    self.settle_resident(resident, Some(status));
                    Ok(None)
                }
                // That is told when it is tried again.
                Err(_) => Ok(Some(NotYet { both, resident, adding })),
            }
        })
    }

    /// Shows that a call has become durable. One that had no row, `is_own`, may have been cancelled before those who cancel it could find its row.
    pub(crate) async fn leave_for_ledger(
        self: &Arc<Self>,
        invocation: &Arc<Invocation>,
        owed: Option<InvocationId>,
        is_own: bool,
    ) {
        self.leave(invocation, Status::Suspended);
        // What is only stopped, at the end of the server, goes on in the next one.
        if is_own && invocation.is_cancelled() {
            let (watchdog, id) = (self.clone(), invocation.id.parse());
            let cancelled = self.blocking(move |_| {
                let id: InvocationId = id.map_err(|_| ApiError::monohull("an id is none"))?;
                watchdog.ledger.change(|ledger| watchdog.cancel_at_once(ledger, &id))
            });
            if let Err(refusal) = cancelled.await {
                tracing::warn!(id = invocation.id, error = refusal.error.message, "cancelled too late");
            }
        }
        if let Some(id) = owed {
            self.call_back(&id);
        }
    }
}
