//! A component for `wasm32-wasip2` that answers HTTP requests: `wasi:http/proxy`, by the crate `wasip2`.
//!
//! It knows nothing of Monohull. The first part of the path says what it does; the parts about mistakes are for tests.
#![deny(unsafe_code)]

use std::fmt::Write as _;
use std::io::{self, Write};

use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingRequest, Method, OutgoingBody, OutgoingRequest, OutgoingResponse, ResponseOutparam,
    Scheme,
};

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

/// What comes of a request of its own.
fn upstream() -> String {
    let request = OutgoingRequest::new(Fields::new());
    let set = [
        request.set_method(&Method::Post),
        request.set_scheme(Some(&Scheme::Https)),
        request.set_authority(Some("api.example")),
        request.set_path_with_query(Some("/")),
        // No method.
        request.set_method(&Method::Other("a b".to_owned())),
    ];
    let sent = outgoing_handler::handle(request, None).map(drop);
    format!("{set:?} {:?}\n", sent.map_err(|error| error.to_string()))
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
