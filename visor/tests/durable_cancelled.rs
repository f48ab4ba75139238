//! Invocations that are told to end, and do: they have no outputs, what they wait for to begin does not begin, and what is killed writes no file.

#[path = "support/program.rs"]
mod program;

use program::{command, document, monohull, refused, write_workflow_of};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// A folder with a workflow of these steps, all with the function `inbox`.
fn workflow(steps: &Value) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    write_workflow_of(folder.path(), "w", "inbox", steps);
    fs::write(folder.path().join("out.txt"), "older").expect("written");
    folder
}

fn step(name: &str, after: &[&str], args: Value) -> Value {
    json!({ "name": name, "function": "inbox", "after": after, "args": args })
}

#[track_caller]
fn exits(folder: &Path, args: &[&str], exit: i32) -> String {
    let output = monohull(folder, &[args, &["--state", "state"]].concat());
    assert_eq!(output.status.code(), Some(exit), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn start(folder: &Path) {
    exits(folder, &["run", "w.json", "--id", "one", "--detach", "--output", "result=out.txt"], 4);
}

fn json_of(folder: &Path, args: &[&str], exit: i32) -> Value {
    serde_json::from_str(&exits(folder, &[args, &["--json"]].concat(), exit)).expect("JSON")
}

/// It has ended because it was told to, and without outputs.
#[track_caller]
fn has_obeyed(folder: &Path) -> Value {
    let result = json_of(folder, &["result", "one"], 1);
    assert_eq!(
        (&result["status"], &result["reason"]),
        (&json!("cancelled"), &json!("it was told to end")),
        "{result:#}"
    );
    assert_eq!((&result["report"]["status"], &result["report"]["output"]), (&json!("done"), &json!({})));
    assert_eq!(result["outputs"], json!({}));
    assert!(!exits(folder, &["result", "one"], 1).contains("out.txt"));
    assert_eq!(fs::read_to_string(folder.join("out.txt")).expect("a file"), "older");
    result["report"].clone()
}

/// More instances than there are places, all of which wait: those that have none begin when others end, and until then nothing is due.
#[test]
fn instances_that_wait_for_a_place_do_not_make_a_workflow_due() {
    let args = json!({ "events": ["go"], "fills": "result" });
    let folder = workflow(&json!([{ "name": "w", "function": "inbox", "instances": 300, "args": args }]));
    let path = folder.path();
    exits(path, &["run", "w.json", "--id", "one", "--detach"], 4);
    let shown = json_of(path, &["show", "one"], 0);
    assert_eq!((&shown["status"], &shown["due"]), (&json!("suspended"), &Value::Null), "{shown:#}");
    exits(path, &["kill", "one"], 0);
}

/// Whether it has filled its outputs or not, and whether it took the event in its last process or before.
#[test]
fn one_that_obeys_is_cancelled_without_outputs() {
    for fills in ["result", "other"] {
        for events in [&["cancel:"][..], &["cancel:", "b"]] {
            let folder = workflow(&json!([step("w", &[], json!({ "events": events, "fills": fills }))]));
            let path = folder.path();
            start(path);
            assert_eq!(exits(path, &["cancel", "one"], 0), "one: suspended, then cancelled\n");
            exits(path, &["wake"], 0);
            for event in &events[1..] {
                assert_eq!(json_of(path, &["show", "one"], 0)["status"], "suspended");
                exits(path, &["send", "one", event], 0);
                exits(path, &["wake"], 0);
            }
            has_obeyed(path);
        }
    }
}

/// Those that wait for something else go on to their ends.
#[test]
fn each_function_that_waits_for_it_is_told() {
    let waits = |events: &[&str], fills: &str| json!({ "events": events, "fills": fills });
    let folder = workflow(&json!([
        step("one", &[], waits(&["cancel:"], "result")),
        step("two", &[], waits(&["cancel:"], "two")),
        step("undoes", &[], waits(&["cancel:", "undone"], "undone")),
        step("other", &[], waits(&["b"], "other")),
    ]));
    let path = folder.path();
    start(path);
    exits(path, &["cancel", "one"], 0);
    exits(path, &["wake"], 0);
    let shown = json_of(path, &["show", "one"], 0);
    let waiting = shown["waiting_for"].as_array().expect("waits").iter().map(|wait| wait["event"].as_str());
    assert_eq!(waiting.collect::<Vec<_>>(), [Some("undone"), Some("b")], "{shown:#}");
    for event in ["undone", "b"] {
        exits(path, &["send", "one", event], 0);
    }
    exits(path, &["wake"], 0);
    let report = has_obeyed(path);
    let expected = [("one", "done", 1), ("two", "done", 1), ("undoes", "done", 1), ("other", "done", 1)];
    assert_eq!(statuses(&report), expected);
}

/// A copy, and what is taken back, know what their memory knows.
#[test]
fn a_copy_of_one_that_obeys_obeys() {
    let folder = workflow(&json!([step("w", &[], json!({ "events": ["cancel:", "b"], "fills": "other" }))]));
    let path = folder.path();
    start(path);
    exits(path, &["cancel", "one"], 0);
    exits(path, &["wake"], 0);
    exits(path, &["fork", "one", "--id", "copy"], 0);
    exits(path, &["rewind", "one", "--to", "2"], 0);
    for id in ["one", "copy"] {
        exits(path, &["send", id, "b"], 0);
    }
    exits(path, &["wake"], 0);
    has_obeyed(path);
    assert_eq!(json_of(path, &["show", "copy"], 0)["status"], "cancelled");
    // To before it was told.
    let folder = workflow(&json!([step("w", &[], json!({ "events": ["cancel:", "b"], "fills": "result" }))]));
    let path = folder.path();
    start(path);
    exits(path, &["cancel", "one"], 0);
    exits(path, &["wake"], 0);
    exits(path, &["rewind", "one", "--to", "1"], 0);
    assert_eq!(json_of(path, &["show", "one"], 0)["becomes"], Value::Null);
    exits(path, &["cancel", "one"], 0);
    exits(path, &["wake"], 0);
    exits(path, &["send", "one", "b"], 0);
    exits(path, &["wake"], 0);
    has_obeyed(path);
}

fn statuses(report: &Value) -> Vec<(&str, &str, usize)> {
    let steps = report["steps"].as_array().expect("steps");
    steps
        .iter()
        .map(|step| {
            let done = step["instances"].as_array().expect("instances").iter().filter(|one| one["status"] == "done");
            (step["name"].as_str().expect("a name"), step["status"].as_str().expect("a status"), done.count())
        })
        .collect()
}

/// What has begun goes on to its end, also as a checkpoint. What has not does not begin.
#[test]
fn no_step_begins_once_one_has_obeyed() {
    let folder = workflow(&json!([
        step("pays", &[], json!({ "events": ["cancel:"], "fills": "paid" })),
        step("beside", &[], json!({ "events": ["b", "c"], "fills": "beside" })),
        step("ships", &["pays"], json!({ "events": [], "fills": "result" })),
        step("late", &["beside"], json!({ "events": [], "fills": "late" })),
        step("last", &["ships", "late"], json!({ "events": [], "fills": "last" })),
    ]));
    let path = folder.path();
    start(path);
    exits(path, &["cancel", "one"], 0);
    for event in ["b", "c"] {
        exits(path, &["wake"], 0);
        assert_eq!(json_of(path, &["show", "one"], 0)["waiting_for"][0]["event"], event);
        exits(path, &["send", "one", event], 0);
    }
    exits(path, &["wake"], 0);
    let report = has_obeyed(path);
    let expected = [
        ("pays", "done", 1),
        ("beside", "done", 1),
        ("ships", "cancelled", 0),
        ("late", "cancelled", 0),
        ("last", "cancelled", 0),
    ];
    assert_eq!(statuses(&report), expected);
}

/// An attempt that fails after it was told gives the event back, and the next one has it.
#[test]
fn another_attempt_is_told_again() {
    let mut first = step("first", &[], json!({ "events": ["cancel:", "b"], "fills": "result", "fails_after": 1 }));
    first["retry"] = json!({ "max_attempts": 3 });
    let folder = workflow(&json!([first]));
    let path = folder.path();
    start(path);
    exits(path, &["cancel", "one"], 0);
    exits(path, &["wake", "--skip-time"], 0);
    exits(path, &["send", "one", "b"], 0);
    exits(path, &["wake"], 0);
    let report = has_obeyed(path);
    assert_eq!(report["steps"][0]["attempts"], 2, "{report:#}");
}

/// The process that follows one which was told to end says so.
#[test]
fn a_follower_says_that_it_was_cancelled() {
    let folder = workflow(&json!([step("w", &[], json!({ "events": ["cancel:"], "fills": "result" }))]));
    let path = folder.path();
    let args = ["run", "w.json", "--id", "one", "--output", "result=out.txt", "--state", "state"];
    let mut begun = command(path, &args);
    let child = begun.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    while !monohull(path, &["show", "one", "--state", "state"]).status.success()
        || json_of(path, &["show", "one"], 0)["status"] != "suspended"
    {
        sleep(Duration::from_millis(20));
    }
    exits(path, &["cancel", "one"], 0);
    refused(&child.wait_with_output().expect("it ends"), 1, "invocation one is cancelled: it was told to end");
    refused(&monohull(path, &args), 1, "invocation one is cancelled: it was told to end");
    has_obeyed(path);
}

/// Seconds of computation, with the output `out.txt`, and with checkpoints or none.
fn computes(more: &[&str]) -> (TempDir, std::process::Child) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let args = json!({ "how": "compute", "rounds": 1_000_000_000_u64 });
    write_workflow_of(path, "w", "preempted", &json!([{ "name": "c", "function": "preempted", "args": args }]));
    fs::write(path.join("out.txt"), "older").expect("written");
    let args = ["run", "w.json", "--id", "one", "--output", "result=out.txt", "--state", "state"];
    let mut begun = command(path, &[&args, more].concat());
    let child = begun.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    while !monohull(path, &["show", "one", "--state", "state"]).status.success()
        || json_of(path, &["show", "one"], 0)["status"] != "running"
    {
        sleep(Duration::from_millis(20));
    }
    (folder, child)
}

/// The process of one that was killed goes on for a while. It replaces no file, keeps no checkpoint, and says that it was killed.
#[test]
fn the_killed_write_no_output_and_leave_no_checkpoint() {
    for more in [&[][..], &["--checkpoint-every", "300ms"]] {
        let (folder, child) = computes(more);
        let path = folder.path();
        assert_eq!(exits(path, &["kill", "one"], 0), "one: cancelled\n");
        let followed = child.wait_with_output().expect("it ends");
        assert_eq!(followed.status.code(), Some(1), "{followed:?}");
        let said = String::from_utf8_lossy(&followed.stdout).into_owned();
        assert!(said.contains("workflow    w cancelled\nreason      by hand"), "{followed:?}");
        assert_eq!(fs::read_to_string(path.join("out.txt")).expect("a file"), "older");
        assert_eq!(fs::read_dir(path.join("state/checkpoints")).expect("a folder").count(), 0);
        let names: Vec<_> =
            fs::read_dir(path).expect("a folder").map(|entry| entry.expect("a name").file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().contains("part")), "nothing is left: {names:?}");
    }
}

/// One that is not told has its output, and an older file is replaced.
#[test]
fn the_completed_have_their_outputs() {
    let folder = workflow(&json!([step("w", &[], json!({ "events": ["b"], "fills": "result" }))]));
    let path = folder.path();
    start(path);
    assert_eq!(json_of(path, &["result", "one"], 4)["outputs"], json!({}), "it has none yet");
    exits(path, &["send", "one", "b", "--data", "x"], 0);
    exits(path, &["wake"], 0);
    assert_eq!(json_of(path, &["result", "one"], 0)["outputs"]["result"], json!(path.join("out.txt")));
    assert_eq!(fs::read_to_string(path.join("out.txt")).expect("a file"), "b: x\n");
}

/// A stream is written, and that nothing reads it yet holds up no other invocation.
#[test]
fn a_stream_that_is_not_read_holds_up_no_other() {
    let folder = workflow(&json!([step("w", &[], json!({ "events": ["b"], "fills": "result" }))]));
    let path = folder.path();
    nix::unistd::mkfifo(&path.join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("made");
    let start = |id: &str, output: &str| {
        exits(path, &["run", "w.json", "--id", id, "--detach", "--output", &format!("result={output}")], 4);
        exits(path, &["send", id, "b", "--data", "x"], 0);
    };
    start("one", "/dev/stdout");
    assert!(exits(path, &["wake"], 0).starts_with("b: x\n"));
    start("two", "pipe");
    let mut begun = command(path, &["wake", "--state", "state"]);
    let child = begun.stdout(Stdio::null()).spawn().expect("it starts");
    // By then it waits for a reader.
    sleep(Duration::from_secs(2));
    assert_eq!(json_of(path, &["show", "two"], 0)["status"], "running");
    start("three", "out.txt");
    assert_eq!(fs::read_to_string(path.join("pipe")).expect("read"), "b: x\n");
    assert!(child.wait_with_output().expect("it ends").status.success());
    assert_eq!(json_of(path, &["result", "two"], 0)["status"], "completed");
}

/// What cannot be written when it has its content is tried again, and has not completed.
#[test]
fn an_output_that_cannot_be_written_is_tried_again() {
    let folder = workflow(&json!([step("w", &[], json!({ "events": ["b"], "fills": "result" }))]));
    let path = folder.path();
    start(path);
    fs::remove_file(path.join("out.txt")).expect("removed");
    fs::create_dir(path.join("out.txt")).expect("made");
    exits(path, &["send", "one", "b", "--data", "x"], 0);
    exits(path, &["wake"], 0);
    let row = json_of(path, &["show", "one"], 0);
    assert_eq!(row["status"], "suspended", "{row:#}");
    assert!(row["reason"].as_str().is_some_and(|why| why.contains("out.txt")), "{row:#}");
    fs::remove_dir(path.join("out.txt")).expect("removed");
    let waken = document(&monohull(path, &["wake", "--skip-time", "--state", "state", "--json"]));
    assert_eq!(waken["ran"][0]["status"], "completed", "{waken:#}");
    assert_eq!(fs::read_to_string(path.join("out.txt")).expect("a file"), "b: x\n");
}

/// One that runs may come to its end before it is stopped, and is said to.
#[test]
fn one_that_runs_is_cancelled_unless_it_ends_before() {
    let (folder, child) = computes(&["--checkpoint-every", "300ms"]);
    let path = folder.path();
    assert_eq!(exits(path, &["cancel", "one"], 0), "one: running, then cancelled, unless it ends before\n");
    let code = child.wait_with_output().expect("it ends").status.code();
    let status = json_of(path, &["show", "one"], 0)["status"].clone();
    assert!(matches!((code, status.as_str()), (Some(1), Some("cancelled")) | (Some(0), Some("completed"))), "{status}");
}
