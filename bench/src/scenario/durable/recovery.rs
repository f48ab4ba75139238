//! An engine is killed while workflows sleep, and started again: how long until a call is answered.

use super::{HOUR, against, each_peer, new_id, start_many};
use crate::durable::{Engine, Order};
use crate::harness::{Effort, Result, Row, Unit, take_turns};

const SLEEPS: Order = Order::new("late", HOUR);
const SLEEPERS: usize = 1000;

pub(crate) fn run(effort: Effort) -> Result<Vec<Row>> {
    let count = effort.size(SLEEPERS, 5);
    let effort = Effort { rounds: effort.rounds.min(5), ..effort };
    let mut ours = Engine::monohull("1s", &[], &[SLEEPS])?;
    start_many(&ours, &SLEEPS, count)?;
    let name = format!("durable: killed with {count} sleepers, until it serves");
    let mut rows = each_peer(effort, &[], |peer, theirs| {
        start_many(theirs, &SLEEPS, count)?;
        let sides = take_turns(effort, || again(&mut ours), || again(theirs))?;
        Ok(vec![Row::new(&*name, sides, &theirs.name, Unit::Milliseconds, against(peer, 0.4))])
    });
    let ours = super::samples(effort.rounds, || again(&mut ours))?;
    rows.push(super::allowed(name, ours, 1e9, Unit::Milliseconds));
    Ok(rows)
}

fn again(engine: &mut Engine) -> Result<f64> {
    engine.kill();
    engine.serves_again(&new_id())
}
