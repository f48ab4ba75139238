//! `/invoke` with an `Idempotency-Key`: the same call again attaches to the first one, and is not another.
//!
//! Such a call is in the ledger from its start, as an asynchronous one is. So it goes on without its client, and outlives the server; what came of it is
//! answered as often as it is asked for, as long as it is kept.

use std::sync::Arc;

use hyper::http::Response;
use monohull_durable::Status as RowStatus;
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, sleep_until};

use super::invoke::{Caller, NewCall, accepted, answered, named, named_only};
use super::known::Known;
use crate::execution::run::Inputs;
use crate::http::answer::Answer;
use crate::http::error::ApiError;
use crate::invocations::record::End;
use crate::invocations::status::Status;
use crate::service::Watchdog;
use bytes::Bytes;
use monohull_durable::InvocationId;
use monohull_engine::Ready;

/// A call with a key.
pub(super) struct KeyedCall {
    pub(super) caller: Caller,
    pub(super) workflow: Arc<Ready>,
    pub(super) document: Bytes,
    pub(super) inputs: Inputs,
    /// The id that the key stands for.
    pub(super) id: Option<InvocationId>,
    /// The output slot that is asked for.
    pub(super) output: Option<String>,
}

/// Returns when something is said of an invocation, or may have been missed.
pub(super) async fn said_of(changes: &mut Receiver<Option<InvocationId>>, id: &str) {
    while matches!(changes.recv().await, Ok(Some(other)) if other.as_str() != id) {}
}

impl Watchdog {
    /// Starts a call, unless it was started before, and answers with what came of it.
    pub(super) async fn invoke_once(self: &Arc<Self>, call: KeyedCall) -> Result<Response<Answer>, ApiError> {
        let KeyedCall { caller, workflow, document, inputs, id, output } = call;
        let (mut changes, mut waits) = (self.ledger.changes(), self.ledger.waits());
        let stream = caller.stream.clone();
        let new = NewCall { caller, workflow, document, inputs, callback: None, id, by_key: true, due: None };
        let (invocation, _) = self.add_call(new).await?;
        let id = invocation.id;
        let until = Instant::now() + self.settings.timeout;
        let mut gone = std::pin::pin!(stream.gone(self.settings.clients.farewell));
        let known = loop {
            let known = self.find(&id, None).await?;
            let status = known.row.as_ref().map(|durable| durable.row.status);
            let waits_for = matches!(status, Some(RowStatus::Suspended | RowStatus::Paused));
            if waits_for || status.is_some_and(RowStatus::is_end) || Instant::now() >= until || self.is_ending() {
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
