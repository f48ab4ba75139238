//! WebAssembly programs as functions, from end to end: `monohull build app.wasm`, then `monohull run`.
//!
//! Most programs here are written as text, call a function of WASI as no C library would, and publish what they got in the slot `out`.
//! The compiler and the runtime come from `cargo xtask build`; `cargo xtask test` does both.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use monohull_visor::domain::keys::support;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Error numbers of WASI.
const BADF: u64 = 8;
const FAULT: u64 = 21;
const INVAL: u64 = 28;
const NOTCAPABLE: u64 = 76;

fn monohull(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.args(arguments).stdin(Stdio::null()).output().expect("monohull starts")
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program, and the function made of it.
struct Function {
    folder: TempDir,
}

impl Function {
    /// Compiles a program that is written as text.
    fn new(text: &str) -> Function {
        Function::built(text, &[])
    }

    /// The same with options of `monohull build`.
    fn built(text: &str, options: &[&str]) -> Function {
        let folder = TempDir::new().expect("a folder");
        let program = folder.path().join("app.wasm");
        fs::write(&program, wat::parse_str(text).expect("a right program")).expect("written");
        let built = monohull(&[&["build", program.to_str().expect("UTF-8")], options].concat());
        assert!(built.status.success(), "{}", words(&built.stderr));
        assert_eq!(words(&built.stdout).trim(), folder.path().join("app.so").to_str().expect("UTF-8"));
        Function { folder }
    }

    /// Runs a workflow of one step, with more fields of the step and of the workflow.
    fn run(&self, step: Value, workflow: Value) -> Value {
        let mut document = json!({ "name": "test", "functions": { "app": { "image": "app.so" } }, "steps": [] });
        let mut whole = json!({ "name": "app", "function": "app" });
        merge(&mut whole, step);
        document["steps"] = json!([whole]);
        merge(&mut document, workflow);
        run_document(self.folder.path(), &document)
    }

    /// Runs a program that publishes `u32`s in the slot `out`, and gives these.
    #[track_caller]
    fn numbers(&self) -> Vec<u64> {
        let report = self.run(json!({}), json!({ "outputs": ["out"], "files": [{ "at": "/work", "memory": "1MiB" }] }));
        words_of(&report).into_iter().map(u64::from).collect()
    }
}

/// The words in the slot `out`.
#[track_caller]
fn words_of(report: &Value) -> Vec<u32> {
    assert_eq!(report["status"], "done", "{report:#}");
    let output = &report["output"]["out"];
    let bytes = match (output["text"].as_str(), output["base64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(base64)) => BASE64_STANDARD.decode(base64).expect("base64"),
        _ => panic!("no output: {report:#}"),
    };
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
}

fn merge(into: &mut Value, more: Value) {
    for (name, value) in more.as_object().expect("an object") {
        into[name] = value.clone();
    }
}

fn run_document(folder: &Path, document: &Value) -> Value {
    run_with(folder, document, &[])
}

fn run_with(folder: &Path, document: &Value, more: &[&str]) -> Value {
    let file = folder.join("test.json");
    fs::write(&file, document.to_string()).expect("written");
    let mut arguments = vec!["run", "--json", file.to_str().expect("UTF-8")];
    arguments.extend(more);
    if support().is_available() {
        arguments.extend(["--isolation", "mpk"]);
    }
    let output = monohull(&arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words(&output.stderr)))
}

/// What an instance printed.
fn printed(report: &Value) -> Vec<String> {
    let lines = report["steps"][0]["instances"][0]["lines"].as_array().expect("lines");
    lines.iter().map(|line| line["text"].as_str().expect("a text").to_owned()).collect()
}

/// Names and types of the functions of WASI preview 1 that return an error number: `i` is an `i32` and `I` an `i64`.
const FUNCTIONS: &[(&str, &str)] = &[
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "iIi"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("fd_advise", "iIIi"),
    ("fd_allocate", "iII"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "iII"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "iI"),
    ("fd_filestat_set_times", "iIIi"),
    ("fd_pread", "iiiIi"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_prestat_get", "ii"),
    ("fd_pwrite", "iiiIi"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiiIi"),
    ("fd_renumber", "ii"),
    ("fd_seek", "iIii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiiIIi"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiiIIii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("proc_raise", "i"),
    ("random_get", "ii"),
    ("sched_yield", ""),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

/// A program that imports all of them, has one page of memory with `data` at its start, runs `body`, and publishes the bytes from
/// 1024 on, `results` words of them.
fn program(data: &str, body: &str, results: usize) -> String {
    let mut text = String::from("(module\n");
    for (name, types) in FUNCTIONS {
        let parameters: String = types.chars().map(|kind| if kind == 'i' { " i32" } else { " i64" }).collect();
        text += &format!(
            "(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param{parameters}) (result i32)))\n"
        );
    }
    text += "(import \"monohull\" \"slot_publish\" (func $publish (param i32 i32 i32 i32 i32) (result i32)))\n";
    text +=
        &format!("(memory (export \"memory\") 1)\n(data (i32.const 0) \"{data}\")\n(data (i32.const 1000) \"out\")\n");
    text += &format!("(func (export \"_start\")\n{body}\n");
    text += &format!(
        "(call $publish (i32.const 1000) (i32.const 3) (i32.const 1024) (i32.const {}) (i32.const 0))\n",
        results * 4
    );
    // A slot that could not be filled ends the program with a trap.
    text + "if unreachable end))"
}

/// Instructions that call a function and keep what it returns as word `index` of the results.
fn kept(index: usize, call: &str) -> String {
    format!("(i32.store (i32.const {}) {call})\n", 1024 + index * 4)
}

#[test]
fn an_ordinary_program_runs() {
    let folder = TempDir::new().expect("a folder");
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/wasi-tour.so");
    fs::write(folder.path().join("text"), "typed\n").expect("written");
    let document = json!({
        "name": "tour",
        "functions": { "tour": { "image": image } },
        "inputs": ["text"],
        "files": [{ "at": "/work", "memory": "1MiB" }],
        "steps": [{
            "name": "tour",
            "function": "tour",
            "stdin": "text",
            "env": { "GREETING": "hello" },
            "args": { "end": "well" },
        }],
    });
    let input = format!("text={}", folder.path().join("text").display());
    let run_document = |folder: &Path, document: &Value| run_with(folder, document, &["--input", &input]);
    let report = run_document(folder.path(), &document);
    assert_eq!(report["status"], "done", "{report:#}");
    assert_eq!(
        printed(&report),
        [
            "arguments: [\"tour\", \"--end=well\"]",
            "GREETING: Some(\"hello\")",
            "slept: true",
            "after 2020: true",
            "fish: 2",
            "from the 6th byte: \"line\\nsecond line\\nthird line\\n\"",
            "cut to: 10",
            "entries: [(\"second\", Some(true)), (\"third\", Some(true))]",
            "missing: Some(NotFound)",
            "not empty: Some(Some(55))",
            "left: 0",
            "standard input: \"typed\\n\"",
            "standard error",
        ]
    );
    for (end, status) in [("status", "status 7"), ("panic", "unreachable")] {
        let mut document = document.clone();
        document["steps"][0]["args"]["end"] = end.into();
        let report = run_document(folder.path(), &document);
        assert_eq!(
            (&report["status"], &report["error"]["blame"]),
            (&json!("failed"), &json!("function")),
            "{report:#}"
        );
        let message = report["error"]["message"].as_str().expect("a message");
        assert!(message.contains(status), "{end}: {message}");
    }
}

#[test]
fn the_documentation_has_every_function() {
    let page = include_str!("../../docs/wasi.md");
    let table = page.split("| functions | what they do here |").nth(1).and_then(|rest| rest.split("\n\n").next());
    let rows = table.expect("a table").lines().filter_map(|row| row.split('|').nth(1));
    let mut documented: Vec<&str> = rows.flat_map(|names| names.split('`').skip(1).step_by(2)).collect();
    documented.sort_unstable();
    // It returns nothing, so it is not among those that `program` imports.
    let mut linked: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).chain(["proc_exit"]).collect();
    linked.sort_unstable();
    assert_eq!(documented, linked);
    assert_eq!(linked.len(), 46);
}

#[test]
fn every_function_refuses_wrong_arguments() {
    // All bits set: no descriptor, an address behind all memory, flags that do not exist. What must be an error is one, and the program
    // goes on: its memory is as it was, and it can publish.
    let calls = FUNCTIONS.iter().enumerate().map(|(index, (name, types))| {
        let arguments: String =
            types.chars().map(|kind| if kind == 'i' { "(i32.const -1)" } else { "(i64.const -1)" }).collect();
        kept(index, &format!("(call ${name} {arguments})"))
    });
    let function = Function::new(&program("intact", &calls.collect::<String>(), FUNCTIONS.len()));
    let results = function.numbers();
    assert_eq!(results.len(), FUNCTIONS.len());
    for ((name, _), result) in FUNCTIONS.iter().zip(results) {
        // There are no variables to be written anywhere.
        assert_eq!(result == 0, ["environ_get", "sched_yield"].contains(name), "{name}: {result}");
    }
}

#[test]
fn addresses_behind_the_memory_are_refused() {
    // Of a right call with everything else as it should be, one pointer leads behind the memory or over its end.
    let edge = 65536;
    let calls = [
        ("args_sizes_get", format!("(i32.const {edge}) (i32.const 0)")),
        ("args_sizes_get", format!("(i32.const {}) (i32.const 0)", edge - 3)),
        ("args_get", format!("(i32.const {}) (i32.const 0)", edge - 2)),
        ("clock_time_get", format!("(i32.const 0) (i64.const 0) (i32.const {})", edge - 7)),
        ("random_get", format!("(i32.const {}) (i32.const 17)", edge - 16)),
        ("random_get", "(i32.const 16) (i32.const -8)".to_owned()),
        ("fd_write", format!("(i32.const 1) (i32.const {}) (i32.const 1) (i32.const 512)", edge - 7)),
        // A list of one buffer at 256, which is written into the data: it begins in the memory and ends behind it.
        ("fd_write", "(i32.const 1) (i32.const 256) (i32.const 1) (i32.const 512)".to_owned()),
        ("fd_read", "(i32.const 0) (i32.const 256) (i32.const 1) (i32.const 512)".to_owned()),
        ("poll_oneoff", format!("(i32.const {}) (i32.const 0) (i32.const 1) (i32.const 512)", edge - 47)),
        ("poll_oneoff", "(i32.const 0) (i32.const 0) (i32.const 0x7fffffff) (i32.const 512)".to_owned()),
        (
            "path_open",
            format!(
                "(i32.const 3) (i32.const 0) (i32.const {}) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 512)",
                edge - 8
            ),
        ),
    ];
    let body: String = calls
        .iter()
        .enumerate()
        .map(|(index, (name, arguments))| kept(index, &format!("(call ${name} {arguments})")))
        .collect();
    let body =
        format!("(i32.store (i32.const 256) (i32.const 65528)) (i32.store (i32.const 260) (i32.const 9))\n{body}");
    let results = Function::new(&program("", &body, calls.len())).numbers();
    assert_eq!(results, vec![FAULT; calls.len()]);
}

#[test]
fn paths_stay_beneath_their_directory() {
    let paths = ["/work/x", "..", "../work/x", "work/../../x", "work/../..", "./..", "work/./../../work"];
    let data = paths.join("");
    let open = |index: usize, fd: u32, start: usize, len: usize| {
        kept(
            index,
            &format!(
                "(call $path_open (i32.const {fd}) (i32.const 0) (i32.const {start}) (i32.const {len}) (i32.const 0) \
             (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 512))"
            ),
        )
    };
    let mut body = String::new();
    let mut start = 0;
    for (index, path) in paths.iter().enumerate() {
        body += &open(index, 3, start, path.len());
        start += path.len();
    }
    // The control: a path that goes up and down again, but stays beneath. It begins with the 5th path.
    body += &open(paths.len(), 3, data.find("work/../..").expect("is there") + 10, 7);
    let results = Function::new(&program(&data, &body, paths.len())).numbers();
    assert_eq!(results, vec![NOTCAPABLE; paths.len()]);
}

#[test]
fn a_path_that_goes_up_and_down_again_is_fine() {
    let data = "work/../work";
    let open = kept(
        0,
        &format!(
            "(call $path_open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const {}) (i32.const 2) (i64.const 2) (i64.const 2) \
         (i32.const 0) (i32.const 512))",
            data.len()
        ),
    );
    // Beneath what was opened the same holds: the first descriptor that is free is 4.
    let up = kept(1, "(call $path_create_directory (i32.const 4) (i32.const 5) (i32.const 2))");
    assert_eq!(Function::new(&program(data, &(open + &up), 2)).numbers(), [0, NOTCAPABLE]);
}

#[test]
fn descriptors_of_the_libos_are_not_the_programs() {
    // The libos counts from 3, as the program does, but these are not the same numbers.
    let calls = [
        kept(0, "(call $fd_close (i32.const 3))"),
        kept(1, "(call $fd_close (i32.const 3))"),
        kept(2, "(call $fd_tell (i32.const 4) (i32.const 512))"),
        kept(3, "(call $fd_renumber (i32.const 1) (i32.const 9))"),
        kept(4, "(call $fd_prestat_get (i32.const 0) (i32.const 512))"),
        kept(5, "(call $fd_seek (i32.const 1) (i64.const 0) (i32.const 9) (i32.const 512))"),
    ];
    let results = Function::new(&program("", &calls.concat(), calls.len())).numbers();
    assert_eq!(results, [0, BADF, BADF, BADF, BADF, INVAL]);
}

/// Both ways to keep a program in its memory, as options of `monohull build`.
const CHECKS: [&[&str]; 2] = [&[], &["--explicit-checks"]];

/// The failure of a program with one page of memory whose `_start` is this, built with these options.
#[track_caller]
fn failure(body: &str, options: &[&str], step: Value) -> Value {
    let text = format!(
        "(module (memory (export \"memory\") 1) (func $again call $again) (func $inner {body}) (func (export \"_start\") call $inner))"
    );
    let report = Function::built(&text, options).run(step, json!({}));
    assert_eq!(report["status"], "failed", "{report:#}");
    report["error"].clone()
}

#[test]
fn traps_are_failures_of_the_function() {
    for (body, expected) in [
        ("unreachable", "unreachable"),
        ("(drop (i32.load (i32.const 65533)))", "out of bounds memory access"),
        ("(i64.store offset=0xffffffff (i32.const -1) (i64.const 1))", "out of bounds memory access"),
        ("(drop (i32.div_u (i32.const 1) (i32.load (i32.const 0))))", "integer divide by zero"),
        (
            "(drop (i32.div_s (i32.const 0x80000000) (i32.sub (i32.load (i32.const 0)) (i32.const 1))))",
            "integer overflow",
        ),
        ("call $again", "call stack exhausted"),
    ] {
        for options in CHECKS {
            let error = failure(body, options, json!({}));
            assert_eq!(error["blame"], "function", "{body}: {error:#}");
            let message = error["message"].as_str().expect("a message");
            assert!(message.contains(expected), "{body}: {message}");
            // Where it was: the function's name in the program.
            let place = if body == "call $again" { "again" } else { "inner" };
            assert!(message.contains(place), "{body}: {message}");
        }
    }
}

#[test]
fn every_edge_of_the_memory_is_a_trap() {
    // Two pages, of which the second has been added. An address, and a constant offset: within the guard, at its end, beyond.
    let access = |address: u32, offset: u32| {
        let text = format!(
            "(module (memory (export \"memory\") 1)
                (func (export \"_start\")
                    (drop (memory.grow (i32.const 1)))
                    (i32.store (i32.const 131068) (i32.const 7))
                    (if (i32.ne (i32.load offset=131068 (i32.const 0)) (i32.const 7)) (then unreachable))
                    (drop (i32.load offset={offset} (i32.const {address})))
                    (i32.store offset={offset} (i32.const {address}) (i32.const 1))))"
        );
        let mut said = Vec::new();
        for options in CHECKS {
            let report = Function::built(&text, options).run(json!({}), json!({}));
            said.push(report["error"]["message"].as_str().unwrap_or_default().to_owned());
        }
        said
    };
    for (address, offset) in [(131068, 0), (0, 131068), (65536, 65532)] {
        assert_eq!(access(address, offset), ["", ""], "{address} + {offset}");
    }
    let guard = 32 << 20;
    for (address, offset) in [
        (131069, 0),
        (131072, 0),
        (1, 131068),
        (u32::MAX, 0),
        (u32::MAX - 3, 4),
        (u32::MAX, u32::MAX),
        (u32::MAX, guard - 4),
        (u32::MAX, guard),
        (u32::MAX, guard + 1),
        (0, u32::MAX),
    ] {
        for said in access(address, offset) {
            assert!(said.contains("out of bounds memory access"), "{address} + {offset}: {said}");
        }
    }
}

#[test]
fn a_memory_without_pages_and_calls_of_nothing_are_traps() {
    for (text, expected) in [
        (
            "(module (memory (export \"memory\") 0) (func (export \"_start\") (drop (i32.load (i32.const 0)))))",
            "out of bounds memory access",
        ),
        (
            "(module (memory (export \"memory\") 1) (table 2 funcref)
                (func (export \"_start\") (call_indirect (i32.const 1))))",
            "uninitialized element",
        ),
        (
            "(module (memory (export \"memory\") 1) (table 2 funcref)
                (func (export \"_start\") (call_indirect (i32.const 2))))",
            "undefined element",
        ),
    ] {
        for options in CHECKS {
            let report = Function::built(text, options).run(json!({}), json!({}));
            let said = report["error"]["message"].as_str().unwrap_or_default();
            assert!(said.contains(expected), "{text}: {report:#}");
        }
    }
}

#[test]
fn a_memory_larger_than_the_limit_is_an_error_that_says_so() {
    let text = "(module (memory (export \"memory\") 4096) (func (export \"_start\")))";
    for options in CHECKS {
        let function = Function::built(text, options);
        let report = function.run(json!({ "memory": "16MiB" }), json!({}));
        assert_eq!(
            (&report["status"], &report["error"]["blame"]),
            (&json!("failed"), &json!("function")),
            "{report:#}"
        );
        let report = function.run(json!({ "memory": "300MiB" }), json!({}));
        assert_eq!(report["status"], "done", "{report:#}");
    }
}

/// Memory, what it holds, and the handler of its traps are there again in another process.
#[test]
fn a_program_that_sleeps_is_suspended_and_goes_on() {
    let text = "(module
        (import \"wasi_snapshot_preview1\" \"poll_oneoff\" (func $poll (param i32 i32 i32 i32) (result i32)))
        (memory (export \"memory\") 1)
        (func (export \"_start\")
            (drop (memory.grow (i32.const 1)))
            (i32.store (i32.const 131000) (i32.const 77))
            ;; A subscription at 1024: the monotonic clock, in 1.3 s.
            (i32.store (i32.const 1040) (i32.const 1))
            (i64.store (i32.const 1048) (i64.const 1300000000))
            (if (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 4096)) (then unreachable))
            (if (i32.ne (i32.load (i32.const 131000)) (i32.const 77)) (then unreachable))
            (drop (i32.load (i32.const 131072)))))";
    let function = Function::new(text);
    let folder = function.folder.path();
    let document = json!({
        "name": "test",
        "functions": { "app": { "image": "app.so" } },
        "steps": [{ "name": "app", "function": "app" }],
    });
    let state = folder.join("state");
    fs::write(folder.join("w.json"), document.to_string()).expect("written");
    let in_folder = |arguments: &[&str]| -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", &state).current_dir(folder);
        let output = command.args(arguments).stdin(Stdio::null()).output().expect("monohull starts");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words(&output.stderr)))
    };
    let suspended = in_folder(&["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(suspended["status"], "suspended", "{suspended:#}");
    let report = in_folder(&["resume", suspended["checkpoint"].as_str().expect("a path"), "--json"]);
    let said = report["error"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("out of bounds memory access"), "{report:#}");
}

#[test]
fn an_endless_loop_ends_at_the_deadline() {
    let error = failure("(loop (br 0))", &[], json!({ "timeout": "300ms" }));
    assert_eq!((error["kind"].as_str(), error["blame"].as_str()), (Some("timeout"), Some("function")), "{error:#}");
}

#[test]
fn memory_grows_to_the_limit_and_not_beyond() {
    // In steps of 1 MiB; what comes out is how many there were.
    let body = "(loop $more
        (if (i32.ne (memory.grow (i32.const 16)) (i32.const -1))
            (then (i32.store (i32.const 1024) (i32.add (i32.load (i32.const 1024)) (i32.const 1))) (br $more))))";
    let function = Function::new(&program("", body, 1));
    for (limit, most) in [("16MiB", 16), ("64MiB", 64)] {
        let report = function.run(json!({ "memory": limit }), json!({ "outputs": ["out"] }));
        let steps = u64::from(words_of(&report)[0]);
        assert!((most / 4..most).contains(&steps), "{limit}: {steps}");
    }
}

#[test]
fn slots_are_taken_read_and_published() {
    let text = r#"(module
        (import "monohull" "slot_take" (func $take (param i32 i32 i32 i32) (result i32)))
        (import "monohull" "slot_read" (func $read (param i32 i32 i32 i32) (result i32)))
        (import "monohull" "slot_free" (func $free (param i32) (result i32)))
        (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "in") (data (i32.const 8) "out") (data (i32.const 16) "none")
        (func $must (param i32) (if (i32.ne (local.get 0) (i32.const 0)) (then unreachable)))
        (func $refused (param i32) (if (i32.eq (local.get 0) (i32.const 0)) (then unreachable)))
        (func (export "_start")
            ;; Where the answer does not fit the slot stays as it is.
            (call $refused (call $take (i32.const 0) (i32.const 2) (i32.const 1) (i32.const 65529)))
            (call $refused (call $take (i32.const 16) (i32.const 4) (i32.const 0) (i32.const 32)))
            (call $refused (call $take (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 32)))
            (call $must (call $take (i32.const 0) (i32.const 2) (i32.const 1) (i32.const 32)))
            (call $refused (call $read (i32.const 7) (i32.const 0) (i32.const 256) (i32.const 1)))
            (call $refused (call $read (i32.load (i32.const 32)) (i32.const 0) (i32.const 256) (i32.const -1)))
            (call $refused (call $read (i32.load (i32.const 32)) (i32.const 5) (i32.const 256) (i32.const 1000)))
            (call $must (call $read (i32.load (i32.const 32)) (i32.const 6) (i32.const 256)
                (i32.sub (i32.load (i32.const 36)) (i32.const 6))))
            (call $must (call $free (i32.load (i32.const 32))))
            (call $refused (call $free (i32.load (i32.const 32))))
            (call $refused (call $publish (i32.const 8) (i32.const 3) (i32.const 256) (i32.const 65535) (i32.const 1)))
            (call $must (call $publish (i32.const 8) (i32.const 3) (i32.const 256)
                (i32.sub (i32.load (i32.const 36)) (i32.const 6)) (i32.const 1)))))"#;
    let function = Function::new(text);
    fs::write(function.folder.path().join("in"), "hello world").expect("written");
    let document = json!({
        "name": "slots",
        "functions": { "app": { "image": "app.so" } },
        "inputs": ["in"],
        "outputs": ["out"],
        "steps": [{ "name": "app", "function": "app" }],
    });
    let input = format!("in={}", function.folder.path().join("in").display());
    let report = run_with(function.folder.path(), &document, &["--input", &input]);
    assert_eq!((&report["status"], &report["output"]["out"]["text"]), (&json!("done"), &json!("world")), "{report:#}");
}

/// Programs in C and in Go, compiled by `cargo xtask build`: arguments, a file, a slot in and out.
#[test]
fn programs_in_other_languages_run() {
    for (language, lines) in [
        ("C", &["hello from C, 2 arguments, the last is --word=last", "from the file: 499500"][..]),
        ("Go", &["hello from Go, 2 arguments, the last is --word=last", "from the file: 499500", "slept: true"]),
    ] {
        let folder = TempDir::new().expect("a folder");
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasi");
        let program = built.join(format!("tour-{}.wasm", language.to_lowercase()));
        fs::copy(&program, folder.path().join("app.wasm")).expect("it is built first: run `cargo xtask test`");
        for options in CHECKS {
            if language == "Go" && !options.is_empty() {
                // Its code with checks is three times as large, and takes as long to compile.
                continue;
            }
            let program = folder.path().join("app.wasm");
            let built = monohull(&[&["build", program.to_str().expect("UTF-8")], options].concat());
            assert!(built.status.success(), "{}", words(&built.stderr));
            fs::write(folder.path().join("in"), "a text").expect("written");
            let document = json!({
                "name": "guests",
                "functions": { "app": { "image": "app.so" } },
                "inputs": ["in"],
                "outputs": ["out"],
                "files": [{ "at": "/work", "memory": "1MiB" }],
                "steps": [{ "name": "app", "function": "app", "args": { "word": "last" } }],
            });
            let input = format!("in={}", folder.path().join("in").display());
            let report = run_with(folder.path(), &document, &["--input", &input]);
            assert_eq!(report["status"], "done", "{language}: {report:#}");
            assert_eq!(printed(&report), lines, "{language}");
            assert_eq!(report["output"]["out"]["text"], json!(format!("{language}:a text")));
        }
    }
}

/// What `monohull build` says of a file that is no program.
#[track_caller]
fn refused(name: &str, bytes: &[u8]) -> String {
    let folder = TempDir::new().expect("a folder");
    let program: PathBuf = folder.path().join(name);
    fs::write(&program, bytes).expect("written");
    let built = monohull(&["build", program.to_str().expect("UTF-8")]);
    assert_eq!(built.status.code(), Some(2), "{}", words(&built.stderr));
    assert!(!folder.path().join("app.so").exists(), "no image is made");
    let said = words(&built.stderr);
    assert!(said.contains(name), "{said}");
    said
}

#[test]
fn what_is_no_program_is_refused() {
    let whole = wat::parse_str("(module (func (export \"_start\")))").expect("a right program");
    refused("app.wasm", b"");
    refused("app.wasm", b"no program at all");
    // In the midst of the magic number, of the version, and of the last section.
    for len in [4, 7, whole.len() - 1] {
        refused("app.wasm", &whole[..len]);
    }
    // The right magic number, another version: a component.
    let said = refused("app.wasm", b"\0asm\x0d\0\x01\0");
    assert!(said.contains("component"), "{said}");
    // What a type checker finds.
    refused("app.wasm", &wat::parse_str("(module (func (export \"_start\") (result i32)))").expect("parses"));
    // Already compiled code is never taken: it would be believed to keep to its own memory.
    refused("app.wasm", b"\x7fELF");
}

#[test]
fn a_program_without_what_it_needs_says_what() {
    for (text, expected) in [
        ("(module (memory (export \"memory\") 1))", "_start"),
        ("(module (import \"env\" \"launch\" (func)) (func (export \"_start\")))", "launch"),
        (
            "(module (import \"wasi_snapshot_preview1\" \"sched_yield\" (func (result i32)))
                     (func (export \"_start\") (drop (call 0))))",
            "memory",
        ),
    ] {
        let report = Function::new(text).run(json!({}), json!({}));
        assert_eq!(report["status"], "failed", "{report:#}");
        let message = report["error"]["message"].as_str().expect("a message");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn constants_that_spell_forbidden_instructions_are_refused_or_harmless() {
    // WRPKRU and XRSTOR as a constant, and as an offset: whatever is compiled of them must not be executable code.
    for body in [
        "(drop (i32.popcnt (i32.const 0x00ef010f)))",
        "(drop (i32.load offset=0x00ef010f (i32.const 0)))",
        "(i64.store (i32.const 0) (i64.const 0x29ae0f00))",
    ] {
        let folder = TempDir::new().expect("a folder");
        let program = folder.path().join("app.wasm");
        let text = format!("(module (memory (export \"memory\") 1) (func (export \"_start\") {body}))");
        fs::write(&program, wat::parse_str(text).expect("a right program")).expect("written");
        let built = monohull(&["build", program.to_str().expect("UTF-8")]);
        let said = words(&built.stderr);
        match built.status.code() {
            // Folded away, or in bytes that no layout makes into that instruction.
            Some(0) => {
                let checked = monohull(&["check", folder.path().join("app.so").to_str().expect("UTF-8")]);
                assert!(checked.status.success(), "{body}: {}", words(&checked.stdout));
            }
            Some(2) => assert!(said.contains("forbidden"), "{body}: {said}"),
            other => panic!("{body}: {other:?}: {said}"),
        }
    }
}
