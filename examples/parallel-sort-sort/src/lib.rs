//! Sorts one part of the numbers and cuts it by value: slot `piece.M.I` goes from sorter I to merger M. A line that is
//! not a number ends the sort with an error that names the line.
//!
//! The first piece stays where the numbers were sorted; only the others are copied.
#![no_std]
#![deny(unsafe_code)]

use example_kernels::sort::{newlines, parse, pieces};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};

#[monohull::main]
fn main() -> Result<(), Box<dyn Error>> {
    let me = monohull::instance().index;
    let text = SlotBuffer::<[u8]>::from_slot(&format!("part.{me}"))?;
    let job = SlotBuffer::<[u64]>::from_slot(&format!("job.{me}"))?;
    let (first_line, cuts) = job.split_first().ok_or("the job is empty")?;
    let name = |merger: usize| format!("piece.{merger}.{me}");

    let lines = newlines(&text) as usize + 1;
    let mut run = SlotVec::<u64>::with_slot_capacity(&name(0), lines);
    parse(&text, *first_line, |value| run.push(value))?;
    run.sort_unstable();
    let ranges: Vec<_> = pieces(&run, cuts).collect();
    for (merger, range) in ranges.iter().enumerate().skip(1) {
        SlotBuffer::with_slot_from(&name(merger), &run[range.clone()]).publish()?;
    }
    run.truncate(ranges[0].end);
    Ok(())
}
