//! 4 KiB from one function to another and back, both on one core. Sender writes and receiver reads every byte.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::ours::Workflow;
use crate::peer;
use serde_json::json;

const BYTES: u64 = 4096;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let count = effort.size(20_000, 100);
    let peer_arguments = [BYTES.to_string(), count.to_string()];
    let arguments = |what: &str| json!({"what": what, "count": count, "bytes": BYTES});
    let probes = Workflow::probes(&[arguments("ping"), arguments("pong")])?;
    let sides = on_one_core(|| {
        take_turns(
            effort,
            || probes.run()?.figure("ping"),
            || peer::measure("pipe", &[&peer_arguments[0], &peer_arguments[1]]),
        )
    })?;
    Ok(vec![Row::new("slot-small", sides, "pipe, two processes", Unit::Microseconds, Some(0.5))])
}
