//! Events for durable invocations, and callbacks, which are events that know their sender by a token.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::http::Response;
use monohull_durable::{Meta, NewMail, Sent};
use serde_json::json;

use crate::endpoints::durable::{id_of, idempotency_key, in_vain};
use crate::endpoints::known::unknown;
use crate::http::answer::Answer;
use crate::http::error::{ApiError, Blame, json};
use crate::http::routes::Call;
use crate::invocations::ledger::{meta_kept, now};
use crate::service::Watchdog;

/// Whether a function may have made this token (`monohull::durable::callback`).
fn is_token(text: &str) -> bool {
    let digits = text.strip_prefix("callback-").unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Watchdog {
    /// `/callbacks/ID/TOKEN`: sends the event whose name is the token. A client that knows it may, so only an invocation that waits for it now is
    /// sent it: others have nothing to send, and learn nothing.
    pub(crate) async fn complete_callback(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let (id, token) = (id_of(&call.name).map_err(|_| unknown())?, call.slot.clone());
        if !is_token(&token) {
            return Err(unknown());
        }
        let expected = token.clone();
        self.with_ledger(move |_, ledger| {
            let row = ledger.meta().get(&id).map_err(meta_kept)?.filter(|row| !row.status.is_end());
            let waits = row.is_some_and(|row| row.waits.iter().any(|wait| wait.event.as_deref() == Some(&expected)));
            if waits { Ok(()) } else { Err(unknown()) }
        })
        .await?;
        // Once: the key is the token's own.
        self.send_mail(call, Some(token)).await
    }

    /// `…/events/NAME`.
    pub(crate) async fn send_event(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let key = idempotency_key(call.request.headers())?.map(str::to_owned);
        self.refuse_if_not_durable(&call.name)?;
        self.send_mail(call, key).await
    }

    async fn send_mail(self: &Arc<Self>, call: Call, key: Option<String>) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        let id = id_of(&call.name)?;
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
