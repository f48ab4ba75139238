//! The way from a function into the system and back, with nothing done there.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::ours::Workflow;
use crate::peer;
use serde_json::json;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let count = effort.size(1_000_000, 1000);
    let peer_count = count.to_string();
    let probe = Workflow::probes(&[json!({"what": "hostcall", "count": count})])?;
    let sides = on_one_core(|| {
        take_turns(effort, || probe.run()?.figure("hostcall"), || peer::measure("getppid", &[&peer_count]))
    })?;
    Ok(vec![Row::new("hostcall", sides, "getppid", Unit::Nanoseconds, Some(0.25))])
}
