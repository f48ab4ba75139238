//! Invocations that the ledger has: what is done to them by hand.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderMap, X_CONTENT_TYPE_OPTIONS};
use hyper::http::Response;
use monohull_durable::{Control, Controlled, InvocationId, Meta, Status as RowStatus};
use serde::Deserialize;
use serde_json::json;

use crate::endpoints::known::unknown;
use crate::endpoints::object_of;
use crate::endpoints::registered::no_content;
use crate::http::answer::Answer;
use crate::http::error::{ApiError, json};
use crate::http::head::IDEMPOTENCY_KEY;
use crate::http::routes::{Call, Route};
use crate::ids::hex;
use crate::invocations::ledger::{Ledger, meta_kept, now};
use crate::invocations::status::Status;
use crate::service::Watchdog;
use sha2::{Digest, Sha256};

/// The longest such key.
const KEY_MAX: usize = 255;
/// The longest that a request waits for an end.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// The largest body of a request that says what is to be done.
const ORDER_MAX: u64 = 64 << 10;

/// The key of a request, if it has one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| (1..=KEY_MAX).contains(&text.len()));
    text.map(Some).ok_or_else(|| ApiError::bad_request(format!("Idempotency-Key: 1 to {KEY_MAX} visible characters")))
}

/// Refuses a key where none is taken and a request that is repeated does something twice.
pub(crate) fn refuse_key(headers: &HeaderMap, instead: &str) -> Result<(), ApiError> {
    match headers.contains_key(IDEMPOTENCY_KEY) {
        true => Err(ApiError::bad_request(format!("this path takes no Idempotency-Key: {instead}"))),
        false => Ok(()),
    }
}

/// The id that a key stands for.
pub(crate) fn id_of_key(workflow: &str, key: &str) -> String {
    let mut hash = Sha256::new();
    hash.update((workflow.len() as u64).to_le_bytes());
    hash.update(workflow);
    hash.update(key);
    hex(&hash.finalize()[..16])
}

/// How long a request waits, as its parameter says.
pub(crate) fn waits(wait: Option<&str>) -> Result<Duration, ApiError> {
    let Some(text) = wait else { return Ok(Duration::ZERO) };
    let wait = humantime::parse_duration(text).ok().filter(|wait| *wait <= WAIT_MAX);
    wait.ok_or_else(|| ApiError::bad_request(format!("wait is a time such as 30s, at most {}s", WAIT_MAX.as_secs())))
}

pub(crate) fn id_of(text: &str) -> Result<InvocationId, ApiError> {
    text.parse().map_err(|_| unknown())
}

pub(crate) fn not_durable() -> ApiError {
    ApiError::conflict(
        "the invocation is not durable: its client waits for it, and it has not waited for anything itself yet",
    )
}

pub(crate) fn in_vain(id: &InvocationId, status: RowStatus, what: &str) -> ApiError {
    ApiError::conflict(format!("the invocation {id} is {} and cannot be {what}", status.name()))
}

/// What was stopped.
enum Stopped {
    /// A call that is not durable, and what it is now.
    Live(Status),
    /// What came of it for a durable one.
    Durable(Controlled),
}

/// What an invocation becomes.
#[derive(Clone, Copy)]
enum Becomes {
    /// Whatever it does.
    AtNextCommit(RowStatus),
    /// When its code has ended: it has been told to.
    ByItself(RowStatus),
}

impl Becomes {
    fn status(self) -> RowStatus {
        match self {
            Becomes::AtNextCommit(status) | Becomes::ByItself(status) => status,
        }
    }
}

impl Watchdog {
    /// Does something to a durable invocation, where others do not wait for it.
    pub(crate) async fn with_ledger<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Watchdog, &Ledger) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let watchdog = self.clone();
        self.blocking(move |_| watchdog.ledger.change(|ledger| work(&watchdog, ledger))).await
    }

    /// Whether an id is that of an invocation which is not durable.
    pub(crate) fn refuse_if_not_durable(&self, id: &str) -> Result<(), ApiError> {
        match self.history.find(id) {
            Some(invocation) if !invocation.is_durable() => Err(not_durable()),
            _ => Ok(()),
        }
    }

    /// `…/pause`, `…/resume` and `…/cancel`.
    pub(crate) async fn control(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        let (control, what) = match call.route {
            Route::InvocationPause => (Control::Pause, "paused"),
            Route::InvocationResume => (Control::Resume, "resumed"),
            _ => (Control::Cancel, "cancelled"),
        };
        if let (Control::Cancel, Some(invocation)) =
            (control, self.history.find(&call.name).filter(|known| !known.is_durable()))
        {
            let ended = invocation.cancel();
            let status = invocation.status();
            match ended {
                // It has become durable meanwhile.
                Some(end) if end.status == Status::Suspended => {}
                Some(_) if status != Status::Cancelled => {
                    return Err(ApiError::conflict(format!("the invocation has ended: it is {}", status.name())));
                }
                _ => {
                    let becomes = (!status.is_final()).then_some("cancelled");
                    let shown = json!({ "id": call.name, "status": status, "becomes": becomes });
                    return Ok(json(Response::builder(), &shown));
                }
            }
        }
        self.refuse_if_not_durable(&call.name)?;
        let id = id_of(&call.name)?;
        let came = self.with_ledger(move |watchdog, ledger| {
            let came = ledger.control(&id, control, what)?;
            if let (status, Some(Becomes::ByItself(becomes))) = came {
                return Ok((id, (status, Some(becomes))));
            }
            watchdog.end_resident(&id);
            if control == Control::Cancel {
                ledger.mark();
                // One that waits in the queue has nothing to come to a wait with.
                if let Some(queued) = watchdog.history.find(id.as_str()).filter(|it| it.status() == Status::Pending) {
                    queued.cancel();
                }
                watchdog.settle(&id);
            }
            let (status, becomes) = came;
            Ok((id, (status, becomes.map(Becomes::status))))
        });
        let (id, (status, becomes)) = came.await?;
        let becomes = becomes.map(RowStatus::name);
        Ok(json(Response::builder(), &json!({ "id": id.as_str(), "status": status.name(), "becomes": becomes })))
    }

    /// `DELETE`: stops an invocation at once; one that has ended stays as it is.
    pub(crate) async fn kill_invocation(self: &Arc<Self>, name: &str) -> Result<Response<Answer>, ApiError> {
        self.stop(name).await.map(|_| no_content())
    }

    /// `…/kill`: the same, and says what it is.
    pub(crate) async fn kill(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        let (status, becomes) = match self.stop(&call.name).await? {
            Stopped::Live(status) => (status, (!status.is_final()).then_some(Status::Cancelled)),
            Stopped::Durable(Controlled::Now(status) | Controlled::Told(status)) => (status.into(), None),
            Stopped::Durable(Controlled::AtNextCommit(status)) => (Status::Running, Some(status.into())),
            Stopped::Durable(Controlled::Ended(status)) => (status.into(), None),
            Stopped::Durable(Controlled::Unknown) => return Err(unknown()),
        };
        if status.is_final() && status != Status::Cancelled {
            return Err(ApiError::conflict(format!("the invocation has ended: it is {}", status.name())));
        }
        Ok(json(Response::builder(), &json!({ "id": call.name, "status": status, "becomes": becomes })))
    }

    /// Stops an invocation at once.
    async fn stop(self: &Arc<Self>, name: &str) -> Result<Stopped, ApiError> {
        let live = self.history.find(name);
        if let Some(invocation) = live.filter(|invocation| !invocation.is_durable())
            && invocation.cancel().is_none_or(|end| end.status != Status::Suspended)
        {
            return Ok(Stopped::Live(invocation.status()));
        }
        let id = id_of(name)?;
        match self.with_ledger(move |watchdog, ledger| watchdog.cancel_at_once(ledger, &id)).await? {
            Controlled::Unknown => Err(unknown()),
            came => Ok(Stopped::Durable(came)),
        }
    }

    /// `…/purge`.
    pub(crate) async fn purge(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        self.refuse_if_not_durable(&call.name)?;
        let id = id_of(&call.name)?;
        self.with_ledger(move |watchdog, ledger| {
            let relatives = {
                let mut meta = ledger.meta();
                // What is damaged of them names none.
                let relatives = meta.relatives(&id).unwrap_or_default();
                if !meta.purge(&id, now()).map_err(meta_kept)? {
                    let row = meta.get(&id).map_err(meta_kept)?.ok_or_else(unknown)?;
                    return Err(in_vain(&id, row.status, "removed before it has ended or was cancelled"));
                }
                relatives
            };
            // One whose row was damaged may have a process, and children that were cancelled with it.
            watchdog.end_resident(&id);
            if let Some(invocation) = watchdog.history.find(id.as_str()) {
                invocation.cancel();
            }
            watchdog.settle_all(relatives);
            ledger.changed(&id);
            ledger.may_be_unnamed();
            Ok(())
        })
        .await?;
        Ok(no_content())
    }

    /// `…/state/NAME`: what it has published.
    pub(crate) async fn state(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        self.refuse_if_not_durable(&call.name)?;
        let (id, name) = (id_of(&call.name)?, call.slot.clone());
        let text = self.with_ledger(move |_, ledger| {
            let row = ledger.meta().get(&id).map_err(meta_kept)?.ok_or_else(unknown)?;
            row.published
                .get(&name)
                .cloned()
                .ok_or_else(|| ApiError::not_found("it has published nothing of this name"))
        });
        let text = self.secrets.redactor().text(text.await?);
        let response = Response::builder().header(CONTENT_TYPE, "text/plain; charset=utf-8");
        let response = response.header(X_CONTENT_TYPE_OPTIONS, "nosniff").body(Answer::from(text.into_bytes()));
        Ok(response.expect("the headers are constants"))
    }

    /// The body of a request that says what is to be done.
    pub(crate) async fn order<T: for<'d> Deserialize<'d>>(self: &Arc<Self>, call: Call) -> Result<T, ApiError> {
        let received = self.body_of(call, ORDER_MAX).await?;
        let bytes = received.content.read().map_err(|error| ApiError::host(error.to_string()))?;
        let text = if bytes.is_empty() { &b"{}"[..] } else { &bytes };
        object_of(text).map_err(|error| ApiError::bad_request(format!("the body: {error}")))
    }
}

pub(crate) fn full(most: u64) -> ApiError {
    ApiError::full(format!("{most} durable invocations have not ended, as many as may"), 60)
}

/// There is no place for a call that has run until it came to wait.
pub(crate) fn full_after(most: u64) -> ApiError {
    let message = format!(
        "the workflow has run until it came to wait, and ended there: {most} durable invocations have not ended, as many as may"
    );
    ApiError::full_after(message)
}

impl Ledger {
    /// What an invocation is now, and what it becomes.
    fn control(
        &self,
        id: &InvocationId,
        control: Control,
        what: &str,
    ) -> Result<(RowStatus, Option<Becomes>), ApiError> {
        let came = self.meta().control(id, control, now()).map_err(meta_kept)?;
        self.changed(id);
        match came {
            Controlled::Now(status) => Ok((status, None)),
            Controlled::AtNextCommit(status) => Ok((RowStatus::Running, Some(Becomes::AtNextCommit(status)))),
            Controlled::Told(status) => Ok((status, Some(Becomes::ByItself(RowStatus::Cancelled)))),
            Controlled::Ended(RowStatus::Cancelled) if control == Control::Cancel => Ok((RowStatus::Cancelled, None)),
            Controlled::Ended(status) => Err(in_vain(id, status, what)),
            Controlled::Unknown => Err(unknown()),
        }
    }
}
