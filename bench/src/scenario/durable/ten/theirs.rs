//! The ten things, as far as the peers have them.
//!
//! What is not measured is from their documentation, whose pages are named. A dash says that neither a program of ours nor a page of theirs shows it.

use super::super::latency::answered_by;
use super::super::{new_id, timed};
use super::ours::read;
use super::{Column, milliseconds, told};
use crate::durable::{Engine, Order, Peer, start};
use crate::harness::Result;
use serde_json::Value;
use std::thread::sleep;
use std::time::Duration;

/// Restate's functions leave their connection after so long, so that they have to be run again by their journal.
const SETTINGS: &[(&str, &str)] = &[("RESTATE_WORKER__INVOKER__INACTIVITY_TIMEOUT", "500ms")];
const EVENT: Order = Order::new("event", 0);
/// How long a workflow is given to come to its wait, or to fail.
const PAUSE: Duration = Duration::from_secs(3);
const NOT_SHOWN: &str = "–";

fn cell(text: &str) -> Result<String> {
    Ok(text.to_owned())
}

/// All cells say why there is no engine.
fn missing(why: &str) -> Column {
    std::array::from_fn(|_| Err(why.to_owned()))
}

pub(super) fn restate() -> Column {
    let engine = match start(Peer::Restate, SETTINGS) {
        Ok(engine) => engine,
        Err(why) => return missing(&why),
    };
    [
        told(1, || restate_whim(&engine)),
        told(2, || answers(&engine, &[10, 10_000])),
        told(3, || index(&engine)),
        // A wait is a promise, for which the function that calls it is suspended: docs.restate.dev/develop/ts/durable-timers. A comparison of
        // `Array.prototype.sort` gives a number, not a promise.
        cell("no: waits are awaited by async functions"),
        told(5, || restate_computation(&engine)),
        // "Creates a new invocation from a completed invocation": docs.restate.dev/admin-api/invocation/restart-invocation-as-new
        cell("no: of completed ones"),
        told(7, || published(&engine, "runs a handler")),
        // The same page: the new invocation has another id, and one that waits is refused.
        cell("no: of completed ones, as a new one"),
        cell(NOT_SHOWN),
        // `message-size-limit` of what `restate-server --dump-config` prints.
        cell("no: messages have at most 32 MiB"),
    ]
}

/// A function that goes another way when it is run again.
fn restate_whim(engine: &Engine) -> Result<String> {
    let id = new_id();
    engine.client()?.start(&id, &Order::new("whim", 0))?;
    sleep(PAUSE);
    match engine.restate_failure(&id)? {
        failure if failure.contains("Journal mismatch") => cell("no: `Journal mismatch`, tried again and again"),
        failure => Err(format!("there is no failure, but {failure}")),
    }
}

/// From an event to its answer, of workflows that have done so many steps. One that does not come to its wait says why, if the first does.
fn answers(engine: &Engine, counts: &[u64]) -> Result<String> {
    let mut times = Vec::new();
    for count in counts {
        times.push(match answer(engine, *count) {
            Ok(time) => milliseconds(time),
            Err(why) if !times.is_empty() => format!("after {count} none ({why})"),
            Err(why) => return Err(why),
        });
    }
    Ok(times.join(", ") + ", not run")
}

fn answer(engine: &Engine, count: u64) -> Result<f64> {
    let mut client = engine.client()?;
    let (id, order) = (new_id(), Order::new("event", count));
    client.start(&id, &order)?;
    client.until_it_waits(&id)?;
    sleep(PAUSE);
    timed(|| {
        client.send(&id, 17)?;
        client.result(&id)
    })
}

fn index(engine: &Engine) -> Result<String> {
    let order = Order { what: "index", count: 0, bytes: 200 << 20 };
    Ok(format!("{}: it is made again", milliseconds(answered_by(engine, &order, 1)?)))
}

fn restate_computation(engine: &Engine) -> Result<String> {
    match engine.client()?.call(&new_id(), &Order::new("compute", 0))? {
        2.0 => cell("all of the step: it begins again"),
        times => Err(format!("a step was begun {times} times")),
    }
}

fn published(engine: &Engine, how: &str) -> Result<String> {
    let (id, mut client) = (new_id(), engine.client()?);
    client.start(&id, &EVENT)?;
    client.until_it_waits(&id)?;
    sleep(PAUSE);
    Ok(format!("{}: {how}", milliseconds(read(&mut client, &id)?)))
}

pub(super) fn dbos() -> Column {
    let engine = match start(Peer::Dbos, &[]) {
        Ok(engine) => engine,
        Err(why) => return missing(&why),
    };
    [
        told(1, || dbos_whim(&engine)),
        // Its process keeps the workflow that waits; what a loss of the process costs is not the same measurement.
        cell(NOT_SHOWN),
        cell(NOT_SHOWN),
        told(4, || dbos_deep(&engine)),
        // "if a process crashes after a step's side effects but before the step is checkpointed, the step re-executes":
        // docs.dbos.dev/python/tutorials/step-tutorial
        cell("all of the step: it begins again"),
        told(6, || dbos_copies(&engine)),
        told(7, || published(&engine, "from the database")),
        told(8, || dbos_back(&engine)),
        cell(NOT_SHOWN),
        cell(NOT_SHOWN),
    ]
}

/// What a request of the small server is answered, as JSON.
fn fork(engine: &Engine, id: &str, body: &str) -> Result<Value> {
    let answer = engine.client()?.ask("POST", &format!("/fork/{id}"), body.as_bytes())?;
    serde_json::from_slice(&answer).map_err(|error| error.to_string())
}

fn dbos_whim(engine: &Engine) -> Result<String> {
    let id = new_id();
    engine.client()?.call(&id, &Order::new("whim", 0))?;
    match fork(engine, &id, r#"{"step":2,"count":1,"wait":true}"#)? {
        Value::String(error) => Ok(format!("no: `{error}`")),
        other => Err(format!("there is no failure, but {other}")),
    }
}

fn dbos_deep(engine: &Engine) -> Result<String> {
    let mut client = engine.client()?;
    let depth = client.call(&new_id(), &Order::new("depth", 0))?;
    let sorted = client.ask("POST", &format!("/call/{}", new_id()), br#"{"what":"sort"}"#)?;
    if depth == 1000.0 && sorted == b"true" { cell("yes: a thread waits") } else { Err(format!("{depth}, {sorted:?}")) }
}

fn dbos_copies(engine: &Engine) -> Result<String> {
    let (id, mut client) = (new_id(), engine.client()?);
    client.start(&id, &EVENT)?;
    sleep(PAUSE);
    let each = timed(|| fork(engine, &id, r#"{"step":1,"count":100}"#))? / 100.0;
    Ok(format!("{}: run again by their steps", milliseconds(each)))
}

fn dbos_back(engine: &Engine) -> Result<String> {
    let (id, mut client) = (new_id(), engine.client()?);
    client.start(&id, &Order::new("event", 1000))?;
    client.until_it_waits(&id)?;
    let each = timed(|| fork(engine, &id, r#"{"step":500,"count":1}"#))?;
    Ok(format!("{}: a new one, run again by its steps", milliseconds(each)))
}

pub(super) fn duroxide() -> Column {
    let engine = match start(Peer::Duroxide, &[]) {
        Ok(engine) => engine,
        Err(why) => return missing(&why),
    };
    [
        // "orchestrations must be deterministic": its README, docs.rs/crate/duroxide
        cell("no: must be deterministic"),
        told(2, || answers(&engine, &[10, 300])),
        cell(NOT_SHOWN),
        // A wait is a future, for which the function that calls it is suspended: docs.rs/duroxide, `OrchestrationContext::schedule_timer`.
        cell("no: waits are awaited by async functions"),
        // An activity is scheduled again when its worker's lock has expired: docs.rs/duroxide, `RuntimeOptions::worker_lock_timeout`.
        cell("all of the step: it begins again"),
        cell(NOT_SHOWN),
        told(7, || published(&engine, "from the database")),
        cell(NOT_SHOWN),
        cell(NOT_SHOWN),
        cell(NOT_SHOWN),
    ]
}
