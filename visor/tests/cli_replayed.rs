//! An older checkpoint in the place of a newer one. Its seal is good, and a file cannot know that there is a newer one: what tells is its generation.
//! Where files are encrypted each belongs to its place, and is refused in another.

#[path = "support/program.rs"]
mod program;

use program::{document, monohull, write_workflow_of};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder with `w.json`, the function `inbox`, which waits for `a` and then `b`, and with the events as files.
fn inbox() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let args = json!({ "events": ["a", "b"], "fills": "result" });
    write_workflow_of(folder.path(), "inbox", "inbox", &json!([{ "name": "i", "function": "inbox", "args": args }]));
    for event in ["a", "b"] {
        fs::write(folder.path().join(event), event).expect("written");
    }
    folder
}

#[track_caller]
fn exits(folder: &Path, args: &[&str], exit: i32) -> Value {
    let output = monohull(folder, args);
    assert_eq!(output.status.code(), Some(exit), "{args:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// What `describe` says of the number of a file.
#[track_caller]
fn generation_of(folder: &Path, file: &Path) -> u64 {
    let output = monohull(folder, &["checkpoint", "describe", file.to_str().expect("a path"), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let described = document(&output);
    described["generation"].as_u64().unwrap_or_else(|| panic!("{described:#}"))
}

#[test]
fn a_file_in_the_place_of_a_newer_one_is_told_by_its_generation_and_goes_on_as_what_it_is() {
    let folder = inbox();
    let path = folder.path();
    let run = ["run", "w.json", "--suspend", "older", "--output", "result=result.txt", "--json"];
    let older = exits(path, &run, 4)["checkpoint"].as_str().expect("a path").to_owned();
    let resume = ["resume", &older, "--event", "a=a", "--suspend", "newer", "--json"];
    let newer = exits(path, &resume, 4)["checkpoint"].as_str().expect("a path").to_owned();
    let (older, newer_file) = (path.join(older), path.join(&newer));
    assert_eq!((generation_of(path, &older), generation_of(path, &newer_file)), (0, 1));
    fs::copy(&older, &newer_file).expect("copied");
    assert_eq!(generation_of(path, &newer_file), 0, "it tells what it is");
    // It is what it was: it has taken no event, and takes both.
    exits(path, &["resume", &newer, "--event", "b=b", "--json"], 2);
    exits(path, &["resume", &newer, "--event", "a=a", "--event", "b=b", "--json"], 0);
    assert_eq!(fs::read_to_string(path.join("result.txt")).expect("the output"), "a: a\nb: b\n");
}

/// A state folder with an invocation that has taken `a`, and its checkpoints: the older one and the newest.
fn taken(folder: &Path, key: &[&str]) -> [PathBuf; 2] {
    let with = |args: &[&str], exit| exits(folder, &[args, &["--state", "state"], key].concat(), exit);
    let newest = || {
        let shown = with(&["show", "one", "--json"], 0);
        let file = shown["checkpoint"]["file"].as_str().unwrap_or_else(|| panic!("{shown:#}"));
        folder.join("state/checkpoints").join(file)
    };
    with(&["run", "w.json", "--id", "one", "--detach", "--output", "result=result.txt"], 4);
    let older = newest();
    with(&["send", "one", "a", "--data", "a"], 0);
    with(&["wake", "--wait"], 0);
    [older, newest()]
}

#[test]
fn in_a_state_folder_the_invocation_keeps_its_number_and_the_file_tells_another() {
    let folder = inbox();
    let path = folder.path();
    let [older, newer] = taken(path, &[]);
    let with = |args: &[&str], exit| exits(path, &[args, &["--state", "state"]].concat(), exit);
    let shown = || with(&["show", "one", "--json"], 0);
    let number = shown()["generation"].as_u64().expect("a number");
    assert_eq!((generation_of(path, &older), generation_of(path, &newer)), (number - 1, number));
    fs::copy(&older, &newer).expect("copied");
    assert_eq!((shown()["generation"].as_u64(), generation_of(path, &newer)), (Some(number), number - 1));
    // Nothing notices. What has come since is to come again, and numbers rise all the same.
    with(&["send", "one", "b", "--data", "b"], 0);
    with(&["wake", "--wait"], 0);
    assert_eq!(shown()["status"], "suspended", "it waits for the first event: {:#}", shown());
    with(&["send", "one", "a", "--data", "a"], 0);
    with(&["wake", "--wait"], 0);
    let shown = shown();
    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert!(shown["generation"].as_u64() > Some(number), "{shown:#}");
    assert_eq!(fs::read_to_string(path.join("result.txt")).expect("the output"), "a: a\nb: b\n");
}

#[test]
fn in_an_encrypted_state_folder_an_older_file_is_refused_in_the_place_of_a_newer_one() {
    let folder = inbox();
    let path = folder.path();
    exits(path, &["key", "new", "state.key"], 0);
    let key = ["--state-key", "state.key"];
    let [older, newer] = taken(path, &key);
    let with = |args: &[&str], exit| exits(path, &[args, &["--state", "state"], &key].concat(), exit);
    fs::copy(&older, &newer).expect("copied");
    with(&["send", "one", "b", "--data", "b"], 0);
    with(&["wake", "--wait"], 0);
    let shown = with(&["show", "one", "--json"], 0);
    assert_eq!(shown["status"], "paused", "{shown:#}");
    assert!(shown["reason"].as_str().is_some_and(|why| why.contains("or belongs to another place")), "{shown:#}");
}
