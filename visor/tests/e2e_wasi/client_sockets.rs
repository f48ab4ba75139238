//! Connections that modules make, by imports beside preview 1: clients in C (`wasi/guests/c/connect.c`), Go and JavaScript, and wrong arguments.

use super::durable::compiled;
use super::full::Full;
use super::support::{Function, kept, monohull, printed, program, run_with, words, words_of};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tempfile::TempDir;

/// Error numbers of WASI.
const BADF: u32 = 8;
const CONNREFUSED: u32 = 14;
const FAULT: u32 = 21;
const ILSEQ: u32 = 25;
const INVAL: u32 = 28;
const MFILE: u32 = 33;
const NOTSOCK: u32 = 57;
const PERM: u32 = 63;

/// What the client prints of these arguments.
#[track_caller]
fn asked(network: Option<Value>, arguments: &[String]) -> Vec<String> {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("connect.so"), compiled("connect-c")).expect("written");
    let mut document = json!({
        "name": "connect",
        "functions": { "connect": { "image": "connect.so" } },
        "steps": [{ "name": "connect", "function": "connect", "args": { "argv": arguments } }],
        "limits": { "timeout": "600s" },
    });
    if let Some(network) = network {
        document["network"] = network;
    }
    let report = run_with(folder.path(), &document, &[]);
    assert_eq!(report["status"], "done", "{report:#}");
    printed(&report)
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

/// Answers so many connections with what they say, in capitals.
fn answering(connections: usize) -> (SocketAddr, JoinHandle<()>) {
    let (listener, address) = listener();
    let serve = move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("all of it");
            stream.write_all(text.to_uppercase().as_bytes()).expect("written");
        }
    };
    (address, thread::spawn(serve))
}

/// An address where nothing listens and nothing will: it is that of a connection, which is given with it.
fn closed() -> (TcpStream, SocketAddr) {
    let (_listener, address) = listener();
    let stream = TcpStream::connect(address).expect("a connection");
    let own = stream.local_addr().expect("its address");
    (stream, own)
}

#[test]
fn a_module_connects_to_what_is_granted() {
    let (peer, thread) = answering(3);
    let (_taken, closed) = closed();
    let full = Full::new();
    let network = json!({ "mode": "host", "connect": ["127.0.0.1:1024-65535"] });
    let questions = [
        format!("say={peer}"),
        // A name with several addresses, of which one answers.
        format!("say=localhost:{}", peer.port()),
        format!("later={peer}"),
        format!("say={closed}"),
        format!("later={closed}"),
        format!("soon={}", full.address()),
        "say=not a name:80".to_owned(),
        "say=:80".to_owned(),
        "say=127.0.0.1:65536".to_owned(),
    ];
    let expected = [
        "say: HELLO",
        "say: HELLO",
        "later: HELLO",
        "say: ECONNREFUSED",
        "later: ECONNREFUSED, then 0",
        "soon: ETIMEDOUT",
        "say: EINVAL",
        "say: EINVAL",
        "say: EINVAL",
    ];
    assert_eq!(asked(Some(network), &questions), expected);
    thread.join().expect("the peer ends");
}

/// Answers a request as a server of HTTP does that closes afterwards: with what it was asked for, later than its head.
fn web() -> (SocketAddr, JoinHandle<()>) {
    let (listener, address) = listener();
    let serve = move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let (mut request, mut byte) = (Vec::new(), [0]);
        while !request.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).expect("a request");
            request.extend(byte);
        }
        let asked = words(&request).split(' ').nth(1).expect("a path").to_owned();
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").expect("written");
        thread::sleep(Duration::from_millis(50));
        stream.write_all(asked.as_bytes()).expect("written");
    };
    (address, thread::spawn(serve))
}

/// The workflow of a program that connects to this host.
fn client(args: &Value) -> Value {
    json!({
        "name": "client",
        "functions": { "app": { "image": "app.so" } },
        "network": { "mode": "host", "connect": ["127.0.0.1:1024-65535"] },
        "steps": [{ "name": "app", "function": "app", "args": args }],
    })
}

#[test]
fn a_program_in_go_is_a_client_of_http() {
    let (peer, thread) = web();
    let (_taken, closed) = closed();
    let full = Full::new();
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("app.so"), compiled("tour-go")).expect("written");
    let args = json!({ "act": "connect", "at": peer.to_string(), "closed": closed.to_string(), "deaf": full.address().to_string() });
    let report = run_with(folder.path(), &client(&args), &[]);
    let lines = printed(&report);
    let expected = [
        "HTTP/1.0 200 OK /hello others ran: true",
        "nothing listens: true",
        "not granted: true dial tcp 192.0.2.1:80: Operation not permitted: ",
        &format!("dial udp {peer}: unknown network udp"),
        "[127.0.0.1] <nil>",
        "in time: true",
    ];
    assert_eq!((&report["status"], lines.len()), (&json!("done"), expected.len()), "{lines:#?} {report:#}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
    assert!(lines[2].contains("network"), "{lines:#?}");
    thread.join().expect("the peer ends");
}

const CLIENT: &str = r#"
import { args, connect, lookup } from "monohull";

const [peer, closed, deaf] = args.map(arg => {
    const [, host, port] = arg.match(/^--\w+=(.*):(\d+)$/);
    return [host, Number(port)];
});
function get(host, port, path) {
    const connection = connect(host, port);
    connection.write(`GET ${path} HTTP/1.0\r\nHost: ${host}\r\n\r\n`);
    let text = "";
    for (let part; (part = connection.read(7)) !== null;) text += new TextDecoder().decode(part);
    connection.close();
    connection.close();
    try { connection.read(); } catch (error) { print(error.message, error.errno); }
    const [head, body] = text.split("\r\n\r\n");
    return `${head} ${body}`;
}
print(get(...peer, "/hello"));
function refused(what) {
    try { what(); print("no error"); } catch (error) { print(error.errno ?? error.name, error.message); }
}
refused(() => connect(...closed));
refused(() => connect(...deaf, 0.05));
refused(() => connect("192.0.2.1", 80));
refused(() => connect("127.0.0.1", 65536));
refused(() => lookup("example.org"));
print(lookup("localhost").includes("127.0.0.1"));
"#;

#[test]
fn a_program_in_javascript_is_a_client_of_http() {
    let (peer, thread) = web();
    let (_taken, closed) = closed();
    let full = Full::new();
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("app.js"), CLIENT).expect("written");
    let built = monohull(&["build", folder.path().join("app.js").to_str().expect("UTF-8")]);
    assert!(built.status.success(), "{}", words(&built.stderr));
    let args = json!({ "a": peer.to_string(), "b": closed.to_string(), "c": full.address().to_string() });
    let report = run_with(folder.path(), &client(&args), &[]);
    let lines = printed(&report);
    let expected = [
        "the connection is closed: Bad file descriptor 8",
        "HTTP/1.0 200 OK /hello",
        &format!("14 connect {closed}: Connection refused"),
        &format!("73 connect {}: ", full.address()),
        "63 connect 192.0.2.1:80: Operation not permitted: ",
        "RangeError connect: a port is a number from 1 to 65535",
        "63 lookup example.org: Operation not permitted: ",
        "true",
    ];
    assert_eq!((&report["status"], lines.len()), (&json!("done"), expected.len()), "{lines:#?} {report:#}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
    thread.join().expect("the peer ends");
}

#[test]
fn a_module_looks_names_up() {
    let network = json!({ "mode": "host", "connect": ["127.0.0.1:1024-65535"] });
    let lines = asked(Some(network), &["name=localhost".to_owned(), "name=localhost.".to_owned()]);
    let known = BTreeSet::from(["127.0.0.1", "::1"]);
    for line in &lines {
        let found: BTreeSet<&str> = line.strip_prefix("name: ").expect("addresses").split(' ').collect();
        assert!(found.contains("127.0.0.1") && found.is_subset(&known), "{line}");
    }
    assert_eq!(lines.len(), 2);
}

#[test]
fn modules_make_no_connections_that_are_not_granted() {
    let (peer, address) = listener();
    let questions = [
        format!("say={address}"),
        // The same by another spelling, and at an address of this host that stands for others.
        format!("say=::ffff:{address}"),
        format!("say=localhost:{}", address.port()),
        format!("say=0.0.0.0:{}", address.port()),
        format!("later={address}"),
        "name=db.example".to_owned(),
        "say=db.example:80".to_owned(),
    ];
    let said = |what: &str, why: &str| format!("{what}: EPERM: {why}");
    let list = |to: &str| format!("the workflow's network list does not let it connect to {to}");
    let name = "the workflow's network list has no name \"db.example\"";
    let granted = json!({ "mode": "host", "connect": ["127.0.0.2:1"], "listen": ["127.0.0.1:0"] });
    let lines = asked(Some(granted), &questions);
    let to = address.to_string();
    assert_eq!(lines[..2], [said("say", &list(&to)), said("say", &list(&to))]);
    assert!(lines[2].starts_with("say: EPERM: "), "{lines:?}");
    let expected = [
        said("say", &list(&format!("0.0.0.0:{}", address.port()))),
        said("later", &list(&to)),
        said("name", name),
        said("say", name),
    ];
    assert_eq!(lines[3..], expected);

    let lines = asked(None, &questions);
    assert_eq!(lines.len(), questions.len());
    for line in lines {
        assert!(line.contains(": EPERM: ") && line.contains("no network"), "{line}");
    }
    peer.set_nonblocking(true).expect("set");
    assert!(peer.accept().is_err(), "a connection was made");
}

/// Where the programs below have names in their memory, the last of which is no text; and addresses: of the peer, of what is closed, of what is not granted,
/// and two that are none.
const KNOWN: usize = 700;
const UNKNOWN: usize = 720;
const NO_TEXT: usize = 740;
const PEER: usize = 2048;
const CLOSED: usize = 2080;
const OTHER: usize = 2112;
const FAMILY: usize = 2144;
const PORT: usize = 2176;

/// That memory, as the text of a module has it.
fn memory(peer: SocketAddr, closed: SocketAddr) -> String {
    let mut bytes = [0; PORT + 32];
    for (at, name) in [(KNOWN, &b"localhost"[..]), (UNKNOWN, b"db.example"), (NO_TEXT, b"\xff\xfe")] {
        bytes[at..at + name.len()].copy_from_slice(name);
    }
    let addresses = [
        (PEER, 4, 1, peer.port().into()),
        (CLOSED, 4, 1, closed.port().into()),
        (OTHER, 4, 2, peer.port().into()),
        (FAMILY, 5, 1, peer.port().into()),
        (PORT, 4, 1, 1u32 << 16),
    ];
    for (at, family, last, port) in addresses {
        bytes[at] = family;
        bytes[at + 4..at + 8].copy_from_slice(&port.to_le_bytes());
        bytes[at + 8..at + 12].copy_from_slice(&[127, 0, 0, last]);
    }
    bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
}

/// Calls of a program, and what each must return.
type Calls = Vec<(String, u32)>;

fn call(function: &str, arguments: &[usize]) -> String {
    let arguments: String = arguments.iter().map(|number| format!(" (i32.const {})", *number as u32 as i32)).collect();
    format!("(call ${function}{arguments})")
}

fn connect(address: usize, out: usize) -> String {
    call("socket_connect", &[address, out])
}

fn lookup(name: usize, len: usize, addresses: usize, most: usize, count: usize) -> String {
    call("lookup", &[name, len, addresses, most, count])
}

fn failure(descriptor: usize) -> String {
    call("socket_failure", &[descriptor])
}

/// Runs calls in a program with that memory.
#[track_caller]
fn check(before: &str, calls: &Calls, peer: SocketAddr, closed: SocketAddr) {
    let body: String = calls.iter().enumerate().map(|(index, (call, _))| kept(index, call)).collect();
    let text = program(&memory(peer, closed), &format!("{before}\n{body}"), calls.len());
    let function = Function::new(&text);
    let network = json!({ "mode": "host", "connect": ["127.0.0.1:1024-65535"] });
    let report =
        function.run(json!({}), json!({ "outputs": ["out"], "network": network, "limits": { "timeout": "600s" } }));
    let results = words_of(&report);
    assert_eq!(results.len(), calls.len());
    for ((call, expected), result) in calls.iter().zip(results) {
        assert_eq!(result, *expected, "{call}");
    }
}

#[test]
fn wrong_arguments_of_connections_and_names_are_refused_and_begin_nothing() {
    let (peer, address) = listener();
    let (_taken, closed) = closed();
    let edge = 65536;
    let far = u32::MAX as usize;
    let calls: Calls = vec![
        // No address, and no room for the descriptor.
        (connect(edge - 31, 512), FAULT),
        (connect(far, 512), FAULT),
        (connect(PEER, edge - 3), FAULT),
        (connect(PEER, edge), FAULT),
        (connect(PEER, far - 3), FAULT),
        (connect(FAMILY, 512), INVAL),
        (connect(PORT, 512), INVAL),
        (connect(OTHER, 512), PERM),
        // Sockets of nothing, of streams, of the directory.
        (failure(99), BADF),
        (failure(far), BADF),
        (failure(1), NOTSOCK),
        (failure(3), NOTSOCK),
        // No name, one that is none, no room for addresses or for their number.
        (lookup(edge - 4, 9, 1600, 2, 516), FAULT),
        (lookup(KNOWN, far, 1600, 2, 516), FAULT),
        (lookup(KNOWN, 0, 1600, 2, 516), INVAL),
        (lookup(3000, 254, 1600, 2, 516), INVAL),
        (lookup(NO_TEXT, 2, 1600, 2, 516), ILSEQ),
        (lookup(KNOWN, 9, edge - 63, 2, 516), FAULT),
        (lookup(KNOWN, 9, far - 31, 1, 516), FAULT),
        (lookup(KNOWN, 9, 0, 2049, 516), FAULT),
        // A number of bytes that wraps around to 0.
        (lookup(KNOWN, 9, 1600, 0x0800_0000, 516), FAULT),
        (lookup(KNOWN, 9, 1600, far, 516), FAULT),
        (lookup(KNOWN, 9, 1600, 2, edge - 3), FAULT),
        (lookup(UNKNOWN, 10, 1600, 2, 516), PERM),
        // Right ones: as many as there is room for, and nothing behind them.
        (lookup(KNOWN, 9, 1600, 0, 516), 0),
        ("(i32.load (i32.const 516))".to_owned(), 0),
        ("(i32.load (i32.const 1600))".to_owned(), 0),
        (lookup(KNOWN, 9, edge - 32, 1, 516), 0),
        ("(i32.load (i32.const 516))".to_owned(), 1),
        (format!("(i32.load (i32.const {}))", edge - 28), 0),
        // The lowest number that is free is that of a connection. Nothing before has taken one.
        (connect(CLOSED, edge - 4), 0),
        (format!("(i32.load (i32.const {}))", edge - 4), 4),
        (ready(4), 0),
        (failure(4), CONNREFUSED),
        (failure(4), 0),
        ("(call $sock_accept (i32.const 4) (i32.const 0) (i32.const 512))".to_owned(), INVAL),
        (call("fd_close", &[4]), 0),
        (failure(4), BADF),
    ];
    check("", &calls, address, closed);
    peer.set_nonblocking(true).expect("set");
    assert!(peer.accept().is_err(), "a connection was made");
}

/// Waits until a socket is ready for writing. The subscription is at 768, and the event behind it.
fn ready(descriptor: u32) -> String {
    format!(
        "(block (result i32) (i32.store8 (i32.const 776) (i32.const 2)) (i32.store (i32.const 784) (i32.const {descriptor}))
        (call $poll_oneoff (i32.const 768) (i32.const 832) (i32.const 1) (i32.const 880)))"
    )
}

#[test]
fn refused_connections_leave_neither_descriptors_nor_sockets() {
    let (peer, address) = listener();
    let (_taken, closed) = closed();
    // More of each than an instance has sockets or descriptors.
    let many = |name: &str, call: &str, expected: u32| {
        format!(
            "(i32.store (i32.const 600) (i32.const 5000))
            (loop ${name}
                (if (i32.ne {call} (i32.const {expected})) (then unreachable))
                (i32.store (i32.const 600) (i32.sub (i32.load (i32.const 600)) (i32.const 1)))
                (br_if ${name} (i32.load (i32.const 600))))\n"
        )
    };
    let begun = format!("(i32.or {} (call $fd_close (i32.const 4)))", connect(CLOSED, 512));
    let before = [
        many("unlisted", &connect(OTHER, 512), PERM),
        many("nowhere", &connect(PEER, 65533), FAULT),
        many("unknown", &lookup(UNKNOWN, 10, 1600, 2, 516), PERM),
        many("closed", &begun, 0),
        // Descriptors of `/dev/null`, until none is free.
        "(i64.store (i32.const 300) (i64.const 0x6c6c756e2f766564))
        (loop $more (br_if $more (i32.eqz (call $path_open (i32.const 3) (i32.const 0) (i32.const 300) (i32.const 8)
            (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 512)))))"
            .to_owned(),
    ];
    let calls: Calls = vec![
        (connect(PEER, 512), MFILE),
        (call("fd_close", &[77]), 0),
        (connect(CLOSED, 512), 0),
        ("(i32.load (i32.const 512))".to_owned(), 77),
        (ready(77), 0),
        (failure(77), CONNREFUSED),
    ];
    check(&before.concat(), &calls, address, closed);
    peer.set_nonblocking(true).expect("set");
    assert!(peer.accept().is_err(), "a connection was made");
}
