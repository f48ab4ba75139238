//! State folders that a key encrypts: nothing that invocations were given or have made can be read without it, and what was changed is noticed.

#[path = "support/extent.rs"]
mod extent;
#[path = "support/program.rs"]
mod program;
#[path = "support/search.rs"]
mod search;
#[path = "support/stops.rs"]
mod stops;

use extent::some_of;
use program::{NAP, RESULT, document, image, monohull, refused, write_sleepers};
use search::has;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};
use stops::{copy, traced};
use tempfile::TempDir;

/// How many of the stops are tried, and how many with `--full`; there are more than a thousand.
const TRIED: (usize, usize) = (8, 24);
/// What is searched for: an input, an event, and the key of the event.
const MARKERS: [&str; 3] = ["marker-of-the-order", "marker-of-the-event", "marker-of-the-key"];

fn new_key(folder: &Path, name: &str) {
    let made = monohull(folder, &["key", "new", name]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
}

/// Runs a verb on the folder `state`, with this key.
fn with_key(folder: &Path, key: Option<&str>, args: &[&str]) -> Output {
    let key = key.map(|key| ["--state-key", key]);
    monohull(folder, &[args, &["--state", "state"], key.as_ref().map_or(&[][..], |key| key)].concat())
}

fn show(folder: &Path, id: &str) -> Value {
    document(&with_key(folder, Some("state.key"), &["show", id, "--json"]))
}

/// A folder with a key, and a state folder that has invocations of these names, which sleep.
fn sleepers(ids: &[&str]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), NAP);
    new_key(folder.path(), "state.key");
    for id in ids {
        let output = format!("result={id}.txt");
        let args = ["run", "w.json", "--id", id, "--detach", "--output", &output];
        let output = with_key(folder.path(), Some("state.key"), &args);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
    }
    folder
}

fn wake(folder: &Path) -> Output {
    let output = with_key(folder, Some("state.key"), &["wake", "--wait", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output
}

/// The control is the same without a key: then all of it is there to be read.
#[test]
fn nothing_of_an_invocation_is_readable_without_the_key() {
    for key in [None, Some("state.key")] {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path();
        new_key(path, "state.key");
        fs::copy(image("approval"), path.join("approval.so")).expect("copied");
        let step = json!({
            "name": "approval", "function": "approval", "args": { "remind_after_s": 86400, "reminders": 3 },
            "takes": ["order"], "fills": ["decision"],
        });
        let workflow = json!({
            "name": "approval", "functions": { "approval": { "image": "approval.so" } }, "steps": [step],
            "inputs": ["order"], "outputs": ["decision"],
        });
        fs::write(path.join("w.json"), workflow.to_string()).expect("written");
        fs::write(path.join("order.txt"), MARKERS[0]).expect("written");
        let started = with_key(path, key, &["run", "w.json", "--id", "one", "--detach", "--input", "order=order.txt"]);
        assert_eq!(started.status.code(), Some(4), "{started:?}");
        let sent = with_key(path, key, &["send", "one", "approved", "--data", MARKERS[1], "--key", MARKERS[2]]);
        assert_eq!(sent.status.code(), Some(0), "{sent:?}");
        let found = MARKERS.map(|marker| has(&path.join("state"), marker));
        assert_eq!(found, [key.is_none(); 3], "while it waits");
        // The key of the event counts, though it is not there.
        let again =
            with_key(path, key, &["send", "one", "approved", "--data", MARKERS[1], "--key", MARKERS[2], "--json"]);
        assert_eq!(document(&again)["duplicate"], true);
        let woken = with_key(path, key, &["wake", "--wait"]);
        assert_eq!(woken.status.code(), Some(0), "{woken:?}");
        let row = document(&with_key(path, key, &["show", "one", "--json"]));
        assert!(row["report"].to_string().contains(MARKERS[1]), "{row}");
        let found = MARKERS.map(|marker| has(&path.join("state"), marker));
        assert_eq!(found, [key.is_none(); 3], "when it has ended");
        // Names are there to be read in any case: docs/security.md says so.
        assert!(has(&path.join("state"), "approval"));
    }
}

#[test]
fn a_folder_needs_the_key_that_it_was_made_with_or_none() {
    let folder = sleepers(&["one"]);
    let path = folder.path();
    new_key(path, "other.key");
    let verbs: [&[&str]; 9] = [
        &["ps"],
        &["show", "one"],
        &["wake"],
        &["send", "one", "e"],
        &["resume", "one"],
        &["cancel", "one"],
        &["fork", "one"],
        &["checkpoints", "one"],
        &["run", "w.json", "--id", "two"],
    ];
    for verb in verbs {
        refused(&with_key(path, None, verb), 2, "state is encrypted: `--state-key FILE` names the file of its key");
        refused(&with_key(path, Some("other.key"), verb), 2, "other.key is not the key of the state folder");
        refused(&with_key(path, Some("no.key"), verb), 2, "the key file no.key cannot be read");
    }
    fs::set_permissions(path.join("other.key"), Permissions::from_mode(0o644)).expect("changed");
    refused(&with_key(path, Some("other.key"), &["ps"]), 2, "others than its owner may read or write it (mode 644)");
    refused(&monohull(path, &["key", "new", "state.key"]), 2, "state.key cannot be made");
    // With the right one it goes on to its end.
    wake(path);
    assert_eq!(show(path, "one")["status"], "completed");
    assert_eq!(fs::read_to_string(path.join("one.txt")).expect("the output"), RESULT);
    // A folder without a key stays without one.
    let plain = TempDir::new().expect("a folder");
    write_sleepers(plain.path(), NAP);
    let started = with_key(plain.path(), None, &["run", "w.json", "--id", "one", "--detach"]);
    assert_eq!(started.status.code(), Some(4), "{started:?}");
    new_key(plain.path(), "state.key");
    for verb in verbs {
        refused(&with_key(plain.path(), Some("state.key"), verb), 2, "state is not encrypted, and stays so");
    }
    assert_eq!(with_key(plain.path(), None, &["wake", "--wait"]).status.code(), Some(0));
}

/// Runs a verb of `monohull checkpoint` on a file, with this key of its state folder.
fn checkpoint(folder: &Path, verb: &str, files: &[&Path], key: Option<&str>) -> Output {
    let files = files.iter().map(|file| file.to_str().expect("UTF-8"));
    let key = key.map(|key| ["--state-key", key]);
    let args: Vec<&str> = ["checkpoint", verb].into_iter().chain(files).chain(key.into_iter().flatten()).collect();
    monohull(folder, &args)
}

/// The file of an invocation's checkpoint.
fn file_of(folder: &Path, id: &str) -> PathBuf {
    let name = show(folder, id)["checkpoint"]["file"].as_str().expect("a checkpoint").to_owned();
    folder.join("state/checkpoints").join(name)
}

#[test]
fn a_checkpoint_is_inspected_with_the_key_of_its_folder() {
    let folder = sleepers(&["one", "two"]);
    let path = folder.path();
    new_key(path, "other.key");
    let (one, two) = (&*file_of(path, "one"), &*file_of(path, "two"));
    let key = Some("state.key");
    for (verb, files) in [("describe", &[one][..]), ("verify", &[one]), ("diff", &[one, two])] {
        let without = checkpoint(path, verb, files, None);
        refused(&without, 2, "it is encrypted: `--state-key FILE` names the file of the key of its state folder");
        refused(&checkpoint(path, verb, files, Some("other.key")), 2, "other.key is not the key of the state folder");
    }
    let resumed = monohull(path, &["resume", one.to_str().expect("UTF-8")]);
    refused(&resumed, 2, "it is encrypted: `monohull wake --state DIR --state-key FILE` goes on with it");
    let described = checkpoint(path, "describe", &[one], key);
    assert_eq!(described.status.code(), Some(0), "{described:?}");
    assert!(String::from_utf8_lossy(&described.stdout).contains("sleeper"), "{described:?}");
    let verified = checkpoint(path, "verify", &[one], key);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    assert_eq!(checkpoint(path, "diff", &[one, one], key).status.code(), Some(0), "the same");
    assert_eq!(checkpoint(path, "diff", &[one, two], key).status.code(), Some(1), "another id");
    fs::copy(one, path.join("copy.checkpoint")).expect("copied");
    let elsewhere = checkpoint(path, "describe", &[Path::new("copy.checkpoint")], key);
    refused(&elsewhere, 2, "copy.checkpoint: it lies in no state folder");
    // One in the place of another, and one that is not encrypted, are no good ones.
    fs::copy(two, one).expect("copied");
    for (verb, code) in [("describe", 2), ("verify", 1)] {
        let output = checkpoint(path, verb, &[one], key);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let text = [output.stdout, output.stderr].concat();
        assert!(String::from_utf8_lossy(&text).contains("or belongs to another place"), "{verb}");
    }
    fs::write(one, "a checkpoint").expect("written");
    refused(&checkpoint(path, "describe", &[one], key), 2, "it is not encrypted");
}

/// Changes the file of `one`; the other is that of `two`.
type Damage = fn(&Path, &Path);

#[test]
fn what_goes_on_from_a_file_that_was_changed_is_paused() {
    let folder = sleepers(&["one", "two"]);
    let path = folder.path();
    let (own, other) = (file_of(path, "one"), file_of(path, "two"));
    copy(&path.join("state"), &path.join("kept"));
    let damages: [(&str, Damage); 5] = [
        ("a bit", |own, _| {
            let mut bytes = fs::read(own).expect("a file");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
            fs::write(own, bytes).expect("written");
        }),
        ("cut off", |own, _| {
            let bytes = fs::read(own).expect("a file");
            fs::write(own, &bytes[..bytes.len() - 1000]).expect("written");
        }),
        ("without its parts", |own, _| {
            let bytes = fs::read(own).expect("a file");
            fs::write(own, &bytes[..24]).expect("written");
        }),
        ("another's", |own, other| _ = fs::copy(other, own).expect("copied")),
        ("not encrypted", |own, _| fs::write(own, "a checkpoint").expect("written")),
    ];
    for (what, damage) in damages {
        damage(&own, &other);
        wake(path);
        let row = show(path, "one");
        let reason = row["reason"].as_str().unwrap_or_default();
        let expected = match what {
            "not encrypted" => "it is not encrypted",
            _ => "it was changed or cut off after it was encrypted, or belongs to another place",
        };
        assert!(row["status"] == "paused" && reason.contains(expected), "{what}: {row}");
        assert_eq!(show(path, "two")["status"], "completed", "{what}: the other one is unharmed");
        assert!(!path.join("one.txt").exists(), "{what}");
        fs::remove_file(path.join("two.txt")).expect("removed");
        fs::remove_dir_all(path.join("state")).expect("removed");
        copy(&path.join("kept"), &path.join("state"));
    }
    wake(path);
    assert_eq!(show(path, "one")["status"], "completed", "the control");
}

#[test]
fn a_kill_leaves_an_encrypted_folder_as_it_was_or_with_the_next_commit() {
    let folder = sleepers(&["one"]);
    let path = folder.path();
    sleep(Duration::from_millis(NAP));
    copy(&path.join("state"), &path.join("kept"));
    let args = ["wake", "--state", "state", "--state-key", "state.key"];
    let stops = traced(path, &args, usize::MAX);
    let (mut before, mut behind) = (0, 0);
    let times = some_of(TRIED.0, TRIED.1);
    for tried in 0..times {
        fs::remove_dir_all(path.join("state")).expect("removed");
        copy(&path.join("kept"), &path.join("state"));
        // Files are written and transactions made at the end.
        traced(path, &args, stops - 1 - tried * stops / times / if tried % 2 == 0 { 1 } else { 3 });
        let row = show(path, "one");
        assert_eq!(row["reason"], Value::Null, "{row}");
        match row["generation"].as_u64() {
            Some(1) => before += 1,
            _ => behind += 1,
        }
        // The worker may live for a moment longer, and with it the lock.
        let end = Instant::now() + Duration::from_secs(60);
        while show(path, "one")["status"] != "completed" {
            wake(path);
            assert!(Instant::now() < end, "{}", show(path, "one"));
        }
        assert_eq!(fs::read_to_string(path.join("one.txt")).expect("the output"), RESULT);
    }
    assert!(before > 0 && behind > 0, "{before} kills before the commit, {behind} behind it");
}

#[test]
fn a_backup_goes_on_with_its_key_and_a_key_can_be_changed() {
    let folder = sleepers(&["one"]);
    let path = folder.path();
    copy(&path.join("state"), &path.join("backup"));
    new_key(path, "new.key");
    let change =
        |from: &str| monohull(path, &["key", "change", "--state", "state", "--state-key", from, "--to", "new.key"]);
    refused(&change("new.key"), 2, "new.key is not the key of the state folder");
    let changed = change("state.key");
    assert_eq!(changed.status.code(), Some(0), "{changed:?}");
    refused(&with_key(path, Some("state.key"), &["ps"]), 2, "state.key is not the key of the state folder");
    let woken = with_key(path, Some("new.key"), &["wake", "--wait"]);
    assert_eq!(woken.status.code(), Some(0), "{woken:?}");
    assert_eq!(fs::read_to_string(path.join("one.txt")).expect("the output"), RESULT);
    // The backup is of before, and so is its key.
    fs::remove_file(path.join("one.txt")).expect("removed");
    fs::remove_dir_all(path.join("state")).expect("removed");
    copy(&path.join("backup"), &path.join("state"));
    refused(&with_key(path, Some("new.key"), &["ps"]), 2, "new.key is not the key of the state folder");
    wake(path);
    assert_eq!(fs::read_to_string(path.join("one.txt")).expect("the output"), RESULT);
    // There is nothing to change in a folder without a key.
    fs::create_dir(path.join("empty")).expect("made");
    let change = ["key", "change", "--state", "empty", "--state-key", "state.key", "--to", "new.key"];
    refused(&monohull(path, &change), 3, "it is no state folder");
}
