//! `run --suspend` and `resume`: a workflow that waits is a file, and goes on in other processes.

use monohull_abi::layout::PAGE;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn monohull(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.current_dir(folder).args(args).output().expect("the program starts")
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn image(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images").join(name).with_extension("so");
    assert!(path.exists(), "{}: images are built first: run `cargo xtask test`", path.display());
    path
}

/// A workflow of two steps: one naps, the other waits for its slot.
fn workflow(folder: &Path, milliseconds: u64) {
    fs::copy(image("sleeper"), folder.join("sleeper.so")).expect("copied");
    let args =
        |takes: &str, fills: &str| json!({ "naps": 1, "milliseconds": milliseconds, "takes": takes, "fills": fills });
    let document = json!({
        "name": "sleepers",
        "functions": { "sleeper": { "image": "sleeper.so" } },
        "steps": [
            { "name": "first", "function": "sleeper", "args": args("", "between") },
            { "name": "second", "function": "sleeper", "args": args("between", "result") },
        ],
        "outputs": ["result"],
    });
    fs::write(folder.join("w.json"), document.to_string()).expect("written");
}

const RESULT: &str =
    "1 naps, 5 letters, map true, thread true, time true\n1 naps, 5 letters, map true, thread true, time true\n";

fn suspend(folder: &Path) -> PathBuf {
    let output = monohull(folder, &["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let document = document(&output);
    assert_eq!(document["status"], "suspended");
    let waits = document["waits"].as_array().expect("waits");
    assert!(waits.iter().any(|wait| wait["step"] == "second" && wait["what"] == "for a slot"), "{waits:?}");
    folder.join(document["checkpoint"].as_str().expect("a path"))
}

#[test]
fn a_workflow_goes_on_in_other_processes_and_writes_its_outputs() {
    let folder = TempDir::new().expect("a folder");
    workflow(folder.path(), 1_300);
    let output = monohull(folder.path(), &["run", "w.json", "--suspend", "waiting", "--output", "result=result.txt"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("waits       first[0] in a sleep until 2") && text.contains("sleepers suspended"), "{text}");
    let mut resumed = 0;
    loop {
        let mut files =
            fs::read_dir(folder.path().join("waiting")).expect("a folder").map(|entry| entry.expect("an entry").path());
        let checkpoint = files.next().expect("a checkpoint");
        assert!(files.next().is_none(), "there is one");
        // From another folder: paths in it are absolute.
        let path = checkpoint.to_str().expect("a path");
        let waiting = folder.path().join("waiting");
        let output = monohull(Path::new("/"), &["resume", path, "--suspend", waiting.to_str().expect("a path")]);
        fs::remove_file(&checkpoint).expect("it is still there");
        resumed += 1;
        match output.status.code() {
            Some(4) if resumed < 100 => {}
            Some(0) => break,
            _ => panic!("{output:?}"),
        }
    }
    assert!(resumed > 1, "the second step naps too");
    assert_eq!(fs::read_to_string(folder.path().join("result.txt")).expect("the output"), RESULT);
}

/// Each copy of a checkpoint is the same workflow: it can be gone on with more than once.
#[test]
fn a_checkpoint_can_be_resumed_again() {
    let folder = TempDir::new().expect("a folder");
    workflow(folder.path(), 1_300);
    let checkpoint = suspend(folder.path());
    assert!(fs::metadata(&checkpoint).expect("a file").len() < 40 * PAGE, "two small functions");
    for _ in 0..2 {
        let output = monohull(folder.path(), &["resume", checkpoint.to_str().expect("a path"), "--json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let document = document(&output);
        assert_eq!(document["output"]["result"]["text"], RESULT);
        let lines = &document["steps"][0]["instances"][0]["lines"];
        assert_eq!(lines[0]["text"], "nap 0 … slept", "{lines}");
    }
}

#[test]
fn other_images_and_damaged_files_are_refused() {
    let folder = TempDir::new().expect("a folder");
    workflow(folder.path(), 3_600_000);
    let checkpoint = suspend(folder.path());
    let path = checkpoint.to_str().expect("a path");
    let refused = |why: &str| {
        let output = monohull(folder.path(), &["resume", path]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(why), "{text}");
    };
    fs::copy(image("no-op"), folder.path().join("sleeper.so")).expect("copied");
    refused("function `sleeper` is not the one that the workflow was suspended with");
    fs::copy(image("sleeper"), folder.path().join("sleeper.so")).expect("copied");
    let good = fs::read(&checkpoint).expect("a file");
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    fs::write(&checkpoint, &bad).expect("written");
    refused("is damaged");
    fs::write(&checkpoint, "nothing of the kind").expect("written");
    refused("is no checkpoint of Monohull");
    fs::write(&checkpoint, &good).expect("written");
    let output = monohull(folder.path(), &["resume", path, "--suspend", "again"]);
    assert_eq!(output.status.code(), Some(4), "the unchanged one is good: {output:?}");
}
