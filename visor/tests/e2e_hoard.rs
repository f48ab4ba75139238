//! An instance that ends with very many slot buffers does not keep others from their slot calls while the buffers are freed.

mod support;

use monohull_visor::report::Content;
use serde_json::json;
use support::run;

/// The other instance sees what is left again and again while it becomes less: so it is served in the midst of it.
#[test]
fn others_are_served_while_the_buffers_of_a_hoarder_are_freed() {
    let step = |what: &str| json!({ "name": what, "function": "probe", "memory": "2GiB", "args": { "what": what, "count": 100_000 } });
    let report = run(&json!({
        "name": "hoard",
        "functions": { "probe": { "image": "bench-probe" } },
        "steps": [step("hoard"), step("beside")],
        "outputs": ["figures"],
        "limits": { "carriers": 2, "timeout": "60s" }
    }));
    assert!(report.error.is_none(), "{:#?}", report.error);
    let Some(Content::Text(figures)) = &report.output["figures"].content else { panic!("no figures") };
    let glimpses = figures.lines().find_map(|line| line.strip_prefix("glimpses: ")).expect("a figure");
    assert!(glimpses.parse::<f64>().expect("a number") >= 1.0, "{figures}");
}
