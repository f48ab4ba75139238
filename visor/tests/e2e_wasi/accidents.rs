//! Programs whose compiled code holds forbidden instructions by accident, and what becomes of them.

use super::hostile::{leb, section};
use super::support::{CHECKS, Function, compiled, monohull, run_document, words, words_of};
use goblin::elf::Elf;
use serde_json::{Value, json};
use std::collections::HashMap;
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

/// Types that are declared as a group. The function's local is numbered behind its parameters.
#[test]
fn constants_are_moved_where_types_are_declared_in_a_group() {
    let text = format!(
        "(module (rec (type $none (func)) (type $two (func (param i32 i32))))
            (memory (export \"memory\") 256)
            (func $check (type $two) (i32.store offset={SPELLING} (local.get 0) (local.get 1))
                (if (i32.ne (i32.load offset={SPELLING} (local.get 0)) (i32.const {SPELLING})) (then unreachable)))
            (func (export \"_start\") (type $none) (call $check (i32.const 0) (i32.const {SPELLING}))))"
    );
    let report = Function::built(&text, &[]).run(json!({ "memory": "64MiB" }), json!({}));
    assert_eq!(report["status"], "done", "{report:#}");
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

/// One whose table has a function at that place.
const ELEMENT: &str = "(module
    (memory (export \"memory\") 1)
    (table 0x00ef0110 funcref)
    (elem (i32.const 0x00ef010f) func $start)
    (func $start (export \"_start\")))";

#[test]
fn initial_values_that_are_refused_are_named() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("app.wasm");
    fs::write(&path, wat::parse_str(ELEMENT).expect("a right program")).expect("written");
    let built = monohull(&["build", path.to_str().expect("UTF-8")]);
    let said = words(&built.stderr);
    let expected = "has to change: the initial values of globals and tables (WRPKRU)\n";
    assert!(built.status.code() == Some(2) && said.ends_with(expected), "{said}");
}

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
    let run = "(instance $i) (export \"wasi:cli/run@0.2.0\" (instance $i))";
    let component = format!("(component (core {} {run})", REMAINS.trim_start_matches('('));
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

/// Calls of the first function. Their places in it differ by less than functions are apart.
const CALLS: usize = 64;
/// Large functions, and stores of each: nearly 3 MB of code.
const LARGE: usize = 210;
const STORES: usize = 400;
/// Small functions behind these: 64 KiB of code and more.
const SMALL: usize = 2300;

/// A module whose first function calls these, which have much code between them.
fn far_calls(called: [usize; CALLS]) -> Vec<u8> {
    let body = |code: &[u8]| {
        let body = [&[0], code, &[0x0b]].concat();
        [leb(body.len()), body].concat()
    };
    // `v128.store` of constants that are all different.
    let store = |number: usize| {
        let constant = 0x4040_4040_0000_0000_4040_4040_0000_0000_u128 + number as u128;
        [&[0x20, 0, 0xfd, 0x0c], &constant.to_le_bytes()[..], &[0xfd, 0x0b, 0], &leb(number * 16)].concat()
    };
    let large = body(&(0..STORES).flat_map(store).collect::<Vec<u8>>());
    let calls = body(&called.iter().flat_map(|to| [&[0x41, 1, 0x10], &*leb(*to)].concat()).collect::<Vec<u8>>());
    let count = 1 + LARGE + SMALL;
    let types = [vec![0], vec![1; count - 1]].concat();
    let code = [leb(count), calls, large.repeat(LARGE), body(&[]).repeat(SMALL)].concat();
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, b"\x02\x60\x00\x00\x60\x01\x7f\x00"),
        section(3, &[leb(count), types].concat()),
        section(5, b"\x01\x00\x01"),
        section(7, b"\x02\x06memory\x02\x00\x06_start\x00\x00"),
        section(10, &code),
    ]
    .concat()
}

/// Which call of which function would have XRSTOR as its distance.
fn spelled_call(image: &[u8], called: usize) -> (usize, usize) {
    let elf = Elf::parse(image).expect("an image");
    let starts = elf.program_headers.iter().map(|header| header.p_offset as usize).filter(|start| *start > 0);
    let start = starts.into_iter().find(|start| image[*start..].starts_with(b"\x7fELF")).expect("a compiled program");
    let elf = Elf::parse(&image[start..]).expect("a compiled program");
    let text = elf.section_headers.iter().find(|section| elf.shdr_strtab.get_at(section.sh_name) == Some(".text"));
    let code = &image[start + text.expect("code").sh_offset as usize..];
    let place = |symbol: goblin::elf::Sym| {
        let index = elf.strtab.get_at(symbol.st_name)?.strip_prefix("wasm[0]::function[")?.strip_suffix(']')?;
        Some((index.parse::<usize>().ok()?, symbol.st_value as usize, symbol.st_size as usize))
    };
    let places: Vec<(usize, usize, usize)> = elf.syms.iter().filter_map(place).collect();
    let functions: HashMap<usize, usize> = places.iter().map(|(index, at, _)| (*at, *index)).collect();
    let (_, caller, size) = places.iter().find(|(index, ..)| *index == 0).expect("the first function");
    let to = |at: usize| at + 5 + u32::from_le_bytes(code[at + 1..at + 5].try_into().expect("four bytes")) as usize;
    let is_call = |at: &usize| code[*at] == 0xe8 && functions.get(&to(*at)) == Some(&called);
    let calls: Vec<usize> = (*caller..caller + size - 5).filter(is_call).collect();
    assert_eq!(calls.len(), CALLS);
    let distances = (0x28..0x30_usize).map(|operand| operand << 16 | 0xae0f);
    let found =
        distances.flat_map(|distance| calls.iter().enumerate().map(move |(call, at)| (call, at + 5 + distance)));
    found.filter_map(|(call, at)| Some((call, *functions.get(&at)?))).next().expect("one is that far away")
}

/// The distance of a call is no constant of the program.
#[test]
fn a_distance_that_spells_a_forbidden_instruction_is_another_in_another_layout() {
    let folder = TempDir::new().expect("a folder");
    let first = 1 + LARGE;
    let level = ["--level", "x86-64-v2"];
    let mut called = [first; CALLS];
    let image = fs::read(compiled(folder.path(), &far_calls(called), &level)).expect("compiled");
    let (call, function) = spelled_call(&image, first);
    called[call] = function;
    let module = far_calls(called);
    assert!(!is_accepted(&compiled(folder.path(), &module, &level)), "call {call} of function {function}");
    let other =
        fs::read(compiled(folder.path(), &module, &[&level[..], &["--variant", "1"]].concat())).expect("compiled");
    let path = folder.path().join("app.wasm");
    fs::write(&path, module).expect("written");
    let built = monohull(&["build", path.to_str().expect("UTF-8"), "--cpu", level[1]]);
    assert!(built.status.success(), "{}", words(&built.stderr));
    assert!(fs::read(folder.path().join("app.so")).expect("built") == other, "it is that of the second way");
    let report = run_document(
        folder.path(),
        &json!({
            "name": "test", "functions": { "app": { "image": "app.so" } }, "steps": [{ "name": "app", "function": "app" }],
        }),
    );
    assert_eq!(report["status"], "done", "{report:#}");
}
