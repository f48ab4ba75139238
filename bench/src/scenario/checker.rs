//! The checker over an image, against `objdump -d | grep`, which sees less (only where an instruction begins as
//! written); and its scan over more memory than caches hold, against reading the same bytes once.

use crate::harness::{Effort, Result, Row, Samples, Unit, pairs, take_turns};
use crate::machine::on_one_core;
use monohull_checker::{check, instruction::scan};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The least that one core should scan: 500 MB/s.
const GOAL_BYTES_PER_NANOSECOND: f64 = 0.5;
/// What a person would look for in a listing.
const NAMES: &str = r"\b(wrpkru|xrstors?(64)?|wr[fg]sbase|syscall|sysenter|int)\b";

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let path = crate::ours::image("std-tour");
    let image = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    // More than the caches hold. Most of an image is code.
    let size = effort.size(64 << 20, 1 << 20);
    let memory: Vec<u8> = image.iter().copied().cycle().take(size).collect();
    let reading = on_one_core(|| {
        pairs(effort, || Ok((timed(|| scan(black_box(&memory)).count()), timed(|| sum(black_box(&memory))))))
    })?;
    let at_the_goal = Samples::of(vec![size as f64 / GOAL_BYTES_PER_NANOSECOND]);
    let listing = on_one_core(|| {
        take_turns(effort, || Ok(timed(|| check(black_box(&image)).is_ok())), || objdump(Path::new(&path)))
    })?;
    let goal = (reading.0.clone(), at_the_goal);
    let name = format!("checker, {} MiB", size >> 20);
    Ok(vec![
        Row::new(name.clone(), goal, "500 MB/s", Unit::Milliseconds, Some(1.0)),
        Row::new(name, reading, "reading it", Unit::Milliseconds, None),
        Row::new("checker, an image", listing, "objdump -d | grep", Unit::Microseconds, Some(0.01)),
    ])
}

fn timed<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    black_box(work());
    start.elapsed().as_nanos() as f64
}

/// Reads every byte once.
fn sum(bytes: &[u8]) -> u64 {
    bytes.as_chunks().0.iter().fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

fn objdump(file: &Path) -> Result<f64> {
    let start = Instant::now();
    let mut listing = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn"])
        .arg(file)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start objdump (package binutils): {error}"))?;
    let found = listing
        .stdout
        .take()
        .map(|out| Command::new("grep").args(["-cE", NAMES]).stdin(out).stdout(Stdio::null()).status());
    let listed = listing.wait().map_err(|error| error.to_string())?;
    // grep ends with 1 where it finds nothing.
    let searched = found.ok_or("objdump has no output")?.map_err(|error| format!("cannot start grep: {error}"))?;
    match listed.success() && searched.code().is_some_and(|code| code < 2) {
        true => Ok(start.elapsed().as_nanos() as f64),
        false => Err("objdump or grep failed".to_owned()),
    }
}
