//! How long one workflow takes: 15 steps, a sleep, an answer to an event, and ours to leave its process.

use super::{against, allowed, each_peer, new_id, samples, suspension, timed};
use crate::durable::{Engine, Order, fdatasync};
use crate::harness::{Effort, Result, Row, Unit, take_turns};
use std::time::{Duration, Instant};

const KEPT_STEPS: Order = Order::new("kept-steps", 15);
const STEPS: Order = Order::new("steps", 15);
const SHORT: Order = Order::new("late", 100);
const LONG: Order = Order::new("late", 2000);
const EVENT: Order = Order::new("event", 0);
/// Sleeps are durable that are longer than this, so those that are measured are.
const SUSPEND: &str = "20ms";
/// 15 steps, and each half of a suspension, in nanoseconds.
const ALLOWED_STEPS: f64 = 5e6;
const ALLOWED_HALF: f64 = 1e6;
/// Bytes of a checkpoint of the workflow with steps, about.
const CHECKPOINT: usize = 4 << 10;
/// How long a workflow is given to come to its wait.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn run(effort: Effort) -> Result<Vec<Row>> {
    let ours = Engine::monohull(SUSPEND, &[], &[KEPT_STEPS, STEPS, SHORT, LONG, EVENT])?;
    let few = Effort { rounds: effort.rounds.min(5), ..effort };
    let long = effort.size(LONG, SHORT);
    let mut rows = each_peer(effort, &[], |peer, theirs| {
        let row = |name: &str, sides, goal| {
            Row::new(format!("durable: {name}"), sides, &theirs.name, Unit::Milliseconds, goal)
        };
        let late = |effort, order: Order| take_turns(effort, || called(&ours, &order), || called(theirs, &order));
        Ok(vec![
            row(
                "15 steps, each kept before the next",
                take_turns(effort, || spent(&ours, &KEPT_STEPS), || spent(theirs, &KEPT_STEPS))?,
                against(peer, 0.33),
            ),
            row(
                "15 steps, kept at the end",
                take_turns(effort, || spent(&ours, &STEPS), || spent(theirs, &STEPS))?,
                None,
            ),
            row("a sleep of 100 ms, too long by", late(effort, SHORT)?, against(peer, 0.5)),
            row("a sleep of 2 s, too long by", late(few, LONG)?, against(peer, 0.5)),
            row(
                "an event, until its answer",
                take_turns(effort, || answered(&ours), || answered(theirs))?,
                against(peer, 0.5),
            ),
        ])
    });
    let steps = samples(effort.rounds, || spent(&ours, &KEPT_STEPS))?;
    rows.push(allowed("durable: 15 steps, each kept before the next", steps, ALLOWED_STEPS, Unit::Milliseconds));
    let synced = || Ok(KEPT_STEPS.count as f64 * fdatasync(CHECKPOINT, KEPT_STEPS.count as usize)?);
    let sides = take_turns(effort, || spent(&ours, &KEPT_STEPS), synced)?;
    let floor = "15 × 4 KiB, each on the disk before the next";
    rows.push(Row::new("durable: 15 steps, each kept before the next", sides, floor, Unit::Milliseconds, None));
    let late = samples(few.rounds, || called(&ours, &long))?;
    rows.push(allowed("durable: due, until the first instruction", late, ALLOWED_HALF, Unit::Milliseconds));
    if effort.smoke {
        spent(&ours, &STEPS)?;
        answered(&ours)?;
    }
    rows.extend(suspension::run(effort)?);
    Ok(rows)
}

/// How long a call takes, on a connection that was there.
fn spent(engine: &Engine, order: &Order) -> Result<f64> {
    let mut client = engine.client()?;
    timed(|| client.call(&new_id(), order))
}

/// The figure that a call gives.
fn called(engine: &Engine, order: &Order) -> Result<f64> {
    engine.client()?.call(&new_id(), order)
}

/// From sending an event to a workflow that waits for it, until a client has its answer, for which that has waited.
fn answered(engine: &Engine) -> Result<f64> {
    answered_by(engine, &EVENT, 17)
}

/// The same of another workflow, with the answer that is right.
pub(super) fn answered_by(engine: &Engine, order: &Order, right: u64) -> Result<f64> {
    let id = new_id();
    let (mut sends, mut waits) = (engine.client()?, engine.client()?);
    sends.start(&id, order)?;
    sends.until_it_waits(&id)?;
    std::thread::sleep(PAUSE);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| waits.result(&id).map(|answer| (answer, Instant::now())));
        std::thread::sleep(PAUSE);
        let begin = Instant::now();
        sends.send(&id, 17)?;
        let (answer, end) = waiter.join().unwrap_or_else(|_| Err("a client panicked".into()))?;
        match answer {
            answer if answer == right as f64 => Ok(end.duration_since(begin).as_nanos() as f64),
            _ => Err(format!("{}: the answer is {answer}", engine.name)),
        }
    })
}
