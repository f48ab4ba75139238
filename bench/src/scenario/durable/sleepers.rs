//! What workflows take that sleep: of the disk, and of the engine's memory.

use super::{HOUR, against, allowed, each_peer, start_many};
use crate::durable::{Engine, Order, stored};
use crate::harness::{Effort, Result, Row, Samples, Unit};
use serde_json::Value;
use std::time::{Duration, Instant};

const SLEEPS: Order = Order::new("late", HOUR);
const SLEEPERS: usize = 10_000;
/// Bytes on the disk of a small function, and of the smallest when it is compressed.
const ALLOWED: f64 = 64.0 * 1024.0;
const ALLOWED_COMPRESSED: f64 = 8.0 * 1024.0;
/// Restate's functions keep their connection while they wait for so long; the default is a minute.
const SETTINGS: &[(&str, &str)] = &[("RESTATE_WORKER__INVOKER__INACTIVITY_TIMEOUT", "2s")];
/// How long an engine is given to come to rest, from the last start on. Restate runs 1000 functions at a time, and suspends them in turns, for a
/// minute; ours keeps processes in memory for as long, and ends them within five seconds then.
const REST: Duration = Duration::from_secs(75);
const PATIENCE: Duration = Duration::from_secs(600);

/// What an engine takes. Bytes are those by which its files have grown: one that has space in hand, as Restate's log, shows fewer than it has written.
struct Taken {
    bytes: Samples,
    memory: Samples,
}

pub(crate) fn run(effort: Effort) -> Result<Vec<Row>> {
    let (count, rest) = (effort.size(SLEEPERS, 20), effort.size(REST, Duration::ZERO));
    let engine = Engine::monohull("1s", &["--max-durable", "1000000"], &[SLEEPS])?;
    let ours = measure(&engine, (count, rest), |engine| until_asleep(engine, count))?;
    drop(engine);
    let (bytes, memory) =
        (format!("durable: {count} sleepers, bytes each"), format!("durable: {count} sleepers, memory of the engine"));
    let mut rows = each_peer(effort, SETTINGS, |peer, theirs| {
        let taken = measure(theirs, (count, rest), |_| Ok(()))?;
        let row = |name: &str, sides, goal| Row::new(name, sides, &theirs.name, Unit::Kibibytes, goal);
        let of_memory = (ours.memory.clone(), taken.memory);
        Ok(vec![row(&bytes, (ours.bytes.clone(), taken.bytes), None), row(&memory, of_memory, against(peer, 0.1))])
    });
    rows.push(allowed(bytes.clone(), ours.bytes.clone(), ALLOWED, Unit::Kibibytes));
    rows.push(allowed(
        format!("{bytes}, of the smallest, compressed"),
        ours.bytes,
        ALLOWED_COMPRESSED,
        Unit::Kibibytes,
    ));
    Ok(rows)
}

fn measure(
    engine: &Engine,
    (count, rest): (usize, Duration),
    until_asleep: impl FnOnce(&Engine) -> Result<()>,
) -> Result<Taken> {
    let before = stored(engine.folder());
    start_many(engine, &SLEEPS, count)?;
    let begin = Instant::now();
    until_asleep(engine)?;
    std::thread::sleep(rest.saturating_sub(begin.elapsed()));
    let bytes = stored(engine.folder()).saturating_sub(before) as f64 / count as f64;
    Ok(Taken { bytes: Samples::of(vec![bytes]), memory: Samples::of(vec![engine.memory() as f64]) })
}

/// Waits until none of ours has a process or waits for its first.
pub(super) fn until_asleep(engine: &Engine, count: usize) -> Result<()> {
    let mut client = engine.client()?;
    let begin = Instant::now();
    loop {
        let listed = client.ask("GET", "/invocations?status=pending,running&limit=1", b"")?;
        let listed: Value = serde_json::from_slice(&listed).unwrap_or_default();
        if listed["invocations"].as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("not all of {count} sleep after {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
