//! Identities of a request outside of this server: the call's id and the W3C trace context.
//!
//! A client that traces sends `traceparent: 00-TRACE-PARENT-FLAGS`. The answer names the same trace, and the span of
//! this invocation as the parent of whatever follows. Without one a trace begins here. A `traceparent` that is not
//! well-formed is ignored, as the specification requires; a malformed `X-Call-Id` is refused, because the caller could
//! not find it again.

use std::fmt;

use hyper::header::{HeaderMap, HeaderName};
use serde::{Deserialize, Serialize};

use crate::http::error::ApiError;
use crate::ids::{hex, lower_hex, random, random_id};

pub(crate) const CALL_ID: HeaderName = HeaderName::from_static("x-call-id");
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The longest id a caller may choose.
const CALL_ID_MAX: usize = 128;

/// The call's id as the caller chose it.
pub(crate) fn call_id(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(CALL_ID) else { return Ok(None) };
    let well_formed = |text: &&str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        (1..=CALL_ID_MAX).contains(&text.len()) && text.bytes().all(allowed)
    };
    match value.to_str().ok().filter(well_formed) {
        Some(text) => Ok(Some(text.to_owned())),
        None => {
            Err(ApiError::bad_request(format!("X-Call-Id: 1 to {CALL_ID_MAX} letters, digits, `-`, `_`, `.` and `:`")))
        }
    }
}

/// A place in a trace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trace {
    /// The whole trace.
    pub(crate) id: String,
    /// This invocation.
    pub(crate) span: String,
    /// Whether the originator of the trace records it; passed on unchanged.
    flags: u8,
}

impl Trace {
    /// The caller's trace, or a new one.
    pub(crate) fn of(headers: &HeaderMap) -> Trace {
        let span = hex(&random::<8>());
        let parent = headers.get(TRACEPARENT).and_then(|value| parse(value.to_str().ok()?));
        let (id, flags) = parent.unwrap_or_else(|| (random_id(), 0));
        Trace { id, span, flags }
    }
}

/// As a `traceparent` header has it.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.id, self.span, self.flags)
    }
}

/// The trace and its flags. Later versions may have more fields; version `ff` is invalid.
fn parse(text: &str) -> Option<(String, u8)> {
    let mut parts = text.split('-');
    let mut part = |len| parts.next().filter(|part| part.len() == len && lower_hex(part));
    let (version, id, parent, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
    let more = parts.next().is_some();
    let zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    if version == "ff" || (version == "00" && more) || zero(id) || zero(parent) {
        return None;
    }
    // Of the flags of version 00 only "sampled" is defined.
    Some((id.to_owned(), u8::from_str_radix(flags, 16).ok()? & 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;
    use hyper::header::HeaderValue;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_trace_goes_on() {
        let sent = format!("00-{ID}-00f067aa0ba902b7-01");
        let headers = HeaderMap::from_iter([(TRACEPARENT, HeaderValue::from_str(&sent).expect("a value"))]);
        let trace = Trace::of(&headers);
        assert_eq!(trace.id, ID);
        assert!(trace.to_string().starts_with(&format!("00-{ID}-")) && trace.to_string().ends_with("-01"));
        assert_ne!(trace.span, "00f067aa0ba902b7");
        assert_eq!(parse(&trace.to_string()), Some((ID.to_owned(), 1)));
    }

    #[test]
    fn what_is_no_traceparent_begins_a_trace() {
        for text in [
            "",
            "00",
            &format!("00-{ID}-00f067aa0ba902b7"),
            &format!("00-{ID}-00f067aa0ba902b7-01-more"),
            &format!("ff-{ID}-00f067aa0ba902b7-01"),
            &format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            &format!("00-{ID}-0000000000000000-01"),
            &format!("00-{}-00f067aa0ba902b7-01", ID.to_uppercase()),
            &format!("00-{ID}é-00f067aa0ba902b7-01"),
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(parse(&format!("01-{ID}-00f067aa0ba902b7-01-more")), Some((ID.to_owned(), 1)));
        let trace = Trace::of(&HeaderMap::new());
        assert_eq!((trace.id.len(), trace.span.len()), (32, 16));
    }

    #[test]
    fn call_ids_are_kept_or_refused() {
        let ask = |text: &[u8]| {
            let value = HeaderValue::from_bytes(text).expect("a value");
            call_id(&HeaderMap::from_iter([(CALL_ID, value)])).map_err(|refusal| refusal.status)
        };
        assert_eq!(ask(b"order-17.a_b:c"), Ok(Some("order-17.a_b:c".to_owned())));
        for wrong in [&b""[..], b"a b", b"a/b", b"\xff", &[b'a'; 129]] {
            assert_eq!(ask(wrong), Err(StatusCode::BAD_REQUEST), "{wrong:?}");
        }
        assert_eq!(call_id(&HeaderMap::new()).ok(), Some(None));
    }
}
