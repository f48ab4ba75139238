//! Clients that take their answers slowly, or not at all: what they can keep of a server's memory.

mod serve_support;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use serde_json::json;
use serve_support::{Answer, Server, StateFolder, eventually, request, single};
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// More than the kernel keeps of an answer.
const LARGE: usize = 16 << 20;

fn server_with_echo(options: &[&str]) -> Server {
    let server = Server::start_with(options);
    server.put_shipped("echo.json");
    server
}

fn metric(server: &Server, name: &str) -> usize {
    let text = server.get("/metrics").expect(200).text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

/// A connection of a client with another address.
fn connect_from_elsewhere(server: &Server) -> TcpStream {
    let SocketAddr::V4(address) = server.address else { panic!("it listens on {}", server.address) };
    let stream = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).expect("a socket");
    let own: SocketAddrV4 = "127.0.0.2:0".parse().expect("an address");
    bind(stream.as_raw_fd(), &SockaddrIn::from(own)).expect("it is this machine's");
    connect(stream.as_raw_fd(), &SockaddrIn::from(address)).expect("it listens");
    stream.into()
}

#[test]
fn an_answer_without_room_is_refused_and_those_that_are_sent_are_whole() {
    // No client is late in this test.
    let server = server_with_echo(&["--max-answers", "24MiB", "--client-pause", "10m"]);
    let body: Vec<u8> = (0..LARGE).map(|index| (index * 7) as u8).collect();
    let mut first = server.connect();
    first.write_all(&request("POST", "/invoke/echo", &[], &body)).expect("sent");
    eventually("its answer is being sent", || metric(&server, "monohull_answer_bytes") == LARGE);

    // The call has been made; to make it again is the client's choice.
    let second = server.ask_with("POST", "/invoke/echo", &[("X-Call-Id", "second")], &body);
    assert!(!second.headers.contains_key("retry-after"), "{:?}", second.headers);
    assert_eq!(second.headers["x-call-id"], "second");
    let location = format!("/invocations/{}", second.headers["x-invocation-id"]);
    let error = second.error(502, "answers-full", "host");
    assert!(error["message"].as_str().is_some_and(|message| message.contains(&location)), "{error:#}");
    assert_eq!(server.get(&location).expect(200).json()["status"], "completed");
    let output = format!("{location}/outputs/out");
    let refused = server.get(&output);
    assert_eq!(refused.headers["retry-after"], "1");
    refused.error(503, "answers-full", "host");
    // What is smaller has room.
    assert_eq!(server.post("/invoke/echo", &body[..4 << 20]).expect(200).body, body[..4 << 20]);
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");

    assert!(Answer::read(&mut first).expect("an answer").expect(200).body == body);
    eventually("there is room", || server.get(&output).status == 200);
    assert!(server.get(&output).expect(200).body == body);
    eventually("nothing is left", || metric(&server, "monohull_answer_bytes") == 0);
}

/// It takes more than the client's pause allows for, and less than it should.
#[test]
fn a_slow_client_is_cut_off_when_another_one_needs_the_room() {
    const SIZE: usize = 6 << 20;
    let server = server_with_echo(&["--max-answers", "8MiB", "--client-pause", "2s"]);
    let body = vec![b'x'; SIZE];
    let mut slow = server.connect();
    slow.write_all(&request("POST", "/invoke/echo", &[], &body)).expect("sent");
    eventually("its answer is being sent", || metric(&server, "monohull_answer_bytes") == SIZE);
    let other = server.post("/invoke/echo", &body);
    let output = format!("/invocations/{}/outputs/out", other.headers["x-invocation-id"]);
    // On a busy machine the first client may be late by now.
    assert!([200, 502].contains(&other.status), "{}", other.text());
    let (mut taken, mut piece) = (0, vec![0; 8 << 10]);
    let answer = loop {
        let answer = server.get(&output);
        if answer.status == 200 {
            break answer;
        }
        answer.error(503, "answers-full", "host");
        taken += slow.read(&mut piece).expect("it takes a little");
        sleep(Duration::from_millis(50));
    };
    assert!(answer.body == body);
    let mut rest = Vec::new();
    // It notices that its answer is not whole.
    let end = slow.read_to_end(&mut rest);
    assert!(end.is_err() || taken + rest.len() < SIZE, "{end:?} after {} bytes", taken + rest.len());
    eventually("nothing is left", || metric(&server, "monohull_answer_bytes") == 0);
}

/// It has an hour by its pace. What others have room for is not its affair.
#[test]
fn a_slow_client_has_no_answers_of_others_refused() {
    let server = server_with_echo(&["--max-answers", "24MiB", "--client-pause", "1h"]);
    let mut slow = connect_from_elsewhere(&server);
    slow.write_all(&request("POST", "/invoke/echo", &[], &vec![b'x'; LARGE])).expect("sent");
    eventually("its answer is being sent", || metric(&server, "monohull_answer_bytes") == LARGE);
    let body = vec![b'y'; 12 << 20];
    let mut answer = server.post("/invoke/echo", &body);
    let output = format!("/invocations/{}/outputs/out", answer.headers["x-invocation-id"]);
    // It has a second, during which it may still show that it is quick.
    eventually("another one is served", || answer.status == 200 || server.get(&output).status == 200);
    answer = server.get(&output).expect(200);
    assert!(answer.body == body);
    let mut rest = Vec::new();
    let end = slow.read_to_end(&mut rest);
    assert!(end.is_err() || rest.len() < LARGE, "{end:?} after {} bytes", rest.len());
}

#[test]
fn an_answer_that_many_take_is_in_memory_once() {
    let server = server_with_echo(&["--max-answers", "24MiB", "--client-pause", "1h"]);
    let body = vec![b'x'; LARGE];
    let answer = server.post("/invoke/echo", &body).expect(200);
    let output = format!("/invocations/{}/outputs/out", answer.headers["x-invocation-id"]);
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.write_all(&request("GET", &output, &[], &[])).expect("sent");
    }
    for client in &mut clients {
        eventually("it counts once", || metric(&server, "monohull_answer_bytes") == LARGE);
        assert!(Answer::read(client).expect("an answer").expect(200).body == body);
    }
    eventually("nothing is left", || metric(&server, "monohull_answer_bytes") == 0);
}

/// What tells how the server is, and what went wrong with a call, is told while other clients have all the room.
#[test]
fn what_is_small_or_about_the_server_has_room() {
    let server = server_with_echo(&["--max-answers", "16MiB", "--client-pause", "1h"]);
    server.put_example("no-op");
    server.put_example("misbehave");
    for number in 0..60 {
        let name = format!("{}-{number}", "a-workflow-with-a-long-name".repeat(2));
        server.put_workflow(&single(&name, "no-op", &json!({})));
        server.post(&format!("/invoke/{name}"), b"").expect(200);
    }
    // With a report of 1500 instances.
    let mut fails = single("fails", "no-op", &json!({ "instances": 1500 }));
    fails["functions"]["panics"] = json!({ "image": "function:misbehave" });
    let last = json!({ "name": "last", "function": "panics", "after": ["main"], "args": { "how": "panic" } });
    fails["steps"].as_array_mut().expect("steps").push(last);
    server.put_workflow(&fails);
    let mut slow = server.connect();
    slow.write_all(&request("POST", "/invoke/echo", &[], &vec![b'x'; LARGE])).expect("sent");
    eventually("its answer is being sent", || metric(&server, "monohull_answer_bytes") == LARGE);

    assert!(server.get("/metrics").expect(200).body.len() > 64 << 10);
    server.get("/healthz").expect(200);
    server.get("/readyz").expect(200);
    let failed = server.post("/invoke/fails", b"");
    let location = format!("/invocations/{}", failed.headers["x-invocation-id"]);
    assert!(failed.headers.contains_key("x-call-id") && failed.body.len() < 64 << 10);
    let error = failed.error(502, "panic", "function");
    assert_eq!((&error["step"], &error["report"]), (&json!("last"), &json!(null)));
    server.get(&location).error(503, "answers-full", "host");

    assert!(Answer::read(&mut slow).expect("an answer").expect(200).body.len() == LARGE);
    eventually("there is room", || server.get(&location).status == 200);
    let error = server.post("/invoke/fails", b"").error(502, "panic", "function");
    assert_eq!(error["report"]["steps"][0]["instances"].as_array().map(Vec::len), Some(1500));
}

/// An encrypted output takes memory when it is opened: not before there is room for it. This one cannot be opened, which shows when it is.
#[test]
fn an_encrypted_output_without_room_is_not_opened() {
    const SIZE: usize = 12 << 20;
    let folder = tempfile::TempDir::new().expect("a folder");
    let key = folder.path().join("key");
    let made = Command::new(env!("CARGO_BIN_EXE_monohull")).args(["key", "new"]).arg(&key).status();
    assert!(made.expect("monohull starts").success());
    let state = StateFolder::new();
    let options = ["--max-answers", "24MiB", "--client-pause", "1h", "--state-key", key.to_str().expect("UTF-8")];
    let server = Server::start_on(&state, &options, &[]);
    server.put_shipped("echo.json");
    let ended = |bytes: usize| {
        let location = server.post("/async-invoke/echo", &vec![b'x'; bytes]).expect(202).headers["location"].clone();
        assert_eq!(server.ended(&location)["status"], "completed");
        format!("{location}/outputs/out")
    };
    let (first, second) = (ended(LARGE), ended(SIZE));
    assert_eq!(server.get(&second).expect(200).body.len(), SIZE);
    eventually("there is room", || metric(&server, "monohull_answer_bytes") == 0);
    let mut slow = server.connect();
    slow.write_all(&request("GET", &first, &[], &[])).expect("sent");
    eventually("it is being sent", || metric(&server, "monohull_answer_bytes") == LARGE);
    damage(state.path(), SIZE as u64);
    server.get(&second).error(503, "answers-full", "host");
    assert_eq!(Answer::read(&mut slow).expect("an answer").expect(200).body.len(), LARGE);
    eventually("there is room", || server.get(&second).status == 500);
    eventually("nothing is left", || metric(&server, "monohull_answer_bytes") == 0);
}

/// Changes a byte of each file of about this size.
fn damage(folder: &Path, size: u64) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            damage(&path, size);
        } else if (size..size + (1 << 20)).contains(&path.metadata().expect("a file").len()) {
            let mut bytes = std::fs::read(&path).expect("readable");
            bytes[size as usize / 2] ^= 1;
            std::fs::write(&path, bytes).expect("written");
        }
    }
}
