//! A process that serves one invocation after the other: a no-op against nginx and Apache, which serve a file from memory, and
//! 1 MB of numbers against the same sort as a function call.
//!
//! Goals are ratios for eight clients on the machine of the servers. What limits them is printed beside them, part by part: a server that
//! answers whatever comes, with system calls and little else; the same with one message to a process for each request, and one back; with a process that
//! resets itself after each; that by hyper; and with a process that is forked for each. The sort has the same with a process that sorts, in C.

use super::open_loop;
use super::sort::numbers;
use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::http::{self, Load};
use crate::peer::build_cgi;
use crate::service::{self, Running};
use crate::{peer, processor};
use serde_json::json;

const CLIENTS: usize = 8;

/// A load and the processor time that it took, per request.
struct Served {
    load: Load,
    processor: f64,
}

/// Has all clients ask.
fn serve(server: &Running, request: &[u8], clients: usize, each: usize) -> Result<Served> {
    let pid = server.pid() as i32;
    let before = processor::of_tree(pid);
    let load = http::load(server.address, request, clients, each)?;
    Ok(Served { load, processor: (processor::of_tree(pid) - before) / (clients * each) as f64 })
}

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let mut rows = no_op(effort)?;
    rows.extend(sort(effort)?);
    Ok(rows)
}

fn samples(all: &[Served], figure: impl Fn(&Served) -> f64) -> Samples {
    Samples::of(all.iter().map(figure).collect())
}

fn no_op(effort: Effort) -> Result<Vec<Row>> {
    let ours = service::monohull(&["--process", "reused"])?;
    service::register(ours.address, "nothing", "no-op", &json!({}))?;
    let fresh = service::monohull(&["--process", "per-invocation"])?;
    service::register(fresh.address, "nothing", "no-op", &json!({}))?;
    let (nginx, apache) = (service::nginx()?, service::apache(&build_cgi()?)?);
    let limits = [("bare-relay", 0), ("bare-relay", CLIENTS), ("relay", CLIENTS)];
    let [alone, bare, relay] = limits.map(|(peer, processes)| service::relay(peer, processes));
    let (alone, bare, relay) = (alone?, bare?, relay?);
    let (reset, forked) = (service::floor("reset", CLIENTS)?, service::floor("fork", 0)?);
    let invoke = http::request("POST", "/invoke/nothing", b"");
    let [file, cgi] = ["/empty", "/cgi/program"].map(|path| http::request("GET", path, b""));
    let each = effort.size(500, 5);
    let sides = [
        (&ours, &invoke, 4),
        (&nginx, &file, 4),
        (&apache, &file, 4),
        (&apache, &cgi, 1),
        (&fresh, &invoke, 1),
        (&alone, &invoke, 4),
        (&bare, &invoke, 4),
        (&relay, &invoke, 4),
        (&reset, &invoke, 4),
        (&forked, &invoke, 1),
    ];
    let mut all: [Vec<Served>; 10] = Default::default();
    for round in 0..=effort.rounds {
        for ((server, request, times), served) in sides.iter().zip(&mut all) {
            let came = serve(server, request, CLIENTS, times * each)?;
            // The first round is for what is made once.
            if round > 0 {
                served.push(came);
            }
        }
    }
    let [ours, nginx, apache, cgi, fresh, alone, bare, relay, reset, forked] = &all;
    let per_request = |served: &Served| served.load.per_request;
    let row = |what: &str, ours: Samples, peer: Samples, name: &str, limit: Option<f64>| {
        Row::new(format!("reused no-op: {what}"), (ours, peer), name, Unit::Microseconds, limit)
    };
    let against = |what: &str, figure: fn(&Served) -> f64, peer: &[Served], name: &str, limit: Option<f64>| {
        row(what, samples(ours, figure), samples(peer, figure), name, limit)
    };
    let against_p50 = |what: &str, served: &[Served], limit: Option<f64>| {
        let sides = (samples(served, |served| served.load.p99), samples(served, |served| served.load.p50));
        Row::new(what, sides, "its own p50", Unit::Microseconds, limit)
    };
    let limits = [
        ("HTTP alone", alone),
        ("with a process", bare),
        ("with a process that resets itself", reset),
        ("by hyper", relay),
    ];
    type Figure = fn(&Served) -> f64;
    let figures: [(&str, Figure); 2] =
        [("time per request", per_request), ("processor time per request", |served| served.processor)];
    let limits = figures.into_iter().flat_map(|(what, figure)| {
        limits.map(|(part, served)| {
            let sides = (samples(served, figure), samples(nginx, figure));
            limit_row(part, what, sides, "nginx, a static file")
        })
    });
    let limit_by_hyper = |what, ours, peer, name| limit_row("by hyper", what, (ours, peer), name);
    let (static_nginx, static_apache) = ("nginx, a static file", "Apache, a static file");
    let mut rows = vec![
        against("time per request", per_request, nginx, static_nginx, Some(2.0)),
        against("processor time per request", |served| served.processor, nginx, static_nginx, Some(3.0)),
        against("p50", |served| served.load.p50, nginx, static_nginx, None),
        against("p99", |served| served.load.p99, nginx, static_nginx, None),
        against_p50("reused no-op: p99", ours, Some(2.5)),
        against_p50("the limit of a no-op, with a process that resets itself: p99", reset, None),
        against_p50("nginx, a static file: p99", nginx, None),
        against("time per request", per_request, apache, static_apache, Some(1.0)),
        limit_by_hyper("time per request", samples(relay, per_request), samples(apache, per_request), static_apache),
        against("time per request", per_request, cgi, "Apache CGI", Some(1.0 / 15.0)),
        limit_by_hyper("time per request", samples(relay, per_request), samples(cgi, per_request), "Apache CGI"),
        against("processor time per request", |served| served.processor, fresh, "a process per invocation", None),
        Row::new(
            "fresh no-op: time per request",
            (samples(fresh, per_request), samples(cgi, per_request)),
            "Apache CGI",
            Unit::Microseconds,
            Some(0.4),
        ),
        Row::new(
            "the limit of a fresh no-op, with a process that is forked: time per request",
            (samples(forked, per_request), samples(cgi, per_request)),
            "Apache CGI",
            Unit::Microseconds,
            None,
        ),
        Row::new(
            "the limit of a fresh no-op, with a process that is forked: processor time per request",
            (samples(forked, |served| served.processor), samples(fresh, |served| served.processor)),
            "ours, a process per invocation",
            Unit::Microseconds,
            None,
        ),
    ];
    rows.extend(limits);
    Ok(rows)
}

/// What a no-op takes at least.
fn limit_row(part: &str, what: &str, sides: (Samples, Samples), peer: &str) -> Row {
    Row::new(format!("the limit of a no-op, {part}: {what}"), sides, peer, Unit::Microseconds, None)
}

pub(super) fn lacks_wasmtime() -> Option<String> {
    let program = service::wasmtime_program();
    let lack = format!("there is no {}, which `cargo xtask bench reused-wasmtime` compiles", program.display());
    (!program.exists()).then_some(lack)
}

/// The same no-op; against an instance of WebAssembly for each request.
pub(super) fn wasmtime(effort: Effort) -> Result<Vec<Row>> {
    let ours = service::monohull(&["--process", "reused"])?;
    service::register(ours.address, "nothing", "no-op", &json!({}))?;
    let theirs = service::wasmtime()?;
    let relay = service::relay("relay", CLIENTS)?;
    let invoke = http::request("POST", "/invoke/nothing", b"");
    let sides = [(&ours, invoke.clone()), (&theirs, http::request("GET", "/nothing", b"")), (&relay, invoke)];
    let each = effort.size(2000, 20);
    let mut all: [Vec<Served>; 3] = Default::default();
    for round in 0..=effort.rounds {
        for ((server, request), served) in sides.iter().zip(&mut all) {
            let came = serve(server, request, CLIENTS, each)?;
            if round > 0 {
                served.push(came);
            }
        }
    }
    type Figure = fn(&Served) -> f64;
    let figures: [(&str, Figure, Option<f64>); 3] = [
        ("processor time per request", |served| served.processor, Some(0.7)),
        ("time per request", |served| served.load.per_request, None),
        ("p99", |served| served.load.p99, None),
    ];
    let rows = figures.into_iter().flat_map(|(what, figure, limit)| {
        let [ours, theirs, relay] = all.each_ref().map(|served| samples(served, figure));
        let name = "wasmtime serve, an instance each";
        let row = Row::new(format!("reused no-op: {what}"), (ours, theirs.clone()), name, Unit::Microseconds, limit);
        [row, limit_row("by hyper", what, (relay, theirs), name)]
    });
    Ok(rows.collect())
}

/// One megabyte of numbers.
fn sort(effort: Effort) -> Result<Vec<Row>> {
    let text = numbers(effort.size(open_loop::LINES, 100));
    let ours = service::monohull(&["--process", "reused"])?;
    open_loop::deploy(ours.address, 1)?;
    let floor = service::floor("sort", CLIENTS)?;
    let request = http::request("POST", "/invoke/sort", text.as_bytes());
    if open_loop::answer(ours.address, &request)? != open_loop::answer(floor.address, &request)? {
        return Err("the limit sorts differently".into());
    }
    // Of each client.
    let each = effort.size(10, 2);
    let (mut served, mut limits, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=effort.rounds {
        let came = serve(&ours, &request, CLIENTS, each)?;
        let limit = serve(&floor, &request, CLIENTS, each)?;
        let called = (0..each).map(|_| processor::of_call(|| peer::sorted_text(text.as_bytes())).map(|(time, _)| time));
        let called = called.sum::<Result<f64>>()? / each as f64;
        if round > 0 {
            served.push(came);
            limits.push(limit);
            calls.push(called);
        }
    }
    let calls = Samples::of(calls);
    let row = |name: &str, served: &[Served], limit| {
        let sides = (samples(served, |served| served.processor), calls.clone());
        Row::new(name, sides, "the same sort as a function call", Unit::Milliseconds, limit)
    };
    Ok(vec![
        row("reused, sort of 1 MB over http, 8 clients: processor time", &served, Some(1.4)),
        row("the limit of a sort of 1 MB over http, 8 clients, in C: processor time", &limits, None),
    ])
}

/// Memory that nothing else has, of processes that wait for another invocation.
pub(super) fn memory(effort: Effort) -> Result<Vec<Row>> {
    // So many wait in the end.
    let many = effort.size(100, 4);
    let server = service::monohull(&["--process", "reused", "--prefork", &many.to_string()])?;
    let name = |number: usize| format!("nothing-{number}");
    // Before the first of them waits: each does so for less than a minute.
    for number in 0..many {
        service::register(server.address, &name(number), "no-op", &json!({}))?;
    }
    let mut rows = Vec::new();
    for number in 0..many {
        let path = format!("/invoke/{}", name(number));
        let (status, _) = http::ask(server.address, "POST", &path, b"")?;
        if status != 200 {
            return Err(format!("{path}: {status}"));
        }
        let kept = number + 1;
        if kept == 1 || kept == many {
            let memory = kept_memory(&server, kept)? / kept as f64;
            let what = format!("memory, a process that waits for another invocation, of {kept}");
            let limit = Samples::of(vec![(1 << 20) as f64]);
            rows.push(Row::new(what, (Samples::of(vec![memory]), limit), "1 MiB", Unit::Kibibytes, Some(1.0)));
        }
    }
    Ok(rows)
}

/// The private memory of all processes that wait for another invocation, when there are so many: those with an image.
fn kept_memory(server: &Running, count: usize) -> Result<f64> {
    let kept = || -> Vec<i32> {
        let workers = service::children(server.pid() as i32).into_iter().flat_map(service::children);
        workers.filter(|pid| service::has_image(*pid)).collect()
    };
    service::eventually("processes wait for another invocation", || {
        let (_, health) = http::ask(server.address, "GET", "/healthz", b"")?;
        let health: serde_json::Value = serde_json::from_slice(&health).map_err(|error| error.to_string())?;
        Ok(health["kept_workers"] == count && kept().len() == count)
    })?;
    Ok(kept().iter().map(service::private_memory).sum::<u64>() as f64)
}
