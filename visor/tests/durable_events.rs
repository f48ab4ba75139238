//! `send`: events from outside take a suspended invocation further, each once, whatever is killed meanwhile.

#[path = "support/program.rs"]
mod program;

use program::{command, document, monohull, refused, write_workflow_of};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Runs it in the background; what it prints is not read.
fn begin(folder: &Path, args: &[&str]) -> Child {
    let mut command = command(folder, args);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A folder with a workflow that waits for these events, with these arguments besides.
fn inbox(events: &[&str], more: Value) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let mut args = json!({ "events": events, "fills": "result" });
    args.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    write_workflow_of(
        folder.path(),
        "inbox",
        "inbox",
        &json!([{ "name": "inbox", "function": "inbox", "args": args }]),
    );
    folder
}

/// Starts an invocation, which waits.
#[track_caller]
fn start(folder: &Path, id: &str) {
    let log = format!("result={id}.txt");
    let args = ["run", "w.json", "--state", "state", "--id", id, "--detach", "--output", &log];
    let output = monohull(folder, &args);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

fn send(folder: &Path, id: &str, name: &str, data: &str, more: &[&str]) -> Output {
    monohull(folder, &[&["send", id, name, "--data", data, "--state", "state", "--json"], more].concat())
}

/// Sends an event; whether it was sent before.
#[track_caller]
fn sent(folder: &Path, id: &str, name: &str, data: &str, more: &[&str]) -> bool {
    let output = send(folder, id, name, data, more);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    document(&output)["duplicate"].as_bool().expect("a word")
}

/// Runs what is due; how each invocation is after that.
#[track_caller]
fn wake(folder: &Path) -> Vec<(String, String)> {
    let output = monohull(folder, &["wake", "--state", "state", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let ran = document(&output)["ran"].as_array().expect("a list").clone();
    let text = |row: &Value, name: &str| row[name].as_str().expect("a text").to_owned();
    ran.iter().map(|row| (text(row, "id"), text(row, "status"))).collect()
}

fn show(folder: &Path, id: &str) -> Value {
    document(&monohull(folder, &["show", id, "--state", "state", "--json"]))
}

fn log(folder: &Path, id: &str) -> String {
    fs::read_to_string(folder.join(format!("{id}.txt"))).expect("the output")
}

fn went(id: &str, status: &str) -> Vec<(String, String)> {
    vec![(id.to_owned(), status.to_owned())]
}

/// A function waits for whichever comes first, without a process: the branch that loses leaves its event to those that wait for it next.
#[test]
fn the_branch_of_a_select_that_loses_takes_no_event() {
    let folder = inbox(&["a", "b"], json!({ "chooses": 2 }));
    let path = folder.path();
    for id in ["one", "two", "three"] {
        start(path, id);
    }
    let waits = show(path, "one")["waiting_for"].clone();
    assert_eq!((&waits[0]["event"], &waits[1]["event"]), (&json!("a"), &json!("b")));
    // One at a time: each wait is a new process.
    for (name, data) in [("b", "1"), ("b", "2"), ("b", "3")] {
        assert!(!sent(path, "one", name, data, &[]));
        wake(path);
    }
    assert_eq!(show(path, "one")["mail"], 1, "it waits for `a`, and has left the third `b`");
    assert!(!sent(path, "one", "a", "4", &[]));
    assert_eq!(wake(path), went("one", "completed"));
    assert_eq!(log(path, "one"), "chosen b: 1\nchosen b: 2\na: 4\nb: 3\n");
    // All are there before it goes on: that which was sent first wins.
    for (name, data) in [("b", "1"), ("a", "2"), ("b", "3"), ("a", "4")] {
        assert!(!sent(path, "two", name, data, &[]));
    }
    assert_eq!(wake(path), went("two", "completed"));
    assert_eq!(log(path, "two"), "chosen b: 1\nchosen a: 2\na: 4\nb: 3\n");
    assert_eq!(show(path, "three")["generation"], 1);
}

/// What comes after a step that is kept begins with its result: it is done again neither by the next process nor after a rewind to it.
#[test]
fn a_step_that_is_kept_is_not_done_again() {
    let folder = inbox(&["a"], json!({ "keeps": true }));
    let path = folder.path();
    let verb = |args: &[&str]| {
        let output = monohull(path, &[args, &["--state", "state"]].concat());
        assert!(matches!(output.status.code(), Some(0 | 4)), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let begun = verb(&["run", "w.json", "--id", "one", "--detach", "--output", "result=one.txt"]);
    assert!(begun.contains("noted with one/inbox/0/noted/0"), "{begun}");
    assert!(!verb(&["wake"]).contains("noted with"));
    assert!(verb(&["checkpoints", "one"]).contains("noted"), "it is a save point of this name");
    verb(&["rewind", "one", "--to", "noted"]);
    assert!(!verb(&["wake"]).contains("noted with"));
    assert!(!sent(path, "one", "a", "1", &[]));
    assert!(!verb(&["wake"]).contains("noted with"));
    assert_eq!(log(path, "one"), "noted\na: 1\n");
}

/// A time is a branch, too: a day passes at the first wait, and at each of those that follow.
#[test]
fn the_time_of_a_select_is_a_branch() {
    let folder = inbox(&["a", "b"], json!({ "chooses": 1, "timeout_ms": 86_400_000 }));
    let path = folder.path();
    start(path, "one");
    assert!(show(path, "one")["due"].is_string(), "it goes on by itself");
    assert_eq!(wake(path), []);
    let output = monohull(path, &["wake", "--state", "state", "--skip-time"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(log(path, "one"), "none is chosen\na is late\nb is late\n");
}

#[test]
fn an_event_takes_the_one_that_waits_for_it_further() {
    let folder = inbox(&["paid", "sent"], json!({}));
    let path = folder.path();
    start(path, "one");
    start(path, "two");
    let row = show(path, "one");
    assert_eq!((&row["status"], &row["due"], &row["mail"]), (&json!("suspended"), &Value::Null, &json!(0)));
    assert_eq!(row["waiting_for"][0]["event"], "paid");
    let text = String::from_utf8(monohull(path, &["ps", "--state", "state"]).stdout).expect("text");
    assert!(text.contains("inbox[0] for event `paid`"), "{text}");
    assert_eq!(wake(path), [], "nothing goes on without an event");
    // An event that it does not wait for yet is kept, and runs nothing.
    assert!(!sent(path, "one", "sent", "on Monday", &[]));
    assert_eq!((wake(path), &show(path, "one")["mail"]), (vec![], &json!(1)));
    fs::write(path.join("receipt"), "17 EUR").expect("written");
    let args = ["send", "one", "paid", "--file", "receipt", "--state", "state"];
    let output = monohull(path, &args);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "one: event paid sent\n", "{output:?}");
    assert_eq!(wake(path), went("one", "completed"), "the other one sleeps");
    assert_eq!(log(path, "one"), "paid: 17 EUR\nsent: on Monday\n");
    assert_eq!(show(path, "two")["generation"], 1);
    // One that runs through to its next wait.
    assert!(!sent(path, "two", "paid", "", &[]));
    assert_eq!(wake(path), went("two", "suspended"));
    assert_eq!(show(path, "two")["waiting_for"][0]["event"], "sent");
}

#[test]
fn an_event_with_a_key_is_sent_once() {
    let folder = inbox(&["a", "a", "a"], json!({}));
    let path = folder.path();
    start(path, "one");
    assert!(!sent(path, "one", "a", "1", &["--key", "k"]));
    assert!(sent(path, "one", "a", "1", &["--key", "k"]), "while it waits");
    assert_eq!(wake(path), went("one", "suspended"));
    assert!(sent(path, "one", "a", "1", &["--key", "k"]), "and after it was taken");
    assert_eq!((wake(path), &show(path, "one")["mail"]), (vec![], &json!(0)));
    let other = "key `k` is that of another event";
    refused(&send(path, "one", "a", "2", &["--key", "k"]), 2, other);
    refused(&send(path, "one", "b", "1", &["--key", "k"]), 2, other);
    assert!(!sent(path, "one", "a", "1", &[]), "without a key each is another one");
    assert!(!sent(path, "one", "a", "1", &["--key", "l"]));
    assert_eq!(wake(path), went("one", "completed"));
    assert_eq!(log(path, "one"), "a: 1\na: 1\na: 1\n");
}

#[test]
fn the_paused_are_sent_events_and_the_ended_are_not() {
    let folder = inbox(&["a"], json!({}));
    let path = folder.path();
    start(path, "one");
    start(path, "two");
    let to = |verb: &str, id: &str| monohull(path, &[verb, id, "--state", "state"]).status.code();
    assert_eq!(to("pause", "one"), Some(0));
    assert!(!sent(path, "one", "a", "while paused", &[]));
    assert_eq!((wake(path), &show(path, "one")["mail"]), (vec![], &json!(1)));
    assert_eq!(to("resume", "one"), Some(0));
    assert_eq!(wake(path), went("one", "completed"));
    assert_eq!(log(path, "one"), "a: while paused\n");
    refused(&send(path, "one", "a", "", &[]), 2, "invocation `one` has ended: it is completed");
    assert!(!sent(path, "two", "b", "never taken", &["--key", "k"]));
    assert!(!sent(path, "two", "b", "never taken", &[]));
    assert_eq!(to("cancel", "two"), Some(0));
    assert_eq!(show(path, "two")["mail"], 0, "its events are gone with it");
    assert!(sent(path, "two", "b", "never taken", &["--key", "k"]), "who has got no answer may ask again");
    refused(&send(path, "two", "a", "", &[]), 2, "invocation `two` has ended: it is cancelled");
    assert_eq!(to("purge", "two"), Some(0));
    refused(&send(path, "two", "a", "", &[]), 2, "there is no invocation `two`");
    refused(&send(path, "three", "a\u{1b}", "", &[]), 2, "the name of an event has 1 to 128 bytes");
    fs::write(path.join("large"), vec![0; (1 << 20) + 1]).expect("written");
    let large = ["send", "two", "a", "--file", "large", "--state", "state"];
    refused(&monohull(path, &large), 2, "an event has at most 1048576 bytes");
    refused(&monohull(path, &["send", "two", "a", "--file", "gone", "--state", "state"]), 2, "gone cannot be read");
}

/// What is sent while it runs is taken at its next leg, which follows at once.
#[test]
fn what_is_sent_meanwhile_is_not_lost() {
    let folder = inbox(&["a", "b"], json!({ "nap_ms": 700 }));
    let path = folder.path();
    // A leg takes less than a second, and on a busy machine it may be over before it is seen.
    let was_seen = (0..20).map(|number| format!("run-{number}")).any(|id| {
        start(path, &id);
        assert!(!sent(path, &id, "a", "1", &[]));
        let mut waker = begin(path, &["wake", "--state", "state"]);
        let end = Instant::now() + Duration::from_secs(60);
        let was_seen = loop {
            let row = show(path, &id);
            assert!(Instant::now() < end, "{row}");
            if row["status"] == "running" || row["generation"] != 1 {
                break row["status"] == "running";
            }
        };
        assert!(!sent(path, &id, "b", "2", &[]));
        assert!(waker.wait().expect("it ends").success());
        // If it was sent when the leg was over it is taken by the next `wake`.
        wake(path);
        assert_eq!(show(path, &id)["status"], "completed", "{}", show(path, &id));
        assert_eq!(log(path, &id), "a: 1\nb: 2\n");
        was_seen
    });
    assert!(was_seen);
}

/// A process that follows an invocation goes on when another one sends it an event.
#[test]
fn the_one_who_follows_waits_for_events_too() {
    let folder = inbox(&["a"], json!({}));
    let path = folder.path();
    let args = ["run", "w.json", "--state", "state", "--id", "one", "--output", "result=one.txt"];
    let mut follower = begin(path, &args);
    let end = Instant::now() + Duration::from_secs(60);
    while !send(path, "one", "a", "x", &["--key", "k"]).status.success() {
        assert!(Instant::now() < end);
        sleep(Duration::from_millis(20));
    }
    assert!(follower.wait().expect("it ends").success());
    assert_eq!(log(path, "one"), "a: x\n");
}

/// Without a database: events are given to a checkpoint, and those that it does not take yet are kept in the next one.
#[test]
fn a_checkpoint_is_resumed_with_events() {
    let folder = inbox(&["a", "b"], json!({}));
    let path = folder.path();
    let checkpoint = |output: &Output| {
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        document(output)["checkpoint"].as_str().expect("a path").to_owned()
    };
    for (name, text) in [("one", "1"), ("two", "2"), ("three", "3")] {
        fs::write(path.join(name), text).expect("written");
    }
    let args = ["run", "w.json", "--suspend", "waiting", "--json", "--output", "result=log.txt"];
    let first = checkpoint(&monohull(path, &args));
    let described = document(&monohull(path, &["checkpoint", "describe", &first, "--json"]));
    let thread = &described["instances"][0]["threads"][0];
    assert_eq!(
        (&thread["state"], &thread["on"], &thread["hostcall"]),
        (&json!("event"), &json!("a"), &json!("EVENT_WAIT"))
    );
    let args = ["resume", &first, "--event", "b=two", "--event", "b=three", "--suspend", "waiting", "--json"];
    let second = checkpoint(&monohull(path, &args));
    let output = monohull(path, &["resume", &second, "--event", "a=one"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(fs::read_to_string(path.join("log.txt")).expect("the output"), "a: 1\nb: 2\n");
    // Without another checkpoint no event can arrive.
    refused(&monohull(path, &["resume", &first]), 2, "it waits for event `a`");
    refused(&monohull(path, &["resume", &first, "--event", "a"]), 2, "it should be NAME=PATH");
    refused(&monohull(path, &["resume", &first, "--event", "a=gone"]), 2, "gone cannot be read");
}

/// The shipped example, with reminders.
#[test]
fn an_order_is_approved_or_refused() {
    let workflow = root().join("workflows/durable").join(format!("{}.json", "approval"));
    let workflow = workflow.to_str().expect("a path");
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    fs::write(path.join("order"), "17 hulls\n").expect("written");
    let begin = |id: &str, more: &[&str]| {
        let output = format!("decision={id}.txt");
        let args = ["run", workflow, "--state", "state", "--id", id, "--detach", "--input", "order=order", "--output"];
        let output = monohull(path, &[&args[..], &[&output], more].concat());
        assert_eq!(output.status.code(), Some(4), "{output:?}");
    };
    begin("one", &[]);
    begin("two", &["--set", "approval.remind_after_s=3", "--set", "approval.reminders=1"]);
    let waits = show(path, "one")["waiting_for"][0].clone();
    assert!(waits["event"] == "approved" && waits["until"].is_string(), "{waits}");
    assert!(!sent(path, "one", "approved", "Ada", &[]));
    assert_eq!(wake(path).first(), Some(&("one".to_owned(), "completed".to_owned())));
    let output = monohull(path, &["wake", "--state", "state", "--wait"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(log(path, "one"), "17 hulls: approved by Ada\n");
    assert_eq!(log(path, "two"), "17 hulls: refused: no answer\n");
}

/// Processes that send and processes that run are killed at all kinds of moments. Each event is taken once, in order.
#[test]
fn kills_lose_no_event_and_take_none_twice() {
    const EVENTS: usize = 5;
    const IDS: [&str; 3] = ["x", "y", "z"];
    let folder = inbox(&["e"; EVENTS], json!({}));
    let path = folder.path();
    IDS.iter().for_each(|id| start(path, id));
    let end = Instant::now() + Duration::from_secs(240);
    let mut round: u64 = 0;
    let mut acknowledged = [0; IDS.len()];
    loop {
        assert!(Instant::now() < end, "{round} rounds");
        round += 1;
        let mut waker = begin(path, &["wake", "--state", "state"]);
        for (id, done) in IDS.iter().zip(&mut acknowledged).filter(|(_, done)| **done < EVENTS) {
            // With a key what got no answer may be sent again.
            let (data, key) = (format!("{done}"), format!("key {done}"));
            let mut sender = begin(path, &["send", id, "e", "--data", &data, "--key", &key, "--state", "state"]);
            sleep(Duration::from_millis(round * 13 % 40));
            let _ = sender.kill();
            *done += usize::from(sender.wait().expect("it ends").success());
        }
        sleep(Duration::from_millis(round * 37 % 113));
        let _ = waker.kill();
        waker.wait().expect("it ends");
        let listed = document(&monohull(path, &["ps", "--state", "state", "--json"]));
        let rows = listed["invocations"].as_array().expect("a list").clone();
        for row in &rows {
            match row["status"].as_str() {
                Some("running" | "suspended" | "completed") => {}
                // Killed five times between two commits: as it should be, and goes on by hand.
                Some("paused") => {
                    let id = row["id"].as_str().expect("an id");
                    assert_eq!(monohull(path, &["resume", id, "--state", "state"]).status.code(), Some(0));
                }
                _ => panic!("{row}"),
            }
        }
        // Some rounds are enough: then what is left is done in peace.
        if acknowledged == [EVENTS; IDS.len()] && (round > 60 || rows.iter().all(|row| row["status"] == "completed")) {
            break;
        }
    }
    assert!(round >= EVENTS as u64, "{round}");
    // A worker of a killed process may live for a moment longer, and with it the lock.
    while IDS.iter().any(|id| show(path, id)["status"] != "completed") {
        assert!(Instant::now() < end);
        wake(path);
    }
    let expected: String = (0..EVENTS).map(|number| format!("e: {number}\n")).collect();
    for id in IDS {
        assert_eq!(log(path, id), expected, "{id} after {round} rounds");
        assert_eq!(show(path, id)["mail"], 0);
    }
}

/// A folder with workflows that send `paid` to `r`, after `go`: one whose file permits that, and one whose file does not; and their receiver.
fn couple() -> TempDir {
    let folder = inbox(&["paid", "end"], json!({}));
    let mut document: Value =
        serde_json::from_slice(&fs::read(folder.path().join("w.json")).expect("a workflow")).expect("JSON");
    document["steps"][0]["args"] =
        json!({ "events": ["go", "on"], "fills": "result", "sends": ["paid"], "sends_to": "r" });
    for (file, receivers) in [("refused.json", None), ("sender.json", Some(json!(["inbox"])))] {
        if let Some(receivers) = receivers {
            document["sends_to"] = receivers;
        }
        fs::write(folder.path().join(file), document.to_string()).expect("written");
    }
    folder
}

#[test]
fn an_event_for_another_invocation_leaves_with_the_commit() {
    let folder = couple();
    let path = folder.path();
    start(path, "r");
    for (file, id) in [("sender.json", "s"), ("refused.json", "n")] {
        let log = format!("result={id}.txt");
        let output = monohull(path, &["run", file, "--state", "state", "--id", id, "--detach", "--output", &log]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(!sent(path, id, "go", "x", &[]));
    }
    let mut ran = wake(path);
    ran.sort();
    let suspended = |id: &str| (id.to_owned(), "suspended".to_owned());
    assert_eq!(ran, [suspended("n"), suspended("r"), suspended("s")], "r was woken by s");
    assert_eq!(show(path, "r")["generation"], 2);
    for id in ["s", "n"] {
        assert!(!sent(path, id, "on", "", &[]));
    }
    assert!(!sent(path, "r", "end", "", &[]));
    assert_eq!(wake(path).len(), 3);
    assert_eq!(log(path, "r"), "paid: s 0\nend: \n");
    assert_eq!(log(path, "s"), "go: x\non: \n");
    let refused = "sending event `paid` to `r`: the workflow file does not permit it: `sends_to` names no workflow";
    assert_eq!(log(path, "n"), format!("go: x\n{refused}\non: \n"));
    // A run without a state folder has no receiver.
    let args = [
        "run",
        "sender.json",
        "--skip-time",
        "--event",
        "go=w.json",
        "--event",
        "on=w.json",
        "--output",
        "result=alone.txt",
    ];
    let output = monohull(path, &args);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(log(path, "alone").contains("only a run with a state folder"), "{}", log(path, "alone"));
}

/// The sender goes on after its checkpoints, and is killed after the one with which the event has left: nothing is sent again.
#[test]
fn an_event_for_another_invocation_leaves_once_with_a_checkpoint_of_one_that_goes_on() {
    let folder = couple();
    let path = folder.path();
    start(path, "r");
    let mut document: Value =
        serde_json::from_slice(&fs::read(path.join("sender.json")).expect("a workflow")).expect("JSON");
    document["steps"][0]["args"]["busy_from"] = json!(1);
    document["steps"][0]["args"]["busy_to"] = json!(2);
    fs::write(path.join("sender.json"), document.to_string()).expect("written");
    let run = ["run", "sender.json", "--state", "state", "--id", "s", "--output", "result=s.txt"];
    let output = monohull(path, &[&run[..], &["--detach", "--checkpoint-every", "100ms"]].concat());
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(!sent(path, "s", "go", "x", &[]));
    let mut follower = begin(path, &["wake", "--state", "state", "--wait"]);
    let generation = |id: &str| show(path, id)["generation"].as_u64().expect("a number");
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
            sleep(Duration::from_millis(20));
        }
    };
    until("the event is in the mailbox", &|| show(path, "r")["mail"] == 1);
    let sent_at = generation("s");
    until("there are more checkpoints", &|| generation("s") > sent_at + 2);
    follower.kill().expect("it runs");
    follower.wait().expect("ended");
    assert_eq!(show(path, "r")["mail"], 1);
    assert!(!sent(path, "s", "on", "", &[]));
    assert!(!sent(path, "r", "end", "", &[]));
    until("both have ended", &|| {
        wake(path);
        ["r", "s"].iter().all(|id| show(path, id)["status"] == "completed")
    });
    assert_eq!(log(path, "r"), "paid: s 0\nend: \n");
    assert_eq!(log(path, "s"), "go: x\non: \n");
}
