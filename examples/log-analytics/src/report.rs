//! Adds up what all instances have counted, and writes the report.

use crate::counts::Counts;
use core::fmt::Write;
use monohull_std::error::Error;
use monohull_std::fs;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;

/// How many paths are shown.
const PATHS: usize = 10;

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let mut counts = Counts::default();
    let mut part = 0;
    while let Some(text) = SlotString::try_from_slot(&format!("counts.{part}"))? {
        counts.add_text(&text).ok_or("counts that make no sense")?;
        part += 1;
    }
    let mut text = String::new();
    for total in ["files", "lines", "unreadable", "bytes"] {
        writeln!(text, "{total} {}", counts.total(total))?;
    }
    for (kind, most) in [("status", usize::MAX), ("path", PATHS), ("hour", usize::MAX)] {
        for (key, count) in counts.of_kind(kind).into_iter().take(most) {
            writeln!(text, "{kind} {key} {count}")?;
        }
    }
    // Written under another name and renamed: a reader sees a whole report or none.
    fs::write("/report/summary.new", &text)?;
    fs::rename("/report/summary.new", "/report/summary.txt")?;
    SlotString::with_slot("report").push_str(&fs::read_to_string("/report/summary.txt")?);
    Ok(())
}
