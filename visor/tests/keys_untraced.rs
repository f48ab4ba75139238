//! Where tracing is refused: some sandboxes refuse it to all processes. With protection keys in force a kernel before 6.12 then
//! cannot deliver the signal of a fault. The fault ends the whole process, and the report says so. Newer kernels need no tracing.

#[path = "support/refusal.rs"]
mod refusal;
mod serve_support;

use monohull_visor::domain::keys::by_default;
use refusal::refuse;
use serde_json::{Value, json};
use serve_support::{Server, StateFolder, image, single};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The visor that ships, from `cargo xtask build`.
fn visor() -> PathBuf {
    let profiles = Path::new(env!("CARGO_BIN_EXE_monohull")).ancestors().nth(2);
    profiles.expect("cargo builds in folders").join("release/monohull")
}

/// To be started where `ptrace` is answered with an error.
fn untraced() -> Command {
    let mut command = Command::new(visor());
    refuse(&mut command, libc::SYS_ptrace);
    command
}

/// The report of a run of this function.
fn run(image_of: &str, args: &Value, more: &Value) -> (Option<i32>, Value) {
    let mut document = single("untraced", image_of, more);
    document["steps"][0]["args"] = args.clone();
    document["functions"]["f"]["image"] = json!(image(image_of));
    let folder = tempfile::tempdir().expect("a folder for the workflow");
    let file = folder.path().join("workflow.json");
    std::fs::write(&file, document.to_string()).expect("the workflow");
    let mut command = untraced();
    command.args(["run", "--json", "--isolation", "mpk"]).arg(&file).stdin(Stdio::null());
    let output = command.output().expect("the visor starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (output.status.code(), report)
}

/// A fault of the function is attributed to it, even if the kernel reports no details.
#[track_caller]
fn is_reported(error: &Value, kind: &str, words: &str) {
    let message = error["message"].as_str().unwrap_or_default();
    if by_default() {
        assert_eq!(error["kind"], kind, "{error:#}");
        assert!(message.contains(words), "{error:#}");
        return;
    }
    assert_eq!((&error["kind"], &error["blame"]), (&json!("process"), &json!("function")), "{error:#}");
    let words =
        "was ended by SIGSEGV: this kernel reports no more while protection keys are in force (Linux 6.12 does)";
    assert!(message.contains(words), "{error:#}");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_correct_function_needs_no_tracing() {
    let (status, report) = run("no-op", &json!({}), &json!({}));
    assert_eq!(
        (status, &report["status"], &report["isolation"]),
        (Some(0), &json!("done"), &json!("mpk")),
        "{report:#}"
    );
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_fault_ends_the_process_and_the_report_explains_its_gaps() {
    for (how, kind, words) in [
        ("null-write", "memory-fault", "the null page"),
        ("raw-system-call", "system-call", "made system call"),
        ("divide-by-zero", "arithmetic", "divided an integer by zero"),
    ] {
        let (status, report) = run("misbehave", &json!({ "how": how }), &json!({}));
        assert_eq!(status, Some(1), "{how}: {report:#}");
        is_reported(&report["error"], kind, words);
    }
    // A deadline that is missed in a loop is a signal too.
    let (status, report) = run("misbehave", &json!({ "how": "endless-loop" }), &json!({ "timeout": "200ms" }));
    assert_eq!(status, Some(1), "{report:#}");
    is_reported(&report["error"], "timeout", "ran longer than 200ms");
}

/// The process is one invocation's alone.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_process_that_ends_so_ends_alone() {
    let server = Server::start_by(untraced(), &StateFolder::new(), &["--isolation", "mpk"], &[]);
    server.put_shipped("echo.json");
    server.put_example("misbehave");
    server.put_workflow(&single("fault", "misbehave", &json!({ "args": { "how": "null-write" } })));
    server.put_workflow(&single("sleep", "misbehave", &json!({ "args": { "how": "sleep" } })));
    let sleeper = server.post("/async-invoke/sleep", b"").expect(202).json();
    serve_support::eventually("it runs", || server.get("/healthz").expect(200).json()["running"] == 1);
    let answer = server.post("/invoke/fault", b"").expect(502).json();
    is_reported(&answer["error"], "memory-fault", "the null page");
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    let location = sleeper["location"].as_str().expect("a location");
    assert_eq!(server.get(location).expect(200).json()["status"], "running", "its neighbour goes on");
}
