//! Connections of programs in Python, for both of its interpreters: `connections.py`, and its peers.

#[path = "../support/full.rs"]
mod full;

use full::Full;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::thread;

/// What `/large` has so many times.
const PART: &str = "0123456789abcdef";
const PARTS: usize = 1 << 17;

fn listener(host: &str) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((host, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

/// A peer that goes on for as long as the test.
fn peer(host: &str) -> SocketAddr {
    let (listener, address) = listener(host);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let connection = connection.expect("a connection");
            // What a program leaves at its end is no error of the peer's.
            thread::spawn(|| answer(connection).ok());
        }
    });
    address
}

/// Answers requests of HTTP, and other lines with themselves in capitals.
fn answer(connection: TcpStream) -> std::io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(connection.try_clone()?), connection);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        match line.trim_end().strip_suffix(" HTTP/1.1") {
            Some(request) => respond(request, &mut reader, &mut writer)?,
            None => writer.write_all(line.to_uppercase().as_bytes())?,
        }
        line.clear();
    }
    Ok(())
}

/// Answers with the request's line and its body in capitals.
fn respond(request: &str, reader: &mut impl BufRead, writer: &mut impl Write) -> std::io::Result<()> {
    let (mut length, mut field) = (0, String::new());
    while reader.read_line(&mut field)? > 2 {
        if let Some((name, value)) = field.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().expect("a number");
        }
        field.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, content) = match request {
        "GET /large" => ("200 OK", PART.repeat(PARTS)),
        "GET /missing" => ("404 Not Found", String::new()),
        _ => ("200 OK", format!("{request} {}", String::from_utf8_lossy(&body).to_uppercase())),
    };
    let head = format!("HTTP/1.1 {status}\r\nServer: peer\r\nContent-Length: {}\r\n\r\n", content.len());
    writer.write_all(format!("{head}{content}").as_bytes())
}

/// All that `connections.py` does, as this function of a workflow file in the folder.
pub(crate) fn check(folder: &Path, python: &Value, monohull: impl Fn(&Path, &[&str]) -> Output) {
    let (peer, six) = (peer("127.0.0.1"), peer("::1"));
    let full = Full::new();
    let (other, not_granted) = listener("127.0.0.2");
    // The port of a connection: nothing listens there, and nothing will.
    let taken = TcpStream::connect(peer).expect("a connection");
    let closed = taken.local_addr().expect("its address");
    let granted = ["127.0.0.1:1024-65535".to_owned(), "[::1]:1024-65535".to_owned()];
    let document = json!({
        "name": "connections",
        "functions": { "app": python },
        "steps": [{ "name": "app", "function": "app", "env": {
            "PEER": peer.to_string(), "SIX": six.to_string(), "CLOSED": closed.to_string(), "FULL": full.address().to_string(),
            "OTHER": not_granted.to_string(),
        } }],
        "network": { "mode": "host", "connect": granted },
        "limits": { "timeout": "300s" },
    });
    fs::write(folder.join("w.json"), document.to_string()).expect("written");
    let output = monohull(folder, &["run", "w.json", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let lines = report["steps"][0]["instances"][0]["lines"].as_array().into_iter().flatten();
    let texts: Vec<&str> = lines.filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(texts, ["all right"], "{report:#}");
    assert_eq!(report["status"], "done", "{report:#}");
    other.set_nonblocking(true).expect("set");
    assert!(other.accept().is_err(), "a connection was made that is not granted");
}
