//! The ten things, done by ours.

use super::super::latency::answered_by;
use super::super::{new_id, start_many, timed};
use super::{Column, commands, milliseconds, told};
use crate::durable::{Client, Engine, Order, stored};
use crate::harness::{Effort, Result, Samples};
use crate::ours::Workflow;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often each thing is measured of which the median counts.
const TIMES: usize = 9;
/// Programs that keep to no rule, and their waits.
const PROGRAMS: usize = 16;
const KILLS: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(120);
const FUNCTIONS: usize = 15;

pub(super) fn column(effort: Effort) -> Column {
    [
        told(1, || whims(effort)),
        told(2, || after_steps(effort)),
        told(3, || index(effort)),
        told(4, || deep(effort)),
        told(5, || commands::computation(effort)),
        told(6, || copies(effort)),
        told(7, published),
        told(8, || taken_back(effort)),
        Ok("scenario durable-million".to_owned()),
        told(10, || hops(effort)),
    ]
}

/// Programs that draw random numbers wait again and again, while the server is killed and started.
fn whims(effort: Effort) -> Result<String> {
    let order = effort.size(Order::new("whims", 300), Order::new("whims", 10));
    let mut engine = Engine::monohull("1ms", &[], &[order])?;
    let ids = start_many(&engine, &order, effort.size(PROGRAMS, 2))?;
    let kills = effort.size(KILLS, 1);
    for kill in 0..kills {
        // Not at the same place of each.
        sleep(Duration::from_millis(effort.size(150, 20) + 37 * kill));
        engine.kill();
        engine.start_again()?;
    }
    let changed: f64 = ids.iter().map(|id| ended(&engine, id)).sum::<Result<f64>>()?;
    let mut client = engine.client()?;
    let suspended: f64 = ids.iter().map(|id| client.generation(id)).sum::<Result<f64>>()?;
    Ok(format!("{changed} of {} changed, {suspended} suspensions, {kills} kills", ids.len() as u64 * order.count))
}

/// The result of one that may take longer than a client waits.
fn ended(engine: &Engine, id: &str) -> Result<f64> {
    let begin = Instant::now();
    loop {
        match engine.client().and_then(|mut client| client.result(id)) {
            Ok(figure) => return Ok(figure),
            Err(why) if begin.elapsed() > PATIENCE => return Err(why),
            Err(_) => sleep(Duration::from_millis(20)),
        }
    }
}

fn after_steps(effort: Effort) -> Result<String> {
    let counts = effort.size([10, 10_000, 1_000_000], [1, 10, 100]);
    let orders = counts.map(|count| Order::new("event", count));
    let engine = Engine::monohull("20ms", &[], &orders)?;
    // The first of a server takes longer, whichever it is.
    answered_by(&engine, &orders[0], 17)?;
    let times = orders.map(|order| median(effort, || answered_by(&engine, &order, 17)));
    let [few, more, most] = times;
    let (few, more, most) = (few?, more?, most?);
    let spread = few.max(more).max(most) / few.min(more).min(most) - 1.0;
    Ok(format!("{}, {}, {}: {:.0} %", milliseconds(few), milliseconds(more), milliseconds(most), spread * 100.0))
}

fn index(effort: Effort) -> Result<String> {
    let order = Order { what: "index", count: 0, bytes: effort.size(200, 2) << 20 };
    let of = |more: &[&str]| -> Result<String> {
        let engine = Engine::monohull("20ms", more, &[order])?;
        Ok(milliseconds(median(Effort { rounds: effort.rounds.min(3), ..effort }, || answered_by(&engine, &order, 1))?))
    };
    Ok(format!("{} from its file, {} in a process that stays", of(&["--resident-memory", "0"])?, of(&[])?))
}

fn deep(effort: Effort) -> Result<String> {
    let order = effort.size(Order::new("deep", 1000), Order::new("deep", 20));
    let engine = Engine::monohull("1ms", &[], &[order])?;
    match engine.client()?.call(&new_id(), &order)? {
        1.0 => Ok("yes".to_owned()),
        _ => Err("a recursion or a sort came out wrong".to_owned()),
    }
}

fn copies(effort: Effort) -> Result<String> {
    let order = Order { what: "event", count: 0, bytes: effort.size(100, 1) << 20 };
    let engine = Engine::monohull("20ms", &[], &[order])?;
    let (id, count) = (new_id(), effort.size(1000, 10));
    let mut client = engine.client()?;
    client.start(&id, &order)?;
    client.until_it_waits(&id)?;
    let before = stored(engine.folder());
    let body = json!({ "count": count }).to_string();
    let each = timed(|| client.ask("POST", &format!("/invocations/{id}/fork"), body.as_bytes()))? / f64::from(count);
    let bytes = stored(engine.folder()).saturating_sub(before) as f64 / f64::from(count);
    Ok(format!("{:.3} ms, {:.1} KiB", each / 1e6, bytes / 1024.0))
}

fn published() -> Result<String> {
    let order = Order::new("event", 0);
    let engine = Engine::monohull("20ms", &[], &[order])?;
    let (id, mut client) = (new_id(), engine.client()?);
    client.start(&id, &order)?;
    client.until_it_waits(&id)?;
    Ok(milliseconds(read(&mut client, &id)?))
}

/// How long it takes to read what a sleeper has published, in nanoseconds.
pub(super) fn read(client: &mut Client, id: &str) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        times.push(timed(|| match client.published(id)? {
            Some(17.0) => Ok(()),
            other => Err(format!("{id} has published {other:?}")),
        })?);
    }
    Ok(Samples::of(times).median)
}

fn taken_back(effort: Effort) -> Result<String> {
    let from_disk = commands::rewound(effort)?;
    let arguments = json!({ "what": "rewind", "count": effort.size(200, 10), "bytes": 16 << 20, "pages": 41 });
    let in_place = Workflow::probes(&[arguments])?.run()?.figure("rewind")?;
    Ok(format!("{} by a command; in place {}", milliseconds(from_disk), milliseconds(in_place)))
}

fn hops(effort: Effort) -> Result<String> {
    let bytes = effort.size(1_u64 << 30, 1 << 20);
    let probe = |number: usize| {
        let what = if number == 0 { "first" } else { "relay" };
        json!({ "what": what, "count": number, "bytes": bytes, "threads": FUNCTIONS })
    };
    let arguments: Vec<Value> = (0..FUNCTIONS).map(probe).collect();
    let workflow = Workflow::probes(&arguments)?;
    let each = median(effort, || workflow.run()?.figure("hop"))?;
    Ok(format!("{:.1} us", each / 1e3))
}

fn median(effort: Effort, mut measure: impl FnMut() -> Result<f64>) -> Result<f64> {
    let times = if effort.smoke { 1 } else { effort.rounds.min(TIMES) };
    (0..times).map(|_| measure()).collect::<Result<Vec<_>>>().map(|values| Samples::of(values).median)
}
