//! What a durable workflow can do where its memory is kept, and where its code is run again by a journal: a table with a cell for each engine.
//!
//! Ours are measured, each in this run. Those of the peers are measured where a program of theirs can show it; where their documentation says that
//! they do not have it, that is the cell, and the page is named here beside it.

mod commands;
mod ours;
mod theirs;

use crate::harness::{Effort, Result};
use crate::report::Table;

/// The things, and the goal of each.
const THINGS: [(&str, &str); 10] = [
    ("random numbers, the time and the order of hashes are kept, with kills between waits", "0 changed"),
    ("an answer after 10, 10 000 and 1 000 000 steps", "within 20 %"),
    ("an index of 200 MiB: from the event to what is looked up", "< 10 ms"),
    ("waits in a recursion 1000 deep, and in the comparisons of a sort", "yes"),
    ("a computation without a wait is killed: what is lost, and the cost", "<= the interval, < 3 %"),
    ("1000 copies of one with 100 MiB, each", "< 0.5 ms, < 64 KiB"),
    ("what a sleeper has published is read", "< 5 ms"),
    ("taken back to any of 1000 save points", "< 10 ms; in place < 1 ms"),
    ("a million sleepers: memory, and one that is due after a start", "< 64 MiB, < 500 ms"),
    ("1 GiB handed on through 15 functions, each hop", "< 20 us"),
];

/// The cells of one engine, in the order of [`THINGS`].
type Column = [Result<String>; 10];

pub(crate) fn run(effort: Effort) -> Result<Table> {
    let mut columns: Vec<(&str, Column)> = vec![("Monohull", ours::column(effort))];
    if !effort.smoke {
        columns.push(("Restate 1.7", theirs::restate()));
        columns.push(("DBOS 3.4", theirs::dbos()));
        columns.push(("duroxide 0.1", theirs::duroxide()));
    } else if let Some(why) = columns[0].1.iter().find_map(|cell| cell.as_ref().err()) {
        // Nothing but errors is shown of a smoke run.
        return Err(why.clone());
    }
    let head = ["", "goal"].into_iter().chain(columns.iter().map(|(name, _)| *name)).map(str::to_owned).collect();
    let row = |(number, (thing, goal)): (usize, &(&str, &str))| {
        let cell = |(_, column): &(&str, Column)| match &column[number] {
            Ok(text) => text.clone(),
            Err(why) => format!("NOT MEASURED: {}", why.lines().next().unwrap_or_default()),
        };
        let texts = [format!("{}. {thing}", number + 1), (*goal).to_owned()];
        texts.into_iter().chain(columns.iter().map(cell)).collect()
    };
    let rows = THINGS.iter().enumerate().map(row).collect();
    Ok(Table { title: "Durable workflows: ten things".to_owned(), head, rows })
}

/// Does something for a cell, and says what came of it: a whole table takes minutes.
fn told(number: usize, thing: impl FnOnce() -> Result<String>) -> Result<String> {
    let cell = thing();
    eprintln!("  {number}. {}", cell.as_deref().unwrap_or_else(|why| why));
    cell
}

fn milliseconds(nanoseconds: f64) -> String {
    format!("{:.2} ms", nanoseconds / 1e6)
}
