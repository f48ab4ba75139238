//! Save points and copies that a function makes of its own invocation: once each, whatever is killed.

#[path = "support/extent.rs"]
mod extent;
#[path = "support/program.rs"]
mod program;
mod serve_support;
#[path = "support/stops.rs"]
mod stops;

use extent::some_of;
use program::{document, image, monohull, refused};
use serde_json::{Value, json};
use serve_support::{Server, StateFolder, eventually, single};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use stops::traced;
use tempfile::TempDir;

/// How many of the stops are tried; with `--full` all of them, more than a thousand.
const TRIED: usize = 8;
/// Longer than any test, in ms.
const DAY: u64 = 86_400_000;
const LABEL: &str = "before the question";

/// A folder with an agent that makes a save point, goes three ways, and asks once.
fn agent(milliseconds: u64) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::copy(image("forked"), folder.path().join("forked.so")).expect("copied");
    let args = json!({ "rounds": 1, "milliseconds": milliseconds, "ways": 3 });
    let workflow = json!({
        "name": "ways", "functions": { "agent": { "image": "forked.so" } },
        "steps": [{ "name": "agent", "function": "agent", "args": args }], "outputs": ["diary"],
    });
    fs::write(folder.path().join("w.json"), workflow.to_string()).expect("written");
    folder
}

const RUN: [&str; 8] = ["run", "w.json", "--state", "state", "--id", "one", "--output", "diary=diary.txt"];

/// The status of each invocation.
fn statuses(folder: &Path) -> BTreeMap<String, String> {
    let listed = document(&monohull(folder, &["ps", "--state", "state", "--json"]));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let rows = listed["invocations"].as_array().expect("a list").iter();
    rows.map(|row| (text(&row["id"]), text(&row["status"]))).collect()
}

/// What is written there, of each invocation.
fn diaries(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let diaries = files.filter(|file| file.file_name().to_string_lossy().starts_with("diary"));
    let mut diaries: Vec<_> = diaries.map(|file| fs::read_to_string(file.path()).expect("text")).collect();
    diaries.sort_by_key(|diary| diary.split("copy ").nth(1).map(str::to_owned));
    diaries
}

#[track_caller]
fn three_went_their_ways(folder: &Path) {
    let diaries = diaries(folder);
    assert_eq!(diaries.len(), 3, "{diaries:#?}");
    for ((number, way), diary) in ["the index", "a search", "an expert"].iter().enumerate().zip(&diaries) {
        let copies = if number == 0 { 0 } else { 2 };
        let copy = format!("copy {number} of {copies}, ");
        assert!(
            diary.starts_with(&format!("round 1: asked {way}\n")) && diary.contains(&copy),
            "{number}: {diaries:#?}"
        );
    }
}

#[test]
fn a_function_makes_copies_of_its_own_invocation() {
    let folder = agent(10);
    let path = folder.path();
    let output = monohull(path, &RUN);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("2 copies go other ways"), "{output:?}");
    let shown = document(&monohull(path, &["show", "one", "--state", "state", "--json"]));
    let copies: Vec<_> =
        shown["forks"].as_array().expect("a list").iter().map(|id| id.as_str().expect("an id")).collect();
    assert!(copies.len() == 2 && copies.iter().all(|id| id.starts_with("one-")), "{shown}");
    let woken = monohull(path, &["wake", "--state", "state", "--wait"]);
    assert_eq!(woken.status.code(), Some(0), "{woken:?}");
    assert!(statuses(path).values().all(|status| status == "completed"), "{:?}", statuses(path));
    three_went_their_ways(path);
    // Nothing else says that.
    for event in ["fork:0", "checkpoint:a:0", "child:a"] {
        refused(
            &monohull(path, &["send", "one", event, "--state", "state"]),
            2,
            "no event can be sent whose name begins with",
        );
    }
    // The control.
    refused(&monohull(path, &["send", "one", "forks", "--state", "state"]), 2, "has ended");
}

#[test]
fn copies_are_made_once_whenever_the_process_is_killed() {
    let whole = agent(10);
    let stops = traced(whole.path(), &RUN, usize::MAX);
    let all = some_of(TRIED, stops);
    for tried in 0..all {
        let folder = agent(10);
        let path = folder.path();
        traced(path, &RUN, tried * stops / all);
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            // The worker may live for a moment longer, and with it the lock.
            assert_eq!(monohull(path, &RUN).status.code(), Some(0));
            assert_eq!(monohull(path, &["wake", "--state", "state", "--wait"]).status.code(), Some(0));
            if statuses(path).values().all(|status| status == "completed") {
                break;
            }
            assert!(Instant::now() < end, "{:?}", statuses(path));
        }
        assert_eq!(statuses(path).len(), 3, "killed at {tried} of {all}: {:?}", statuses(path));
        three_went_their_ways(path);
        let entries = fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        let hidden: Vec<_> = entries.filter(|name| name.as_encoded_bytes().starts_with(b".")).collect();
        assert!(hidden.is_empty(), "killed at {tried} of {all}: {hidden:?}");
    }
}

#[test]
fn an_invocation_comes_back_to_a_save_point_by_its_label() {
    let folder = agent(DAY);
    let path = folder.path();
    // It does not end where it only makes a save point, or copies.
    let output = monohull(path, &[&RUN[..], &["--detach"]].concat());
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("in a sleep until"), "{output:?}");
    let listed = document(&monohull(path, &["checkpoints", "one", "--state", "state", "--json"]));
    let labels: Vec<_> = listed["checkpoints"].as_array().expect("a list").iter().map(|kept| &kept["label"]).collect();
    assert_eq!(labels, [&json!(LABEL), &Value::Null, &Value::Null]);
    refused(
        &monohull(path, &["rewind", "one", "--to", "elsewhere", "--state", "state"]),
        2,
        "has no checkpoint `elsewhere`",
    );
    let rewound = document(&monohull(path, &["rewind", "one", "--to", LABEL, "--state", "state", "--json"]));
    assert_eq!((&rewound["generation"], &rewound["status"]), (&json!(4), &json!("suspended")));
    let copied = monohull(path, &["fork", "one", "--at", LABEL, "--id", "other", "--state", "state"]);
    assert_eq!(copied.status.code(), Some(0), "{copied:?}");
    let woken = monohull(path, &["wake", "--state", "state", "--wait", "--skip-time"]);
    assert_eq!(woken.status.code(), Some(0), "{woken:?}");
    let statuses = statuses(path);
    // It goes on with the copies that it had; a copy of it has copies of its own.
    let of = |begin: &str| statuses.keys().filter(|id| id.starts_with(begin)).count();
    assert_eq!((of("one"), of("other"), statuses.len()), (3, 3, 6), "{statuses:?}");
    assert!(statuses.values().all(|status| status == "completed"), "{statuses:?}");
    let came_back = diaries(path).iter().filter(|diary| diary.starts_with("came back\n")).count();
    // The original, the copy of the save point, and the two copies of that.
    assert_eq!(came_back, 4, "{:#?}", diaries(path));
}

#[test]
fn a_run_that_keeps_nothing_has_no_branches() {
    let folder = agent(10);
    let output = monohull(folder.path(), &["run", "w.json"]);
    refused(&output, 1, "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("only a run with a state folder, or of a workflow that is registered with a server"),
        "{text}"
    );
}

/// A server bounds what a function can start.
#[test]
fn a_server_makes_copies_as_far_as_there_is_room() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &["--suspend", "1s", "--max-durable", "4"], &[]);
    server.put_example("forked");
    let args = json!({ "rounds": 1, "milliseconds": DAY, "ways": 3 });
    server.put_workflow(&single("ways", "forked", &json!({ "args": args, "outputs": ["diary"] })));
    server.post("/async-invoke/ways?id=one", b"").expect(202);
    let sleeps = |id: &str| {
        let shown = server.get(&format!("/invocations/{id}")).json();
        shown["status"] == "suspended"
            && shown["waiting_for"][0]["kind"] != "event"
            && !shown["due"].is_null()
            && shown["waiting_for"].to_string().contains("sleep")
    };
    eventually("it sleeps", || sleeps("one"));
    let shown = server.get("/invocations/one").expect(200).json();
    let copies: Vec<String> =
        shown["forks"].as_array().expect("a list").iter().map(|id| id.as_str().expect("an id").to_owned()).collect();
    assert_eq!(copies.len(), 2, "{shown:#}");
    for copy in &copies {
        eventually("a copy sleeps", || sleeps(copy));
    }
    let listed = server.get("/invocations/one/checkpoints").expect(200).json();
    assert_eq!(listed["checkpoints"][0]["label"], LABEL);
    // There is room for one more.
    server.post("/async-invoke/ways?id=two", b"").expect(202);
    let failed = server.ended("/invocations/two");
    assert_eq!(failed["status"], "failed", "{failed:#}");
    assert!(failed.to_string().contains("there is room for 0 more invocations"), "{failed:#}");
    assert_eq!(failed["forks"], json!([]));
    let order = json!({ "to": LABEL }).to_string();
    let rewound = server.post("/invocations/one/rewind", order.as_bytes()).expect(200).json();
    assert_eq!(rewound["generation"], 4);
    eventually("it sleeps again", || sleeps("one"));
    let shown = server.get("/invocations/one").expect(200).json();
    assert_eq!(shown["forks"].as_array().expect("a list").len(), 2, "no others are made");
    server.post("/invocations/one/rewind", br#"{"to":"elsewhere"}"#).expect(409);
}
