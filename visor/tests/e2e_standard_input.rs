//! A step's `stdin`: which slot a function reads as its standard input, and when.

mod support;

use monohull_visor::engine::RunOptions;
use monohull_visor::report::{RunReport, Silent, Status};
use serde_json::{Value, json};
use std::sync::Arc;

/// What an instance printed.
fn printed(report: &RunReport, step: &str, instance: usize) -> Vec<String> {
    let step = report.steps.iter().find(|s| s.name == step).expect("the step ran");
    step.instances[instance].lines.iter().map(|line| line.text.clone()).collect()
}

/// A step that reads its standard input and says how many lines there were.
fn reader(name: &str) -> Value {
    json!({ "name": name, "function": "reader", "args": { "end": "input" } })
}

fn document(steps: Value) -> Value {
    json!({
        "name": "standard-input",
        "functions": { "reader": { "image": "conformance" }, "report": { "image": "json-report" } },
        "steps": steps,
    })
}

#[test]
fn a_step_without_one_reads_nothing() {
    let report = support::run(&document(json!([reader("reader")])));
    assert_eq!(printed(&report, "reader", 0)[1], "0 lines, the last None");
}

#[test]
fn each_instance_reads_its_own_part() {
    let mut step = reader("reader");
    step["stdin"] = json!("part");
    step["instances"] = json!(3);
    let mut document = document(json!([step]));
    document["inputs"] = json!(["part.0", "part.1", "part.2"]);
    let parts = ["one", "one\ntwo\n", ""].map(|text| text.as_bytes().to_vec());
    let inline_inputs = (0..).zip(parts).map(|(n, bytes)| (format!("part.{n}"), bytes)).collect();
    let options = RunOptions { inline_inputs, ..RunOptions::default() };
    let report = support::run_with(&document, &options, Arc::new(Silent));
    let said = [0, 1, 2].map(|instance| printed(&report, "reader", instance)[1].clone());
    assert_eq!(said, ["1 lines, the last Some(\"one\")", "2 lines, the last Some(\"two\")", "0 lines, the last None"]);
}

#[test]
fn what_another_step_fills_is_waited_for() {
    let orders = json!([{ "customer": "Ada", "items": [{ "name": "tea", "price": 1.0 }] }]);
    let mut step = reader("reader");
    step["stdin"] = json!("report");
    // No `after`: the reader starts at once, and its first read parks.
    let steps = json!([step, { "name": "report", "function": "report", "args": { "orders": orders } }]);
    let report = support::run(&document(steps));
    assert_eq!(printed(&report, "reader", 0)[1], "9 lines, the last Some(\"}\")", "{:#?}", report.error);
}

#[test]
fn a_slot_that_is_never_filled_is_an_error_of_reading() {
    let mut step = reader("reader");
    step["stdin"] = json!("unknown");
    let report = support::run(&document(json!([step])));
    // The suite stops reading at an error.
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    assert_eq!(printed(&report, "reader", 0)[1], "0 lines, the last None");
}
