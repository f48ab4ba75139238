//! Where functions begin and end, from the table that unwinding uses. Unlike symbols it is in memory, and stripping
//! does not change it.
//!
//! ```text
//!  .eh_frame_hdr   version 1, three encodings │ .eh_frame │ count │ (function, entry) (function, entry) …  sorted
//!  .eh_frame       entry: length │ to its common part │ function │ size │ …
//! ```

use super::code::{self, Object};
use std::ops::Range;

/// The only encodings that linkers use (see the Linux Standard Base, "DWARF Exception Header Encoding"): the count is
/// an unsigned word, the table's words are relative to its header.
const VERSION: u8 = 1;
const COUNT: u8 = 0x03;
const TABLE: u8 = 0x3b;
/// Header and count.
const FIRST: usize = 12;
/// One pair of the table.
const PAIR: usize = 8;
/// From an entry's start to its address of the function.
const FUNCTION: u64 = 8;

/// The function that an address lies in, if the object's table knows it.
pub(super) fn around(object: &Object, address: u64) -> Option<Range<u64>> {
    let header = object.unwind_table.clone().filter(|table| within(object, table))?;
    // SAFETY: a segment of a loaded object, read-only; the set of objects does not change now.
    let table = unsafe { code::bytes(&header) };
    let &[VERSION, _, COUNT, TABLE, ..] = table else { return None };
    let count = word(table, FIRST - 4)? as u32 as usize;
    let pairs = table.get(FIRST..FIRST.checked_add(count.checked_mul(PAIR)?)?)?;
    let place = |index: usize| word(pairs, index * PAIR).map(|distance| header.start.wrapping_add_signed(distance));
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if place(middle)? <= address { low = middle + 1 } else { high = middle }
    }
    let index = low.checked_sub(1)?;
    let start = place(index)?;
    let entry = header.start.wrapping_add_signed(word(pairs, index * PAIR + 4)?);
    let entry = entry..entry.checked_add(16)?;
    if !within(object, &entry) {
        return None;
    }
    // SAFETY: as above.
    let fields = unsafe { code::bytes(&entry) };
    // The entry must agree: then its numbers have the usual encoding, and its size can be read too.
    let same = (entry.start + FUNCTION).wrapping_add_signed(word(fields, FUNCTION as usize)?) == start;
    let end = start + u64::from(word(fields, 12)? as u32);
    (same && address < end).then_some(start..end)
}

fn within(object: &Object, range: &Range<u64>) -> bool {
    range.start <= range.end && object.span.start <= range.start && range.end <= object.span.end
}

/// A signed word.
fn word(bytes: &[u8], at: usize) -> Option<i64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(i64::from(i32::from_le_bytes(*bytes)))
}
