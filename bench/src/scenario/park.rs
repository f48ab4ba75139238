//! A function waits, another goes on: two threads of an instance take turns on one core. A turn is one park and one
//! resume: out of one thread, into the run loop, into the other; besides, it makes the other thread ready and looks whether
//! there is reason to wait. The peer is a pair of swapcontext, out of a context and back into it. Two turns, there
//! and back, have a row of their own. The price must not depend on how much memory
//! the instance has.
//!
//! A turn leaves its thread twice, to wait and to wake the other. What two hostcalls take that do nothing is a row beside it: the limit.

use crate::harness::{Effort, Result, Row, Samples, Unit, take_turns};
use crate::machine::on_one_core;
use crate::ours::Workflow;
use crate::peer;
use serde_json::json;

const PEER: &str = "swapcontext pair";
/// What Arca's paper gives for a continuation that is made and resumed, in nanoseconds, on another machine.
const ARCA: f64 = 2550.0;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let count = effort.size(1_000_000, 1000);
    let peer_count = count.to_string();
    let cells: [(&str, u64); 2] = [("64 KiB", 64 << 10), effort.size(("1 GiB", 1 << 30), ("1 MiB", 1 << 20))];
    let mut rows = Vec::new();
    for (size, bytes) in cells {
        let probe = Workflow::probes(&[json!({"what": "park", "count": count, "cell_bytes": bytes})])?;
        let sides = on_one_core(|| {
            take_turns(effort, || probe.run()?.figure("park"), || peer::measure("swapcontext", &[&peer_count]))
        })?;
        let twice = (sides.0.scaled(2.0), sides.1.scaled(1.0));
        let published = (sides.0.clone(), Samples::of(vec![ARCA]));
        rows.push(Row::new(format!("park, cell of {size}"), sides, PEER, Unit::Nanoseconds, Some(0.3)));
        rows.push(Row::new(format!("park, {size}, two turns"), twice, PEER, Unit::Nanoseconds, None));
        let name = "Arca, a continuation made and resumed, as published";
        rows.push(Row::new(format!("park, cell of {size}"), published, name, Unit::Nanoseconds, None));
    }
    let probe = Workflow::probes(&[json!({"what": "hostcall", "count": count})])?;
    let sides = on_one_core(|| {
        take_turns(effort, || probe.run()?.figure("hostcall"), || peer::measure("swapcontext", &[&peer_count]))
    })?;
    let twice = (sides.0.scaled(2.0), sides.1);
    rows.push(Row::new(
        "the limit of a park: its two hostcalls, which do nothing",
        twice,
        PEER,
        Unit::Nanoseconds,
        None,
    ));
    Ok(rows)
}
