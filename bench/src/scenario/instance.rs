//! An instance starts, does nothing and ends, in a domain that runs already. Two runs of different length are
//! compared, so that what is paid once per workflow drops out.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::ours::Workflow;
use crate::peer;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let few = 16;
    let many = effort.size(2016, 32);
    let forks = effort.size("500", "10");
    let (short, long) = (Workflow::nothing(few)?, Workflow::nothing(many)?);
    let sides = on_one_core(|| {
        take_turns(
            effort,
            || Ok((long.run()?.nanoseconds - short.run()?.nanoseconds) / f64::from(many - few)),
            || peer::measure("fork", &[forks]),
        )
    })?;
    Ok(vec![Row::new("instance", sides, "fork + exit + wait", Unit::Microseconds, Some(0.1))])
}
