//! Sockets of components: connections, datagrams and names that a workflow grants, and refusals of all others.
//!
//! The program is `wasi/guests/sockets`, an ordinary one over Rust's own std.

use super::support::{printed, run_with};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::thread::{self, JoinHandle};
use tempfile::TempDir;

/// What the program answers to these questions.
#[track_caller]
fn asked(network: Option<Value>, questions: &[String]) -> Vec<String> {
    let folder = TempDir::new().expect("a folder");
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/wasi-sockets.so");
    let mut document = json!({
        "name": "sockets",
        "functions": { "sockets": { "image": image } },
        "steps": [{ "name": "sockets", "function": "sockets", "memory": "64MiB", "args": { "questions": questions.join(" ") } }],
        "limits": { "timeout": "600s" },
    });
    if let Some(network) = network {
        document["network"] = network;
    }
    let report = run_with(folder.path(), &document, &[]);
    assert_eq!(report["status"], "done", "{report:#}");
    printed(&report)
}

#[test]
fn a_component_is_a_server_and_a_client() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let late = TcpListener::bind("127.0.0.1:0").expect("a port");
    // The port of a connection: it listens for none, and is given to no other test.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = TcpStream::connect(taken.local_addr().expect("an address")).expect("a connection");
    let closed = taken.local_addr().expect("an address");
    let address = |listener: &TcpListener| listener.local_addr().expect("an address");
    let (echo, slow) = (address(&listener), address(&late));
    let threads = [
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut buffer = [0; 64];
            loop {
                match stream.read(&mut buffer).expect("read") {
                    0 => break,
                    length => stream.write_all(&buffer[..length]).expect("written"),
                }
            }
        }),
        thread::spawn(move || {
            let (mut stream, _) = late.accept().expect("a connection");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("read");
            stream.write_all(all.len().to_string().as_bytes()).expect("written");
            drop(stream);
            // The next is of `timeout`.
            late.accept().expect("a connection");
        }),
    ];
    let network = json!({ "mode": "host", "connect": ["127.0.0.1:1024-65535"], "listen": ["127.0.0.1:0"] });
    let questions = [
        "server=127.0.0.1:0".to_owned(),
        format!("client={echo}"),
        format!("much={slow}"),
        format!("timeout={slow}"),
        format!("timeout={closed}"),
        format!("connect={closed}"),
    ];
    let expected = [
        "server: Err(WouldBlock), then [\"ONE\", \"TWO\"]",
        "client: Err(WouldBlock), then \"hello\", then 0",
        "much: 8388608",
        "timeout: in time",
        "timeout: ConnectionRefused",
        "connect: ConnectionRefused",
    ];
    assert_eq!(asked(Some(network), &questions), expected);
    threads.into_iter().for_each(|thread| thread.join().expect("a server ends"));
}

#[test]
fn a_component_sends_datagrams_and_looks_names_up() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let echo = socket.local_addr().expect("an address");
    let thread = thread::spawn(move || {
        let mut buffer = [0; 64];
        let (length, from) = socket.recv_from(&mut buffer).expect("a datagram");
        socket.send_to(&buffer[..length], from).expect("sent");
    });
    let network = json!({ "mode": "host", "connect": ["127.0.0.1:1024-65535"], "listen": ["127.0.0.1:0"] });
    let questions = [
        "udp=127.0.0.1:0".to_owned(),
        format!("datagram={echo}"),
        "name=localhost".to_owned(),
        "name=127.0.0.1".to_owned(),
        "states=others".to_owned(),
    ];
    let expected = [
        "udp: Err(WouldBlock), then pong",
        "datagram: ping",
        "name: loopback",
        "name: loopback",
        "states: as WASI has it",
    ];
    assert_eq!(asked(Some(network), &questions), expected);
    thread.join().expect("the echo ends");
}

/// A peer that sends back what comes on its first connection.
fn echo_of_connections() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("[::1]:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let serve = move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut rest = stream.try_clone().expect("a second handle");
        std::io::copy(&mut stream, &mut rest).expect("all of it");
    };
    (address, thread::spawn(serve))
}

#[test]
fn a_component_uses_ipv6() {
    let (stream, connections) = echo_of_connections();
    let socket = UdpSocket::bind("[::1]:0").expect("a port");
    let datagram = socket.local_addr().expect("an address");
    let datagrams = thread::spawn(move || {
        let mut buffer = [0; 64];
        let (length, from) = socket.recv_from(&mut buffer).expect("a datagram");
        socket.send_to(&buffer[..length], from).expect("sent");
    });
    let network = json!({ "mode": "host", "connect": ["[::1]:1024-65535"], "listen": ["[::1]:0"] });
    let four = TcpListener::bind("127.0.0.1:0").expect("a port");
    let questions = [
        "server=[::1]:0".to_owned(),
        format!("client={stream}"),
        "udp=[::1]:0".to_owned(),
        format!("datagram={datagram}"),
        "states=six".to_owned(),
        // What is granted of one family is nothing of the other, and no other address.
        format!("connect={}", four.local_addr().expect("an address")),
        "listen=[::]:0".to_owned(),
        "listen=127.0.0.1:0".to_owned(),
    ];
    let expected = [
        "server: Err(WouldBlock), then [\"ONE\", \"TWO\"]",
        "client: Err(WouldBlock), then \"hello\", then 0",
        "udp: Err(WouldBlock), then pong",
        "datagram: ping",
        "states: as WASI has it",
        "connect: PermissionDenied",
        "listen: PermissionDenied",
        "listen: PermissionDenied",
    ];
    assert_eq!(asked(Some(network), &questions), expected);
    for thread in [connections, datagrams] {
        thread.join().expect("the echo ends");
    }
    four.set_nonblocking(true).expect("set");
    assert!(four.accept().is_err(), "a connection was made");
}

/// Its standard input is a slot that a step fills whose own input never comes: that step fails when this one has ended.
#[test]
fn a_component_waits_for_sockets_clocks_and_the_standard_input() {
    let folder = TempDir::new().expect("a folder");
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images");
    let report = run_with(
        folder.path(),
        &json!({
            "name": "sockets",
            "functions": {
                "sockets": { "image": images.join("wasi-sockets.so") },
                "echo": { "image": images.join("echo.so") },
            },
            "steps": [
                { "name": "sockets", "function": "sockets", "stdin": "out", "args": { "questions": "states=tcp" } },
                { "name": "echo", "function": "echo" },
            ],
            "network": { "mode": "host", "connect": ["127.0.0.1:1024-65535"], "listen": ["127.0.0.1:0"] },
            "unread": "ignore",
            "limits": { "timeout": "600s" },
        }),
        &[],
    );
    assert_eq!(printed(&report), ["states: as WASI has it"], "{report:#}");
}

#[test]
fn components_have_no_sockets_that_are_not_granted() {
    let peer = TcpListener::bind("127.0.0.1:0").expect("a port");
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (stream, datagram) = (peer.local_addr().expect("an address"), datagrams.local_addr().expect("an address"));
    let questions = [
        format!("connect={stream}"),
        // The same by another spelling.
        format!("connect=[::ffff:127.0.0.1]:{}", stream.port()),
        "listen=127.0.0.1:0".to_owned(),
        format!("datagram={datagram}"),
        "udp=127.0.0.1:0".to_owned(),
        "name=db.example".to_owned(),
    ];
    // Without a network, and with one that grants something else.
    for network in [None, Some(json!({ "mode": "host", "connect": ["127.0.0.2:1"], "listen": ["127.0.0.2:1"] }))] {
        // An address of IPv4 is none for a socket of IPv6, if there is one.
        let spelled = if network.is_some() { "InvalidInput" } else { "PermissionDenied" };
        let expected = [
            "connect: PermissionDenied".to_owned(),
            format!("connect: {spelled}"),
            "listen: PermissionDenied".to_owned(),
            "datagram: PermissionDenied".to_owned(),
            "udp: PermissionDenied".to_owned(),
            "name: PermissionDenied".to_owned(),
        ];
        assert_eq!(asked(network.clone(), &questions), expected, "{network:?}");
    }
    peer.set_nonblocking(true).expect("set");
    assert!(peer.accept().is_err(), "a connection was made");
    datagrams.set_nonblocking(true).expect("set");
    assert!(datagrams.recv(&mut [0; 8]).is_err(), "a datagram was sent");
}
