//! WebAssembly programs where protection keys are in force. A fault in a page without access is the program's trap, and it goes on from
//! there in the runtime, with the rights of its cell. Memory that begins as a part of the image, that slots are moved to and from, that is
//! captured and that is a template has the key of its cell each time.
//!
//! Programs are compiled when this program starts, where there is a compiler. The virtual machine with keys has none: it gets what was
//! compiled when it was asked for its tests.

#[path = "support/memory_program.rs"]
mod memory_program;
#[path = "support/neighbour.rs"]
mod neighbour;
mod serve_support;

use libtest_mimic::{Arguments, Failed, Trial};
use memory_program::{
    GOES_BACK, LEN, PAGE, READY, SHOWN, START, after_going_back, after_moves, after_ready, after_sleep, holds, pattern,
};
use monohull_visor::engine::options::folder_beside_program;
use neighbour::{are_traps, attacker, document, victim};
use serde_json::{Value, json};
use serve_support::{Server, eventually};
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
    ("slots_move_to_and_from_memory_that_begins_as_an_image", slots_move_to_and_from_memory_that_begins_as_an_image),
    ("a_program_that_sleeps_is_suspended_and_goes_on", a_program_that_sleeps_is_suspended_and_goes_on),
    ("a_program_goes_back_in_its_memory", a_program_goes_back_in_its_memory),
    ("a_program_starts_from_a_template", a_program_starts_from_a_template),
    ("exceptions_are_caught_and_traps_are_not", exceptions_are_caught_and_traps_are_not),
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
        ("moves", memory_program::program("", "", &memory_program::moves())),
        ("sleeps", memory_program::program("", "", &memory_program::sleeps())),
        ("back", memory_program::program(GOES_BACK, "", &memory_program::goes_back())),
        ("ready", memory_program::program(READY, "", &memory_program::is_ready())),
        ("exceptions", EXCEPTIONS.to_owned()),
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

/// The report of this workflow, in whose folder the images are, run with these options.
fn run_with(name: &str, document: &Value, options: &[&str]) -> Value {
    let file = images().join(name).with_extension("json");
    fs::write(&file, document.to_string()).expect("written");
    report(
        Command::new(env!("CARGO_BIN_EXE_monohull"))
            .args(["run", "--json", "--isolation", "mpk"])
            .arg(&file)
            .args(options),
    )
}

fn report(command: &mut Command) -> Value {
    let output = command.stdin(Stdio::null()).output().expect("monohull starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    // One that is suspended says so when it goes on.
    assert!(report["isolation"] == "mpk" || report["status"] == "suspended", "{report:#}");
    report
}

fn run(name: &str, document: &Value) -> Value {
    run_with(name, document, &[])
}

/// A workflow of this image alone, with a key for each instance.
fn one_step(image: &str, inputs: &[&str], outputs: &[&str]) -> Value {
    let mut document = memory_program::document(inputs, outputs);
    document["functions"]["app"]["image"] = json!(format!("{image}.so"));
    document["isolation"] = json!("function");
    document
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

/// Over an edge of what the memory holds at first, and within: pages are moved there and back out, and no byte of the memory or of the slot is lost.
fn slots_move_to_and_from_memory_that_begins_as_an_image() {
    let len = 300_000;
    for place in [START + LEN - 32 * PAGE, START + 32 * PAGE] {
        let input = pattern(len).replace('0', "z");
        let slots =
            [("in", input.as_bytes().to_vec()), ("at", [place as u32, len as u32].map(u32::to_le_bytes).concat())];
        let inputs = slots.map(|(slot, bytes)| {
            let file = images().join(format!("moves.{slot}"));
            fs::write(&file, bytes).expect("written");
            format!("{slot}={}", file.display())
        });
        let options = ["--input", &*inputs[0], "--input", &*inputs[1]];
        let report = run_with("moves", &one_step("moves", &["in", "at"], &["a", "b", "c"]), &options);
        for (slot, expected) in ["a", "b", "c"].into_iter().zip(after_moves(place, &input)) {
            holds(&report, slot, &expected, &place);
        }
    }
}

/// In another process, with keys that are drawn anew.
fn a_program_that_sleeps_is_suspended_and_goes_on() {
    let state = tempfile::TempDir::new().expect("a folder");
    let file = images().join("sleeps.json");
    fs::write(&file, one_step("sleeps", &[], &["a", "b"]).to_string()).expect("written");
    let with_state = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", state.path()).current_dir(state.path());
        command.args(arguments);
        report(command.args(["--json", "--isolation", "mpk"]))
    };
    let suspended = with_state(&["run", file.to_str().expect("UTF-8"), "--suspend", "waiting"]);
    assert_eq!(suspended["status"], "suspended", "{suspended:#}");
    let report = with_state(&["resume", suspended["checkpoint"].as_str().expect("a path")]);
    for (slot, expected) in ["a", "b"].into_iter().zip(after_sleep()) {
        holds(&report, slot, &expected, &"resumed");
    }
}

fn a_program_goes_back_in_its_memory() {
    holds(&run("back", &one_step("back", &[], &["b"])), "b", &after_going_back(), &"gone back");
}

fn a_program_starts_from_a_template() {
    let server = Server::start_with(&["--isolation", "mpk", "--prefork", "2"]);
    let answer = server.ask("PUT", "/functions/app", &fs::read(images().join("ready.so")).expect("built"));
    assert!([200, 201].contains(&answer.status), "{}", answer.text());
    let mut app = one_step("ready", &["in"], &["a"]);
    app["functions"]["app"]["image"] = json!("function:app");
    server.put_workflow(&app);
    let input = pattern(70_000).replace('0', "z");
    let starts_from_it = || {
        let memory = server.post("/invoke/app", input.as_bytes()).expect(200).body;
        let expected = after_ready(memory[8], &input);
        let other = (0..SHOWN).find(|at| memory[*at] != expected[*at]);
        assert_eq!((other, memory.len()), (None, SHOWN), "the first byte that is another one");
        memory[8] == 1
    };
    eventually("it starts from a template", starts_from_it);
    // What that one has written is not in the template.
    assert!(starts_from_it());
}

/// Each attempt catches an exception that was thrown below a call, and then has a trap where everything is caught.
const EXCEPTIONS: &str = r#"(module
    (memory (export "memory") 1)
    (tag $thrown (param i32))
    (func $throws (param i32) (throw $thrown (local.get 0)))
    (func $traps (drop (i32.load (i32.const 65536))))
    (func (export "_start")
        (if (i32.ne (i32.const 7)
                (block $caught (result i32)
                    (try_table (catch $thrown $caught) (call $throws (i32.const 7)))
                    (i32.const 0)))
            (then unreachable))
        (block $all (try_table (catch_all $all) (call $traps)))))"#;

fn exceptions_are_caught_and_traps_are_not() {
    let report = run("exceptions", &one_step("exceptions", &[], &[]));
    let message = report["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("out of bounds memory access") && message.contains("!traps"), "{report:#}");
}
