//! Durable invocations of a state folder that are killed, asked for their result, and moved to another folder as one file.

#[path = "support/program.rs"]
mod program;

use program::{command, document, monohull, refused, write_workflow_of};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const DAY: u64 = 86_400_000;

/// A folder with `w.json`, the function `inbox`, which waits for `a` and then `b`.
fn inbox() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let args = json!({ "events": ["a", "b"], "fills": "result" });
    let steps = json!([{ "name": "i", "function": "inbox", "args": args }]);
    write_workflow_of(folder.path(), "inbox", "inbox", &steps);
    folder
}

fn exits(folder: &Path, args: &[&str], exit: i32) -> String {
    let output = monohull(folder, args);
    assert_eq!(output.status.code(), Some(exit), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn start(folder: &Path, state: &str, id: &str) {
    let output = format!("result={id}.txt");
    exits(folder, &["run", "w.json", "--state", state, "--id", id, "--detach", "--output", &output], 4);
}

fn show(folder: &Path, state: &str, id: &str) -> Value {
    document(&monohull(folder, &["show", id, "--state", state, "--json"]))
}

#[test]
fn a_result_is_asked_for_as_often_as_wanted() {
    let folder = inbox();
    let path = folder.path();
    start(path, "state", "one");
    start(path, "state", "two");
    fn result(id: &str) -> [&str; 4] {
        ["result", id, "--state", "state"]
    }
    assert_eq!(exits(path, &result("one"), 4), "one: suspended\n");
    refused(&monohull(path, &result("unknown")), 2, "no invocation");
    for event in ["a", "b"] {
        exits(path, &["send", "one", event, "--data", event, "--state", "state"], 0);
        exits(path, &["wake", "--state", "state"], 0);
    }
    for _ in 0..2 {
        let text = exits(path, &["result", "one", "--wait", "--state", "state"], 0);
        assert!(text.starts_with("one: completed\nresult      ") && text.contains("one.txt"), "{text}");
    }
    let shown = document(&monohull(path, &["result", "one", "--json", "--state", "state"]));
    assert_eq!((&shown["status"], &shown["report"]["status"]), (&json!("completed"), &json!("done")), "{shown:#}");
    exits(path, &["cancel", "two", "--state", "state"], 0);
    assert_eq!(exits(path, &result("two"), 1), "two: cancelled\n");
}

/// What is killed has ended, whatever its process does; and that cannot commit to another invocation of the name.
#[test]
fn what_is_killed_has_ended_though_its_process_goes_on() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let args = json!({ "how": "compute", "rounds": 2_000_000_000_u64 });
    write_workflow_of(path, "computes", "preempted", &json!([{ "name": "c", "function": "preempted", "args": args }]));
    let args =
        ["run", "w.json", "--state", "state", "--id", "one", "--checkpoint-every", "200ms", "--output", "result=r.txt"];
    let runner = command(path, &args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let end = Instant::now() + Duration::from_secs(120);
    let is_running = || {
        let output = monohull(path, &["show", "one", "--state", "state", "--json"]);
        output.status.success() && document(&output)["status"] == "running"
    };
    while !is_running() {
        assert!(Instant::now() < end, "it runs");
        sleep(Duration::from_millis(20));
    }
    assert_eq!(exits(path, &["kill", "one", "--state", "state"], 0), "one: cancelled\n");
    assert_eq!(exits(path, &["kill", "one", "--state", "state"], 0), "one: cancelled\n");
    assert_eq!(show(path, "state", "one")["status"], "cancelled");
    let output = runner.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "it was cancelled: {output:?}");
    assert!(!path.join("r.txt").exists(), "it has no result");
    exits(path, &["purge", "one", "--state", "state"], 0);
    let left = fs::read_dir(path.join("state/checkpoints")).expect("a folder").count();
    assert_eq!(left, 0, "it keeps no file");
}

#[test]
fn an_invocation_moves_to_another_state_folder() {
    let folder = inbox();
    let path = folder.path();
    start(path, "home", "mover");
    exits(path, &["send", "mover", "a", "--data", "x", "--key", "k", "--state", "home"], 0);
    exits(path, &["pause", "mover", "--state", "home"], 0);
    let said = exits(path, &["export", "mover", "--to", "mover.invocation", "--state", "home"], 0);
    assert!(said.starts_with("mover: exported, "), "{said}");
    let before = show(path, "home", "mover");
    exits(path, &["cancel", "mover", "--state", "home"], 0);
    assert_eq!(exits(path, &["import", "mover.invocation", "--state", "away"], 0), "mover: suspended\n");
    let shown = show(path, "away", "mover");
    for field in ["workflow", "generation", "waiting_for", "mail", "started"] {
        assert_eq!(shown[field], before[field], "{field}");
    }
    refused(&monohull(path, &["import", "mover.invocation", "--state", "away"]), 2, "an invocation `mover` already");
    exits(path, &["import", "mover.invocation", "--id", "second", "--paused", "--state", "away"], 0);
    assert_eq!(show(path, "away", "second")["status"], "paused");
    // The key of the event has come along.
    let again = exits(path, &["send", "mover", "a", "--data", "x", "--key", "k", "--state", "away"], 0);
    assert!(again.contains("was sent before"), "{again}");
    exits(path, &["send", "mover", "b", "--data", "y", "--state", "away"], 0);
    exits(path, &["wake", "--state", "away"], 0);
    exits(path, &["wake", "--state", "away"], 0);
    assert_eq!(fs::read_to_string(path.join("mover.txt")).expect("a result"), "a: x\nb: y\n");
}

#[test]
fn what_is_damaged_foreign_or_a_servers_is_not_imported() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let args = json!({ "rounds": 3, "milliseconds": DAY });
    write_workflow_of(path, "agent", "forked", &json!([{ "name": "a", "function": "forked", "args": args }]));
    exits(path, &["run", "w.json", "--state", "home", "--id", "one", "--detach"], 4);
    exits(path, &["run", "w.json", "--state", "away", "--id", "other", "--detach"], 4);
    exits(path, &["export", "one", "--to", "whole", "--state", "home"], 0);
    let whole = fs::read(path.join("whole")).expect("a file");
    let import = ["import", "file", "--state", "away"];
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for (content, why) in [
        (&whole[..whole.len() - 1], "damaged"),
        (&changed[..], "damaged"),
        (&b"something else"[..], "no exported invocation"),
    ] {
        fs::write(path.join("file"), content).expect("written");
        refused(&monohull(path, &import), 2, why);
        // Nor is a folder made for it.
        refused(&monohull(path, &["import", "file", "--state", "new"]), 2, why);
        assert!(!path.join("new").exists());
    }
    // Another user's key.
    fs::write(path.join("file"), &whole).expect("written");
    let other = TempDir::new().expect("a folder");
    let output = command(path, &import).env("XDG_STATE_HOME", other.path()).output().expect("it starts");
    refused(&output, 2, "another key");
    let listed = document(&monohull(path, &["ps", "--state", "away", "--json"]));
    assert_eq!(listed["invocations"].as_array().map(Vec::len), Some(1), "nothing is kept of them: {listed:#}");
    refused(&monohull(path, &["export", "one", "--to", "whole", "--state", "home"]), 3, "whole");
}

/// What leaves an encrypted folder is for those who have its key, and has other names of its inputs where it goes on.
#[test]
fn one_leaves_an_encrypted_folder_for_another_one_with_the_same_key() {
    let folder = inbox();
    let path = folder.path();
    start(path, "plain", "own");
    // The others have an input.
    let mut workflow: Value = serde_json::from_slice(&fs::read(path.join("w.json")).expect("a file")).expect("JSON");
    (workflow["inputs"], workflow["unread"]) = (json!(["order"]), json!("ignore"));
    fs::write(path.join("w.json"), workflow.to_string()).expect("written");
    fs::write(path.join("order.txt"), "marker-of-the-order").expect("written");
    for key in ["state.key", "other.key"] {
        exits(path, &["key", "new", key], 0);
    }
    let with = |args: &[&str], state: &str, key: &str, exit: i32| {
        exits(path, &[args, &["--state", state, "--state-key", key]].concat(), exit)
    };
    with(
        &["run", "w.json", "--id", "mover", "--detach", "--input", "order=order.txt", "--output", "result=mover.txt"],
        "home",
        "state.key",
        4,
    );
    for (state, key) in [("away", "state.key"), ("else", "other.key")] {
        with(
            &["run", "w.json", "--id", "own", "--detach", "--input", "order=order.txt", "--output", "result=own.txt"],
            state,
            key,
            4,
        );
    }
    with(&["send", "mover", "a", "--data", "marker-of-the-event"], "home", "state.key", 0);
    with(&["wake"], "home", "state.key", 0);
    with(&["export", "mover", "--to", "mover.invocation"], "home", "state.key", 0);
    with(&["cancel", "mover"], "home", "state.key", 0);
    let file = fs::read(path.join("mover.invocation")).expect("a file");
    for marker in [b"marker-of-the-event", b"marker-of-the-order"] {
        assert!(!file.windows(marker.len()).any(|bytes| bytes == marker), "it is encrypted");
    }
    let import = ["import", "mover.invocation", "--state", "else", "--state-key", "other.key"];
    refused(&monohull(path, &import), 2, "encrypted with another key");
    refused(&monohull(path, &["import", "mover.invocation", "--state", "plain"]), 2, "this state folder has no key");
    assert_eq!(with(&["import", "mover.invocation"], "away", "state.key", 0), "mover: suspended\n");
    // Its input has come along, and is not swept.
    with(&["wake"], "away", "state.key", 0);
    with(&["export", "mover", "--to", "again.invocation"], "away", "state.key", 0);
    with(&["send", "mover", "b", "--data", "y"], "away", "state.key", 0);
    with(&["wake"], "away", "state.key", 0);
    let result = fs::read_to_string(path.join("mover.txt")).expect("a result");
    assert_eq!(result, "a: marker-of-the-event\nb: y\n");
    // One that was not encrypted may go into an encrypted folder.
    exits(path, &["export", "own", "--to", "own.invocation", "--state", "plain"], 0);
    let taken = with(&["import", "own.invocation", "--id", "plain"], "away", "state.key", 0);
    assert_eq!(taken, "plain: suspended\n");
}
