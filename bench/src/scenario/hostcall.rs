//! The way from a function into the system and back, with nothing done there.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::{ours, peer};
use serde_json::json;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let count = effort.size(1_000_000, 1000);
    let peer_count = count.to_string();
    let sides = on_one_core(|| {
        take_turns(
            effort,
            || ours::probe(json!({"what": "hostcall", "count": count}))?.figure("hostcall"),
            || peer::measure("getppid", &[&peer_count]),
        )
    })?;
    Ok(vec![Row::new("hostcall", sides, "getppid", Unit::Nanoseconds, Some(0.25))])
}
