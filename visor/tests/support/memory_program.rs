//! A WebAssembly program with half a megabyte of data, and what its memory must hold after slots were moved there, after a wait, after it has
//! gone back, and where it starts from a template.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use std::fmt::Debug;

/// Where the data of the program lies, and what of its memory is looked at.
pub(crate) const START: usize = 65536;
pub(crate) const LEN: usize = 1 << 19;
pub(crate) const SHOWN: usize = 12 << 16;
pub(crate) const PAGE: usize = 4096;

const IMPORTS: &str = r#"
    (import "monohull" "slot_take" (func $take (param i32 i32 i32 i32) (result i32)))
    (import "monohull" "slot_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (import "monohull" "slot_move" (func $move (param i32 i32 i32) (result i32)))
    (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
    (import "monohull" "slot_publish_moved" (func $publish_moved (param i32 i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))"#;
/// What makes it one that can go back in its own memory.
pub(crate) const GOES_BACK: &str = r#"
    (import "monohull" "capture" (func $capture (param i32 i32 i32) (result i32)))
    (import "monohull" "rewind" (func $rewind (param i64 i32 i32) (result i32)))"#;
/// What it imports to start from a template.
pub(crate) const READY: &str = "(import \"monohull\" \"ready\" (func $ready (result i32)))";

/// Bytes of which no two pages are alike.
pub(crate) fn pattern(len: usize) -> String {
    (0..).map(|number| format!("{number:07}\n")).flat_map(|line| line.chars().collect::<Vec<_>>()).take(len).collect()
}

/// The program. Names and results lie behind what is shown of its memory; `$show` publishes that under a letter.
pub(crate) fn program(imports: &str, data: &str, start: &str) -> String {
    let first = pattern(LEN).replace('\n', "\\0a");
    format!(
        "(module {IMPORTS} {imports}
            (memory (export \"memory\") 80)
            (data (i32.const {START}) \"{first}\") {data}
            (func $must (param i32) (if (i32.ne (local.get 0) (i32.const 0)) (then unreachable)))
            ;; Takes a slot with a name of two letters: handle and length lie at 3000032 and 3000036.
            (func $taken (param i32)
                (i32.store (i32.const 3000000) (local.get 0))
                (call $must (call $take (i32.const 3000000) (i32.const 2) (i32.const 0) (i32.const 3000032))))
            (func $move_to (param i32)
                (call $must (call $move (i32.load (i32.const 3000032)) (local.get 0) (i32.load (i32.const 3000036)))))
            (func $show (param i32)
                (i32.store (i32.const 3000000) (local.get 0))
                (call $must (call $publish (i32.const 3000000) (i32.const 1) (i32.const 0) (i32.const {SHOWN}) (i32.const 0))))
            ;; Two bytes of every second page of the data, from one page on.
            (func $write_half (param $at i32) (param $byte i32)
                (loop $next
                    (i32.store8 (local.get $at) (local.get $byte))
                    (i32.store8 offset=7 (local.get $at) (local.get $byte))
                    (local.set $at (i32.add (local.get $at) (i32.const 8192)))
                    (br_if $next (i32.lt_u (local.get $at) (i32.const {})))))
            (func (export \"_start\") {start}))",
        START + LEN
    )
}

/// What the memory holds at first.
pub(crate) fn first() -> Vec<u8> {
    let mut memory = vec![0; SHOWN];
    memory[START..START + LEN].copy_from_slice(pattern(LEN).as_bytes());
    memory
}

/// What `$write_half` does.
pub(crate) fn write_half(memory: &mut [u8], from: usize, byte: u8) {
    for at in (from..START + LEN).step_by(2 * PAGE) {
        memory[at] = byte;
        memory[at + 7] = byte;
    }
}

pub(crate) fn document(inputs: &[&str], outputs: &[&str]) -> Value {
    json!({
        "name": "app",
        "functions": { "app": { "image": "app.so" } },
        "inputs": inputs,
        "outputs": outputs,
        "steps": [{ "name": "app", "function": "app", "memory": "64MiB" }],
    })
}

/// The bytes of an output are these.
#[track_caller]
pub(crate) fn holds(report: &Value, slot: &str, expected: &[u8], what: &dyn Debug) {
    assert_eq!(report["status"], "done", "{what:?}: {}", report["error"]);
    let output = &report["output"][slot];
    let bytes = match (output["text"].as_str(), output["base64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(base64)) => BASE64_STANDARD.decode(base64).expect("base64"),
        _ => panic!("{what:?}: no output {slot}"),
    };
    let other = (0..bytes.len().max(expected.len())).find(|at| bytes.get(*at) != expected.get(*at));
    assert_eq!(other, None, "{what:?}: the first byte of {slot} that is another one");
}

/// Moves the slot `in` there and back out. Pages beside the slot and under it are written to before. The slot `at` has place and length,
/// which lie at 3000100.
pub(crate) fn moves() -> String {
    format!(
        "(call $write_half (i32.const {START}) (i32.const 33))
        (call $taken (i32.const 0x7461))
        (call $must (call $read (i32.load (i32.const 3000032)) (i32.const 0) (i32.const 3000100) (i32.const 8)))
        (call $taken (i32.const 0x6e69)) (call $move_to (i32.load (i32.const 3000100))) (call $show (i32.const 97))
        (i32.store8 offset={PAGE} (i32.load (i32.const 3000100)) (i32.const 35))
        (i32.store (i32.const 3000000) (i32.const 98))
        (call $must (call $publish_moved (i32.const 3000000) (i32.const 1)
            (i32.load (i32.const 3000100)) (i32.load (i32.const 3000104)) (i32.const 0)))
        (call $show (i32.const 99))
        (i32.store8 (i32.load (i32.const 3000100)) (i32.const 36))"
    )
}

/// Writes half of it, and the other half after a wait of 1.3 s.
pub(crate) fn sleeps() -> String {
    format!(
        "(call $write_half (i32.const {START}) (i32.const 33))
        ;; A subscription at 3001024: the monotonic clock, in 1.3 s.
        (i32.store (i32.const 3001040) (i32.const 1))
        (i64.store (i32.const 3001048) (i64.const 1300000000))
        (call $must (call $poll (i32.const 3001024) (i32.const 3002048) (i32.const 1) (i32.const 3004096)))
        (call $show (i32.const 97))
        (call $write_half (i32.const {}) (i32.const 35))
        (call $show (i32.const 98))",
        START + PAGE
    )
}

/// It goes back to where half was written, from where the other half and the same pages again were.
pub(crate) fn goes_back() -> String {
    format!(
        "(call $write_half (i32.const {START}) (i32.const 33))
        (i32.store (i32.const 3000100) (i32.const 0))
        (if (i32.eqz (call $capture (i32.const 3000200) (i32.const 3000300) (i32.const 3000100)))
            (then
                (call $write_half (i32.const {START}) (i32.const 35))
                (call $write_half (i32.const {}) (i32.const 36))
                (call $must (call $rewind (i64.load (i32.const 3000200)) (i32.const 3000300) (i32.const 0)))))
        (call $show (i32.const 98))",
        START + PAGE
    )
}

/// Half of it is written when it is ready, and the slot `in` is moved into it afterwards.
pub(crate) fn is_ready() -> String {
    format!(
        "(call $write_half (i32.const {START}) (i32.const 33))
        ;; 1 where it has started from a template.
        (i32.store8 (i32.const 8) (call $ready))
        (call $taken (i32.const 0x6e69)) (call $move_to (i32.const {MOVED}))
        (call $write_half (i32.const {}) (i32.const 35))
        (call $show (i32.const 97))",
        START + PAGE
    )
}

/// Where `is_ready` moves the slot.
pub(crate) const MOVED: usize = START + LEN - 32 * PAGE;

/// What the memory holds after `is_ready` with this input. At 8 is whether it has started from a template.
pub(crate) fn after_ready(from_template: u8, input: &str) -> Vec<u8> {
    let mut expected = first();
    expected[8] = from_template;
    write_half(&mut expected, START, b'!');
    expected[MOVED..MOVED + input.len()].copy_from_slice(input.as_bytes());
    write_half(&mut expected, START + PAGE, b'#');
    expected
}

/// The slots that `moves` publishes: the memory, what is moved out of it, and the memory then.
pub(crate) fn after_moves(place: usize, input: &str) -> [Vec<u8>; 3] {
    let mut memory = first();
    write_half(&mut memory, START, b'!');
    let moved = place..place + input.len();
    memory[moved.clone()].copy_from_slice(input.as_bytes());
    let before = memory.clone();
    memory[place + PAGE] = b'#';
    let slot = memory[moved.clone()].to_vec();
    memory[moved].fill(0);
    [before, slot, memory]
}

/// The two that `sleeps` publishes: before and after the other half is written.
pub(crate) fn after_sleep() -> [Vec<u8>; 2] {
    let mut memory = first();
    write_half(&mut memory, START, b'!');
    let before = memory.clone();
    write_half(&mut memory, START + PAGE, b'#');
    [before, memory]
}

/// What the memory holds where it has gone back to.
pub(crate) fn after_going_back() -> Vec<u8> {
    let [before, _] = after_sleep();
    before
}
