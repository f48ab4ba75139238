//! The heads of requests and answers on their way: what is refused, what is taken out, what is set.
//!
//! A request is read into its parts and written anew, so what a function sends is one request or an error, however it is
//! spelt: the host never sees the function's own bytes of a head.

use hyper::body::Body;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, StatusCode, Uri};

/// Headers of one connection, not of a message that is passed on.
pub static HOP_BY_HOP: [HeaderName; 11] = [
    CONNECTION,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    EXPECT,
];

/// Why a request is not passed on. The function that sent it is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Refused {
    /// CONNECT would make a tunnel; an answer to TRACE would hold the headers that are added.
    #[error("the method is one of CONNECT and TRACE, which are not passed on")]
    Method,
    /// Another protocol would follow.
    #[error("the request asks for another protocol (`Upgrade`), and only HTTP/1.1 is passed on")]
    Upgrade,
    /// Two servers could take it for different hosts.
    #[error("the request has more than one `Host`")]
    Hosts,
}

impl Refused {
    /// The status of the answer.
    pub(super) fn status(self) -> StatusCode {
        match self {
            Refused::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refused::Upgrade => StatusCode::NOT_IMPLEMENTED,
            Refused::Hosts => StatusCode::BAD_REQUEST,
        }
    }
}

/// Whether the relay sets, or takes out, a header of this name itself.
pub(super) fn is_own(name: &HeaderName) -> bool {
    *name == HOST || *name == CONTENT_LENGTH || HOP_BY_HOP.contains(name)
}

/// A function's request as the host gets it.
pub(super) fn outgoing<B: Body>(
    request: Request<B>,
    authority: &HeaderValue,
    added: &[(HeaderName, HeaderValue)],
) -> Result<Request<B>, Refused> {
    let (mut parts, body) = request.into_parts();
    check(&parts)?;
    parts.uri = match parts.uri.path_and_query() {
        Some(path) => Uri::from(path.clone()),
        None => Uri::from(PathAndQuery::from_static("/")),
    };
    parts.version = hyper::Version::HTTP_11;
    take_hop_by_hop(&mut parts.headers);
    let had_length = parts.headers.remove(CONTENT_LENGTH).is_some();
    let usually_has_body = [Method::POST, Method::PUT, Method::PATCH].contains(&parts.method);
    // The length of a body is written anew from what was read of it. One of unknown length has a length in pieces, also of
    // a GET, which seldom has a body.
    if body.is_end_stream() {
        // Some hosts refuse a request that usually has a body and does not say that it has none.
        if had_length || usually_has_body {
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
    } else if body.size_hint().exact().is_none() {
        parts.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    parts.headers.insert(HOST, authority.clone());
    for (name, value) in added {
        parts.headers.insert(name, value.clone());
    }
    Ok(Request::from_parts(parts, body))
}

fn check(parts: &Parts) -> Result<(), Refused> {
    let headers = &parts.headers;
    if parts.method == Method::CONNECT || parts.method == Method::TRACE {
        return Err(Refused::Method);
    }
    if headers.contains_key(UPGRADE) {
        return Err(Refused::Upgrade);
    }
    if headers.get_all(HOST).iter().count() > 1 {
        return Err(Refused::Hosts);
    }
    Ok(())
}

/// Takes out what belongs to one connection, and what the message itself says does.
pub(super) fn take_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        // What says where a message ends cannot be taken out by naming it.
        .filter(|name| *name != CONTENT_LENGTH)
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Empty;
    use hyper::body::{Bytes, Frame};
    use std::convert::Infallible;

    type Request = hyper::Request<Empty<Bytes>>;

    const HOST_VALUE: HeaderValue = HeaderValue::from_static("api.example");

    fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Request {
        let builder = hyper::Request::builder().method(method).uri(uri);
        let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        builder.body(Empty::new()).expect("a request")
    }

    fn sent(request: Request) -> Result<Request, Refused> {
        let secret = (HeaderName::from_static("authorization"), HeaderValue::from_static("Bearer hunter2"));
        outgoing(request, &HOST_VALUE, &[secret])
    }

    #[test]
    fn the_host_and_the_configured_headers_are_set_and_others_of_these_names_are_removed() {
        let own = [("host", "other.example"), ("authorization", "mine"), ("authorization", "also"), ("x-a", "1")];
        let sent = sent(request("GET", "http://other.example/path?q=1", &own)).expect("passed on");
        assert_eq!(sent.uri(), "/path?q=1");
        assert_eq!(sent.headers()["host"], "api.example");
        let authorization: Vec<_> = sent.headers().get_all("authorization").iter().collect();
        assert_eq!(authorization, ["Bearer hunter2"]);
        assert_eq!(sent.headers()["x-a"], "1");
    }

    #[test]
    fn a_configured_header_cannot_be_taken_out_by_naming_it() {
        let own = [("connection", "authorization, x-a"), ("x-a", "1"), ("keep-alive", "5"), ("te", "trailers")];
        let sent = sent(request("GET", "/", &own)).expect("passed on");
        assert_eq!(sent.headers()["authorization"], "Bearer hunter2");
        for name in ["connection", "x-a", "keep-alive", "te"] {
            assert!(!sent.headers().contains_key(name), "{name}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for (request, why) in [
            (request("CONNECT", "other.example:443", &[]), Refused::Method),
            (request("TRACE", "/", &[]), Refused::Method),
            (request("GET", "/", &[("upgrade", "websocket"), ("connection", "upgrade")]), Refused::Upgrade),
            (request("GET", "/", &[("host", "a"), ("host", "b")]), Refused::Hosts),
        ] {
            assert_eq!(sent(request).err(), Some(why));
        }
    }

    #[test]
    fn the_length_of_a_body_is_written_anew() {
        let counted = request("POST", "/", &[("content-length", "77")]);
        assert_eq!(sent(counted).expect("passed on").headers()[CONTENT_LENGTH], "0");
        let plain = request("GET", "/", &[]);
        assert!(!sent(plain).expect("passed on").headers().contains_key(CONTENT_LENGTH));
        let request = hyper::Request::get("/").body(Pieces).expect("a request");
        let sent = outgoing(request, &HOST_VALUE, &[]).expect("passed on");
        assert_eq!(sent.headers()[TRANSFER_ENCODING], "chunked");
    }

    /// A body of unknown length.
    struct Pieces;

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            std::task::Poll::Ready(None)
        }
    }
}
