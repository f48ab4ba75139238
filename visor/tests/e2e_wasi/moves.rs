//! Slots whose pages become pages of a program's memory, and the other way round.

use crate::memory_program::pattern;
use crate::support::{CHECKS, Function, monohull, run_with, words};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// What the programs import, and a function for what must succeed and one for what must not.
const IMPORTS: &str = r#"
    (import "monohull" "slot_take" (func $take (param i32 i32 i32 i32) (result i32)))
    (import "monohull" "slot_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (import "monohull" "slot_free" (func $free (param i32) (result i32)))
    (import "monohull" "slot_move" (func $move (param i32 i32 i32) (result i32)))
    (import "monohull" "slot_publish_moved" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 80)
    (data (i32.const 0) "in") (data (i32.const 8) "out")
    (func $must (param i32) (if (i32.ne (local.get 0) (i32.const 0)) (then unreachable)))
    (func $refused (param i32) (param i32) (if (i32.ne (local.get 0) (local.get 1)) (then unreachable)))
    ;; Takes the slot `in`: handle and length lie at 32 and 36.
    (func $taken (call $must (call $take (i32.const 0) (i32.const 2) (i32.const 1) (i32.const 32))))
    (func $handle (result i32) (i32.load (i32.const 32)))
    (func $len (result i32) (i32.load (i32.const 36)))
    ;; The sum of so many bytes from an address on.
    (func $sum (param $at i32) (param $len i32) (result i32) (local $sum i32)
        (block $end (loop $next
            (br_if $end (i32.eqz (local.get $len)))
            (local.set $sum (i32.add (local.get $sum) (i32.load8_u (local.get $at))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (local.set $len (i32.sub (local.get $len) (i32.const 1)))
            (br $next)))
        (local.get $sum))
    (func $zero (param $at i32) (param $len i32) (call $must (call $sum (local.get $at) (local.get $len))))
"#;

fn program(start: &str) -> String {
    format!("(module {IMPORTS} (func (export \"_start\") {start}))")
}

fn one_step() -> Value {
    json!({
        "name": "moves",
        "functions": { "app": { "image": "app.so" } },
        "inputs": ["in"],
        "outputs": ["out"],
        "steps": [{ "name": "app", "function": "app" }],
    })
}

/// Runs a workflow with this input; its report.
fn with_input(folder: &Path, document: &Value, input: &str) -> Value {
    fs::write(folder.join("in"), input).expect("written");
    run_with(folder, document, &["--input", &format!("in={}", folder.join("in").display())])
}

#[track_caller]
fn came_out(report: &Value, expected: &str) {
    assert_eq!(report["status"], "done", "{report:#}");
    assert!(report["output"]["out"]["text"] == expected, "the output is another one");
}

/// To a page's beginning or not, as large as is moved or not, in memory with guards or without: the result is the same.
#[test]
fn what_is_moved_arrives_and_leaves_zeros() {
    for checks in CHECKS {
        for place in [65536, 131_072, 65537] {
            let start = format!(
                "(call $taken)
                ;; What is refused leaves the slot as it is.
                (call $refused (call $move (i32.const 7) (i32.const {place}) (call $len)) (i32.const 8))
                (call $refused (call $move (call $handle) (i32.const {place}) (i32.sub (call $len) (i32.const 1))) (i32.const 28))
                (call $refused (call $move (call $handle) (i32.const {place}) (i32.const 0x7fffffff)) (i32.const 21))
                (call $refused (call $move (call $handle) (i32.const -4096) (call $len)) (i32.const 21))
                (call $zero (i32.const {place}) (call $len))
                (i32.store8 (i32.add (i32.const {place}) (call $len)) (i32.const 7))
                (i32.store8 (i32.const {}) (i32.const 8))
                (call $must (call $move (call $handle) (i32.const {place}) (i32.add (call $len) (i32.const 1))))
                (call $refused (call $free (call $handle)) (i32.const 8))
                ;; What is beside it stays.
                (if (i32.ne (i32.load8_u (i32.add (i32.const {place}) (call $len))) (i32.const 7)) (then unreachable))
                (if (i32.ne (i32.load8_u (i32.const {})) (i32.const 8)) (then unreachable))
                (i32.store8 (i32.const {place}) (i32.const 33))
                (call $must (call $publish (i32.const 8) (i32.const 3) (i32.const {place}) (call $len) (i32.const 1)))
                (call $zero (i32.const {place}) (call $len))
                (if (i32.ne (i32.load8_u (i32.add (i32.const {place}) (call $len))) (i32.const 7)) (then unreachable))
                (i32.store8 (i32.const {place}) (i32.const 1))",
                place - 1,
                place - 1
            );
            let function = Function::built(&program(&start), checks);
            for len in [1, 4096, 65535, 65536, 200_001, 4 << 20] {
                let input = pattern(len);
                let report = with_input(function.folder.path(), &one_step(), &input);
                came_out(&report, &format!("!{}", &input[1..]));
            }
        }
    }
}

/// A slot that is filled already refuses the second one, whose bytes are where they were.
#[test]
fn what_cannot_be_published_stays() {
    let start = "(call $taken)
        (call $must (call $move (call $handle) (i32.const 65536) (call $len)))
        (i32.store (i32.const 40) (call $sum (i32.const 65536) (call $len)))
        (memory.copy (i32.const 1048576) (i32.const 65536) (call $len))
        (call $must (call $publish (i32.const 8) (i32.const 3) (i32.const 1048576) (call $len) (i32.const 1)))
        (call $refused (call $publish (i32.const 8) (i32.const 3) (i32.const 65536) (call $len) (i32.const 1)) (i32.const 20))
        (if (i32.ne (call $sum (i32.const 65536) (call $len)) (i32.load (i32.const 40))) (then unreachable))
        ;; No text, no memory, no name.
        (i32.store8 (i32.const 65536) (i32.const 255))
        (call $refused (call $publish (i32.const 0) (i32.const 2) (i32.const 65536) (call $len) (i32.const 1)) (i32.const 25))
        (call $refused (call $publish (i32.const 0) (i32.const 2) (i32.const 65536) (i32.const -1) (i32.const 0)) (i32.const 21))
        (call $refused (call $publish (i32.const 0) (i32.const 0) (i32.const 65536) (call $len) (i32.const 0)) (i32.const 28))
        (i32.store8 (i32.const 65536) (i32.const 48))
        (if (i32.ne (call $sum (i32.const 65536) (call $len)) (i32.load (i32.const 40))) (then unreachable))";
    let function = Function::new(&program(start));
    let input = pattern(150_000);
    came_out(&with_input(function.folder.path(), &one_step(), &input), &input);
}

/// From one program to the next, twice, and back to one that copies.
#[test]
fn a_slot_is_moved_from_program_to_program() {
    let pass = "(call $taken)
        (call $must (call $move (call $handle) (i32.const 65536) (call $len)))
        (i32.store8 (i32.const 65536) (i32.add (i32.load8_u (i32.const 65536)) (i32.const 1)))
        (call $must (call $publish (i32.const 8) (i32.const 3) (i32.const 65536) (call $len) (i32.const 0)))";
    let [first, second] = [("in", "one"), ("one", "two")].map(|(from, to)| {
        let pass = program(pass).replace("\"in\"", &format!("\"{from}\"")).replace("\"out\"", &format!("\"{to}\""));
        Function::new(
            &pass.replace("(i32.const 2) (i32.const 1)", &format!("(i32.const {}) (i32.const 1)", from.len())),
        )
    });
    let copies = "(call $taken)
        (call $must (call $read (call $handle) (i32.const 0) (i32.const 65536) (call $len)))
        (call $must (call $free (call $handle)))
        (call $must (call $publish (i32.const 8) (i32.const 3) (i32.const 65536) (call $len) (i32.const 1)))";
    let third = Function::new(
        &program(copies)
            .replace("\"in\"", "\"two\"")
            .replace("(i32.const 2) (i32.const 1)", "(i32.const 3) (i32.const 1)"),
    );
    let image = |function: &Function| json!({ "image": function.folder.path().join("app.so") });
    let document = json!({
        "name": "moves",
        "functions": { "first": image(&first), "second": image(&second), "third": image(&third) },
        "inputs": ["in"],
        "outputs": ["out"],
        "steps": [
            { "name": "first", "function": "first" },
            { "name": "second", "function": "second", "after": ["first"] },
            { "name": "third", "function": "third", "after": ["second"] },
        ],
    });
    let input = pattern(3 << 20);
    came_out(&with_input(first.folder.path(), &document, &input), &format!("2{}", &input[1..]));
}

/// `wasi/guests/slots`, in Rust, whose allocator gives pages; as large as is moved and not.
#[test]
fn a_program_in_rust_moves_its_slots() {
    let folder = TempDir::new().expect("a folder");
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasi/slots-rust.wasm");
    fs::copy(&built, folder.path().join("app.wasm")).expect("it is built first: run `cargo xtask test`");
    let built = monohull(&["build", folder.path().join("app.wasm").to_str().expect("UTF-8")]);
    assert!(built.status.success(), "{}", words(&built.stderr));
    for len in [7, 300_003] {
        let input = pattern(len).replace('7', "seven");
        came_out(&with_input(folder.path(), &one_step(), &input), &input.to_uppercase());
    }
}

/// A copy of what is moved out counts against the step's limit while both are there, and no more: many are made one after the other.
#[test]
fn what_is_moved_is_charged_as_what_is_copied() {
    let start = "(call $taken)
        (call $must (call $move (call $handle) (i32.const 65536) (call $len)))
        (call $must (call $publish (i32.const 8) (i32.const 3) (i32.const 65536) (call $len) (i32.const 1)))";
    let function = Function::new(&program(start));
    let input = pattern(4 << 20);
    // Five MiB of memory, the runtime's own, and the buffer.
    for (memory, fits) in [("32MiB", true), ("8MiB", false)] {
        let mut document = one_step();
        document["steps"][0]["memory"] = json!(memory);
        let report = with_input(function.folder.path(), &document, &input);
        assert_eq!(report["status"] == "done", fits, "{memory}: {report:#}");
    }
}

/// Pages that came from a slot are captured like any, and are there again in another process.
#[test]
fn moved_pages_are_suspended_and_go_on() {
    let start = "(call $taken)
        (call $must (call $move (call $handle) (i32.const 65536) (call $len)))
        ;; A subscription at 1024: the monotonic clock, in 1.3 s.
        (i32.store (i32.const 1040) (i32.const 1))
        (i64.store (i32.const 1048) (i64.const 1300000000))
        (call $must (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 4096)))
        (call $must (call $publish (i32.const 8) (i32.const 3) (i32.const 65536) (call $len) (i32.const 1)))
        (call $zero (i32.const 65536) (call $len))";
    let function = Function::new(&program(start));
    let folder = function.folder.path();
    let (state, input) = (folder.join("state"), pattern(1_000_001));
    fs::write(folder.join("w.json"), one_step().to_string()).expect("written");
    fs::write(folder.join("in"), &input).expect("written");
    let in_folder = |arguments: &[&str]| -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", &state).current_dir(folder);
        let output = command.args(arguments).stdin(Stdio::null()).output().expect("monohull starts");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words(&output.stderr)))
    };
    let suspended = in_folder(&["run", "w.json", "--suspend", "waiting", "--input", "in=in", "--json"]);
    assert_eq!(suspended["status"], "suspended", "{suspended:#}");
    came_out(&in_folder(&["resume", suspended["checkpoint"].as_str().expect("a path"), "--json"]), &input);
}
