//! An instance starts, does nothing and ends, in a domain that runs already. Two runs of different length are
//! compared, so that what is paid once per workflow drops out.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::{ours, peer};
use serde_json::json;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let few = 16;
    let many = effort.size(2016, 32);
    let forks = effort.size("500", "10");
    let sides = on_one_core(|| {
        take_turns(
            effort,
            || Ok((time_of(many)? - time_of(few)?) / f64::from(many - few)),
            || peer::measure("fork", &[forks]),
        )
    })?;
    Ok(vec![Row::new("instance", sides, "fork + exit + wait", Unit::Microseconds, Some(0.1))])
}

/// Nanoseconds of a workflow of this many instances of the no-op function, one after the other.
fn time_of(instances: u32) -> Result<f64> {
    let document = json!({
        "name": "bench-instance",
        "functions": {"no-op": {"image": ours::image("no-op")}},
        "steps": [{"name": "nothing", "function": "no-op", "instances": instances}],
        "limits": {"carriers": 1},
    });
    Ok(ours::run(&document, &[])?.nanoseconds)
}
