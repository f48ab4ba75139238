//! What a process that serves one invocation after the other keeps of an earlier one: nothing. All its memory is searched, and what
//! the kernel has for it is counted.
//!
//! The control: the same search finds the input in a process that is at work, and, with a part of the reset left out, what that part
//! removes (`negative`). What needs keys, or the visor in which parts can be left out, is ignored where there are none; the rest is tried without
//! them, too.
#![allow(dead_code, reason = "the server's, the harness's and the memory's modules are for several programs")]

#[path = "../keys_attacks/harness.rs"]
mod harness;
#[path = "../keys_attacks/places.rs"]
mod places;
#[path = "../serve_support/mod.rs"]
mod serve_support;

mod memory;
mod negative;
mod remains;

use memory::{
    Search, first_context, in_slot_memory, info_page, is_signal_stack_empty, nevers, open_files,
    rights_outside_of_cells, statics, timers,
};
use monohull_visor::domain::keys;
use serde_json::json;
use serve_support::{Server, StateFolder, eventually, single};
use std::path::Path;
use std::process::Command;

/// The program that ships.
const VISOR: &str = env!("CARGO_BIN_EXE_monohull");

/// What inputs are full of.
const MARKER: &str = "c0ffee-of-an-earlier-one";
/// An input that travels in the message, and one that is in the memory of the process for large ones.
const SIZES: [usize; 2] = [9_000, 300_000];

/// The isolations of this machine.
fn isolations() -> Vec<&'static str> {
    let all = ["process", "mpk"].into_iter();
    all.filter(|isolation| *isolation == "process" || keys::support().is_available()).collect()
}

/// A server whose processes are used again.
fn serve(isolation: &str) -> Server {
    server_of(Command::new(VISOR), isolation, &[])
}

/// The same of this program, with this environment.
fn server_of(program: Command, isolation: &str, environment: &[(&str, &str)]) -> Server {
    // Workflows that wait for long are suspended, as by default, where "long" is a second.
    let options = ["--prefork", "2", "--process", "reused", "--suspend", "2h", "--isolation", isolation];
    let server = Server::start_by(program, &StateFolder::new(), &options, environment);
    for example in ["echo", "word-count-split", "word-count-map", "word-count-reduce", "word-count-merge"] {
        server.put_example(example);
    }
    // A timer that is left behind does not go off while a test looks at it.
    let mut echo = single("echo", "echo", &json!({ "limits": { "timeout": "600s" } }));
    echo["inputs"] = json!(["in"]);
    echo["outputs"] = json!(["out"]);
    server.put_workflow(&echo);
    echo["name"] = "slow".into();
    echo["steps"][0]["args"] = json!({ "wait_ms": 3_600_000 });
    server.put_workflow(&echo);
    server
}

/// An input of this size.
fn input(size: usize) -> Vec<u8> {
    format!("{MARKER} ").bytes().cycle().take(size).collect()
}

const BYTES: [(&str, &str); 1] = [("Content-Type", "application/octet-stream")];

/// Invokes a workflow, and waits until its process has been reset: how many invocations that had served before.
#[track_caller]
fn invoke(server: &Server, workflow: &str, body: &[u8]) -> u64 {
    let answer = server.ask_with("POST", &format!("/invoke/{workflow}"), &BYTES, body).expect(200);
    let id = answer.headers["x-invocation-id"].clone();
    let shown = server.get(&format!("/invocations/{id}")).expect(200).json();
    eventually("it is reset", || kept(server) == 1);
    shown["report"]["process"]["before"].as_u64().expect("a number")
}

fn kept(server: &Server) -> u64 {
    server.get("/healthz").json()["kept_workers"].as_u64().expect("a number")
}

/// The process that waits for another invocation, and one that waits for its first.
#[track_caller]
fn kept_and_idle(server: &Server) -> (i32, i32) {
    let has_image = |pid: &i32| open_files(*pid).iter().any(|file| file.contains("memfd:"));
    let workers = || server.descendants().into_iter().skip(1).partition::<Vec<i32>, _>(has_image);
    eventually("one is ready", || !workers().1.is_empty());
    let (kept, idle) = workers();
    assert_eq!(kept.len(), 1, "one process waits");
    (kept[0], idle[0])
}

/// What is found in a process that has served some invocations.
#[derive(Debug)]
struct Found {
    /// Where markers have been after one of them, and how many.
    traces: Vec<(String, usize)>,
    /// How many are in the memory of large inputs, and in that of large outputs.
    in_slot_memory: Vec<usize>,
    /// How many files are open after each invocation.
    files: Vec<usize>,
    timers: usize,
    /// Whether the static data of the modules is that of a process that has served none.
    same_statics: bool,
    /// Signals that are blocked or wait.
    signals: Vec<String>,
    /// Whether the page that functions read is that of a process that has served none.
    same_info: bool,
    /// Whether what its first carrier has saved is.
    same_context: bool,
    /// Whether the state of its carriers is.
    same_state: bool,
    /// Whether nothing is on the stack on which its first carrier handles signals.
    no_signals: bool,
    /// Memory of the domain that is accessible and does not belong to a cell.
    rights: Vec<String>,
}

/// Serves some invocations in one process and looks at it.
#[track_caller]
fn look(program: &Path, server: &Server) -> Found {
    let (mut files, mut traces) = (Vec::new(), Vec::new());
    for (before, size) in (0..).zip([SIZES[0], SIZES[1], SIZES[0], SIZES[0]]) {
        assert_eq!(invoke(server, "echo", &input(size)), before, "{}", server.log());
        let (kept, _) = kept_and_idle(server);
        files.push(open_files(kept).len());
        traces.extend(Search::of(kept).find(MARKER.as_bytes()));
    }
    let (kept, idle) = kept_and_idle(server);
    Found {
        traces,
        in_slot_memory: in_slot_memory(kept, MARKER.as_bytes()),
        files,
        timers: timers(kept),
        same_statics: statics(kept) == statics(idle),
        signals: memory::signals(kept),
        same_info: info_page(kept) == info_page(idle),
        same_context: first_context(kept) == first_context(idle),
        same_state: nevers(program, kept) == nevers(program, idle),
        no_signals: is_signal_stack_empty(kept),
        rights: rights_outside_of_cells(kept),
    }
}

/// Nothing is.
#[track_caller]
fn is_clean(isolation: &str, found: &Found) {
    assert_eq!(found.traces, [], "{isolation}: {found:?}");
    assert_eq!(found.in_slot_memory, [0, 0], "{isolation}: {found:?}");
    assert!(found.files.iter().all(|files| *files == found.files[0]), "{isolation}: {found:?}");
    assert_eq!(found.timers, 1, "{isolation}: {found:?}");
    assert!(found.same_statics, "{isolation}: {found:?}");
    assert!(found.same_info && found.same_context && found.same_state && found.no_signals, "{isolation}: {found:?}");
    assert_eq!(found.rights, [""; 0], "{isolation}: {found:?}");
    assert!(found.signals.iter().all(|set| set == "0000000000000000"), "{isolation}: {found:?}");
}

/// The search finds what is there: a process that is at work has its input.
#[test]
fn a_process_at_work_is_full_of_its_input() {
    for isolation in isolations() {
        for size in SIZES {
            let server = serve(isolation);
            let headers = [("Content-Type", "application/octet-stream")];
            let answer = server.ask_with("POST", "/async-invoke/slow", &headers, &input(size)).expect(202);
            let location = &answer.headers["location"];
            eventually("it runs", || server.get(location).json()["status"] == "running");
            eventually("it has its input", || {
                let workers = server.descendants().into_iter().skip(1);
                let traces: usize =
                    workers.flat_map(|pid| Search::of(pid).find(MARKER.as_bytes())).map(|(_, count)| count).sum();
                traces >= size / (MARKER.len() + 1)
            });
        }
    }
}

#[test]
fn nothing_of_an_earlier_invocation_is_left() {
    for isolation in isolations() {
        let server = serve(isolation);
        is_clean(isolation, &look(Path::new(VISOR), &server));
    }
}

/// Functions on several carriers, that print, that make files and slots, and that count words: what they make of an input is not
/// left either.
#[test]
fn nothing_is_left_of_what_functions_make_of_an_input() {
    for isolation in isolations() {
        for file in ["word-count.json", "conformance.json"] {
            let server = serve(isolation);
            server.put_shipped(file);
            let name = file.trim_end_matches(".json");
            let text: Vec<u8> = (0..400).flat_map(|line| format!("{MARKER} {line}\n").into_bytes()).collect();
            for _ in 0..3 {
                invoke(&server, name, &text);
            }
            let (kept, _) = kept_and_idle(&server);
            assert_eq!(Search::of(kept).find(MARKER.as_bytes()), [], "{isolation}: {name}");
        }
    }
}

/// Instances that start from a template have its memory before their eyes, and what they write to it is theirs alone.
#[test]
fn nothing_is_left_of_what_starts_from_a_template() {
    for isolation in isolations() {
        let server = serve(isolation);
        server.put_example("prepared");
        let mut document =
            single("prepared", "prepared", &json!({ "args": { "entries": 10, "before": "memory", "label": "" } }));
        (document["inputs"], document["outputs"]) = (json!(["in"]), json!(["out"]));
        server.put_workflow(&document);
        let text = input(SIZES[0]);
        // The first ones have it made, which ends the processes that they were in.
        eventually("it starts from a template", || {
            let answer = server.ask_with("POST", "/invoke/prepared", &BYTES, &text).expect(200);
            answer.text().contains("template=true")
        });
        eventually("it is reset", || kept(&server) == 1);
        for _ in 0..3 {
            invoke(&server, "prepared", &text);
            let (kept, _) = kept_and_idle(&server);
            assert_eq!(Search::of(kept).find(MARKER.as_bytes()), [], "{isolation}");
        }
    }
}
