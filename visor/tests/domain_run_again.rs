//! The pause before a whole workflow is run again: it is captured, skipped and bounded like any other wait.

mod support;

use monohull_visor::domain::checkpoint::Continuation;
use monohull_visor::engine::{HostError, Ready, RunEnd, RunOptions};
use monohull_visor::report::{FailureKind, Silent, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{ready, report, suspended, text};

/// Shorter waits are waited out.
const LEAST: Duration = Duration::from_millis(20);
/// What a test does not wait for.
const LONG: Duration = Duration::from_secs(600);

/// A step that fills a slot, and one that writes to it and fails twice.
fn workflow(pause: &str, limits: Value) -> Value {
    json!({
        "name": "again",
        "functions": { "misbehave": { "image": "misbehave" } },
        "steps": [
            { "name": "make", "function": "misbehave", "args": { "how": "make-input" } },
            { "name": "fail", "function": "misbehave", "after": ["make"], "args": { "how": "flaky-after-writing" },
                "retry": { "max_attempts": 3, "interval": pause } },
        ],
        "outputs": ["result"],
        "limits": limits,
    })
}

fn run(ready: &Ready, continuation: Option<Continuation>, suspend: bool) -> Result<RunEnd, HostError> {
    ready.run_from(continuation, suspend.then_some(LEAST), &RunOptions::default(), Arc::new(Silent))
}

#[test]
fn the_pause_is_captured_and_gone_on_with() {
    let ready = ready(&workflow("60ms", json!({})));
    let _one = support::one_at_a_time();
    let (mut end, mut pauses) = (run(&ready, None, true).expect("a domain"), 0);
    while let RunEnd::Suspended(suspended) = end {
        assert!(suspended.continuation.instances.is_empty() && suspended.waits.is_empty(), "nothing has begun again");
        assert!(suspended.until.is_some_and(|until| until > suspended.continuation.wall));
        pauses += 1;
        end = run(&ready, Some(suspended.continuation), true).expect("it can be gone on with");
    }
    let report = report(end);
    // More than once in a pause that is long enough.
    assert!(pauses >= 2, "captured {pauses} times");
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    assert_eq!(text(&report, "result"), "attempt 3");
    assert_eq!(report.steps.iter().map(|step| step.attempts).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(report.steps[1].instances[0].failed_attempts.len(), 2);
}

#[test]
fn the_pause_is_skipped_with_the_time() {
    let begin = Instant::now();
    let options = RunOptions { skip_time: true, ..RunOptions::default() };
    let report = support::run_with(&workflow("1h", json!({})), &options, Arc::new(Silent));
    assert_eq!((report.status, text(&report, "result")), (Status::Done, "attempt 3"));
    assert!(begin.elapsed() < LONG);
}

#[test]
fn the_pause_ends_with_the_time_of_the_run() {
    let begin = Instant::now();
    let document = workflow("1h", json!({ "timeout": "2s" }));
    let report = support::run_with(&document, &RunOptions::default(), Arc::new(Silent));
    assert_eq!(report.error.expect("its time is up").kind, FailureKind::Timeout);
    assert!(begin.elapsed() < LONG);
}

/// A state that no run can have is refused.
#[test]
fn a_pause_without_a_run_that_begins_again_is_refused() {
    let ready = ready(&workflow("1h", json!({})));
    let _one = support::one_at_a_time();
    let good = suspended(run(&ready, None, true).expect("a domain")).continuation;
    let timer = good.scheduler.timers[0];
    for timers in [vec![], vec![timer, timer], vec![timer, (timer.0, 0)]] {
        let mut bad = good.clone();
        bad.scheduler.timers = timers;
        let error = run(&ready, Some(bad), true).err().expect("it is refused");
        assert!(error.is_continuations(), "{error}");
    }
    suspended(run(&ready, Some(good), true).expect("the control is good"));
}
