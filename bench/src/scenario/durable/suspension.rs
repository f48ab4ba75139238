//! How a workflow leaves its process: from its last instruction until its checkpoint is committed, and until the process is gone.

use super::{allowed, new_id};
use crate::durable::{Engine, Order};
use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::service::children;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const WAITS: Order = Order::new("before", 0);
/// From the last instruction until the process is gone, in nanoseconds.
const ALLOWED: f64 = 1e6;
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    // A process that serves others too is not gone.
    let engine = Engine::monohull("20ms", &["--process", "per-invocation"], &[WAITS])?;
    once(&engine)?;
    let (mut committed, mut gone) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let (commit, end) = once(&engine)?;
        committed.push(commit);
        gone.push(end);
    }
    let row = |name: &str, values| {
        allowed(format!("durable: waits, until {name}"), Samples::of(values), ALLOWED, Unit::Milliseconds)
    };
    Ok(vec![row("that is committed", committed), row("its process is gone", gone)])
}

/// Nanoseconds from the last instruction until the server shows that it is suspended, and until its process is gone.
fn once(engine: &Engine) -> Result<(f64, f64)> {
    let server = engine.pid().ok_or("no server runs")? as i32;
    let id = new_id();
    let mut client = engine.client()?;
    let workers: Vec<i32> = children(server).into_iter().flat_map(children).collect();
    client.start(&id, &WAITS)?;
    let (mut committed, mut gone) = (None, None);
    let begin = Instant::now();
    while committed.is_none() || gone.is_none() {
        // A signal that is none: whether the process is there. One of those that were ready has been used.
        if gone.is_none() && workers.iter().any(|worker| kill(Pid::from_raw(*worker), None).is_err()) {
            gone = Some(wall());
        }
        if committed.is_none() {
            let shown: Value =
                serde_json::from_slice(&client.ask("GET", &format!("/invocations/{id}"), b"")?).unwrap_or_default();
            committed = (shown["status"] == "suspended").then(wall);
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("{id} is not suspended, or its process is not gone"));
        }
    }
    client.send(&id, 1)?;
    let last = client.result(&id)?;
    let since = |at: Option<f64>| (at.unwrap_or(last) - last).max(0.0);
    Ok((since(committed), since(gone)))
}

/// Nanoseconds since 1970.
fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as f64
}
