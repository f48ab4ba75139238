//! Word count. A word is a longest run of bytes that are not white space as C's `isspace` has it, so that any bytes
//! will do and `LC_ALL=C tr -s '[:space:]' '\n' | sort | uniq -c` gives the same counts.
//!
//! ```text
//! text ── parts::cut ──▶ part n ── words ──▶ shard m of part n ── records ──▶ sums of shard m ── rank ──▶ lines
//! ```
//!
//! Which map counts the words is the caller's choice.
//! Counts travel between the stages as records: count (u64), length (u32), the word's bytes; little-endian, packed.

use crate::sort::{DIGITS, decimal};
use core::fmt;

/// White space as C's `isspace` has it in the C locale.
pub const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// The words of `text`.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| is_space(byte)).filter(|word| !word.is_empty())
}

/// Which of `shards` a word belongs to: every counter gives the same answer.
pub fn shard(word: &[u8], shards: usize) -> usize {
    if shards <= 1 {
        return 0;
    }
    // FNV-1a rather than a map's hasher, whose seed is its own. The high bits are the well-mixed ones.
    let hash = word
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    ((hash >> 32) % shards as u64) as usize
}

/// Appends the record of one word. Words are shorter than 4 GiB, or they are cut there.
pub fn write_record(word: &[u8], count: u64, mut append: impl FnMut(&[u8])) {
    let len = u32::try_from(word.len()).unwrap_or(u32::MAX);
    append(&count.to_le_bytes());
    append(&len.to_le_bytes());
    append(&word[..len as usize]);
}

/// The records end in the middle of one: they were not written by [`write_record`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutRecord;

impl fmt::Display for CutRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a count record is cut short")
    }
}

impl core::error::Error for CutRecord {}

/// Reads what [`write_record`] has written: counts and words. Ends after the first error.
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u64, &[u8]), CutRecord>> {
    core::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let record = first_record(bytes).ok_or(CutRecord);
        bytes = record.map_or(&[], |(_, _, rest)| rest);
        Some(record.map(|(count, word, _)| (count, word)))
    })
}

/// Count and word of the first record, and what follows it.
fn first_record(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (count, rest) = bytes.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (word, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some((u64::from_le_bytes(*count), word, rest))
}

/// Sorts words by count, most frequent first, equal counts in the order of their bytes.
pub fn rank(words: &mut [(u64, &[u8])]) {
    words.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
}

/// Appends one line per word: the count, a space, the word.
pub fn write_lines(ranking: &[(u64, &[u8])], mut append: impl FnMut(&[u8])) {
    for (count, word) in ranking {
        append(decimal(*count, &mut [0; DIGITS]));
        append(b" ");
        append(word);
        append(b"\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    fn to_vec(write: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut |bytes| out.extend_from_slice(bytes));
        out
    }

    #[test]
    fn counts_travel_and_are_ranked() {
        let text = b" b a\tb\n\n\xff\0 a\x0bb\r";
        let mut counts = BTreeMap::new();
        words(text).for_each(|word| *counts.entry(word).or_insert(0) += 1);
        let bytes = to_vec(|append| counts.iter().for_each(|(word, count)| write_record(word, *count, &mut *append)));
        let mut ranking = records(&bytes).collect::<Result<Vec<_>, _>>().unwrap();
        rank(&mut ranking);
        let lines = to_vec(|append| write_lines(&ranking, append));
        assert_eq!(lines, b"3 b\n2 a\n1 \xff\0\n");
    }

    #[test]
    fn a_cut_record_is_an_error() {
        let record = to_vec(|append| write_record(b"word", 7, append));
        for len in 1..record.len() {
            assert!(records(&record[..len]).eq([Err(CutRecord)]), "{len} bytes");
        }
    }

    #[test]
    fn shards_are_in_range_and_all_used() {
        let mut used = [false; 5];
        for n in 0u32..200 {
            used[shard(&n.to_le_bytes(), 5)] = true;
        }
        assert_eq!(used, [true; 5]);
        assert_eq!(shard(b"x", 1), 0);
    }
}
