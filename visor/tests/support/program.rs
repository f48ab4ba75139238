//! The program `monohull` in a folder with a workflow that waits, for tests of what outlives a process.
#![allow(dead_code, reason = "each test program uses a part")]

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Twice the shortest wait that suspends a workflow: on a busy machine a part of it is over before anything looks.
pub(crate) const NAP: u64 = 2_000;

/// What the workflow of [`write_sleepers`] fills its output with.
pub(crate) const RESULT: &str =
    "1 naps, 5 letters, map true, thread true, time true\n1 naps, 5 letters, map true, thread true, time true\n";

/// The program, ready to start. All tests share one key; it is made by the first of them.
pub(crate) fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.current_dir(folder).args(args);
    command
}

/// Runs the program to its end.
pub(crate) fn monohull(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().expect("the program starts")
}

/// The JSON document that it has printed.
#[track_caller]
pub(crate) fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// It has ended with this exit code, and has said why.
#[track_caller]
pub(crate) fn refused(output: &Output, exit: i32, why: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(exit) && text.contains(why), "{why:?}: {output:?}");
}

/// The image of an example.
pub(crate) fn image(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images").join(name).with_extension("so");
    assert!(path.exists(), "{}: images are built first: run `cargo xtask test`", path.display());
    path
}

/// Writes `w.json`, a workflow of steps with the function `sleeper`, and its image. The slot `result` is its output.
pub(crate) fn write_workflow(folder: &Path, name: &str, steps: &Value) {
    write_workflow_of(folder, name, "sleeper", steps);
}

/// The same with the function of another example.
pub(crate) fn write_workflow_of(folder: &Path, name: &str, function: &str, steps: &Value) {
    let file = format!("{function}.so");
    fs::copy(image(function), folder.join(&file)).expect("copied");
    let document = json!({
        "name": name,
        "functions": { function: { "image": file } },
        "steps": steps,
        "outputs": ["result"],
    });
    fs::write(folder.join("w.json"), document.to_string()).expect("written");
}

/// A workflow of two steps: one naps, the other waits for its slot and naps too. It is suspended at least twice.
pub(crate) fn write_sleepers(folder: &Path, milliseconds: u64) {
    let args =
        |takes: &str, fills: &str| json!({ "naps": 1, "milliseconds": milliseconds, "takes": takes, "fills": fills });
    let steps = json!([
        { "name": "first", "function": "sleeper", "args": args("", "between") },
        { "name": "second", "function": "sleeper", "args": args("between", "result") },
    ]);
    write_workflow(folder, "sleepers", &steps);
}

/// A workflow that became a file.
pub(crate) struct Suspended {
    /// What the program said then.
    pub(crate) document: Value,
    /// The file, from the folder on.
    pub(crate) checkpoint: String,
}

/// Runs a workflow of one function, whose image is an example of the same name, until it only waits. Its output is `result.txt`.
#[track_caller]
pub(crate) fn suspend(folder: &Path, function: &str, workflow: &Value) -> Suspended {
    let mut workflow = workflow.clone();
    workflow["functions"][function]["image"] = json!(image(function));
    fs::write(folder.join("w.json"), workflow.to_string()).expect("written");
    let output =
        monohull(folder, &["run", "w.json", "--suspend", "waiting", "--output", "result=result.txt", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let document = document(&output);
    let checkpoint = document["checkpoint"].as_str().expect("a path").to_owned();
    Suspended { document, checkpoint }
}

impl Suspended {
    /// Whether a step waits for this.
    pub(crate) fn waits(&self, step: &str, what: &str) -> bool {
        let waits = self.document["waits"].as_array().expect("waits");
        waits.iter().any(|wait| wait["step"] == step && wait["what"] == what)
    }

    /// What `monohull checkpoint describe` says of the file.
    pub(crate) fn described(&self, folder: &Path) -> String {
        let described = monohull(folder, &["checkpoint", "describe", &self.checkpoint]);
        assert_eq!(described.status.code(), Some(0), "{described:?}");
        String::from_utf8(described.stdout).expect("text")
    }
}
