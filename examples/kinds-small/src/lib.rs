//! The first step of `workflows/kinds.json`, on monohull-std: makes a picture in letters, which steps of other kinds draw on.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotError, SlotVec};

#[monohull::main]
fn main(width: usize, height: usize) -> Result<(), SlotError> {
    let mut picture = SlotVec::<u8>::with_slot_capacity("sky", (width + 1) * height);
    for _ in 0..height {
        picture.extend(std::iter::repeat_n(b' ', width));
        picture.push(b'\n');
    }
    SlotBuffer::<[u64; 2]>::with_slot_value("size", [width as u64, height as u64]).publish()?;
    println!("{} bytes at {:p}", picture.len(), picture.as_ptr());
    picture.publish()
}
