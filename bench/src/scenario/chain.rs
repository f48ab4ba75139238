//! 15 functions hand on 1 MB; each verifies a checksum over all of it, changes it and makes a new one.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::ours::{self, Workflow};
use crate::peer;
use serde_json::{Value, json};

const LINKS: usize = 15;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let bytes = effort.size(1_000_000, 10_000);
    let workflow = Workflow::new(&document(bytes))?;
    let program = peer::build_link()?;
    let program = program.to_str().ok_or("the path of the build folder is not UTF-8")?;
    let (links, bytes) = (LINKS.to_string(), bytes.to_string());
    let sides = take_turns(
        effort,
        || Ok(workflow.run()?.nanoseconds),
        || peer::measure("processes", &[program, &links, &bytes]),
    )?;
    Ok(vec![Row::new("chain", sides, "15 static processes", Unit::Milliseconds, Some(0.1))])
}

/// The workflow of native functions in Rust.
pub(super) fn document(bytes: u64) -> Value {
    document_of(&ours::image("chain-link"), bytes)
}

/// The same of another image with such a function.
pub(super) fn document_of(image: &str, bytes: u64) -> Value {
    let step = |link: usize| {
        let after = if link == 0 { vec![] } else { vec![format!("link-{}", link - 1)] };
        json!({
            "name": format!("link-{link}"),
            "function": "chain-link",
            "after": after,
            "args": {"link": link, "links": LINKS, "bytes": bytes},
        })
    };
    json!({
        "name": "bench-chain",
        "functions": {"chain-link": {"image": image}},
        "steps": (0..LINKS).map(step).collect::<Vec<_>>(),
        "outputs": ["result"],
    })
}
