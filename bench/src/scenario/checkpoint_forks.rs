//! Forks of a sleeper with much memory: each is a process of its own that goes on from one continuation, touches a few pages and ends. The peer is
//! fork(2) of a process that has written to as much memory, and the child's end.
//!
//! What a fork cannot go below is a process that starts a no-op: it has a row of its own, against the same peer.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::peer;

/// How long each of a thousand may take, if all of them take 500 ms, in nanoseconds.
const ALLOWED: f64 = 500e6 / 1000.0;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let mebibytes: usize = effort.size(100, 2);
    let bytes = (mebibytes << 20).to_string();
    let (few, forks, starts) = (effort.size("5", "2"), effort.size("30", "5"), effort.size("100", "5"));
    let theirs = || peer::measure("fork-touched", &[forks, &bytes]);
    let each = on_one_core(|| take_turns(effort, || peer::measure("forks", &[&bytes, few, "each"]), theirs))?;
    let floor = on_one_core(|| take_turns(effort, || peer::measure("cold", &["answered", starts]), theirs))?;
    let many = effort.size(1000, 4);
    let all = take_turns(
        effort,
        || Ok(peer::measure("forks", &[&bytes, &many.to_string(), "all"])? / f64::from(many)),
        || Ok(ALLOWED),
    )?;
    let by = format!("fork of a process with {mebibytes} MiB + exit + wait");
    Ok(vec![
        Row::new(format!("fork of a sleeper with {mebibytes} MiB"), each, &by, Unit::Microseconds, Some(0.25)),
        Row::new("fork of a sleeper: a no-op in a process, answered", floor, &by, Unit::Microseconds, None),
        Row::new(
            format!("fork of a sleeper, each of {many}, all cores"),
            all,
            "500 ms for 1 000",
            Unit::Microseconds,
            Some(1.0),
        ),
    ])
}
