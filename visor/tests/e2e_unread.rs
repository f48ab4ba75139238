//! Slots that are never taken: a run that leaves them fails, unless the workflow file lets them be.

mod support;

use monohull_visor::engine::RunOptions;
use monohull_visor::report::{Blame, FailureKind, OnUnread, RunReport, Silent, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{run_with, text};

const TEXT: &[u8] = b"one two three four five six seven eight\n";

/// Word count with a splitter that makes one part more than there are mappers.
fn one_mapper_short(unread: Option<Value>) -> RunReport {
    let mut document = json!({
        "name": "one-mapper-short",
        "functions": {
            "split": { "image": "word-count-split" },
            "map": { "image": "word-count-map" },
            "reduce": { "image": "word-count-reduce" },
            "merge": { "image": "word-count-merge" }
        },
        "steps": [
            { "name": "split", "function": "split", "args": { "parts": 4 } },
            { "name": "map", "function": "map", "after": ["split"], "instances": 3, "args": { "shards": 1 } },
            { "name": "reduce", "function": "reduce", "after": ["map"] },
            { "name": "merge", "function": "merge", "after": ["reduce"] }
        ],
        "inputs": ["text"],
        "outputs": ["counts"]
    });
    if let Some(unread) = unread {
        document["unread"] = unread;
    }
    run_inputs(&document, &[("text", TEXT)])
}

fn run_inputs(document: &Value, inputs: &[(&str, &[u8])]) -> RunReport {
    let inline_inputs = inputs.iter().map(|(slot, bytes)| ((*slot).to_owned(), bytes.to_vec())).collect();
    run_with(document, &RunOptions { inline_inputs, ..RunOptions::default() }, Arc::new(Silent))
}

#[test]
fn a_part_that_no_mapper_takes_fails_the_run() {
    let report = one_mapper_short(None);
    assert_eq!(report.status, Status::Failed);
    let failure = report.error.expect("a failure");
    assert_eq!((failure.kind, failure.blame), (FailureKind::Unread, Blame::Workflow));
    let bytes = report.unread.as_ref().expect("what is unread").bytes;
    assert!(bytes > 0);
    let named = format!("a slot was filled and never taken: `part.3` ({bytes} bytes, filled by split[0]); ");
    assert!(failure.message.starts_with(&named), "{}", failure.message);
    assert!(report.output.is_empty(), "an output that lacks a part is not handed out");
    let unread = serde_json::to_value(&report.unread).expect("JSON");
    let slot = json!({ "slot": "part.3", "bytes": bytes, "step": "split", "instance": 0, "outcome": "fail" });
    assert_eq!(unread, json!({ "count": 1, "bytes": bytes, "slots": [slot] }));
}

#[test]
fn a_workflow_that_warns_succeeds_and_lists_the_slot() {
    for unread in [json!("warn"), json!({ "slots": { "part.*": "warn" } })] {
        let report = one_mapper_short(Some(unread));
        assert!(report.error.is_none(), "{:#?}", report.error);
        assert!(!text(&report, "counts").is_empty());
        let unread = report.unread.expect("what is unread");
        assert_eq!((unread.count, &*unread.slots[0].slot, unread.slots[0].outcome), (1, "part.3", OnUnread::Warn));
    }
}

#[test]
fn a_slot_that_is_ignored_is_not_listed() {
    for unread in [json!("ignore"), json!({ "default": "fail", "slots": { "part.*": "fail", "part.3": "ignore" } })] {
        let report = one_mapper_short(Some(unread));
        assert!(report.error.is_none() && report.unread.is_none(), "{:#?}", report.error);
    }
}

#[test]
fn inputs_that_no_step_takes_are_unread_too() {
    let document = json!({
        "name": "idle",
        "functions": { "f": { "image": "echo" } },
        "steps": [{ "name": "s", "function": "f" }],
        "inputs": ["in", "more"],
        "outputs": ["out"]
    });
    let report = run_inputs(&document, &[("in", b"x"), ("more", b"lost rows")]);
    let failure = report.error.expect("a failure");
    assert_eq!(failure.kind, FailureKind::Unread);
    assert!(failure.message.contains("`more` (9 bytes, an input of the workflow)"), "{}", failure.message);
}

/// An input that is also an output is read by the one who gets the output.
#[test]
fn outputs_are_read() {
    let document = json!({
        "name": "through",
        "functions": { "f": { "image": "echo" } },
        "steps": [{ "name": "s", "function": "f" }],
        "inputs": ["in", "kept"],
        "outputs": ["out", "kept"]
    });
    let report = run_inputs(&document, &[("in", b"x"), ("kept", b"y")]);
    assert!(report.error.is_none(), "{:#?}", report.error);
    assert_eq!((text(&report, "out"), text(&report, "kept")), ("x", "y"));
}

/// A missing output says more than what is left over; the report has both.
#[test]
fn a_missing_output_comes_first() {
    let document = json!({
        "name": "misnamed",
        "functions": { "f": { "image": "echo" } },
        "steps": [{ "name": "s", "function": "f" }],
        "inputs": ["in"],
        "outputs": ["answer"]
    });
    let report = run_inputs(&document, &[("in", b"x")]);
    assert_eq!(report.error.expect("a failure").kind, FailureKind::Output);
    assert_eq!(report.unread.expect("what is unread").slots[0].slot, "out");
}
