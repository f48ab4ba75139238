//! A function waits, another goes on: two threads of an instance take turns on one core. A turn is two switches, out of
//! one thread and into the other, as a pair of swapcontext is; besides, a turn makes the other thread ready and looks
//! whether there is reason to wait. The price must not depend on how much memory the instance has.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::ours::Workflow;
use crate::peer;
use serde_json::json;

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
        rows.push(Row::new(format!("park, cell of {size}"), sides, "swapcontext pair", Unit::Nanoseconds, Some(0.3)));
    }
    Ok(rows)
}
