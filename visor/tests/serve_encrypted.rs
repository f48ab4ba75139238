//! A server whose state folder a key encrypts: what calls and durable invocations leave there cannot be read without the key, and is there after a kill.

#[path = "support/search.rs"]
mod search;
mod serve_support;

use nix::sys::signal::Signal;
use search::has;
use serve_support::{Server, StateFolder, eventually};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// What is searched for: the input of a call that does not wait, that of a durable invocation, an event, its key, and a callback.
const MARKERS: [&str; 5] =
    ["marker-of-the-call", "marker-of-the-order", "marker-of-the-event", "marker-of-the-key", "marker-of-the-callback"];

fn new_key(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    let made = Command::new(env!("CARGO_BIN_EXE_monohull")).args(["key", "new"]).arg(&path).status();
    assert!(made.expect("monohull starts").success());
    path
}

/// What a server says that does not start on a state folder.
fn refusal(state: &StateFolder, key: Option<&Path>) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_monohull"));
    program.args(["serve", "--listen", "127.0.0.1:0", "--state"]).arg(state.path());
    if let Some(key) = key {
        program.arg("--state-key").arg(key);
    }
    let output = program.output().expect("monohull starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

/// The control is a server without a key: then all of it is there to be read.
#[test]
fn nothing_of_a_call_is_readable_without_the_key_and_all_is_there_after_a_kill() {
    let folder = TempDir::new().expect("a folder");
    let file = new_key(folder.path(), "state.key");
    for key in [None, Some(&*file)] {
        let state = StateFolder::new();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let mut options = vec!["--suspend", "1s", "--callback-host", &host];
        if let Some(key) = key {
            options.extend(["--state-key", key.to_str().expect("UTF-8")]);
        }
        let server = Server::start_on(&state, &options, &[]);
        server.put_shipped("echo.json");
        server.put_shipped("durable/approval.json");
        let call = server.post("/async-invoke/echo", MARKERS[0].as_bytes()).expect(202).headers["location"].clone();
        server.ended(&call);
        let url = format!("http://{host}/{}", MARKERS[4]);
        for id in ["one", "two"] {
            let headers = [("X-Callback-Url", url.as_str())];
            let path = format!("/async-invoke/approval?id={id}");
            server.ask_with("POST", &path, &headers, MARKERS[1].as_bytes()).expect(202);
            eventually("it waits", || server.get(&format!("/invocations/{id}")).json()["status"] == "suspended");
        }
        // An event in a mailbox, and one that has become an output.
        server.post("/invocations/one/pause", b"").expect(200);
        for id in ["one", "two"] {
            let headers = [("Idempotency-Key", MARKERS[3])];
            let path = format!("/invocations/{id}/events/approved");
            server.ask_with("POST", &path, &headers, MARKERS[2].as_bytes()).expect(202);
        }
        let decision = format!("{}: approved by {}\n", MARKERS[1], MARKERS[2]);
        let output = |server: &Server, id: &str| {
            server.get(&format!("/invocations/{id}/outputs/decision?wait=120s")).expect(200).text()
        };
        assert_eq!(output(&server, "two"), decision);
        server.signal(Signal::SIGKILL);
        server.wait();
        let found = MARKERS.map(|marker| has(state.path(), marker));
        assert_eq!(found, [key.is_none(); 5], "{MARKERS:?} after a kill, with all that a database leaves then");

        let server = Server::start_on(&state, &options, &[]);
        assert_eq!(server.get("/healthz").json()["damaged"], serde_json::json!([]));
        assert_eq!(server.get(&format!("{call}/outputs/out")).expect(200).text(), MARKERS[0]);
        assert_eq!(output(&server, "two"), decision);
        server.post("/invocations/one/resume", b"").expect(200);
        assert_eq!(output(&server, "one"), decision);
        assert_eq!(server.stop().0, Some(0));
        let found = MARKERS.map(|marker| has(state.path(), marker));
        // The key of an event goes with its invocation.
        assert_eq!(&found[..3], [key.is_none(); 3], "when it has ended");
    }
}

#[test]
fn a_server_does_not_start_without_its_key() {
    let folder = TempDir::new().expect("a folder");
    let (own, other) = (new_key(folder.path(), "own.key"), new_key(folder.path(), "other.key"));
    let state = StateFolder::new();
    let options = ["--suspend", "1s", "--state-key", own.to_str().expect("UTF-8")];
    let server = Server::start_on(&state, &options, &[]);
    server.put_shipped("echo.json");
    let call = server.post("/async-invoke/echo", b"kept").expect(202).headers["location"].clone();
    server.ended(&call);
    assert_eq!(server.stop().0, Some(0));
    assert!(refusal(&state, None).contains("is encrypted: `--state-key FILE` names the file of its key"));
    assert!(refusal(&state, Some(&other)).contains("other.key is not the key of the state folder"));
    assert!(refusal(&state, Some(&folder.path().join("none"))).contains("the key file"));
    let server = Server::start_on(&state, &options, &[]);
    assert_eq!(server.get(&format!("{call}/outputs/out")).expect(200).text(), "kept");
    // Another key, while the server runs and after.
    let change = |from: &Path, to: &Path| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_monohull"));
        program.args(["key", "change", "--state"]).arg(state.path()).arg("--state-key").arg(from).arg("--to").arg(to);
        program.status().expect("monohull starts").code()
    };
    assert_eq!((change(&other, &own), change(&own, &other)), (Some(2), Some(0)));
    server.put_shipped("durable/approval.json");
    server.post("/async-invoke/approval?id=one", b"17 hulls").expect(202);
    eventually("it waits", || server.get("/invocations/one").json()["status"] == "suspended");
    assert_eq!(server.stop().0, Some(0));
    assert!(refusal(&state, Some(&own)).contains("own.key is not the key of the state folder"));
    let options = ["--suspend", "1s", "--state-key", other.to_str().expect("UTF-8")];
    let server = Server::start_on(&state, &options, &[]);
    server.post("/invocations/one/events/approved", b"Ada").expect(202);
    let decision = server.get("/invocations/one/outputs/decision?wait=120s").expect(200).text();
    assert_eq!(decision, "17 hulls: approved by Ada\n");
}

/// What is there does not become encrypted by half.
#[test]
fn a_server_without_a_key_stays_without_one() {
    let folder = TempDir::new().expect("a folder");
    let key = new_key(folder.path(), "state.key");
    let state = StateFolder::new();
    let server = Server::start_on(&state, &[], &[]);
    server.put_shipped("echo.json");
    let call = server.post("/async-invoke/echo", b"kept").expect(202).headers["location"].clone();
    server.ended(&call);
    assert_eq!(server.stop().0, Some(0));
    assert!(refusal(&state, Some(&key)).contains("is not encrypted, and stays so"));
    let server = Server::start_on(&state, &[], &[]);
    assert_eq!(server.get(&format!("{call}/outputs/out")).expect(200).text(), "kept");
}
