//! Serves HTTP from inside a workflow: some threads, each with one client at a time and as many requests as the client
//! likes. The heads are read by the published crate `httparse`.
#![no_std]
#![deny(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};
use monohull_std::io::{self, ErrorKind, Read, Write};
use monohull_std::net::{Shutdown, TcpListener, TcpStream};
use monohull_std::prelude::*;
use monohull_std::time::Duration;
use monohull_std::{println, process, thread};

/// So many clients are served at once; others wait until one leaves.
const THREADS: usize = 16;
/// The longest a client may keep silent.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long no connection is accepted when the system has no room for one more.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest head and body together.
const REQUEST_MAX: usize = 1 << 20;
/// Fields of a request that are looked at.
const FIELDS: usize = 64;

/// Serves `requests` requests at `listen`, and ends.
#[monohull::main]
fn main(listen: String, requests: usize) -> io::Result<()> {
    let listener = TcpListener::bind(&*listen)?;
    println!("listening at {}", listener.local_addr()?);
    let left = AtomicUsize::new(requests);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| welcome(&listener, &left));
        }
    });
    Ok(())
}

/// Serves one client after the other.
fn welcome(listener: &TcpListener, left: &AtomicUsize) {
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => {
                if let Err(error) = serve(stream, left) {
                    println!("a client was lost: {error}");
                }
            }
            Err(error) => {
                println!("a client was not let in: {error}");
                thread::sleep(PAUSE);
            }
        }
    }
}

/// Serves one client until it leaves.
fn serve(mut stream: TcpStream, left: &AtomicUsize) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut received = Vec::new();
    loop {
        let request = match request(&mut stream, &mut received) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::InvalidData => Request::bad(error.to_string()),
            Err(error) => return Err(error),
        };
        let (status, body) = answer(&request);
        let connection = if request.stays { "keep-alive" } else { "close" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Type: text/plain\r\nConnection: {connection}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), &*body].concat())?;
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            stream.shutdown(Shutdown::Write)?;
            process::exit(0);
        }
        if !request.stays {
            return Ok(());
        }
    }
}

/// A request, as far as it matters here.
struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
    /// The client may have more.
    stays: bool,
}

impl Request {
    /// Stands for malformed input. Where the next request would begin cannot be determined.
    fn bad(why: String) -> Request {
        Request { method: String::new(), path: String::new(), body: why.into_bytes(), stays: false }
    }
}

fn answer(request: &Request) -> (&'static str, Vec<u8>) {
    match (&*request.method, &*request.path) {
        ("", _) => ("400 Bad Request", request.body.clone()),
        ("GET", path) => ("200 OK", format!("you asked for {path}\n").into_bytes()),
        ("POST", "/echo") => ("200 OK", request.body.clone()),
        _ => ("405 Method Not Allowed", b"GET anything, or POST /echo\n".to_vec()),
    }
}

/// The next request on a connection; `None` when the client has left. What was received beyond it stays in `received`.
fn request(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<Option<Request>> {
    let mut room = [0; 8192];
    loop {
        if let Some((request, len)) = parse(received)? {
            received.drain(..len);
            return Ok(Some(request));
        }
        if received.len() > REQUEST_MAX {
            return Err(nonsense("the request is too long"));
        }
        match stream.read(&mut room)? {
            0 if received.is_empty() => return Ok(None),
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            len => received.extend_from_slice(&room[..len]),
        }
    }
}

/// A whole request at the beginning of what was received, and its length.
fn parse(received: &[u8]) -> io::Result<Option<(Request, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let parsed = head.parse(received).map_err(|error| nonsense(&error.to_string()))?;
    let httparse::Status::Complete(start) = parsed else { return Ok(None) };
    let values = |name: &str| {
        let named = head.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| core::str::from_utf8(field.value).unwrap_or_default().trim()).collect::<Vec<_>>()
    };
    if !values("transfer-encoding").is_empty() {
        return Err(nonsense("a body comes in one piece here"));
    }
    let length = match *values("content-length") {
        [] => 0,
        [length] => {
            length.parse().ok().filter(|length| *length <= REQUEST_MAX).ok_or_else(|| nonsense("the length"))?
        }
        _ => return Err(nonsense("a body has one length")),
    };
    let Some(body) = received.get(start..start + length) else { return Ok(None) };
    let says = |word: &str| values("connection").iter().any(|value| value.eq_ignore_ascii_case(word));
    let request = Request {
        method: head.method.unwrap_or_default().to_owned(),
        path: head.path.unwrap_or_default().to_owned(),
        body: body.to_vec(),
        stays: if head.version == Some(1) { !says("close") } else { says("keep-alive") },
    };
    Ok(Some((request, start + length)))
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
