//! A function goes back in its own memory, again and again: it writes some pages of a heap of 16 MiB, and takes that back. Without a
//! checkpoint it would copy all of it, which is the peer.
//!
//! ```text
//! capture ─▶ write pages ─▶ rewind ─▶ write pages ─▶ rewind ─ …
//!            └─────── measured ─────┘
//! ```
//!
//! What is measured has the page faults of the writes in it, and the copies that the kernel makes of the pages. With more pages written it costs
//! more, and with more heap it does not.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::ours::Workflow;
use crate::peer;
use serde_json::json;

const HEAP: usize = 16 << 20;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let count = effort.size(1000, 20);
    let copies = effort.size("100", "2");
    let mut rows = Vec::new();
    // One page in a hundred, one in ten, and one in a hundred of sixteen times the heap, against the same copy.
    for (name, heap, pages, goal) in [
        ("16 MiB, 1 % written", HEAP, 41, Some(0.1)),
        ("16 MiB, 10 % written", HEAP, 410, None),
        ("256 MiB, 41 pages written", effort.size(16 * HEAP, HEAP), 41, None),
    ] {
        let arguments = json!({ "what": "rewind", "count": count, "bytes": heap, "pages": pages });
        let probe = Workflow::probes(&[arguments])?;
        let peer_bytes = HEAP.to_string();
        let sides = on_one_core(|| {
            take_turns(effort, || probe.run()?.figure("rewind"), || peer::measure("copy", &[copies, &peer_bytes]))
        })?;
        let by_copy = "memcpy of 16 MiB";
        rows.push(Row::new(format!("rewind in place, {name}"), sides, by_copy, Unit::Microseconds, goal));
        if goal.is_some() {
            let written = [count.to_string(), heap.to_string(), pages.to_string()];
            let by_hand = || peer::measure("dropped", &written.each_ref().map(String::as_str));
            let sides = on_one_core(|| take_turns(effort, by_hand, || peer::measure("copy", &[copies, &peer_bytes])))?;
            let name = format!("the limit of a rewind, these pages of a mapping written and dropped, {name}");
            rows.push(Row::new(name, sides, by_copy, Unit::Microseconds, None));
        }
    }
    Ok(rows)
}
