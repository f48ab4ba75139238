//! The state folder of a server of an earlier build: another server opens it, and everything in it goes on.
//!
//! ```text
//!   year          waits, has been added to twice      paused   paused, with an event in its mailbox
//!   year-copy     a copy of its first checkpoint      later    pending, for the year 2100
//!   done          completed                           gone     cancelled
//!                                                     nightly  a schedule
//! ```
//!
//! `UPDATE_GOLDEN=1 cargo test -p monohull-visor --test golden_folder` writes it anew, with `MONOHULL` the path of the build that is to
//! write it. That is for changes before a release; afterwards folders are added and stay.

#[path = "support/anew.rs"]
mod anew;
mod serve_support;

use anew::anew;
use monohull_checkpoint::{Checkpoint, Key, Packing, Trust};
use serde_json::{Value, json};
use serve_support::{Answer, Server, StateFolder, eventually, single};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const OPTIONS: [&str; 2] = ["--suspend", "20ms"];
/// What of a folder belongs to the process that uses it. The file `lock` says that it is a state folder.
const OF_A_PROCESS: [&str; 3] = ["files.lock", "owners", "damaged"];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/state-1")
}

/// Copies a folder, for its owner alone. An empty one is no part of a repository, and is made when it is needed.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    fs::set_permissions(to, Permissions::from_mode(0o700)).expect("ours");
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("read")) {
        let (name, to) = (entry.file_name(), to.join(entry.file_name()));
        if OF_A_PROCESS.iter().any(|part| name == **part) {
            continue;
        }
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).expect("copied");
            fs::set_permissions(&to, Permissions::from_mode(0o600)).expect("ours");
        }
    }
}

fn shown(server: &Server, id: &str) -> Value {
    server.get(&format!("/invocations/{id}")).expect(200).json()
}

fn send(server: &Server, id: &str, event: &str, bytes: &str) -> Answer {
    server.post(&format!("/invocations/{id}/events/{event}"), bytes.as_bytes()).expect(202)
}

fn count(server: &Server, id: &str) -> String {
    server.get(&format!("/invocations/{id}/state/count")).expect(200).text()
}

/// Ends a counter: what it has counted.
fn closed(server: &Server, id: &str) -> String {
    send(server, id, "close", "");
    server.get(&format!("/invocations/{id}/outputs/total?wait=60s")).expect(200).text()
}

/// All that is in the picture above.
fn fill(server: &Server) {
    server.put_example("counter");
    server.put_workflow(&single("counter", "counter", &json!({ "outputs": ["total"] })));
    let has_come_to = |id: &str, status: &str| eventually(status, || shown(server, id)["status"] == status);
    for id in ["year", "done", "paused", "gone"] {
        server.post(&format!("/async-invoke/counter?id={id}"), b"").expect(202);
        has_come_to(id, "suspended");
    }
    for (sum, added) in [("2", "2"), ("5", "3")] {
        send(server, "year", "add", added);
        eventually("it was added", || count(server, "year") == sum);
        has_come_to("year", "suspended");
    }
    let first = json!({ "at": 1, "ids": ["year-copy"] }).to_string();
    server.post("/invocations/year/fork", first.as_bytes()).expect(200);
    has_come_to("year-copy", "suspended");
    send(server, "done", "add", "4");
    assert_eq!(closed(server, "done"), "4\n");
    server.post("/invocations/paused/pause", b"").expect(200);
    send(server, "paused", "add", "7");
    server.post("/invocations/gone/cancel", b"").expect(200);
    server.post("/async-invoke/counter?id=later&at=2100-01-01T00:00:00Z", b"").expect(202);
    let nightly = json!({ "workflow": "counter", "cron": "0 3 1 1 *" }).to_string();
    server.ask("PUT", "/schedules/nightly", nightly.as_bytes()).expect(201);
}

/// Makes the checkpoints of a folder fit for any processor: each behind the one that it takes pages from.
fn for_any_processor(state: &Path) {
    let key = Key::load(&state.join("checkpoint.key")).expect("the server has made it");
    let folder = state.join("durable/checkpoints");
    let mut left = BTreeMap::new();
    for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("read").path()) {
        let file = File::open(&entry).expect("there");
        let read = Checkpoint::read(&file, Trust::Key(&key)).expect("it is good");
        left.insert(entry, read.contents().chain.as_ref().map(|chain| chain.file.clone()));
    }
    let mut written = BTreeMap::<String, Vec<u8>>::new();
    while !left.is_empty() {
        let is_next = |parent: &Option<String>| parent.as_ref().is_none_or(|parent| written.contains_key(parent));
        let next = left
            .iter()
            .find(|(_, parent)| is_next(parent))
            .map(|(path, _)| path.clone())
            .expect("a chain has a beginning");
        let parent = left.remove(&next).flatten();
        let parent = parent.as_ref().map(|parent| (parent.as_str(), written[parent].as_slice()));
        let bytes = anew(&next, &key, Packing::Lz4, parent);
        written.insert(next.file_name().and_then(|name| name.to_str()).expect("a name").to_owned(), bytes);
    }
    written.iter().for_each(|(name, bytes)| fs::write(folder.join(name), bytes).expect("written"));
}

/// Writes the golden folder anew.
fn make() {
    let program = std::env::var_os("MONOHULL").unwrap_or_else(|| env!("CARGO_BIN_EXE_monohull").into());
    let state = StateFolder::new();
    let server = Server::start_by(Command::new(program), &state, &OPTIONS, &[]);
    fill(&server);
    assert_eq!(server.stop().0, Some(0));
    for_any_processor(state.path());
    let _ = fs::remove_dir_all(golden());
    copy(state.path(), &golden());
}

#[test]
fn a_state_folder_of_an_earlier_build_goes_on() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        make();
    }
    let state = StateFolder::new();
    copy(&golden(), state.path());
    let server = Server::start_on(&state, &OPTIONS, &[]);
    let statuses = || -> BTreeMap<String, String> {
        let listed = server.get("/invocations").expect(200).json();
        let text = |of: &Value, name: &str| of[name].as_str().expect("a text").to_owned();
        let listed = listed["invocations"].as_array().expect("a list").iter();
        listed.map(|of| (text(of, "id"), text(of, "status"))).collect()
    };
    let as_they_were = [
        ("done", "completed"),
        ("gone", "cancelled"),
        ("later", "pending"),
        ("paused", "paused"),
        ("year", "suspended"),
        ("year-copy", "suspended"),
    ];
    assert_eq!(statuses(), as_they_were.map(|(id, status)| (id.to_owned(), status.to_owned())).into());
    assert_eq!(server.get("/invocations/done/outputs/total").expect(200).text(), "4\n");
    assert_eq!((count(&server, "year"), count(&server, "year-copy")), ("5".to_owned(), "0".to_owned()));
    // What sleeps goes on, with what it has in memory and in its mailbox.
    send(&server, "year", "add", "10");
    eventually("it was added", || count(&server, "year") == "15");
    assert_eq!(closed(&server, "year-copy"), "0\n");
    server.post("/invocations/paused/resume", b"").expect(200);
    assert_eq!(closed(&server, "paused"), "7\n");
    // Its history is there: to be taken back to, and to be copied.
    eventually("it waits", || shown(&server, "year")["status"] == "suspended");
    server.post("/invocations/year/rewind", br#"{"to": 2}"#).expect(200);
    server.post("/invocations/year/fork", br#"{"ids": ["another"]}"#).expect(200);
    assert_eq!((closed(&server, "another"), closed(&server, "year")), ("2\n".to_owned(), "2\n".to_owned()));
    let told = server.get("/invocations/year/timeline").expect(200).json();
    assert!(told["entries"].as_array().is_some_and(|entries| !entries.is_empty()), "{told:#}");
    // So are what has not begun and what is started by a schedule, with the workflow and its function.
    assert_eq!(shown(&server, "later")["due"], "2100-01-01T00:00:00.000Z");
    let schedule = server.get("/schedules/nightly").expect(200).json();
    assert_eq!((&schedule["workflow"], &schedule["cron"]), (&json!("counter"), &json!("0 3 1 1 *")));
    server.post("/async-invoke/counter?id=new", b"").expect(202);
    assert_eq!(closed(&server, "new"), "0\n");
    assert_eq!(server.stop().0, Some(0));
}
