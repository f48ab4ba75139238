//! Errors, in the same form for every route.
//!
//! ```json
//! { "error": { "kind": "panic", "message": "…", "blame": "function", "step": "map", "instance": 3, "report": {…} } }
//! ```
//!
//! A status code is for programs that retry or give up; `kind` names the error, `blame` the party at fault. Details
//! that only some errors have (the mistakes in a workflow, the checker's finding) are fields beside them.

use std::borrow::Cow;

use hyper::StatusCode;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::http::response::{Builder, Response};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::http::answer::Answer;
use crate::store::error::StateError;
use monohull_report::failure;
use monohull_report::{Failure, FailureKind};

/// The kind of the error that a request lacks an input slot.
pub const MISSING_INPUT: &str = "missing-input";

/// The kind of the error that there is no room for an answer.
const ANSWERS_FULL: &str = "answers-full";

/// The party at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Blame {
    /// The function's code.
    Function,
    /// The workflow document.
    Workflow,
    /// The sender of the request.
    Client,
    /// The machine, or how it is used.
    Host,
    /// Monohull itself.
    Monohull,
}

impl From<failure::Blame> for Blame {
    fn from(blame: failure::Blame) -> Blame {
        match blame {
            failure::Blame::Function => Blame::Function,
            failure::Blame::Workflow => Blame::Workflow,
            failure::Blame::Host => Blame::Host,
            failure::Blame::Monohull => Blame::Monohull,
        }
    }
}

/// An answer other than success.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiError {
    #[serde(with = "number")]
    pub(crate) status: StatusCode,
    pub(crate) error: Box<ErrorBody>,
    /// Headers that some status codes require. They are for the client only, and are not recorded.
    #[serde(skip)]
    extra: Extra,
}

/// A status code as a number.
mod number {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(status: &StatusCode, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u16(status.as_u16())
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<StatusCode, D::Error> {
        StatusCode::from_u16(u16::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// The object under `error`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ErrorBody {
    pub(crate) kind: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) blame: Blame,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instance: Option<u32>,
    /// All that is known of a run that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) report: Option<Box<RawValue>>,
    /// What is wrong with a workflow document, all at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mistakes: Option<Value>,
    /// What the instruction checker found in an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) finding: Option<Value>,
}

#[derive(Clone, Debug, Default)]
enum Extra {
    #[default]
    None,
    Allow(String),
    RetryAfter(u64),
    Challenge,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, kind: &'static str, blame: Blame, message: impl Into<String>) -> ApiError {
        let error = ErrorBody {
            kind: kind.into(),
            message: message.into(),
            blame,
            step: None,
            instance: None,
            report: None,
            mistakes: None,
            finding: None,
        };
        ApiError { status, error: Box::new(error), extra: Extra::None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "bad-request", Blame::Client, message)
    }

    /// An input slot is not given.
    pub(crate) fn missing_input(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, MISSING_INPUT, Blame::Client, message)
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> ApiError {
        let refusal = ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", Blame::Client, message);
        ApiError { extra: Extra::Challenge, ..refusal }
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", Blame::Client, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not-found", Blame::Client, message)
    }

    /// What was removed by hand.
    pub(crate) fn gone(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::GONE, "gone", Blame::Client, message)
    }

    pub(crate) fn method_not_allowed(allowed: String) -> ApiError {
        let message = format!("this path answers {allowed}");
        let refusal = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", Blame::Client, message);
        ApiError { extra: Extra::Allow(allowed), ..refusal }
    }

    pub(crate) fn conflict(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, "conflict", Blame::Client, message)
    }

    pub(crate) fn too_large(what: &str, limit: u64) -> ApiError {
        let message = format!("{what} is larger than {limit} bytes, the limit of this server");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", Blame::Client, message)
    }

    pub(crate) fn too_slow(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "too-slow", Blame::Client, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", Blame::Client, message)
    }

    pub(crate) fn invalid(blame: Blame, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", blame, message)
    }

    pub(crate) fn full(message: impl Into<String>, seconds: u64) -> ApiError {
        let refusal = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "full", Blame::Host, message);
        ApiError { extra: Extra::RetryAfter(seconds), ..refusal }
    }

    /// There was no place for the rest of a call, part of which has run. So it says nothing of another attempt.
    pub(crate) fn full_after(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_GATEWAY, "full", Blame::Host, message)
    }

    /// There is no room for an answer.
    pub(crate) fn answers_full() -> ApiError {
        let message = "answers that other clients are still taking have all the memory there is for them";
        let refusal = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, ANSWERS_FULL, Blame::Host, message);
        ApiError { extra: Extra::RetryAfter(1), ..refusal }
    }

    /// The same of an answer to a call that has been made. It says nothing of another attempt, which would be another call.
    pub(crate) fn answers_full_after(id: &str) -> ApiError {
        let message = format!(
            "the invocation has ended, and answers that other clients are still taking have all the memory there is for them: what came of it \
             is at /invocations/{id}, as long as that is kept"
        );
        ApiError::new(StatusCode::BAD_GATEWAY, ANSWERS_FULL, Blame::Host, message)
    }

    pub(crate) fn draining() -> ApiError {
        let message = "the server is shutting down and takes no new work";
        let refusal = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "draining", Blame::Host, message);
        ApiError { extra: Extra::RetryAfter(1), ..refusal }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> ApiError {
        let refusal = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", Blame::Host, message);
        ApiError { extra: Extra::RetryAfter(1), ..refusal }
    }

    /// The deadline passed before the workflow could report it itself.
    pub(crate) fn deadline(message: impl Into<String>, blame: Blame) -> ApiError {
        ApiError::new(StatusCode::GATEWAY_TIMEOUT, FailureKind::Timeout.name(), blame, message)
    }

    /// A result that is larger than what is kept for later, or sent in one piece.
    pub(crate) fn too_large_to_keep(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_GATEWAY, FailureKind::Output.name(), Blame::Client, message)
    }

    /// The workflow's process ended without a report.
    pub(crate) fn died(failure: &Failure) -> ApiError {
        ApiError::new(StatusCode::BAD_GATEWAY, failure.kind.name(), failure.blame.into(), failure.message.clone())
    }

    pub(crate) fn cancelled(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_GATEWAY, FailureKind::Cancelled.name(), Blame::Client, message)
    }

    /// Ended by this server, which ends.
    pub(crate) fn stopped(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_GATEWAY, FailureKind::Cancelled.name(), Blame::Host, message)
    }

    pub(crate) fn host(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "host", Blame::Host, message)
    }

    pub(crate) fn monohull(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", Blame::Monohull, message)
    }

    /// What was sent could not be kept. A disk that is full or read-only may take it later.
    pub(crate) fn not_kept(error: StateError) -> ApiError {
        if error.is_full() {
            return ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "storage", Blame::Host, error.to_string());
        }
        match error {
            StateError::Lost { .. } => ApiError::unavailable(error.to_string()),
            _ => ApiError::host(error.to_string()),
        }
    }

    /// The server ended before the first checkpoint of a call, which is not run again by itself.
    pub(crate) fn interrupted() -> ApiError {
        let message = "the server ended before the first checkpoint or the end of this call, which may have run wholly, in part or not at all; \
                       its workflow does not allow that it is run again";
        ApiError::new(StatusCode::BAD_GATEWAY, "interrupted", Blame::Host, message)
    }

    /// A run that ended with a failure; its report says so.
    pub(crate) fn failed(failure: &Failure) -> ApiError {
        let status = match failure.kind {
            FailureKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        let mut refusal = ApiError::new(status, failure.kind.name(), failure.blame.into(), failure.message.clone());
        refusal.error.step.clone_from(&failure.step);
        refusal.error.instance = failure.instance;
        refusal
    }

    /// The same with all that is known of the run. It is added for each answer, and stored once.
    pub(crate) fn with_report(mut self, report: Option<&impl Serialize>) -> ApiError {
        self.error.report = report.and_then(|report| to_raw_value(report).ok());
        self
    }

    pub(crate) fn with_mistakes(mut self, mistakes: Value) -> ApiError {
        self.error.mistakes = Some(mistakes);
        self
    }

    pub(crate) fn with_finding(mut self, finding: Value) -> ApiError {
        self.error.finding = Some(finding);
        self
    }

    /// As it goes over the wire.
    pub(crate) fn into_response(self) -> Response<Answer> {
        #[derive(Serialize)]
        struct Body<'e> {
            error: &'e ErrorBody,
        }
        let mut response = json(Response::builder().status(self.status), &Body { error: &self.error });
        let header = match self.extra {
            Extra::None => None,
            Extra::Allow(methods) => HeaderValue::try_from(methods).ok().map(|value| (ALLOW, value)),
            Extra::RetryAfter(seconds) => Some((RETRY_AFTER, seconds.into())),
            Extra::Challenge => Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        };
        response.headers_mut().extend(header);
        response
    }
}

/// A JSON document as an answer.
pub(crate) fn json(builder: Builder, document: &impl Serialize) -> Response<Answer> {
    let mut text = monohull_report::escape::to_json(document).unwrap_or_default();
    text.push(b'\n');
    let answer = builder.header(CONTENT_TYPE, "application/json").body(Answer::from(text));
    answer.expect("status and headers are constants")
}
