//! A step of `workflows/kinds.json`, on Rust's own std: draws waves on a picture that comes in a slot, in the memory of that slot.
#![deny(unsafe_code)]

use std::collections::HashMap;
use std::error::Error;
use std::io::Write;
use std::thread;

use monohull::slot::{SlotBuffer, SlotVec};

#[monohull::main]
fn main(level: usize) -> Result<(), Box<dyn Error>> {
    let mut picture = SlotVec::<u8>::from_slot("sky")?;
    let at = picture.as_ptr();
    let [width, height] = *SlotBuffer::<[u64; 2]>::from_slot("size")?;
    // Each line has an end.
    let line = width as usize + 1;
    let (_, sea) = picture.split_at_mut_checked(level * line).ok_or("the sea is below the picture")?;
    // Threads share the slot's memory.
    thread::scope(|scope| {
        for (row, line) in sea.chunks_mut(line).enumerate() {
            scope.spawn(move || draw(row, line));
        }
    });

    let mut counts = HashMap::<u8, u64>::new();
    picture.iter().for_each(|&byte| *counts.entry(byte).or_default() += 1);
    let waves = counts.get(&b'~').copied().unwrap_or_default();
    // A text that is written as into a file.
    let mut legend = SlotVec::<u8>::with_slot("legend");
    writeln!(legend, "{waves} of {} letters are waves", width * height)?;
    legend.publish()?;
    println!("{} bytes at {at:p}", picture.len());
    Ok(picture.hand_on("sea")?)
}

/// Lines move against each other.
fn draw(row: usize, line: &mut [u8]) {
    let Some((_, letters)) = line.split_last_mut() else { return };
    for (column, letter) in letters.iter_mut().enumerate() {
        if (column + 2 * row) % 4 < 2 {
            *letter = b'~';
        }
    }
}
