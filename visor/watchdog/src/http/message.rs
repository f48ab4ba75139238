//! HTTP messages as the content of slots: the request that a function gets, and the answer that it gives.
//!
//! ```text
//!   client ── request ──▶ head, without what is about the connection ─┐
//!                         content ────────────────────────────────────┴──▶ slot ──▶ function
//!   client ◀── answer ──── status, fields, content ◀── checked ◀── slot ◀──┘
//! ```
//!
//! Both are messages of HTTP/1.1 (RFC 9112): a first line, fields, an empty line, and the content, which is all that follows.
//!
//! The server is an intermediary: fields about one connection are for it, and go no further in either direction (RFC 9110, 7.6.1).
//! An answer is what a function has written. It is taken apart here, and what is sent is made of the parts, so nothing in it can end
//! the answer early or begin another one.

use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use hyper::Method;
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderMap, HeaderName,
    HeaderValue, SET_COOKIE, STRICT_TRANSPORT_SECURITY, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::http::{Response, Uri};

use crate::http::answer::Answer;
use crate::http::content::Content;
use crate::http::request_body::Preface;
use monohull_network::https::HOP_BY_HOP;
use monohull_report::text::quoted;

/// The longest head of an answer.
const HEAD_MAX: u64 = 64 << 10;
/// The most fields of an answer.
const FIELDS_MAX: usize = 256;
/// Digits of any length, with room before them: the length of a content that is still to come stands here.
const LENGTH_DIGITS: usize = 20;

/// Fields of answers that speak for the whole address, which is the server's and not the function's. Cookies do: a path can be said, but not
/// enforced.
const OF_ADDRESS: [HeaderName; 9] = [
    SET_COOKIE,
    STRICT_TRANSPORT_SECURITY,
    HeaderName::from_static("alt-svc"),
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("origin-agent-cluster"),
    HeaderName::from_static("report-to"),
    HeaderName::from_static("reporting-endpoints"),
    HeaderName::from_static("service-worker-allowed"),
];

/// Fields by which an answer gives orders to a proxy before the server: to send a file of its own, for example.
const OF_PROXIES: [HeaderName; 8] = [
    HeaderName::from_static("x-accel-buffering"),
    HeaderName::from_static("x-accel-charset"),
    HeaderName::from_static("x-accel-expires"),
    HeaderName::from_static("x-accel-limit-rate"),
    HeaderName::from_static("x-accel-redirect"),
    HeaderName::from_static("x-lighttpd-send-file"),
    HeaderName::from_static("x-reproxy-url"),
    HeaderName::from_static("x-sendfile"),
];

/// Fields that the server puts into its answers itself.
const OF_SERVER: [HeaderName; 5] = [
    HeaderName::from_static("x-invocation-id"),
    HeaderName::from_static("x-call-id"),
    HeaderName::from_static("x-cold-start"),
    HeaderName::from_static("x-duration-seconds"),
    HeaderName::from_static("traceparent"),
];

/// What browsers let a function's page do. Without an origin of its own it cannot call the server as the server's page can.
const SANDBOX: &str = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

/// Why an answer cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    /// The host does not give its bytes.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// It has no end of the head.
    #[error("no empty line ends its head")]
    NoEnd,
    /// Its head is too long.
    #[error("its head is longer than {HEAD_MAX} bytes")]
    LongHead,
    /// It has too many fields.
    #[error("it has more than {FIELDS_MAX} fields")]
    ManyFields,
    /// A line of the head is not what it must be.
    #[error("line {number} of its head is {line}: {why}")]
    Line {
        /// Counted from 1.
        number: usize,
        /// As it is shown.
        line: String,
        /// What is wrong.
        why: httparse::Error,
    },
    /// A status that no answer may have.
    #[error("its status is {0}, and an answer has one from 200 to 599")]
    Status(u16),
    /// A name or a value that cannot be sent.
    #[error("its field `{0}` has a value that cannot be sent")]
    Value(String),
    /// It says that its content is coded for a connection.
    #[error("it has the field `transfer-encoding`: its content is all that follows the head, as it is")]
    TransferEncoding,
    /// It says more than once how long its content is.
    #[error("it has the field `content-length` twice")]
    TwoLengths,
    /// It says that its content is longer or shorter than it is.
    #[error("its `content-length` is {said}, and its content has {bytes} bytes")]
    Length {
        /// As it is shown.
        said: String,
        /// What it has.
        bytes: u64,
    },
    /// It has content where there is none by definition.
    #[error("an answer with status {0} has no content, and this one has {1} bytes")]
    Content(u16, u64),
}

/// What a function gets as the first line's target: the path behind `/http/NAME`, as the client has written it, and the query.
pub(crate) fn target(uri: &Uri) -> String {
    let behind = uri.path().splitn(4, '/').nth(3).unwrap_or_default();
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("/{behind}{query}")
}

/// The head of a request for a function, which its content is to follow. `Authorization` is left out where it was for the server.
pub(crate) fn request_head(parts: &Parts, body: &impl Body, is_authorized: bool) -> Preface {
    let headers = &parts.headers;
    let mut head = format!("{} {} HTTP/1.1\r\n", parts.method, target(&parts.uri)).into_bytes();
    let host = headers.get(HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    field(&mut head, HOST.as_str(), host);
    let named = named_by_connection(headers.get_all(CONNECTION).iter().map(HeaderValue::as_bytes));
    let is_own = |name: &HeaderName| {
        // Cookies of all workflows are one address's.
        [HOST, CONTENT_LENGTH, COOKIE, TRANSFER_ENCODING].contains(name)
            || HOP_BY_HOP.contains(name)
            || named.iter().any(|named| named == name.as_str())
            || (is_authorized && *name == AUTHORIZATION)
    };
    for (name, value) in headers.iter().filter(|(name, _)| !is_own(name)) {
        field(&mut head, name.as_str(), value.as_bytes());
    }
    let mut length_at = None;
    if headers.contains_key(TRANSFER_ENCODING) || headers.contains_key(CONTENT_LENGTH) {
        let length = body.size_hint().exact();
        let length = length.map_or(" ".repeat(LENGTH_DIGITS), |length| length.to_string());
        field(&mut head, CONTENT_LENGTH.as_str(), length.as_bytes());
        if body.size_hint().exact().is_none() {
            let at = head.len() - b"\r\n".len() - LENGTH_DIGITS;
            length_at = Some(at..at + LENGTH_DIGITS);
        }
    }
    head.extend_from_slice(b"\r\n");
    Preface { bytes: head, length_at }
}

fn field(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

/// The fields that `Connection` names, in lower case.
fn named_by_connection<'v>(values: impl Iterator<Item = &'v [u8]>) -> Vec<String> {
    let names = values.flat_map(|value| value.split(|byte| *byte == b','));
    names.map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase()).collect()
}

/// The answer that a message stands for, to a request of this method.
pub(crate) fn answer(message: &Content, method: &Method) -> Result<Response<Answer>, AnswerError> {
    let beginning = beginning(message)?;
    if let Some(b'\r' | b'\n') = beginning.first() {
        // The parser would skip any number of empty lines.
        return Err(AnswerError::Line { number: 1, line: quoted(""), why: httparse::Error::Version });
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let length = match head.parse(&beginning) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if message.len() > HEAD_MAX => return Err(AnswerError::LongHead),
        Ok(httparse::Status::Partial) => return Err(AnswerError::NoEnd),
        Err(httparse::Error::TooManyHeaders) => return Err(AnswerError::ManyFields),
        Err(why) => return Err(wrong_line(&beginning, why)),
    };
    let code = head.code.unwrap_or_default();
    let status = StatusCode::from_u16(code).ok().filter(|_| (200..600).contains(&code));
    let status = status.ok_or(AnswerError::Status(code))?;
    let bytes = message.len() - length as u64;
    if bytes > 0 && [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status) {
        return Err(AnswerError::Content(code, bytes));
    }
    let mut response = Response::new(behind(message, length));
    *response.status_mut() = status;
    *response.headers_mut() = fields_of(head.headers, bytes, method, status)?;
    Ok(response)
}

/// The part of a message that its head is in.
fn beginning(message: &Content) -> io::Result<Bytes> {
    let length = message.len().min(HEAD_MAX) as usize;
    match message {
        Content::Small(bytes) => Ok(bytes.slice(..length)),
        Content::Large(large) => {
            let mut bytes = vec![0; length];
            large.file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes.into())
        }
    }
}

/// What follows a head of this length.
fn behind(message: &Content, length: usize) -> Answer {
    match message {
        Content::Small(bytes) => Answer::Whole(bytes.slice(length..)),
        Content::Large(large) => Answer::File { file: large.file.clone(), at: length as u64, end: large.len },
    }
}

/// The fields of an answer, as they are sent.
fn fields_of(
    fields: &[httparse::Header<'_>],
    bytes: u64,
    method: &Method,
    status: StatusCode,
) -> Result<HeaderMap, AnswerError> {
    let of_connection = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(CONNECTION.as_str()));
    let named = named_by_connection(of_connection.map(|field| field.value));
    let mut sent = HeaderMap::with_capacity(fields.len() + 8);
    for field in fields {
        let wrong = || AnswerError::Value(field.name.to_owned());
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| wrong())?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| wrong())?;
        if name == TRANSFER_ENCODING {
            return Err(AnswerError::TransferEncoding);
        }
        let is_kept =
            [&HOP_BY_HOP[..], &OF_ADDRESS, &OF_PROXIES, &OF_SERVER].iter().all(|names| !names.contains(&name));
        if is_kept && (name == CONTENT_LENGTH || !named.iter().any(|named| named == name.as_str())) {
            sent.append(name, value);
        }
    }
    check_length(&mut sent, bytes, *method == Method::HEAD, status)?;
    sent.append(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    Ok(sent)
}

/// Compares the length that an answer says with the one that it has. It is then left to what sends it, but for answers without a content
/// that tell how long it would be.
fn check_length(sent: &mut HeaderMap, bytes: u64, to_head: bool, status: StatusCode) -> Result<(), AnswerError> {
    let mut lengths = sent.get_all(CONTENT_LENGTH).iter();
    let (said, other) = (lengths.next().cloned(), lengths.next());
    if other.is_some() {
        return Err(AnswerError::TwoLengths);
    }
    let Some(said) = said else { return Ok(()) };
    let digits = said.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = digits.and_then(|digits| digits.parse::<u64>().ok());
    let tells = bytes == 0 && (to_head || status == StatusCode::NOT_MODIFIED);
    if length.is_none_or(|length| length != bytes && !tells) {
        let said = quoted(&String::from_utf8_lossy(said.as_bytes()));
        return Err(AnswerError::Length { said, bytes });
    }
    if !(tells && to_head) || status == StatusCode::NO_CONTENT {
        sent.remove(CONTENT_LENGTH);
    }
    Ok(())
}

/// The first line without which the head could still be right.
fn wrong_line(head: &[u8], why: httparse::Error) -> AnswerError {
    let mut end = 0;
    let mut lines = head.split_inclusive(|byte| *byte == b'\n').enumerate();
    let found = lines.find(|(_, line)| {
        end += line.len();
        let so_far = [&head[..end], b"\r\n"].concat();
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        httparse::Response::new(&mut fields).parse(&so_far).is_err()
    });
    let (number, line) = found.map_or((0, &b""[..]), |(index, line)| (index + 1, line));
    let line = quoted(String::from_utf8_lossy(line).trim_end_matches(['\r', '\n']));
    AnswerError::Line { number, line, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{Empty, Full};
    use hyper::http::Request;

    fn request(request: hyper::http::request::Builder, body: &'static str, is_authorized: bool) -> String {
        let (parts, body) =
            request.body(Full::new(Bytes::from_static(body.as_bytes()))).expect("a request").into_parts();
        String::from_utf8(request_head(&parts, &body, is_authorized).bytes).expect("text")
    }

    #[test]
    fn a_function_gets_what_is_not_about_the_connection() {
        let asked = || {
            Request::post("/http/shop/a%2Fb//c/../d?x=1&y=%20")
                .header("accept", "text/html")
                .header("host", "shop.example:8080")
                .header("connection", "keep-alive, X-Hop")
                .header("x-hop", "1")
                .header("keep-alive", "timeout=5")
                .header("te", "trailers")
                .header("upgrade", "h2c")
                .header("expect", "100-continue")
                .header("proxy-authorization", "Basic eDp5")
                .header("authorization", "Bearer s3cret")
                .header("cookie", "a=1")
                .header("cookie", "b=2")
                .header("content-length", "5")
        };
        assert_eq!(
            request(asked(), "hello", true),
            "POST /a%2Fb//c/../d?x=1&y=%20 HTTP/1.1\r\nhost: shop.example:8080\r\naccept: text/html\r\n\
             content-length: 5\r\n\r\n"
        );
        assert!(request(asked(), "hello", false).contains("\r\nauthorization: Bearer s3cret\r\n"));
        for path in ["/http/shop", "/http/shop/"] {
            assert_eq!(request(Request::get(path), "", true), "GET / HTTP/1.1\r\nhost: \r\n\r\n", "{path}");
        }
        assert_eq!(target(&"http://shop.example/http/shop/a?b".parse().expect("an address")), "/a?b");
    }

    #[test]
    fn the_length_of_a_content_that_is_still_to_come_has_room() {
        struct Unknown(Empty<Bytes>);
        impl Body for Unknown {
            type Data = Bytes;
            type Error = std::convert::Infallible;
            fn poll_frame(
                mut self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
                std::pin::Pin::new(&mut self.0).poll_frame(context)
            }
        }
        let request = Request::post("/http/shop/").header("transfer-encoding", "chunked");
        let (parts, body) = request.body(Unknown(Empty::new())).expect("a request").into_parts();
        let head = request_head(&parts, &body, false);
        let at = head.length_at.expect("room");
        assert_eq!(&head.bytes[at.clone()], " ".repeat(LENGTH_DIGITS).as_bytes());
        assert!(head.bytes[..at.start].ends_with(b"content-length: ") && head.bytes[at.end..] == *b"\r\n\r\n");
    }

    fn answered(message: &str) -> Result<Response<Answer>, String> {
        answered_to(Method::GET, message)
    }

    fn answered_to(method: Method, message: &str) -> Result<Response<Answer>, String> {
        answer(&Content::Small(message.to_owned().into()), &method).map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_is_sent_with_its_status_fields_and_content() {
        let response = answered(
            "HTTP/1.1 418 I'm a teapot\r\nX-Twice: a=1\r\nx-twice: b=2\r\nX-Empty:\r\nX-Latin: \u{e9}\r\n\
             Content-Length: 5\r\n\r\nhello",
        );
        let response = response.expect("an answer");
        assert_eq!(response.status(), 418);
        let both: Vec<_> = response.headers().get_all("x-twice").iter().collect();
        assert_eq!(both, ["a=1", "b=2"]);
        assert_eq!(response.headers()["x-empty"], "");
        assert_eq!(response.headers()["x-latin"].as_bytes(), "é".as_bytes());
        assert_eq!(response.headers()["content-security-policy"], SANDBOX);
        assert!(!response.headers().contains_key("content-length"), "what sends it knows the length");
        let Answer::Whole(content) = response.body() else { panic!("in memory") };
        assert_eq!(*content, "hello");
        assert!(answered("HTTP/1.0 200 OK\r\n\r\n").is_ok() && answered("HTTP/1.1 200\r\n\r\nx").is_ok());
    }

    #[test]
    fn fields_about_the_connection_the_address_and_the_server_are_left_out() {
        let response = answered(
            "HTTP/1.1 200 OK\r\nConnection: close, x-hop, content-length\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nTrailer: x\r\n\
             Set-Cookie: a=1\r\nX-Accel-Redirect: /private\r\nX-Sendfile: /etc/passwd\r\nStrict-Transport-Security: max-age=9\r\nClear-Site-Data: *\r\nAlt-Svc: h2\r\nService-Worker-Allowed: /\r\n\
             X-Invocation-Id: forged\r\nX-Call-Id: forged\r\nTraceparent: forged\r\nX-Kept: 1\r\n\
             Content-Security-Policy: default-src 'self'\r\n\r\n",
        );
        let headers = response.expect("an answer").into_parts().0.headers;
        let mut names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        // Browsers keep to all policies.
        assert_eq!(names, ["content-security-policy", "content-security-policy", "x-kept"]);
    }

    #[test]
    fn answers_without_content_may_tell_how_long_it_would_be() {
        let message = "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n";
        let response = answered_to(Method::HEAD, message).expect("an answer");
        assert_eq!(response.headers()["content-length"], "77");
        assert!(answered(message).is_err());
        assert!(answered("HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n").is_ok());
        assert!(answered("HTTP/1.1 204 No Content\r\n\r\n").is_ok());
        let none =
            answered_to(Method::HEAD, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n").expect("an answer");
        assert!(!none.headers().contains_key("content-length"));
    }

    #[test]
    fn an_answer_begins_with_its_status() {
        for beginning in ["\n".repeat(65_535), "\r\n".repeat(20_000), "\r".to_owned()] {
            let refused = answered(&format!("{beginning}X")).expect_err("no answer");
            assert!(refused.starts_with("line 1 "), "{refused}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused_with_the_reason() {
        let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(HEAD_MAX as usize));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(FIELDS_MAX + 1));
        for (message, why) in [
            ("", "no empty line"),
            ("HTTP/1.1 200 OK\r\nx: y\r\n", "no empty line"),
            (&long, "longer than 65536"),
            (&many, "more than 256"),
            ("hello", "line 1 of its head is `hello`"),
            ("GET / HTTP/1.1\r\n\r\n", "line 1 of its head is `GET / HTTP/1.1`"),
            ("HTTP/2.0 200 OK\r\n\r\n", "line 1"),
            ("HTTP/1.1 20 OK\r\n\r\n", "line 1"),
            ("HTTP/1.1 2000 OK\r\n\r\n", "line 1"),
            ("HTTP/1.1 -20 OK\r\n\r\n", "line 1"),
            ("HTTP/1.1 100 Continue\r\n\r\n", "status is 100"),
            ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "status is 101"),
            ("HTTP/1.1 000 None\r\n\r\n", "status is 0"),
            ("HTTP/1.1 999 None\r\n\r\n", "status is 999"),
            ("HTTP/1.1 200 OK\r\nx: y\r\nno colon\r\n\r\n", "line 3 of its head is `no colon`"),
            ("HTTP/1.1 200 OK\r\nx : y\r\n\r\n", "line 2"),
            ("HTTP/1.1 200 OK\r\nx: y\r\n folded\r\n\r\n", "line 3"),
            ("HTTP/1.1 200 OK\r\nx y: z\r\n\r\n", "line 2"),
            ("HTTP/1.1 200 OK\r\n: y\r\n\r\n", "line 2"),
            ("HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n", "line 2"),
            ("HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n", "line 2"),
            ("HTTP/1.1 200 OK\r\nx: a\x1bb\r\n\r\n", "line 2"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "transfer-encoding"),
            (
                "HTTP/1.1 200 OK\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n",
                "transfer-encoding",
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello", "content-length` is `4`, and its content has 5"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", "content-length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", "content-length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", "content-length"),
            ("HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhello", "content-length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello", "content-length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "twice"),
            ("HTTP/1.1 204 No Content\r\n\r\nhello", "status 204 has no content, and this one has 5 bytes"),
            ("HTTP/1.1 304 Not Modified\r\n\r\nhello", "status 304"),
        ] {
            let refused = answered(message);
            assert!(refused.as_ref().is_err_and(|error| error.contains(why)), "{message:?}: {refused:?}");
        }
    }

    /// What is no message of HTTP never makes an answer with more than one beginning, and never a panic.
    #[test]
    fn changed_messages_are_answers_or_refused() {
        let message =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        for at in 0..message.len() {
            for byte in 0..=255 {
                let mut changed = message.to_vec();
                changed[at] = byte;
                let Ok(response) = answer(&Content::Small(changed.into()), &Method::GET) else { continue };
                for value in response.headers().values() {
                    assert!(!value.as_bytes().iter().any(|byte| b"\r\n\0".contains(byte)), "{at} {byte}: {value:?}");
                }
            }
        }
    }
}
