//! How late deadlines are kept: a step makes one kind of hostcall over and over, each as long as it can be, until its timeout ends it.
//! On one carrier, which is busy with that, and on two, of which the other is idle. What is allowed is a time, not a ratio; the row of
//! user code that makes no hostcall at all shows how much of it is the machine's.

use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::ours::{Workflow, image};
use serde_json::json;

/// How late a deadline may be kept, in nanoseconds.
const ALLOWED: f64 = 50e6;
/// The timeout of the step, in milliseconds.
const TIMEOUT: u64 = 200;
/// Kinds of calls.
const CALLS: &str = include_str!("../../../examples/long-calls/calls.txt");

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let times = effort.size(10, 1);
    let allowed = || Samples::of(vec![ALLOWED]);
    let mut rows = Vec::new();
    let plain = late("misbehave", json!({ "how": "endless-loop" }), 1, times)?;
    rows.push(Row::new(
        "deadlines: no hostcall",
        (plain, allowed()),
        "the time allowed",
        Unit::Milliseconds,
        Some(1.0),
    ));
    for call in CALLS.lines() {
        for carriers in [1, 2] {
            let late = late("long-calls", json!({ "call": call }), carriers, times)?;
            let name = format!("deadlines: {call}, carriers: {carriers}");
            rows.push(Row::new(name, (late, allowed()), "the time allowed", Unit::Milliseconds, Some(1.0)));
        }
    }
    Ok(rows)
}

/// By how much each of some runs passed the deadline, in nanoseconds.
fn late(function: &str, args: serde_json::Value, carriers: u32, times: usize) -> Result<Samples> {
    let workflow = Workflow::new(&json!({
        "name": "bench-deadlines",
        "functions": { function: { "image": image(function) } },
        "steps": [{ "name": "loops", "function": function, "args": args, "memory": "2GiB", "timeout": format!("{TIMEOUT}ms") }],
        "files": [{ "at": "/data", "memory": "256MiB" }],
        "limits": { "carriers": carriers, "timeout": "60s" },
    }))?;
    let late = |_| workflow.run_until_timeout().map(|ran| ran - TIMEOUT as f64 * 1e6);
    (0..times).map(late).collect::<Result<Vec<f64>>>().map(Samples::of)
}
