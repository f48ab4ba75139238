//! Programs whose compiled code holds forbidden instructions by accident, and what becomes of them.

use super::support::{CHECKS, Function, compiled, monohull, run_document, words, words_of};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// WRPKRU, in the order in which a constant's bytes lie.
const SPELLING: &str = "0x00ef010f";

/// Whether the loader would take an image.
fn is_accepted(image: &Path) -> bool {
    monohull(&["check", image.to_str().expect("UTF-8")]).status.success()
}

/// A program that publishes these words. Its memory has 16 MiB. At 8 there is a zero, of eight bytes, and at 16 the number 1.
fn program(words: &[&str]) -> String {
    let stores: String = words
        .iter()
        .enumerate()
        .map(|(index, word)| format!("(i32.store (i32.const {}) {word})\n", 1024 + index * 4))
        .collect();
    format!(
        r#"(module
            (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 256)
            (global $fixed i32 (i32.const {SPELLING}))
            (data (i32.const 0) "out") (data (i32.const 16) "\01")
            (func $one (result i32) (i32.load (i32.const 16)))
            (func $zero (result i64) (i64.load (i32.const 8)))
            ;; What lies behind the spelling, as an address.
            (func $at (param i32) (result i32) (i32.add (local.get 0) (i32.const 0x00ef0110)))
            (func (export "_start")
                {stores}
                (if (call $publish (i32.const 0) (i32.const 3) (i32.const 1024) (i32.const {}) (i32.const 0))
                    (then unreachable))))"#,
        words.len() * 4
    )
}

/// Words, and what each is. None of them can be compiled as it is.
const SPELLINGS: [(&str, u32); 12] = [
    ("(i32.const 0x00ef010f)", 0x00ef_010f),
    ("(i32.const 0x0028ae0f)", 0x0028_ae0f),
    ("(i32.wrap_i64 (i64.shr_u (i64.add (call $zero) (i64.const 0x00ef010f12345678)) (i64.const 32)))", 0x00ef_010f),
    ("(i32.reinterpret_f32 (f32.add (f32.load (i32.const 8)) (f32.const 0x1.de021ep-126)))", 0x00ef_010f),
    (
        "(i32.wrap_i64 (i64.shr_u (i64.reinterpret_f64 (f64.add (f64.load (i32.const 8)) (f64.const 0x1.f010fp-1009))) \
          (i64.const 32)))",
        0x00ef_010f,
    ),
    ("(i32x4.extract_lane 2 (i32x4.add (v128.load (i32.const 32)) (v128.const i32x4 1 2 0x00ef010f 4)))", 0x00ef_010f),
    ("(global.get $fixed)", 0x00ef_010f),
    ("(i32.const 7) (i32.store8 offset=0x00ef010f (call $one) (i32.const 7))", 7),
    ("(i32.store (call $at (i32.const 0)) (i32.const 77)) (i32.load offset=0x00ef010f (call $one))", 77),
    ("(i64.store offset=0x00ef010f (call $one) (i64.const 78)) (i32.load (call $at (i32.const 0)))", 78),
    ("(f32.store offset=0x00ef010f (call $one) (f32.const 1)) (i32.load (call $at (i32.const 0)))", 0x3f80_0000),
    (
        "(v128.store32_lane offset=0x00ef010f 1 (call $one) (v128.const i32x4 1 79 3 4)) (i32.load (call $at (i32.const 0)))",
        79,
    ),
];

#[test]
fn constants_that_spell_forbidden_instructions_are_moved_out_of_the_code() {
    let folder = TempDir::new().expect("a folder");
    for (word, _) in SPELLINGS {
        let text = program(&[word]);
        assert!(!is_accepted(&compiled(folder.path(), &wat::parse_str(text).expect("a right program"), &[])), "{word}");
    }
    let text = program(&SPELLINGS.map(|(word, _)| word));
    for options in CHECKS {
        let function = Function::built(&text, options);
        assert!(is_accepted(&function.folder.path().join("app.so")));
        let report = function.run(json!({ "memory": "64MiB" }), json!({ "outputs": ["out"] }));
        assert_eq!(words_of(&report), SPELLINGS.map(|(_, value)| value));
    }
}

#[test]
fn offsets_that_are_moved_out_of_the_code_trap_where_they_did() {
    let folder = TempDir::new().expect("a folder");
    let access = |kind: &str, address: u64, offset: u64, options: &[&str]| {
        let memory = if kind == "i64" { "i64 2" } else { "2" };
        let text = format!(
            "(module (memory (export \"memory\") {memory})
                (func $at (result {kind}) ({kind}.load ({kind}.const 0)))
                (func (export \"_start\")
                    ({kind}.store ({kind}.const 0) ({kind}.const {address}))
                    (i64.store8 offset={offset} (call $at) (i64.const 7))
                    (if (i32.ne (i32.load8_u offset={offset} (call $at)) (i32.const 7)) (then unreachable))
                    (drop (i32.load offset={offset} (call $at)))))"
        );
        let options = [&["--variant", "5"], options].concat();
        compiled(folder.path(), &wat::parse_str(text).expect("a right program"), &options);
        let document = json!({
            "name": "test",
            "functions": { "app": { "image": "app.so" } },
            "steps": [{ "name": "app", "function": "app" }],
        });
        let report = run_document(folder.path(), &document);
        report["error"]["message"].as_str().unwrap_or_default().to_owned()
    };
    let (last, guard) = (u64::from(u32::MAX), 32 << 20);
    for options in CHECKS {
        for (kind, address, offset) in [("i32", 8, 131_060), ("i32", 65_536, 65_532), ("i64", 65_536, 65_532)] {
            assert_eq!(access(kind, address, offset, options), "", "{address} + {offset}");
        }
        for (kind, address, offset) in [
            ("i32", 1, 131_068),
            ("i32", last - 15, 32),
            ("i32", last, last),
            ("i32", last - 3, guard),
            ("i32", 16, last),
            ("i64", 1, 131_068),
            ("i64", u64::MAX - 15, 32),
            ("i64", last - 15, 32),
            ("i64", u64::MAX, u64::MAX),
        ] {
            let said = access(kind, address, offset, options);
            assert!(said.contains("out of bounds memory access"), "{address} + {offset}: {said}");
        }
    }
}

/// A module whose function `inner` compares an index with the length of a table, which is XRSTOR and no constant of the program.
const REMAINS: &str = "(module
    (memory (export \"memory\") 1)
    (table 0x28ae0f 0x28ae0f funcref)
    (func $outer (export \"_start\") (call $inner (i32.load (i32.const 0))))
    (func $inner (param i32) (call_indirect (local.get 0))))";

#[test]
fn a_program_that_is_refused_in_each_way_is_told_which_function() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("app.wasm");
    let document: Value = json!({
        "name": "test",
        "functions": { "app": { "image": "app.wasm" } },
        "steps": [{ "name": "app", "function": "app" }],
    });
    let file = folder.path().join("test.json");
    fs::write(&file, document.to_string()).expect("written");
    let (path, file) = (path.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
    let component = format!("(component (core {}", REMAINS.trim_start_matches('(').replace("(module", "module") + ")");
    for (text, expected) in [
        (REMAINS, "has to change: function 1 `inner` (XRSTOR)\n"),
        (&component, "has to change: function 1 `inner` of the component's module 0 (XRSTOR)\n"),
    ] {
        fs::write(path, wat::parse_str(text).expect("a right program")).expect("written");
        for arguments in [["build", path], ["run", file], ["validate", file]] {
            let done = monohull(&arguments);
            let said = words(&done.stderr);
            assert!(
                done.status.code() == Some(2) && said.contains(expected),
                "{arguments:?}: {:?} {said}",
                done.status
            );
            if arguments[0] == "build" {
                let (place, _) = said.split_once(expected.trim_start_matches("has to change: ")).expect("named");
                assert!(place.contains("XRSTOR at file offset") && place.contains("in function 1 `inner`"), "{said}");
            }
        }
        assert!(!folder.path().join("app.so").exists(), "no image is made");
    }
}
