//! What is refused of a request's head before anything else is looked at.
//!
//! The HTTP library takes heads that the standard forbids, or leaves to the reader: two hosts, two origins, a body that is
//! chunked twice. A proxy in front of this server may read such a head in another way than this server does, and so let
//! through what it should not. Each is answered 400, and its connection is closed, because it may be unclear where the next
//! request begins.

use hyper::Version;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN, TRANSFER_ENCODING};
use hyper::http::Request;

use crate::http::auth::SEC_FETCH_SITE;
use crate::http::error::ApiError;
use crate::http::trace::CALL_ID;

/// Where the document of an asynchronous invocation is sent when it has ended.
pub(crate) const CALLBACK_URL: HeaderName = HeaderName::from_static("x-callback-url");

/// What makes a request the same as one before it.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Headers of which there may be one.
const SINGLE: [HeaderName; 8] =
    [HOST, ORIGIN, AUTHORIZATION, CONTENT_TYPE, SEC_FETCH_SITE, CALL_ID, CALLBACK_URL, IDEMPOTENCY_KEY];

/// Refuses a head that can be read in more ways than one.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), ApiError> {
    let headers = request.headers();
    for name in SINGLE {
        if headers.get_all(&name).iter().nth(1).is_some() {
            return Err(ApiError::bad_request(format!("the header `{name}` may be sent once")));
        }
    }
    check_host(request)?;
    check_coding(headers)
}

fn check_host<B>(request: &Request<B>) -> Result<(), ApiError> {
    let refused = |why: &str| Err(ApiError::bad_request(format!("`Host` {why}")));
    match (request.headers().get(HOST), request.uri().authority()) {
        // HTTP/1.0 has no such header; some health checks still use that version.
        (None, _) if request.version() == Version::HTTP_10 => Ok(()),
        (None, _) => refused("is missing"),
        (Some(host), _) if host.is_empty() => refused("is empty"),
        // The whole address may be in the first line; then it counts, and the header must say the same.
        (Some(host), Some(named)) if !host.as_bytes().eq_ignore_ascii_case(named.as_str().as_bytes()) => {
            refused("and the address in the request's first line differ")
        }
        (Some(_), _) => Ok(()),
    }
}

fn check_coding(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(ApiError::bad_request("`Transfer-Encoding` is `chunked`, once, or is not sent at all")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(version: Version, uri: &str, headers: &[(&str, &str)]) -> bool {
        let request = Request::builder().version(version).uri(uri);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        check(&request.body(()).expect("a request")).is_err()
    }

    #[test]
    fn a_head_that_can_be_read_in_two_ways_is_refused() {
        let host = ("host", "127.0.0.1:7070");
        let alone = |uri, headers: &[_]| refused(Version::HTTP_11, uri, headers);
        let with = |more: &[_]| alone("/x", &[&[host], more].concat());
        assert!(!with(&[]) && !with(&[("origin", "null"), ("transfer-encoding", "Chunked")]));
        assert!(!alone("http://127.0.0.1:7070/x", &[host]));
        assert!(!refused(Version::HTTP_10, "/x", &[]), "HTTP/1.0 has no hosts");

        assert!(alone("/x", &[]), "no host");
        assert!(alone("/x", &[("host", "")]), "an empty host");
        assert!(refused(Version::HTTP_10, "/x", &[("host", "")]), "an empty host");
        assert!(with(&[host]), "two hosts, although they are the same");
        assert!(alone("http://127.0.0.1:7071/x", &[host]), "another host in the first line");
        for name in ["origin", "authorization", "content-type", "sec-fetch-site", "x-call-id", "x-callback-url"] {
            assert!(with(&[(name, "a"), (name, "a")]), "two of {name}");
        }
        for codings in [&["chunked", "chunked"][..], &["chunked, chunked"], &["gzip, chunked"], &["identity"], &[""]] {
            let headers: Vec<_> = codings.iter().map(|coding| ("transfer-encoding", *coding)).collect();
            assert!(with(&headers), "{codings:?}");
        }
    }
}
