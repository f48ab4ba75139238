//! Puts the texts of all mergers one after the other: slots `text.0`, `text.1`, … become slot `sorted`. The first text's
//! buffer grows to hold them all.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};

#[monohull::main]
fn main() -> Result<(), Box<dyn Error>> {
    let mut texts = SlotBuffer::<[u8]>::take_all("text");
    let mut sorted = SlotVec::from(texts.next().ok_or("there is nothing to join")??);
    let others = texts.collect::<Result<Vec<_>, _>>()?;
    sorted.reserve(others.iter().map(|text| text.len()).sum());
    others.iter().for_each(|text| sorted.extend_from_slice(text));
    sorted.hand_on("sorted")?;
    Ok(())
}
