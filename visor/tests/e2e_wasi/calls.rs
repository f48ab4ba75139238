//! The functions of WASI: what right and wrong arguments give.

use super::support::{FUNCTIONS, Function, kept, program, words_of};
use serde_json::json;

/// Error numbers of WASI.
const BADF: u64 = 8;
const FAULT: u64 = 21;
const INVAL: u64 = 28;
const PERM: u64 = 63;

#[test]
fn the_documentation_has_every_function() {
    let page = include_str!("../../../docs/wasi.md");
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
    assert_eq!(results, vec![PERM; paths.len()]);
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
    assert_eq!(Function::new(&program(data, &(open + &up), 2)).numbers(), [0, PERM]);
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

#[test]
fn an_attachment_is_read_within_its_bounds_and_those_of_the_memory() {
    let read = |offset: &str, pointer: &str, len: &str| {
        format!("(call $read (i32.const {offset}) (i32.const {pointer}) (i32.const {len}))")
    };
    let calls = [
        read("0", "16", "3"),
        read("1", "20", "2"),
        read("3", "24", "0"),
        read("0", "65534", "3"),
        read("0", "-1", "1"),
        read("0", "16", "4"),
        read("4", "16", "0"),
        read("-1", "16", "2"),
        read("1", "16", "-1"),
    ];
    let count = calls.len() + 4;
    let body: String = calls.iter().enumerate().map(|(index, call)| kept(index, call)).collect();
    let rest = [
        "(call $length)",
        "(i32.load (i32.const 16))",
        "(i32.load (i32.const 20))",
        "(i32.le_u (call $left) (i32.const 786432))",
    ];
    let rest: String = rest.iter().enumerate().map(|(index, call)| kept(calls.len() + index, call)).collect();
    let text = format!(
        r#"(module
            (import "monohull" "attachment_length" (func $length (result i32)))
            (import "monohull" "attachment_read" (func $read (param i32 i32 i32) (result i32)))
            (import "monohull" "stack_left" (func $left (result i32)))
            (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "out")
            (func (export "_start")
                {body} {rest}
                (if (call $publish (i32.const 0) (i32.const 3) (i32.const 1024) (i32.const {}) (i32.const 0))
                    (then unreachable)))
            (@custom "monohull.attachment" "abc"))"#,
        count * 4
    );
    let bytes = |text: &[u8]| text.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let mut expected = vec![0, 0, 0, FAULT, FAULT, INVAL, INVAL, INVAL, INVAL];
    expected.extend([3, bytes(b"abc"), bytes(b"bc"), 1]);
    assert_eq!(Function::new(&text).numbers(), expected);
    // Without the section there is nothing to read.
    let none = Function::new(&text.replace("(@custom \"monohull.attachment\" \"abc\")", "")).numbers();
    assert_eq!(none, [INVAL, INVAL, INVAL, INVAL, INVAL, INVAL, INVAL, INVAL, INVAL, 0, 0, 0, 1]);
}

#[test]
fn the_stack_follows_that_of_the_step() {
    let text = r#"(module
        (import "monohull" "stack_left" (func $left (result i32)))
        (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "out")
        (func (export "_start")
            (i32.store (i32.const 16) (call $left))
            (drop (call $publish (i32.const 0) (i32.const 3) (i32.const 16) (i32.const 4) (i32.const 0)))))"#;
    let function = Function::new(text);
    for (stack, kept) in [(256 << 10, 128 << 10), (1 << 20, 256 << 10), (8 << 20, 256 << 10)] {
        let report = function.run(json!({ "stack": stack }), json!({ "outputs": ["out"] }));
        let left = words_of(&report)[0];
        let most: u32 = stack - kept;
        assert!((most - 16_384..=most).contains(&left), "{left} of {stack}");
    }
}

#[test]
fn random_bytes_of_a_template_are_drawn_within_the_memory() {
    let draw = |pointer: &str, len: &str| format!("(call $draw (i32.const {pointer}) (i32.const {len}))");
    let calls = [
        draw("64", "64"),
        draw("64", "0"),
        draw("65535", "2"),
        draw("-1", "1"),
        draw("0", "-1"),
        // The words before and behind what was drawn are as they were, and no instance has these 64 bytes by accident.
        "(i32.load (i32.const 60))".to_owned(),
        "(i32.load (i32.const 128))".to_owned(),
        "(i64.eqz (i64.or (i64.load (i32.const 64)) (i64.load (i32.const 120))))".to_owned(),
        "(call $ready)".to_owned(),
        "(call $attempt)".to_owned(),
    ];
    let body: String = calls.iter().enumerate().map(|(index, call)| kept(index, call)).collect();
    let text = format!(
        r#"(module
            (import "monohull" "common_random" (func $draw (param i32 i32) (result i32)))
            (import "monohull" "ready" (func $ready (result i32)))
            (import "monohull" "attempt" (func $attempt (result i32)))
            (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "out")
            (func (export "_start")
                {body}
                (if (call $publish (i32.const 0) (i32.const 3) (i32.const 1024) (i32.const {}) (i32.const 0))
                    (then unreachable))))"#,
        calls.len() * 4
    );
    assert_eq!(Function::new(&text).numbers(), [0, 0, FAULT, FAULT, FAULT, 0, 0, 0, 0, 1]);
}
