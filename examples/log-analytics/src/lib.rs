//! Web logs in many files become one report. The files are dealt out to the instances of the step `scan`, each of which
//! counts what is in its own and hands the counts on; the step `report` adds them up.
//!
//! ```text
//!   /logs/2026-11-01.log ──▶ scan 0 ──▶ counts.0 ─┐
//!   /logs/2026-11-02.log ──▶ scan 1 ──▶ counts.1 ─┼─▶ report ──▶ /report/summary.txt, slot `report`
//!   /logs/2026-11-03.log ──▶ scan 0               ─┘
//! ```
//!
//! Where `/logs` is, the workflow file says: memory that the step `write` has filled, a disk image, a directory of the
//! host. The code is the same.
#![no_std]
#![deny(unsafe_code)]

mod counts;
mod report;
mod scan;
mod write;

use monohull_std::error::Error;
use monohull_std::prelude::*;

#[monohull::main]
fn main(part: String, files: Option<u32>, lines: Option<u32>) -> Result<(), Box<dyn Error>> {
    match part.as_str() {
        "write" => write::run(files.unwrap_or(12), lines.unwrap_or(500)),
        "scan" => scan::run(),
        "report" => report::run(),
        _ => Err(format!("there is no part `{part}`").into()),
    }
}
