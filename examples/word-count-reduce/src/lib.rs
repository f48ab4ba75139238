//! Adds up what all mappers have counted of one reducer's words: slots `count.R.0`, `count.R.1`, … become slot `sum.R`.
#![no_std]
#![deny(unsafe_code)]

use example_kernels::words::{records, write_record};
use monohull_std::collections::HashMap;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};

#[monohull::main]
fn main() -> Result<(), Box<dyn Error>> {
    let me = monohull::instance().index;
    let counts = SlotBuffer::<[u8]>::take_all(&format!("count.{me}")).collect::<Result<Vec<_>, _>>()?;
    let mut sums = HashMap::<&[u8], u64>::new();
    for record in counts.iter().flat_map(|counts| records(counts)) {
        let (count, word) = record?;
        *sums.entry(word).or_insert(0) += count;
    }
    let mut output = SlotVec::with_slot(&format!("sum.{me}"));
    for (word, sum) in &sums {
        write_record(word, *sum, |bytes| output.extend_from_slice(bytes));
    }
    Ok(())
}
