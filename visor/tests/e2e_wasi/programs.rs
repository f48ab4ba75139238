//! Whole programs: what they are given, what they give, and which are refused.

use super::support::{CHECKS, Function, monohull, printed, run_with, words};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

#[test]
fn an_ordinary_program_runs() {
    tour("wasi-tour.so", "Unsupported", "status 7");
}

/// Runs the tour as this image, where a connection is refused so, and exit status 7 is this in the report.
#[track_caller]
pub(super) fn tour(image: &str, connection: &str, exit: &str) {
    let folder = TempDir::new().expect("a folder");
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images").join(image);
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
            "args": { "end": "well", "argv": ["a b", "--ü"] },
        }],
    });
    let input = format!("text={}", folder.path().join("text").display());
    let run_document = |folder: &Path, document: &Value| run_with(folder, document, &["--input", &input]);
    let report = run_document(folder.path(), &document);
    assert_eq!(report["status"], "done", "{report:#}");
    assert_eq!(
        printed(&report),
        [
            "arguments: [\"tour\", \"a b\", \"--ü\", \"--end=well\"]",
            "GREETING: Some(\"hello\")",
            "slept: true",
            "after 2020: true",
            "fish: 2",
            "from the 6th byte: \"line\\nsecond line\\nthird line\\n\"",
            "cut to: 10",
            "modified: 86400",
            "entries: [(\"second\", Some(true)), (\"third\", Some(true))]",
            "missing: Some(NotFound)",
            "not empty: Some(Some(55))",
            "left: 0",
            "to a stream",
            "devices: 0 true true false Some(NotFound)",
            &format!("connected: Some({connection})"),
            "standard input: \"typed\\n\"",
            "standard error",
        ]
    );
    for (end, status) in [("status", exit), ("panic", "unreachable")] {
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
            let of = |stream: &'static str| {
                let all = report["steps"][0]["instances"][0]["lines"].as_array().into_iter().flatten();
                all.filter(move |line| line["stream"] == stream).filter_map(|line| line["text"].as_str())
            };
            assert!(of("stdout").eq(lines.iter().copied()), "{language}: {report:#}");
            let errors = if language == "C" { "x".repeat(20_000) + &"y".repeat(100) } else { String::new() };
            assert_eq!(of("stderr").collect::<String>(), errors, "{language}");
            assert_eq!(report["output"]["out"]["text"], json!(format!("{language}:a text")));
        }
    }
}

/// A rotation by a constant has an instruction of its own since the level x86-64-v3.
#[test]
fn code_has_the_instructions_of_the_level_that_it_is_built_for() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1) (data (i32.const 0) "\01\02\03\04")
        (func (export "_start")
            (call $exit (i32.ne (i32.rotl (i32.load (i32.const 0)) (i32.const 8)) (i32.const 0x03020104)))))"#;
    // VEX.LZ.F2.0F3A.W0 F0: RORX of registers of 32 bits.
    let has_rorx = |image: &[u8]| {
        image.windows(6).any(|code| code[0] == 0xc4 && code[1] & 0x1f == 3 && code[2..4] == [0x7b, 0xf0])
    };
    for (level, vector) in [("x86-64-v2", false), ("x86-64-v3", true)] {
        let function = Function::built(text, &["--cpu", level]);
        assert_eq!(has_rorx(&fs::read(function.folder.path().join("app.so")).expect("built")), vector, "{level}");
        let report = function.run(json!({}), json!({}));
        if !vector || std::is_x86_feature_detected!("avx2") {
            assert_eq!(report["status"], "done", "{level}: {report:#}");
        } else {
            assert!(report["error"]["message"].as_str().is_some_and(|why| why.contains("avx")), "{report:#}");
        }
    }
}

/// What `monohull build` says of these bytes in a file of this name in this folder.
pub(super) fn built(folder: &TempDir, name: &str, bytes: &[u8]) -> Output {
    let program: PathBuf = folder.path().join(name);
    fs::write(&program, bytes).expect("written");
    monohull(&["build", program.to_str().expect("UTF-8")])
}

/// What `monohull build` says of a file that is no program.
#[track_caller]
pub(super) fn refused(name: &str, bytes: &[u8]) -> String {
    let folder = TempDir::new().expect("a folder");
    let built = built(&folder, name, bytes);
    assert_eq!(built.status.code(), Some(2), "{}", words(&built.stderr));
    assert!(!folder.path().join("app.so").exists(), "no image is made");
    let said = words(&built.stderr);
    assert!(said.contains(name), "{said}");
    said
}

#[test]
fn what_is_no_program_is_refused() {
    let whole = wat::parse_str("(module (func (export \"_start\")))").expect("a right program");
    let said = refused("app.wasm", b"");
    assert!(said.contains("it is no WebAssembly program: it is empty"), "{said}");
    let said = refused("app.wasm", b"no program\n at all, but a text");
    assert!(said.contains(r"it is no WebAssembly program: it begins with `no program\n at "), "{said}");
    // In the midst of the magic number, of the version, and of the last section.
    for len in [4, 7, whole.len() - 1] {
        refused("app.wasm", &whole[..len]);
    }
    // Right modules, but no programs.
    for text in ["(module)", "(module (func (export \"run\")))", "(module (memory (export \"_start\") 1))"] {
        let said = refused("app.wasm", &wat::parse_str(text).expect("a right module"));
        assert!(said.contains("`_start`") && said.contains("a library"), "{text}: {said}");
    }
    for text in [
        "(module (func (export \"_start\") (param i32)))",
        "(module (func (export \"_start\") (result i32) i32.const 1))",
        "(module (type (func (result i64))) (rec (type (struct)) (type $start (func (param i64))))
            (import \"monohull\" \"escape\" (func)) (func) (func (export \"_start\") (type $start)))",
    ] {
        let said = refused("app.wasm", &wat::parse_str(text).expect("a right module"));
        assert!(said.contains("`_start` has a parameter or a result"), "{text}: {said}");
    }
    // These have none, however their types are written.
    for text in [
        "(module (import \"monohull\" \"escape\" (func $left)) (memory (export \"memory\") 1) (export \"_start\" (func $left)))",
        "(module (memory (export \"memory\") 1) (type (func (result i64))) (rec (type (struct)) (type $start (func)))
            (func (param i32)) (func (export \"_start\") (type $start)))",
    ] {
        Function::new(text);
    }
    // What is imported and not there, with what can be done where that is known.
    for (module, import, expected) in [
        ("env", "\"log\" (func)", "`--allow-undefined`"),
        ("env", "\"abort\" (func (param i32 i32 i32 i32))", "@assemblyscript/wasi-shim"),
        ("env", "\"emscripten_notify_memory_growth\" (func (param i32))", "-sSTANDALONE_WASM"),
        ("env", "\"memory\" (memory 1)", "`--import-memory`"),
        ("gojs", "\"runtime.wasmExit\" (func (param i32))", "`GOOS=wasip1 GOARCH=wasm`"),
        ("__wbindgen_placeholder__", "\"__wbindgen_throw\" (func (param i32 i32))", "`wasm32-wasip1`"),
        ("wasi", "\"thread-spawn\" (func (param i32) (result i32))", "There are no threads"),
        ("wasi_unstable", "\"fd_close\" (func (param i32) (result i32))", "draft of 2019"),
        ("wasi_snapshot_preview1", "\"sock_open\" (func (param i32) (result i32))", "docs/wasi.md"),
        ("wasi_snapshot_preview1", "\"fd_close\" (global i32)", "docs/wasi.md"),
        ("monohull", "\"launch\" (func)", "docs/wasi.md"),
    ] {
        let name = import.split('"').nth(1).expect("a name");
        let text = format!("(module (import \"{module}\" {import}) (func (export \"_start\")))");
        let said = refused("app.wasm", &wat::parse_str(text).expect("a right module"));
        for part in [&format!("`{module}::{name}`"), "wasi_snapshot_preview1 and monohull", expected] {
            assert!(said.contains(part), "{module} {import}: {said}");
        }
    }
    // Parts of WebAssembly that are not there.
    for (text, expected) in [
        ("(module (memory 1 2 shared) (func (export \"_start\")))", "`wasm32-wasip1-threads`"),
        ("(module (memory 1) (func (export \"_start\") (drop (i32.atomic.load (i32.const 0)))))", "`-pthread`"),
        ("(module (memory 1 (pagesize 1)) (func (export \"_start\")))", "its third version does not have"),
    ] {
        let said = refused("app.wasm", &wat::parse_str(text).expect("a right module"));
        assert!(said.contains(expected), "{text}: {said}");
    }
    let said = refused("app.wasm", b"  (module (func (export \"_start\")))");
    assert!(said.contains("WebAssembly as text") && said.contains("wat2wasm"), "{said}");
    // The right magic number, another version.
    refused("app.wasm", b"\0asm\x02\0\0\0");
    // What a type checker finds.
    refused("app.wasm", &wat::parse_str("(module (func (export \"_start\") (result i32)))").expect("parses"));
    // Already compiled code is never taken: it would be believed to keep to its own memory.
    refused("app.wasm", b"\x7fELF");
}

/// Nothing of the user's is lost, and nothing is left behind.
#[test]
fn an_image_that_cannot_be_put_in_its_place_leaves_all_as_it_was() {
    let program = wat::parse_str("(module (func (export \"_start\")))").expect("a right program");
    let folder = TempDir::new().expect("a folder");
    // The image of `app.so` would be called as the program is.
    let built_image = built(&folder, "app.so", &program);
    let said = words(&built_image.stderr);
    assert!(built_image.status.code() == Some(2) && said.contains("its image would take its place"), "{said}");
    assert_eq!(fs::read(folder.path().join("app.so")).expect("it is there"), program);
    fs::remove_file(folder.path().join("app.so")).expect("removed");
    fs::create_dir(folder.path().join("app.so")).expect("made");
    assert_eq!(built(&folder, "app.wasm", &program).status.code(), Some(3));
    let left = fs::read_dir(folder.path()).expect("there").map(|entry| entry.expect("an entry").file_name());
    let mut left: Vec<_> = left.collect();
    left.sort_unstable();
    assert_eq!(left, ["app.so", "app.wasm"]);
}

#[test]
fn a_program_without_what_it_needs_says_what() {
    for (text, expected) in [
        (
            "(module (import \"monohull\" \"escape\" (func (param i32))) (func (export \"_start\")))",
            "incompatible import type for `monohull::escape`",
        ),
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
