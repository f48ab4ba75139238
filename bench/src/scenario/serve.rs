//! A no-op workflow over HTTP, each invocation in a fresh process and in one that is used again, against Apache: one process per request
//! as well (CGI, a static C program that answers nothing), and a file from memory, for which it starts none.

use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::http::{self, Load};
use crate::peer::build_cgi;
use crate::service;

/// A figure of a load.
type Figure = (&'static str, fn(&Load) -> f64);
const FIGURES: [Figure; 3] =
    [("time per request", |load| load.per_request), ("p50", |load| load.p50), ("p99", |load| load.p99)];

/// How our side runs an invocation: what the workflow file says, and the share of the peers' figures that ours may be, against CGI and
/// against a static file.
struct Ours {
    name: &'static str,
    process: &'static str,
    limits: [[Option<f64>; 3]; 2],
}

const OURS: [Ours; 2] = [
    Ours {
        name: "fresh process",
        process: "per-invocation",
        limits: [[Some(1.0 / 4.5), Some(0.25), None], [Some(1.0), None, None]],
    },
    Ours {
        name: "reused process",
        process: "reused",
        limits: [[Some(1.0 / 15.0), Some(1.0 / 15.0), None], [Some(1.0), None, None]],
    },
];

const PEERS: [&str; 2] = ["Apache CGI, a static program", "Apache, a static file"];

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let server = service::monohull(&[])?;
    for ours in &OURS {
        let more = serde_json::json!({ "process": ours.process });
        service::register(server.address, ours.process, "no-op", &more)?;
    }
    let apache = service::apache(&build_cgi()?)?;
    let sides = [
        (server.address, http::request("POST", "/invoke/per-invocation", b"")),
        (server.address, http::request("POST", "/invoke/reused", b"")),
        (apache.address, http::request("GET", "/cgi/program", b"")),
        (apache.address, http::request("GET", "/empty", b"")),
    ];
    let mut rows = Vec::new();
    for clients in [1, 8] {
        let each = effort.size(400, 5);
        let measure = |(address, request): &(_, Vec<u8>)| http::load(*address, request, clients, each);
        for side in &sides[..3] {
            measure(side)?;
        }
        let mut loads = [const { Vec::new() }; 4];
        for _ in 0..effort.rounds {
            for (side, loads) in sides.iter().zip(&mut loads) {
                loads.push(measure(side)?);
            }
        }
        let plural = if clients == 1 { "client" } else { "clients" };
        for (index, ours) in OURS.iter().enumerate() {
            for (peer, name) in PEERS.iter().enumerate() {
                for (number, (what, figure)) in FIGURES.iter().enumerate() {
                    let samples = |side: usize| Samples::of(loads[side].iter().map(figure).collect());
                    // The goals are for many clients; with one, only the waiting time counts.
                    let limit = ours.limits[peer][number].filter(|_| clients > 1 || *what == "p50");
                    let scenario = format!("http, {}, {clients} {plural}: {what}", ours.name);
                    let both = (samples(index), samples(OURS.len() + peer));
                    rows.push(Row::new(scenario, both, name, Unit::Microseconds, limit));
                }
            }
        }
    }
    Ok(rows)
}
