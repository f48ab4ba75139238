//! Memory of very many parts, with zeros between them, through captures, files and domains that go on: nothing is lost, and the mappings of the kernel
//! that it takes are bounded.
//!
//! ```text
//!   pages     █ █ █ █ █ █ …        2 000 of one page: all are copied
//!   parts     ████  ████  ████ …   600 of 16 pages: 512 are mapped from what was captured, the rest is copied
//! ```

#[path = "support/program.rs"]
mod program;
mod support;

use monohull_abi::layout::{CELLS_BASE, CELLS_END, PAGE};
use monohull_checkpoint::Key;
use monohull_saved::{Engine, Saved};
use monohull_visor::domain::checkpoint::{CapturedPages, Continuation};
use monohull_visor::engine::{Ready, RunEnd, RunOptions};
use monohull_visor::report::{Progress, Status, Stream};
use monohull_visor::worker::read_continuation;
use monohull_visor::workflow;
use program::{NAP, monohull};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{image, report, suspended};
use tempfile::TempDir;

const KEY: Key = Key::new([7; 32]);
/// Longer than any test, which does not wait for its end.
const HOUR: u64 = 3_600_000;
/// What it prints.
const LINES: [&str; 2] = ["whole after nap 0", "whole after nap 1"];
/// What a domain has of a cell besides: image, heap, stacks, and what lies between them.
const OTHERS: usize = 64;

fn workflow(how: &str, nap: u64) -> Value {
    json!({
        "name": "parts",
        "functions": { "preempted": { "image": image("preempted") } },
        "steps": [{ "name": "alternates", "function": "preempted", "memory": "256MiB", "args": { "how": how, "rounds": nap } }],
        "limits": { "carriers": 1, "timeout": "4h" },
    })
}

/// How many mappings of the kernel cells have at each line that is printed.
#[derive(Default)]
struct Mappings(Mutex<Vec<usize>>);

impl Progress for Mappings {
    fn line(&self, _step: &str, _index: u32, _stream: Stream, _text: &str) {
        let maps = fs::read_to_string("/proc/self/maps").expect("/proc");
        let starts = maps.lines().filter_map(|line| u64::from_str_radix(line.split_once('-')?.0, 16).ok());
        self.0.lock().expect("counts").push(starts.filter(|start| (CELLS_BASE..CELLS_END).contains(start)).count());
    }
}

fn run(ready: &Ready, rest: Option<Continuation<CapturedPages>>, mappings: &Arc<Mappings>) -> RunEnd {
    let least = Some(Duration::from_secs(1));
    let end = ready.run_captured(rest, least, None, &RunOptions::default(), mappings.clone());
    end.expect("the host can hold a domain")
}

/// The rest as a file has it, as if it had lain there until the nap was over.
fn through_a_file(ready: &Ready, document: &str, mut continuation: Continuation) -> Continuation<CapturedPages> {
    continuation.wall = 0;
    let folder = TempDir::new().expect("a folder");
    let saved = Saved {
        workflow: ready.plan().name.clone(),
        generation: 0,
        document: document.as_bytes().to_vec(),
        functions: vec![("preempted".to_owned(), ready.images()[0].hash().expect("it can be read"), 1)],
        engine: Engine::default(),
        continuation,
    };
    let written = saved.write(folder.path(), "parts", &KEY, None).expect("written");
    let plan = |_: &[u8], _: &Engine| Ok(ready.plan().as_ref().clone());
    let read = Saved::read(&written.path, &KEY, plan).expect("it is right");
    read_continuation(read.continuation, None).expect("it is as it was written")
}

/// Captures it in each of its naps, and goes on from the file of each. How many mappings there were after each nap.
fn napped(how: &str, parts: usize, pages: u64) -> Vec<usize> {
    let document = workflow(how, HOUR).to_string();
    let plan = workflow::load_str(Path::new("test.json"), &document).expect("a right workflow");
    let ready = Ready::new(plan).expect("right images");
    let _one = support::one_at_a_time();
    let mappings = Arc::new(Mappings::default());
    let first = suspended(run(&ready, None, &mappings)).continuation;
    let found = first.pages.iter().filter(|run| run.bytes.len() as u64 == pages * PAGE).count();
    assert!(found + 8 >= parts, "{found} parts of {pages} pages are apart");
    let rest = through_a_file(&ready, &document, first);
    let second = suspended(run(&ready, Some(rest), &mappings)).continuation;
    let rest = through_a_file(&ready, &document, second);
    let report = report(run(&ready, Some(rest), &mappings));
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    assert!(report.not_suspended.is_none(), "{:?}", report.not_suspended);
    let lines: Vec<_> = report.steps[0].instances[0].lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(lines, LINES);
    let counts = mappings.0.lock().expect("counts").clone();
    assert_eq!(counts.len(), 2, "it has printed each line once");
    counts
}

/// Each would be a mapping of its own if it were one.
#[test]
fn thousands_of_single_pages_are_no_mappings() {
    let counts = napped("alternate-pages", 2_000, 1);
    assert!(counts.iter().all(|count| *count < OTHERS), "{counts:?}");
}

#[test]
fn more_large_parts_than_may_be_mappings_are_copied() {
    const MOST: usize = 512;
    let counts = napped("alternate-parts", 600, 16);
    // Each that is mapped divides what is around it.
    assert!(counts.iter().all(|count| (MOST..2 * MOST + OTHERS).contains(count)), "{counts:?}");
}

/// A process of its own goes on from the file: large parts are read when they are touched.
#[test]
fn parts_that_are_read_when_they_are_touched_are_all_there() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("w.json"), workflow("alternate-parts", NAP).to_string()).expect("written");
    let mut args = vec!["run".to_owned(), "w.json".to_owned()];
    let mut times = 0;
    let ended = loop {
        args.extend(["--suspend", "waiting", "--json"].map(str::to_owned));
        let output = monohull(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        let said = program::document(&output);
        if output.status.code() != Some(4) {
            break said;
        }
        times += 1;
        args = vec!["resume".to_owned(), said["checkpoint"].as_str().expect("a path").to_owned()];
    };
    assert!(ended["status"] == "done" && times >= 2, "{times}: {ended:#}");
    let lines = ended["steps"][0]["instances"][0]["lines"].as_array().expect("lines");
    assert_eq!(lines.iter().map(|line| line["text"].as_str().expect("text")).collect::<Vec<_>>(), LINES);
}
