//! Word count. A word is a longest run of bytes that are not white space as C's `isspace` has it, so that any bytes
//! will do and `LC_ALL=C tr -s '[:space:]' '\n' | sort | uniq -c` gives the same counts.
//!
//! ```text
//! text ── parts::cut ──▶ part n ── count ──▶ shard m of part n ── merge ──▶ counts of shard m ── ranking ──▶ text
//! ```
//!
//! Counts travel between the stages as records: count (u64), length (u32), the word's bytes; little-endian, packed.

use alloc::vec::Vec;
use core::fmt;
use core::hash::{BuildHasher, Hash};

/// A map from words to how often they occur; std's and hashbrown's are alike but share no trait.
pub trait WordMap<'t> {
    /// Adds `count` to the word's.
    fn add(&mut self, word: &'t [u8], count: u64);
    /// Calls `each` for every word.
    fn for_each(&self, each: impl FnMut(&'t [u8], u64));
    /// Number of words.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'t, S: BuildHasher> WordMap<'t> for hashbrown::HashMap<&'t [u8], u64, S> {
    fn add(&mut self, word: &'t [u8], count: u64) {
        *self.entry(word).or_insert(0) += count;
    }

    fn for_each(&self, mut each: impl FnMut(&'t [u8], u64)) {
        self.iter().for_each(|(word, count)| each(word, *count));
    }

    fn len(&self) -> usize {
        hashbrown::HashMap::len(self)
    }
}

/// White space as C's `isspace` has it in the C locale.
pub const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// Counts the words of `text`.
pub fn count<'t>(text: &'t [u8], map: &mut impl WordMap<'t>) {
    for word in text.split(|&byte| is_space(byte)) {
        if !word.is_empty() {
            map.add(word, 1);
        }
    }
}

/// Which of `shards` a word belongs to: every counter gives the same answer.
pub fn shard(word: &[u8], shards: usize) -> usize {
    /// A hash with a seed of its own: all maps of all instances must agree, whatever seeds they have.
    struct Fnv(u64);
    impl core::hash::Hasher for Fnv {
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        fn finish(&self) -> u64 {
            // The high bits are the well-mixed ones.
            self.0 >> 32
        }
    }
    if shards <= 1 {
        return 0;
    }
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    word.hash(&mut hasher);
    (core::hash::Hasher::finish(&hasher) % shards as u64) as usize
}

/// Bytes of the record of one word.
pub const fn record_len(word: &[u8]) -> usize {
    8 + 4 + word.len()
}

/// Appends the record of one word. Words are shorter than 4 GiB, or they are cut there.
pub fn write_record<E>(word: &[u8], count: u64, mut append: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let len = u32::try_from(word.len()).unwrap_or(u32::MAX);
    append(&count.to_le_bytes())?;
    append(&len.to_le_bytes())?;
    append(&word[..len as usize])
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

/// Adds all words of `records` to `map`.
pub fn merge<'t>(mut records: &'t [u8], map: &mut impl WordMap<'t>) -> Result<(), CutRecord> {
    while let Some((word, count, rest)) = next_record(records)? {
        map.add(word, count);
        records = rest;
    }
    Ok(())
}

/// The first record and what follows it.
#[expect(clippy::type_complexity, reason = "three parts of one record, used once")]
fn next_record(records: &[u8]) -> Result<Option<(&[u8], u64, &[u8])>, CutRecord> {
    if records.is_empty() {
        return Ok(None);
    }
    let (count, rest) = records.split_first_chunk::<8>().ok_or(CutRecord)?;
    let (len, rest) = rest.split_first_chunk::<4>().ok_or(CutRecord)?;
    let (word, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or(CutRecord)?;
    Ok(Some((word, u64::from_le_bytes(*count), rest)))
}

/// Words by count, most frequent first, equal counts in the order of their bytes. No word may occur twice.
pub fn ranking<'t>(records: impl IntoIterator<Item = &'t [u8]>) -> Result<Vec<(u64, &'t [u8])>, CutRecord> {
    let mut words = Vec::new();
    for mut records in records {
        while let Some((word, count, rest)) = next_record(records)? {
            words.push((count, word));
            records = rest;
        }
    }
    rank(&mut words);
    Ok(words)
}

/// Sorts words by count, most frequent first, equal counts in the order of their bytes.
pub fn rank(words: &mut [(u64, &[u8])]) {
    words.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
}

/// Appends one line per word: the count, a space, the word.
pub fn write_lines<E>(ranking: &[(u64, &[u8])], mut append: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    for (count, word) in ranking {
        let mut digits = [0; crate::sort::DIGITS];
        append(crate::sort::decimal(*count, &mut digits))?;
        append(b" ")?;
        append(word)?;
        append(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;

    type Map<'t> = hashbrown::HashMap<&'t [u8], u64, core::hash::BuildHasherDefault<Dull>>;

    /// Any hasher will do for a test.
    #[derive(Default)]
    struct Dull(u64);
    impl core::hash::Hasher for Dull {
        fn write(&mut self, bytes: &[u8]) {
            bytes.iter().for_each(|byte| self.0 = self.0.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        }
        fn finish(&self) -> u64 {
            self.0
        }
    }

    fn to_vec(write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), Infallible>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        });
        out
    }

    #[test]
    fn counts_merges_and_ranks() {
        let text = b" b a\tb\n\n\xff\0 a\x0bb\r";
        let mut map = Map::default();
        count(text, &mut map);
        let records = to_vec(|append| map.for_each(|word, count| write_record(word, count, &mut *append).unwrap()));
        let mut twice = Map::default();
        merge(&records, &mut twice).unwrap();
        merge(&records, &mut twice).unwrap();
        let records = to_vec(|append| twice.for_each(|word, count| write_record(word, count, &mut *append).unwrap()));
        let ranked = ranking([&records[..]]).unwrap();
        let lines = to_vec(|append| write_lines(&ranked, append).unwrap());
        assert_eq!(lines, b"6 b\n4 a\n2 \xff\0\n");
    }

    #[test]
    fn a_cut_record_is_an_error() {
        let record = to_vec(|append| write_record(b"word", 7, append).unwrap());
        assert_eq!(record.len(), record_len(b"word"));
        for len in 1..record.len() {
            assert_eq!(merge(&record[..len], &mut Map::default()), Err(CutRecord), "{len} bytes");
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
