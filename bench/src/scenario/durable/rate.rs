//! How much 16 clients get done together: suspensions of ours, each of which is a checkpoint that is committed, against steps of the peers, and both
//! against the disk. As a server is by default the process of what waits stays for a while, and goes on; where none stays, each suspension is a
//! process that ends and another one that is restored.

use super::{CLIENTS, against, each_peer, new_id};
use crate::durable::{Engine, Order, fdatasync};
use crate::harness::{Effort, Result, Row, Samples, Unit, take_turns};
use std::time::Instant;

const NAPS: Order = Order::new("naps", 15);
const KEPT_STEPS: Order = Order::new("kept-steps", 15);
/// How often 4 KiB are written to know the disk.
const SYNCS: usize = 500;

pub(crate) fn run(effort: Effort) -> Result<Vec<Row>> {
    let calls = effort.size(2, 1);
    let effort = Effort { rounds: effort.rounds.min(5), ..effort };
    let naps = effort.size(NAPS, Order::new("naps", 2));
    let together = ["--concurrency", &CLIENTS.to_string()];
    let ours = Engine::monohull("1ms", &together, &[naps, KEPT_STEPS])?;
    let restored = Engine::monohull("1ms", &[&together[..], &["--resident-memory", "0"]].concat(), &[naps])?;
    let mut rows = each_peer(effort, &[], |peer, theirs| {
        let by = format!("a step of {}", theirs.name);
        let row = |name: &str, sides, goal| {
            Row::new(format!("durable: {name}, {CLIENTS} at a time"), sides, &by, Unit::Microseconds, goal)
        };
        let suspensions = take_turns(effort, || each(&ours, &naps, calls), || each(theirs, &KEPT_STEPS, calls))?;
        let steps = take_turns(effort, || each(&ours, &KEPT_STEPS, calls), || each(theirs, &KEPT_STEPS, calls))?;
        Ok(vec![row("a suspension", suspensions, against(peer, 0.5)), row("a step, kept before the next", steps, None)])
    });
    let syncs = effort.size(SYNCS, 5);
    for (engine, what) in [(&ours, "a suspension"), (&restored, "a suspension, restored in another process")] {
        let sides = take_turns(effort, || each(engine, &naps, calls), || fdatasync(4096, syncs))?;
        let per_second = |samples: &Samples| 1e9 / samples.median;
        eprintln!("  {what}: {:.0} per second; fdatasync of 4 KiB: {:.0}", per_second(&sides.0), per_second(&sides.1));
        let name = format!("durable: {what}, {CLIENTS} at a time");
        rows.push(Row::new(name, sides, "fdatasync of 4 KiB, one at a time", Unit::Microseconds, None));
    }
    Ok(rows)
}

/// Nanoseconds of the whole time for each step of all clients' workflows, or for each suspension that ours really had.
fn each(engine: &Engine, order: &Order, calls: usize) -> Result<f64> {
    let client = || {
        let mut client = engine.client()?;
        let mut ids = Vec::new();
        for _ in 0..calls {
            let id = new_id();
            match client.call(&id, order)? {
                done if done == order.count as f64 => ids.push(id),
                done => return Err(format!("{}: {done} of {} were done", engine.name, order.count)),
            }
        }
        Ok((ids, Instant::now()))
    };
    let begin = Instant::now();
    let ended = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let joined =
            clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Err("a client panicked".into())));
        joined.collect::<Result<Vec<_>>>()
    })?;
    let end = ended.iter().map(|(_, end)| *end).max().unwrap_or(begin);
    let mut done = (CLIENTS * calls) as f64 * order.count as f64;
    if order.what == NAPS.what {
        // A nap during which something else ran for too long is waited for.
        let mut client = engine.client()?;
        done = ended.iter().flat_map(|(ids, _)| ids).map(|id| client.generation(id)).sum::<Result<f64>>()?;
    }
    if done == 0.0 {
        Err("nothing was suspended".to_owned())
    } else {
        Ok(end.duration_since(begin).as_nanos() as f64 / done)
    }
}
