//! An instance that holds 400 000 buffers ends, and another one makes slot calls meanwhile: the longest time that it takes it to
//! allocate and free a buffer and to let others run, on a carrier of its own and on the carrier that ends the holder. What is
//! allowed is a time, not a ratio. The longest time without such a holder shows how much of it is the machine's.

use crate::harness::{Effort, Result, Row, Samples, Unit, take_turns};
use crate::ours::Workflow;
use serde_json::json;

/// The longest that the other instance may wait, in nanoseconds.
const ALLOWED: f64 = 10e6;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let count = effort.size(400_000, 1000);
    let probe = |what: &str, count: u64| json!({"what": what, "count": count});
    let both = [probe("hoard", count), probe("beside", 0)];
    let (together, on_one) = (Workflow::probes_on(2, &both)?, Workflow::probes_on(1, &both)?);
    let alone = Workflow::probes_on(2, &[probe("alone", count)])?;
    let (ours, undisturbed) = take_turns(effort, || together.run()?.figure("worst"), || alone.run()?.figure("worst"))?;
    let (ours_on_one, _) = take_turns(effort, || on_one.run()?.figure("worst"), || alone.run()?.figure("worst"))?;
    let allowed = Samples::of(vec![ALLOWED]);
    Ok(vec![
        Row::new("slot-holder", (ours.clone(), allowed.clone()), "the time allowed", Unit::Milliseconds, Some(1.0)),
        Row::new("slot-holder: one carrier", (ours_on_one, allowed), "the time allowed", Unit::Milliseconds, Some(1.0)),
        Row::new("slot-holder: both", (ours, undisturbed), "the same without a holder", Unit::Milliseconds, None),
    ])
}
