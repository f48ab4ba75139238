//! Requests of a component (`wasi:http/outgoing-handler`): to a server of the test, and over TLS to a host that the workflow file lists.
//!
//! The component of `wasi/guests/http` sends what a request to it describes, and answers with what has come of it.

#[path = "../support/https_host.rs"]
mod https_host;

use super::support::{run_with, words};
use https_host::{Authority, Host};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

fn image() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/wasi-http.so")
}

fn document(network: Option<Value>) -> Value {
    let mut document = json!({
        "name": "http",
        "functions": { "handler": { "image": image() } },
        "inputs": ["request"],
        "outputs": ["response"],
        "http": { "request": "request", "response": "response" },
        "steps": [{ "name": "handler", "function": "handler", "memory": "24MiB" }],
    });
    if let Some(network) = network {
        document["network"] = network;
    }
    document
}

/// What the component has answered.
#[track_caller]
fn answer(report: &Value) -> String {
    assert_eq!(report["status"], "done", "{report:#}");
    let message = report["output"]["response"]["text"].as_str().expect("a text");
    message.split_once("\r\n\r\n").expect("a message").1.to_owned()
}

/// Has the component send a request: what has come of it.
#[track_caller]
fn sent(network: Option<Value>, described: &str) -> String {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("request"), format!("POST /fetch HTTP/1.1\r\n\r\n{described}")).expect("written");
    let input = format!("request={}", folder.path().join("request").display());
    answer(&run_with(folder.path(), &document(network), &["--input", &input]))
}

/// A server that answers by the path, and keeps what it was asked.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let server = Server { address, asked: asked.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let asked = asked.clone();
                std::thread::spawn(move || serve(stream, &asked));
            }
        });
        server
    }

    /// A network by which it can be reached.
    fn network(&self) -> Option<Value> {
        Some(json!({ "mode": "host", "connect": [self.address.to_string()] }))
    }

    /// What comes of a request for a path.
    #[track_caller]
    fn get(&self, path: &str) -> String {
        sent(self.network(), &format!("GET\nhttp\n{}\n{path}\n", self.address))
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

/// Answers one request.
fn serve(mut stream: TcpStream, asked: &Mutex<Vec<String>>) {
    let (mut message, mut buffer) = (Vec::new(), [0; 4096]);
    let whole = loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return asked.lock().expect("no panic").push(words(&message)),
            Ok(length) => message.extend_from_slice(&buffer[..length]),
        }
        let text = words(&message);
        let Some((head, content)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if content.len() >= length.unwrap_or(0) {
            break text;
        }
    };
    asked.lock().expect("no panic").push(whole.clone());
    let path = whole.split(' ').nth(1).unwrap_or_default();
    let fixed = |text: &str| text.as_bytes().to_vec();
    let (start, again) = match path {
        "/chunks" => (
            "HTTP/1.1 103 Early\r\nx-early: 1\r\n\r\nHTTP/1.1 200 OK\r\nX-A: 1\r\nconnection: close\r\ntransfer-encoding: Chunked\r\n\r\n\
             5\r\nhello\r\n00006;a=b\r\n world\r\n0\r\nx-trailer: 1\r\n\r\n",
            "",
        ),
        "/length" | "/length?a=b" => ("HTTP/1.1 404 None\r\ncontent-length: 5\r\n\r\nhello, and more", ""),
        "/end" => ("HTTP/1.0 200 OK\nx-a: 1\nx-a: 2\n\nhello", ""),
        "/none" => ("HTTP/1.1 204 None\r\n\r\nhello", ""),
        "/echo" => ("", ""),
        "/short" => ("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello", ""),
        "/short-chunk" => ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n50\r\nhello", ""),
        "/wrong-chunk" => ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n", ""),
        "/large-chunk" => ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10000000000000005\r\nhello", ""),
        "/long-chunk" => ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n", ""),
        "/closed" => ("", "close"),
        "/half" => ("HTTP/1.1 200 OK\r\nx-a: 1\r\n", ""),
        "/garbage" => ("hello\r\n\r\n", ""),
        "/two-lengths" => ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello", ""),
        "/wrong-length" => ("HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\nhello", ""),
        "/both" => ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", ""),
        "/coding" => ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", ""),
        "/upgrade" => ("HTTP/1.1 101 Switching\r\nupgrade: a\r\n\r\n", ""),
        "/status" => ("HTTP/1.1 099 None\r\n\r\n", ""),
        "/endless-interim" => ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        "/endless-head" => ("HTTP/1.1 200 OK\r\n", "x-a: 0123456789012345678901234567890123456789\r\n"),
        "/endless-field" => ("HTTP/1.1 200 OK\r\nx-a: ", "0123456789012345678901234567890123456789"),
        "/endless-line" => {
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;", "0123456789012345678901234567890123456789")
        }
        "/endless-trailers" => ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", "x-a: 1\r\n"),
        "/endless-chunks" => ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "5\r\nhello\r\n"),
        "/endless" => ("HTTP/1.1 200 OK\r\n\r\n", "hello"),
        // The client closes.
        "/never" => {
            let _ = stream.read(&mut buffer);
            return;
        }
        _ => ("HTTP/1.1 200 OK\r\n\r\n", ""),
    };
    let mut start = fixed(start);
    if path == "/echo" {
        start = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{whole}", whole.len()).into_bytes();
    }
    let again = again.repeat(1000);
    // An endless one ends with the client.
    if again.starts_with("close") || stream.write_all(&start).is_err() {
        return;
    }
    while !again.is_empty() && stream.write_all(again.as_bytes()).is_ok() {}
    // What is still to be read by then would be lost.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read(&mut buffer);
}

#[test]
fn a_component_sends_a_request_and_gets_the_answer() {
    let server = Server::start();
    assert_eq!(server.get("/chunks"), "200\nx-a: 1\n11 bytes, end\nhello world\n");
    assert_eq!(server.get("/length"), "404\ncontent-length: 5\n5 bytes, end\nhello\n");
    assert_eq!(server.get("/end"), "200\nx-a: 1\nx-a: 2\n5 bytes, end\nhello\n");
    assert_eq!(server.get("/none"), "204\n0 bytes, end\n\n");
    let head = sent(server.network(), &format!("HEAD\nhttp\n{}\n/length?a=b\n", server.address));
    assert_eq!(head, "404\ncontent-length: 5\n0 bytes, end\n\n");
    let described = format!("POST\nhttp\n{}\n/echo\nx-a: 1\ncontent-length: 7\n\nhello\r\n", server.address);
    let posted = format!(
        "POST /echo HTTP/1.1\r\nhost: {}\r\nx-a: 1\r\ncontent-length: 7\r\nconnection: close\r\n\r\nhello\r\n",
        server.address
    );
    assert!(sent(server.network(), &described).starts_with("200\n"));
    let asked = server.asked();
    let host = server.address;
    assert_eq!(asked[0], format!("GET /chunks HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"));
    assert!(asked[4].starts_with("HEAD /length?a=b HTTP/1.1\r\n"), "{asked:#?}");
    assert_eq!(asked[5], posted);
}

#[test]
fn what_is_not_granted_is_denied_and_nothing_arrives() {
    let server = Server::start();
    // Nothing listens there.
    let other = "127.0.0.1:1";
    let to = |authority: &str| format!("GET\nhttp\n{authority}\n/\n");
    let elsewhere = || Some(json!({ "mode": "host", "connect": [other] }));
    let denied = "error: ErrorCode::HttpRequestDenied\n";
    for (network, described) in [
        (None, to(&server.address.to_string())),
        (None, to("api.example")),
        (None, "GET\nhttps\napi.example\n/\n".to_owned()),
        (elsewhere(), to(&server.address.to_string())),
        (elsewhere(), to(&format!("localhost:{}", server.address.port()))),
        (elsewhere(), to(&format!("[::ffff:127.0.0.1]:{}", server.address.port()))),
    ] {
        assert_eq!(sent(network, &described), denied, "{described}");
    }
    // There is no TLS in the runtime.
    let described = format!("GET\nhttps\n{}\n/\n", server.address);
    assert_eq!(sent(server.network(), &described), "error: ErrorCode::TlsProtocolError\n");
    assert_eq!(server.asked(), [""; 0]);
    // It was there.
    assert!(server.get("/end").starts_with("200\n"));
    assert_eq!(server.asked().len(), 1);
    assert_eq!(sent(elsewhere(), &to(other)), "error: ErrorCode::ConnectionRefused\n");
}

#[test]
fn no_part_of_a_request_holds_another_one() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("request"), "GET /upstream HTTP/1.1\r\n\r\n").expect("written");
    let input = format!("request={}", folder.path().join("request").display());
    let said = answer(&run_with(folder.path(), &document(None), &["--input", &input]));
    let kept = "(Some(\"[::1]:8080\"), Some(\"/?a=b\"))";
    assert_eq!(said, format!("[Ok(()), Ok(()), Ok(()), Ok(()), Ok(())] true {kept}\n"));
    let server = Server::start();
    let refused = |described: &str| sent(server.network(), &described.replace("HOST", &server.address.to_string()));
    for (described, why) in [
        ("CONNECT\nhttp\nHOST\n/\n", "HttpRequestMethodInvalid"),
        ("GET\ngopher\nHOST\n/\n", "HttpRequestUriInvalid"),
        ("POST\nhttp\nHOST\n/\ncontent-length: 5\n", "HttpRequestBodySize(Some(0))"),
    ] {
        assert_eq!(refused(described), format!("refused: ErrorCode::{why}\n"), "{described}");
    }
    // Its body was dropped before it was finished.
    assert_eq!(refused("POST\nhttp\nHOST\n/unfinished\n\nhello"), "error: ErrorCode::HttpProtocolError\n");
    assert!(server.asked().iter().all(String::is_empty), "{:#?}", server.asked());
}

#[test]
fn servers_that_send_too_much_too_little_or_nonsense_are_errors() {
    let server = Server::start();
    for (path, why) in [
        ("/closed", "ConnectionTerminated"),
        ("/half", "HttpResponseIncomplete"),
        ("/garbage", "HttpProtocolError"),
        ("/two-lengths", "HttpProtocolError"),
        ("/wrong-length", "HttpProtocolError"),
        ("/both", "HttpProtocolError"),
        ("/coding", "HttpResponseTransferCoding(Some(\"gzip, chunked\"))"),
        ("/upgrade", "HttpUpgradeFailed"),
        ("/status", "HttpProtocolError"),
        ("/never", "HttpResponseTimeout"),
        ("/endless-interim", "HttpProtocolError"),
        ("/endless-head", "HttpResponseHeaderSectionSize("),
        ("/endless-field", "HttpResponseHeaderSectionSize("),
    ] {
        let said = server.get(path);
        assert!(said.starts_with(&format!("error: ErrorCode::{why}")), "{path}: {said}");
    }
    for (path, end) in [
        ("/short", "5 bytes, Some(ErrorCode::HttpResponseIncomplete)"),
        ("/short-chunk", "5 bytes, Some(ErrorCode::HttpResponseIncomplete)"),
        ("/wrong-chunk", "0 bytes, Some(ErrorCode::HttpProtocolError)"),
        ("/large-chunk", "0 bytes, Some(ErrorCode::HttpProtocolError)"),
        ("/long-chunk", "5 bytes, Some(ErrorCode::HttpProtocolError)"),
        ("/endless-line", "0 bytes, Some(ErrorCode::HttpProtocolError)"),
        ("/endless-trailers", "0 bytes, Some(ErrorCode::HttpProtocolError)"),
        // 32 MiB are read of them, and the step has 24.
        ("/endless", "bytes, more"),
        ("/endless-chunks", "bytes, more"),
    ] {
        let said = server.get(path);
        assert!(said.starts_with("200\n") && said.contains(end), "{path}: {said}");
    }
}

#[test]
fn a_request_for_https_is_carried_over_tls_to_a_listed_host() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let port = host.address.port();
    let network = json!({
        "mode": "host",
        "connect": [host.address.to_string()],
        "https": [{ "host": "localhost", "port": port }],
    });
    let folder = authority.folder();
    fs::write(folder.join("test.json"), document(Some(network)).to_string()).expect("written");
    let fetch = |described: &str| {
        fs::write(folder.join("request"), format!("POST /fetch HTTP/1.1\r\n\r\n{described}")).expect("written");
        let output = Command::new(env!("CARGO_BIN_EXE_monohull"))
            .args(["run", "--json"])
            .arg(folder.join("test.json"))
            .args(["--input", &format!("request={}", folder.join("request").display())])
            .env("SSL_CERT_FILE", authority.roots())
            .env_remove("SSL_CERT_DIR")
            .output()
            .expect("monohull starts");
        let report = serde_json::from_slice(&output.stdout);
        answer(&report.unwrap_or_else(|error| panic!("{error}: {}", words(&output.stderr))))
    };
    let said = fetch(&format!("GET\nhttps\nlocalhost:{port}\n/a\n"));
    assert!(said.starts_with("200\n") && said.ends_with("5 bytes, end\nhello\n"), "{said}");
    let request = host.request();
    assert!(request.starts_with("GET /a HTTP/1.1\r\n"), "{request}");
    // Another port is none of the host's, and an address is no name.
    assert_eq!(fetch("GET\nhttps\nlocalhost\n/\n"), "error: ErrorCode::HttpRequestDenied\n");
    assert_eq!(fetch(&format!("GET\nhttps\n{}\n/\n", host.address)), "error: ErrorCode::TlsProtocolError\n");
}
