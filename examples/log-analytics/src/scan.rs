//! Counts what is in this instance's share of the files.

use crate::counts::Counts;
use monohull_std::error::Error;
use monohull_std::fs::{self, File};
use monohull_std::mmap::Mmap;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let monohull::Instance { index, count, .. } = monohull::instance();
    let mut files = Vec::new();
    for entry in fs::read_dir("/logs")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            files.push(path);
        }
    }
    files.sort();
    let mut counts = Counts::default();
    for path in files.iter().skip(index).step_by(count) {
        counts.add("total", "files", 1);
        // Read where it lies, a line at a time.
        let log = Mmap::map(&File::open(path)?)?;
        for line in str::from_utf8(&log)?.lines() {
            if add(&mut counts, line).is_none() {
                counts.add("total", "unreadable", 1);
            }
        }
    }
    SlotString::with_slot(&format!("counts.{index}")).push_str(&counts.to_text());
    Ok(())
}

/// Counts a line in the common log format: `HOST - - [DAY:HH:MM:SS ZONE] "METHOD PATH VERSION" STATUS BYTES`.
fn add(counts: &mut Counts, line: &str) -> Option<()> {
    let (before, rest) = line.split_once('"')?;
    let (request, after) = rest.split_once('"')?;
    let hour = before.split_once('[')?.1.split(':').nth(1)?;
    let path = request.split(' ').nth(1)?;
    let mut numbers = after.split_whitespace();
    let status = numbers.next()?;
    let bytes: u64 = numbers.next()?.parse().ok()?;
    counts.add("total", "lines", 1);
    counts.add("total", "bytes", bytes);
    counts.add("status", status, 1);
    counts.add("path", path, 1);
    counts.add("hour", hour, 1);
    Some(())
}
