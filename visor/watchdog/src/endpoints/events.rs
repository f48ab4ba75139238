//! Events for durable invocations, and callbacks, which are events that know their sender by a token.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::http::Response;
use monohull_abi::callback::{Told, is_token};
use monohull_durable::{InvocationId, Meta, NewMail, Sent};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use crate::endpoints::durable::{id_of, idempotency_key, in_vain};
use crate::endpoints::invoke_kept::said_of;
use crate::endpoints::known::unknown;
use crate::http::answer::Answer;
use crate::http::error::{ApiError, Blame, json};
use crate::http::routes::Call;
use crate::invocations::ledger::{meta_kept, now};
use crate::service::Watchdog;

/// How long an answer is held that comes before a function waits for it.
const EARLY: Duration = Duration::from_secs(2);
/// As many are held at a time. Others are answered at once.
static EARLY_ANSWERS: Semaphore = Semaphore::const_new(64);

/// What is said of an answer that nothing waits for. It is the same for an invocation that is there and one that is not.
fn nothing_waits() -> ApiError {
    let message = "nothing waits for this answer: there is no such invocation, it has not come to this wait yet, or it has ended and what it \
                   waited for is not remembered any more";
    ApiError::not_found(message)
}

/// The key of what completes or rejects a callback: its token, as it is answered once.
fn key_of(token: &str) -> Option<String> {
    Some(token.to_owned())
}

/// The name of the event that tells this.
fn event_of(token: &str, told: Told) -> String {
    format!("{token}{}", told.ending())
}

impl Watchdog {
    /// `/callbacks/ID/TOKEN`, and `…/reject`: sends the event that answers a callback. A client that knows the token may, so only an invocation
    /// that waits for it now is sent it, and only a client of one that has waited for it learns what became of that: others have nothing to
    /// send, and learn nothing.
    pub(crate) async fn answer_callback(
        self: &Arc<Self>,
        mut call: Call,
        told: Told,
    ) -> Result<Response<Answer>, ApiError> {
        let (id, token) = self.callback_of(&call, told).await?;
        call.slot = event_of(&token, told);
        let answered = self.send_mail(call, key_of(&token), &id).await;
        answered.map_err(|refusal| match refusal.status {
            StatusCode::UNPROCESSABLE_ENTITY => {
                ApiError::conflict("the callback was answered before, with something else")
            }
            _ => refusal,
        })
    }

    /// `/callbacks/ID/TOKEN/heartbeat`: the client is still at it. One of these events waits at a time.
    pub(crate) async fn beat_callback(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let (id, token) = self.callback_of(&call, Told::Heartbeat).await?;
        let event = event_of(&token, Told::Heartbeat);
        let (to, name) = (id.clone(), event.clone());
        self.with_ledger(move |_, ledger| {
            ledger.meta().beat(&to, &name, now()).map_err(meta_kept)?;
            ledger.changed(&to);
            Ok(())
        })
        .await?;
        let document = json!({ "id": id.as_str(), "event": event, "duplicate": false });
        Ok(json(Response::builder().status(StatusCode::ACCEPTED), &document))
    }

    /// The invocation and the token of a callback that may be told this. A function may have sent the token a moment before it waits, so what
    /// nothing waits for is held for a moment, whatever it names: how long the answer takes tells nothing.
    async fn callback_of(self: &Arc<Self>, call: &Call, told: Told) -> Result<(InvocationId, String), ApiError> {
        let [] = call.parameters([])?;
        let (id, token) = (id_of(&call.name).map_err(|_| nothing_waits())?, call.slot.clone());
        if !is_token(&token) {
            return Err(nothing_waits());
        }
        let (mut changes, mut waits) = (self.ledger.changes(), self.ledger.waits());
        let until = Instant::now() + EARLY;
        let mut gone = std::pin::pin!(call.stream.gone(self.settings.clients.farewell));
        let mut held = None;
        loop {
            if self.is_waited_for(&id, &token, told).await? {
                return Ok((id, token));
            }
            if held.is_none() {
                held = EARLY_ANSWERS.try_acquire().ok();
            }
            let is_over = Instant::now() >= until || self.is_ending();
            if told == Told::Heartbeat || held.is_none() || is_over {
                return Err(nothing_waits());
            }
            tokio::select! {
                () = said_of(&mut changes, id.as_str()) => {}
                () = said_of(&mut waits, id.as_str()) => {}
                () = sleep_until(until) => {}
                () = &mut gone => return Err(nothing_waits()),
            }
        }
    }

    /// Whether an invocation may be told this of a callback: it waits for it, or was told before. One that has waited for the callback and does
    /// not any more is an error, and so is one that waits for an answer and nothing else.
    async fn is_waited_for(self: &Arc<Self>, id: &InvocationId, token: &str, told: Told) -> Result<bool, ApiError> {
        let (id, token) = (id.clone(), token.to_owned());
        self.with_ledger(move |_, ledger| {
            let meta = ledger.reader();
            // Asked before: an answer that is repeated is no new one.
            let was_answered = told != Told::Heartbeat && meta.knows_key(&id, &token).map_err(meta_kept)?;
            let row = meta.get(&id).map_err(meta_kept)?.filter(|row| !row.status.is_end());
            let waits = |event: &str| {
                row.as_ref().is_some_and(|row| row.waits.iter().any(|wait| wait.event.as_deref() == Some(event)))
            };
            if was_answered || waits(&event_of(&token, told)) {
                return Ok(true);
            }
            // In both cases its sender knows the token.
            if waits(&token) {
                return Err(ApiError::conflict("the function takes an answer to this callback, and nothing else"));
            }
            if meta.was_waited_for(&id, &token).map_err(meta_kept)? {
                let message = "the invocation has waited for this callback, and does not any more: it was answered, its time is over, or the \
                               invocation has gone on or ended without it";
                return Err(ApiError::gone(message));
            }
            Ok(false)
        })
        .await
    }

    /// `…/events/NAME`.
    pub(crate) async fn send_event(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let key = idempotency_key(call.request.headers())?.map(str::to_owned);
        self.refuse_if_not_durable(&call.name)?;
        let [] = call.parameters([])?;
        let id = id_of(&call.name)?;
        self.send_mail(call, key, &id).await
    }

    async fn send_mail(
        self: &Arc<Self>,
        call: Call,
        key: Option<String>,
        id: &InvocationId,
    ) -> Result<Response<Answer>, ApiError> {
        let id = id.clone();
        let event = call.slot.clone();
        let received = self.body_of(call, monohull_abi::event::EVENT_BYTES_MAX as u64).await?;
        let (sent, event) = self
            .with_ledger(move |_, ledger| {
                let bytes = received.content.read().map_err(|error| ApiError::host(error.to_string()))?;
                let mail = NewMail::new(&event, &bytes, key.as_deref());
                let mail = mail.map_err(|error| ApiError::bad_request(error.to_string()))?;
                let sent = ledger.meta().send(&id, &mail, now()).map_err(meta_kept)?;
                let refused = match sent {
                    Sent::New | Sent::Duplicate => {
                        ledger.changed(&id);
                        return Ok(((sent, id), event));
                    }
                    Sent::Unknown => unknown(),
                    Sent::Ended(status) => in_vain(&id, status, "sent events"),
                    Sent::KeyTaken => ApiError::invalid(
                        Blame::Client,
                        "the Idempotency-Key is that of another event for this invocation",
                    ),
                    Sent::Full => ApiError::full("as many events, or bytes in them, wait for the invocation as may", 1),
                };
                Err(refused)
            })
            .await?;
        let (sent, id) = sent;
        let duplicate = sent == Sent::Duplicate;
        let status = if duplicate { StatusCode::OK } else { StatusCode::ACCEPTED };
        let document = json!({ "id": id.as_str(), "event": event, "duplicate": duplicate });
        Ok(json(Response::builder().status(status), &document))
    }
}
