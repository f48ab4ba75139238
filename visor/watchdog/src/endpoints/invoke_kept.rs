//! `/invoke` with an id or an `Idempotency-Key`: the same call again attaches to the first one, and is not another. And calls that begin later.
//!
//! Such a call is in the ledger from its start, as an asynchronous one is. So it goes on without its client, and outlives the server; what came of it
//! is answered as often as it is asked for, as long as it is kept.

use std::sync::Arc;

use hyper::http::Response;
use monohull_durable::{Invocation as Row, InvocationId, Status as RowStatus};
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, sleep_until};

use super::invoke::{NewCall, accepted, answered, named, named_only};
use super::known::Known;
use crate::http::answer::Answer;
use crate::http::error::ApiError;
use crate::invocations::ledger::now;
use crate::invocations::record::End;
use crate::invocations::status::Status;
use crate::service::Watchdog;

/// Returns when something is said of an invocation, or may have been missed.
pub(super) async fn said_of(changes: &mut Receiver<Option<InvocationId>>, id: &str) {
    while matches!(changes.recv().await, Ok(Some(other)) if other.as_str() != id) {}
}

/// Whether an invocation has not begun, and is not to begin now. One that is tried again after a pause has begun.
fn begins_later(row: &Row) -> bool {
    row.status == RowStatus::Pending && row.attempts == 0 && row.due.is_some_and(|due| due > now())
}

impl Watchdog {
    /// Starts a call, unless it was started before, and answers with what came of it; of one that has not begun since it is not time yet, that it was
    /// accepted. `output` is the slot that is asked for.
    pub(super) async fn invoke_kept(
        self: &Arc<Self>,
        call: NewCall,
        output: Option<String>,
    ) -> Result<Response<Answer>, ApiError> {
        let (mut changes, mut waits) = (self.ledger.changes(), self.ledger.waits());
        let stream = call.caller.stream.clone();
        let (invocation, _) = self.add_call(call).await?;
        let id = invocation.id;
        let until = Instant::now() + self.settings.timeout;
        let mut gone = std::pin::pin!(stream.gone(self.settings.clients.farewell));
        let known = loop {
            let known = self.find(&id, None).await?;
            let status = known.row.as_ref().map(|durable| durable.row.status);
            let waits_for = matches!(status, Some(RowStatus::Suspended | RowStatus::Paused));
            let is_later = known.row.as_ref().is_some_and(|durable| begins_later(&durable.row));
            if waits_for
                || is_later
                || status.is_some_and(RowStatus::is_end)
                || Instant::now() >= until
                || self.is_ending()
            {
                break known;
            }
            tokio::select! {
                () = said_of(&mut changes, &id) => {}
                () = said_of(&mut waits, &id) => {}
                () = sleep_until(until) => {}
                () = &mut gone => break known,
            }
        };
        let invocation = &known.invocation;
        let Some(end) = invocation.ended().filter(|end| end.status.is_final()) else {
            // It goes on by itself, and its client asks later.
            let status = known.row.as_ref().map_or(Status::Running, |durable| durable.row.status.into());
            let mut response = accepted(&invocation.id, &invocation.call_id, status);
            named_only(response.headers_mut(), invocation);
            return Ok(response);
        };
        let end = self.with_stored(&known, end).await?;
        let response = match answered(&end, output.as_deref(), invocation) {
            Ok(response) => response,
            Err(refusal) => self.refused(refusal, invocation, &end).await?,
        };
        Ok(named(response, invocation, &end))
    }

    /// An end with all of its outputs.
    async fn with_stored(self: &Arc<Self>, known: &Known, end: Arc<End>) -> Result<Arc<End>, ApiError> {
        let mut all = match &end.result {
            Ok(outputs) if !end.stored.is_empty() => outputs.clone(),
            _ => return Ok(end),
        };
        for (slot, _) in &end.stored {
            let read = self.recall(&known.invocation.id, Some(slot)).await?;
            let ended = read.and_then(|known| known.invocation.ended());
            let content = ended.and_then(|end| {
                let outputs = end.result.as_ref().ok()?;
                outputs.iter().find(|(name, _)| name == slot).cloned()
            });
            all.push(content.ok_or_else(|| ApiError::host(format!("the output slot {slot} is missing")))?);
        }
        Ok(Arc::new(End { result: Ok(all), stored: Vec::new(), ..(*end).clone() }))
    }
}
