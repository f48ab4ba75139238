//! Programs that ask for too much, call what is no function of theirs, or reach for memory that is not theirs; and files that are no programs.

use super::extent::some_of;
use super::generated::{Random, generated};
use super::neighbour::{are_traps, attacker, document, victim};
use super::programs::refused;
use super::support::{CHECKS, Function, failure, monohull, program, run_with, words, words_of};
use goblin::elf::header::EI_OSABI;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// A program compiled with Wasmtime's own command.
const COMPILED: [&[u8]; 2] = [
    include_bytes!("../../../checker/tests/compiled/sum.cwasm"),
    include_bytes!("../../../checker/tests/compiled/constant.cwasm"),
];

#[test]
fn tables_are_charged_to_the_memory_of_the_step() {
    let text = |body: &str, results| {
        program("", body, results).replace("(memory (export", "(table $t 1 funcref)\n(memory (export")
    };
    let grow = |elements: &str| format!("(table.grow $t (ref.null func) (i32.const {elements}))");
    let limit = || json!({ "memory": "48MiB" });
    // What fits, to the last element.
    let body = format!(
        "(i32.store (i32.const 1024) {})
         (table.fill $t (i32.const 0) (ref.null func) (table.size $t))
         (i32.store (i32.const 1028) (table.size $t))
         (i32.store (i32.const 1032) (ref.is_null (table.get $t (i32.const 1000000))))\n",
        grow("1000000")
    );
    for options in CHECKS {
        let report = Function::built(&text(&body, 3), options).run(limit(), json!({ "outputs": ["out"] }));
        assert_eq!(words_of(&report), [1, 1_000_001, 1]);
        // Ten million elements, two thousand million, as many as there are numbers, and more and more.
        let endless = format!("(loop $more (drop {}) (br $more))", grow("100000"));
        let once = ["10000000", "0x7fffffff"].map(|elements| format!("(drop {})", grow(elements)));
        for body in once.iter().chain([&endless]) {
            let report = Function::built(&text(body, 1), options).run(limit(), json!({}));
            let error = &report["error"];
            assert_eq!((&report["status"], &error["blame"]), (&json!("failed"), &json!("function")), "{report:#}");
            assert!(error["message"].to_string().contains("out of memory"), "{body}: {report:#}");
        }
        let none = format!("(i32.store (i32.const 1024) {})", grow("-1"));
        let report = Function::built(&text(&none, 1), options).run(limit(), json!({ "outputs": ["out"] }));
        assert_eq!(words_of(&report), [u32::MAX]);
    }
    let declared = |elements: u32| {
        format!("(module (memory (export \"memory\") 1) (table {elements} funcref) (func (export \"_start\")))")
    };
    for (elements, memory, status) in
        [(10_000_000, "48MiB", "failed"), (10_000_000, "1GiB", "done"), (u32::MAX, "1GiB", "failed")]
    {
        let report = Function::new(&declared(elements)).run(json!({ "memory": memory }), json!({}));
        assert_eq!(report["status"], status, "{elements}: {report:#}");
        assert!(status == "done" || report["error"]["blame"] == "function", "{report:#}");
    }
}

#[test]
fn calls_with_a_wrong_signature_are_traps() {
    for (kind, expected) in [("$own", ""), ("$other", "indirect call type mismatch")] {
        let text = format!(
            "(module (memory (export \"memory\") 1)
                (type $own (func (param i32))) (type $other (func (param i64)))
                (table funcref (elem $called))
                (func $called (param i32) (i32.store (local.get 0) (i32.const 1)))
                (func (export \"_start\") ({}.const 64) (call_indirect (type {kind}) (i32.const 0))))",
            if kind == "$own" { "i32" } else { "i64" }
        );
        for options in CHECKS {
            let report = Function::built(&text, options).run(json!({}), json!({}));
            let said = report["error"]["message"].as_str().unwrap_or_default();
            assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{kind}: {report:#}");
        }
    }
}

#[test]
fn memories_of_all_pages_are_refused_or_kept_to() {
    // What there is to have is filled to the last byte.
    let body = "(i32.store (i32.const 1024) (memory.grow (i32.const 65535)))
        (i32.store (i32.const 1028) (memory.grow (i32.const 65536)))
        (i32.store (i32.const 1032) (memory.grow (i32.const -1)))
        (i32.store (i32.const 1036) (memory.grow (i32.const 255)))
        (memory.fill (i32.const 65536) (i32.const 7) (i32.const 16711680))
        (i32.store (i32.const 1040) (i32.load8_u (i32.const 16777215)))
        (i32.store (i32.const 1044) (memory.grow (i32.const 65000)))
        (i32.store (i32.const 1048) (memory.size))\n";
    for options in CHECKS {
        let function = Function::built(&program("", body, 7), options);
        let report = function.run(json!({ "memory": "48MiB" }), json!({ "outputs": ["out"] }));
        assert_eq!(words_of(&report), [u32::MAX, u32::MAX, u32::MAX, 1, 7, u32::MAX, 256]);
        for body in [
            "(memory.fill (i32.const 0) (i32.const 7) (i32.const 65537))",
            "(memory.fill (i32.const 65536) (i32.const 7) (i32.const 1))",
            "(memory.fill (i32.const -1) (i32.const 7) (i32.const -1))",
            "(memory.copy (i32.const 0) (i32.const 1) (i32.const 65536))",
            "(memory.copy (i32.const 1) (i32.const 0) (i32.const 65536))",
        ] {
            let said = failure(body, options, json!({}))["message"].to_string();
            assert!(said.contains("out of bounds memory access"), "{body}: {said}");
        }
    }
    let said = refused("app.wasm", &wat::parse_str("(module (memory (export \"memory\") 65537))").expect("parses"));
    assert!(said.contains("cannot be compiled"), "{said}");
    // All that addresses of 32 bits can name. Pages that are not used take none of the host's memory.
    let access = |offset: u32| {
        format!(
            "(module (memory (export \"memory\") 65536)
                (func (export \"_start\")
                    (i32.store (i32.const -4) (i32.const 7))
                    (if (i32.ne (i32.load offset={offset} (i32.const -8)) (i32.const 7)) (then unreachable))))"
        )
    };
    let function = Function::new(&access(4));
    let report = function.run(json!({ "memory": "4GiB" }), json!({}));
    assert_eq!((&report["status"], &report["error"]["blame"]), (&json!("failed"), &json!("function")), "{report:#}");
    assert_eq!(function.run(json!({ "memory": "5GiB" }), json!({}))["status"], "done");
    let report = Function::new(&access(5)).run(json!({ "memory": "5GiB" }), json!({}));
    let said = report["error"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("out of bounds memory access"), "{report:#}");
}

/// Compiled code of another compiler would be believed to keep to its memory. It is taken neither as a program nor as an image.
#[test]
fn code_that_was_compiled_elsewhere_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let document = json!({
        "name": "test", "functions": { "app": { "image": "app.so" } }, "steps": [{ "name": "app", "function": "app" }],
    });
    let file = folder.path().join("test.json");
    fs::write(&file, document.to_string()).expect("written");
    for compiled in COMPILED {
        assert!(compiled.starts_with(b"\x7fELF"));
        let said = refused("app.wasm", compiled);
        assert!(said.contains("cannot be compiled"), "{said}");
        // The head of a program before it does not make it one.
        refused("app.wasm", &[&b"\0asm\x01\0\0\0"[..], compiled].concat());
        // As it is, and with the mark that says which system's it is changed to what the loader takes.
        let mut forged = compiled.to_vec();
        forged[EI_OSABI] = 0;
        for image in [compiled, &forged] {
            fs::write(folder.path().join("app.so"), image).expect("written");
            for verb in ["validate", "run"] {
                let done = monohull(&[verb, file.to_str().expect("UTF-8")]);
                let said = words(&done.stderr);
                let is_refused = said.contains("app.so is refused");
                assert!(done.status.code() == Some(2) && is_refused, "{verb}: {:?} {said}", done.status);
            }
        }
    }
}

/// Valid modules with a few bytes changed, removed or doubled: each is compiled, or refused with a reason of the compiler's own.
#[test]
fn damaged_modules_are_compiled_or_refused_with_a_reason() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("app.wasm");
    let (mut random, mut refusals) = (Random(1), 0);
    let number = some_of(60, 3000);
    for round in 0..number {
        let mut module = generated(round % 10);
        for _ in 0..=random.below(3) {
            let at = random.below(module.len());
            match random.below(4) {
                0 => module[at] ^= 1 << random.below(8),
                1 => module[at] = random.below(256) as u8,
                2 => drop(module.drain(at..(at + 1 + random.below(8)).min(module.len()))),
                _ => {
                    let end = (at + 1 + random.below(8)).min(module.len());
                    let twice = module[at..end].to_vec();
                    module.splice(at..at, twice);
                }
            }
        }
        fs::write(&path, &module).expect("written");
        let built = monohull(&["build", path.to_str().expect("UTF-8")]);
        let said = words(&built.stderr);
        match built.status.code() {
            Some(0) => assert_eq!(said, "", "{round}"),
            Some(2) => {
                let has_reason = said.contains("app.wasm cannot be compiled: ") || said.contains("has to change: ");
                assert!(has_reason && !said.contains("panicked") && !said.contains("ended with"), "{round}: {said}");
                refusals += 1;
            }
            other => panic!("{round}: {other:?} {said}"),
        }
    }
    assert!(refusals > number / 4, "{refusals} of {number}");
}

/// The last attempt is the control: the same instructions, where they may reach.
#[test]
fn a_program_without_keys_reads_and_writes_neither_its_neighbour_nor_the_runtime() {
    let same = |victim: &str, options: &[&str]| -> (u32, Value) {
        let folder = TempDir::new().expect("a folder");
        for (name, text) in [("attacker", &*attacker()), ("victim", victim)] {
            let path = folder.path().join(name).with_extension("wasm");
            fs::write(&path, wat::parse_str(text).expect("a right program")).expect("written");
            let built = monohull(&[&["build", path.to_str().expect("UTF-8")], options].concat());
            assert!(built.status.success(), "{}", words(&built.stderr));
        }
        let report = run_with(folder.path(), &document(), &["--isolation", "process"]);
        (words_of(&report)[0], report)
    };
    for options in CHECKS {
        let (intact, report) = same(&victim(""), options);
        assert_eq!(intact, 1, "the neighbour's memory");
        are_traps(&report);
    }
    // The other control: the neighbour notices a single byte.
    assert_eq!(same(&victim("(i32.store8 (i32.const 1000000) (i32.const 0))"), &[]).0, 0);
}
