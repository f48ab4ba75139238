//! A run that is interrupted again and again ends as one that is not: in each byte of its outputs and its lines.
//!
//! `MONOHULL_NAPS` is how often the program naps, which is how often it is interrupted at least. Without it all runs together are interrupted some
//! hundred times, and with `cargo xtask test --full` each is a thousand times.

#[path = "support/extent.rs"]
mod extent;
mod support;

use extent::some_of;
use monohull_checkpoint::Key;
use monohull_saved::{Engine, Saved};
use monohull_visor::disk::Disk;
use monohull_visor::domain::checkpoint::{CapturedPages, Continuation, Lineage};
use monohull_visor::engine::{Ready, RunEnd, RunOptions};
use monohull_visor::report::{RunReport, Silent, Status};
use monohull_visor::worker::read_continuation;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::ready;
use support::untimed::without_times;
use tempfile::TempDir;

/// Shorter waits are waited out.
const LEAST: Duration = Duration::from_secs(1);
/// Longer than any test.
const HOUR: u64 = 3_600_000;

fn naps() -> u32 {
    let given = std::env::var("MONOHULL_NAPS").map(|naps| naps.parse().expect("a number"));
    given.unwrap_or(some_of(60, 1000))
}

/// The program in its two roles, side by side.
fn workflow(milliseconds: u64, carriers: u32) -> Value {
    workflow_on(&json!({ "at": "/work", "memory": "1MiB" }), milliseconds, carriers)
}

/// The same with its files there.
fn workflow_on(mount: &Value, milliseconds: u64, carriers: u32) -> Value {
    let args = |role: &str| json!({ "role": role, "naps": naps(), "milliseconds": milliseconds });
    json!({
        "name": "interrupted",
        "functions": { "interrupted": { "image": "interrupted" } },
        "steps": [
            { "name": "works", "function": "interrupted", "args": args("works") },
            { "name": "collects", "function": "interrupted", "args": args("collects") },
        ],
        "outputs": ["result"],
        "files": [mount],
        "limits": { "carriers": carriers },
    })
}

fn run(ready: &Ready, continuation: Option<Continuation>, suspend: bool) -> RunEnd {
    let least = suspend.then_some(LEAST);
    ready.run_from(continuation, least, &RunOptions::default(), Arc::new(Silent)).expect("the host can hold a domain")
}

/// Goes on from each continuation, as if it had lain there until its first timer was due. The report, how often the workflow was suspended,
/// and the continuation in the middle of that.
fn interrupted(ready: &Ready, mut end: RunEnd, middle: u32) -> (RunReport, u32, Option<Continuation>) {
    let (mut times, mut kept) = (0, None);
    loop {
        match end {
            RunEnd::Report(report) => return (*report, times, kept),
            RunEnd::HandedOver => unreachable!("it stands still nowhere"),
            RunEnd::Suspended(suspended) => {
                times += 1;
                let mut continuation = suspended.continuation;
                continuation.wall = 0;
                continuation.lineage.generation += 1;
                if times == middle {
                    kept = Some(continuation.clone());
                }
                end = run(ready, Some(continuation), true);
            }
        }
    }
}

/// All that its report says, but for times, for the order in which modules were loaded, and for how often it was suspended. Mapped files are counted
/// by each domain for itself.
fn result(report: &RunReport) -> Value {
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    assert!(report.not_suspended.is_none(), "{:?}", report.not_suspended);
    let mut value = without_times(report);
    // The last domain may have mapped none.
    value["mapped_files"].take();
    value
}

/// What is to come of it: that of a run from its beginning to its end.
fn uninterrupted(document: &Value) -> Value {
    match run(&ready(document), None, false) {
        RunEnd::Report(report) => result(&report),
        RunEnd::Suspended(_) | RunEnd::HandedOver => panic!("it was not to be suspended"),
    }
}

#[test]
fn an_interrupted_run_does_not_differ_in_a_byte() {
    let _one = support::one_at_a_time();
    let expected = uninterrupted(&workflow(1, 2));
    let text = expected.to_string();
    assert!(text.contains("sleeps are long enough: true") && !text.contains(": false"), "{text}");
    for carriers in [1, 2, 4, 8] {
        let ready = ready(&workflow(HOUR, carriers));
        let (report, times, middle) = interrupted(&ready, run(&ready, None, true), naps() / 2);
        assert!(times >= naps(), "suspended {times} times");
        assert_eq!(result(&report), expected, "with {carriers} carriers, after {times} interruptions");
        // Both copies of one in the middle end as the run did that they are copies of.
        let middle = middle.expect("there is a middle");
        for copy in [1, 2] {
            let mut continuation = middle.clone();
            continuation.lineage = Lineage { copy, copies: 2, ..continuation.lineage };
            let (report, ..) = interrupted(&ready, run(&ready, Some(continuation), true), 0);
            assert_eq!(result(&report), expected, "copy {copy} with {carriers} carriers");
        }
    }
}

/// What is read of the file that this continuation is written to.
fn through_a_file(ready: &Ready, folder: &Path, continuation: Continuation) -> Continuation<CapturedPages> {
    const KEY: Key = Key::new([3; 32]);
    let image = ready.images()[0].hash().expect("it can be read");
    let saved = Saved {
        workflow: ready.plan().name.clone(),
        generation: continuation.lineage.generation,
        document: b"{}".to_vec(),
        functions: vec![(
            "interrupted".to_owned(),
            image,
            support::image("interrupted").metadata().expect("it is there").len(),
        )],
        engine: Engine { file: "exact.json".into(), ..Engine::default() },
        continuation,
    };
    let written = saved.write(folder, "exact", &KEY, None).expect("written");
    let read = Saved::read(&written.path, &KEY, |_, _| Ok(ready.plan().as_ref().clone())).expect("it is good");
    fs::remove_file(&written.path).expect("removed");
    let mut pages = None;
    let continuation = read_continuation(read.continuation, None).expect("it is as it was written");
    let records = continuation.map_pages(|of_file| pages = Some(of_file));
    assert_eq!(records, saved.continuation.map_pages(drop));
    records.map_pages(|()| pages.expect("it has pages"))
}

/// Each continuation is written to a file, and what goes on is what was read of that.
#[test]
fn nor_does_one_that_goes_through_files() {
    let _one = support::one_at_a_time();
    let expected = uninterrupted(&workflow(1, 2));
    let ready = ready(&workflow(HOUR, 2));
    let folder = TempDir::new().expect("a folder");
    let (mut end, mut times) = (run(&ready, None, true), 0);
    let report = loop {
        match end {
            RunEnd::Report(report) => break report,
            RunEnd::HandedOver => unreachable!("it stands still nowhere"),
            RunEnd::Suspended(suspended) => {
                times += 1;
                let mut rest = suspended.continuation;
                rest.wall = 0;
                rest.lineage.generation += 1;
                let rest = Some(through_a_file(&ready, folder.path(), rest));
                let gone_on = ready.run_captured(rest, Some(LEAST), None, &RunOptions::default(), Arc::new(Silent));
                end = gone_on.expect("the host can hold a domain");
            }
        }
    };
    assert!(times >= naps(), "suspended {times} times");
    assert_eq!(result(&report), expected, "after {times} files");
}

/// Files on a disk image, on a copy of one, and in a granted directory, each opened and mapped again after each interruption.
#[test]
fn nor_does_one_with_files_of_the_host() {
    let _one = support::one_at_a_time();
    let folder = TempDir::new().expect("a folder");
    let (image, granted) = (folder.path().join("disk.img"), folder.path().join("granted"));
    for mount in [
        json!({ "at": "/work", "image": image }),
        json!({ "at": "/work", "image": image, "access": "write" }),
        json!({ "at": "/work", "directory": granted, "access": "write" }),
    ] {
        let afresh = || {
            Disk::create(&image, 4 << 20, true).expect("an image");
            let _ = fs::remove_dir_all(&granted);
            fs::create_dir(&granted).expect("a folder");
        };
        afresh();
        let expected = uninterrupted(&workflow_on(&mount, 1, 2));
        for carriers in some_of(&[2][..], &[1, 2, 4, 8]) {
            afresh();
            let ready = ready(&workflow_on(&mount, HOUR, *carriers));
            let (report, times, _) = interrupted(&ready, run(&ready, None, true), 0);
            assert!(times >= naps(), "suspended {times} times");
            assert_eq!(result(&report), expected, "{mount} with {carriers} carriers");
        }
    }
}

/// Ends a run that is halted again and again, after times that look random. The report, and how often it was halted.
fn halted(ready: &Ready, random: &mut u64) -> (RunReport, u32) {
    let (mut rest, mut times) = (None, 0);
    loop {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let halt = Some(Duration::from_micros(1000 + (*random >> 33) % 15_000));
        let options = RunOptions { halt, ..RunOptions::default() };
        match ready.run_from(rest, None, &options, Arc::new(Silent)).expect("the host can hold a domain") {
            RunEnd::Report(report) => return (*report, times),
            RunEnd::HandedOver => unreachable!("it stands still nowhere"),
            RunEnd::Suspended(suspended) => {
                let mut continuation = suspended.continuation;
                continuation.lineage.generation += 1;
                (rest, times) = (Some(continuation), times + 1);
            }
        }
    }
}

/// Wherever its threads are: one may compute, one be in a hostcall, and others wait. How often a run is halted depends on how fast the machine is, so
/// there are as many runs as it takes.
#[test]
fn nor_does_one_that_is_halted_at_random_moments() {
    /// How often each is halted at least, in all its runs, and the most runs.
    const LEAST_HALTS: u32 = 40;
    const MOST_RUNS: u32 = 40;
    let _one = support::one_at_a_time();
    let folder = TempDir::new().expect("a folder");
    let (image, granted) = (folder.path().join("disk.img"), folder.path().join("granted"));
    let memory = json!({ "at": "/work", "memory": "1MiB" });
    let directory = json!({ "at": "/work", "directory": granted, "access": "write" });
    let (disk, copy) =
        (json!({ "at": "/work", "image": image, "access": "write" }), json!({ "at": "/work", "image": image }));
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let in_memory = [1, 2, 4, 8].map(|carriers| (&memory, carriers));
    for (mount, carriers) in in_memory.into_iter().chain([(&directory, 2), (&disk, 2), (&copy, 4)]) {
        let afresh = || {
            let _ = fs::remove_dir_all(&granted);
            fs::create_dir(&granted).expect("a folder");
            Disk::create(&image, 4 << 20, true).expect("an image");
        };
        afresh();
        let expected = uninterrupted(&workflow_on(mount, 1, 2));
        let (mut times, mut runs) = (0, 0);
        while times < some_of(LEAST_HALTS, 10 * LEAST_HALTS) {
            assert!(runs < some_of(MOST_RUNS, 10 * MOST_RUNS), "halted {times} times in {runs} runs");
            afresh();
            let (mut report, halts) = halted(&ready(&workflow_on(mount, 2, carriers)), &mut random);
            // On a machine that is busy it may not come to rest in time, and goes on.
            report.not_suspended = None;
            (times, runs) = (times + halts, runs + 1);
            assert_eq!(result(&report), expected, "{mount} with {carriers} carriers, halted {halts} times");
        }
        println!("{mount} with {carriers} carriers: halted {times} times in {runs} runs");
    }
}
