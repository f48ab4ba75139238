//! How a workflow leaves its process: from its last instruction until its checkpoint is committed, and until the process is gone.

use super::{allowed, new_id};
use crate::durable::{Client, Engine, Order};
use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::service::{children, has_image};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const WAITS: Order = Order::new("before", 0);
/// From the last instruction until the process is gone, in nanoseconds.
const ALLOWED: f64 = 1e6;
/// Processes that are ready for an invocation.
const PREFORK: &str = "4";
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    // A process that stays with what waits, or serves others too, is not gone.
    let engine = Engine::monohull(
        "20ms",
        &["--process", "per-invocation", "--resident-memory", "0", "--prefork", PREFORK],
        &[WAITS],
    )?;
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
    // The process of the round before may still end, and another one takes its place.
    let mut workers = Vec::new();
    until(
        || {
            workers = children(server).into_iter().flat_map(children).collect();
            Ok(workers.len().to_string() == PREFORK && !workers.iter().any(|worker| has_image(*worker)))
        },
        || format!("not {PREFORK} processes are ready for {id}"),
    )?;
    client.start(&id, &WAITS)?;
    let (mut committed, mut gone) = (None, None);
    until(
        || {
            // A signal that is none: whether the process is there. One of those that were ready has been used.
            if gone.is_none() && workers.iter().any(|worker| kill(Pid::from_raw(*worker), None).is_err()) {
                gone = Some(wall());
            }
            if committed.is_none() && is_suspended(&mut client, &id)? {
                committed = Some(wall());
            }
            Ok(committed.is_some() && gone.is_some())
        },
        || format!("{id} is not suspended, or its process is not gone"),
    )?;
    client.send(&id, 1)?;
    let last = client.result(&id)?;
    let since = |at: Option<f64>| (at.unwrap_or(last) - last).max(0.0);
    Ok((since(committed), since(gone)))
}

fn is_suspended(client: &mut Client, id: &str) -> Result<bool> {
    let shown = client.ask("GET", &format!("/invocations/{id}"), b"")?;
    Ok(serde_json::from_slice::<Value>(&shown).unwrap_or_default()["status"] == "suspended")
}

/// Looks again and again, without a pause, until it is so.
fn until(mut look: impl FnMut() -> Result<bool>, late: impl Fn() -> String) -> Result<()> {
    let begin = Instant::now();
    while !look()? {
        if begin.elapsed() > PATIENCE {
            return Err(late());
        }
    }
    Ok(())
}

/// Nanoseconds since 1970.
fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as f64
}
