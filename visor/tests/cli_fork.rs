//! `fork`, `checkpoints`, `rewind` and `resume --count`: one workflow goes on more than once, and goes back.

#[path = "support/program.rs"]
mod program;

use program::{NAP, document, image, monohull, refused};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

#[track_caller]
fn done(output: Output) -> Output {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output
}

/// Longer than any test.
const DAY: u64 = 86_400_000;

/// A workflow of the agent that asks so many times. It is suspended each time.
fn workflow(rounds: u32, milliseconds: u64, outputs: &[&str]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::copy(image("forked"), folder.path().join("forked.so")).expect("copied");
    let document = json!({
        "name": "forked",
        "functions": { "agent": { "image": "forked.so" } },
        "steps": [{ "name": "agent", "function": "agent", "args": { "rounds": rounds, "milliseconds": milliseconds } }],
        "outputs": outputs,
        "unread": "ignore",
    });
    fs::write(folder.path().join("w.json"), document.to_string()).expect("written");
    folder
}

/// Starts an invocation, which waits then.
fn start(folder: &Path, id: &str, more: &[&str]) {
    let args = [&["run", "w.json", "--state", "state", "--id", id, "--detach"], more].concat();
    let output = monohull(folder, &args);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

/// What a verb says of an invocation, as JSON.
fn asked(folder: &Path, verb: &str, id: &str) -> Value {
    document(&done(monohull(folder, &[verb, id, "--state", "state", "--json"])))
}

fn generations(folder: &Path, id: &str) -> Vec<(u64, Option<u64>)> {
    let listed = asked(folder, "checkpoints", id);
    let checkpoints = listed["checkpoints"].as_array().expect("a list").iter();
    checkpoints.map(|one| (one["generation"].as_u64().expect("a number"), one["rewound_to"].as_u64())).collect()
}

fn checkpoints(folder: &Path) -> usize {
    fs::read_dir(folder.join("state/checkpoints")).expect("a folder").count()
}

/// A time in a document, in seconds since 1970.
fn seconds(time: &Value) -> i64 {
    let text = time.as_str().unwrap_or_else(|| panic!("a time: {time}"));
    humantime::parse_rfc3339(text).expect("a time").duration_since(std::time::UNIX_EPOCH).expect("now").as_secs() as i64
}

/// The last line of a diary, without the ticket; and the ticket.
fn end(diary: &str) -> (String, String) {
    let last = diary.lines().last().expect("a line");
    let (copy, ticket) = last.split_once(", ticket ").expect("a ticket");
    (copy.to_owned(), ticket.to_owned())
}

/// Three copies of one that waits: each has what came before, goes its own way, and leaves the others' files alone.
#[test]
fn copies_have_the_same_past_and_another_future() {
    let folder = workflow(2, NAP, &["diary"]);
    let path = folder.path();
    start(path, "one", &["--output", "diary=diary.txt"]);
    let forked = document(&done(monohull(path, &["fork", "one", "--count", "3", "--state", "state", "--json"])));
    assert_eq!(forked["generation"], 1);
    let ids: Vec<_> = forked["copies"].as_array().expect("a list").iter().map(|copy| copy["id"].clone()).collect();
    assert_eq!(ids, ["one-1", "one-2", "one-3"]);
    assert_eq!(asked(path, "show", "one")["forks"], json!(ids));
    let copy = asked(path, "show", "one-2");
    assert_eq!(copy["parent"], json!({ "id": "one", "generation": 1, "copy": 2, "copies": 3 }));
    assert_eq!(copy["due"], asked(path, "show", "one")["due"], "its timer goes on");
    assert_eq!(checkpoints(path), 1, "they share it");
    let output = done(monohull(path, &["wake", "--state", "state", "--wait", "--json"]));
    assert_eq!(document(&output)["next_due"], Value::Null);
    let read = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut tickets = HashSet::new();
    for (name, way, copy) in [
        ("diary.txt", "the index", "copy 0 of 0, generation 2"),
        ("diary.one-1.txt", "a search", "copy 1 of 3, generation 2"),
        ("diary.one-2.txt", "an expert", "copy 2 of 3, generation 2"),
        ("diary.one-3.txt", "nobody", "copy 3 of 3, generation 2"),
    ] {
        let diary = read(name);
        assert!(diary.starts_with(&format!("round 1: asked the index\nround 2: asked {way}\n")), "{name}: {diary}");
        let (said, ticket) = end(&diary);
        assert_eq!(said, copy, "{name}");
        assert!(tickets.insert(ticket), "the system's random numbers differ");
    }
    assert_eq!(checkpoints(path), 0, "the completed keep none");
    refused(
        &monohull(path, &["fork", "one", "--state", "state"]),
        2,
        "invocation `one` is completed: only one that is",
    );
    refused(&monohull(path, &["rewind", "one", "--to", "1", "--state", "state"]), 2, "is completed");
}

/// What has failed can be taken back, and fails again or not; a copy of it too. The time is that which was left.
#[test]
fn a_failed_one_goes_back_and_keeps_what_it_leaves_behind() {
    // Nothing fills the second.
    let folder = workflow(2, NAP, &["diary", "missing"]);
    let path = folder.path();
    start(path, "one", &[]);
    let output = monohull(path, &["wake", "--state", "state", "--wait"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let failed = asked(path, "show", "one");
    assert_eq!((&failed["status"], &failed["report"]["status"]), (&json!("failed"), &json!("failed")));
    assert_eq!(generations(path, "one"), [(1, None), (2, None)]);
    let rewound = document(&done(monohull(path, &["rewind", "one", "--to", "1", "--state", "state", "--json"])));
    assert_eq!((&rewound["status"], &rewound["generation"]), (&json!("suspended"), &json!(3)));
    let row = asked(path, "show", "one");
    assert_eq!((&row["report"], &row["attempts"]), (&Value::Null, &json!(0)));
    assert!(seconds(&row["due"]) > seconds(&failed["changed"]), "the time that was left, from now on");
    assert_eq!(row["due"], row["waiting_for"][0]["until"]);
    let forked = done(monohull(path, &["fork", "one", "--at", "2", "--id", "two", "--paused", "--state", "state"]));
    assert_eq!(String::from_utf8_lossy(&forked.stdout), "two: paused, goes on by hand\n");
    let output = monohull(path, &["wake", "--state", "state", "--wait"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(lines.contains("round 1: the index … answered") && lines.contains("round 2: the index … "), "{lines}");
    assert_eq!(generations(path, "one"), [(1, None), (2, None), (3, Some(1)), (4, None)]);
    assert_eq!(asked(path, "show", "two")["status"], "paused");
    done(monohull(path, &["resume", "two", "--state", "state"]));
    let output = monohull(path, &["wake", "--state", "state", "--wait"]);
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(lines.contains("round 2: the index … answered") && !lines.contains("round 1"), "{lines}");
    assert_eq!(asked(path, "show", "two")["status"], "failed");
    for id in ["one", "two"] {
        done(monohull(path, &["purge", id, "--state", "state"]));
    }
    assert_eq!(checkpoints(path), 0);
}

#[test]
fn histories_are_short_shared_and_named() {
    let folder = workflow(2, DAY, &["diary"]);
    let path = folder.path();
    start(path, "one", &["--keep", "2"]);
    let rewind = |to: &str| monohull(path, &["rewind", "one", "--to", to, "--state", "state", "--json"]);
    for generation in 2..5_u64 {
        let rewound = document(&done(rewind(&(generation - 1).to_string())));
        assert_eq!(rewound["generation"], generation);
    }
    assert_eq!(generations(path, "one"), [(3, Some(2)), (4, Some(3))], "two are kept");
    refused(&rewind("1"), 2, "invocation `one` has no checkpoint 1: it has 3, 4");
    assert_eq!(checkpoints(path), 1, "all are the same file");
    let fork = |more: &[&str]| monohull(path, &[&["fork", "one", "--state", "state"], more].concat());
    done(fork(&["--id", "a,b"]));
    let again = document(&done(fork(&["--id", "a,b", "--json"])));
    assert_eq!(again["copies"][1], json!({ "id": "b", "came": "same", "status": "suspended" }));
    // One is refused, and the other is made.
    refused(
        &fork(&["--id", "one,c"]),
        2,
        "copy `one` is not made: that is another invocation's id; those with other ids are",
    );
    assert_eq!(asked(path, "show", "one")["forks"], json!(["a", "b", "c"]));
    refused(&fork(&["--id", "d,e,d"]), 2, "`d` is given twice, and each copy has an id of its own");
    assert_eq!(asked(path, "show", "one")["forks"], json!(["a", "b", "c"]));
    refused(&fork(&["--at", "9"]), 2, "has no checkpoint 9");
    refused(&monohull(path, &["fork", "none", "--state", "state"]), 2, "there is no invocation `none`");
    // The copies keep the file, though the invocation that it was written for is gone and its id is used again.
    done(monohull(path, &["cancel", "one", "--state", "state"]));
    done(monohull(path, &["purge", "one", "--state", "state"]));
    assert_eq!(checkpoints(path), 1);
    start(path, "one", &[]);
    assert_eq!(checkpoints(path), 2);
    assert_eq!(asked(path, "show", "one")["checkpoint"]["file"], "one.2.1.checkpoint");
    for id in ["a", "b", "c"] {
        done(monohull(path, &["cancel", id, "--state", "state"]));
    }
    assert_eq!(checkpoints(path), 1, "no copy is left");
    // A damaged one is refused before anything changes.
    let file = path.join("state/checkpoints/one.2.1.checkpoint");
    let whole = fs::read(&file).expect("a file");
    fs::write(&file, &whole[..whole.len() / 2]).expect("written");
    let before = asked(path, "show", "one");
    refused(&rewind("1"), 2, "it is truncated");
    refused(&fork(&["--id", "d"]), 2, "it is truncated");
    assert_eq!(asked(path, "show", "one"), before);
}

#[test]
fn a_checkpoint_is_resumed_so_many_times_at_once() {
    let folder = workflow(2, NAP, &["diary"]);
    let path = folder.path();
    let output = monohull(path, &["run", "w.json", "--suspend", "waiting", "--output", "diary=diary.txt", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let checkpoint = document(&output)["checkpoint"].as_str().expect("a path").to_owned();
    let output = monohull(path, &["resume", &checkpoint, "--count", "3", "--suspend", "again", "--json"]);
    assert_eq!(output.status.code(), Some(4), "all wait: {output:?}");
    let suspended = document(&output);
    let copies = suspended["copies"].as_array().expect("a list");
    assert_eq!(
        copies.iter().map(|copy| (copy["copy"].as_u64(), copy["exit"].as_u64())).collect::<Vec<_>>(),
        [(Some(1), Some(4)), (Some(2), Some(4)), (Some(3), Some(4))]
    );
    // A copy stays which one it is.
    let second = copies[1]["result"]["checkpoint"].as_str().expect("a path");
    done(monohull(path, &["resume", second]));
    let diary = fs::read_to_string(path.join("diary.2.txt")).expect("its own output");
    assert_eq!(end(&diary).0, "copy 2 of 3, generation 2");
    let output = done(monohull(path, &["resume", &checkpoint, "--count", "2"]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (first, second) = text.split_once("copy        2 of 2\n").expect("both, in order");
    assert!(first.starts_with("copy        1 of 2\n") && first.contains("forked done"), "{text}");
    assert!(second.contains("forked done"), "{text}");
    let mut tickets = HashSet::new();
    for index in ["1", "2"] {
        let diary = fs::read_to_string(path.join(format!("diary.{index}.txt"))).expect("its own output");
        let (said, ticket) = end(&diary);
        assert_eq!(said, format!("copy {index} of 2, generation 1"));
        assert!(tickets.insert(ticket), "the system's random numbers differ");
    }
    assert!(!path.join("diary.txt").exists());
    let output = monohull(path, &["resume", "nothing.checkpoint", "--count", "2"]);
    refused(&output, 2, "nothing.checkpoint cannot be read");
    for count in ["0", "1001"] {
        refused(&monohull(path, &["resume", &checkpoint, "--count", count]), 2, "--count");
    }
}
