//! Durable workflows, against engines that run code again by a journal: the same work for each, in the same run.
//!
//! A round has one turn of ours and one of the peer. A peer that is not there is left out, and that is said. In a smoke run there are none, and
//! what is allowed is compared with.

mod latency;
mod million;
mod rate;
mod recovery;
mod sleepers;
mod suspension;
mod ten;

pub(super) use latency::run as latency;
pub(super) use million::run as million;
pub(super) use rate::run as rate;
pub(super) use recovery::run as recovery;
pub(super) use sleepers::run as sleepers;
pub(super) use ten::run as ten;

use crate::durable::{Engine, Order, Peer, start};
use crate::harness::{Effort, Result, Row, Samples, Unit};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Clients that ask at the same time.
const CLIENTS: usize = 16;
/// A sleep that does not end while it is measured, in ms.
const HOUR: u64 = 3_600_000;

/// An id that no workflow has had.
fn new_id() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("bench-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The peers that are there; none in a smoke run. Each is used, and ends, before the next one is started.
fn each_peer(
    effort: Effort,
    settings: &'static [(&'static str, &'static str)],
    mut measure: impl FnMut(Peer, &mut Engine) -> Result<Vec<Row>>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for peer in Peer::ALL.into_iter().filter(|_| !effort.smoke) {
        match start(peer, settings).and_then(|mut engine| measure(peer, &mut engine)) {
            Ok(more) => rows.extend(more),
            Err(why) => eprintln!("  {}: NOT MEASURED: {why}", peer.name()),
        }
    }
    rows
}

/// A goal that is set against one of the peers alone.
fn against(peer: Peer, goal: f64) -> Option<f64> {
    (peer == Peer::Restate).then_some(goal)
}

/// A row that compares with what is allowed, in nanoseconds or bytes.
fn allowed(name: impl Into<String>, ours: Samples, most: f64, unit: Unit) -> Row {
    Row::new(name, (ours, Samples::of(vec![most])), "what is allowed", unit, Some(1.0))
}

/// How long something takes, in nanoseconds.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<f64> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed().as_nanos() as f64)
}

/// Samples of one side.
fn samples(rounds: usize, mut measure: impl FnMut() -> Result<f64>) -> Result<Samples> {
    measure()?;
    (0..rounds).map(|_| measure()).collect::<Result<Vec<_>>>().map(Samples::of)
}

/// So many workflows are started by several clients.
fn start_many(engine: &Engine, order: &Order, count: usize) -> Result<Vec<String>> {
    let ids: Vec<String> = (0..count).map(|_| new_id()).collect();
    let client = |ids: &[String]| {
        let mut client = engine.client()?;
        ids.iter().try_for_each(|id| client.start(id, order))
    };
    std::thread::scope(|scope| {
        let clients = ids.chunks(count.div_ceil(CLIENTS).max(1)).map(|ids| scope.spawn(move || client(ids)));
        let clients: Vec<_> = clients.collect();
        clients.into_iter().try_for_each(|client| client.join().unwrap_or_else(|_| Err("a client panicked".into())))
    })?;
    Ok(ids)
}
