//! Servers in Python for WebAssembly, over the sockets that a workflow grants: `sockets.py`, and this side of it.

use super::{Program, printed};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// How long a connection is tried for.
const PATIENCE: Duration = Duration::from_secs(120);
/// What `sockets.py` sends at once, behind which comes a last line.
const LINES: usize = 400_000;

/// A connection to what will listen there soon.
fn connected(address: SocketAddr) -> TcpStream {
    let begin = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(connection) => return connection,
            Err(error) if begin.elapsed() > PATIENCE => panic!("{address}: {error}"),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// What comes back of this text, whose end is said.
fn answered(address: SocketAddr, text: &str) -> String {
    let mut connection = connected(address);
    connection.write_all(text.as_bytes()).expect("sent");
    connection.shutdown(Shutdown::Write).expect("ended");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    answer
}

fn posted(address: SocketAddr, path: &str, text: &str) {
    let request = format!("POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {}\r\n\r\n{text}", text.len());
    let answer = answered(address, &request);
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with(&format!("\r\n\r\n{}", text.to_uppercase())), "{answer}");
}

/// The second server, which says more than a connection holds before it is told anything.
fn spoken_to(address: SocketAddr) {
    let mut connection = connected(address);
    connection.write_all(b"hello").expect("sent");
    let mut reader = BufReader::new(connection.try_clone().expect("a second handle"));
    let mut lines = String::new();
    while !lines.ends_with("last\n") {
        assert_ne!(reader.read_line(&mut lines).expect("a line"), 0, "it ended after {} bytes", lines.len());
    }
    assert_eq!(lines.len(), LINES * "line\n".len() + "last\n".len());
    connection.write_all(b"end\n").expect("sent");
    assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn servers_of_the_library_over_sockets_that_are_found_open() {
    let hosts = [IpAddr::V4(Ipv4Addr::LOCALHOST); 3].into_iter().chain([IpAddr::V6(Ipv6Addr::LOCALHOST)]);
    let listeners: Vec<_> = hosts.map(|host| TcpListener::bind((host, 0)).expect("a port")).collect();
    let addresses: Vec<_> = listeners.iter().map(|listener| listener.local_addr().expect("its address")).collect();
    drop(listeners);
    let list: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    let program = Program::new(include_str!("sockets.py"));
    let report = thread::scope(|scope| {
        let run = scope.spawn(|| {
            let step = json!({ "env": { "MONOHULL_LISTEN": list.join(",") } });
            program.run(&step, &json!({ "network": { "mode": "host", "listen": list } }))
        });
        posted(addresses[0], "/first", "hello");
        posted(addresses[0], "/second", "end");
        spoken_to(addresses[1]);
        let [mut one, two] = [0; 2].map(|_| connected(addresses[2]));
        one.write_all(b"half a ").expect("sent");
        assert_eq!(answered_by(&two, "whole\n"), "WHOLE\n");
        assert_eq!(answered_by(&one, "line\n"), "HALF A LINE\n");
        assert_eq!(answered_by(&two, "end\n"), "END\n");
        drop((one, two));
        assert_eq!(answered(addresses[3], "six\n"), "six\n");
        run.join().expect("it has run")
    });
    let without = "Python that is built for WebAssembly";
    let fresh = "[Errno 53] the socket is neither connected nor bound";
    let refused = format!("[Errno 63] the workflow's network list does not let it connect to {}", addresses[1]);
    let expected = [
        "http /first 127.0.0.1 True",
        "http /second 127.0.0.1 True",
        "raw",
        "async",
        "IPv6",
        "[Errno 4] no socket listens at 127.0.0.1:1: `MONOHULL_LISTEN` in the step's `env` names the addresses at which this program finds some open \
         (while attempting to bind on address ('127.0.0.1', 1))",
        &format!("[Errno 58] {without} has sockets for connections over TCP alone"),
        &format!("[Errno 58] {without} has no pairs of sockets"),
        fresh,
        fresh,
        fresh,
        fresh,
        &refused,
        "[Errno 57] Not a socket",
        "[Errno 8] Bad file descriptor",
        "[Errno -4] the workflow's network list has no name \"db.example\"",
    ];
    assert_eq!(printed(&report), expected, "{report:#}");
}

/// The line that comes back of this one.
fn answered_by(mut connection: &TcpStream, line: &str) -> String {
    connection.write_all(line.as_bytes()).expect("sent");
    let mut answer = String::new();
    BufReader::new(connection).read_line(&mut answer).expect("an answer");
    answer
}
