//! 16 MiB from A to B, summed by B; against A summing the same buffer in place, just before. Both figures come from
//! the same run of the same two functions: from A letting go of it to A getting it back, summed.

use crate::harness::{Effort, Result, Row, Unit, pairs};
use crate::machine::on_one_core;
use crate::ours::Workflow;
use serde_json::json;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let bytes = effort.size(16u64 << 20, 1 << 20);
    let arguments = |what: &str| json!({"what": what, "count": effort.size(20, 2), "bytes": bytes});
    let probes = Workflow::probes(&[arguments("give"), arguments("sum")])?;
    let sides = on_one_core(|| {
        pairs(effort, || {
            let figures = probes.run()?;
            Ok((figures.figure("handed over")?, figures.figure("in place")?))
        })
    })?;
    Ok(vec![Row::new("slot-large", sides, "sum in place", Unit::Microseconds, Some(1.05))])
}
