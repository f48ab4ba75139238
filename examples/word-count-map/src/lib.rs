//! Counts the words of one part of the text, and sends each count to the reducer its word belongs to: slot
//! `count.R.I` goes from mapper I to reducer R.
#![no_std]
#![deny(unsafe_code)]

use example_kernels::words::{shard, words, write_record};
use monohull_std::collections::HashMap;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotError, SlotVec};

#[monohull::main]
fn main(shards: usize) -> Result<(), SlotError> {
    let me = monohull::instance().index;
    let text = SlotBuffer::<[u8]>::from_slot(&format!("part.{me}"))?;
    let mut counts = HashMap::<&[u8], u64>::new();
    for word in words(&text) {
        *counts.entry(word).or_insert(0) += 1;
    }
    let mut outputs: Vec<_> = (0..shards).map(|reducer| SlotVec::with_slot(&format!("count.{reducer}.{me}"))).collect();
    for (word, count) in &counts {
        let output = &mut outputs[shard(word, shards)];
        write_record(word, *count, |bytes| output.extend_from_slice(bytes));
    }
    Ok(())
}
