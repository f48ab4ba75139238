//! Programs in AssemblyScript, by their own compiler: one over its own library, and one with the calls of `wasi/lib/assemblyscript/monohull.ts`.

use super::{Files, part, ran};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
fn a_program_over_its_own_library() {
    let image = part("assemblyscript.so");
    let program = ran(&image, &["x", "y"], "hello\n", &Files::new()).well();
    let expected = ["arguments: x y", "primes to 100000: 9592", "bytes of input: 6", "a clock: true", "random: true"];
    assert_eq!(program.out, expected);
    assert_eq!(program.err, ["to standard error"]);
    let error = ran(&image, &["fail"], "", &Files::new()).error;
    assert!(error.as_deref().is_some_and(|error| error.contains('3')), "{error:?}");
}

/// A folder with a workflow whose step `app` does this, and more of the document.
fn folder(act: &str, more: &[(&str, Value)]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    write(folder.path(), "app", act, more);
    folder
}

fn write(folder: &Path, name: &str, act: &str, more: &[(&str, Value)]) {
    let mut document = json!({
        "name": name,
        "functions": { "app": { "image": part("assemblyscript-durable.so") } },
        "steps": [{ "name": "app", "function": "app", "args": { "act": act } }],
    });
    for (key, value) in more {
        document[*key] = value.clone();
    }
    fs::write(folder.join(name).with_extension("json"), document.to_string()).expect("written");
}

/// Runs a command on the state folder: its output, and what the step has printed meanwhile.
#[track_caller]
fn says(folder: &Path, args: &[&str], code: i32) -> (String, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.env("XDG_CACHE_HOME", folder).current_dir(folder).args(args).args(["--state", "state"]);
    let output = command.output().expect("monohull starts");
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter_map(|line| line.strip_prefix("app[0] | ")).map(str::to_owned).collect();
    (text, lines)
}

const BEGIN: [&str; 5] = ["run", "app.json", "--id", "one", "--detach"];

#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
fn clients_answer_callbacks() {
    let folder = folder("answers", &[]);
    let path = folder.path();
    assert!(says(path, &BEGIN, 4).1.is_empty());
    let shown: Value = serde_json::from_str(&says(path, &["show", "one", "--json"], 0).0).expect("JSON");
    let (yes, no) =
        shown["published"]["tokens"].as_str().and_then(|tokens| tokens.split_once(' ')).expect("two tokens");
    assert!(yes.len() == 41 && no.len() == 41 && yes != no, "{yes} {no}");
    says(path, &["send", "one", &format!("{yes}:heartbeat")], 0);
    assert!(says(path, &["wake"], 0).1.is_empty(), "it waits on");
    says(path, &["send", "one", yes, "--data", "17"], 0);
    says(path, &["send", "one", &format!("{no}:rejected"), "--data", "too late"], 0);
    let said = says(path, &["wake"], 0).1;
    assert_eq!(said, ["completed 17", "rejected too late", "timed out ", "silent ", "of one"]);
}

#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
fn slots_effects_and_children() {
    let step = |name: &str, act: &str| json!({ "name": name, "function": "app", "args": { "act": act } });
    let mut handler = step("handler", "handle");
    handler["handles"] = "blob".into();
    let folder = folder("calls", &[("steps", json!([step("app", "calls"), handler])), ("starts", json!(["child"]))]);
    write(folder.path(), "child", "child", &[("inputs", json!(["in"])), ("outputs", json!(["out"]))]);
    let said = says(folder.path(), &["run", "app.json", "--id", "one", "--skip-time"], 0).1;
    let keys = "one/app/0/pay/0 one/app/0/pay/1 one/app/0/send/0";
    let expected =
        ["empty: true", "grün", "100000", "app 0 of 1", keys, "false <logo true", "true 17! true", "true true true"];
    assert_eq!(said, expected);
}

/// What cannot be ends the program with the reason.
#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
fn a_name_that_is_several_and_a_sleep_without_an_end_are_refused() {
    for (act, why) in
        [("--act=names", "the name of an event has no control characters"), ("--act=forever", "a sleep has an end")]
    {
        let program = ran(&part("assemblyscript-durable.so"), &[act], "", &Files::new());
        assert!(
            program.error.is_some() && program.err.iter().any(|line| line.contains(why)),
            "{act}: {:?}",
            program.err
        );
    }
}

#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
fn events_save_points_and_copies() {
    let folder = folder("waits", &[]);
    let path = folder.path();
    let (_, said) = says(path, &BEGIN, 4);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("false true "), "{said:?}");
    says(path, &["send", "one", "cancelled", "--data", "r-4711"], 0);
    let mut said = says(path, &["wake", "--wait"], 0).1;
    said.sort();
    assert_eq!(said, ["cancelled r-4711", "copy 0", "copy 1", "true"]);
}
