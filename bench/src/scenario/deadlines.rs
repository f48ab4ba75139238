//! How late deadlines are kept: a step makes one kind of hostcall over and over, each as long as it can be, until its timeout ends it.
//! On one carrier, which is busy with that, and on two, of which the other is idle. What is allowed is a time, not a ratio; the row of
//! user code that makes no hostcall at all shows how much of it is the machine's. A WebAssembly program that loops is such code too.

use super::wasi;
use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::ours::{Workflow, image, scratch};
use serde_json::json;

/// How late a deadline may be kept, in nanoseconds.
const ALLOWED: f64 = 50e6;
/// The timeout of the step, in milliseconds.
const TIMEOUT: u64 = 200;
/// A WebAssembly program whose `_start` is `(loop br 0)`.
const ENDLESS: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x05\x03\x01\0\x01\
    \x07\x13\x02\x06memory\x02\0\x06_start\0\0\x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";
/// Kinds of calls.
const CALLS: &str = include_str!("../../../examples/long-calls/calls.txt");

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let times = effort.size(10, 1);
    let allowed = || Samples::of(vec![ALLOWED]);
    let mut rows = Vec::new();
    let mut add = |name: &str, late| {
        rows.push(Row::new(name, (late, allowed()), "the time allowed", Unit::Milliseconds, Some(1.0)));
    };
    add("deadlines: no hostcall", late(&image("misbehave"), json!({ "how": "endless-loop" }), 1, times)?);
    add("deadlines: a loop in WebAssembly", late(&endless()?, json!({}), 1, times)?);
    for call in CALLS.lines() {
        for carriers in [1, 2] {
            let late = late(&image("long-calls"), json!({ "call": call }), carriers, times)?;
            add(&format!("deadlines: {call}, carriers: {carriers}"), late);
        }
    }
    Ok(rows)
}

/// The image of that program.
fn endless() -> Result<String> {
    let folder = scratch()?.join("wasi");
    let program = folder.join("endless.wasm");
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&program, ENDLESS));
    written.map_err(|error| format!("{}: {error}", program.display()))?;
    wasi::monohull(&["build"], &program, &folder)?;
    Ok(program.with_extension("so").display().to_string())
}

/// By how much each of some runs passed the deadline, in nanoseconds.
fn late(image: &str, args: serde_json::Value, carriers: u32, times: usize) -> Result<Samples> {
    let workflow = Workflow::new(&json!({
        "name": "bench-deadlines",
        "functions": { "loops": { "image": image } },
        "steps": [{ "name": "loops", "function": "loops", "args": args, "memory": "2GiB", "timeout": format!("{TIMEOUT}ms") }],
        "files": [{ "at": "/data", "memory": "256MiB" }],
        "limits": { "carriers": carriers, "timeout": "60s" },
    }))?;
    let late = |_| workflow.run_until_timeout().map(|ran| ran - TIMEOUT as f64 * 1e6);
    (0..times).map(late).collect::<Result<Vec<f64>>>().map(Samples::of)
}
