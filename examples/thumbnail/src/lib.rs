//! Makes a picture small that is made of characters: every second one of every second line stays.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;

/// Fills the slot `small` with a quarter of the picture in the slot `picture`.
#[monohull::main]
fn main() -> Result<(), Box<dyn Error>> {
    let picture = SlotString::from_slot("picture")?;
    if picture.trim().is_empty() {
        return Err("the picture is empty".into());
    }
    let mut small = SlotString::with_slot("small");
    for line in picture.lines().step_by(2) {
        small.push_str(&line.chars().step_by(2).collect::<String>());
        small.push_str("\n");
    }
    small.publish()?;
    Ok(())
}
