//! Deadlines are kept whatever functions do: hostcalls that take long, one after the other; carriers that are all busy while
//! others wait. How exactly they are kept is for `cargo xtask bench deadlines`.

mod support;

use monohull_visor::report::{Failure, FailureKind, RunReport, Status};
use serde_json::{Value, json};
use support::run;

/// Each kind of call.
const CALLS: &str = include_str!("../../examples/long-calls/calls.txt");

fn step(name: &str, function: &str, args: Value) -> Value {
    json!({ "name": name, "function": function, "args": args, "memory": "2GiB" })
}

fn document(steps: &[Value], carriers: u32) -> Value {
    json!({
        "name": "deadlines",
        "functions": { "long-calls": { "image": "long-calls" }, "misbehave": { "image": "misbehave" } },
        "steps": steps,
        "files": [{ "at": "/data", "memory": "256MiB" }],
        "limits": { "carriers": carriers, "timeout": "60s" },
    })
}

/// The run failed because the time of this step was up: not because the run's was, nor by another step.
#[track_caller]
fn timed_out(report: &RunReport, step: &str) {
    let Some(Failure { kind, step: failed, .. }) = &report.error else { panic!("{step} has no timeout") };
    assert_eq!((*kind, failed.as_deref()), (FailureKind::Timeout, Some(step)), "{:#?}", report.error);
    let report = report.steps.iter().find(|one| one.name == step).expect("its report");
    assert_eq!(report.status, Status::Failed);
}

#[test]
fn a_step_that_makes_long_calls_ends_at_its_deadline() {
    for call in CALLS.lines() {
        // On two carriers one is idle.
        for carriers in [1, 2] {
            let mut loops = step(call, "long-calls", json!({ "call": call }));
            loops["timeout"] = "300ms".into();
            timed_out(&run(&document(&[loops], carriers)), call);
        }
    }
}

#[test]
fn a_workflow_whose_steps_make_long_calls_ends_at_its_deadline() {
    for call in ["random", "pread", "slot-move"] {
        let mut document = document(&[step(call, "long-calls", json!({ "call": call }))], 1);
        document["limits"]["timeout"] = "300ms".into();
        let error = run(&document).error.expect("it does not end by itself");
        assert_eq!((error.kind, &error.step), (FailureKind::Timeout, &None), "{error:#?}");
    }
}

/// All carriers run user code that makes no call, and a step that waits has a deadline.
#[test]
fn a_step_that_waits_ends_at_its_deadline_while_all_carriers_are_busy() {
    for carriers in [1, 2] {
        let mut steps = vec![step("waits", "misbehave", json!({ "how": "sleep" }))];
        steps[0]["timeout"] = "300ms".into();
        for index in 0..carriers {
            steps.push(step(&format!("computes-{index}"), "misbehave", json!({ "how": "endless-loop" })));
        }
        let report = run(&document(&steps, carriers));
        timed_out(&report, "waits");
        // The others are ended then, and not at the run's deadline.
        assert!(report.duration_us < 30_000_000, "{} µs", report.duration_us);
        let others = report.steps.iter().filter(|step| step.name != "waits");
        others.for_each(|other| assert_eq!(other.status, Status::Cancelled, "{}", other.name));
    }
}

/// The same for one that could run, and gets no carrier.
#[test]
fn a_step_that_is_ready_ends_at_its_deadline_while_all_carriers_are_busy() {
    let mut steps = vec![
        step("computes", "misbehave", json!({ "how": "endless-loop-after-sleep" })),
        step("is-ready", "long-calls", json!({ "call": "yield" })),
    ];
    steps[1]["timeout"] = "300ms".into();
    timed_out(&run(&document(&steps, 1)), "is-ready");
}
