//! From a request to the first instruction of a function in a process of its own, which is gone afterwards; against
//! starting the smallest program there is.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::peer;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let count = effort.size("300", "5");
    let program = peer::build_nothing()?;
    let program = program.to_str().ok_or("the path of the build folder is not UTF-8")?;
    let peer = || peer::measure("spawn", &[count, program]);
    let ours = |what: &'static str| move || peer::measure("cold", &[what, count]);
    let row = |name: &str, what, limit| -> Result<Row> {
        let sides = on_one_core(|| take_turns(effort, ours(what), peer))?;
        Ok(Row::new(name, sides, "posix_spawn of a static program + wait", Unit::Microseconds, limit))
    };
    let mut rows = vec![
        row("cold-start", "reaped", Some(0.25))?,
        row("cold-start, answered", "answered", None)?,
        row("cold-start, first instruction", "first-instruction", Some(0.15))?,
        row("an idle worker is made", "idle-worker", None)?,
        row("start from a template, first instruction", "template:first-instruction", Some(0.35))?,
        row("start from a template, answered", "template:answered", None)?,
        row("the same function without a template, answered", "prepared:answered", None)?,
    ];
    // Templates of a chain: what they save is what a step does before its first call that is its own.
    let chain = |name: &str, what, images, peer: &str| -> Result<Row> {
        let sides = on_one_core(|| take_turns(effort, ours(what), ours(images)))?;
        Ok(Row::new(name, sides, peer, Unit::Microseconds, None))
    };
    let (small, tables) = ("chain:answered", "tables:answered");
    let images = "the same, each step from its image";
    rows.push(chain(
        "a chain of 5 small steps, each from a template, answered",
        "chain-templates:answered",
        small,
        images,
    )?);
    let name = "the limit of these, from images, but each step in a cell of its own, answered";
    rows.push(chain(name, "chain-at-once:answered", small, "one after the other, in one cell")?);
    let name = "all templates of these 5 steps are made, once";
    rows.push(chain(name, "chain-templates:made", small, "the chain, each step from its image")?);
    let name = "a chain of 5 steps, of which 3 build a table first, each from a template, answered";
    rows.push(chain(name, "tables-templates:answered", tables, images)?);
    let sides = take_turns(effort, ours("reaped"), peer)?;
    let name = "posix_spawn of a static program + wait";
    rows.push(Row::new("cold-start, all cores", sides, name, Unit::Microseconds, None));
    Ok(rows)
}
