//! Durable invocations that leave a server as one file and go on in another one, which has the same keys.

mod serve_support;

use monohull_visor::watchdog::openapi::DOCUMENT;
use serde_json::{Value, json};
use serve_support::{Server, StateFolder, eventually, single};
use std::fs;

const OPTIONS: [&str; 2] = ["--suspend", "1s"];
const DAY: u64 = 86_400_000;

fn keeps_to(name: &str, value: &Value) {
    let mut root: Value = serde_json::from_str(DOCUMENT).expect("JSON");
    root["$ref"] = format!("#/components/schemas/{name}").into();
    let schema = jsonschema::validator_for(&root).expect("a schema");
    let errors: Vec<_> = schema.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{value:#}");
}

/// Registers `inbox`, which waits for `a` and then `b`, and `agent`, which sleeps for a day three times.
fn deploy(server: &Server) {
    for example in ["inbox", "forked"] {
        server.put_example(example);
    }
    let events = json!({ "events": ["a", "b"], "fills": "result" });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": events, "outputs": ["result"] })));
    let agent = json!({ "args": { "rounds": 3, "milliseconds": DAY }, "outputs": ["diary"] });
    server.put_workflow(&single("agent", "forked", &agent));
}

fn sleeps(server: &Server, id: &str) -> Value {
    let at = format!("/invocations/{id}");
    eventually("it waits", || server.get(&at).json()["status"] == "suspended");
    server.get(&at).json()
}

/// A state folder with the key of another one.
fn with_key_of(other: &StateFolder) -> StateFolder {
    let folder = StateFolder::new();
    fs::copy(other.path().join("checkpoint.key"), folder.path().join("checkpoint.key")).expect("copied");
    folder
}

fn exported(server: &Server, id: &str) -> Vec<u8> {
    let answer = server.get(&format!("/invocations/{id}/checkpoint")).expect(200);
    assert_eq!(answer.headers["content-type"], "application/vnd.monohull.invocation");
    answer.body
}

/// The second server has never heard of the workflow. Mailbox, keys of events, timers and printed lines come along.
#[test]
fn an_invocation_moves_with_its_mailbox_to_a_server_that_does_not_know_its_workflow() {
    let home = StateFolder::new();
    let server = Server::start_on(&home, &OPTIONS, &[]);
    deploy(&server);
    server.post("/async-invoke/inbox?id=mover", b"").expect(202);
    sleeps(&server, "mover");
    let send = |server: &Server, event: &str, key: &str, text: &[u8]| {
        server.ask_with("POST", &format!("/invocations/mover/events/{event}"), &[("Idempotency-Key", key)], text)
    };
    // One that was taken, and one that waits.
    send(&server, "a", "first", b"one").expect(202);
    eventually("it has taken `a`", || {
        let shown = server.get("/invocations/mover").json();
        shown["status"] == "suspended" && shown["generation"] == 2
    });
    server.post("/invocations/mover/pause", b"").expect(200);
    send(&server, "b", "second", b"two").expect(202);
    let before = server.get("/invocations/mover").json();
    assert_eq!(before["mail"], 1);
    let file = exported(&server, "mover");

    let there = Server::start_on(&with_key_of(&home), &OPTIONS, &[]);
    let answer = there.post("/invocations?paused=true", &file).expect(201);
    keeps_to("Imported", &answer.json());
    assert_eq!(answer.headers["location"], "/invocations/mover");
    let shown = there.get("/invocations/mover").expect(200).json();
    keeps_to("Invocation", &shown);
    for field in ["workflow", "generation", "mail", "waiting_for", "published", "version"] {
        assert_eq!(shown[field], before[field], "{field}");
    }
    assert_eq!((&shown["status"], &shown["parent"]), (&json!("paused"), &Value::Null));
    // What was sent there was sent here.
    for (event, key, text) in [("a", "first", "one"), ("b", "second", "two")] {
        assert_eq!(send(&there, event, key, text.as_bytes()).expect(200).json()["duplicate"], true, "{event}");
    }
    there.post("/invocations/mover/resume", b"").expect(200);
    let result = there.get("/invocations/mover/outputs/result?wait=120s").expect(200).text();
    server.post("/invocations/mover/resume", b"").expect(200);
    let at_home = server.get("/invocations/mover/outputs/result?wait=120s").expect(200).text();
    assert_eq!(result, at_home, "it is the same run");
    let logs = |server: &Server| server.get("/invocations/mover/logs").expect(200).text();
    assert_eq!(logs(&there), logs(&server));
}

/// The time of a sleeper goes on on the way, and that of an earlier checkpoint stands still.
#[test]
fn timers_go_on_and_earlier_checkpoints_are_taken_too() {
    let home = StateFolder::new();
    let server = Server::start_on(&home, &OPTIONS, &[]);
    deploy(&server);
    server.post("/async-invoke/agent?id=agent", b"").expect(202);
    let due = sleeps(&server, "agent")["due"].clone();
    let file = exported(&server, "agent");
    server.post("/invocations/agent/rewind", br#"{"to": 1}"#).expect(200);
    let earlier = server.get("/invocations/agent/checkpoint?at=1").expect(200).body;
    server.get("/invocations/agent/checkpoint?at=7").error(409, "conflict", "client");
    let there = Server::start_on(&with_key_of(&home), &OPTIONS, &[]);
    there.post("/invocations", &file).expect(201);
    assert_eq!(sleeps(&there, "agent")["due"], due);
    there.post("/invocations?id=earlier", &earlier).expect(201);
    let later = sleeps(&there, "earlier")["due"].as_str().expect("a time").to_owned();
    assert!(later.as_str() > due.as_str().expect("a time"), "{later}");
    // It is forked and ended as any other.
    there.post("/invocations/agent/fork", br#"{"count": 2}"#).expect(200);
    for id in ["agent", "agent-1", "agent-2", "earlier"] {
        there.post(&format!("/invocations/{id}/cancel"), b"").expect(200);
    }
    let folder = there.state().path().join("durable/checkpoints");
    eventually("cancelled ones keep no file", || fs::read_dir(&folder).expect("a folder").count() == 0);
}

/// What is taken is whole, sealed with this server's key, and taken once.
#[test]
fn what_is_foreign_damaged_or_there_is_refused() {
    let home = StateFolder::new();
    let server = Server::start_on(&home, &OPTIONS, &[]);
    deploy(&server);
    server.post("/async-invoke/agent?id=agent", b"").expect(202);
    sleeps(&server, "agent");
    let file = exported(&server, "agent");
    let there = Server::start_on(&with_key_of(&home), &OPTIONS, &[]);
    let refused = |server: &Server, file: &[u8], why: &str| {
        let error = server.post("/invocations", file).error(422, "invalid", "client");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(why)), "{error:#}");
    };
    for at in [20, 60, file.len() / 2, file.len() - 1] {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        there.post("/invocations", &damaged).error(422, "invalid", "client");
    }
    refused(&there, &file[..file.len() - 1], "damaged");
    refused(&there, b"", "no exported invocation");
    refused(&there, b"#!/bin/sh", "no exported invocation");
    let stranger = Server::start_with(&OPTIONS);
    refused(&stranger, &file, "checkpoint.key");
    for server in [&there, &stranger] {
        assert_eq!(server.get("/invocations").json()["invocations"], json!([]));
    }
    // The server that it left has it still.
    server.post("/invocations", &file).error(409, "conflict", "client");
    there.post("/invocations", &file).expect(201);
    there.post("/invocations", &file).error(409, "conflict", "client");
    there.post("/invocations?id=copy", &file).expect(201);
    there.post("/invocations?id=a/b", &file).error(400, "bad-request", "client");
    // Only what waits has something to leave with.
    server.post("/invocations/agent/cancel", b"").expect(200);
    server.get("/invocations/agent/checkpoint").error(409, "conflict", "client");
    server.get("/invocations/unknown/checkpoint").error(404, "not-found", "client");
}

/// An invocation brings no rights with it: it goes on with what is granted where it goes on.
#[test]
fn what_is_not_granted_there_is_not_had_there() {
    let home = StateFolder::new();
    let data = home.path().join("data");
    fs::create_dir(&data).expect("made");
    let grants = home.path().join("grants.json");
    fs::write(&grants, json!({ "files": { "data": { "directory": data, "workflows": ["inbox"] } } }).to_string())
        .expect("written");
    let granted = ["--suspend", "1s", "--grants", grants.to_str().expect("UTF-8")];
    let state = StateFolder::new();
    let server = Server::start_on(&state, &granted, &[]);
    server.put_example("inbox");
    let more = json!({ "args": { "events": ["a"], "fills": "result" }, "outputs": ["result"],
        "files": [{ "at": "/data", "grant": "data" }] });
    server.put_workflow(&single("inbox", "inbox", &more));
    server.post("/async-invoke/inbox?id=mover", b"").expect(202);
    sleeps(&server, "mover");
    let file = exported(&server, "mover");
    let goes_on = |options: &[&str]| {
        let there = Server::start_on(&with_key_of(&state), options, &[]);
        there.post("/invocations", &file).expect(201);
        there.post("/invocations/mover/events/a", b"1").expect(202);
        let shown = || there.get("/invocations/mover").json();
        eventually("it goes on or not", || {
            ["completed", "paused"].contains(&shown()["status"].as_str().expect("a name"))
        });
        shown()
    };
    // The control: it is granted there too.
    assert_eq!(goes_on(&granted)["status"], "completed");
    let shown = goes_on(&OPTIONS);
    assert_eq!(shown["status"], "paused", "{shown:#}");
    assert!(shown["reason"].as_str().is_some_and(|why| why.contains("data")), "{shown:#}");
}

/// What leaves an encrypted folder is encrypted, for those who have the key file.
#[test]
fn what_leaves_an_encrypted_folder_is_encrypted() {
    let keys = tempfile::TempDir::new().expect("a folder");
    let key = |name: &str| {
        let path = keys.path().join(name);
        monohull_state_key::KeyFile::create(&path).expect("a key");
        path.to_str().expect("text").to_owned()
    };
    let (own, other) = (key("own"), key("other"));
    let options = |key: &str| {
        OPTIONS
            .iter()
            .map(|text| (*text).to_owned())
            .chain(["--state-key".to_owned(), key.to_owned()])
            .collect::<Vec<_>>()
    };
    let start = |folder: &StateFolder, key: &str| {
        let options = options(key);
        Server::start_on(folder, &options.iter().map(String::as_str).collect::<Vec<_>>(), &[])
    };
    let home = StateFolder::new();
    let server = start(&home, &own);
    deploy(&server);
    server.post("/async-invoke/inbox?id=secret", b"").expect(202);
    sleeps(&server, "secret");
    server.post("/invocations/secret/pause", b"").expect(200);
    server.post("/invocations/secret/events/a", b"a-secret-word").expect(202);
    let file = exported(&server, "secret");
    for plain in ["a-secret-word", "inbox", "secret\""] {
        assert!(!file.windows(plain.len()).any(|part| part == plain.as_bytes()), "{plain}");
    }
    let there = start(&with_key_of(&home), &own);
    there.post("/invocations", &file).expect(201);
    assert_eq!(there.get("/invocations/secret").json()["mail"], 1);
    there.post("/invocations/secret/events/b", b"2").expect(202);
    there.get("/invocations/secret/outputs/result?wait=120s").expect(200);
    start(&with_key_of(&home), &other).post("/invocations", &file).error(422, "invalid", "client");
    Server::start_on(&with_key_of(&home), &OPTIONS, &[]).post("/invocations", &file).error(422, "invalid", "client");
}
