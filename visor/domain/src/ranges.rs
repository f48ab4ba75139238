//! Ranges of addresses as a list: plain data.

use std::ops::Range;

/// The same addresses as few ranges: ascending, with gaps between them.
pub fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// How many addresses they have.
pub(crate) fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Whether an address lies in one of these, which are [`joined`].
pub(crate) fn contain(ranges: &[Range<u64>], address: u64) -> bool {
    let next = ranges.partition_point(|range| range.end <= address);
    ranges.get(next).is_some_and(|range| range.start <= address)
}
