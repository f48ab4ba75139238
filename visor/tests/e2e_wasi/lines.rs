//! Backtraces of traps: names of functions, and lines of source where a program came with debug information.

use super::support::{CHECKS, Function, compiled, run_with};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const GUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasi/guests");

/// What is said of the tour when it panics, in this image.
fn panic_of_the_tour(image: &str) -> String {
    let folder = TempDir::new().expect("a folder");
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images").join(image);
    let document = json!({
        "name": "tour",
        "functions": { "tour": { "image": image } },
        "files": [{ "at": "/work", "memory": "1MiB" }],
        "steps": [{ "name": "tour", "function": "tour", "args": { "end": "panic" } }],
    });
    let report = run_with(folder.path(), &document, &[]);
    assert_eq!(report["error"]["blame"], "function", "{report:#}");
    report["error"]["message"].as_str().expect("a message").to_owned()
}

/// A program of the compilers of Rust, as a module and as a component.
#[test]
fn a_backtrace_has_the_lines_of_the_source() {
    let source = fs::read_to_string(format!("{GUESTS}/tour/src/main.rs")).expect("the tour's source");
    let (line, text) = source
        .lines()
        .zip(1..)
        .map(|(text, line)| (line, text))
        .find(|(_, text)| text.contains("panic!(\"as"))
        .expect("panics");
    let column = text.find("panic!").expect("there") + 1;
    for image in ["wasi-tour.so", "wasi-component.so"] {
        let said = panic_of_the_tour(image);
        let frames: Vec<&str> = said.lines().collect();
        let at =
            frames.iter().position(|frame| frame.ends_with("!wasi_tour::main")).unwrap_or_else(|| panic!("{said}"));
        assert_eq!(frames[at + 1].trim(), format!("at guests/tour/src/main.rs:{line}:{column}"), "{said}");
        // The standard library's lines come with it.
        assert!(said.contains("at library/std/src/panicking.rs:"), "{said}");
    }
}

/// Line programs of the fourth version of DWARF: the address of each row counts from the start of the code section.
fn line_program() -> Vec<u8> {
    let mut header = vec![1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
    header.extend(b"src\0\0main.c\0\x01\0\0\0");
    let row = |address: u8, line: u8| [0, 5, 2, address, 0, 0, 0, 5, 7, 3, line, 1];
    // A row adds to the last line, and the first is 1.
    let mut rows: Vec<u8> = [row(2, 9), row(5, 10)].concat();
    rows.extend([0, 5, 2, 10, 0, 0, 0, 0, 1, 1]);
    let length = (header.len() as u32).to_le_bytes();
    let unit = [&4_u16.to_le_bytes()[..], &length, &header, &rows].concat();
    [&(unit.len() as u32).to_le_bytes()[..], &unit].concat()
}

/// A program that fails in `inner`, with this as its line programs.
fn program(lines: &[u8]) -> String {
    let lines: String = lines.iter().map(|byte| format!("\\{byte:02x}")).collect();
    format!(
        "(module (memory (export \"memory\") 1) (func $inner unreachable) (func (export \"_start\") call $inner)
            (@custom \".debug_line\" \"{lines}\"))"
    )
}

/// What is said of it.
#[track_caller]
fn trap(lines: &[u8], options: &[&str]) -> String {
    said(&Function::built(&program(lines), options))
}

#[track_caller]
fn said(function: &Function) -> String {
    let report: Value = function.run(json!({}), json!({}));
    report["error"]["message"].as_str().unwrap_or_else(|| panic!("{report:#}")).to_owned()
}

#[test]
fn debug_information_that_cannot_be_read_is_no_obstacle() {
    let lines = line_program();
    for options in CHECKS {
        let said = trap(&lines, options);
        assert!(said.contains("!inner\n                    at src/main.c:10:7\n"), "{said}");
        assert!(said.ends_with("at src/main.c:20:7"), "{said}");
    }
    let without = trap(&[], &[]);
    assert!(without.contains("!inner\n") && !without.contains(" at src"), "{without}");
    let (mut too_long, mut unknown) = (lines.clone(), lines.clone());
    too_long[0] = 0xff;
    unknown[4] = 9;
    for damaged in [&too_long, &unknown, &lines[..20].to_vec(), &vec![0xff; 100]] {
        assert_eq!(trap(damaged, &[]), without);
    }
}

/// Constants that were moved out of the code have taken all of it to other places.
#[test]
fn a_program_that_was_rewritten_has_no_lines() {
    let module = wat::parse_str(program(&line_program())).expect("a right program");
    for (variant, has_lines) in [("1", true), ("3", true), ("4", false), ("5", false)] {
        let function = Function { folder: TempDir::new().expect("a folder") };
        compiled(function.folder.path(), &module, &["--variant", variant]);
        let said = said(&function);
        assert!(said.contains("!inner\n") && said.contains("at src/main.c:10:7") == has_lines, "{variant}: {said}");
    }
}

/// A program chooses its names: none is a line of its own, controls a terminal, or hides what comes behind it.
#[test]
fn names_are_one_line_of_bounded_length() {
    let long = "n".repeat(100_000);
    let program = format!(
        r#"(module (memory (export "memory") 1)
            (func $inner (@name "in\1b[31m\nCaused by:\n    wasm trap: forged\r") unreachable)
            (func (@name "{long}") (export "_start") call $inner))"#
    );
    let said = said(&Function::new(&program));
    assert!(said.contains("!in\u{fffd}[31m\u{fffd}Caused by:\u{fffd}    wasm trap: forged\u{fffd}\n"), "{said}");
    assert!(said.ends_with("nnn…") && said.len() < 2000, "{} bytes", said.len());
    assert_eq!(said.lines().filter(|line| line.contains("Caused by:") && !line.contains('!')).count(), 0, "{said}");
    assert!(said.starts_with("wasm trap: wasm `unreachable` instruction executed\nerror while"), "{said}");
}

/// A report has room for so much of an error. Why a program has trapped is there, however long its backtrace is.
#[test]
fn a_long_backtrace_leaves_room_for_its_cause() {
    let long = "n".repeat(1000);
    let names: Vec<String> = (0..30).map(|number| format!("{number}{long}")).collect();
    let mut functions = String::from("(func $f0 unreachable)");
    for (number, name) in names.iter().enumerate() {
        functions += &format!("(func $f{} (@name \"{name}\") call $f{number})", number + 1);
    }
    let program = format!(
        "(module (memory (export \"memory\") 1) {functions} (func (export \"_start\") call $f{}))",
        names.len()
    );
    let said = said(&Function::new(&program));
    assert!(said.contains("!0nnn") && said.len() > 3000, "a long backtrace: {} bytes: {said}", said.len());
    assert!(said.starts_with("wasm trap: wasm `unreachable` instruction executed\n"), "{said}");
}
