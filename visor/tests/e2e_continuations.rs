//! Continuations as values: functions that wait, others that let them go on, what becomes of both when something ends, and what is refused.
//!
//! The function `continuations` does what its argument says. The step `waits` waits, the step `other` has its continuation from the slot `next`.

#[path = "support/program.rs"]
mod program;
mod support;

use monohull_visor::report::{RunReport, Status};
use serde_json::{Value, json};
use support::{run, text};

/// A workflow of steps that do these things.
fn workflow(steps: &[(&str, Value)], outputs: &[&str]) -> Value {
    let step = |(name, args): &(&str, Value)| json!({ "name": name, "function": "continuations", "args": args });
    json!({
        "name": "continuations",
        "functions": { "continuations": { "image": "continuations" } },
        "steps": steps.iter().map(step).collect::<Vec<_>>(),
        "outputs": outputs,
        "unread": "ignore",
        "limits": { "timeout": "300s" },
    })
}

fn resume(value: &str) -> Value {
    json!({ "how": "resume", "value": value })
}

fn how(how: &str) -> Value {
    json!({ "how": how })
}

const GONE: &str = "NeverFilled: the continuation is gone: it was freed unused, its last owner has ended, or what had used it has failed";

/// Something waits, and something else does this with its continuation: what comes to the first.
#[track_caller]
fn waited(other: Value) -> (String, RunReport) {
    let report = run(&workflow(&[("waits", how("wait")), ("other", other)], &["result"]));
    (text(&report, "result").to_owned(), report)
}

#[test]
fn a_value_goes_to_the_function_that_waits() {
    for carriers in [1, 2] {
        let mut document = workflow(&[("waits", how("wait")), ("other", resume("value"))], &["result", "said"]);
        document["limits"]["carriers"] = carriers.into();
        let report = run(&document);
        assert_eq!((text(&report, "result"), text(&report, "said")), ("value", "done"));
    }
    assert_eq!(waited(resume("")).0, "");
    assert_eq!(waited(how("resume-large")).0, format!("{} bytes, the first is L", 3 << 20));
    let report = run(&workflow(&[("waits", json!({ "how": "own", "value": "its own" }))], &["result"]));
    assert_eq!(text(&report, "result"), "its own");
}

#[test]
fn each_thread_that_waits_has_its_continuation() {
    for carriers in [1, 4] {
        let mut document = workflow(&[("waits", how("many")), ("other", how("resume-all"))], &["result", "said"]);
        document["limits"]["carriers"] = carriers.into();
        let report = run(&document);
        assert_eq!((text(&report, "result"), text(&report, "said")), ("20 are right", "done"));
    }
}

#[test]
fn a_continuation_is_passed_on_from_step_to_step() {
    let steps = [
        ("waits", how("wait")),
        ("other", how("pass")),
        ("third", json!({ "how": "resume-further", "value": "by the third" })),
    ];
    let report = run(&workflow(&steps, &["result", "passed", "said"]));
    assert_eq!(
        (text(&report, "result"), text(&report, "passed"), text(&report, "said")),
        ("by the third", "done", "done")
    );
}

#[test]
fn a_continuation_that_is_dropped_is_an_error_for_what_waits() {
    assert_eq!(waited(how("drop")).0, GONE);
    let report = run(&workflow(&[("waits", how("keep"))], &["result"]));
    assert_eq!(text(&report, "result"), GONE);
    // It learns that while the last owner goes on.
    let mut document = workflow(&[("waits", how("wait")), ("other", how("discard"))], &["said"]);
    document["limits"]["carriers"] = json!(1);
    assert_eq!(text(&run(&document), "said"), GONE);
    // Nothing is left that could use it.
    let report = run(&workflow(&[("waits", how("wait"))], &["result"]));
    assert_eq!(text(&report, "result"), "NeverFilled: no instance is left that could use the continuation");
}

#[test]
fn an_owner_that_fails_gives_it_back_for_the_next_attempt() {
    let steps = [("waits", how("wait")), ("other", json!({ "how": "fail-first", "value": "used" }))];
    let mut document = workflow(&steps, &["result", "said"]);
    document["steps"][1]["retry"] = json!({ "max_attempts": 3, "interval": "1ms" });
    let report = run(&document);
    assert_eq!((text(&report, "result"), text(&report, "said")), ("used at attempt 2", "done"));
    assert_eq!(report.steps[1].instances[0].attempts, 2);
    // One that has used it is not tried again alone: what had waited runs again, too.
    let mut document = workflow(&[("waits", how("wait")), ("other", json!({ "how": "fail", "value": "x" }))], &[]);
    document["steps"][1]["retry"] = json!({ "max_attempts": 3, "interval": "1ms" });
    let report = run(&document);
    assert_eq!(report.status, Status::Failed);
    assert_eq!(report.error.as_ref().and_then(|error| error.step.as_deref()), Some("other"));
    let attempts = |step: usize| report.steps[step].instances[0].attempts;
    assert_eq!((attempts(0), attempts(1)), (3, 3));
}

#[test]
fn the_end_of_what_waits_is_an_error_that_names_it() {
    let mut document = workflow(&[("waits", how("leave")), ("other", resume("late"))], &["said"]);
    document["steps"][1]["after"] = json!(["waits"]);
    let report = run(&document);
    assert_eq!(text(&report, "said"), "NotFound: waits[0], which waited for this continuation, has ended");
}

#[test]
fn there_are_as_many_as_may_be() {
    let report = run(&workflow(&[("waits", how("storm"))], &["result"]));
    assert_eq!(text(&report, "result"), "64 made, then TooMany, 64 used, 64 taken, more: true");
}

#[test]
fn a_continuation_is_not_forged_not_used_twice_and_no_value() {
    for carriers in [1, 2] {
        let mut document = workflow(&[("waits", how("wait")), ("other", how("abuse"))], &["result", "said"]);
        document["limits"]["carriers"] = carriers.into();
        let report = run(&document);
        let said: Vec<&str> = text(&report, "said").lines().collect();
        let expected = [
            "guessed addresses: Ok(0)",
            "published as one: Ok(0)",
            "a buffer of its type: Err(Fault)",
            "itself as a value: Err(NotPermitted)",
            "another one as a value: Err(NotPermitted)",
            "its middle: Err(Fault)",
            "no value: Err(Fault)",
            "too many bytes: Err(Invalid)",
            "passed on: Ok(0)",
            "after it was passed on: Err(Fault)",
            "passed on again: Err(Fault)",
            "other bytes: Ok(64)",
            "made larger: Ok(0)",
            "used: Ok(0)",
            "used again: Err(Fault)",
        ];
        assert_eq!(said, expected);
        assert_eq!(text(&report, "result"), "", "what waited is intact");
    }
}

#[test]
fn a_continuation_is_no_request() {
    let mut document =
        workflow(&[("waits", how("wait")), ("other", how("request")), ("for-blob", how("serve"))], &["said"]);
    document["steps"][2]["handles"] = json!("blob");
    let report = run(&document);
    assert_eq!(text(&report, "said"), "as a request: Err(NotPermitted), as what it is: Ok(0)");
    assert_eq!(report.steps[2].handled, 0);
}

/// Memory does not go back to a continuation that was used, although another one lies at its address.
#[test]
fn going_back_brings_no_continuation_back() {
    let report = run(&workflow(&[("waits", how("rewind"))], &["result"]));
    let expected = "used; memory does not go back: the continuation; then it went back";
    assert_eq!(text(&report, "result"), expected);
}

/// The workflow is a file meanwhile, and the continuation is used in another process.
#[test]
fn a_continuation_outlives_its_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = json!({ "how": "resume", "value": "later", "milliseconds": program::NAP });
    let document = workflow(&[("waits", how("wait")), ("other", other)], &["result"]);
    let suspended = program::suspend(folder.path(), "continuations", &document);
    let waits = [("waits", "until its continuation is used"), ("other", "in a sleep")];
    assert!(waits.iter().all(|(step, what)| suspended.waits(step, what)), "{:#}", suspended.document);
    let described = suspended.described(folder.path());
    assert!(described.contains("waits until its continuation is used"), "{described}");
    // Each copy has its own.
    let resumed = program::monohull(folder.path(), &["resume", &suspended.checkpoint, "--count", "2"]);
    assert_eq!(resumed.status.code(), Some(0), "{resumed:?}");
    for copy in ["result.1.txt", "result.2.txt"] {
        assert_eq!(std::fs::read_to_string(folder.path().join(copy)).expect("the output"), "later");
    }
}
