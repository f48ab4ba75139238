//! A no-op workflow over HTTP, each invocation in a fresh process, against Apache: one process per request as well (CGI, a
//! static C program that answers nothing), and a file from memory, for which it starts none.

use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::http::{self, Load};
use crate::peer::build_cgi;
use crate::service;

/// What a load is measured by. There are no goals here: fork, exit and first faults alone cost more than the servers' whole requests, as the server in C
/// shows which forks a process for each and has next to nothing besides. `reused` has what processes that are used again are to reach.
type Figure = (&'static str, fn(&Load) -> f64);
const FIGURES: [Figure; 3] =
    [("time per request", |load| load.per_request), ("p50", |load| load.p50), ("p99", |load| load.p99)];

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let ours = service::monohull(&["--process", "per-invocation"])?;
    service::register(ours.address, "nothing", "no-op", &serde_json::json!({}))?;
    let apache = service::apache(&build_cgi()?)?;
    let floor = service::floor("fork", 0)?;
    let invoke = http::request("POST", "/invoke/nothing", b"");
    let cgi = http::request("GET", "/cgi/program", b"");
    let file = http::request("GET", "/empty", b"");
    let mut rows = Vec::new();
    for clients in [1, 8] {
        let each = effort.size(400, 5);
        let measure = |address, request: &[u8]| http::load(address, request, clients, each);
        measure(ours.address, &invoke)?;
        measure(apache.address, &cgi)?;
        let mut loads = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..effort.rounds {
            loads[0].push(measure(ours.address, &invoke)?);
            loads[1].push(measure(apache.address, &cgi)?);
            loads[2].push(measure(apache.address, &file)?);
            loads[3].push(measure(floor.address, &invoke)?);
        }
        let peers = [
            (1, "Apache CGI, a static program"),
            (2, "Apache, a static file"),
            (3, "the limit, a server in C that forks for each"),
        ];
        for (peer, name) in peers {
            for (what, figure) in FIGURES {
                let samples = |side: usize| Samples::of(loads[side].iter().map(figure).collect());
                let plural = if clients == 1 { "client" } else { "clients" };
                let scenario = format!("http, {clients} {plural}: {what}");
                rows.push(Row::new(scenario, (samples(0), samples(peer)), name, Unit::Microseconds, None));
            }
        }
    }
    Ok(rows)
}
