//! A function that sleeps with much memory, and domains that go on with it.

use super::ready;
use monohull_visor::domain::checkpoint::{CapturedPages, Continuation};
use monohull_visor::engine::{Ready, RunEnd, RunOptions};
use monohull_visor::report::Silent;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// The shortest wait at which a run is suspended.
pub(crate) const LEAST: Duration = Duration::from_millis(20);

/// One that sleeps for an hour with so many bytes, and writes to so many pages of them afterwards.
pub(crate) fn sleeper(bytes: usize, pages: usize) -> Ready {
    let args = json!({ "what": "wake", "count": 3_600_000, "bytes": bytes, "pages": pages });
    ready(&json!({
        "name": "sleeper",
        "functions": { "probe": { "image": "bench-probe" } },
        "steps": [{ "name": "wakes", "function": "probe", "args": args, "timeout": "2h" }],
        "limits": { "carriers": 1, "timeout": "2h" },
    }))
}

/// Goes on until the run only waits; or, `awake`, skips that.
pub(crate) fn go_on(ready: &Ready, continuation: Option<Continuation<CapturedPages>>, awake: bool) -> RunEnd {
    let suspend = (!awake).then_some(LEAST);
    let options = RunOptions { skip_time: awake, ..RunOptions::default() };
    ready.run_captured(continuation, suspend, None, &options, Arc::new(Silent)).expect("the host can hold a domain")
}
