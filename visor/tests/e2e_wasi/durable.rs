//! Durable calls, effects, going back and templates of programs for WASI, from programs in C and Rust (`wasi/guests/c/durable.c`, `wasi/guests/durable`), and
//! what wrong arguments of the imports behind them give.

use super::program::{command, document, monohull, refused};
use super::serve_support::{Server, eventually};
use super::stops::{copy, traced};
use super::support::{CHECKS, Function, merge, words, words_of};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use tempfile::TempDir;

/// How many of the stops of a process are tried at which it is killed.
const TRIED: usize = 6;

/// The image of the program in C, compiled once.
fn in_c() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| compiled("durable-c"))
}

/// That of the program in Rust.
fn in_rust() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| compiled("durable-rust"))
}

pub(super) fn compiled(name: &str) -> Vec<u8> {
    let folder = TempDir::new().expect("a folder");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasi").join(name).with_extension("wasm");
    let (program, to) = (program.to_str().expect("UTF-8"), folder.path().to_str().expect("UTF-8"));
    let built = super::support::monohull(&["build", program, "--out", to]);
    assert!(built.status.success(), "programs are built first, by `cargo xtask test`: {}", words(&built.stderr));
    fs::read(folder.path().join(name).with_extension("so")).expect("the image")
}

/// A workflow of one step that does this, with more fields of the step and of the workflow.
fn workflow(name: &str, act: &str, step: &Value, more: &Value) -> Value {
    let mut whole = json!({ "name": "app", "function": "app", "args": { "act": act } });
    merge(&mut whole, step.clone());
    let mut document = json!({
        "name": name,
        "functions": { "app": { "image": "app.so" } },
        "steps": [whole],
        "files": [{ "at": "/work", "memory": "1MiB" }],
    });
    merge(&mut document, more.clone());
    document
}

/// A folder with the image in C and such a workflow.
fn folder(act: &str, step: &Value, more: &Value) -> TempDir {
    folder_of(in_c(), act, step, more)
}

fn folder_of(image: &[u8], act: &str, step: &Value, more: &Value) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("app.so"), image).expect("written");
    fs::write(folder.path().join("w.json"), workflow("app", act, step, more).to_string()).expect("written");
    folder
}

fn nothing() -> Value {
    json!({})
}

/// Starts the invocation `one`, up to its first wait; its process has ended then.
#[track_caller]
fn begin(folder: &Path) {
    let output = monohull(folder, &["run", "w.json", "--state", "state", "--id", "one", "--detach", "--json"]);
    assert_eq!((output.status.code(), &document(&output)["status"]), (Some(4), &json!("suspended")), "{output:?}");
}

#[track_caller]
fn done(folder: &Path, args: &[&str]) {
    let output = monohull(folder, &[args, &["--state", "state"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

fn show(folder: &Path, id: &str) -> Value {
    document(&monohull(folder, &["show", id, "--state", "state", "--json"]))
}

/// What the only instance of a report's step has printed.
fn lines(report: &Value) -> Vec<&str> {
    let lines = report["steps"][0]["instances"][0]["lines"].as_array().into_iter().flatten();
    lines.map(|line| line["text"].as_str().expect("a text")).collect()
}

/// Runs a command on the state folder, and gives the lines that the step `app` has printed meanwhile.
#[track_caller]
fn says(folder: &Path, args: &[&str], code: i32) -> Vec<String> {
    let output = monohull(folder, &[args, &["--state", "state"]].concat());
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let lines = words(&output.stdout);
    lines.lines().filter_map(|line| line.strip_prefix("app[0] | ").map(str::to_owned)).collect()
}

const WAKE: [&str; 3] = ["wake", "--wait", "--skip-time"];

/// Runs it at once, in one process: its report.
fn run(folder: &Path, more: &[&str]) -> Value {
    document(&monohull(folder, &[&["run", "w.json", "--json"], more].concat()))
}

#[track_caller]
fn is_trap(error: &Value) {
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("out of bounds memory access"), "{error:#}");
    // Where it was.
    assert!(message.contains("behind_the_memory") && message.contains("main"), "{message}");
    assert_eq!(error["blame"], "function", "{error:#}");
}

#[test]
fn a_program_sleeps_for_a_month_without_a_process_and_its_memory_stays() {
    let folder = folder("sleep", &nothing(), &nothing());
    begin(folder.path());
    let row = show(folder.path(), "one");
    assert_eq!((&row["status"], &row["published"]["where"]), (&json!("suspended"), &json!("asleep")), "{row:#}");
    let said = says(folder.path(), &WAKE, 0);
    assert_eq!(said, ["memory as it was, file: written before, a month later: 1", "grown: 7"]);
    assert_eq!(show(folder.path(), "one")["status"], "completed");
}

/// The handler of faults is there again in the new process, and knows the frames of the old one.
#[test]
fn a_trap_after_a_restore_is_the_error_that_it_was() {
    let folder = folder("sleep", &json!({ "args": { "act": "sleep", "traps": "yes" } }), &nothing());
    let at_once = run(folder.path(), &["--skip-time"]);
    is_trap(&at_once["error"]);
    begin(folder.path());
    let woken = monohull(folder.path(), &["wake", "--wait", "--skip-time", "--state", "state", "--json"]);
    assert_eq!(document(&woken)["ran"][0]["status"], "failed", "{woken:?}");
    let report = show(folder.path(), "one")["report"].clone();
    is_trap(&report["error"]);
    assert_eq!(report["error"]["message"], at_once["error"]["message"]);
    assert_eq!(lines(&report).last(), Some(&"grown: 7"), "{report:#}");
}

#[test]
fn events_are_taken_and_a_wait_for_one_ends_in_time() {
    let folder = folder("wait", &nothing(), &nothing());
    let path = folder.path();
    fs::write(path.join("receipt"), "r-4711").expect("written");
    begin(path);
    done(path, &["send", "one", "paid", "--data", "r-4711"]);
    assert_eq!(says(path, &["wake"], 0), ["paid: r-4711"]);
    assert_eq!(show(path, "one")["status"], "suspended", "it waits for another one");
    done(path, &["send", "one", "cancelled", "--data", "r-4711"]);
    assert_eq!(says(path, &["wake"], 0), ["cancelled: r-4711", "another: 1"]);
    assert_eq!(show(path, "one")["status"], "completed");
    // Nobody pays.
    let events = ["--skip-time", "--event", "shipped=receipt"];
    assert_eq!(lines(&run(path, &events)), ["waits", "late", "shipped: r-4711", "another: 1"]);
}

#[test]
fn an_invocation_is_taken_back_to_a_save_point() {
    let folder = folder("save", &nothing(), &nothing());
    let path = folder.path();
    begin(path);
    let elsewhere = ["rewind", "one", "--to", "elsewhere", "--state", "state"];
    refused(&monohull(path, &elsewhere), 2, "has no checkpoint `elsewhere`");
    done(path, &["rewind", "one", "--to", "here"]);
    assert_eq!(says(path, &WAKE, 0), ["came back", "done"]);
}

#[test]
fn copies_of_an_invocation_know_which_they_are() {
    let folder = folder("fork", &nothing(), &nothing());
    let path = folder.path();
    assert_eq!(says(path, &["run", "w.json", "--id", "one"], 0), ["copy 0"]);
    let mut said = says(path, &["wake", "--wait"], 0);
    said.sort();
    assert_eq!(said, ["copy 1", "copy 2"]);
}

/// Whatever is killed, each event is there once.
#[test]
fn a_process_that_is_killed_loses_nothing() {
    let whole = folder("wait", &nothing(), &nothing());
    let path = whole.path();
    begin(path);
    done(path, &["send", "one", "paid", "--data", "r-4711"]);
    done(path, &["send", "one", "shipped", "--data", "r-4711"]);
    copy(&path.join("state"), &path.join("whole"));
    let stops = traced(path, &["wake", "--state", "whole"], usize::MAX);
    for tried in 0..TRIED {
        let state = format!("killed-{tried}");
        copy(&path.join("state"), &path.join(&state));
        traced(path, &["wake", "--state", &state], stops * tried / TRIED);
        eventually("it ends", || {
            // The worker may live for a moment longer, and with it the lock.
            assert_eq!(command(path, &["wake", "--state", &state]).status().expect("it starts").code(), Some(0));
            let row = document(&monohull(path, &["show", "one", "--state", &state, "--json"]));
            let has_ended = row["status"] == "completed";
            if has_ended {
                let came = json!({ "paid": "r-4711", "shipped": "r-4711", "another": "1" });
                assert_eq!(row["report"]["published"], came, "killed at {tried}");
            }
            has_ended
        });
    }
}

#[test]
fn a_program_goes_back_in_its_memory_and_traps_afterwards_are_traps() {
    let back = folder("back", &nothing(), &nothing());
    assert_eq!(lines(&run(back.path(), &[])), ["6 times 7 is 42", "unknown: 1"]);
    let traps = folder("back", &json!({ "args": { "act": "back", "traps": "yes" } }), &nothing());
    let report = run(traps.path(), &[]);
    assert_eq!(lines(&report), ["6 times 7 is 42", "unknown: 1"]);
    is_trap(&report["error"]);
}

#[test]
fn effects_are_asked_for_and_handled() {
    let folder = folder("ask", &nothing(), &nothing());
    let mut document = workflow("app", "ask", &nothing(), &nothing());
    let handler = json!({ "name": "handler", "function": "app", "handles": "blob", "args": { "act": "handle" } });
    document["steps"].as_array_mut().expect("steps").push(handler);
    fs::write(folder.path().join("w.json"), document.to_string()).expect("written");
    let report = run(folder.path(), &[]);
    assert_eq!(report["status"], "done", "{report:#}");
    let printed = lines(&report);
    assert_eq!(printed[0], "reply: <logo");
    assert!(printed[1].starts_with("failed: ") && printed[1].contains("handler"), "{printed:?}");
}

#[test]
fn children_are_started_and_joined() {
    let folder = folder("parent", &nothing(), &json!({ "starts": ["child"] }));
    let path = folder.path();
    let slots = json!({ "inputs": ["in"], "outputs": ["out"] });
    fs::write(path.join("child.json"), workflow("child", "child", &nothing(), &slots).to_string()).expect("written");
    let said = says(path, &["run", "w.json", "--id", "one", "--skip-time"], 0);
    assert_eq!(said, ["good: 0, 17!", "none: 1", "bad: 1, 1"]);
}

#[test]
fn what_is_refused_has_the_numbers_of_native_programs_and_a_reason() {
    let folder = folder("refusals", &nothing(), &nothing());
    let report = run(folder.path(), &[]);
    let printed = lines(&report);
    assert_eq!(printed.len(), 9, "{report:#}");
    let numbers = [-22, -1, -1, -2, -1, -2, -2, -2];
    let calls = ["event", "send", "start", "perform", "fork", "forget", "handed over", "output"];
    for ((call, number), line) in calls.iter().zip(numbers).zip(&printed) {
        assert_eq!(*line, format!("{call} {number}"));
    }
    assert!(printed[8].contains("name"), "{printed:?}");
}

#[test]
fn a_program_starts_where_it_was_ready() {
    let server = Server::start_with(&["--prefork", "2"]);
    let answer = server.ask("PUT", "/functions/app", in_c());
    assert!([200, 201].contains(&answer.status), "{}", answer.text());
    let slots = json!({
        "functions": { "app": { "image": "function:app" } }, "inputs": ["in"], "outputs": ["out"], "files": [],
    });
    server.put_workflow(&workflow("app", "ready", &nothing(), &slots));
    let invoke = |input: &str| {
        let answer = server.post("/invoke/app", input.as_bytes());
        let report = server.get(&format!("/invocations/{}", answer.headers["x-invocation-id"])).expect(200).json();
        (answer.text(), report["report"].clone())
    };
    let (ordinary, report) = invoke("first");
    assert!(ordinary.starts_with("main ") && ordinary.ends_with(" first"), "{ordinary}: {report:#}");
    eventually("it starts from a template", || invoke("text").0.starts_with("template "));
    let (later, report) = invoke("second");
    assert_eq!(later, ordinary.replace("main", "template").replace("first", "second"), "{report:#}");
    assert_eq!(report["start"], json!({ "kind": "template" }));
    let (_, report) = invoke("! a trap");
    is_trap(&report["error"]);
    assert_eq!(report["start"], json!({ "kind": "template" }));
}

#[test]
fn a_program_in_rust_waits_as_a_native_function_does() {
    let folder = folder_of(in_rust(), "month", &nothing(), &nothing());
    let path = folder.path();
    begin(path);
    assert_eq!(show(path, "one")["published"]["where"], "asleep");
    let slept = ["kept: true", "a month later: true", "generation: true", "one/app/0/pay/0", "went on", "None"];
    assert_eq!(says(path, &WAKE, 0), slept);
    done(path, &["rewind", "one", "--to", "here"]);
    done(path, &["send", "one", "paid", "--data", "17"]);
    assert_eq!(says(path, &["wake", "--wait"], 0), ["came back", "Some([49, 55])"]);
    done(path, &["send", "one", "go"]);
    let said = says(path, &["wake"], 0);
    let refused =
        "true sending event `paid` to `other`: the workflow file does not permit it: `sends_to` names no workflow";
    assert_eq!(said, ["None 41", refused]);
}

#[test]
fn a_program_in_rust_makes_copies_and_goes_back() {
    let copies = folder_of(in_rust(), "copies", &nothing(), &nothing());
    let path = copies.path();
    let said = says(path, &["run", "w.json", "--id", "one"], 0);
    let row = show(path, "one");
    let ids: Vec<&str> =
        row["forks"].as_array().expect("a list").iter().map(|id| id.as_str().expect("an id")).collect();
    assert_eq!(said, [format!("2 copies: {}", ids.join(" "))]);
    let mut said = says(path, &["wake", "--wait"], 0);
    said.sort();
    assert_eq!(said, ["copy 1 of 2", "copy 2 of 2"]);
    let back = folder_of(in_rust(), "back", &nothing(), &nothing());
    assert_eq!(lines(&run(back.path(), &[])), ["6 times 7 is 42"]);
}

#[test]
fn a_program_in_rust_asks_for_effects_and_starts_children() {
    let folder = folder_of(in_rust(), "ask", &nothing(), &nothing());
    let path = folder.path();
    let mut document = workflow("app", "ask", &nothing(), &nothing());
    let handler = json!({ "name": "handler", "function": "app", "handles": "blob", "args": { "act": "handle" } });
    document["steps"].as_array_mut().expect("steps").push(handler);
    fs::write(path.join("w.json"), document.to_string()).expect("written");
    let printed = run(path, &[]);
    assert_eq!(lines(&printed), ["<logo", "no step of the workflow handles effect `nobody`", "true"], "{printed:#}");
    let slots = json!({ "inputs": ["in"], "outputs": ["out"] });
    fs::write(path.join("child.json"), workflow("child", "child", &nothing(), &slots).to_string()).expect("written");
    let parent = workflow("app", "parent", &nothing(), &json!({ "starts": ["child"] }));
    fs::write(path.join("w.json"), parent.to_string()).expect("written");
    let said = says(path, &["run", "w.json", "--id", "one", "--skip-time"], 0);
    assert_eq!(said, ["one true", "Completed Some([51, 52])"]);
}

#[test]
fn a_program_in_rust_has_slots_of_bytes_and_texts() {
    let slots = json!({ "inputs": ["in", "binary"], "outputs": ["out"] });
    let folder = folder_of(in_rust(), "slots", &nothing(), &slots);
    let path = folder.path();
    fs::write(path.join("in"), "text").expect("written");
    fs::write(path.join("binary"), vec![0xff; 100_000]).expect("written");
    let report = run(path, &["--input", "in=in", "--input", "binary=binary", "--output", "out=out"]);
    let never = "true no instance is left that could fill slot `never`";
    assert_eq!(lines(&report), ["true true", "true", never], "{report:#}");
    let out = fs::read_to_string(path.join("out")).expect("the output");
    assert!(out.len() == 200_011 && out.starts_with("TEXT 100000..."), "{}", out.len());
}

/// Names and types of the imports of the module `monohull` that this file is about: `i` is an `i32` and `I` an `i64`. They return an `i32`.
const IMPORTS: &[(&str, &str)] = &[
    ("cancel_child", "ii"),
    ("capture", "iii"),
    ("checkpoint", "ii"),
    ("child_id", "iiii"),
    ("child_output", "iiiii"),
    ("continuation", "i"),
    ("continuation_free", "ii"),
    ("continuation_publish", "iii"),
    ("continuation_resume", "iii"),
    ("continuation_take", "iii"),
    ("continuation_wait", "Ii"),
    ("event", "iiIi"),
    ("forget", "I"),
    ("fork", "ii"),
    ("handed_over", "iii"),
    ("join", "iiIi"),
    ("last_error", "ii"),
    ("perform", "iiiii"),
    ("rewind", "Iii"),
    ("send", "iiiiii"),
    ("start_child", "iiiiiii"),
    ("state", "iiii"),
    ("text", "iii"),
];

/// A program that imports all of them, runs `body`, and publishes words from 1024 on. It has one page of memory, with `data` at its start.
pub(super) fn program(data: &str, body: &str, results: usize) -> String {
    let mut text = String::from("(module\n");
    for (name, types) in IMPORTS {
        let parameters: String = types.chars().map(|kind| if kind == 'i' { " i32" } else { " i64" }).collect();
        text += &format!("(import \"monohull\" \"{name}\" (func ${name} (param{parameters}) (result i32)))\n");
    }
    text += "(import \"monohull\" \"number\" (func $number (param i32) (result i64)))
        (import \"monohull\" \"slot_take\" (func $take (param i32 i32 i32 i32) (result i32)))
        (import \"monohull\" \"slot_read\" (func $read (param i32 i32 i32 i32) (result i32)))
        (import \"monohull\" \"slot_move\" (func $move (param i32 i32 i32) (result i32)))
        (import \"monohull\" \"slot_free\" (func $free (param i32) (result i32)))
        (import \"monohull\" \"slot_publish\" (func $publish (param i32 i32 i32 i32 i32) (result i32)))\n";
    text +=
        &format!("(memory (export \"memory\") 1)\n(data (i32.const 0) \"{data}\")\n(data (i32.const 1000) \"out\")\n");
    text += &format!("(func (export \"_start\")\n{body}\n");
    let publish = format!("(i32.const 1000) (i32.const 3) (i32.const 1024) (i32.const {}) (i32.const 0)", results * 4);
    text + &format!("(call $publish {publish}) if unreachable end))")
}

/// Instructions that keep what these give as word `index` of the results.
pub(super) fn kept(index: usize, what: &str) -> String {
    format!("(i32.store (i32.const {}) {what})\n", 1024 + index * 4)
}

/// Runs a program and gives its words, as signed numbers.
#[track_caller]
fn numbers(function: &Function, more: &[&str]) -> Vec<i32> {
    let document = json!({
        "name": "test", "functions": { "app": { "image": "app.so" } },
        "steps": [{ "name": "app", "function": "app" }], "outputs": ["out"],
    });
    let report = super::support::run_with(function.folder.path(), &document, more);
    words_of(&report).into_iter().map(|word| word as i32).collect()
}

#[test]
fn every_import_refuses_addresses_outside_of_the_memory() {
    // All bits set: an address behind all memory, a length that wraps it around.
    let calls = IMPORTS.iter().enumerate().map(|(index, (name, types))| {
        let arguments: String =
            types.chars().map(|kind| if kind == 'i' { "(i32.const -1)" } else { "(i64.const -1)" }).collect();
        kept(index, &format!("(call ${name} {arguments})"))
    });
    let text = program("intact", &calls.collect::<String>(), IMPORTS.len());
    for options in CHECKS {
        let results = numbers(&Function::built(&text, options), &[]);
        for ((name, _), result) in IMPORTS.iter().zip(results) {
            // What cannot be explained has no explanation.
            assert_eq!(result < 0, *name != "last_error", "{name}: {result}");
        }
    }
}

/// Of a right call one address or length is wrong by one. Nothing is taken, and nothing sent.
#[test]
fn an_answer_that_does_not_fit_takes_nothing() {
    let edge = 65536;
    let event = |at: u32, len: i64, out: u32| {
        format!("(call $event (i32.const {at}) (i32.const {len}) (i64.const 0) (i32.const {out}))")
    };
    let handle = "(i32.load (i32.const 512))";
    let calls = [
        event(0, 4, edge - 7),
        event(0, 4, edge),
        event(edge - 3, 4, 512),
        event(edge - 4, 5, 512),
        event(0, -1, 512),
        format!("(call $state (i32.const 0) (i32.const 4) (i32.const {}) (i32.const 17))", edge - 16),
        "(call $state (i32.const 0) (i32.const 4) (i32.const 16) (i32.const -8))".into(),
        format!("(call $text (i32.const 6) (i32.const {}) (i32.const 17))", edge - 16),
        "(call $text (i32.const 99) (i32.const 16) (i32.const 8))".into(),
        format!("(call $capture (i32.const {}) (i32.const 16) (i32.const 512))", edge - 7),
        format!("(call $capture (i32.const 16) (i32.const 16) (i32.const {}))", edge - 3),
        format!("(call $perform (i32.const 0) (i32.const 4) (i32.const {edge}) (i32.const 1) (i32.const 512))"),
        // The control: the event is still there, once, and its content is read where it fits.
        event(0, 4, 512),
        event(0, 4, 520),
        "(i32.load (i32.const 516))".into(),
        format!("(call $read {handle} (i32.const 0) (i32.const {}) (i32.const 6))", edge - 5),
        format!("(call $move {handle} (i32.const {}) (i32.const 6))", edge - 5),
        format!("(call $move {handle} (i32.const 16) (i32.const 5))"),
        format!("(call $move {handle} (i32.const {}) (i32.const 6))", edge - 6),
        format!("(call $read {handle} (i32.const 0) (i32.const 16) (i32.const 6))"),
        format!("(call $free {handle})"),
        format!("(i32.eq (i32.load (i32.const {})) (i32.const 0x3734_2d72))", edge - 6),
        // What is no number of the instance's, but an address of the runtime's, or what the processor has.
        "(i32.wrap_i64 (call $number (i32.const 7)))".into(),
        "(i32.wrap_i64 (call $number (i32.const 16)))".into(),
        "(i32.wrap_i64 (call $number (i32.const -1)))".into(),
        "(i32.wrap_i64 (call $number (i32.const 13)))".into(),
    ];
    let body: String = calls.iter().enumerate().map(|(index, call)| kept(index, call)).collect();
    for options in CHECKS {
        let function = Function::built(&program("paid", &body, calls.len()), options);
        fs::write(function.folder.path().join("receipt"), "r-4711").expect("written");
        let event = format!("paid={}", function.folder.path().join("receipt").display());
        let results = numbers(&function, &["--event", &event]);
        let (fault, invalid) = (-14, -22);
        assert_eq!(
            results[..12],
            [fault, fault, fault, fault, invalid, fault, fault, fault, invalid, fault, fault, fault]
        );
        // Errors of slots are WASI's: 21 is an address, 28 a length, 8 a handle.
        // A run to which no more events can come says so (-1).
        assert_eq!(results[12..], [0, -1, 6, 21, 21, 28, 0, 8, 8, 1, invalid, invalid, invalid, 0]);
    }
}

#[test]
fn a_program_ends_itself_with_a_reason() {
    let failure = |permanent: u32, at: i64, len: i64| {
        let text = format!(
            "(module (import \"monohull\" \"fail\" (func $fail (param i32 i32 i32)))
                (memory (export \"memory\") 1) (data (i32.const 65529) \"no such\")
                (func (export \"_start\") (call $fail (i32.const {permanent}) (i32.const {at}) (i32.const {len})) unreachable))"
        );
        let report = Function::new(&text).run(nothing(), nothing());
        assert_eq!(
            (&report["status"], &report["error"]["blame"]),
            (&json!("failed"), &json!("function")),
            "{report:#}"
        );
        (report["error"]["kind"].clone(), report["error"]["message"].as_str().unwrap_or_default().to_owned())
    };
    let (kind, message) = failure(1, 65529, 7);
    assert_eq!((kind, message.contains("no such")), (json!("permanent"), true), "{message}");
    let (kind, message) = failure(0, 65529, 8);
    assert!(
        kind != "permanent" && !message.contains("no such") && !message.contains("unreachable"),
        "{kind}: {message}"
    );
}

/// Memory that was added after a capture is not there after going back, and what is behind the end is a trap again.
#[test]
fn memory_that_has_grown_is_as_it_was_after_going_back() {
    let body = |last: &str| {
        format!(
            "(local $again i32)
            (i32.store (i32.const 16) (i32.const 4))
            (drop (memory.grow (i32.const 1)))
            (i32.store (i32.const 131000) (i32.const 77))
            (local.set $again (call $capture (i32.const 8) (i32.const 20) (i32.const 16)))
            (if (i32.lt_s (local.get $again) (i32.const 0)) (then unreachable))
            {}{}{}
            (if (i32.eqz (local.get $again)) (then
                (drop (memory.grow (i32.const 3)))
                (i32.store (i32.const 131000) (i32.const 78))
                (i32.store (i32.const 196600) (i32.const 79))
                (i32.store (i32.const 24) (i32.const 0x64636261))
                (drop (call $rewind (i64.load (i32.const 8)) (i32.const 24) (i32.const 4)))
                unreachable))
            {last}",
            kept(0, "(memory.size)"),
            kept(1, "(i32.load (i32.const 131000))"),
            kept(2, "(i32.load (i32.const 20))"),
        )
    };
    // What comes again is zero.
    let grown = kept(3, "(memory.grow (i32.const 3))") + &kept(4, "(i32.load (i32.const 196600))");
    for options in CHECKS {
        let function = Function::built(&program("", &body(&grown), 5), options);
        assert_eq!(numbers(&function, &[]), [2, 77, 0x6463_6261, 2, 0]);
        let function = Function::built(&program("", &body("(drop (i32.load (i32.const 131072)))"), 5), options);
        let report = function.run(nothing(), nothing());
        let said = report["error"]["message"].as_str().unwrap_or_default();
        assert!(said.contains("out of bounds memory access"), "{report:#}");
    }
}

#[test]
fn the_documentation_and_the_header_have_every_import() {
    let (page, header) = (include_str!("../../../docs/wasi.md"), include_str!("../../../wasi/include/monohull-wasi.h"));
    let sockets = ["lookup", "socket_address", "socket_connect", "socket_failure"];
    let others = ["fail", "number", "protect", "escape"].into_iter().chain(sockets);
    for name in IMPORTS.iter().map(|(name, _)| *name).chain(others) {
        assert!(page.contains(&format!("`{name}(")), "{name}");
        assert_eq!(header.matches(&format!("MONOHULL_IMPORT(\"{name}\")")).count(), 1, "{name}");
    }
}
