//! User code that computes is interrupted, others get their turn, and it goes on where it was with everything in its registers.

mod support;

use monohull_visor::engine::RunOptions;
use monohull_visor::report::{FailureKind, RunReport, Silent, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use support::{run, run_with, text};

/// A workflow of steps that run at the same time.
fn document(carriers: u32, steps: &[(&str, &str, u64)]) -> Value {
    let step = |(name, how, rounds): &(&str, &str, u64)| json!({ "name": name, "function": "preempted", "args": { "how": how, "rounds": rounds } });
    json!({
        "name": "preempted",
        "functions": { "preempted": { "image": "preempted" } },
        "steps": steps.iter().map(step).collect::<Vec<_>>(),
        "limits": { "carriers": carriers, "timeout": "120s" },
    })
}

/// With so short a slice that user code is interrupted wherever it is.
fn run_in_slices(document: &Value, slice: Duration) -> RunReport {
    let options = RunOptions { time_slice: Some(slice), ..RunOptions::default() };
    run_with(document, &options, Arc::new(Silent))
}

#[track_caller]
fn is_done(report: &RunReport) {
    let errors: Vec<_> =
        report.steps.iter().flat_map(|step| &step.instances).filter_map(|i| i.error.as_ref()).collect();
    assert_eq!(report.status, Status::Done, "{:#?} {errors:#?}", report.error);
}

/// The thread for which it waits gets its turn only if the loop is interrupted: there is one carrier.
#[test]
fn a_loop_without_hostcalls_does_not_keep_its_carrier() {
    is_done(&run(&document(1, &[("loop", "spin-until-seen", 0)])));
}

/// Hostcalls that do not wait never give the carrier up by themselves.
#[test]
fn a_loop_of_hostcalls_does_not_keep_its_carrier() {
    is_done(&run(&document(1, &[("loop", "call-until-seen", 0)])));
}

/// The loops never end: the run ends because the other function had its turn, and failed.
#[test]
fn busy_functions_do_not_hold_up_another_one() {
    let report = run(&document(
        2,
        &[("first", "spin", 0), ("second", "spin", 0), ("third", "spin", 0), ("other", "fail-later", 0)],
    ));
    let error = report.error.expect("a function has failed");
    assert_eq!(error.kind, FailureKind::Panic, "{error:#?}");
    assert!(error.message.contains("as it was asked to"), "{error:#?}");
}

/// An instance that waits for its turn when its time is up ends like one that runs; the report says where it was.
#[test]
fn a_timeout_ends_functions_that_wait_for_their_turn() {
    let mut document = document(1, &[("first", "spin", 0), ("second", "spin", 0)]);
    for step in document["steps"].as_array_mut().expect("steps") {
        step["timeout"] = json!("300ms");
        step["instances"] = json!(2);
    }
    let report = run(&document);
    let error = report.error.expect("time is up");
    assert_eq!(error.kind, FailureKind::Timeout, "{error:#?}");
    // One that had no turn yet was nowhere.
    if let Some(place) = error.ip {
        let symbol = place.symbol.expect("its code has symbols");
        assert!(symbol.contains("preempted"), "{symbol}");
    }
}

/// Several instances fill all registers with numbers of their own and look at them again, while they take turns.
#[test]
fn an_interrupted_function_finds_all_its_registers_as_they_were() {
    let steps = [("a", "registers", 150), ("b", "registers", 150), ("c", "registers", 150)];
    for carriers in [1, 2] {
        is_done(&run_in_slices(&document(carriers, &steps), Duration::from_micros(50)));
    }
}

#[test]
fn threads_of_one_function_take_turns() {
    for carriers in [1, 2] {
        let steps = [("threads", "threads", 300_000), ("registers", "registers", 50)];
        is_done(&run_in_slices(&document(carriers, &steps), Duration::from_micros(70)));
    }
}

/// The moments vary: between hostcalls, in them, and on the ways in and out.
#[test]
fn hostcalls_are_made_once_and_rightly_whenever_they_are_interrupted() {
    for (carriers, micros) in [(1, 10), (1, 23), (2, 31), (2, 57)] {
        let steps = [("a", "calls", 3000), ("b", "calls", 3000)];
        is_done(&run_in_slices(&document(carriers, &steps), Duration::from_micros(micros)));
    }
}

#[test]
fn a_result_does_not_depend_on_interruptions() {
    let mut document = document(1, &[("one", "compute", 3_000_000), ("other", "spin", 0)]);
    document["steps"][0]["fills"] = json!(["result"]);
    document["steps"][1] =
        json!({ "name": "other", "function": "preempted", "args": { "how": "threads", "rounds": 100_000 } });
    document["outputs"] = json!(["result"]);
    let results = [Duration::from_secs(3600), Duration::from_micros(60)].map(|slice| {
        let report = run_in_slices(&document, slice);
        is_done(&report);
        text(&report, "result").to_owned()
    });
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0].len(), 16);
}
