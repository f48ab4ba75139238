//! Libos modules come on demand, and a module that cannot be loaded costs its callers an error that says why, never the
//! process. (One that panics ends the process: see `process_calls`.)
//!
//! The wrong modules are made here, with `rustc`, from `module.rs`.

#[path = "../support/mod.rs"]
mod support;
#[path = "../support/wrong_module.rs"]
mod wrong_module;

use goblin::elf::Elf;
use monohull_abi::module::Layout;
use monohull_abi::{Errno, number};
use monohull_visor::domain::hostcall::NAMES;
use monohull_visor::engine::RunOptions;
use monohull_visor::report::{Failure, Silent};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use support::{run, run_with};
use wrong_module::{built, fresh_folder, with_wrong_time};

/// A function that makes one hostcall twice and fails with both answers.
fn ask(number: u32) -> Value {
    json!({
        "name": "ask",
        "functions": { "hostcall-abuse": { "image": "hostcall-abuse" } },
        "steps": [{ "name": "ask", "function": "hostcall-abuse", "args": { "role": "ask", "number": number } }],
        "limits": { "carriers": 1 },
    })
}

fn options(modules: PathBuf) -> RunOptions {
    RunOptions { modules: Some(modules), ..RunOptions::default() }
}

/// The error that the function received, from a run with these modules.
fn error_of_call(number: u32, modules: PathBuf) -> String {
    let report = run_with(&ask(number), &options(modules), Arc::new(Silent));
    report.error.expect("it always fails").message
}

/// Both calls are refused as the module's failure, with this message.
#[track_caller]
fn refused(way: &str, words: &str) {
    let answer = error_of_call(number::CLOCK_GETTIME, with_wrong_time(way));
    let answers: Vec<&str> = answer.lines().collect();
    assert_eq!(answers.len(), 2, "{answer}");
    for answer in answers {
        assert!(answer.starts_with(&format!("{}: libos module `time`: ", Errno::ModuleFailed.to_value())), "{answer}");
        assert!(answer.contains(words), "{answer}");
    }
}

fn nothing() -> Value {
    json!({
        "name": "nothing",
        "functions": { "no-op": { "image": "no-op" } },
        "steps": [{ "name": "nothing", "function": "no-op" }],
    })
}

#[test]
fn a_module_that_is_not_called_is_not_loaded() {
    assert_eq!(run(&nothing()).modules, [""; 0]);
}

#[test]
fn a_module_is_loaded_by_its_first_call() {
    let report = run(&ask(number::CLOCK_GETTIME));
    assert_eq!(report.modules, ["time"]);
}

#[test]
fn all_modules_are_loaded_if_asked_for() {
    let options = RunOptions { load_all: true, ..RunOptions::default() };
    let report = run_with(&nothing(), &options, Arc::new(Silent));
    assert_eq!(report.modules, ["mm", "stdio", "time", "fdtab", "ramfs", "fatfs", "mmap-file", "socket"]);
}

/// Without a version the dynamic linker takes the oldest there is, which is there for old programs.
#[test]
fn what_modules_take_of_libc_has_a_version() {
    for name in NAMES {
        let bytes = std::fs::read(built(name)).expect("a module as built");
        let module = Elf::parse(&bytes).expect("a shared object");
        let taken = module.dynsyms.iter().enumerate().skip(1).filter(|(_, symbol)| symbol.is_import());
        for (index, symbol) in taken {
            let symbol = module.dynstrtab.get_at(symbol.st_name).expect("a name");
            let version = module.versym.as_ref().and_then(|versions| versions.get_at(index));
            let has_one = version.is_some_and(|version| !version.is_local() && !version.is_global());
            assert!(has_one, "{name}: {symbol}");
        }
    }
}

#[test]
fn a_right_module_made_here_serves() {
    let answer = error_of_call(number::CLOCK_GETTIME, with_wrong_time("nothing_wrong"));
    assert_eq!(answer, "42: \n42: ");
}

#[test]
fn a_missing_module_fails_its_callers_only() {
    let empty = fresh_folder("empty");
    let answer = error_of_call(number::CLOCK_GETTIME, empty.clone());
    assert!(answer.contains("time.so cannot be loaded"), "{answer}");
    let report = run_with(&nothing(), &options(empty), Arc::new(Silent));
    assert!(report.error.is_none(), "{:#?}", report.error);
}

#[test]
fn a_missing_module_behind_an_input_slot_is_reported() {
    let mut document = nothing();
    document["inputs"] = json!(["text"]);
    let options = RunOptions {
        inline_inputs: vec![("text".into(), b"text".to_vec())],
        ..options(fresh_folder("empty-for-input"))
    };
    let Failure { kind, message, .. } = run_with(&document, &options, Arc::new(Silent)).error.expect("it fails");
    assert_eq!(kind.name(), "input");
    assert!(message.contains("mm.so cannot be loaded"), "{message}");
}

#[test]
fn a_file_that_is_no_shared_object() {
    let folder = fresh_folder("text");
    std::fs::write(folder.join("time.so"), "tick tock").expect("a file");
    let answer = error_of_call(number::CLOCK_GETTIME, folder);
    assert!(answer.contains("time.so cannot be loaded: "), "{answer}");
}

#[test]
fn a_shared_object_that_is_no_module() {
    refused("exports_nothing", "is not a libos module");
    refused("no_magic", "is not a libos module");
}

#[test]
fn a_module_of_another_version() {
    refused("other_version", "was built for version 2 of the module contract; this visor has version 1");
}

#[test]
fn a_module_of_another_layout() {
    let Layout { table, host, call, services } = Layout::HERE;
    let ours = format!("{table}, {host}, {call}, {services:08x}");
    for (built_with, theirs) in [
        ("other_sizes", format!("{table}, {}, {call}, {services:08x}", host + 8)),
        ("other_services", format!("{table}, {host}, {call}, {:08x}", services ^ 1)),
    ] {
        let numbers = format!("{theirs}, this visor has {ours}");
        let text = format!("time.so was built for another layout of the module contract: {numbers}; rebuild it");
        refused(built_with, &text);
    }
}

#[test]
fn a_module_by_another_name() {
    refused("other_name", "calls itself `stdio`, `time` was needed");
}

#[test]
fn a_module_that_claims_a_foreign_number() {
    refused("foreign_number", "claims hostcall 1, which is not one of its own");
}

#[test]
fn a_module_that_cannot_start() {
    refused("makes_no_state", "did not start: it could not make its state");
}

#[test]
fn a_module_that_serves_less_than_it_should() {
    let folder = with_wrong_time("serves_less");
    assert_eq!(error_of_call(number::CLOCK_GETTIME, folder.clone()), "42: \n42: ");
    let refusal = format!("{}: NANOSLEEP: no such hostcall", Errno::NoSuchCall.to_value());
    assert_eq!(error_of_call(number::NANOSLEEP, folder), format!("{refusal}\n{refusal}"));
}
