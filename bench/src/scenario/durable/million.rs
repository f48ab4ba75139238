//! A million sleepers, which are copies of one and share its checkpoint: the engine's memory, and how long one that is due takes when the engine has to be
//! started for it.

use super::sleepers::until_asleep;
use super::{HOUR, allowed, new_id};
use crate::durable::{Engine, Order, stored};
use crate::harness::{Effort, Result, Row, Samples, Unit};
use std::time::{Duration, Instant};

const SLEEPS: Order = Order::new("late", HOUR);
const DUE: Order = Order::new("late", 3000);
/// Copies that one request makes.
const AT_ONCE: usize = 1000;
/// Of memory, and until the first that is due has ended, in nanoseconds.
const ALLOWED_MEMORY: f64 = 64.0 * 1024.0 * 1024.0;
const ALLOWED_DUE: f64 = 500e6;
const ALLOWED_BYTES: f64 = 64.0 * 1024.0;

pub(crate) fn run(effort: Effort) -> Result<Vec<Row>> {
    let count = effort.size(1_000_000, 2000);
    let mut engine = Engine::monohull("1s", &["--max-durable", "2000000"], &[SLEEPS, DUE])?;
    let first = new_id();
    let mut client = engine.client()?;
    client.start(&first, &SLEEPS)?;
    until_asleep(&engine, 1)?;
    let before = stored(engine.folder());
    for _ in 0..count / AT_ONCE {
        client.ask("POST", &format!("/invocations/{first}/fork"), format!("{{\"count\":{AT_ONCE}}}").as_bytes())?;
    }
    let bytes = stored(engine.folder()).saturating_sub(before) as f64 / count as f64;
    let mut memory = Vec::new();
    let mut due = Vec::new();
    for _ in 0..effort.rounds.min(3) {
        let id = new_id();
        let mut client = engine.client()?;
        client.start(&id, &DUE)?;
        until_asleep(&engine, 1)?;
        // It is due before as long has passed from here. From its start on it may be more: after so many copies the first to start waits for the disk.
        let asleep = Instant::now();
        memory.push(engine.memory() as f64);
        engine.kill();
        std::thread::sleep(Duration::from_millis(DUE.count).saturating_sub(asleep.elapsed()));
        let begin = Instant::now();
        engine.start_again()?;
        engine.client()?.result(&id)?;
        due.push(begin.elapsed().as_nanos() as f64);
    }
    let name = |what: &str| format!("durable: {count} sleepers, {what}");
    Ok(vec![
        allowed(name("memory of the engine"), Samples::of(memory), ALLOWED_MEMORY, Unit::Kibibytes),
        allowed(name("bytes of each copy"), Samples::of(vec![bytes]), ALLOWED_BYTES, Unit::Kibibytes),
        allowed(
            name("one is due and the engine starts, until its end"),
            Samples::of(due),
            ALLOWED_DUE,
            Unit::Milliseconds,
        ),
    ])
}
