//! The way from a function into the system and back, with nothing done there. Where protection keys are in force there is a floor below which
//! it cannot be: the rights of the thread change twice.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::ours::Workflow;
use crate::peer;
use monohull_visor::domain::keys;
use serde_json::json;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let count = effort.size(1_000_000, 1000);
    let peer_count = count.to_string();
    let probe = Workflow::probes(&[json!({"what": "hostcall", "count": count})])?;
    let against = |name| {
        on_one_core(|| take_turns(effort, || probe.run()?.figure("hostcall"), || peer::measure(name, &[&peer_count])))
    };
    let mut rows = vec![Row::new("hostcall", against("getppid")?, "getppid", Unit::Nanoseconds, Some(0.25))];
    if keys::support().is_available() {
        let peer = "a call between two WRPKRU";
        rows.push(Row::new("hostcall, against its floor", against("key-switches")?, peer, Unit::Nanoseconds, None));
    }
    Ok(rows)
}
