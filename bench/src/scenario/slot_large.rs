//! 16 MiB from A to B, summed by B; against A summing the same buffer in place, just before. Both figures come from
//! the same run of the same two functions: from A letting go of it to A getting it back, summed.
//!
//! The same between two WebAssembly programs, which move the pages out of the memory of one and into that of the other; against those two functions.

use super::{wasi, wasi_workflows};
use crate::harness::{Effort, Result, Row, Samples, Unit, pairs, take_turns};
use crate::machine::on_one_core;
use crate::ours::Workflow;
use serde_json::json;
use std::path::Path;

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
    let native = Row::new("slot-large", sides, "sum in place", Unit::Microseconds, Some(1.05));

    let (folder, program) = wasi::program("bench-slots")?;
    wasi::monohull(&["build"], &program, &folder)?;
    let programs = programs(&folder.join("bench-slots.so"), bytes)?;
    let sides =
        on_one_core(|| take_turns(effort, || wasi::printed(&programs.run()?), || probes.run()?.figure("handed over")))?;
    let published = (sides.0.clone(), Samples::of(vec![wasi_workflows::PUBLISHED_TRANSFER]));
    let moved = Row::new("slot-large, WebAssembly", sides, "native functions", Unit::Microseconds, Some(1.1));
    let name = "AlloyStack's C, as published, without the sum";
    let published = Row::new("slot-large, WebAssembly", published, name, Unit::Microseconds, None);
    Ok(vec![native, moved, published])
}

/// Two instances of the program, one that gives and one that sums.
fn programs(image: &Path, bytes: u64) -> Result<Workflow> {
    let step = |role: &str| json!({"name": role, "function": "slots", "args": {"role": role, "bytes": bytes}, "memory": "1GiB"});
    Workflow::new(&json!({
        "name": "bench-slots",
        "functions": {"slots": {"image": image}},
        "steps": [step("sum"), step("give")],
        "limits": {"carriers": 1},
    }))
}
