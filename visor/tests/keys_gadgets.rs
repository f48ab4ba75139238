//! Attacks with instructions of trusted code, protection keys in force: functions jump to where a WRPKRU and an XRSTOR were.
//!
//! Functions cannot know where libraries lie. The tests pass them the addresses: these are not randomised here, and
//! `monohull doctor` reports where the instructions are.
//!
//! They need a processor with protection keys. `cargo xtask test --keys` runs them in a virtual machine that has some.

use serde_json::{Value, json};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the program where nothing is randomised.
fn monohull(arguments: &[&str]) -> Output {
    with_library(None, arguments)
}

/// The same with one more library in its processes.
fn with_library(library: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.envs(library.map(|library| ("LD_PRELOAD", library)));
    let fixed = || {
        // SAFETY: takes a number; addresses of the program that is about to be executed are not randomised.
        match unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) } {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: a system call, which may be made between fork and exec.
    unsafe { command.pre_exec(fixed) };
    command.args(arguments).output().expect("monohull starts")
}

/// What the program says in JSON.
fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no JSON ({error}): {}", String::from_utf8_lossy(&output.stderr)))
}

/// All gadgets that `doctor` reports.
fn gadgets() -> Vec<Value> {
    let diagnosis = document(&monohull(&["doctor", "--json"]));
    diagnosis["gadgets"].as_array().expect("gadgets").clone()
}

/// Runs victim and attacker beside each other; again if the attacker's slice of time was over in the gadget.
fn attack(isolation: &str, how: &str, gadget: &Value, attempts: u32) -> (Option<i32>, Value) {
    let mut ran = attack_once(isolation, how, gadget, attempts);
    for _ in 1..10 {
        if !ran.1.to_string().contains("was there when its slice of time was over") {
            break;
        }
        ran = attack_once(isolation, how, gadget, attempts);
    }
    ran
}

fn attack_once(isolation: &str, how: &str, gadget: &Value, attempts: u32) -> (Option<i32>, Value) {
    let address = gadget["address"].as_str().and_then(|text| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok());
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/attack-gadgets.so");
    let document = json!({
        "name": "attack",
        "isolation": "function",
        "functions": { "attack": { "image": image } },
        "unread": "ignore",
        "steps": [
            { "name": "victim", "function": "attack", "args": { "role": "victim" } },
            {
                "name": "attacker", "function": "attack",
                "args": { "role": "attacker", "how": how, "address": address.expect("an address") },
                "retry": { "max_attempts": attempts, "interval": "0s" }
            }
        ]
    });
    let folder = std::env::temp_dir().join(format!("attack-{}-{how}-{isolation}-{attempts}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the workflow");
    let file = folder.join("workflow.json");
    std::fs::write(&file, document.to_string()).expect("the workflow");
    let output = monohull(&["run", "--json", "--isolation", isolation, file.to_str().expect("UTF-8")]);
    let _ = std::fs::remove_dir_all(folder);
    (output.status.code(), self::document(&output))
}

/// What a step printed.
fn printed(report: &Value, step: usize) -> Vec<&str> {
    let lines = report["steps"][step]["instances"][0]["lines"].as_array();
    lines.into_iter().flatten().filter_map(|line| line["text"].as_str()).collect()
}

/// The attack works where trusted code is as it was, and ends the attacker where it is not.
#[track_caller]
fn attack_with(kind: &str, object: &str) {
    let how = kind.to_lowercase();
    let gadgets = gadgets();
    let is_meant = |gadget: &&Value| gadget["kind"] == kind && gadget["object"].as_str().unwrap_or("").contains(object);
    let all: Vec<&Value> = gadgets.iter().filter(is_meant).collect();
    assert!(!all.is_empty(), "{gadgets:#?}");
    for gadget in all {
        let (status, report) = attack("process", &how, gadget, 1);
        assert_eq!((status, printed(&report, 1)), (Some(0), vec!["read 0x5ec2e75ec2e75ec2"]), "{report:#}");

        let (status, report) = attack("mpk", &how, gadget, 1);
        let error = &report["error"];
        assert_eq!((status, &error["kind"]), (Some(1), &"illegal-instruction".into()), "{report:#}");
        assert_eq!((&error["step"], &report["isolation"]), (&"attacker".into(), &"mpk".into()), "{report:#}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains(kind) && message.contains("which Monohull has removed"), "{message}");

        let (status, report) = attack("mpk", &how, gadget, 2);
        assert_eq!((status, &report["steps"][1]["attempts"]), (Some(0), &2.into()), "{report:#}");
        assert_eq!((printed(&report, 0), printed(&report, 1)), (vec!["intact"], vec![]));
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn wrpkru_of_libc_is_of_no_use() {
    attack_with("WRPKRU", "libc.so");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn xrstor_of_the_dynamic_linker_is_of_no_use() {
    attack_with("XRSTOR", "ld-linux");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn doctor_lists_the_removed_gadgets() {
    let gadgets = gadgets();
    assert!(gadgets.iter().any(|gadget| gadget["symbol"].as_str().is_some_and(|name| name.starts_with("pkey_set"))));
    for gadget in &gadgets {
        assert!(["overwritten", "displaced"].iter().any(|fate| gadget["fate"] == *fate), "{gadget:#}");
    }
}

/// A library with a WRPKRU inside a constant: a function image whose forbidden instruction is replaced.
fn library_with_a_constant() -> PathBuf {
    const WRGSBASE_RAX: [u8; 5] = [0xf3, 0x48, 0x0f, 0xae, 0xd8];
    const MOV_EAX: [u8; 5] = [0xb8, 0x0f, 0x01, 0xef, 0x00];
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/forbidden-instruction.so");
    let mut bytes = std::fs::read(image).expect("images are built first");
    let at = bytes.windows(5).position(|window| window == WRGSBASE_RAX).expect("its forbidden instruction");
    bytes[at..at + 5].copy_from_slice(&MOV_EAX);
    let path = std::env::temp_dir().join(format!("constant-{}.so", std::process::id()));
    std::fs::write(&path, bytes).expect("the library");
    path
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_gadget_that_cannot_be_removed_disables_keys_and_is_reported() {
    let library = library_with_a_constant();
    let workflow = concat!(env!("CARGO_MANIFEST_DIR"), "/../workflows/no-op.json");
    let by_default = document(&monohull(&["doctor", "--json"]))["isolation"] == "mpk";

    let diagnosis = document(&with_library(Some(&library), &["doctor", "--json"]));
    assert_eq!(diagnosis["isolation"], "process");
    let gadgets = diagnosis["gadgets"].as_array().expect("gadgets");
    assert!(gadgets.iter().any(|gadget| gadget["fate"].as_str().is_some_and(|fate| fate.starts_with("stays"))));

    let output = with_library(Some(&library), &["run", "--isolation", "mpk", workflow]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{words}");
    for part in ["protection keys cannot be put in force", "WRPKRU in ", "constant-", "cannot be removed", "0f 01 ef"] {
        assert!(words.contains(part), "{part}: {words}");
    }

    let output = with_library(Some(&library), &["run", "--json", workflow]);
    let report = document(&output);
    assert_eq!((output.status.code(), &report["isolation"]), (Some(0), &"process".into()), "{report:#}");
    let note = report["isolation_note"].as_str().unwrap_or_default();
    assert_eq!(note.contains("cannot be removed"), by_default, "{report:#}");
    let _ = std::fs::remove_file(library);
}
