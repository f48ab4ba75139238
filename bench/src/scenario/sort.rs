//! A million numbers, one per line, from a file to a file, with one and two instances or threads.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::ours::{self, Workflow};
use crate::peer;
use serde_json::{Value, json};
use std::fmt::Write;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let folder = ours::scratch()?;
    let input = folder.join("numbers");
    std::fs::write(&input, numbers(effort.size(1_000_000, 1000))).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for workers in [1u32, 2] {
        let workflow = Workflow::new(&document(workers, ours::image))?;
        let (ours_out, peer_out) = (folder.join("numbers.ours"), folder.join("numbers.peer"));
        let arguments = [input.to_string_lossy(), peer_out.to_string_lossy(), workers.to_string().into()];
        let sides = take_turns(
            effort,
            || workflow.run_to_file(("lines", &input), ("sorted", &ours_out)),
            || peer::measure("sort", &arguments.each_ref().map(|argument| &**argument)),
        )?;
        ours::same(&ours_out, &peer_out)?;
        let name = format!("sort, {workers} at a time");
        rows.push(Row::new(name, sides, "one plain program", Unit::Milliseconds, Some(1.15)));
    }
    Ok(rows)
}

/// `workflows/parallel-sort.json` with as many sorters and mergers as asked for, and the images that `image` names.
pub(super) fn document(workers: u32, image: fn(&str) -> String) -> Value {
    let image = |name: &str| json!({"image": image(name)});
    json!({
        "name": "bench-sort",
        "functions": {
            "split": image("parallel-sort-split"),
            "sort": image("parallel-sort-sort"),
            "merge": image("parallel-sort-merge"),
            "join": image("parallel-sort-join"),
        },
        "steps": [
            {"name": "split", "function": "split", "args": {"parts": workers, "pieces": workers}},
            {"name": "sort", "function": "sort", "after": ["split"], "instances": workers},
            {"name": "merge", "function": "merge", "after": ["sort"], "instances": workers},
            {"name": "join", "function": "join", "after": ["merge"]},
        ],
        "inputs": ["lines"],
        "outputs": ["sorted"],
    })
}

pub(super) fn numbers(count: usize) -> String {
    let mut text = String::new();
    let mut state = 0u64;
    for _ in 0..count {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        writeln!(text, "{}", mixed ^ (mixed >> 29)).expect("a string takes all");
    }
    text
}
