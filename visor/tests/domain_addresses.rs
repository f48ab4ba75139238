//! What is captured has no address of trusted memory: of the visor, of its modules, of their heaps and stacks.
//!
//! ```text
//!   while a domain runs        what is mapped, but for the memory of functions  ── the union of all looks ──┐
//!   each of its captures       pages, registers, numbers of records, bytes of modules, of the engine ── in none of these ranges
//! ```
//!
//! Programs of several kinds are interrupted again and again, while they wait and while they compute, so that each kind of record is there in many
//! states.

mod support;

use monohull_abi::layout::{USER_BASE, USER_END};
use monohull_visor::disk::Disk;
use monohull_visor::domain::checkpoint::Continuation;
use monohull_visor::domain::checkpoint::record::ThreadState;
use monohull_visor::engine::{Ready, RunEnd, RunOptions};
use monohull_visor::report::{Progress, RunReport, Status, Stream};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::ready;
use tempfile::TempDir;

/// How soon a run is interrupted.
#[derive(Clone, Copy)]
struct Pace {
    /// Shorter waits are waited out.
    least: Duration,
    /// After so long it is interrupted the first time, and later the next times.
    halt: Duration,
}

const USUAL: Pace = Pace { least: Duration::from_millis(5), halt: Duration::from_millis(15) };

/// The most captures of a run.
const CAPTURES: usize = 40;

/// What of this process's memory is trusted, as it was at each of the looks.
#[derive(Default)]
struct Trusted(Mutex<Ranges>);

#[derive(Clone, Default)]
struct Ranges {
    /// Upwards, without overlaps.
    ranges: Vec<Range<u64>>,
    /// What files are mapped there.
    files: BTreeSet<String>,
}

impl Trusted {
    /// One more look. Small values are more likely numbers than addresses, and the half that is the kernel's has none of the visor.
    fn look(&self) {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
        let mut known = self.0.lock().expect("ranges");
        for line in maps.lines() {
            let (range, rest) = line.split_once(' ').expect("a range");
            let (start, end) = range.split_once('-').expect("two addresses");
            let [start, end] = [start, end].map(|word| u64::from_str_radix(word, 16).expect("an address"));
            let is_functions = start >= USER_BASE && end <= USER_END;
            if start > 1 << 32 && end <= 1 << 47 && !is_functions {
                known.ranges.push(start..end);
                known.files.extend(rest.split_whitespace().nth(4).map(str::to_owned));
            }
        }
        known.ranges.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in known.ranges.drain(..) {
            match merged.last_mut().filter(|last| last.end >= range.start) {
                Some(last) => last.end = last.end.max(range.end),
                None => merged.push(range),
            }
        }
        known.ranges = merged;
    }

    fn ranges(&self) -> Ranges {
        self.0.lock().expect("ranges").clone()
    }
}

/// The domain is there at each of these moments, with the modules that it has used so far.
impl Progress for Trusted {
    fn step_started(&self, _step: &str, _instances: u32) {
        self.look();
    }

    fn instance_ended(&self, _step: &str, _index: u32, _ok: bool) {
        self.look();
    }

    fn line(&self, _step: &str, _index: u32, _stream: Stream, _text: &str) {
        self.look();
    }
}

impl Ranges {
    fn has(&self, word: u64) -> bool {
        let next = self.ranges.partition_point(|range| range.end <= word);
        self.ranges.get(next).is_some_and(|range| range.contains(&word))
    }

    /// An address among these bytes: a word at any place, or a number as records have it, seven bits in each byte, the lowest first.
    fn in_bytes(&self, bytes: &[u8]) -> Option<(usize, u64)> {
        (0..bytes.len()).find_map(|at| {
            let rest = &bytes[at..];
            let word = rest.first_chunk().map(|word| u64::from_le_bytes(*word));
            let short = rest.iter().position(|byte| *byte < 0x80).filter(|last| (4..9).contains(last));
            let short = short
                .map(|last| rest[..=last].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f)));
            [word, short].into_iter().flatten().find(|word| self.has(*word)).map(|word| (at, word))
        })
    }

    /// An address among the numbers of a record.
    fn in_numbers(&self, value: &Value) -> Option<u64> {
        match value {
            Value::Number(number) => number.as_u64().filter(|number| self.has(*number)),
            Value::Array(values) => values.iter().find_map(|value| self.in_numbers(value)),
            Value::Object(fields) => fields.values().find_map(|value| self.in_numbers(value)),
            Value::Null | Value::Bool(_) | Value::String(_) => None,
        }
    }

    /// Where there is one, and which.
    fn find(&self, continuation: &Continuation) -> Option<String> {
        let threads = continuation.instances.iter().flat_map(|instance| &instance.threads);
        let registers = threads.filter_map(|thread| thread.registers.as_deref());
        let records = continuation.modules.iter().map(|module| (module.name.as_str(), &module.bytes));
        let bytes = records.chain([("the engine", &continuation.driver)]);
        for (what, bytes) in bytes.chain(registers.map(|registers| ("vectors", &registers.extended))) {
            if let Some((at, word)) = self.in_bytes(bytes) {
                return Some(format!("{word:#x} at {at} in the bytes of {what}"));
            }
        }
        for run in &continuation.pages {
            for (index, word) in run.bytes.chunks_exact(8).enumerate() {
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                if self.has(word) {
                    return Some(format!("{word:#x} at {:#x}", run.address + 8 * index as u64));
                }
            }
        }
        let rest = serde_json::to_value(continuation.clone().map_pages(|_| ())).expect("JSON");
        self.in_numbers(&rest).map(|word| format!("{word:#x} in a record"))
    }
}

/// What was seen of a run that was interrupted again and again.
struct Seen {
    report: RunReport,
    captures: Vec<Continuation>,
    trusted: Ranges,
}

impl Seen {
    /// The modules with a record in some capture.
    fn modules(&self) -> BTreeSet<&str> {
        let records = self.captures.iter().flat_map(|continuation| &continuation.modules);
        records.filter(|record| !record.bytes.is_empty()).map(|record| record.name.as_str()).collect()
    }
}

/// Runs it to its end in parts. A wait of some length ends a part, and so does some time; the last part is uninterrupted.
fn interrupted(ready: &Ready, Pace { least, halt }: Pace) -> Seen {
    let trusted = Arc::new(Trusted::default());
    let (mut rest, mut captures) = (None, Vec::new());
    let report = loop {
        let on = captures.len() < CAPTURES;
        let halt = on.then(|| halt + halt / 8 * captures.len() as u32);
        let options = RunOptions { halt, ..RunOptions::default() };
        let end = ready.run_from(rest, on.then_some(least), &options, trusted.clone());
        let end = end.expect("the host can hold a domain");
        match end {
            RunEnd::Report(report) => break *report,
            RunEnd::HandedOver => unreachable!("it stands still nowhere"),
            RunEnd::Suspended(suspended) => {
                let mut continuation = suspended.continuation;
                captures.push(continuation.clone());
                // If it naps, as if it had lain there until that is over.
                let mut threads = continuation.instances.iter().flat_map(|instance| &instance.threads);
                let naps = threads.any(|thread| matches!(thread.state, ThreadState::Waits { until: Some(_) }));
                if naps && continuation.scheduler.ready.is_empty() {
                    continuation.wall = 0;
                }
                rest = Some(continuation);
            }
        }
    };
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    Seen { report, captures, trusted: trusted.ranges() }
}

/// No capture of this workflow has such an address; these modules have had a record.
#[track_caller]
fn none_is_in(document: &Value, modules: &[&str]) {
    none_is_in_at(USUAL, document, modules);
}

#[track_caller]
fn none_is_in_at(pace: Pace, document: &Value, modules: &[&str]) {
    let ready = ready(document);
    let _one = support::one_at_a_time();
    let seen = interrupted(&ready, pace);
    assert!(!seen.captures.is_empty(), "{:?}", seen.report.not_suspended);
    let there = seen.modules();
    assert!(modules.iter().all(|module| there.contains(module)), "{there:?}");
    // Otherwise this shows nothing: the program itself, its heap, and the modules are among what is looked for.
    let trusted = &seen.trusted;
    assert!(trusted.has(none_is_in as *const () as u64) && trusted.has(Arc::as_ptr(ready.plan()) as u64));
    for (number, continuation) in seen.captures.iter().enumerate() {
        assert_eq!(trusted.find(continuation), None, "capture {number} of {}", seen.captures.len());
    }
}

fn step(name: &str, function: &str, args: &Value) -> Value {
    json!({ "name": name, "function": function, "args": args })
}

/// Threads, locks, channels, open and mapped files, buffers of slots.
#[test]
fn not_of_a_program_with_files_and_threads() {
    let folder = TempDir::new().expect("a folder");
    let granted = json!({ "at": "/work", "directory": folder.path(), "access": "write" });
    let memory = json!({ "at": "/work", "memory": "1MiB" });
    for (mount, kind) in [(memory, "ramfs"), (image(folder.path()), "fatfs"), (granted, "fdtab")] {
        let args = |role: &str| json!({ "role": role, "naps": 12, "milliseconds": 20 });
        let document = json!({
            "name": "interrupted",
            "functions": { "interrupted": { "image": "interrupted" } },
            "steps": [step("works", "interrupted", &args("works")), step("collects", "interrupted", &args("collects"))],
            "outputs": ["result"],
            "files": [mount],
            "limits": { "carriers": 2 },
        });
        none_is_in(&document, &["mm", "stdio", "fdtab", kind]);
    }
}

/// A disk image that is used as a copy of it.
fn image(folder: &Path) -> Value {
    let path = folder.join("disk.img");
    Disk::create(&path, 4 << 20, true).expect("an image");
    json!({ "at": "/work", "image": path })
}

/// Pipes, event counters, pairs of sockets, `poll` and `epoll`.
#[test]
fn not_of_a_program_that_waits_in_all_ways() {
    none_is_in(
        &json!({
            "name": "waits",
            "functions": { "waits": { "image": "libc-waits" } },
            "steps": [step("waits", "waits", &json!({ "argv": ["3", "60"] }))],
            "limits": { "carriers": 2, "timeout": "1h" },
        }),
        &["mm", "socket", "time"],
    );
}

#[test]
fn not_of_a_program_with_mapped_files() {
    none_is_in(
        &json!({
            "name": "mapped",
            "functions": { "mmap-probe": { "image": "mmap-probe" } },
            "steps": [{ "name": "map", "function": "mmap-probe", "memory": "256MiB",
                        "args": { "how": "model-with-naps", "folder": "/data", "naps": 6 } }],
            "files": [{ "at": "/data", "memory": "64MiB" }],
        }),
        &["fdtab", "ramfs"],
    );
}

/// A WebAssembly program, with what its runtime and its compiler have made. It ends soon.
#[test]
fn not_of_a_webassembly_program() {
    let pace = Pace { least: Duration::from_millis(1), halt: Duration::from_micros(800) };
    none_is_in_at(
        pace,
        &json!({
            "name": "tour",
            "functions": { "tour": { "image": "wasi-tour" } },
            "steps": [{ "name": "tour", "function": "tour", "env": { "GREETING": "hello" } }],
            "files": [{ "at": "/work", "memory": "1MiB" }],
            "limits": { "carriers": 2 },
        }),
        &["mm", "time"],
    );
}

/// Requests, those who have asked, and their handlers are records of the engine.
#[test]
fn not_of_effects() {
    let asks = json!({ "how": "ask", "effect": "outer", "request": "what" });
    let mut outer = step("for-outer", "effects", &json!({ "how": "forward", "effect": "inner" }));
    let mut inner = step("for-inner", "effects", &json!({ "how": "sleep", "milliseconds": 60 }));
    (outer["handles"], inner["handles"]) = (json!("outer"), json!("inner"));
    none_is_in(
        &json!({
            "name": "effects",
            "functions": { "effects": { "image": "effects" } },
            "steps": [step("asks", "effects", &asks), outer, inner],
            "outputs": ["result"],
        }),
        &["mm"],
    );
}

/// Loops over all registers, hostcalls and threads.
#[test]
fn not_of_programs_that_compute() {
    let step = |(index, (how, rounds)): (usize, (&str, u64))| {
        step(&format!("s{index}"), "preempted", &json!({ "how": how, "rounds": rounds }))
    };
    let steps = [("compute", 20_000_000), ("registers", 1500), ("threads", 2_000_000), ("calls", 15_000)];
    none_is_in(
        &json!({
            "name": "halted",
            "functions": { "preempted": { "image": "preempted" } },
            "steps": steps.into_iter().enumerate().map(step).collect::<Vec<_>>(),
            "outputs": ["result"],
            "limits": { "carriers": 4, "timeout": "1h" },
        }),
        &[],
    );
}

/// An address that is put into a capture is found, wherever it is.
#[test]
fn an_address_that_is_there_is_found() {
    let ready = ready(&json!({
        "name": "halted",
        "functions": { "preempted": { "image": "preempted" } },
        "steps": [step("s", "preempted", &json!({ "how": "compute", "rounds": 30_000_000 }))],
        "outputs": ["result"],
    }));
    let _one = support::one_at_a_time();
    let seen = interrupted(&ready, USUAL);
    let trusted = &seen.trusted;
    let words = [Arc::as_ptr(ready.plan()) as u64, none_is_in as *const () as u64, monohull_abi::layout::CARRIER_BASE];
    // A starved machine may come to rest before the step is launched.
    let is_within = |capture: &&Continuation| {
        !capture.pages.is_empty() && capture.instances.first().is_some_and(|instance| !instance.threads.is_empty())
    };
    let mut good = seen.captures.iter().find(is_within).expect("a capture of the step").clone();
    good.driver.resize(64, 0);
    assert_eq!(trusted.find(&good), None);
    for word in words {
        let as_number: Vec<u8> =
            (0..7).map(|place| (word >> (7 * place)) as u8 & 0x7f | if place < 6 { 0x80 } else { 0 }).collect();
        type Change<'c> = &'c dyn Fn(&mut Continuation);
        let changes: [Change<'_>; 6] = [
            &|c| c.driver[3..11].copy_from_slice(&word.to_le_bytes()),
            &|c| c.driver[57..].copy_from_slice(&as_number),
            &|c| c.pages[0].bytes[8..16].copy_from_slice(&word.to_le_bytes()),
            &|c| c.scheduler.timers.push((word, 1)),
            &|c| c.instances[0].threads[0].args[5] = word,
            &|c| c.touched.push((word, 4096)),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut bad = good.clone();
            change(&mut bad);
            let found = trusted.find(&bad).unwrap_or_else(|| panic!("{number}: {word:#x}"));
            assert!(found.starts_with(&format!("{word:#x} ")), "{number}: {found}");
        }
    }
    assert!(trusted.files.iter().any(|file| file.contains("domain_addresses")), "{:?}", trusted.files);
}
