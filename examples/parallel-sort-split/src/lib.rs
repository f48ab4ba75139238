//! Cuts the lines in slot `lines` into `parts` parts, one per sorter, and decides on a sample where values are cut into
//! `pieces`, one per merger. Sorter I gets its lines in slot `part.I` and the rest of its job in slot `job.I`.
//!
//! The first part stays where it is, in the text's own buffer; only the others are copied.
#![no_std]
#![deny(unsafe_code)]

use example_kernels::parts::cut;
use example_kernels::sort::{cuts, first_lines};
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotError, SlotVec, indexed_name};

#[monohull::main]
fn main(parts: usize, pieces: usize) -> Result<(), SlotError> {
    let mut text = SlotVec::<u8>::from_slot("lines")?;
    let ranges = cut(&text, parts, |byte| byte == b'\n');
    let cuts = cuts(&text, pieces);
    for (index, first_line) in first_lines(&text, &ranges).into_iter().enumerate() {
        // The number of the part's first line, then the values to cut at.
        let mut job = SlotVec::<u64>::with_slot(&indexed_name("job", index));
        job.push(first_line);
        job.extend_from_slice(&cuts);
    }
    for (index, range) in ranges.iter().enumerate().skip(1) {
        SlotBuffer::with_slot_from(&indexed_name("part", index), &text[range.clone()]).publish()?;
    }
    text.truncate(ranges[0].end);
    text.hand_on("part.0")
}
