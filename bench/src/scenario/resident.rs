//! An invocation that waits for an event, in a server: from the event to the result. In a process that has stayed with it, and restored
//! from its checkpoint.
//!
//! ```text
//! starts, waits ─ checkpoint │ POST …/events/e ─ in its process, or restored ─ it ends ─ GET …/outputs/result?wait │
//!                            └──────────────────────────── what is measured ───────────────────────────────────────┘
//! ```

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::http;
use crate::service::{self, Running};
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::Instant;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let stays = server(&[])?;
    let restores = server(&["--resident-memory", "0"])?;
    let count = effort.size(20, 2);
    let round = Cell::new(0);
    let answers = |server| {
        round.set(round.get() + 1);
        answers(server, round.get(), count)
    };
    let samples = take_turns(effort, || answers(&stays), || answers(&restores))?;
    // Otherwise both sides would be the same. A process may be given up for an event that comes as it is kept.
    for (server, from, other) in [(&stays, "process", "checkpoint"), (&restores, "checkpoint", "process")] {
        let (as_meant, otherwise) = (woken(server, from)?, woken(server, other)?);
        if as_meant == 0 || otherwise > as_meant {
            return Err(format!("{as_meant} went on from a {from}, and {otherwise} from a {other}"));
        }
    }
    let name = "durable: from an event to the result";
    Ok(vec![Row::new(name, samples, "restored from its checkpoint", Unit::Microseconds, Some(1.0))])
}

fn server(options: &[&str]) -> Result<Running> {
    let server = service::monohull(options)?;
    let args = json!({ "events": ["e"], "fills": "result" });
    service::register(server.address, "inbox", "inbox", &json!({ "args": args, "outputs": ["result"] }))?;
    Ok(server)
}

/// How many invocations have gone on from a process, or from a checkpoint.
fn woken(server: &Running, from: &str) -> Result<u64> {
    let (_, metrics) = http::ask(server.address, "GET", "/metrics", b"")?;
    let name = format!("monohull_durable_wakes_total{{from=\"{from}\"}} ");
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    let count = metrics.lines().find_map(|line| line.strip_prefix(&name));
    Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// The time from an event to the result: the mean of so many invocations, one after the other.
fn answers(server: &Running, round: u32, count: u32) -> Result<f64> {
    let mut time = 0.0;
    for number in 0..count {
        let location = format!("/invocations/r{round}-{number}");
        expect(http::ask(server.address, "POST", &format!("/async-invoke/inbox?id=r{round}-{number}"), b"")?, 202)?;
        service::eventually("it waits", || {
            let shown: Value = serde_json::from_slice(&http::ask(server.address, "GET", &location, b"")?.1)
                .map_err(|error| error.to_string())?;
            Ok(shown["status"] == "suspended")
        })?;
        let begin = Instant::now();
        expect(http::ask(server.address, "POST", &format!("{location}/events/e"), b"x")?, 202)?;
        let path = format!("{location}/outputs/result?wait=60s");
        let result = expect(http::ask(server.address, "GET", &path, b"")?, 200)?;
        time += begin.elapsed().as_nanos() as f64;
        if result != b"e: x\n" {
            return Err(format!("{location}: {}", String::from_utf8_lossy(&result)));
        }
    }
    Ok(time / f64::from(count))
}

fn expect((status, answer): (u16, Vec<u8>), wanted: u16) -> Result<Vec<u8>> {
    match status == wanted {
        true => Ok(answer),
        false => Err(format!("{status}: {}", String::from_utf8_lossy(&answer))),
    }
}
