//! What a program's memory holds at first is an image that is mapped there, copied when it is written to. Where that cannot be, it is a copy. Slots move
//! across its edges, half of it is written when it is captured and when a template is made of it: what the memory holds is the same each time.
//! `keys_wasi` does the same with protection keys.

use crate::memory_program::{
    GOES_BACK, LEN, PAGE, READY, SHOWN, START, after_going_back, after_moves, after_ready, after_sleep, document,
    goes_back, holds, is_ready, moves, pattern, program, sleeps,
};
use crate::serve_support::{Server, eventually};
use crate::support::{Function, run_document, run_with, words};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// More data, far behind the rest.
const GAP: &str = "(data (i32.const 4194304) \"far away\")";
const WAYS: [Way; 4] = [Way::Mapped, Way::GoesBack, Way::Gaps, Way::Checks];

fn built(way: Way, imports: &str, start: &str) -> Function {
    let back = if way == Way::GoesBack || start.contains("$capture") { GOES_BACK } else { "" };
    let data = if way == Way::Gaps { GAP } else { "" };
    let text = program(&[imports, back].concat(), data, start);
    Function::built(&text, if way == Way::Checks { &["--explicit-checks"] } else { &[] })
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
    for way in WAYS {
        let function = built(way, "", &moves());
        let folder = function.folder.path();
        // Each time all is as at first: what was written before has changed no image.
        for (name, place, len) in places {
            let input = pattern(len).replace('0', "z");
            fs::write(folder.join("in"), &input).expect("written");
            fs::write(folder.join("at"), [place as u32, len as u32].map(u32::to_le_bytes).concat()).expect("written");
            let inputs = ["in", "at"].map(|slot| format!("{slot}={}", folder.join(slot).display()));
            let options = ["--input", &*inputs[0], "--input", &*inputs[1]];
            let report = run_with(folder, &document(&["in", "at"], &["a", "b", "c"]), &options);
            for (slot, expected) in ["a", "b", "c"].into_iter().zip(after_moves(place, &input)) {
                holds(&report, slot, &expected, &(way, name));
            }
        }
    }
}

#[test]
fn what_is_suspended_with_half_of_it_written_goes_on() {
    for way in WAYS {
        let function = built(way, "", &sleeps());
        let folder = function.folder.path();
        fs::write(folder.join("w.json"), document(&[], &["a", "b"]).to_string()).expect("written");
        let suspended = run_in(folder, &["run", "w.json", "--suspend", "waiting", "--json"]);
        assert_eq!(suspended["status"], "suspended", "{way:?}: {suspended:#}");
        let report = run_in(folder, &["resume", suspended["checkpoint"].as_str().expect("a path"), "--json"]);
        for (slot, expected) in ["a", "b"].into_iter().zip(after_sleep()) {
            holds(&report, slot, &expected, &way);
        }
    }
}

fn run_in(folder: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", folder.join("state")).current_dir(folder);
    let output = command.args(arguments).stdin(Stdio::null()).output().expect("monohull starts");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words(&output.stderr)))
}

#[test]
fn what_goes_back_has_its_memory_as_it_was() {
    for way in [Way::GoesBack, Way::Gaps, Way::Checks] {
        let function = built(way, "", &goes_back());
        let report = run_document(function.folder.path(), &document(&[], &["b"]));
        holds(&report, "b", &after_going_back(), &way);
    }
}

#[test]
fn a_template_with_half_of_it_written_is_what_later_instances_start_from() {
    let input = pattern(70_000).replace('0', "z");
    for way in [Way::Mapped, Way::Gaps] {
        let function = built(way, READY, &is_ready());
        let server = Server::start_with(&["--prefork", "2"]);
        let image = fs::read(function.folder.path().join("app.so")).expect("built");
        let answer = server.ask("PUT", "/functions/app", &image);
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
        let mut app = document(&["in"], &["a"]);
        app["functions"]["app"]["image"] = json!("function:app");
        server.put_workflow(&app);
        let invoke = || server.post("/invoke/app", input.as_bytes()).expect(200).body;
        let is_as_expected = |memory: &[u8]| {
            let expected = after_ready(memory[8], &input);
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
