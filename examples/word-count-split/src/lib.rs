//! Cuts the text in slot `text` into `parts` parts at word borders: slots `part.0`, `part.1`, …
//!
//! The first part stays where it is, in the text's own buffer; only the others are copied.
#![no_std]
#![deny(unsafe_code)]

use example_kernels::parts::cut;
use example_kernels::words::is_space;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotError, SlotVec, indexed_name};

#[monohull::main]
fn main(parts: usize) -> Result<(), SlotError> {
    let mut text = SlotVec::<u8>::from_slot("text")?;
    let ranges = cut(&text, parts, is_space);
    for (index, range) in ranges.iter().enumerate().skip(1) {
        SlotBuffer::with_slot_from(&indexed_name("part", index), &text[range.clone()]).publish()?;
    }
    text.truncate(ranges[0].end);
    text.hand_on("part.0")
}
