//! Fault handlers of functions (`FAULT_HANDLER`): what they get, what ends the instance all the same, and what cannot be registered. The
//! function is `examples/fault-probe`; a bystander beside it must come through.
//!
//! The images come from `cargo xtask build`; `cargo xtask test` does both.

use monohull_visor::domain::keys::support;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The report of a run of `fault-probe`, and of a bystander that handles faults of its own.
fn report(how: &str, fields: Value) -> Value {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/fault-probe.so");
    let mut document = json!({
        "name": "faults",
        "functions": { "probe": { "image": image }, "bystander": { "image": image } },
        "steps": [
            { "name": "probe", "function": "probe", "args": { "how": how }, "timeout": "300s" },
            { "name": "by", "function": "bystander", "args": { "how": "kinds" }, "timeout": "300s" },
        ],
        "limits": { "carriers": 3 },
    });
    let step = fields.as_object().into_iter().flatten();
    step.for_each(|(name, value)| match name.as_str() {
        "timeout" | "memory" => document["steps"][0][name] = value.clone(),
        _ => document[name] = value.clone(),
    });
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("faults.json");
    std::fs::write(&file, document.to_string()).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.args(["run", "--json"]).arg(file).stdin(Stdio::null());
    // On kernels before 6.12 only who asks for keys has them.
    if support().is_available() {
        command.args(["--isolation", "mpk"]);
    }
    let output = command.output().expect("monohull starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{how}: {error}: {said}"))
}

/// What the function has printed.
fn lines(report: &Value) -> Vec<&str> {
    let lines = report["steps"][0]["instances"][0]["lines"].as_array().into_iter().flatten();
    lines.filter_map(|line| line["text"].as_str()).collect()
}

#[track_caller]
fn works(how: &str, line: &str) {
    let report = report(how, json!({}));
    assert_eq!((&report["status"], &lines(&report)[..]), (&json!("done"), &[line][..]), "{how}: {report:#}");
}

/// The instance ends with this kind of failure, and this in the message.
#[track_caller]
fn ends(how: &str, kind: &str, message: &str, fields: Value) {
    let report = report(how, fields);
    let error = &report["error"];
    assert_eq!((&error["step"], &error["kind"]), (&json!("probe"), &json!(kind)), "{how}: {report:#}");
    let said = error["message"].as_str().expect("a message");
    assert!(said.contains(message), "{how}: {said}");
}

#[test]
fn a_handler_gets_memory_faults_illegal_instructions_and_divisions() {
    works("kinds", "all kinds");
}

#[test]
fn threads_fault_each_on_their_own_stack() {
    works("threads", "all threads");
}

#[test]
fn only_stacks_that_are_charged_are_memory() {
    let report = report("stacks", json!({ "memory": "2MiB" }));
    assert_eq!((&report["status"], &lines(&report)[..]), (&json!("done"), &["one stack"][..]), "{report:#}");
}

#[test]
fn a_handler_that_is_replaced_while_threads_fault_is_the_old_or_the_new_one() {
    works("race", "all handled");
}

#[test]
fn entries_and_code_that_are_not_the_callers_own_are_refused() {
    works("refused", "all refused");
}

#[test]
fn an_instance_ends_while_a_thread_of_it_faults_without_end() {
    works("stop", "a thread faults without end");
}

#[test]
fn other_faults_end_the_instance() {
    for (how, kind, message) in [
        ("outside", "illegal-instruction", "the processor refuses"),
        ("removed", "illegal-instruction", "the processor refuses"),
        ("in-handler", "memory-fault", "the null page"),
        ("breakpoint", "trap", "breakpoint"),
        ("system-call", "system-call", "made system call 39 directly"),
        ("privileged", "memory-fault", "needs privilege"),
        ("trusted-memory", "memory-fault", "touched address 0x100000000000"),
        ("anothers-cell", "memory-fault", "touched address"),
    ] {
        ends(how, kind, message, json!({}));
    }
    ends("counter", "time-stamp-counter", "denies", json!({ "time_stamp_counter": "deny" }));
}

#[test]
fn a_stack_pointer_that_is_not_in_the_threads_own_stack_gets_no_record() {
    for how in [
        "stack-null",
        "stack-top",
        "stack-trusted",
        "stack-anothers",
        "stack-heap",
        "stack-guard",
        "stack-of-another-thread",
    ] {
        ends(how, "illegal-instruction", "the processor refuses", json!({}));
    }
}

#[test]
fn faults_without_end_end_at_the_deadline_or_with_the_stack() {
    ends("loop", "timeout", "its timeout", json!({ "timeout": "500ms" }));
    ends("descend", "illegal-instruction", "the processor refuses", json!({}));
}

/// The handler is part of what is captured, and so is memory that the function has mapped.
#[test]
fn a_handler_goes_on_in_another_process() {
    let folder = TempDir::new().expect("a folder");
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/fault-probe.so");
    let document = json!({
        "name": "faults",
        "functions": { "probe": { "image": image } },
        "steps": [{ "name": "probe", "function": "probe", "args": { "how": "sleep" } }],
    });
    std::fs::write(folder.path().join("w.json"), document.to_string()).expect("written");
    let monohull = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", folder.path());
        let output = command.current_dir(folder.path()).args(arguments).output().expect("monohull starts");
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        report
    };
    let suspended = monohull(&["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(suspended["status"], "suspended", "{suspended:#}");
    let report = monohull(&["resume", suspended["checkpoint"].as_str().expect("a path"), "--json"]);
    assert_eq!((&report["status"], &lines(&report)[..]), (&json!("done"), &["before", "after"][..]), "{report:#}");
}
