//! `run --suspend` and `resume --suspend` where the checkpoint cannot be written: nothing is run, or the workflow goes on to its end.

#[path = "support/program.rs"]
mod program;

use program::{NAP, RESULT, command, document, image, monohull, write_sleepers};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A folder with a workflow that naps, once it has been given its input.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::copy(image("sleeper"), folder.path().join("sleeper.so")).expect("copied");
    let args = json!({ "naps": 1, "milliseconds": NAP, "takes": "text", "fills": "result" });
    let workflow = json!({
        "name": "sleepers",
        "functions": { "sleeper": { "image": "sleeper.so" } },
        "steps": [{ "name": "first", "function": "sleeper", "args": args }],
        "inputs": ["text"],
        "outputs": ["result"],
    });
    fs::write(folder.path().join("w.json"), workflow.to_string()).expect("written");
    folder
}

/// Starts a run that waits for its input, has `change` happen meanwhile, and gives it the input. It has looked at the folder before.
fn run_while(folder: &Path, more: &[&str], change: impl FnOnce()) -> Output {
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it starts").success());
    let args = ["run", "w.json", "--suspend", "waiting", "--input", "text=pipe", "--output", "result=result.txt"];
    let run = command(folder, &[&args, more].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let run = run.expect("it starts");
    // The other end is opened when the run has begun.
    let mut input = fs::File::options().write(true).open(&pipe).expect("a pipe");
    change();
    input.write_all(b"hello").expect("it reads");
    drop(input);
    run.wait_with_output().expect("it ends")
}

#[test]
fn a_workflow_whose_checkpoint_cannot_be_written_goes_on_to_its_end() {
    for more in [&["--json"][..], &[]] {
        let folder = folder();
        let waiting = folder.path().join("waiting");
        let output = run_while(folder.path(), more, || {
            fs::remove_dir(&waiting).expect("the run has made it, and it is empty");
            fs::write(&waiting, "no folder").expect("written");
        });
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let why = match more {
            [] => String::from_utf8_lossy(&output.stderr).into_owned(),
            _ => document(&output)["not_suspended"].as_str().expect("a reason").to_owned(),
        };
        assert!(why.contains("waiting/") && why.contains("cannot be written"), "{why}");
        let result = fs::read_to_string(folder.path().join("result.txt")).expect("the output");
        assert!(result.contains("1 naps, "), "{result}");
    }
}

/// The control: the same run is suspended where nothing is in the way.
#[test]
fn a_workflow_that_waited_for_its_input_is_suspended() {
    let folder = folder();
    let output = run_while(folder.path(), &["--json"], || {});
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let checkpoint = document(&output)["checkpoint"].as_str().expect("a path").to_owned();
    let output = monohull(folder.path(), &["resume", &checkpoint]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(fs::read_to_string(folder.path().join("result.txt")).expect("the output").contains("1 naps, "));
}

#[test]
fn nothing_is_run_where_no_checkpoint_can_be_written() {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), NAP);
    let output = monohull(folder.path(), &["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let checkpoint = document(&output)["checkpoint"].as_str().expect("a path").to_owned();
    fs::write(folder.path().join("file"), "no folder").expect("written");
    for args in [["run", "w.json"], ["resume", &checkpoint]] {
        for waiting in ["file", "file/inside"] {
            let output = monohull(folder.path(), &[&args[..], &["--suspend", waiting, "--json"]].concat());
            assert_eq!(output.status.code(), Some(3), "{output:?}");
            let document = document(&output);
            assert_eq!((&document["status"], &document["error"]["blame"]), (&json!("refused"), &json!("host")));
            let why = document["error"]["message"].as_str().expect("a message");
            assert!(why.contains(waiting) && why.contains("cannot be written"), "{why}");
        }
    }
    let output = monohull(folder.path(), &["resume", &checkpoint, "--json"]);
    assert_eq!(document(&output)["output"]["result"]["text"], RESULT, "it is as it was");
}
