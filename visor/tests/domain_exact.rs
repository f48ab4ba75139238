//! A run that is interrupted again and again ends as one that is not: in each byte of its outputs and its lines.
//!
//! `MONOHULL_NAPS` is how often the program naps, which is how often it is interrupted at least. A thousand interruptions of each run
//! take 700, and some minutes.

mod support;

use monohull_visor::domain::checkpoint::{Continuation, Lineage};
use monohull_visor::engine::{Ready, RunEnd, RunOptions};
use monohull_visor::report::{RunReport, Silent, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use support::ready;

/// Shorter waits are waited out.
const LEAST: Duration = Duration::from_secs(1);
/// Longer than any test.
const HOUR: u64 = 3_600_000;

fn naps() -> u32 {
    std::env::var("MONOHULL_NAPS").map_or(60, |naps| naps.parse().expect("a number"))
}

/// The program in its two roles, side by side.
fn workflow(milliseconds: u64, carriers: u32) -> Value {
    let args = |role: &str| json!({ "role": role, "naps": naps(), "milliseconds": milliseconds });
    json!({
        "name": "interrupted",
        "functions": { "interrupted": { "image": "interrupted" } },
        "steps": [
            { "name": "works", "function": "interrupted", "args": args("works") },
            { "name": "collects", "function": "interrupted", "args": args("collects") },
        ],
        "outputs": ["result"],
        "files": [{ "at": "/work", "memory": "1MiB" }],
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

/// All that a run gives, but for times and for the order in which modules were loaded.
fn result(report: &RunReport) -> Value {
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    assert!(report.not_suspended.is_none(), "{:?}", report.not_suspended);
    let lines = |step: &str| {
        let step = report.steps.iter().find(|found| found.name == step).expect("a step");
        serde_json::to_value(&step.instances[0].lines).expect("JSON")
    };
    json!({ "output": report.output, "works": lines("works"), "collects": lines("collects") })
}

#[test]
fn an_interrupted_run_does_not_differ_in_a_byte() {
    let _one = support::one_at_a_time();
    let RunEnd::Report(expected) = run(&ready(&workflow(1, 2)), None, false) else {
        panic!("it was not to be suspended")
    };
    let expected = result(&expected);
    let text = expected.to_string();
    assert!(text.contains("sleeps are long enough: true") && !text.contains(": false"), "{text}");
    for carriers in [1, 2, 4] {
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
