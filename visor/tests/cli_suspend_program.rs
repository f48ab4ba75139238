//! `run --suspend` of a program that knows nothing of Monohull: an interpreter that waits for a timer is a file, and goes on elsewhere.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn monohull(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.current_dir(folder).args(args).output().expect("the program starts")
}

/// A script that has a file open and objects in its heap, and goes on with both after a timer.
const SCRIPT: &str = "const file = std.open('/tmp/a.txt', 'w+'), kept = new Map([['ship', { name: 'Argo' }]]), begun = Date.now();\n\
                      file.puts('written before'); print('waits');\n\
                      os.setTimeout(() => { file.seek(0, std.SEEK_SET);\n\
                      print(file.readAsString(), kept.get('ship').name, Date.now() - begun >= 1500); }, 1500);\n";

#[test]
fn an_interpreter_goes_on_in_another_process() {
    let folder = TempDir::new().expect("a folder");
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/quickjs.so");
    fs::copy(image, folder.path().join("quickjs.so")).expect("images are built first: run `cargo xtask test`");
    let step = json!({ "name": "script", "function": "quickjs", "stack": "4MiB", "args": { "argv": ["--std", "-e", SCRIPT] } });
    let workflow = json!({
        "name": "script",
        "functions": { "quickjs": { "image": "quickjs.so" } },
        "files": [{ "at": "/tmp", "memory": "1MiB" }],
        "steps": [step],
    });
    fs::write(folder.path().join("w.json"), workflow.to_string()).expect("written");
    let output = monohull(folder.path(), &["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let suspended: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checkpoint = suspended["checkpoint"].as_str().expect("a path");
    let output = monohull(folder.path(), &["resume", checkpoint, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let done: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = done["steps"][0]["instances"][0]["lines"].as_array().expect("lines");
    let lines: Vec<_> = lines.iter().map(|line| line["text"].as_str().expect("a text")).collect();
    assert_eq!(lines, ["waits", "written before Argo true"]);
}
