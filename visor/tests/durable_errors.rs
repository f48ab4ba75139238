//! A system call of a process that goes on with a durable invocation, or changes it, fails with an error: nothing is lost, nothing is done twice, and
//! the next process goes on.
//!
//! [`durable_kills`](../durable_kills.rs) ends the process at these calls. Here it sees the error, and must not go on as if there were none.

#[path = "support/extent.rs"]
mod extent;
#[path = "support/program.rs"]
mod program;
#[path = "support/stops.rs"]
mod stops;

use extent::{is_exhaustive, some_of};
use nix::libc::{EINTR, EIO, ENOMEM, ENOSPC, EROFS};
use program::{document, monohull, write_workflow_of};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use stops::{copy, failed};
use tempfile::TempDir;

/// So many calls are tried, in equal steps. With `--full` it is each of them.
const EACH: usize = 40;
/// The errors. A call is tried with the next one each time.
const ERRORS: [i32; 5] = [EIO, ENOSPC, EINTR, ENOMEM, EROFS];

/// A folder with `one`, which waits for `a` and then `b`, and has `a`; and `two`, which waits.
fn prepared() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let inbox = json!({ "events": ["a", "b"], "fills": "result" });
    let steps = json!([{ "name": "i", "function": "inbox", "args": inbox }]);
    write_workflow_of(folder.path(), "inbox", "inbox", &steps);
    for id in ["one", "two"] {
        let output = format!("result={id}.txt");
        let args = ["run", "w.json", "--state", "state", "--id", id, "--detach", "--output", &output];
        assert_eq!(monohull(folder.path(), &args).status.code(), Some(4), "{id}");
    }
    send(folder.path(), "state", "a");
    folder
}

fn send(folder: &Path, state: &str, event: &str) {
    let args = ["send", "one", event, "--data", event, "--key", event, "--state", state];
    let output = monohull(folder, &args);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

fn show(folder: &Path, id: &str, state: &str) -> Value {
    document(&monohull(folder, &["show", id, "--state", state, "--json"]))
}

/// Lets the calls of a command fail, one after another. `done` sees each state folder behind that, and what the command has answered, and panics if it is
/// not as it was or as it should become.
fn fail_everywhere(folder: &Path, args: &[&str], done: impl Fn(&str, bool)) {
    let fresh = |state: &str| copy(&folder.join("state"), &folder.join(state));
    let of = |state: &str, at, error| failed(folder, &[args, &["--state", state]].concat(), at, error);
    fresh("whole");
    let calls = of("whole", usize::MAX, 0).calls;
    assert!(calls > 50, "{calls}");
    done("whole", true);
    fs::remove_dir_all(folder.join("whole")).expect("removed");
    let step = some_of(calls.div_ceil(EACH), 1);
    let (mut tried, mut refused) = (0, BTreeMap::<i64, usize>::new());
    for at in (0..calls).step_by(step) {
        let error = ERRORS[at / step % ERRORS.len()];
        let state = format!("failed-{at}");
        fresh(&state);
        let came = of(&state, at, error);
        let what = format!("{args:?}: call {:?}, number {at}, failed with {error}", came.call);
        assert!(!came.hung, "{what}: it hangs");
        // Sealed memory of its own is the one thing that it takes for readable: it ends if it is not.
        let is_own_memory = came.errors.contains("sealed memory is as long");
        assert!(is_own_memory || !came.errors.contains("panicked"), "{what}: {}", came.errors);
        let is_well = came.code == Some(0);
        if !is_well {
            assert!(!came.errors.is_empty(), "{what}: {:?} and says nothing", came.code);
            *refused.entry(came.call.unwrap_or(-1)).or_default() += 1;
        }
        eprintln!("{what}: {:?}", came.code);
        done(&state, is_well);
        fs::remove_dir_all(folder.join(state)).expect("removed");
        tried += 1;
    }
    println!("{args:?}: {calls} calls, {tried} tried, refused by call {refused:?}");
    assert!(!refused.is_empty() || !is_exhaustive(), "some calls matter");
}

#[test]
fn calls_of_a_resume_and_its_commit_fail_and_nothing_is_lost() {
    let folder = prepared();
    let path = folder.path();
    fail_everywhere(path, &["wake", "--skip-time"], |state, _| {
        // Where it was, or where it comes to; what was tried in vain is tried again.
        let row = show(path, "one", state);
        let is_taken = row["waiting_for"][0]["event"] == "b";
        assert_eq!(row["mail"], u64::from(!is_taken), "{row:#}");
        assert_eq!(show(path, "two", state)["waiting_for"][0]["event"], "a");
        send(path, state, "a");
        send(path, state, "b");
        let output = monohull(path, &["wake", "--skip-time", "--state", state]);
        let row = show(path, "one", state);
        assert_eq!(row["status"], "completed", "{row:#}: {output:?}");
        assert_eq!(fs::read_to_string(path.join("one.txt")).expect("a result"), "a: a\nb: b\n");
        fs::remove_file(path.join("one.txt")).expect("removed");
    });
}

#[test]
fn calls_of_changes_by_hand_fail_and_they_are_made_or_not() {
    let folder = prepared();
    let path = folder.path();
    fail_everywhere(path, &["send", "one", "b", "--data", "x"], |state, is_well| {
        let mail = show(path, "one", state)["mail"].as_u64().expect("a number");
        assert!(mail == 2 || mail == 1 && !is_well, "{mail}");
    });
    fail_everywhere(path, &["fork", "two", "--id", "x,y"], |state, is_well| {
        let forks = show(path, "two", state)["fork_count"].as_u64().expect("a number");
        assert!(forks == 2 || forks == 0 && !is_well, "{forks}");
    });
    fail_everywhere(path, &["rewind", "two", "--to", "1"], |state, is_well| {
        let generation = show(path, "two", state)["generation"].as_u64().expect("a number");
        assert!(generation == 2 || generation == 1 && !is_well, "{generation}");
    });
    fail_everywhere(path, &["cancel", "two"], |state, is_well| {
        let row = show(path, "two", state);
        assert!(row["status"] == "cancelled" || row["status"] == "suspended" && !is_well, "{row:#}");
    });
}
