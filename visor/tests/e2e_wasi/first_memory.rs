//! What a program's memory holds at first is an image that is mapped there, copied when it is written to. Where that cannot be, it is a copy. Slots move
//! across its edges, half of it is written when it is captured and when a template is made of it: what the memory holds is the same each time.

use crate::moves::pattern;
use crate::serve_support::{Server, eventually};
use crate::support::{Function, run_document, run_with, words};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the data of the programs lies, and what of their memory is looked at.
const START: usize = 65536;
const LEN: usize = 1 << 19;
const SHOWN: usize = 12 << 16;
const PAGE: usize = 4096;

const IMPORTS: &str = r#"
    (import "monohull" "slot_take" (func $take (param i32 i32 i32 i32) (result i32)))
    (import "monohull" "slot_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (import "monohull" "slot_move" (func $move (param i32 i32 i32) (result i32)))
    (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
    (import "monohull" "slot_publish_moved" (func $publish_moved (param i32 i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))"#;

/// How a program comes to what its memory holds at first.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Mapped,
    /// It can go back in its own memory, which pages of a file cannot.
    GoesBack,
    /// There are more zeros between its data than there is data.
    Gaps,
    /// It checks its accesses itself.
    Checks,
}

const WAYS: [Way; 4] = [Way::Mapped, Way::GoesBack, Way::Gaps, Way::Checks];

/// A program with half a megabyte of data. Names and results lie behind what is shown of its memory; `$show` publishes that under a letter.
fn built(way: Way, more: &str, start: &str) -> Function {
    let data = pattern(LEN).replace('\n', "\\0a");
    let back = if way == Way::GoesBack || start.contains("$capture") {
        "(import \"monohull\" \"capture\" (func $capture (param i32 i32 i32) (result i32)))
         (import \"monohull\" \"rewind\" (func $rewind (param i64 i32 i32) (result i32)))"
    } else {
        ""
    };
    let gap = if way == Way::Gaps { "(data (i32.const 4194304) \"far away\")" } else { "" };
    let text = format!(
        "(module {IMPORTS} {back} {more}
            (memory (export \"memory\") 80)
            (data (i32.const {START}) \"{data}\") {gap}
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
    );
    Function::built(&text, if way == Way::Checks { &["--explicit-checks"] } else { &[] })
}

/// What the memory holds at first.
fn first() -> Vec<u8> {
    let mut memory = vec![0; SHOWN];
    memory[START..START + LEN].copy_from_slice(pattern(LEN).as_bytes());
    memory
}

/// What `$write_half` does.
fn write_half(memory: &mut [u8], from: usize, byte: u8) {
    for at in (from..START + LEN).step_by(2 * PAGE) {
        memory[at] = byte;
        memory[at + 7] = byte;
    }
}

fn document(inputs: &[&str], outputs: &[&str]) -> Value {
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
fn holds(report: &Value, slot: &str, expected: &[u8], what: &dyn std::fmt::Debug) {
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

#[test]
fn slots_move_across_the_edges_of_the_image() {
    let (len, half) = (300_000, 32 * PAGE);
    let places = [
        ("over the upper edge", START + LEN - half, len),
        ("over the lower edge", START - 4 * PAGE, len),
        ("within", START + half, len),
        ("over all of it", START - PAGE, LEN + 3 * PAGE),
        ("up to the edge", START + LEN - 64 * PAGE, 64 * PAGE),
        ("not at a page", START + LEN - half + 1, len),
    ];
    // Pages beside the slot and under it are written to before. The slot `at` has place and length, which lie at 3000100.
    let start = format!(
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
    );
    for way in WAYS {
        let function = built(way, "", &start);
        let folder = function.folder.path();
        // Each time all is as at first: what was written before has changed no image.
        for (name, place, len) in places {
            let input = pattern(len).replace('0', "z");
            fs::write(folder.join("in"), &input).expect("written");
            fs::write(folder.join("at"), [place as u32, len as u32].map(u32::to_le_bytes).concat()).expect("written");
            let inputs = ["in", "at"].map(|slot| format!("{slot}={}", folder.join(slot).display()));
            let options = ["--input", &*inputs[0], "--input", &*inputs[1]];
            let report = run_with(folder, &document(&["in", "at"], &["a", "b", "c"]), &options);
            let what = (way, name);
            let mut memory = first();
            write_half(&mut memory, START, b'!');
            memory[place..place + len].copy_from_slice(input.as_bytes());
            holds(&report, "a", &memory, &what);
            memory[place + PAGE] = b'#';
            holds(&report, "b", &memory[place..place + len], &what);
            memory[place..place + len].fill(0);
            holds(&report, "c", &memory, &what);
        }
    }
}

#[test]
fn what_is_suspended_with_half_of_it_written_goes_on() {
    let start = format!(
        "(call $write_half (i32.const {START}) (i32.const 33))
        ;; A subscription at 3001024: the monotonic clock, in 1.3 s.
        (i32.store (i32.const 3001040) (i32.const 1))
        (i64.store (i32.const 3001048) (i64.const 1300000000))
        (call $must (call $poll (i32.const 3001024) (i32.const 3002048) (i32.const 1) (i32.const 3004096)))
        (call $show (i32.const 97))
        (call $write_half (i32.const {}) (i32.const 35))
        (call $show (i32.const 98))",
        START + PAGE
    );
    for way in WAYS {
        let function = built(way, "", &start);
        let folder = function.folder.path();
        fs::write(folder.join("w.json"), document(&[], &["a", "b"]).to_string()).expect("written");
        let suspended = run_in(folder, &["run", "w.json", "--suspend", "waiting", "--json"]);
        assert_eq!(suspended["status"], "suspended", "{way:?}: {suspended:#}");
        let report = run_in(folder, &["resume", suspended["checkpoint"].as_str().expect("a path"), "--json"]);
        let mut memory = first();
        write_half(&mut memory, START, b'!');
        holds(&report, "a", &memory, &way);
        write_half(&mut memory, START + PAGE, b'#');
        holds(&report, "b", &memory, &way);
    }
}

fn run_in(folder: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", folder.join("state")).current_dir(folder);
    let output = command.args(arguments).stdin(Stdio::null()).output().expect("monohull starts");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words(&output.stderr)))
}

/// It goes back to where half was written, from where the other half and the same pages again were.
#[test]
fn what_goes_back_has_its_memory_as_it_was() {
    let start = format!(
        "(call $write_half (i32.const {START}) (i32.const 33))
        (i32.store (i32.const 3000100) (i32.const 0))
        (if (i32.eqz (call $capture (i32.const 3000200) (i32.const 3000300) (i32.const 3000100)))
            (then
                (call $write_half (i32.const {START}) (i32.const 35))
                (call $write_half (i32.const {}) (i32.const 36))
                (call $must (call $rewind (i64.load (i32.const 3000200)) (i32.const 3000300) (i32.const 0)))))
        (call $show (i32.const 98))",
        START + PAGE
    );
    for way in [Way::GoesBack, Way::Gaps, Way::Checks] {
        let function = built(way, "", &start);
        let report = run_document(function.folder.path(), &document(&[], &["b"]));
        let mut memory = first();
        write_half(&mut memory, START, b'!');
        holds(&report, "b", &memory, &way);
    }
}

#[test]
fn a_template_with_half_of_it_written_is_what_later_instances_start_from() {
    let ready = "(import \"monohull\" \"ready\" (func $ready (result i32)))";
    let place = START + LEN - 32 * PAGE;
    let start = format!(
        "(call $write_half (i32.const {START}) (i32.const 33))
        ;; 1 where it has started from a template.
        (i32.store8 (i32.const 8) (call $ready))
        (call $taken (i32.const 0x6e69)) (call $move_to (i32.const {place}))
        (call $write_half (i32.const {}) (i32.const 35))
        (call $show (i32.const 97))",
        START + PAGE
    );
    let input = pattern(70_000).replace('0', "z");
    for way in [Way::Mapped, Way::Gaps] {
        let function = built(way, ready, &start);
        let server = Server::start_with(&["--prefork", "2"]);
        let image = fs::read(function.folder.path().join("app.so")).expect("built");
        let answer = server.ask("PUT", "/functions/app", &image);
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
        let mut app = document(&["in"], &["a"]);
        app["functions"]["app"]["image"] = json!("function:app");
        server.put_workflow(&app);
        let invoke = || server.post("/invoke/app", input.as_bytes()).expect(200).body;
        let is_as_expected = |memory: &[u8]| {
            let mut expected = first();
            expected[8] = memory[8];
            write_half(&mut expected, START, b'!');
            expected[place..place + input.len()].copy_from_slice(input.as_bytes());
            write_half(&mut expected, START + PAGE, b'#');
            let other = (0..SHOWN).find(|at| memory[*at] != expected[*at]);
            assert_eq!((other, memory.len()), (None, SHOWN), "{way:?}: the first byte that is another one");
        };
        eventually("it starts from a template", || {
            let memory = invoke();
            is_as_expected(&memory);
            memory[8] == 1
        });
        // What that one has written is not in the template.
        is_as_expected(&invoke());
    }
}
