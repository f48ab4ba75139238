//! What differs between two checkpoints, for people and as JSON.

use super::Read;
use monohull_checkpoint::{Comparison, Difference};
use monohull_report::escape::Line;
use serde::Serialize;
use std::fmt::Write;

/// Lines of runs of pages; the others are counted.
const RUN_LINES: usize = 32;

/// What differs.
#[derive(Serialize)]
pub(super) struct Differences {
    same: bool,
    first: String,
    second: String,
    /// The second takes pages from the first.
    second_follows_first: bool,
    records: Vec<Record>,
    same_pages: u64,
    changed_pages: u64,
    only_in_first: u64,
    only_in_second: u64,
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Record {
    difference: &'static str,
    kind: &'static str,
    name: String,
}

#[derive(Serialize)]
struct Run {
    difference: &'static str,
    address: u64,
    pages: u64,
}

/// How a difference is called, and what it is of.
fn taken<T>(difference: &Difference<T>) -> (&'static str, &T) {
    match difference {
        Difference::Removed(what) => ("only in the first", what),
        Difference::Added(what) => ("only in the second", what),
        Difference::Changed(what) => ("changed", what),
    }
}

impl Differences {
    pub(super) fn of(first: &Read, second: &Read, comparison: &Comparison) -> Differences {
        let parent = second.contents().identity.parent.as_ref();
        let records = comparison.records.iter().map(|(kind, difference)| {
            let (difference, name) = taken(difference);
            Record { difference, kind, name: name.clone() }
        });
        let runs = comparison.changes.iter().map(|change| {
            let (difference, &(address, pages)) = taken(change);
            Run { difference, address, pages }
        });
        Differences {
            same: comparison.is_same(),
            first: first.contents().identity.id.to_string(),
            second: second.contents().identity.id.to_string(),
            second_follows_first: parent.is_some_and(|parent| parent.digest == first.digest()),
            records: records.collect(),
            same_pages: comparison.same_pages,
            changed_pages: comparison.changed_pages,
            only_in_first: comparison.removed_pages,
            only_in_second: comparison.added_pages,
            runs: runs.collect(),
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, to: &mut String) -> std::fmt::Result {
        writeln!(to, "first       {}", self.first)?;
        let follows = if self.second_follows_first { ", made from the first" } else { "" };
        writeln!(to, "second      {}{follows}", self.second)?;
        for Record { difference, kind, name } in &self.records {
            let name = if name.is_empty() { String::new() } else { format!(" {}", Line(name)) };
            writeln!(to, "{kind:<11} {difference}:{name}")?;
        }
        let Differences { same_pages, changed_pages, only_in_first, only_in_second, .. } = self;
        write!(to, "pages       {same_pages} the same, {changed_pages} changed")?;
        writeln!(to, ", {only_in_first} only in the first, {only_in_second} only in the second")?;
        for Run { difference, address, pages } in self.runs.iter().take(RUN_LINES) {
            writeln!(to, "              {address:#x}, {pages} pages: {difference}")?;
        }
        let more = self.runs.len().saturating_sub(RUN_LINES);
        if more > 0 {
            writeln!(to, "              and {more} more runs of pages")?;
        }
        Ok(())
    }
}
