//! Merges what all sorters have of one range of values, and writes it down: slots `piece.M.0`, `piece.M.1`, … become
//! slot `text.M`.
#![no_std]
#![deny(unsafe_code)]

use example_kernels::sort::{DIGITS, line, merge, text_len};
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotError, SlotVec};

#[monohull::main]
fn main() -> Result<(), SlotError> {
    let me = monohull::instance().index;
    let pieces = SlotBuffer::<[u64]>::take_all(&format!("piece.{me}")).collect::<Result<Vec<_>, _>>()?;
    let runs: Vec<&[u64]> = pieces.iter().map(|piece| &piece[..]).collect();
    let len = runs.iter().map(|run| text_len(run)).sum();
    let mut text = SlotVec::with_slot_capacity(&format!("text.{me}"), len);
    merge(&runs, |value| text.extend_from_slice(line(value, &mut [0; DIGITS + 1])));
    Ok(())
}
