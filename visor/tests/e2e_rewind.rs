//! Functions go back in their own memory: what that takes back, what it does not, what is refused. The function does the checking.

#[path = "support/program.rs"]
mod program;

use program::{document, image, monohull};
use serde_json::{Value, json};
use std::fs;
use std::process::Output;

use tempfile::TempDir;

/// A workflow of `steps`, each with these arguments for the function, in an empty folder.
fn folder(steps: &[Value], more: &Value) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let step = |(index, args): (usize, &Value)| {
        let mut step = json!({ "name": format!("step-{index}"), "function": "rewinds", "args": args });
        for (field, value) in more.as_object().expect("fields of a step") {
            step[field] = value.clone();
        }
        step
    };
    let document = json!({
        "name": "rewinds",
        "functions": { "rewinds": { "image": image("rewinds") } },
        "steps": steps.iter().enumerate().map(step).collect::<Vec<_>>(),
        "inputs": if steps[0]["how"] == "slots" { json!(["input"]) } else { json!([]) },
        "files": [{ "at": "/mem", "memory": "1MiB" }],
        "outputs": ["result"],
        "unread": "ignore",
    });
    fs::write(folder.path().join("w.json"), document.to_string()).expect("written");
    fs::write(folder.path().join("input"), "as it was").expect("written");
    folder
}

fn run_in(folder: &TempDir, inputs: &[&str]) -> Output {
    let args = ["run", "w.json", "--json"];
    monohull(folder.path(), &[&args, inputs].concat())
}

/// One test of the function succeeds: what it has printed.
#[track_caller]
fn passes(how: &str, more: &Value) -> Vec<String> {
    passes_with(&json!({ "how": how }), more)
}

#[track_caller]
fn passes_with(args: &Value, more: &Value) -> Vec<String> {
    let inputs: &[&str] = if args["how"] == "slots" { &["--input", "input=input"] } else { &[] };
    let output = run_in(&folder(std::slice::from_ref(args), more), inputs);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = document(&output);
    assert_eq!(report["output"]["result"]["text"], args["how"], "{report:#}");
    let lines = report["steps"][0]["instances"][0]["lines"].as_array().cloned().unwrap_or_default();
    lines.iter().map(|line| line["text"].as_str().expect("text").to_owned()).collect()
}

fn nothing() -> Value {
    json!({})
}

#[test]
fn all_memory_goes_back() {
    passes("memory", &nothing());
}

#[test]
fn heap_that_was_added_goes_and_is_empty_when_it_comes_again() {
    passes("heap", &nothing());
}

#[test]
fn mapped_memory_goes_back_whatever_happened_to_it() {
    passes("mapped", &nothing());
}

#[test]
fn a_rewind_frees_what_was_captured_later() {
    passes("nested", &nothing());
}

#[test]
fn a_checkpoint_in_the_middle_can_be_freed() {
    passes("forgotten", &nothing());
}

#[test]
fn a_deep_stack_goes_back() {
    passes("deep", &nothing());
}

/// Writes, grown heap, captures, rewinds, freed checkpoints.
#[test]
fn random_steps_lead_to_the_memory_of_a_model() {
    passes_with(&json!({ "how": "model", "rounds": 10_000 }), &nothing());
}

#[test]
fn slot_buffers_go_back_and_those_made_since_are_freed() {
    passes("slots", &nothing());
}

#[test]
fn a_slot_buffer_that_was_given_away_is_not_taken_back() {
    passes("given-away", &nothing());
}

#[test]
fn a_descriptor_that_was_closed_does_not_come_back() {
    passes("descriptors", &nothing());
}

#[test]
fn what_is_printed_is_neither_lost_nor_printed_twice() {
    assert_eq!(passes("output", &nothing()), ["before, ", "after 0, ", "after 1, ", "after 2, end"]);
}

#[test]
fn an_instance_with_other_threads_goes_nowhere() {
    passes("threads", &nothing());
}

#[test]
fn there_is_a_most_of_checkpoints() {
    passes("many", &nothing());
}

#[test]
fn a_chain_of_checkpoints_ends_at_the_memory_limit() {
    passes("limit", &json!({ "memory": "32MiB" }));
}

#[test]
fn a_value_comes_along() {
    passes("value", &nothing());
}

#[test]
fn forged_and_stale_checkpoints_lead_nowhere() {
    passes("handles", &nothing());
}

#[test]
fn a_checkpoint_of_another_instance_leads_nowhere() {
    passes("foreign", &json!({ "instances": 2 }));
}

#[test]
fn a_stack_pointer_of_its_own_choice_gets_a_function_nowhere() {
    passes("stack-pointer", &nothing());
}

#[test]
fn addresses_that_are_not_the_callers_are_refused() {
    passes("places", &nothing());
}

/// The second step has the cell of the first.
#[test]
fn the_next_instance_finds_nothing_of_a_copy() {
    let steps = [json!({ "how": "secret" }), json!({ "how": "look" })];
    let folder = folder(&steps, &nothing());
    let path = folder.path().join("w.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
    document["steps"][1]["after"] = json!(["step-0"]);
    document["outputs"] = json!([]);
    fs::write(&path, document.to_string()).expect("written");
    let output = run_in(&folder, &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// Checkpoints are of the process: while there are any the workflow waits in it.
#[test]
fn an_instance_with_checkpoints_is_not_suspended() {
    let suspend = |rounds: u64| {
        let folder = folder(&[json!({ "how": "sleep", "rounds": rounds })], &nothing());
        run_in(&folder, &["--suspend", "waiting"])
    };
    let output = suspend(0);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let why = program::document(&output)["not_suspended"].to_string();
    assert!(why.contains("step-0[0] (function rewinds) has checkpoints of its own"), "{why}");
    let output = suspend(1);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}
