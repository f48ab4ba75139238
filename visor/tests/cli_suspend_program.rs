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

/// A workflow with one step in a folder of its own, with the program's image.
fn workflow(image: &str, step: &Value) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(image);
    fs::copy(from, folder.path().join("program.so")).expect("images are built first: run `cargo xtask test`");
    let mut step = step.clone();
    (step["name"], step["function"]) = ("step".into(), "program".into());
    let workflow = json!({
        "name": "program",
        "functions": { "program": { "image": "program.so" } },
        "files": [{ "at": "/tmp", "memory": "16MiB" }],
        "steps": [step],
        "limits": { "timeout": "1h" },
    });
    fs::write(folder.path().join("w.json"), workflow.to_string()).expect("written");
    folder
}

/// What a program has printed that has ended as it should.
#[track_caller]
fn lines(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let done: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = done["steps"][0]["instances"][0]["lines"].as_array().expect("lines");
    lines.iter().map(|line| line["text"].as_str().expect("a text").to_owned()).collect()
}

/// Suspends a workflow as often as it only waits, each time in another process: what it has printed, and how often it was suspended.
fn run_in_parts(folder: &Path) -> (Vec<String>, u32) {
    let mut output = monohull(folder, &["run", "w.json", "--suspend", "waiting", "--json"]);
    let mut parts = 0;
    while output.status.code() == Some(4) {
        parts += 1;
        let suspended: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let checkpoint = suspended["checkpoint"].as_str().expect("a path");
        let verified = monohull(folder, &["checkpoint", "verify", checkpoint]);
        assert!(verified.status.success(), "{verified:?}");
        output = monohull(folder, &["resume", checkpoint, "--suspend", "waiting", "--json"]);
    }
    (lines(&output), parts)
}

/// The program ends with these lines in one part, in several, and with checkpoints on its way.
#[track_caller]
fn goes_on(image: &str, step: &Value, least: u32, expected: &[&str]) {
    let folder = workflow(image, step);
    assert_eq!(lines(&monohull(folder.path(), &["run", "w.json", "--json"])), expected);
    let (lines_in_parts, parts) = run_in_parts(folder.path());
    assert_eq!(lines_in_parts, expected);
    assert!(parts >= least, "suspended {parts} times");
    let durable = ["run", "w.json", "--state", "state", "--id", "one", "--checkpoint-every", "100ms", "--json"];
    assert_eq!(lines(&monohull(folder.path(), &durable)), expected);
    let shown = monohull(folder.path(), &["show", "one", "--state", "state", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert!(shown["generation"].as_u64().is_some_and(|generation| generation >= 1), "{shown:#}");
}

#[test]
fn an_interpreter_goes_on_in_another_process() {
    let step = json!({ "stack": "4MiB", "args": { "argv": ["--std", "-e", SCRIPT] } });
    goes_on("images/quickjs.so", &step, 1, &["waits", "written before Argo true"]);
}

/// Pipes, event counters, pairs of sockets, `poll`, `select` and `epoll`, and a thread in each.
#[test]
fn a_c_program_goes_on_with_all_that_its_threads_wait_for() {
    let step = json!({ "args": { "argv": ["2", "1500"] } });
    goes_on("images/libc-waits.so", &step, 2, &["56 checks, 0 failures"]);
}

/// Its memory is not read before it is touched, whatever is done to it first.
#[test]
fn a_c_program_finds_its_memory_as_it_was() {
    let step = json!({ "args": { "argv": ["1", "1500", "/tmp/file"] }, "memory": "128MiB" });
    goes_on("images/libc-asleep.so", &step, 2, &["62 checks, 0 failures"]);
}

/// tokio with all its features: its runtime waits in `epoll`, its timers there.
#[test]
fn a_runtime_of_tokio_goes_on_in_another_process() {
    goes_on(
        "programs/images/servers.so",
        &json!({ "args": { "naps": 2, "milliseconds": 1500 } }),
        2,
        &[
            "nap 1, received Some(0), reader done: false",
            "nap 2, received Some(1), reader done: false",
            "pair: before, after",
            "late: true",
            "channel: [0, 1, 2], all sent",
            "threads: true, ticks, 1",
            "time: true",
        ],
    );
}

/// SQLite in the midst of a transaction: an open journal, pages that have been written, a question that is half answered.
#[test]
fn a_transaction_of_sqlite_goes_on_in_another_process() {
    goes_on(
        "programs/images/database.so",
        &json!({ "args": { "nap": 1500 } }),
        2,
        &["waits", "nap: 1 to 9000, 9000 rows; ok, 9999 rows"],
    );
}
