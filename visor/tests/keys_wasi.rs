//! Traps of WebAssembly programs where protection keys are in force: a fault in a page without access is the program's trap, and it goes on from
//! there in the runtime, with the rights of its cell.
//!
//! Programs are compiled when this program starts, where there is a compiler. The virtual machine with keys has none: it gets what was
//! compiled when it was asked for its tests.

#[path = "support/neighbour.rs"]
mod neighbour;

use libtest_mimic::{Arguments, Failed, Trial};
use monohull_visor::engine::options::folder_beside_program;
use neighbour::{are_traps, attacker, document, victim};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// What each attempt of the program does, and how its trap is called. Its memory has one page.
const TRAPS: [(&str, &str); 10] = [
    ("(drop (i32.load (i32.const 65533)))", "out of bounds memory access"),
    ("(i32.store (i32.const 65536) (i32.const 1))", "out of bounds memory access"),
    ("(drop (i64.load (i32.const -1)))", "out of bounds memory access"),
    ("(i64.store offset=0x1fffff8 (i32.const -1) (i64.const 1))", "out of bounds memory access"),
    ("(i64.store offset=0xffffffff (i32.const -1) (i64.const 1))", "out of bounds memory access"),
    ("unreachable", "unreachable"),
    ("(drop (i32.div_u (i32.const 1) (i32.load (i32.const 0))))", "integer divide by zero"),
    ("(call $again)", "call stack exhausted"),
    ("(call_indirect (i32.const 7))", "undefined element"),
    // Once more: what came before has left nothing behind.
    ("(drop (i32.load (i32.const 65536)))", "out of bounds memory access"),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if folder_beside_program("wasi").is_some_and(|tools| tools.join("compile").exists()) {
        compile();
    }
    let trial = |name: &str, test: fn()| {
        let run = move || {
            test();
            Ok::<_, Failed>(())
        };
        Trial::test(name, run).with_ignored_flag(true)
    };
    let trials = TESTS.iter().map(|(name, test)| trial(name, *test)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// They need protection keys: run by `cargo xtask test --keys`.
const TESTS: &[(&str, fn())] = &[
    ("traps_are_failures_of_the_function", traps_are_failures_of_the_function),
    ("a_program_reaches_neither_its_neighbour_nor_the_visor", a_program_reaches_neither_its_neighbour_nor_the_visor),
];

/// Where the images are.
fn images() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("keys_wasi")
}

/// Makes them, for any processor.
fn compile() {
    let folder = images();
    fs::create_dir_all(&folder).expect("a folder");
    let programs = [
        ("traps", traps()),
        ("attacker", attacker()),
        ("victim", victim("")),
        ("noticing", victim("(i32.store8 (i32.const 1000000) (i32.const 0))")),
    ];
    for (name, text) in programs {
        let program = folder.join(name).with_extension("wasm");
        let module = wat::parse_str(text).expect("a right program");
        if fs::read(&program).is_ok_and(|there| there == module) && newer(&program.with_extension("so")) {
            continue;
        }
        fs::write(&program, module).expect("written");
        let mut build = Command::new(env!("CARGO_BIN_EXE_monohull"));
        let built = build.args(["build", "--cpu", "x86-64-v2"]).arg(&program).output().expect("monohull starts");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
}

/// Whether an image was made since compiler and runtime were.
fn newer(image: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let tools = folder_beside_program("wasi").expect("there is a compiler");
    ["compile", "runtime.so"].iter().all(|tool| time(&tools.join(tool)) < time(image))
}

fn traps() -> String {
    let bodies: String = (1..)
        .zip(TRAPS)
        .map(|(attempt, (body, _))| {
            format!("(if (i32.eq (call $attempt) (i32.const {attempt})) (then {body} return))\n")
        })
        .collect();
    format!(
        r#"(module
            (import "monohull" "attempt" (func $attempt (result i32)))
            (memory (export "memory") 1)
            (table 1 funcref)
            (func $again call $again)
            (func (export "_start")
                {bodies}
                (i32.store (i32.const 65532) (i32.const 7))
                (if (i32.ne (i32.load offset=65532 (i32.const 0)) (i32.const 7)) (then unreachable))))"#
    )
}

/// The report of this workflow, in whose folder the images are.
fn run(name: &str, document: &Value) -> Value {
    let file = images().join(name).with_extension("json");
    fs::write(&file, document.to_string()).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.args(["run", "--json", "--isolation", "mpk"]).arg(&file).stdin(Stdio::null());
    let output = command.output().expect("monohull starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(report["isolation"], "mpk", "{report:#}");
    report
}

fn traps_are_failures_of_the_function() {
    let retry = json!({ "max_attempts": TRAPS.len() + 1, "interval": "1ms", "backoff_rate": 1 });
    let document = json!({
        "name": "test",
        "functions": { "app": { "image": "traps.so" } },
        "steps": [{ "name": "app", "function": "app", "retry": retry }],
    });
    let report = run("traps", &document);
    // What comes after all of them is in bounds.
    assert_eq!(report["status"], "done", "{report:#}");
    let failed = report["steps"][0]["instances"][0]["failed_attempts"].as_array().expect("attempts");
    assert_eq!(failed.len(), TRAPS.len(), "{report:#}");
    for ((body, expected), failed) in TRAPS.iter().zip(failed) {
        let error = &failed["error"];
        let message = error["message"].as_str().unwrap_or_default();
        assert!(error["blame"] == "function" && message.contains(expected), "{body}: {error:#}");
    }
}

/// Each try is a trap, and the neighbour's memory is as it was; with the control that it notices a single byte.
fn a_program_reaches_neither_its_neighbour_nor_the_visor() {
    let mut document = document();
    for (name, out) in [("victim", "\u{1}\0\0\0"), ("noticing", "\0\0\0\0")] {
        document["functions"]["victim"]["image"] = format!("{name}.so").into();
        let report = run(name, &document);
        assert_eq!((&report["status"], &report["output"]["out"]["text"]), (&json!("done"), &json!(out)), "{report:#}");
        are_traps(&report);
    }
}
