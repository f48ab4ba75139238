//! Requests that come at their own pace, whether earlier ones have been answered or not: each has 1 MB of numbers sorted.
//! Against Apache, which starts a process for each that sorts them. What limits it is printed beside it: a server that has next to nothing besides its
//! system calls, and processes that sort, in C, as many as there are processors.

use super::sort::{document, numbers};
use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::http::{self, Load};
use crate::ours::image;
use crate::peer::build_sort;
use crate::service;
use std::net::SocketAddr;

/// Lines of 1 MB.
pub(super) const LINES: usize = 50_000;
/// Requests of a round: as many as may run and wait in a server by default, so that none is turned away.
const REQUESTS: usize = 320;
/// The most processes that `peers/floor.c` has.
const FLOOR_MAX: usize = 64;
/// Requests per second.
const RATES: [usize; 2] = [160, 1000];
/// What a round is measured by.
type Figure = (&'static str, fn(&Load) -> f64);
const FIGURES: [Figure; 2] = [("p50", |load| load.p50), ("p99", |load| load.p99)];

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let text = numbers(effort.size(LINES, 100));
    let ours = service::monohull(&["--process", "reused"])?;
    deploy(ours.address, 2)?;
    let apache = service::apache(&build_sort()?)?;
    let invoke = http::request("POST", "/invoke/sort", text.as_bytes());
    let cgi = http::request("POST", "/cgi/program", text.as_bytes());
    let processors = std::thread::available_parallelism().map_err(|error| error.to_string())?;
    let floor = service::floor("sort", processors.get().min(FLOOR_MAX))?;
    let sides = [(&ours, &invoke), (&apache, &cgi), (&floor, &invoke)];
    let [our_answer, peer_answer, limit] = sides.map(|(server, request)| answer(server.address, request));
    let our_answer = our_answer?;
    if our_answer != peer_answer? || our_answer != limit? {
        return Err("they sort differently".into());
    }
    let count = effort.size(REQUESTS, 8);
    let mut rows = Vec::new();
    for rate in RATES {
        let mut loads = [Vec::new(), Vec::new(), Vec::new()];
        // A round takes seconds: a few are enough.
        for _ in 0..effort.rounds.min(5) {
            for ((server, request), loads) in sides.iter().zip(&mut loads) {
                loads.push(http::open_loop(server.address, request, rate, count)?);
            }
        }
        for (what, figure) in FIGURES {
            let [ours, peer, floor] = loads.each_ref().map(|loads| Samples::of(loads.iter().map(figure).collect()));
            let name = format!("sort of 1 MB over http, {rate} requests/s: {what}");
            let row = |name: &str, ours: Samples, limit| {
                Row::new(name, (ours, peer.clone()), "a process per request", Unit::Milliseconds, limit)
            };
            rows.push(row(&name, ours, Some(0.5)));
            rows.push(row(&format!("the limit of a {name}"), floor, None));
        }
    }
    Ok(rows)
}

/// Registers the workflow `sort` with so many sorters.
pub(super) fn deploy(address: SocketAddr, workers: u32) -> Result<()> {
    for name in ["split", "sort", "merge", "join"].map(|step| format!("parallel-sort-{step}")) {
        let path = image(&name);
        let bytes = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
        service::put(address, &format!("/functions/{name}"), &bytes)?;
    }
    let mut document = document(workers, |name| format!("function:{name}"));
    document["name"] = "sort".into();
    service::put(address, "/workflows/sort", document.to_string().as_bytes())
}

pub(super) fn answer(address: SocketAddr, request: &[u8]) -> Result<Vec<u8>> {
    let mut connection = http::Connection::open(address)?;
    connection.send(request)?;
    match connection.answer()? {
        (200, body) => Ok(body),
        (status, body) => Err(format!("{status}: {}", String::from_utf8_lossy(&body[..body.len().min(300)]))),
    }
}
