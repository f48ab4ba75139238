//! Children in a state folder: started once and joined once whatever is killed, in the scope of their parent, and only where its workflow file permits it.

#[path = "support/extent.rs"]
mod extent;
#[path = "support/program.rs"]
mod program;
#[path = "support/stops.rs"]
mod stops;

use extent::some_of;
use program::{document, image, monohull, refused};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;
use stops::{copy, traced};
use tempfile::TempDir;

/// How many of the stops of a `wake` are tried, and how many with `--full`.
const TRIED: (usize, usize) = (8, 24);

/// A folder with the image of `family`.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::copy(image("family"), folder.path().join("family.so")).expect("copied");
    folder
}

/// Writes `NAME.json`, a workflow that does this and may start these workflows. What `more` has is added to it, or to its step.
fn write(folder: &Path, name: &str, does: &[&str], starts: &[&str], more: &Value) {
    let mut document = json!({
        "name": name,
        "functions": { "f": { "image": "family.so" } },
        "steps": [{ "name": "main", "function": "f", "args": { "does": does }, "fills": ["result"] }],
        "outputs": ["result"],
    });
    if !starts.is_empty() {
        document["starts"] = json!(starts);
    }
    if does.contains(&"input") {
        document["inputs"] = json!(["input"]);
        document["steps"][0]["takes"] = json!(["input"]);
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        match key.as_str() {
            "fails_at" => document["steps"][0]["args"][key] = value.clone(),
            "retry" => document["steps"][0][key] = value.clone(),
            _ => document[key] = value.clone(),
        }
    }
    fs::write(folder.join(format!("{name}.json")), document.to_string()).expect("written");
}

/// Starts an invocation of a workflow, under its name, up to its first wait.
#[track_caller]
fn begin(folder: &Path, name: &str) -> Output {
    let (file, output) = (format!("{name}.json"), format!("result={name}.txt"));
    let output = monohull(folder, &["run", &file, "--state", "state", "--id", name, "--detach", "--output", &output]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    output
}

/// Runs an invocation of a workflow, under its name, to its end, with its children: its result.
#[track_caller]
fn run(folder: &Path, name: &str) -> String {
    let (file, out) = (format!("{name}.json"), format!("result={name}.txt"));
    let args = ["run", &file, "--state", "state", "--id", name, "--skip-time", "--output", &out];
    let output = monohull(folder, &args);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    result(folder, name)
}

#[track_caller]
fn result(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(format!("{name}.txt"))).expect("the output")
}

/// Goes on with all that goes on.
fn wake(folder: &Path, state: &str) -> Output {
    monohull(folder, &["wake", "--state", state, "--wait", "--skip-time"])
}

#[track_caller]
fn done(folder: &Path, args: &[&str]) -> String {
    let output = monohull(folder, &[args, &["--state", "state"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn show(folder: &Path, state: &str, id: &str) -> Value {
    document(&monohull(folder, &["show", id, "--state", state, "--json"]))
}

/// The children of an invocation: what each is called, and what it is.
fn children(folder: &Path, state: &str, id: &str) -> BTreeMap<String, String> {
    let shown = show(folder, state, id);
    let children = shown["children"].as_array().expect("children").iter();
    let text = |value: &Value| value.as_str().unwrap_or("removed").to_owned();
    children.map(|child| (text(&child["child"]), text(&child["status"]))).collect()
}

/// The invocation that is a child of this name.
fn child_of(folder: &Path, id: &str, child: &str) -> String {
    let shown = show(folder, "state", id);
    let mut children = shown["children"].as_array().expect("children").iter();
    let found = children.find(|known| known["child"] == child).expect("it was started");
    found["id"].as_str().expect("an id").to_owned()
}

fn count(folder: &Path, state: &str) -> usize {
    let listed = document(&monohull(folder, &["ps", "--state", state, "--json"]));
    listed["invocations"].as_array().map_or(0, Vec::len)
}

fn pair<const N: usize>(children: [(&str, &str); N]) -> BTreeMap<String, String> {
    children.map(|(name, status)| (name.to_owned(), status.to_owned())).into()
}

/// Begins the shipped workflow `album` in a new folder, as the invocation `boats`.
fn begin_album(pictures: &str, more: &[&str]) -> (TempDir, Output) {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("pictures"), pictures).expect("written");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows/durable/album.json");
    let shipped = shipped.to_str().expect("a path");
    let args = ["run", shipped, "--state", "state", "--id", "boats", "--input", "pictures=pictures"];
    let output = monohull(folder.path(), &[&args[..], more].concat());
    (folder, output)
}

#[test]
fn an_album_has_a_child_for_each_picture_and_one_that_fails_is_handled() {
    let pictures = "hull\n12345\n.....\n67890\n\nempty\n\nsail\nab\n";
    let (folder, output) = begin_album(pictures, &["--output", "album=album"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let album = fs::read_to_string(folder.path().join("album")).expect("the output");
    assert_eq!(album, "hull\n135\n680\n\nempty: Failed: the picture is empty\n\nsail\na\n\n");
    let expected = pair([("hull", "completed"), ("empty", "failed"), ("sail", "completed")]);
    assert_eq!(children(folder.path(), "state", "boats"), expected);
    let text = done(folder.path(), &["show", "boats"]);
    assert!(text.contains("child       hull (thumbnail): hull-") && text.contains(" completed\n"), "{text}");
    let hull = child_of(folder.path(), "boats", "hull");
    let text = done(folder.path(), &["show", &hull]);
    assert!(text.contains("started by  boats, as its child hull\n"), "{text}");
}

/// What has not begun has no checkpoint that could tell.
#[test]
fn changed_code_of_a_child_that_has_not_begun_is_not_run() {
    let (folder, output) = begin_album("hull\n12345\n", &["--detach"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let files = fs::read_dir(folder.path().join("state/files")).expect("files");
    let code = fs::read(image("thumbnail")).expect("an image");
    let mut paths = files.map(|file| file.expect("a file").path());
    let kept = paths.find(|path| fs::read(path).is_ok_and(|bytes| bytes == code)).expect("the child's image");
    // It is still an image.
    fs::write(&kept, [&code[..], b"more"].concat()).expect("written");
    assert_eq!(wake(folder.path(), "state").status.code(), Some(0));
    let hull = show(folder.path(), "state", &child_of(folder.path(), "boats", "hull"));
    assert_eq!(hull["status"], "paused", "{hull:#}");
    assert!(hull["reason"].as_str().is_some_and(|why| why.ends_with("it was changed")), "{hull:#}");
    fs::write(&kept, code).expect("written");
    done(folder.path(), &["resume", hull["id"].as_str().expect("an id")]);
    assert_eq!(wake(folder.path(), "state").status.code(), Some(0));
    assert_eq!(show(folder.path(), "state", "boats")["status"], "completed");
}

#[test]
fn a_parent_sleeps_without_a_process_until_its_child_has_ended() {
    let folder = folder();
    let path = folder.path();
    write(path, "child", &["input", "wait go"], &[], &json!({}));
    write(path, "parent", &["start child a seventeen", "join a", "look a"], &["child"], &json!({}));
    let output = begin(path, "parent");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("waits       main[0] for child `a`\n"), "{text}");
    assert!(text.contains("goes on     with the end of child a\n"), "{text}");
    assert_eq!(wake(path, "state").status.code(), Some(0));
    assert_eq!(children(path, "state", "parent"), pair([("a", "suspended")]));
    let child = child_of(path, "parent", "a");
    done(path, &["send", &child, "go", "--data", "on"]);
    assert_eq!(wake(path, "state").status.code(), Some(0));
    assert_eq!(result(path, "parent"), "a: Completed: seventeen | go: on\na: has not ended\n");
    assert_eq!(show(path, "state", &child)["started_by"], json!({ "id": "parent", "child": "a" }));
}

/// The window in which a child could be started twice, or its end be told twice or never: every commit of parent and child, and what comes between.
#[test]
fn whatever_is_killed_a_child_is_started_once_and_joined_once() {
    let folder = folder();
    let path = folder.path();
    write(path, "child", &["input", "nap 1300"], &["below"], &json!({}));
    write(path, "below", &["nap 1300"], &[], &json!({}));
    let does = ["nap 1300", "start child a 1", "start child b 2", "join b", "nap 1300", "join a", "look a", "look b"];
    write(path, "parent", &does, &["child"], &json!({}));
    begin(path, "parent");
    let expected = "b: Completed: 2\na: Completed: 1\na: has not ended\nb: has not ended\n";
    let tried = |kill_at: usize| {
        let state = format!("killed-{kill_at}");
        copy(&path.join("state"), &path.join(&state));
        let _ = fs::remove_file(path.join("parent.txt"));
        let args = ["wake", "--state", &state, "--wait", "--skip-time"];
        let stops = traced(path, &args, kill_at);
        let output = wake(path, &state);
        assert_eq!(output.status.code(), Some(0), "killed at {kill_at}: {output:?}");
        assert_eq!(result(path, "parent"), expected, "killed at {kill_at}");
        let ended = pair([("a", "completed"), ("b", "completed")]);
        assert_eq!(children(path, &state, "parent"), ended, "killed at {kill_at}");
        assert_eq!(count(path, &state), 3, "killed at {kill_at}");
        fs::remove_dir_all(path.join(&state)).expect("removed");
        stops
    };
    let stops = tried(usize::MAX);
    assert!(stops > 100, "{stops}");
    let times = some_of(TRIED.0, TRIED.1);
    for number in 0..times {
        tried(number * stops / times);
    }
}

#[test]
fn an_attempt_after_a_failure_starts_nothing_twice() {
    let folder = folder();
    let path = folder.path();
    write(path, "child", &["input", "nap 1300"], &[], &json!({}));
    let does = ["start child a 1", "join a", "nap 1300", "start child b 2", "join b"];
    write(path, "parent", &does, &["child"], &json!({ "fails_at": 4, "retry": { "max_attempts": 2 } }));
    assert_eq!(run(path, "parent"), "a: Completed: 1\nb: Completed: 2\n");
    assert_eq!(count(path, "state"), 3);
}

#[test]
fn a_parent_that_is_cancelled_cancels_its_children_and_theirs_but_none_that_is_detached() {
    let folder = folder();
    let path = folder.path();
    write(path, "below", &["wait never"], &[], &json!({}));
    write(path, "child", &["start below x", "join x"], &["below"], &json!({}));
    let does = ["start child a", "detach below d", "start below c", "cancel below c", "join c", "join a"];
    write(path, "parent", &does, &["child", "below"], &json!({}));
    begin(path, "parent");
    assert_eq!(wake(path, "state").status.code(), Some(0));
    let expected = pair([("a", "suspended"), ("c", "cancelled"), ("d", "suspended")]);
    assert_eq!(children(path, "state", "parent"), expected);
    let [a, d] = ["a", "d"].map(|child| child_of(path, "parent", child));
    let x = child_of(path, &a, "x");
    assert!(done(path, &["cancel", "parent"]).contains("cancelled"));
    for (id, status) in [(&a, "cancelled"), (&x, "cancelled"), (&d, "suspended")] {
        assert_eq!(show(path, "state", id)["status"], status, "{id}");
    }
    let checkpoints = fs::read_dir(path.join("state/checkpoints")).expect("a folder").count();
    assert_eq!(checkpoints, 1, "of the one that goes on");
    done(path, &["purge", "parent"]);
    done(path, &["send", &d, "never", "--data", ""]);
    assert_eq!(wake(path, "state").status.code(), Some(0));
    assert_eq!(show(path, "state", &d)["status"], "completed", "its parent is gone");
}

/// Of each there is a control that it works where it is permitted: the tests above.
#[test]
fn only_what_the_workflow_file_names_is_started() {
    let folder = folder();
    let path = folder.path();
    write(path, "child", &["nap 1300"], &[], &json!({}));
    write(path, "other", &["nap 1300"], &[], &json!({}));
    write(path, "two", &["input"], &[], &json!({ "inputs": ["input", "more"], "unread": "warn" }));
    let does = ["start other a", "start child b", "again child c text", "again two d", "start child ../e"];
    write(path, "parent", &does, &["child", "two"], &json!({}));
    let log = run(path, "parent");
    let expected = "starting child `a` of `other`: `starts` of the workflow file does not name `other`\n\
        c: Refused: the workflow `child` takes no input\n\
        d: Refused: the workflow `two` has 2 inputs, and a child has one\n\
        starting child `../e` of `child`: the id of a child, and the name of its workflow, has 1 to 64 letters, digits, `-` and `_`\n";
    assert_eq!(log, expected);
    assert_eq!(count(path, "state"), 2, "parent and b");
    let text = done(path, &["show", "parent"]);
    assert!(
        text.contains("not started child c of child at ") && text.contains(": the workflow `child` takes no input\n"),
        "{text}"
    );
    // Without the permission nothing is started at all, and without a state folder neither.
    write(path, "denied", &["start child a", "nap 1300"], &[], &json!({}));
    let denied = "starting child `a` of `child`: the workflow file does not permit it: `starts` names no workflow\n";
    assert_eq!(run(path, "denied"), denied);
    write(path, "alone", &["start child a"], &["child"], &json!({}));
    let output = monohull(path, &["run", "alone.json", "--output", "result=alone.txt"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(result(path, "alone").contains("only a run with a state folder"), "{}", result(path, "alone"));
}

#[test]
fn an_end_of_a_child_cannot_be_forged() {
    let folder = folder();
    let path = folder.path();
    write(path, "child", &["nap 1300", "wait go"], &[], &json!({}));
    let does = ["send parent child:a forged", "start child a", "join a"];
    write(path, "parent", &does, &["child"], &json!({ "sends_to": ["*"] }));
    begin(path, "parent");
    let output = monohull(path, &["send", "parent", "child:a", "--data", "forged", "--state", "state"]);
    refused(&output, 2, "no event can be sent whose name begins with `child:`");
    assert_eq!(show(path, "state", "parent")["mail"], 0);
    assert_eq!(wake(path, "state").status.code(), Some(0));
    done(path, &["send", &child_of(path, "parent", "a"), "go", "--data", "on"]);
    assert_eq!(wake(path, "state").status.code(), Some(0));
    let expected = "sending event `child:a` to `parent`: no function sends events whose names begin with `child:`\n\
        a: Completed: go: on\n";
    assert_eq!(result(path, "parent"), expected);
}

#[test]
fn a_copy_has_children_of_its_own_and_a_rewind_is_told_again() {
    let folder = folder();
    let path = folder.path();
    write(path, "child", &["input", "wait go"], &[], &json!({}));
    let does = ["start child a 1", "start child b 2", "join a", "wait on", "join b"];
    write(path, "parent", &does, &["child"], &json!({}));
    begin(path, "parent");
    wake(path, "state");
    done(path, &["send", &child_of(path, "parent", "a"), "go", "--data", "x"]);
    wake(path, "state");
    assert_eq!(show(path, "state", "parent")["generation"], 2, "a is joined");
    done(path, &["fork", "parent", "--id", "copy"]);
    wake(path, "state");
    let [own, copys] = ["parent", "copy"].map(|id| child_of(path, id, "b"));
    assert_ne!(own, copys, "each has a b of its own");
    assert_eq!(child_of(path, "parent", "a"), child_of(path, "copy", "a"), "a had ended");
    // Back to before a was joined: it is told again.
    done(path, &["rewind", "parent", "--to", "1"]);
    wake(path, "state");
    for (id, b, text) in [("parent", own, "mine"), ("copy", copys, "yours")] {
        done(path, &["send", id, "on", "--data", ""]);
        done(path, &["send", &b, "go", "--data", text]);
    }
    wake(path, "state");
    assert_eq!(result(path, "parent"), "a: Completed: 1 | go: x\non: \nb: Completed: 2 | go: mine\n");
    assert_eq!(result(path, "parent.copy"), "a: Completed: 1 | go: x\non: \nb: Completed: 2 | go: yours\n");
}

#[test]
fn a_child_may_be_waited_for_with_an_event_and_its_outputs_may_be_too_large() {
    let folder = folder();
    let path = folder.path();
    write(path, "child", &["nap 1300", "fill 1048576"], &[], &json!({}));
    let does = ["start child a", "first hurry a", "wait hurry", "start child b", "join b"];
    write(path, "parent", &does, &["child"], &json!({}));
    begin(path, "parent");
    done(path, &["send", "parent", "hurry", "--data", "2"]);
    wake(path, "state");
    assert_eq!(show(path, "state", "parent")["status"], "suspended");
    done(path, &["send", "parent", "hurry", "--data", "3"]);
    wake(path, "state");
    let large = "its outputs have 1048577 bytes, more than can be told";
    assert_eq!(result(path, "parent"), format!("hurry: 2\nhurry: 3\nb: TooLarge: {large}\n"));
}

#[test]
fn files_of_children_lie_beside_their_parents_or_are_named() {
    let folder = folder();
    let path = folder.path();
    write(path, "parent", &["again child a"], &["child"], &json!({}));
    let args = |more: &[&str]| {
        let args = ["run", "parent.json", "--state", "state", "--skip-time", "--output", "result=parent.txt"];
        monohull(path, &[&args, more].concat())
    };
    refused(&args(&[]), 2, "the workflow `child`, which `starts` of `parent` names: ");
    write(path, "child", &["nap 1300"], &[], &json!({ "name": "another" }));
    refused(&args(&[]), 2, "its workflow is `another`, and `starts` of `parent` names `child`");
    fs::rename(path.join("child.json"), path.join("another.json")).expect("renamed");
    refused(&args(&["--child", "another.json"]), 2, "");
    write(path, "child", &["nap 1300"], &["parent"], &json!({}));
    fs::create_dir(path.join("sub")).expect("a folder");
    fs::rename(path.join("child.json"), path.join("sub/child.json")).expect("renamed");
    fs::copy(path.join("family.so"), path.join("sub/family.so")).expect("copied");
    // It may start its parent's workflow, which lies beside neither.
    refused(&args(&["--child", "sub/child.json"]), 2, "the workflow `parent`, which `starts` of `child` names");
    let output = args(&["--child", "sub/child.json", "--child", "parent.json", "--id", "p"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(result(path, "parent"), "a: Completed: \n");
    // What was started keeps its code.
    write(path, "child", &["nap 1300"], &[], &json!({}));
    write(path, "late", &["nap 1300", "again child a"], &["child"], &json!({}));
    begin(path, "late");
    fs::write(path.join("child.json"), "{}").expect("written");
    assert_eq!(wake(path, "state").status.code(), Some(0));
    assert_eq!(result(path, "late"), "a: Completed: \n");
}
