//! Exceptions of WebAssembly, and what is collected: what is said of those that nothing catches, ways out that are none, memory that ends, and waits.
//! `wasi_conformance` compares what they do with Wasmtime.

use super::hostile::section;
use super::support::{CHECKS, Function, monohull, words, words_of};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn message(report: &Value) -> &str {
    report["error"]["message"].as_str().unwrap_or_default()
}

#[test]
fn what_nothing_catches_is_reported_with_its_values_and_its_place() {
    let said = "the program has thrown an exception of WebAssembly that nothing catches";
    let module = |tag: &str, values: &str| {
        format!(
            "(module (memory (export \"memory\") 1) (tag $thrown {tag})
                (func $inner {values} (throw $thrown)) (func (export \"_start\") call $inner))"
        )
    };
    for (tag, values, shown) in [
        ("", "", ""),
        ("(param i32 i64 f64)", "i32.const 4711 i64.const -1 f64.const 2.5", ": i32 4711, i64 -1, f64 2.5"),
        ("(param externref)", "ref.null extern", ": a reference"),
    ] {
        for options in CHECKS {
            let report = Function::built(&module(tag, values), options).run(json!({}), json!({}));
            let mut lines = message(&report).lines();
            assert_eq!(lines.next(), Some(&*format!("{said}{shown}")), "{report:#}");
            assert!(lines.clone().any(|line| line.ends_with("!inner")), "{report:#}");
            assert!(!lines.any(|line| line.contains("thrown Wasm")), "{report:#}");
            assert_eq!(report["error"]["blame"], "function", "{report:#}");
        }
    }
    let component = "(component
        (core module $m (tag $thrown (param i32))
            (func (export \"run\") (result i32) (throw $thrown (i32.const 12))))
        (core instance $i (instantiate $m))
        (func $run (result (result)) (canon lift (core func $i \"run\")))
        (instance $command (export \"run\" (func $run)))
        (export \"wasi:cli/run@0.2.0\" (instance $command)))";
    let report = Function::new(component).run(json!({}), json!({}));
    assert!(message(&report).starts_with(&format!("{said}: i32 12\n")), "{report:#}");
}

/// `try`, `catch_all`, `end`: it cannot be written as text any more.
#[test]
fn the_first_version_is_refused_by_name_and_with_a_remedy() {
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, b"\x01\x60\0\0"),
        section(3, b"\x01\0"),
        section(5, b"\x01\0\x01"),
        section(7, b"\x02\x06memory\x02\0\x06_start\0\0"),
        section(10, b"\x01\x06\0\x06\x40\x19\x0b\x0b"),
    ]
    .concat();
    let folder = TempDir::new().expect("a folder");
    let program = folder.path().join("app.wasm");
    fs::write(&program, module).expect("written");
    let built = monohull(&["build", program.to_str().expect("UTF-8")]);
    let said = words(&built.stderr);
    for part in ["first version of WebAssembly's exceptions", "-wasm-use-legacy-eh=false", "--translate-to-exnref"] {
        assert!(!built.status.success() && said.contains(part), "{said}");
    }
}

/// An exception goes through `protect` to a handler outside of it; `escape` goes through handlers.
#[test]
fn exceptions_and_escapes_pass_each_other() {
    let text = "(module
        (import \"monohull\" \"protect\" (func $protect (param i32 i32) (result i32)))
        (import \"monohull\" \"escape\" (func $escape))
        (import \"monohull\" \"slot_publish\" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
        (memory (export \"memory\") 1)
        (data (i32.const 1000) \"out\")
        (tag $thrown (param i32))
        (table (export \"__indirect_function_table\") 4 funcref)
        (elem (i32.const 1) $throws $escapes $handles)
        (func $throws (param i32) (throw $thrown (local.get 0)))
        (func $escapes (param i32)
            (block $caught (try_table (catch_all $caught) (call $escape)))
            ;; Nothing comes to here.
            (i32.store (i32.const 2000) (i32.const 1)))
        (func $handles (param i32)
            (i32.store (i32.const 1032) (block $caught (result i32)
                (try_table (catch $thrown $caught) (call $throws (local.get 0)))
                unreachable)))
        (func (export \"_start\")
            (i32.store (i32.const 1024) (block $caught (result i32)
                (try_table (catch $thrown $caught) (drop (call $protect (i32.const 1) (i32.const 5))))
                unreachable))
            (i32.store (i32.const 1028) (call $protect (i32.const 2) (i32.const 0)))
            (i32.store (i32.const 1036) (call $protect (i32.const 3) (i32.const 7)))
            (i32.store (i32.const 1040) (i32.load (i32.const 2000)))
            (if (call $publish (i32.const 1000) (i32.const 3) (i32.const 1024) (i32.const 20) (i32.const 0))
                (then unreachable))))";
    for options in CHECKS {
        let report = Function::built(text, options).run(json!({}), json!({ "outputs": ["out"] }));
        assert_eq!(words_of(&report), [5, 1, 7, 0, 0]);
    }
}

/// A list without end ends with an error that names the memory, and an object larger than all of it does so at once.
#[test]
fn what_is_collected_is_a_part_of_the_steps_memory() {
    let list = "(module (memory (export \"memory\") 1)
        (type $node (struct (field (ref null $node)) (field i64)))
        (func (export \"_start\") (local $list (ref null $node))
            (loop $more (local.set $list (struct.new $node (local.get $list) (i64.const 1))) (br $more))))";
    let array = "(module (memory (export \"memory\") 1)
        (type $bytes (array i8))
        (func (export \"_start\") (drop (array.new_default $bytes (i32.const 200000000)))))";
    for text in [list, array] {
        for options in CHECKS {
            let report = Function::built(text, options).run(json!({ "memory": "32MiB" }), json!({}));
            assert_eq!(report["error"]["blame"], "function", "{report:#}");
            for part in ["out of memory: the step's `memory` has no room", "GC heap out of memory"] {
                assert!(message(&report).contains(part), "{report:#}");
            }
        }
    }
}

/// Of what is collected half is free, and it doubles to grow: a quarter of the step's memory can be kept. With guard pages it is copied to
/// grow, and it is a sixth.
#[test]
fn what_is_kept_has_a_part_of_the_steps_memory() {
    // An object takes 32 bytes.
    let text = |count: u64| {
        format!(
            "(module (memory (export \"memory\") 1)
                (type $node (struct (field (ref null $node)) (field i64)))
                (func (export \"_start\") (local $list (ref null $node)) (local $left i32)
                    (local.set $left (i32.const {count}))
                    (loop $more
                        (local.set $list (struct.new $node (local.get $list) (i64.const 1)))
                        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                        (br_if $more (local.get $left)))))"
        )
    };
    for (options, part) in CHECKS.into_iter().zip([6, 4]) {
        // Just enough for it to have grown once more, and just too little.
        for mib in [100, 130, 190] {
            let function = Function::built(&text(((mib - 4) << 20) / part / 32), options);
            let report = function.run(json!({ "memory": format!("{mib}MiB") }), json!({}));
            assert_eq!(report["status"], "done", "{options:?}, {mib} MiB: {report:#}");
        }
    }
}

/// One that is kept over a wait is there in another process, with what it carries.
#[test]
fn an_exception_is_kept_over_a_wait() {
    let text = "(module
        (import \"wasi_snapshot_preview1\" \"poll_oneoff\" (func $poll (param i32 i32 i32 i32) (result i32)))
        (import \"monohull\" \"slot_publish\" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
        (memory (export \"memory\") 1)
        (data (i32.const 1000) \"out\")
        (type $node (struct (field i32)))
        (tag $thrown (param i32 (ref $node)))
        (func (export \"_start\") (local $kept exnref) (local $node (ref null $node)) (local $number i32)
            (block $caught (result exnref)
                (try_table (catch_all_ref $caught) (throw $thrown (i32.const 40) (struct.new $node (i32.const 2))))
                unreachable)
            local.set $kept
            ;; A subscription at 2000: the monotonic clock, in 1.3 s.
            (i32.store (i32.const 2016) (i32.const 1))
            (i64.store (i32.const 2024) (i64.const 1300000000))
            (if (call $poll (i32.const 2000) (i32.const 3000) (i32.const 1) (i32.const 4000)) (then unreachable))
            (block $again (result i32 (ref $node))
                (try_table (catch $thrown $again) (throw_ref (local.get $kept)))
                unreachable)
            local.set $node
            local.set $number
            (i32.store (i32.const 1024) (i32.add (local.get $number) (struct.get $node 0 (local.get $node))))
            (if (call $publish (i32.const 1000) (i32.const 3) (i32.const 1024) (i32.const 4) (i32.const 0))
                (then unreachable))))";
    let function = Function::new(text);
    let folder = function.folder.path();
    let document = json!({
        "name": "kept", "functions": { "app": { "image": "app.so" } }, "outputs": ["out"],
        "steps": [{ "name": "app", "function": "app" }],
    });
    fs::write(folder.join("w.json"), document.to_string()).expect("written");
    let in_folder = |arguments: &[&str]| -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", folder.join("state")).current_dir(folder);
        let output = command.args(arguments).stdin(Stdio::null()).output().expect("monohull starts");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words(&output.stderr)))
    };
    let suspended = in_folder(&["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(suspended["status"], "suspended", "{suspended:#}");
    let report = in_folder(&["resume", suspended["checkpoint"].as_str().expect("a path"), "--json"]);
    assert_eq!(words_of(&report), [42]);
}
