//! A process that runs a durable invocation is killed at each of its system calls, one after another: the invocation is as it was at
//! its last commit, or at the next one, and goes on.

#[path = "support/extent.rs"]
mod extent;
#[path = "support/program.rs"]
mod program;
#[path = "support/stops.rs"]
mod stops;

use extent::some_of;
use program::{NAP, document, monohull, write_workflow_of};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use stops::{copy, traced};
use tempfile::TempDir;

/// How many of the stops are tried, and how many with `--full`; there are more than a thousand.
const TRIED: (usize, usize) = (20, 60);
/// The same for events, of which only the commit differs.
const TRIED_WITH_EVENTS: (usize, usize) = (12, 30);
/// The same of a computation with checkpoints, each of which is gone on with to its end.
const TRIED_IN_PLACE: (usize, usize) = (8, 16);
/// The same of each command that changes an invocation by hand.
const TRIED_BY_HAND: (usize, usize) = (8, 16);

/// A folder with a suspended invocation of this many naps, which is due.
fn due(naps: u64) -> TempDir {
    let folder = suspended("sleeper", &json!({ "naps": naps, "milliseconds": NAP, "takes": "", "fills": "result" }));
    sleep(Duration::from_millis(NAP));
    folder
}

/// A folder with a suspended invocation of this function.
fn suspended(function: &str, args: &Value) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    write_workflow_of(
        folder.path(),
        "naps",
        function,
        &json!([{ "name": "naps", "function": function, "args": args }]),
    );
    let args = ["run", "w.json", "--state", "state", "--id", "one", "--detach", "--output", "result=result.txt"];
    let output = monohull(folder.path(), &args);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    folder
}

/// Runs `wake`, and kills it at its stop of this number. The number of stops.
fn wake(folder: &Path, state: &str, kill_at: usize) -> usize {
    traced(folder, &["wake", "--state", state], kill_at)
}

fn show(folder: &Path, state: &str) -> Value {
    document(&monohull(folder, &["show", "one", "--state", state, "--json"]))
}

/// Kills a `wake` at many of its calls; `check` sees the invocation after each, and says whether it is where it should come to.
fn kill_everywhere(folder: &Path, (some, all): (usize, usize), check: impl Fn(&Value, &Path) -> bool) {
    let times = some_of(some, all);
    let state = folder.join("state");
    let fresh = |name: &str| -> PathBuf {
        let path = folder.join(name);
        copy(&state, &path);
        path
    };
    fresh("whole");
    let stops = wake(folder, "whole", usize::MAX);
    assert!(stops > 100, "{stops}");
    let (mut before, mut behind) = (0, 0);
    for tried in 0..times {
        // Ends are where files are written and transactions made: half of the kills are in the last third.
        let at = match tried % 2 {
            0 => tried * stops / times,
            _ => stops - 1 - (tried - 1) * stops / times / 3,
        };
        let name = format!("killed-{tried}");
        let path = fresh(&name);
        let _ = fs::remove_file(folder.join("result.txt"));
        wake(folder, &name, at);
        let row = show(folder, &name);
        if check(&row, &path) {
            behind += 1;
        } else {
            assert_eq!((&row["generation"], &row["reason"]), (&json!(1), &Value::Null), "at {at}: {row}");
            before += 1;
        }
        // The worker may live for a moment longer, and with it the lock.
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            assert_eq!(monohull(folder, &["wake", "--state", &name]).status.code(), Some(0));
            let row = show(folder, &name);
            if check(&row, &path) {
                break;
            }
            assert!(Instant::now() < end, "killed at {at}: {row}");
        }
        fs::remove_dir_all(path).expect("removed");
    }
    assert!(before > 0 && behind > 0, "{before} kills before the commit, {behind} behind it");
}

#[test]
fn a_commit_of_an_end_is_whole_or_not_made() {
    let folder = due(1);
    kill_everywhere(folder.path(), TRIED, |row, path| {
        let has_ended = row["status"] == "completed";
        if has_ended {
            let text = fs::read_to_string(folder.path().join("result.txt")).expect("the output is written before");
            assert_eq!(text, "1 naps, 5 letters, map true, thread true, time true\n");
            assert_eq!(row["report"]["status"], "done");
        } else {
            assert!(path.join("checkpoints/one.1.1.checkpoint").exists(), "{row}");
        }
        has_ended
    });
}

#[test]
fn a_commit_of_a_wait_is_whole_or_not_made() {
    let folder = due(2);
    kill_everywhere(folder.path(), TRIED, |row, path| {
        let file = row["checkpoint"]["file"].as_str().expect("a checkpoint");
        let file = path.join("checkpoints").join(file);
        let verified = monohull(Path::new("/"), &["checkpoint", "verify", file.to_str().expect("a path")]);
        assert_eq!(verified.status.code(), Some(0), "what a row names is whole: {verified:?}");
        row["generation"] == 2
    });
}

/// Checkpoints that are committed while the workflow computes: whichever was the last, the result is that of a run without kills.
#[test]
fn a_commit_in_the_midst_of_a_computation_is_whole_or_not_made() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let args = json!({ "how": "compute", "rounds": 300_000_000 });
    write_workflow_of(path, "computes", "preempted", &json!([{ "name": "c", "function": "preempted", "args": args }]));
    let output = monohull(path, &["run", "w.json", "--output", "result=plain.txt"]);
    assert!(output.status.success(), "{output:?}");
    let args = ["run", "w.json", "--state", "state", "--id", "one", "--output", "result=result.txt"];
    let output = monohull(path, &[&args[..], &["--checkpoint-every", "100ms", "--detach"]].concat());
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    copy(&path.join("state"), &path.join("whole"));
    let stops = wake(path, "whole", usize::MAX);
    let mut generations = std::collections::BTreeSet::new();
    let times = some_of(TRIED_IN_PLACE.0, TRIED_IN_PLACE.1);
    for tried in 0..times {
        let name = format!("killed-{tried}");
        copy(&path.join("state"), &path.join(&name));
        wake(path, &name, (tried + 1) * stops / (times + 1));
        let row = show(path, &name);
        generations.insert(row["generation"].as_u64().expect("a number"));
        if let Some(file) = row["checkpoint"]["file"].as_str() {
            let file = path.join(&name).join("checkpoints").join(file);
            let verified = monohull(path, &["checkpoint", "verify", file.to_str().expect("a path")]);
            assert_eq!(verified.status.code(), Some(0), "what a row names is whole: {verified:?}");
        }
        // The worker may live for a moment longer, and with it the lock.
        let end = Instant::now() + Duration::from_secs(60);
        while show(path, &name)["status"] != "completed" {
            assert_eq!(monohull(path, &["wake", "--state", &name]).status.code(), Some(0));
            assert!(Instant::now() < end, "{}", show(path, &name));
        }
        let [result, plain] =
            ["result.txt", "plain.txt"].map(|file| fs::read_to_string(path.join(file)).expect("a result"));
        assert_eq!(result, plain, "killed at {tried} of {times}");
        fs::remove_file(path.join("result.txt")).expect("removed");
        fs::remove_dir_all(path.join(name)).expect("removed");
    }
    assert!(generations.len() > 1, "all kills came before the next commit: {generations:?}");
}

/// An event is in the mailbox, or in the checkpoint of the function that has taken it.
#[test]
fn a_commit_of_an_event_is_whole_or_not_made() {
    let folder = suspended("inbox", &json!({ "events": ["a", "b"], "fills": "result" }));
    let args = ["send", "one", "a", "--data", "x", "--state", "state"];
    assert_eq!(monohull(folder.path(), &args).status.code(), Some(0));
    kill_everywhere(folder.path(), TRIED_WITH_EVENTS, |row, _| {
        let is_taken = row["generation"] == 2;
        assert_eq!(row["mail"], u64::from(!is_taken), "{row}");
        assert_eq!(row["waiting_for"][0]["event"], if is_taken { "b" } else { "a" });
        is_taken
    });
}

/// Kills a fork and a rewind at some of their calls, the last ones first, where the transaction is. `done` says what a state folder has
/// come to: whether the command has been done, and it panics if it was done half.
fn kill_by_hand(folder: &Path, args: &[&str], done: impl Fn(&str) -> bool) {
    let copied = |name: &str| copy(&folder.join("state"), &folder.join(name));
    let of = |name: &str, kill_at| traced(folder, &[args, &["--state", name]].concat(), kill_at);
    copied("whole");
    let stops = of("whole", usize::MAX);
    assert!(done("whole"));
    let (mut before, mut behind) = (0, 0);
    let times = some_of(TRIED_BY_HAND.0, TRIED_BY_HAND.1);
    for tried in 0..times {
        let name = format!("by-hand-{tried}");
        copied(&name);
        of(&name, stops - 1 - tried * stops / times / 2);
        *if done(&name) { &mut behind } else { &mut before } += 1;
        fs::remove_dir_all(folder.join(name)).expect("removed");
    }
    fs::remove_dir_all(folder.join("whole")).expect("removed");
    assert!(before > 0 && behind > 0, "{before} kills before the transaction, {behind} behind it");
}

#[test]
fn a_fork_and_a_rewind_are_whole_or_not_made() {
    let folder = due(1);
    let path = folder.path();
    kill_by_hand(path, &["fork", "one", "--id", "a,b,c"], |state| {
        let forks = show(path, state)["forks"].as_array().expect("a list").len();
        assert!(matches!(forks, 0 | 3), "all copies or none: {forks}");
        // The same again makes those that are missing, and no other.
        let again = monohull(path, &["fork", "one", "--id", "a,b,c", "--state", state, "--json"]);
        let word = if forks == 0 { "new" } else { "same" };
        let copies = document(&again)["copies"].clone();
        assert!(copies.as_array().expect("a list").iter().all(|copy| copy["came"] == word), "{copies}");
        forks == 3
    });
    kill_by_hand(path, &["rewind", "one", "--to", "1"], |state| {
        let row = show(path, state);
        let listed = document(&monohull(path, &["checkpoints", "one", "--state", state, "--json"]));
        let kept = listed["checkpoints"].as_array().expect("a list");
        let newest = kept.last().expect("one is kept");
        assert_eq!((&newest["generation"], &newest["due"]), (&row["generation"], &row["due"]), "{row}");
        assert_eq!(newest["file"], row["checkpoint"]["file"]);
        assert_eq!(json!(kept.len()), row["generation"]);
        row["generation"] == 2
    });
}
