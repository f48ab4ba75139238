//! A component for `wasm32-wasip2` that answers HTTP requests: `wasi:http/proxy`, by the crate `wasip2`.
//!
//! It knows nothing of Monohull. The first part of the path says what it does; the parts about mistakes are for tests.
#![deny(unsafe_code)]

use std::fmt::Write as _;
use std::io::{self, Read, Write};

use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingRequest, IncomingResponse, Method, OutgoingBody, OutgoingRequest, OutgoingResponse,
    RequestOptions, ResponseOutparam, Scheme, http_error_code,
};
use wasip2::io::streams::StreamError;

/// Bytes that are written together.
const PIECE: usize = 16 << 10;

struct Handler;

#[allow(unsafe_code, reason = "what the crate exports is called by the runtime")]
mod export {
    use super::Handler;

    wasip2::http::proxy::export!(Handler);
}

impl Guest for Handler {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        match path.split('/').nth(1).unwrap_or_default() {
            "" => text(out, 200, "hello from a component\n"),
            "echo" => echo(&request, out),
            "request" => text(out, 200, &described(&request)),
            "bytes" => bytes(out, query.parse().unwrap_or(0)),
            "cookies" => answer(out, 200, &[("set-cookie", "a=1"), ("set-cookie", "b=2")], |_| Ok(())),
            "status" => match query.parse() {
                Ok(status) => answer(out, status, &[], |_| Ok(())),
                Err(_) => text(out, 400, "a number is needed\n"),
            },
            "upstream" => text(out, 200, &upstream()),
            "fetch" => text(out, 200, &fetched(&request)),
            "silent" => drop(out),
            "error" => ResponseOutparam::set(out, Err(ErrorCode::InternalError(Some("as asked".to_owned())))),
            "trap" => panic!("as asked"),
            "unfinished" => {
                let response = OutgoingResponse::new(Fields::new());
                let body = response.body();
                ResponseOutparam::set(out, Ok(response));
                drop(body);
            }
            "short" => answer(out, 200, &[("content-length", "10")], |body| body.write_all(b"short")),
            "fields" => text(out, 200, &fields(&request)),
            _ => text(out, 404, "there is nothing\n"),
        }
    }
}

/// Answers with fields, and what is written.
fn answer(
    out: ResponseOutparam,
    status: u16,
    fields: &[(&str, &str)],
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    let fields = Fields::from_list(&fields).expect("fields of an answer");
    let response = OutgoingResponse::new(fields);
    response.set_status_code(status).expect("a status of an answer");
    let body = response.body().expect("asked for once");
    ResponseOutparam::set(out, Ok(response));
    let mut stream = body.write().expect("asked for once");
    write(&mut stream).expect("an answer takes all");
    drop(stream);
    OutgoingBody::finish(body, None).expect("as long as its fields say");
}

/// Answers with a text.
fn text(out: ResponseOutparam, status: u16, text: &str) {
    answer(out, status, &[("content-type", "text/plain; charset=utf-8")], |body| body.write_all(text.as_bytes()));
}

/// Answers with what has come.
fn echo(request: &IncomingRequest, out: ResponseOutparam) {
    let kind = request.headers().get("content-type").first().cloned().unwrap_or_default();
    let kind = String::from_utf8_lossy(&kind).into_owned();
    let content = request.consume().expect("consumed once");
    let mut from = content.stream().expect("asked for once");
    answer(out, 200, &[("content-type", &kind)], |body| io::copy(&mut from, body).map(drop));
}

/// Answers with so many bytes.
fn bytes(out: ResponseOutparam, length: usize) {
    let piece: Vec<u8> = (0..PIECE).map(|index| index as u8).collect();
    answer(out, 200, &[("content-length", &length.to_string())], |body| {
        let mut left = length;
        while left > 0 {
            let part = left.min(PIECE);
            body.write_all(&piece[..part])?;
            left -= part;
        }
        Ok(())
    });
}

/// All that is known of a request.
fn described(request: &IncomingRequest) -> String {
    let scheme = match request.scheme() {
        Some(Scheme::Http) => "http",
        Some(Scheme::Https) => "https",
        _ => "other",
    };
    let mut text = format!(
        "{:?}\n{:?} {} {:?}\n",
        request.method(),
        request.path_with_query().unwrap_or_default(),
        scheme,
        request.authority().unwrap_or_default()
    );
    for (name, value) in request.headers().entries() {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(&value));
    }
    text
}

/// What parts of a request of its own are taken and refused.
fn upstream() -> String {
    let request = OutgoingRequest::new(Fields::new());
    let set = [
        request.set_method(&Method::Post),
        request.set_scheme(Some(&Scheme::Https)),
        request.set_authority(Some("api.example")),
        request.set_authority(Some("[::1]:8080")),
        request.set_path_with_query(Some("/?a=b")),
    ];
    let methods = ["a b", "", "GET / HTTP/1.1\r\nx:"].map(|name| request.set_method(&Method::Other(name.to_owned())));
    let authorities =
        ["", "a b", "a\r\nx: y", "user@a", "a:", "a:0", "a:65536", "a:+1", "[::1", "[a]", "[::1]1", "a/b", "a:1:2"];
    let authorities = authorities.map(|authority| request.set_authority(Some(authority)));
    let paths = ["a", "/ HTTP/1.1", "/\r\nx: y", "/\n", "/#a", "/\u{e4}", "http://a/", "**"];
    let paths = paths.map(|path| request.set_path_with_query(Some(path)));
    let refused = methods.iter().chain(&authorities).chain(&paths).all(Result::is_err);
    let kept = (request.authority(), request.path_with_query());
    format!("{set:?} {refused} {kept:?}\n")
}

/// Sends the request that its content describes: lines with the method, the scheme, the authority, the path and fields, an empty line, and its content.
fn fetched(request: &IncomingRequest) -> String {
    let mut described = String::new();
    let mut content = request.consume().expect("consumed once").stream().expect("asked for once");
    content.read_to_string(&mut described).expect("a text");
    let (head, content) = described.split_once("\n\n").unwrap_or((&described, ""));
    let mut lines = head.lines();
    let [method, scheme, authority, path] = [(); 4].map(|()| lines.next().unwrap_or_default());
    let fields = lines.filter_map(|line| line.split_once(": "));
    let fields: Vec<_> = fields.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect();
    let request = OutgoingRequest::new(Fields::from_list(&fields).expect("fields of a request"));
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        other => Method::Other(other.to_owned()),
    };
    request.set_method(&method).expect("a method");
    request.set_scheme(Some(&scheme)).expect("a scheme");
    request.set_authority(Some(authority)).expect("an authority");
    request.set_path_with_query(Some(path)).expect("a path");
    let body = (!content.is_empty()).then(|| request.body().expect("asked for once"));
    let options = RequestOptions::new();
    let time = [options.set_first_byte_timeout(Some(500_000_000)), options.set_connect_timeout(Some(60_000_000_000))];
    assert_eq!(time, [Ok(()); 2]);
    let future = match outgoing_handler::handle(request, (path == "/never").then_some(options)) {
        Ok(future) => future,
        Err(code) => return format!("refused: {code:?}\n"),
    };
    if let Some(body) = body.filter(|_| path != "/unfinished") {
        body.write().expect("asked for once").write_all(content.as_bytes()).expect("a request takes all");
        OutgoingBody::finish(body, None).expect("as long as its fields say");
    }
    future.subscribe().block();
    let answered = future.get().expect("it has come").expect("taken once");
    assert!(future.get().is_some_and(|again| again.is_err()));
    match answered {
        Ok(response) => received(&response),
        Err(code) => format!("error: {code:?}\n"),
    }
}

/// Status, fields and content of an answer: how long it is if it is long. No more than some of it is read.
fn received(response: &IncomingResponse) -> String {
    const ENOUGH: usize = 32 << 20;
    let mut text = format!("{}\n", response.status());
    for (name, value) in response.headers().entries() {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(&value));
    }
    let body = response.consume().expect("consumed once");
    let content = body.stream().expect("asked for once");
    let (mut start, mut length) = (Vec::new(), 0);
    let end = loop {
        match content.blocking_read(u64::MAX) {
            Ok(bytes) => {
                start.extend_from_slice(&bytes[..bytes.len().min(100_usize.saturating_sub(start.len()))]);
                length += bytes.len();
                if length >= ENOUGH {
                    break "more".to_owned();
                }
            }
            Err(StreamError::Closed) => break "end".to_owned(),
            Err(StreamError::LastOperationFailed(error)) => break format!("{:?}", http_error_code(&error)),
        }
    };
    let _ = writeln!(text, "{length} bytes, {end}\n{}", String::from_utf8_lossy(&start));
    text
}

/// What fields take and refuse.
fn fields(request: &IncomingRequest) -> String {
    let fields = Fields::new();
    let tried = [
        fields.append("X-A", b"1"),
        fields.append("x-a", b"2"),
        fields.set("x-b", &[b"3".to_vec(), b"4".to_vec()]),
        fields.set("x-b", &[b"5".to_vec()]),
        fields.delete("X-C"),
        fields.append("a b", b"1"),
        fields.append("", b"1"),
        fields.append("x-d", b"1\r\nset-cookie: a=1"),
        fields.append("x-d\r\nset-cookie", b"1"),
        fields.set("x-d", &[b"1".to_vec(), b"\0".to_vec()]),
        fields.append("Transfer-Encoding", b"chunked"),
        fields.append("connection", b"close"),
        request.headers().append("x-a", b"1"),
        request.headers().delete("content-length"),
    ];
    let mut text = String::new();
    for result in tried {
        let _ = writeln!(text, "{result:?}");
    }
    let copy = request.headers().clone();
    let _ = writeln!(text, "{:?} {:?}", fields.has("X-A"), copy.append("x-copied", b"1").is_ok());
    let list = [("host".to_owned(), b"a".to_vec())];
    let _ = writeln!(text, "{:?}", Fields::from_list(&list).map(drop));
    let statuses = [99, 100, 199, 200, 599, 600, u16::MAX].map(|status| {
        let response = OutgoingResponse::new(Fields::new());
        response.set_status_code(status).is_ok()
    });
    let _ = writeln!(text, "{statuses:?}");
    for (name, value) in fields.entries() {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(&value));
    }
    text
}
