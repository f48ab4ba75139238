//! `run --state` and `wake`: invocations outlive their processes, are run by one at a time, and are lost by no kill.

#[path = "support/database.rs"]
mod database;
#[path = "support/program.rs"]
mod program;

use database::exchange;
use program::{NAP, RESULT, command, document, image, monohull, refused, write_sleepers, write_workflow_of};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Runs it in the background; what it prints is not read.
fn begin(folder: &Path, args: &[&str]) -> Child {
    let mut command = command(folder, args);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
}

fn workflow(milliseconds: u64) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), milliseconds);
    folder
}

/// Longer than any test.
const DAY: u64 = 86_400_000;

fn show(folder: &Path, id: &str) -> Value {
    document(&monohull(folder, &["show", id, "--state", "state", "--json"]))
}

/// Starts one that sleeps for a day.
fn sleeper(folder: &Path, id: &str) {
    let output = monohull(folder, &["run", "w.json", "--state", "state", "--id", id, "--detach", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(document(&output)["status"], "suspended");
}

fn files(folder: &Path, name: &str) -> usize {
    fs::read_dir(folder.join("state").join(name)).expect("a folder").count()
}

#[test]
fn a_run_is_followed_to_its_end_and_keeps_nothing_but_its_report() {
    let folder = workflow(NAP);
    let args = ["run", "w.json", "--state", "state", "--id", "one", "--output", "result=result.txt"];
    let output = monohull(folder.path(), &args);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("sleepers done"), "{output:?}");
    assert_eq!(fs::read_to_string(folder.path().join("result.txt")).expect("the output"), RESULT);
    let row = show(folder.path(), "one");
    assert_eq!((&row["status"], &row["report"]["status"]), (&json!("completed"), &json!("done")));
    assert!(row["generation"].as_u64() >= Some(2), "{row}");
    assert_eq!(files(folder.path(), "checkpoints"), 0);
    // The same again is answered from its report, and nothing runs.
    let again = monohull(folder.path(), &args);
    assert_eq!((again.status.code(), show(folder.path(), "one")), (Some(0), row));
    assert_eq!(monohull(folder.path(), &["purge", "one", "--state", "state"]).status.code(), Some(0));
    assert_eq!((files(folder.path(), "files"), files(folder.path(), "owners")), (0, 0));
    refused(&monohull(folder.path(), &["show", "one", "--state", "state"]), 2, "there is no invocation `one`");
}

#[test]
fn the_longest_sleep_is_one_and_its_time_can_be_skipped() {
    let folder = workflow(u64::MAX / 1_000_000);
    let path = folder.path();
    sleeper(path, "long");
    assert!(show(path, "long")["due"].as_str().expect("a time").starts_with("2262-04-11T"));
    let woken = monohull(path, &["wake", "--state", "state", "--skip-time"]);
    assert_eq!((woken.status.code(), &show(path, "long")["status"]), (Some(0), &json!("completed")), "{woken:?}");
}

/// A time that no clock shows is none, so that skipping time comes to an end.
#[test]
fn a_wait_for_longer_than_clocks_go_has_no_end() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    // 300 years: more than clocks go, and less than a count of nanoseconds has.
    let args = json!({ "events": ["a"], "fills": "result", "timeout_ms": 300 * 365 * 86_400_000_u64 });
    write_workflow_of(path, "inbox", "inbox", &json!([{ "name": "i", "function": "inbox", "args": args }]));
    let output = monohull(path, &["run", "w.json", "--state", "state", "--id", "long", "--detach"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let woken = monohull(path, &["wake", "--state", "state", "--skip-time", "--wait"]);
    assert_eq!(woken.status.code(), Some(0), "{woken:?}");
    let row = show(path, "long");
    assert_eq!((&row["status"], &row["due"]), (&json!("suspended"), &json!(null)), "{row:#}");
    assert_eq!(monohull(path, &["send", "long", "a", "--data", "x", "--state", "state"]).status.code(), Some(0));
    assert_eq!(monohull(path, &["wake", "--state", "state"]).status.code(), Some(0));
    assert_eq!(show(path, "long")["status"], "completed");
}

/// What has ended is removed together, with its files; what has not ended stays.
#[test]
fn all_that_have_ended_are_removed_at_once() {
    let folder = workflow(1);
    let path = folder.path();
    let ends = |id: &str| {
        let args = ["run", "w.json", "--state", "state", "--id", id, "--output", "result=result.txt"];
        assert_eq!(monohull(path, &args).status.code(), Some(0));
    };
    ends("one");
    ends("two");
    write_sleepers(path, DAY);
    sleeper(path, "asleep");
    sleeper(path, "cancelled");
    assert_eq!(monohull(path, &["cancel", "cancelled", "--state", "state"]).status.code(), Some(0));
    let purge = |more: &[&str]| monohull(path, &[&["purge", "--ended", "--state", "state"], more].concat());
    let young = purge(&["--older-than", "30d"]);
    assert_eq!((young.status.code(), &*young.stdout), (Some(0), &b"0 removed\n"[..]));
    assert_eq!(document(&purge(&["--older-than", "1ms", "--json"])), json!({ "removed": 3 }));
    for id in ["one", "two", "cancelled"] {
        refused(&monohull(path, &["show", id, "--state", "state"]), 2, "there is no invocation");
    }
    assert_eq!(show(path, "asleep")["status"], "suspended");
    let before = (files(path, "checkpoints"), files(path, "files"));
    assert_eq!(before, (1, 1), "a checkpoint and an image");
    assert_eq!(monohull(path, &["kill", "asleep", "--state", "state"]).status.code(), Some(0));
    assert_eq!(document(&purge(&["--json"])), json!({ "removed": 1 }));
    assert_eq!((files(path, "checkpoints"), files(path, "files")), (0, 0));
    for wrong in [
        &["purge", "--state", "state"][..],
        &["purge", "one", "--ended", "--state", "state"],
        &["purge", "one", "--older-than", "1d", "--state", "state"],
        &["purge", "--ended", "--older-than", "1w", "--state", "state"],
        &["purge", "--ended"],
    ] {
        assert_eq!(monohull(path, wrong).status.code(), Some(2), "{wrong:?}");
    }
    for (time, why) in [
        ("99999999y", "`y` is none of the units us, ms, s, m, h, d"),
        ("366d", "expected at most 365d"),
        ("99999999999999999999s", "expected at most 365d"),
        ("30", "expected a time, such as 500ms, 30s or 12h"),
        ("0s", "expected a time, such as 500ms, 30s or 12h"),
    ] {
        refused(&purge(&["--older-than", time]), 2, why);
    }
}

/// A state folder is copied, and what sleeps in it goes on in the copy.
#[test]
fn a_copy_of_a_state_folder_goes_on() {
    let folder = workflow(DAY);
    let path = folder.path();
    sleeper(path, "one");
    let args = ["backup", "copy", "--state", "state", "--json"];
    let made = document(&monohull(path, &args));
    assert_eq!((&made["invocations"], &made["missing"]), (&json!(1), &json!([])));
    refused(&monohull(path, &args), 2, "copy is there already");
    fs::remove_dir_all(path.join("state")).expect("removed");
    for _ in 0..2 {
        let woken = monohull(path, &["wake", "--state", "copy", "--skip-time"]);
        assert_eq!(woken.status.code(), Some(0), "{woken:?}");
    }
    let row = document(&monohull(path, &["show", "one", "--state", "copy", "--json"]));
    assert_eq!(row["status"], "completed", "{row}");
}

/// The code of a sleeper is kept with it: neither its image nor its workflow file is needed any more.
#[test]
fn others_go_on_with_it_though_the_image_has_changed() {
    let folder = workflow(NAP);
    let path = folder.path();
    let output = monohull(path, &["run", "w.json", "--state", "state", "--detach", "--output", "result=result.txt"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("waits       first[0] in a sleep until 2") && text.contains("sleepers suspended"), "{text}");
    fs::copy(image("no-op"), path.join("sleeper.so")).expect("copied");
    fs::remove_file(path.join("w.json")).expect("it was there");
    let state = path.join("state");
    let args = ["wake", "--state", state.to_str().expect("a path"), "--wait", "--json"];
    let output = monohull(Path::new("/"), &args);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let ran = document(&output)["ran"].as_array().expect("a list").clone();
    assert_eq!(ran.last().expect("one ran")["status"], "completed");
    assert_eq!(fs::read_to_string(path.join("result.txt")).expect("the output"), RESULT);
}

/// An output without a file is in the report, and `result` prints it.
#[test]
fn a_result_without_a_file_is_printed() {
    let folder = workflow(1);
    let run = ["run", "w.json", "--state", "state", "--id", "one"];
    assert_eq!(monohull(folder.path(), &run).status.code(), Some(0));
    let output = monohull(folder.path(), &["result", "one", "--state", "state"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("one: completed\nresult (") && text.contains("  1 naps, 5 letters"), "{text}");
    let run = ["run", "w.json", "--state", "state", "--id", "two", "--output", "result=two.txt"];
    assert_eq!(monohull(folder.path(), &run).status.code(), Some(0));
    let output = monohull(folder.path(), &["result", "two", "--state", "state"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("two: completed\nresult      ") && text.lines().count() == 2, "{text}");
}

#[test]
fn one_that_is_left_says_what_goes_on_with_it() {
    let folder = workflow(DAY);
    let run = ["run", "w.json", "--state", "state", "--id", "one", "--detach"];
    let says = "monohull: `monohull wake --state state` goes on with it";
    refused(&monohull(folder.path(), &run), 4, says);
    let as_document = monohull(folder.path(), &[&run[..], &["--json"]].concat());
    assert!(!String::from_utf8_lossy(&as_document.stderr).contains("wake"), "{as_document:?}");
    assert!(monohull(folder.path(), &["pause", "one", "--state", "state"]).status.success());
    let paused = monohull(folder.path(), &run);
    assert!(!String::from_utf8_lossy(&paused.stderr).contains("wake"), "{paused:?}");
}

#[test]
fn an_id_is_one_invocations() {
    let folder = workflow(DAY);
    sleeper(folder.path(), "one");
    let before = show(folder.path(), "one");
    sleeper(folder.path(), "one");
    assert_eq!(show(folder.path(), "one"), before, "the same again is not started again");
    let args = ["run", "w.json", "--state", "state", "--id", "one", "--detach", "--set", "first.naps=2"];
    refused(&monohull(folder.path(), &args), 2, "`one` is another invocation's id");
    fs::copy(image("no-op"), folder.path().join("sleeper.so")).expect("copied");
    let args = ["run", "w.json", "--state", "state", "--id", "one", "--detach"];
    refused(&monohull(folder.path(), &args), 2, "`one` is another invocation's id");
    let args = ["run", "w.json", "--state", "state", "--id", "../one"];
    refused(&monohull(folder.path(), &args), 2, "letters, digits");
}

/// What is done to a file.
type Action<'a> = &'a dyn Fn();

#[test]
fn what_is_damaged_pauses_and_goes_on_once_it_is_whole() {
    let folder = workflow(NAP);
    let path = folder.path();
    let output = monohull(path, &["run", "w.json", "--state", "state", "--id", "one", "--detach"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let checkpoint = path.join("state/checkpoints/one.1.1.checkpoint");
    let whole = fs::read(&checkpoint).expect("the checkpoint");
    let image = fs::read_dir(path.join("state/files")).expect("files").next().expect("the image").expect("it").path();
    let whole_image = fs::read(&image).expect("the image");
    let elsewhere = path.join("elsewhere");
    let spoil: [(Action<'_>, Action<'_>, &str); 4] = [
        (
            &|| fs::write(&checkpoint, &whole[..whole.len() / 2]).expect("written"),
            &|| fs::write(&checkpoint, &whole).expect("written"),
            "it is truncated",
        ),
        (
            &|| fs::rename(&checkpoint, &elsewhere).expect("renamed"),
            &|| fs::rename(&elsewhere, &checkpoint).expect("renamed"),
            "one.1.1.checkpoint cannot be read",
        ),
        (
            &|| fs::rename(&image, &elsewhere).expect("renamed"),
            &|| fs::rename(&elsewhere, &image).expect("renamed"),
            "the image of its function `sleeper` is missing",
        ),
        (
            &|| fs::write(&image, &whole_image[..1000]).expect("written"),
            &|| fs::write(&image, &whole_image).expect("written"),
            "its images cannot be gone on with: the image sleeper is refused",
        ),
    ];
    for (spoil, restore, reason) in spoil {
        spoil();
        let output = monohull(path, &["wake", "--state", "state", "--wait", "--json"]);
        let ran = document(&output)["ran"].clone();
        assert_eq!((ran.as_array().map(Vec::len), &ran[0]["status"]), (Some(1), &json!("paused")), "{ran}");
        assert!(ran[0]["reason"].as_str().is_some_and(|why| why.contains(reason)), "{reason}: {ran}");
        let output = monohull(path, &["wake", "--state", "state", "--wait", "--json"]);
        assert_eq!(document(&output)["ran"], json!([]), "it is not tried again by itself");
        restore();
        let output = monohull(path, &["resume", "one", "--state", "state", "--json"]);
        assert_eq!(document(&output), json!({ "id": "one", "status": "suspended" }));
    }
    let output = monohull(path, &["wake", "--state", "state", "--wait"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(show(path, "one")["status"], "completed");
}

/// A host that cannot open the checkpoint, or the image, now may later: it need not be resumed by hand.
#[test]
fn what_the_host_cannot_read_now_is_tried_again() {
    let folder = workflow(NAP);
    let path = folder.path();
    let output = monohull(path, &["run", "w.json", "--state", "state", "--id", "one", "--detach"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let checkpoint = path.join("state/checkpoints/one.1.1.checkpoint");
    let image = fs::read_dir(path.join("state/files")).expect("files").next().expect("the image").expect("it").path();
    std::thread::sleep(Duration::from_millis(NAP));
    for file in [checkpoint, image] {
        let elsewhere = path.join("elsewhere");
        fs::rename(&file, &elsewhere).expect("renamed");
        // The kernel gives up on it, as on a network file system that is away.
        std::os::unix::fs::symlink(&file, &file).expect("made");
        // Until it is due again.
        let mut row = Value::Null;
        while !row["reason"].as_str().is_some_and(|why| why.contains(file.to_str().expect("a path"))) {
            let output = monohull(path, &["wake", "--state", "state", "--json"]);
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            row = show(path, "one");
            assert_eq!(row["status"], "suspended", "{row:#}");
        }
        fs::remove_file(&file).expect("removed");
        fs::rename(&elsewhere, &file).expect("renamed");
    }
    let output = monohull(path, &["wake", "--state", "state", "--wait"]);
    assert_eq!((output.status.code(), &show(path, "one")["status"]), (Some(0), &json!("completed")), "{output:?}");
}

/// An image that another workflow writes to is free again at a later attempt.
#[test]
fn an_image_that_is_in_use_is_waited_for() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let disk = path.join("disk.img");
    let made = monohull(path, &["image", "create", "disk.img", "--size", "4MiB"]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let document = json!({
        "name": "naps",
        "functions": { "inbox": { "image": image("inbox") } },
        "files": [{ "at": "/d", "image": "disk.img", "access": "write" }],
        "steps": [{ "name": "i", "function": "inbox", "args": { "events": ["a"], "fills": "result" } }],
        "outputs": ["result"],
    });
    fs::write(path.join("w.json"), document.to_string()).expect("written");
    let output = monohull(path, &["run", "w.json", "--state", "state", "--id", "one", "--detach"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let output = monohull(path, &["send", "one", "a", "--data", "x", "--state", "state"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    let writer = fs::File::options().read(true).write(true).open(&disk).expect("an image");
    let claim = nix::fcntl::Flock::lock(writer, nix::fcntl::FlockArg::LockExclusiveNonblock).expect("it is free");
    let output = monohull(path, &["wake", "--state", "state"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let row = show(path, "one");
    assert_eq!(row["status"], "suspended", "{row:#}");
    assert!(row["reason"].as_str().is_some_and(|why| why.contains("is in use")), "{row:#}");
    drop(claim);
    let output = monohull(path, &["wake", "--state", "state", "--wait"]);
    assert_eq!((output.status.code(), &show(path, "one")["status"]), (Some(0), &json!("completed")), "{output:?}");
}

/// Starts a function that sleeps with much memory, for so many ms each time, and touches some of it after that.
fn start_large(folder: &Path, args: &Value) {
    let mut args = args.clone();
    args["what"] = json!("wake");
    let wakes = json!({
        "name": "wakes",
        "functions": { "probe": { "image": image("bench-probe") } },
        "steps": [{ "name": "wakes", "function": "probe", "args": args }],
        "limits": { "timeout": "1h" },
    });
    fs::write(folder.join("w.json"), wakes.to_string()).expect("written");
    let output = monohull(folder, &["run", "w.json", "--state", "state", "--id", "one", "--detach"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

/// A page of a large checkpoint that is damaged pauses a run that touches it, and no other.
#[test]
fn a_damaged_page_pauses_the_run_that_touches_it() {
    const PAGE: usize = 4096;
    for (pages, expected) in [(1024, "paused"), (2, "completed")] {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path();
        start_large(path, &json!({ "count": 1500, "bytes": 1024 * PAGE, "pages": pages }));
        let checkpoint = path.join("state/checkpoints/one.1.1.checkpoint");
        let whole = fs::read(&checkpoint).expect("the checkpoint");
        let mut damaged = whole.clone();
        // A page of the heap: the first is touched, and that in the middle.
        let at = whole.len() - 200 * PAGE;
        damaged[at] ^= 1;
        fs::write(&checkpoint, &damaged).expect("written");
        let output = monohull(path, &["wake", "--state", "state", "--wait", "--json"]);
        let ran = document(&output)["ran"].clone();
        assert_eq!((ran.as_array().map(Vec::len), &ran[0]["status"]), (Some(1), &json!(expected)), "{ran}");
        if expected == "completed" {
            continue;
        }
        let reason = ran[0]["reason"].as_str().expect("a reason");
        assert!(reason.contains("it is damaged: page 0x"), "{reason}");
        fs::write(&checkpoint, &whole).expect("written");
        let output = monohull(path, &["resume", "one", "--state", "state", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let output = monohull(path, &["wake", "--state", "state", "--wait"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(show(path, "one")["status"], "completed");
    }
}

/// One that wakes, looks at little and sleeps again has written little: the rest stays in the file that it has gone on from, which is kept as long.
#[test]
fn what_was_not_touched_is_not_written_again() {
    const BYTES: u64 = 4 << 20;
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    start_large(path, &json!({ "count": 1200, "bytes": BYTES, "pages": 5, "times": 4 }));
    let checkpoints = || {
        let all = fs::read_dir(path.join("state/checkpoints")).expect("a folder").flatten();
        let mut all: Vec<_> = all.map(|entry| (entry.file_name(), entry.metadata().expect("it").len())).collect();
        all.sort();
        all
    };
    let mut wakes = 0;
    loop {
        let before = checkpoints();
        assert!(before[0].1 > BYTES && before[1..].iter().all(|(_, bytes)| *bytes < BYTES / 4), "{before:?}");
        // On a busy host one command may find it due twice.
        assert!(before.len() > wakes, "{before:?}");
        sleep(Duration::from_millis(1300));
        let output = monohull(path, &["wake", "--state", "state", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        wakes += 1;
        if show(path, "one")["status"] == "completed" {
            break;
        }
        let newest = checkpoints().last().expect("one").0.clone();
        let newest = path.join("state/checkpoints").join(newest);
        let newest = newest.to_str().expect("a path");
        let verified = monohull(path, &["checkpoint", "verify", newest]);
        assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    }
    assert!((1..=4).contains(&wakes) && checkpoints().is_empty(), "{wakes} wakes");
}

/// One row that was edited is named in the list, and does not hide the others.
#[test]
fn a_row_that_was_edited_is_named_and_the_others_are_listed() {
    let folder = workflow(DAY);
    let path = folder.path();
    ["one", "two", "xyz"].iter().for_each(|id| sleeper(path, id));
    exchange(&path.join("state/meta.sqlite"), br#"{"file":"two."#, br#"{"else":"two."#);
    let listed = document(&monohull(path, &["ps", "--state", "state", "--json"]));
    let row =
        |index: usize| (listed["invocations"][index]["id"].clone(), listed["invocations"][index]["status"].clone());
    let expected = [("one", "suspended"), ("two", "damaged"), ("xyz", "suspended")];
    for (index, (id, status)) in expected.into_iter().enumerate() {
        assert_eq!(row(index), (json!(id), json!(status)), "{listed:#}");
    }
    let reason = &listed["invocations"][1]["reason"];
    assert!(reason.as_str().is_some_and(|reason| reason.contains("it has a wrong checkpoint")), "{listed:#}");
    let page = document(&monohull(path, &["ps", "--state", "state", "--limit", "1", "--after", "one", "--json"]));
    assert_eq!((&page["invocations"][0]["id"], &page["after"]), (&json!("two"), &json!("two")));
    let table = monohull(path, &["ps", "--state", "state"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.lines().any(|line| line.contains("two") && line.contains("damaged")), "{table}");
    assert_eq!(document(&monohull(path, &["cancel", "one", "--state", "state", "--json"]))["status"], "cancelled");
}

#[test]
fn invocations_are_paused_resumed_cancelled_and_removed_by_hand() {
    let folder = workflow(DAY);
    let path = folder.path();
    sleeper(path, "one");
    sleeper(path, "two");
    let to = |verb: &str, id: &str| monohull(path, &[verb, id, "--state", "state", "--json"]);
    let status = |output: &Output| document(output)["status"].clone();
    let due = show(path, "one")["due"].clone();
    assert_eq!(status(&to("pause", "one")), "paused");
    assert_eq!(show(path, "one")["reason"], "by hand");
    assert_eq!(status(&to("resume", "one")), "suspended");
    assert_eq!(show(path, "one")["due"], due, "its timer has not changed");
    refused(&to("purge", "one"), 2, "invocation `one` is suspended: cancel it first");
    for _ in 0..2 {
        assert_eq!(status(&to("cancel", "one")), "cancelled");
    }
    refused(&to("resume", "one"), 2, "invocation `one` has ended: it is cancelled");
    refused(&monohull(path, &["resume", "one"]), 2, "--state DIR or --server ADDRESS");
    refused(&to("pause", "three"), 2, "there is no invocation `three`");
    assert_eq!((files(path, "checkpoints"), files(path, "files")), (1, 1), "those of the other, of the same image");
    let list = |filter: &[&str]| {
        let args = [&["ps", "--state", "state", "--json"], filter].concat();
        let listed = document(&monohull(path, &args));
        let ids = listed["invocations"].as_array().expect("a list").iter().map(|row| row["id"].clone());
        (ids.collect::<Vec<_>>(), listed["after"].clone())
    };
    assert_eq!(list(&[]), (vec![json!("one"), json!("two")], Value::Null));
    assert_eq!(list(&["--status", "suspended,paused"]), (vec![json!("two")], Value::Null));
    assert_eq!(list(&["--limit", "1"]), (vec![json!("one")], json!("one")));
    assert_eq!(list(&["--limit", "1", "--after", "one"]), (vec![json!("two")], Value::Null));
    assert_eq!(list(&["--workflow", "another"]).0, Vec::<Value>::new());
    assert_eq!(status(&to("cancel", "two")), "cancelled");
    assert_eq!((files(path, "checkpoints"), files(path, "files")), (0, 0), "the cancelled leave nothing");
    assert_eq!(status(&to("purge", "one")), "removed");
}

/// A copy in the state folder itself would be a part of what is copied.
#[test]
fn a_backup_is_made_outside_of_the_state_folder() {
    let folder = workflow(60_000);
    let path = folder.path();
    sleeper(path, "one");
    std::os::unix::fs::symlink("state", path.join("link")).expect("made");
    fs::create_dir(path.join("state/checkpoints/stray")).expect("made");
    for to in ["state/copy", "state/checkpoints/copy", "link/copy", "./state/../link/checkpoints/stray/copy"] {
        let output = monohull(path, &["backup", to, "--state", "state"]);
        refused(&output, 2, "is in the state folder itself");
        refused(&monohull(path, &["backup", to, "--state", "link"]), 2, "is in the state folder itself");
    }
    // Nor does a folder that is there keep files from being removed.
    fs::write(path.join("state/checkpoints/left.1.1.checkpoint"), "by a killed process").expect("written");
    assert_eq!(monohull(path, &["wake", "--state", "state"]).status.code(), Some(0));
    assert!(!path.join("state/checkpoints/left.1.1.checkpoint").exists());
    for to in ["copy", "state-2"] {
        let output = monohull(path, &["backup", to, "--state", "state"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[test]
fn what_is_no_state_folder_is_refused_and_stays_as_it_is() {
    let folder = workflow(DAY);
    let path = folder.path();
    refused(&monohull(path, &["ps", "--state", "nowhere"]), 3, "nowhere: there is no such folder");
    assert!(!path.join("nowhere").exists());
    fs::create_dir(path.join("state")).expect("made");
    let text = "no database at all, but long enough to be looked at as if it were one";
    fs::write(path.join("state/meta.sqlite"), text).expect("written");
    refused(&monohull(path, &["run", "w.json", "--state", "state"]), 3, "the database of the state folder");
    assert_eq!(fs::read_to_string(path.join("state/meta.sqlite")).expect("a file"), text);
    // A project with a folder of files: those that no invocation names would be removed.
    fs::create_dir(path.join("files")).expect("made");
    fs::write(path.join("files/photo"), "mine").expect("written");
    let output = monohull(path, &["run", "w.json", "--state", "."]);
    refused(&output, 3, "is not used as a state folder: it holds other files");
    assert_eq!(fs::read_to_string(path.join("files/photo")).expect("a file"), "mine");
    assert!(!path.join("meta.sqlite").exists());
}

/// The workflow has run by then, and the document does not say that nothing has.
#[test]
fn what_cannot_be_followed_any_more_is_told_with_its_id() {
    let folder = workflow(DAY);
    let path = folder.path();
    let mut command = command(path, &["run", "w.json", "--state", "state", "--id", "one", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let begin = Instant::now();
    while show(path, "one")["status"] != "suspended" {
        assert!(begin.elapsed() < Duration::from_secs(60), "{}", show(path, "one"));
        sleep(Duration::from_millis(50));
    }
    fs::write(path.join("none"), "no database at all, but long enough to be looked at as if it were one")
        .expect("written");
    // What is there has the last changes.
    let _ = fs::remove_file(path.join("state/meta.sqlite-wal"));
    fs::rename(path.join("none"), path.join("state/meta.sqlite")).expect("renamed");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let told = document(&output);
    assert_eq!((&told["id"], &told["status"]), (&json!("one"), &json!("unknown")), "{told}");
    assert_eq!((&told["error"]["kind"], &told["error"]["blame"]), (&json!("not-followed"), &json!("host")), "{told}");
}

/// Two processes look for work in one folder: each leg is run by one of them.
#[test]
fn two_wakers_run_nothing_twice() {
    let folder = workflow(NAP);
    let path = folder.path();
    let ids: Vec<String> = (0..4).map(|index| format!("i-{index}")).collect();
    for id in &ids {
        let output = monohull(path, &["run", "w.json", "--state", "state", "--id", id, "--detach"]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
    }
    let wakers: Vec<Child> = (0..2).map(|_| begin(path, &["wake", "--state", "state", "--wait"])).collect();
    for mut waker in wakers {
        assert!(waker.wait().expect("it ends").success());
    }
    // One of them may have ended while the other still ran the last.
    assert_eq!(monohull(path, &["wake", "--state", "state", "--wait"]).status.code(), Some(0));
    for id in &ids {
        let row = show(path, id);
        assert_eq!((&row["status"], &row["attempts"]), (&json!("completed"), &json!(1)), "{row}");
    }
}

/// Processes are killed at all kinds of moments, again and again. What was started is completed, each with its output.
#[test]
fn kills_lose_nothing() {
    let folder = workflow(NAP);
    let path = folder.path();
    let ids: Vec<String> = (0..6).map(|index| format!("i-{index}")).collect();
    for (index, id) in ids.iter().enumerate() {
        let output = format!("result={id}.txt");
        let args = ["run", "w.json", "--state", "state", "--id", id, "--detach", "--output", &output];
        // Killed at the start: a start that was not acknowledged may be repeated.
        let mut child = begin(path, &args);
        sleep(Duration::from_millis(7 * index as u64));
        let _ = child.kill();
        child.wait().expect("it ends");
        let repeated = monohull(path, &args);
        assert_eq!(repeated.status.code(), Some(4), "{repeated:?}");
    }
    let end = Instant::now() + Duration::from_secs(240);
    let mut round: u64 = 0;
    loop {
        let listed = document(&monohull(path, &["ps", "--state", "state", "--json"]));
        let rows = listed["invocations"].as_array().expect("a list").clone();
        assert_eq!(rows.len(), ids.len());
        for row in &rows {
            match row["status"].as_str() {
                Some("pending" | "running" | "suspended" | "completed") => {}
                // Killed five times between two commits: as it should be, and goes on by hand.
                Some("paused") => {
                    assert!(row["reason"].as_str().is_some_and(|why| why.contains("attempts")), "{row}");
                    let id = row["id"].as_str().expect("an id");
                    assert_eq!(monohull(path, &["resume", id, "--state", "state"]).status.code(), Some(0));
                }
                _ => panic!("{row}"),
            }
        }
        if rows.iter().all(|row| row["status"] == "completed") {
            break;
        }
        assert!(Instant::now() < end, "{rows:?}");
        let mut waker = begin(path, &["wake", "--state", "state", "--wait"]);
        round += 1;
        sleep(Duration::from_millis(round * 37 % 211));
        let _ = waker.kill();
        waker.wait().expect("it ends");
    }
    assert!(round > 5, "{round} kills");
    for id in &ids {
        assert_eq!(fs::read_to_string(path.join(format!("{id}.txt"))).expect("the output"), RESULT);
    }
    // A waker that is not killed removes what the killed ones have left behind.
    assert_eq!(monohull(path, &["wake", "--state", "state"]).status.code(), Some(0));
    assert_eq!((files(path, "checkpoints"), files(path, "files")), (0, 0));
}
