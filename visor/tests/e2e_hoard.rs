//! An instance that ends with very many slot buffers does not keep others from their slot calls while the buffers are freed.

mod support;

use monohull_visor::report::{Content, Status};
use serde_json::json;
use support::run;

/// How often another instance sees that a part is gone of what a hoarder of so many buffers has left.
fn glimpses(carriers: u32, count: u64) -> f64 {
    let step = |what: &str| json!({ "name": what, "function": "probe", "memory": "2GiB", "args": { "what": what, "count": count } });
    let report = run(&json!({
        "name": "hoard",
        "functions": { "probe": { "image": "bench-probe" } },
        "steps": [step("hoard"), step("beside")],
        "outputs": ["figures"],
        "limits": { "carriers": carriers, "timeout": "60s" }
    }));
    assert!(report.error.is_none(), "{:#?}", report.error);
    let Some(Content::Text(figures)) = &report.output["figures"].content else { panic!("no figures") };
    let glimpses = figures.lines().find_map(|line| line.strip_prefix("glimpses: ")).expect("a figure");
    glimpses.parse().expect("a number")
}

/// The other instance sees what is left again and again while it becomes less: so it is served in the midst of it.
#[test]
fn others_are_served_while_the_buffers_of_a_hoarder_are_freed() {
    assert!(glimpses(2, 100_000) >= 1.0);
}

/// With one carrier the other instance runs only between two steps of the hoarder's end. A step frees a thousand buffers.
#[test]
fn with_one_carrier_others_run_between_the_steps_of_a_hoarders_end() {
    const BUFFERS: u64 = 400_000;
    let glimpses = glimpses(1, BUFFERS);
    assert!(glimpses >= (BUFFERS / 2000) as f64, "{glimpses}");
}

/// When the other step fails the hoarder has ended, or is in the midst of its work, depending on how far a slice of time takes it. Most
/// of its buffers are still there. The run ends after they are freed.
#[test]
fn a_run_that_ends_early_waits_for_the_end_of_a_hoarder() {
    let step = |what: &str| json!({ "name": what, "function": "probe", "memory": "2GiB", "args": { "what": what, "count": 100_000 } });
    let report = run(&json!({
        "name": "hoard",
        "functions": { "probe": { "image": "bench-probe" } },
        "steps": [step("hoard"), step("no-such-measurement")],
        "limits": { "carriers": 1, "timeout": "60s" }
    }));
    let error = report.error.expect("one step fails");
    assert!(error.message.contains("no-such-measurement"), "{error:#?}");
    let status = report.steps[0].status;
    assert!(matches!(status, Status::Done | Status::Cancelled), "{:#?}", report.steps[0]);
}
