//! Steps with an instance for each slot that another step has filled.

mod support;

use monohull_visor::engine::RunOptions;
use monohull_visor::report::{Blame, FailureKind, RunReport, Silent, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{run_with, text};

fn run(document: &Value, inputs: &[(&str, &[u8])]) -> RunReport {
    let inline_inputs = inputs.iter().map(|(slot, bytes)| ((*slot).to_owned(), bytes.to_vec())).collect();
    run_with(document, &RunOptions { inline_inputs, ..RunOptions::default() }, Arc::new(Silent))
}

/// A step for each of the inputs, after one that does nothing.
fn of_inputs(slots: &[&str], max: u32) -> RunReport {
    let document = json!({
        "name": "of-inputs",
        "functions": { "no-op": { "image": "no-op" } },
        "steps": [
            { "name": "first", "function": "no-op" },
            { "name": "each", "function": "no-op", "after": ["first"], "instances": { "each": "part.*", "max": max } },
            { "name": "last", "function": "no-op", "after": ["each"] }
        ],
        "inputs": slots,
        "unread": "ignore"
    });
    let inputs: Vec<(&str, &[u8])> = slots.iter().map(|slot| (*slot, &b"x"[..])).collect();
    run(&document, &inputs)
}

#[test]
fn there_are_as_many_mappers_as_parts() {
    for parts in [1, 2, 7, 64] {
        let mut document: Value =
            serde_json::from_str(include_str!("../../workflows/fan-out.json")).expect("a shipped workflow");
        document.as_object_mut().expect("an object").remove("$schema");
        document["steps"][0]["args"]["parts"] = parts.into();
        for name in ["split", "map", "reduce", "merge"] {
            document["functions"][name]["image"] = format!("word-count-{name}").into();
        }
        let words = "one fish two fish red fish blue fish ".repeat(100);
        let report = run(&document, &[("text", words.as_bytes())]);
        assert!(report.error.is_none(), "{parts}: {:#?}", report.error);
        assert_eq!(report.steps[1].instances.len(), parts);
        assert!(text(&report, "counts").starts_with("400 fish\n100 blue\n"), "{}", text(&report, "counts"));
    }
}

/// Nothing to do is an outcome: the step ends, and what comes after it runs.
#[test]
fn without_slots_a_step_is_done_at_once() {
    let report = of_inputs(&["other"], 3);
    assert!(report.error.is_none(), "{:#?}", report.error);
    let steps: Vec<_> = report.steps.iter().map(|step| (step.status, step.instances.len())).collect();
    assert_eq!(steps, [(Status::Done, 1), (Status::Done, 0), (Status::Done, 1)]);
}

#[test]
fn slots_are_numbered_without_a_gap_and_not_too_many() {
    assert!(of_inputs(&["part.0", "part.1", "part.2"], 3).error.is_none());
    for (slots, message) in [
        (&["part.0", "part.1", "part.2"][..], "there are more than 2 slots `part.*`, the step's `max`"),
        (&["part.0", "part.2"], "the 2 slots `part.*` are not numbered without a gap: the last is part.2"),
        (&["part.1"], "the 1 slots `part.*` are not numbered without a gap: the last is part.1"),
        (&["part.0", "part.01"], "slot `part.01` is one of `part.*`, whose names end with numbers from 0 on"),
        (&["part.0", "part.x"], "slot `part.x` is one of `part.*`, whose names end with numbers from 0 on"),
    ] {
        let failure = of_inputs(slots, 2).error.expect(message);
        assert_eq!((failure.kind, failure.blame, &*failure.message), (FailureKind::Input, Blame::Workflow, message));
        assert_eq!(failure.step.as_deref(), Some("each"));
    }
}
