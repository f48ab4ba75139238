//! The words of 10 MB of text, from a file to a file, with one and two instances or threads.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::ours::{self, Workflow};
use crate::peer;
use serde_json::{Value, json};
use std::fmt::Write;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let folder = ours::scratch()?;
    let input = folder.join("words");
    std::fs::write(&input, text(effort.size(10 << 20, 100 << 10))).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for workers in [1u32, 2] {
        let workflow = Workflow::new(&document(workers))?;
        let (ours_out, peer_out) = (folder.join("words.ours"), folder.join("words.peer"));
        let arguments = [input.to_string_lossy(), peer_out.to_string_lossy(), workers.to_string().into()];
        let sides = take_turns(
            effort,
            || workflow.run_to_file(("text", &input), ("counts", &ours_out)),
            || peer::measure("words", &arguments.each_ref().map(|argument| &**argument)),
        )?;
        ours::same(&ours_out, &peer_out)?;
        let name = format!("word-count, {workers} at a time");
        rows.push(Row::new(name, sides, "one plain program", Unit::Milliseconds, Some(1.15)));
    }
    Ok(rows)
}

/// `workflows/word-count.json` with as many mappers and reducers as asked for.
pub(super) fn document(workers: u32) -> Value {
    let image = |name: &str| json!({"image": ours::image(name)});
    json!({
        "name": "bench-word-count",
        "functions": {
            "split": image("word-count-split"),
            "map": image("word-count-map"),
            "reduce": image("word-count-reduce"),
            "merge": image("word-count-merge"),
        },
        "steps": [
            {"name": "split", "function": "split", "args": {"parts": workers}},
            {"name": "map", "function": "map", "after": ["split"], "instances": workers, "args": {"shards": workers}},
            {"name": "reduce", "function": "reduce", "after": ["map"], "instances": workers},
            {"name": "merge", "function": "merge", "after": ["reduce"]},
        ],
        "inputs": ["text"],
        "outputs": ["counts"],
    })
}

/// Words as in a natural language: few of them are frequent, many are rare.
pub(super) fn text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 32);
    let mut state = 1u64;
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The inverse of a uniform number has a heavy tail: word n occurs about as 1 / n².
        let uniform = ((state >> 33) as f64 + 1.0) / f64::from(1u32 << 31);
        let word = (1.0 / uniform) as u64 % 50_000 + (state >> 20) % 40;
        let border = if state >> 60 == 0 { '\n' } else { ' ' };
        write!(text, "{:x}{border}", word.wrapping_mul(0x9e37_79b9) & 0xfff_ffff).expect("a string takes all");
    }
    text
}
