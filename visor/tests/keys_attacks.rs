//! Attacks on memory with protection keys in force: each is shown to work where nothing should stop it, to fail for the
//! stated reason where something should, and to leave its victim as it was.
//!
//! They need a processor with protection keys. `cargo xtask test --keys` runs them in a virtual machine that has some.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// What one run says: exit status and report.
struct Ran {
    status: Option<i32>,
    report: Value,
}

/// Runs victim and attacker beside each other.
fn run(isolation: &str, separation: &str, what: &str, how: &str, attempts: u32) -> Ran {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/attack-memory.so");
    let document = json!({
        "name": "attack",
        "isolation": separation,
        "functions": { "attack": { "image": image } },
        "steps": [
            { "name": "victim", "function": "attack", "args": { "role": "victim" } },
            {
                "name": "attacker", "function": "attack",
                "args": { "role": "attacker", "what": what, "how": how },
                "retry": { "max_attempts": attempts, "interval": "0s" }
            }
        ]
    });
    let folder =
        std::env::temp_dir().join(format!("attack-{}-{what}-{how}-{attempts}-{separation}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the workflow");
    let file = folder.join("workflow.json");
    std::fs::write(&file, document.to_string()).expect("the workflow");
    let monohull = env!("CARGO_BIN_EXE_monohull");
    let output = Command::new(monohull).args(["run", "--json", "--isolation", isolation]).arg(&file).output();
    let output = output.expect("monohull starts");
    let _ = std::fs::remove_dir_all(folder);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{what} {how}: no report ({error}): {}", String::from_utf8_lossy(&output.stderr))
    });
    Ran { status: output.status.code(), report }
}

impl Ran {
    /// What a step printed.
    fn printed(&self, step: usize) -> Vec<&str> {
        let lines = self.report["steps"][step]["instances"][0]["lines"].as_array();
        lines.into_iter().flatten().filter_map(|line| line["text"].as_str()).collect()
    }
}

/// The attack works: nothing is meant to stop it here, so the attacker is able to do what he tries elsewhere.
#[track_caller]
fn works(isolation: &str, separation: &str, what: &str, how: &str) {
    let ran = run(isolation, separation, what, how, 1);
    assert_eq!((ran.status, &ran.report["status"]), (Some(0), &"done".into()), "{:#}", ran.report);
    assert!(!ran.printed(1).is_empty(), "the attack says what it got: {:#}", ran.report);
}

/// The attack ends the attacker, for this reason; the victim is intact, and the process goes on.
#[track_caller]
fn fails(separation: &str, what: &str, how: &str, reason: &str) {
    let ran = run("mpk", separation, what, how, 1);
    let error = &ran.report["error"];
    assert_eq!(
        (ran.status, &error["kind"], &error["step"]),
        (Some(1), &"memory-fault".into(), &"attacker".into()),
        "{error:#}"
    );
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("protection key denies") && message.contains(reason), "{message}");
    assert_eq!(ran.report["isolation"], "mpk");
    // The same again, but the attacker is tried a second time and then lets the victim go on.
    let ran = run("mpk", separation, what, how, 2);
    assert_eq!((ran.status, &ran.report["steps"][1]["attempts"]), (Some(0), &2.into()), "{:#}", ran.report);
    assert_eq!(ran.printed(0), ["intact"]);
    assert_eq!(ran.printed(1), [] as [&str; 0]);
}

/// Every target of one function in another.
const NEIGHBOUR: [(&str, &str); 9] = [
    ("stack", "read"),
    ("stack", "write"),
    ("heap", "read"),
    ("heap", "write"),
    ("data", "read"),
    ("data", "write"),
    ("code", "read"),
    ("buffer", "read"),
    ("buffer", "write"),
];

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_function_cannot_touch_its_neighbour() {
    for (what, how) in NEIGHBOUR {
        works("mpk", "workflow", what, how);
        let owner = if what == "buffer" { "slot" } else { "memory of another instance, victim[0]" };
        fails("function", what, how, owner);
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn code_of_a_neighbour_runs_with_ones_own_rights() {
    works("mpk", "workflow", "code", "run");
    fails("function", "code", "run", "memory of another instance, victim[0]");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_buffer_that_was_handed_on_is_out_of_reach() {
    for how in ["read", "write"] {
        works("mpk", "workflow", "handed-on", how);
        fails("function", "handed-on", how, "slot");
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn the_info_page_is_read_and_never_written() {
    works("mpk", "workflow", "info-page", "read");
    for what in ["info-page", "selector"] {
        fails("workflow", what, "write", "the info page");
        fails("function", what, "write", "the info page");
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn memory_of_the_gates_is_out_of_reach() {
    for what in ["signal-stack", "carrier"] {
        // Without keys it is there to be read.
        works("process", "workflow", what, "read");
        for how in ["read", "write"] {
            fails("workflow", what, how, "memory of the gates");
        }
    }
}
