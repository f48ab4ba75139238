//! Ranks the words of all reducers: slots `sum.0`, `sum.1`, … become slot `counts`, one line `COUNT WORD` per word, most
//! frequent first, equal counts in the order of the words' bytes.
#![no_std]
#![deny(unsafe_code)]

use example_kernels::words::{rank, records, write_lines};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};

#[monohull::main]
fn main() -> Result<(), Box<dyn Error>> {
    let sums = SlotBuffer::<[u8]>::take_all("sum").collect::<Result<Vec<_>, _>>()?;
    let mut ranking = sums.iter().flat_map(|sums| records(sums)).collect::<Result<Vec<_>, _>>()?;
    rank(&mut ranking);
    let mut counts = SlotVec::with_slot("counts");
    write_lines(&ranking, |bytes| counts.extend_from_slice(bytes));
    Ok(())
}
