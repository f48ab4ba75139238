//! What a valid workflow file becomes.

use std::path::Path;
use std::time::Duration;

use monohull_visor::network::Plan as Network;
use monohull_visor::workflow::plan::{FailureKind, Instances, OnUnread, ProcessUse, Separation, TemplatePoint};
use monohull_visor::workflow::{self, Plan, document::Document};
use proptest::prelude::*;
use serde_json::{Value, json};

const FULL: &str = r#"{
  "$schema": "workflow.schema.json",
  "name": "full",
  "description": "Every field there is.",
  "functions": { "join": { "image": "../images/join.so" }, "split": { "image": "/abs/split.so" } },
  "steps": [
    { "name": "last", "function": "join", "after": ["right", "left"] },
    {
      "name": "left", "function": "split", "after": ["first"], "instances": 3,
      "args": { "deep": { "list": [1, 2.5, "x", null, true] }, "big": 18446744073709551615 },
      "env": { "LANG": "C" }, "timeout": "1500ms",
      "retry": { "max_attempts": 3, "interval": "0s", "backoff_rate": 1.5, "on": ["panic", "memory-fault"] },
      "memory": "64MiB", "stack": 65536, "stdin": "text"
    },
    { "name": "right", "function": "split", "after": ["first"] },
    { "name": "first", "function": "split" }
  ],
  "inputs": ["text", { "slot": "words", "path": "words.txt" }],
  "outputs": ["a", { "slot": "b" }],
  "unread": { "default": "warn", "slots": { "*": "fail", "part.*": "ignore", "part.1": "warn", "part.1*": "fail" } },
  "limits": { "timeout": "1h", "slots": "1GiB", "output": 0, "carriers": 2, "threads": 7 },
  "isolation": "function", "process": "reused", "template": "after-first-wait",
  "network": { "mode": "host", "connect": ["db.example:5432", "10.0.0.0/8:1-9"], "listen": ["[::]:80"] }
}"#;

fn full() -> Plan {
    workflow::load_str(Path::new("dir/full.json"), FULL).unwrap_or_else(|error| panic!("{error}"))
}

fn plan_of(steps: Value, files: Value) -> Plan {
    let functions = json!({ "f": { "image": "f.so" } });
    let text = json!({ "name": "w", "functions": functions, "files": files, "steps": steps }).to_string();
    workflow::load_str(Path::new("w.json"), &text).unwrap_or_else(|error| panic!("{error}"))
}

fn step(name: &str, more: &Value) -> Value {
    let mut step = json!({ "name": name, "function": "f" });
    step.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    step
}

#[test]
fn the_first_instances_of_each_step_may_have_templates() {
    let of = |steps: Value| {
        let plan = plan_of(steps, json!([]));
        let name = |(step, index): (usize, u32)| format!("{}{index}", plan.steps[step].name);
        plan.template_instances().into_iter().map(name).collect::<Vec<_>>().join(" ")
    };
    let first = || step("a", &json!({}));
    assert_eq!(of(json!([first()])), "a0");
    assert_eq!(of(json!([step("b", &json!({ "after": ["a"], "instances": 3 })), first()])), "a0 b0 b1 b2");
    let beside = step("b", &json!({ "instances": 2 }));
    assert_eq!(
        of(json!([first(), beside, step("c", &json!({ "after": ["a"], "instances": 3 }))])),
        "a0 b0 c0 b1 c1 c2"
    );
    let each = step("b", &json!({ "after": ["a"], "instances": { "each": "part.*", "max": 3 } }));
    let handler = step("c", &json!({ "handles": "effect" }));
    assert_eq!(of(json!([first(), each, handler])), "a0", "how many those have is not known before");
    let many = json!([step("a", &json!({ "instances": 1000 })), step("b", &json!({ "after": ["a"] }))]);
    assert_eq!(of(many), "a0 b0 a1 a2 a3 a4 a5 a6");
    let steps = (0..20).map(|number| step(&format!("s{number}-"), &json!({}))).collect();
    assert_eq!(of(steps), "s0-0 s1-0 s2-0 s3-0 s4-0 s5-0 s6-0 s7-0");
}

#[test]
fn where_a_workflow_begins_alone_there_are_no_files_yet_and_elsewhere_only_where_none_are_seen() {
    let of = |steps: &Value, files: Value| {
        let plan = plan_of(steps.clone(), files);
        let one = |name: &str| (plan.steps.iter().position(|step| step.name == name).expect("a step"), 0);
        let both = |name: &str| (plan.begins_alone(one(name)), plan.finds_no_files(one(name)));
        [both("a"), both("b")]
    };
    let memory = || json!([{ "at": "/", "memory": "1MiB" }]);
    let then = json!([step("a", &json!({})), step("b", &json!({ "after": ["a"] }))]);
    assert_eq!(of(&then, json!([])), [(true, true), (false, true)]);
    assert_eq!(of(&then, memory()), [(true, true), (false, false)], "the first may have made some");
    assert_eq!(of(&then, json!([{ "at": "/", "directory": "d" }])), [(true, false), (false, false)]);
    let beside = json!([step("a", &json!({})), step("b", &json!({}))]);
    assert_eq!(of(&beside, memory()), [(false, false), (false, false)]);
    let blind = json!([step("a", &json!({ "instances": 2 })), step("b", &json!({ "after": ["a"], "files": [] }))]);
    assert_eq!(of(&blind, memory()), [(false, false), (false, true)]);
}

#[test]
fn every_field_arrives() {
    let plan = full();
    assert_eq!(plan.name, "full");
    assert_eq!(plan.functions[0].image, Path::new("dir/../images/join.so"));
    assert_eq!(plan.functions[1].image, Path::new("/abs/split.so"));
    let left = plan.steps.iter().find(|step| step.name == "left").expect("left");
    assert_eq!(plan.functions[left.function].name, "split");
    assert_eq!(left.instances, Instances::Fixed(3));
    assert_eq!(left.args["deep"], json!({ "list": [1, 2.5, "x", null, true] }));
    assert_eq!(left.args["big"], json!(u64::MAX));
    assert_eq!(left.env["LANG"], "C");
    let Network::Host(rules) = &plan.network else { panic!("{:?}", plan.network) };
    assert_eq!(
        rules.connect.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["db.example:5432", "10.0.0.0/8:1-9"]
    );
    assert_eq!(rules.listen.iter().map(ToString::to_string).collect::<Vec<_>>(), ["[::]:80"]);
    assert_eq!(left.timeout, Some(Duration::from_millis(1500)));
    assert_eq!((left.retry.max_attempts, left.retry.interval), (3, Duration::ZERO));
    assert_eq!(left.retry.backoff_rate, 1.5);
    assert_eq!(left.retry.on, [FailureKind::Panic, FailureKind::MemoryFault]);
    assert_eq!((left.memory, left.stack), (64 << 20, 65536));
    assert_eq!([0, 1, 2].map(|index| left.stdin_of(index)), ["text.0", "text.1", "text.2"]);
    assert_eq!(plan.inputs[0].path, None);
    assert_eq!(plan.inputs[1].path.as_deref(), Some(Path::new("dir/words.txt")));
    assert_eq!(plan.outputs.iter().map(|output| output.slot.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let outcomes = ["part.1", "part.10", "part.2", "other"].map(|slot| plan.unread.outcome(slot));
    assert_eq!(outcomes, [OnUnread::Warn, OnUnread::Fail, OnUnread::Ignore, OnUnread::Fail]);
    assert_eq!(plan.limits.timeout, Some(Duration::from_secs(3600)));
    assert_eq!((plan.limits.slots, plan.limits.output), (1 << 30, 0));
    assert_eq!((plan.limits.carriers, plan.limits.threads), (Some(2), 7));
    assert_eq!(plan.separation, Separation::Function);
    assert_eq!(plan.process, Some(ProcessUse::Reused));
    assert_eq!(plan.template, TemplatePoint::AfterFirstWait);
}

#[test]
fn steps_come_after_those_they_wait_for() {
    let plan = full();
    let names: Vec<_> = plan.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["first", "left", "right", "last"]);
    assert_eq!(plan.steps[3].after, [1, 2]);
}

#[test]
fn defaults_are_filled_in() {
    let text = r#"{"name":"w","functions":{"f":{"image":"f.so"}},"steps":[{"name":"s","function":"f"}]}"#;
    let plan = workflow::load_str(Path::new("w.json"), text).expect("valid");
    let step = &plan.steps[0];
    assert_eq!(
        (&step.instances, step.timeout, step.memory, step.stack),
        (&Instances::Fixed(1), None, 1 << 30, 1 << 20)
    );
    assert_eq!((step.retry.max_attempts, step.retry.interval), (1, Duration::from_millis(100)));
    assert!(step.args.is_empty() && step.env.is_empty() && step.after.is_empty() && step.retry.on.is_empty());
    assert_eq!((plan.limits.timeout, plan.limits.carriers, plan.limits.threads), (None, None, 1024));
    assert_eq!((plan.limits.slots, plan.limits.output), (4 << 30, 1 << 20));
    assert_eq!(plan.separation, Separation::Workflow);
    assert_eq!(plan.process, None);
    assert_eq!(plan.unread.outcome("any"), OnUnread::Fail);
    assert_eq!(plan.functions[0].image, Path::new("f.so"));
}

#[test]
fn what_is_accepted_deserializes_as_a_document() {
    let document: Document = serde_json::from_str(FULL).expect("a document");
    let again = serde_json::to_string(&document).expect("text");
    assert!(workflow::load_str(Path::new("w.json"), &again).is_ok());
}

#[test]
fn arguments_are_set_from_outside() {
    let mut plan = full();
    for (value, expected) in [
        ("8", json!(8)),
        ("[1, 2]", json!([1, 2])),
        ("\"8\"", json!("8")),
        ("hello world", json!("hello world")),
        ("", json!("")),
        ("null", json!(null)),
    ] {
        plan.set_argument("left", "deep", value).expect("an argument");
        assert_eq!(plan.steps[1].args["deep"], expected);
    }
    let wrong = |plan: &mut Plan, step, name| plan.set_argument(step, name, "1").expect_err("unknown").to_string();
    assert_eq!(wrong(&mut plan, "lft", "x"), "the workflow has no step `lft`, did you mean `left`?");
    let message = "step `left` has no argument `deeper` in the workflow file, did you mean `deep`?";
    assert_eq!(wrong(&mut plan, "left", "deeper"), message);
    let message =
        "step `left` has no argument `timeout` in the workflow file; `left:timeout=VALUE` sets the field of the step";
    assert_eq!(wrong(&mut plan, "left", "timeout"), message);
    assert!(plan.steps[1].args.get("deeper").is_none() && plan.steps[1].timeout == Some(Duration::from_millis(1500)));
}

/// An argument and a field of the same name do not get in each other's way.
#[test]
fn fields_of_steps_are_set_from_outside() {
    let text = r#"{"name":"w","functions":{"f":{"image":"f.so"}},
        "steps":[{"name":"s","function":"f","instances":2,"args":{"instances":5}}]}"#;
    let mut plan = workflow::load_str(Path::new("w.json"), text).expect("valid");
    plan.set_field("s", "instances", "8").expect("a field");
    plan.set_argument("s", "instances", "9").expect("an argument");
    plan.set_field("s", "timeout", "30s").expect("a field");
    plan.set_field("s", "memory", "64MiB").expect("a field");
    plan.set_field("s", "retry", r#"{"max_attempts": 3, "on": ["panic"]}"#).expect("a field");
    plan.set_field("s", "stack", "8MiB").expect("a field");
    let step = &plan.steps[0];
    assert_eq!(step.stack, 8 << 20);
    assert_eq!((&step.instances, &step.args["instances"]), (&Instances::Fixed(8), &json!(9)));
    assert_eq!((step.timeout, step.memory), (Some(Duration::from_secs(30)), 64 << 20));
    assert_eq!((step.retry.max_attempts, &*step.retry.on), (3, &[FailureKind::Panic][..]));
    for (field, value, message) in [
        ("instances", "0", "s:instances:1:1: `instances` is 0 (expected a whole number from 1 to 100000)"),
        ("instances", "100001", "s:instances:1:1: `instances` is 100001"),
        ("instances", "many", "s:instances:1:1: `instances` is a string"),
        ("timeout", "30", "s:timeout:1:1: `timeout` is a number"),
        ("memory", "64MB", "s:memory:1:1: `memory` is `64MB`"),
        ("stack", "3MiB", "s:stack:1:1: `stack` is 3145728 bytes (expected a power of two, such as \"1MiB\")"),
        ("retry", r#"{"tries": 3}"#, "s:retry:1:2: `retry` has no field `tries`"),
        (
            "after",
            "[]",
            "a step has no field `after` that can be set (expected one of `instances`, `timeout`, `memory`, `retry`, `stack`)",
        ),
        ("instance", "3", "a step has no field `instance` that can be set, did you mean `instances`?"),
    ] {
        let error = plan.set_field("s", field, value).expect_err(message).to_string();
        assert!(error.contains(message), "{error}");
    }
    assert_eq!(plan.set_field("t", "memory", "1MiB").expect_err("no step").to_string(), "the workflow has no step `t`");
}

#[test]
fn a_missing_file_is_reported() {
    let error = workflow::load(Path::new("no/such.json")).expect_err("not there").to_string();
    assert!(error.starts_with("cannot read the workflow file no/such.json: "), "{error}");
}

#[test]
fn long_chains_and_long_cycles_are_no_problem() {
    const STEPS: usize = 20_000;
    let steps = |first: &str| {
        let mut steps = vec![format!(r#"{{"name":"s0","function":"f"{first}}}"#)];
        let step = |i: usize| format!(r#"{{"name":"s{i}","function":"f","after":["s{}"]}}"#, i - 1);
        steps.extend((1..STEPS).map(step));
        steps.reverse();
        format!(r#"{{"name":"w","functions":{{"f":{{"image":"f"}}}},"steps":[{}]}}"#, steps.join(","))
    };
    let plan = workflow::load_str(Path::new("w.json"), &steps("")).expect("valid");
    assert!(plan.steps.iter().enumerate().all(|(index, step)| step.name == format!("s{index}")));
    let cycle = steps(&format!(r#","after":["s{}"]"#, STEPS - 1));
    let error = workflow::load_str(Path::new("w.json"), &cycle).expect_err("a cycle").to_string();
    assert!(error.contains("20000 steps in all") && error.lines().count() == 1, "{error}");
}

proptest! {
    /// No bytes make the loader panic, and it either gives a plan or says what is wrong.
    #[test]
    fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        judge(&bytes);
    }

    /// Nor does anything that looks like a workflow.
    #[test]
    fn any_damaged_workflow_is_judged(at in 0..FULL.len(), len in 0..40usize, with in "[\\[\\]{}:,\"\\\\0-9eu.a-z-]{0,6}") {
        let mut bytes = FULL.as_bytes().to_vec();
        bytes.splice(at..(at + len).min(FULL.len()), with.bytes());
        judge(&bytes);
    }

    /// Any value in any place of the file is judged.
    #[test]
    fn any_value_is_judged(pick in any::<prop::sample::Index>(), value in json_value()) {
        let mut document: serde_json::Value = serde_json::from_str(FULL).expect("valid");
        let mut pointers = Vec::new();
        places(&document, String::new(), &mut pointers);
        let pointer = pick.get(&pointers);
        *document.pointer_mut(pointer).expect("a place") = value;
        judge(document.to_string().as_bytes());
    }
}

fn judge(bytes: &[u8]) {
    let checked = workflow::check_bytes(Path::new("w.json"), bytes);
    assert!(checked.plan.is_some() || !checked.mistakes.is_empty());
    if checked.plan.is_some() {
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        serde_json::from_slice::<Document>(text).expect("what is accepted is a document");
    }
}

fn places(value: &serde_json::Value, at: String, pointers: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) => {
            map.iter().for_each(|(key, value)| places(value, format!("{at}/{key}"), pointers));
        }
        serde_json::Value::Array(array) => {
            array.iter().enumerate().for_each(|(index, value)| places(value, format!("{at}/{index}"), pointers));
        }
        _ => {}
    }
    pointers.push(at);
}

fn json_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        (0..100u64).prop_map(|value| json!(value)),
        any::<f64>().prop_map(|value| json!(value)),
        "\\PC{0,12}".prop_map(|value| json!(value)),
        "[0-9]{1,3}(us|ms|s|m|h|B|KiB|MiB)".prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(|values| json!(values)),
            proptest::collection::hash_map("(slot|path|name|image|after|[a-z]{1,4})", inner, 0..4)
                .prop_map(|values| json!(values)),
        ]
    })
}
