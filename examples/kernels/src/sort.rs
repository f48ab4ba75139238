//! Sorting lines of whole numbers, 0 to 2^64-1, as `sort -n` does.
//!
//! ```text
//! text ─ parts::cut ─▶ part n ─ parse, sort ─▶ run n ─ cut by value ─▶ piece m of run n ─ merge, format ─▶ text m
//! ```
//!
//! Where the runs are cut is decided on a sample of the text before anything is sorted, so that the merged texts only
//! have to be put one after the other.

use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use core::ops::Range;

/// Most decimal digits of a u64.
pub const DIGITS: usize = 20;
/// How many lines of the sample stand behind each cut.
const SAMPLES_PER_CUT: usize = 64;

/// A line that is not a whole number below 2^64.
#[derive(Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Which line, from 1.
    pub line: u64,
    /// Its first bytes, readable.
    pub text: alloc::string::String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is not a whole number from 0 to 18446744073709551615: \"{}\"", self.line, self.text)
    }
}

/// A program that ends with this error shows its `Debug`: the sentence.
impl fmt::Debug for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for BadLine {}

/// Number of newlines.
pub fn newlines(text: &[u8]) -> u64 {
    // Sums of bytes in short chunks: the compiler makes vector code of it.
    text.chunks(192).map(|chunk| u64::from(chunk.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>())).sum()
}

/// The number of the first line of each part of `text`, from 1.
pub fn first_lines(text: &[u8], parts: &[Range<usize>]) -> Vec<u64> {
    let mut line = 1;
    let mut first_lines = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter().enumerate() {
        first_lines.push(line);
        // The end of the last part is not needed.
        if index + 1 < parts.len() {
            line += newlines(&text[part.clone()]);
        }
    }
    first_lines
}

/// Parses one number per line; the last line may lack its newline. `first_line` is the number of the first line.
pub fn parse(text: &[u8], first_line: u64, mut push: impl FnMut(u64)) -> Result<(), BadLine> {
    if text.is_empty() {
        return Ok(());
    }
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        match number(line) {
            Some(value) => push(value),
            None => {
                let shown = &line[..line.len().min(40)];
                let text = shown.escape_ascii().map(char::from).collect();
                return Err(BadLine { line: first_line + index as u64, text });
            }
        }
    }
    Ok(())
}

/// The number a line holds.
fn number(line: &[u8]) -> Option<u64> {
    let fits_surely = line.len() < DIGITS;
    if line.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for &byte in line {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = match fits_surely {
            true => value * 10 + u64::from(digit),
            false => value.checked_mul(10)?.checked_add(u64::from(digit))?,
        };
    }
    Some(value)
}

/// Where to cut runs into `pieces` of about the same size: `pieces - 1` values, ascending. Value `cuts[i]` and all
/// above it belong to pieces after `i`. Lines that are no numbers are passed over; the sorters will complain.
pub fn cuts(text: &[u8], pieces: usize) -> Vec<u64> {
    let wanted = pieces.saturating_sub(1);
    if wanted == 0 {
        return Vec::new();
    }
    let mut sample = Vec::with_capacity(wanted * SAMPLES_PER_CUT);
    let step = (text.len() / (pieces * SAMPLES_PER_CUT)).max(1);
    for start in (0..text.len()).step_by(step) {
        // The line after the one we fell into; a longer line than two numbers is none.
        let near = &text[start..text.len().min(start + 2 * DIGITS + 2)];
        sample.extend(near.split(|&byte| byte == b'\n').nth(1).and_then(number));
    }
    sample.sort_unstable();
    (1..pieces).map(|cut| sample.get(sample.len() * cut / pieces).copied().unwrap_or(u64::MAX)).collect()
}

/// Cuts a sorted run into `cuts.len() + 1` pieces.
pub fn pieces(run: &[u64], cuts: &[u64]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    (0..=cuts.len()).map(move |piece| {
        let end = match cuts.get(piece) {
            Some(cut) => start + run[start..].partition_point(|value| value < cut),
            None => run.len(),
        };
        let range = start..end;
        start = end;
        range
    })
}

/// Merges sorted runs; calls `each` with every number in ascending order.
pub fn merge(runs: &[&[u64]], mut each: impl FnMut(u64)) {
    match runs {
        [run] => run.iter().copied().for_each(each),
        [a, b] => merge_two(a, b, each),
        _ => {
            // The next number of every run, its run, and where it stands there.
            let firsts =
                runs.iter().enumerate().filter_map(|(run, numbers)| Some(Reverse((*numbers.first()?, run, 0))));
            let mut heap: BinaryHeap<Reverse<(u64, usize, usize)>> = firsts.collect();
            while let Some(mut top) = heap.peek_mut() {
                let (value, run, at) = top.0;
                each(value);
                match runs[run].get(at + 1) {
                    Some(next) => top.0 = (*next, run, at + 1),
                    None => drop(PeekMut::pop(top)),
                }
            }
        }
    }
}

/// The common case, without a heap.
fn merge_two(mut a: &[u64], mut b: &[u64], mut each: impl FnMut(u64)) {
    while let ([x, rest_a @ ..], [y, rest_b @ ..]) = (a, b) {
        if x <= y {
            each(*x);
            a = rest_a;
        } else {
            each(*y);
            b = rest_b;
        }
    }
    a.iter().chain(b).copied().for_each(each);
}

/// Writes `value` in decimal to the end of `digits`; returns what it wrote.
pub fn decimal(mut value: u64, digits: &mut [u8; DIGITS]) -> &[u8] {
    let mut start = DIGITS;
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[start..];
        }
    }
}

/// The line of one number, newline included; `line` is room for it.
pub fn line(value: u64, line: &mut [u8; DIGITS + 1]) -> &[u8] {
    let mut digits = [0; DIGITS];
    let len = decimal(value, &mut digits).len();
    line[..DIGITS].copy_from_slice(&digits);
    line[DIGITS] = b'\n';
    &line[DIGITS - len..]
}

/// Bytes of the lines of a sorted run: numbers of one length lie together.
pub fn text_len(run: &[u64]) -> usize {
    let longer =
        |digits: u32| 10u64.checked_pow(digits).map_or(0, |power| run.len() - run.partition_point(|n| *n < power));
    // A newline and a digit each, and one more for every power of ten that is reached.
    2 * run.len() + (1..=DIGITS as u32).map(longer).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    fn parsed(text: &[u8]) -> Result<Vec<u64>, BadLine> {
        let mut numbers = Vec::new();
        parse(text, 1, |value| numbers.push(value))?;
        Ok(numbers)
    }

    #[test]
    fn parses_lines() {
        assert_eq!(parsed(b""), Ok(vec![]));
        assert_eq!(parsed(b"7"), Ok(vec![7]));
        assert_eq!(parsed(b"007\n0\n18446744073709551615\n"), Ok(vec![7, 0, u64::MAX]));
        assert_eq!(parsed(b"000000000000000000000000012\n"), Ok(vec![12]));
    }

    #[test]
    fn names_the_bad_line() {
        for (text, line) in [
            (&b"1\n2\nx\n"[..], 3),
            (b"\n", 1),
            (b"1\n\n2\n", 2),
            (b"1\n2 \n", 2),
            (b"-1", 1),
            (b"1\n18446744073709551616\n", 2),
            (b"1\n\0\n", 2),
        ] {
            assert_eq!(parsed(text).unwrap_err().line, line, "{text:?}");
        }
        assert!(parsed(b"1\n\xffz").unwrap_err().to_string().contains("line 2 is not"), "readable");
    }

    #[test]
    fn counts_newlines_beyond_one_chunk() {
        let text = vec![b'\n'; 1000];
        assert_eq!(newlines(&text), 1000);
        assert_eq!(newlines(b"a\nb"), 1);
    }

    #[test]
    fn knows_where_parts_begin() {
        let text = b"1\n2\n3\n4\n";
        assert_eq!(first_lines(text, &crate::parts::cut(text, 2, |byte| byte == b'\n')), [1, 3]);
    }

    #[test]
    fn cut_runs_merge_to_the_sorted_whole() {
        let numbers: Vec<u64> = (0..3000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect();
        let text: alloc::string::String = numbers.iter().map(|n| alloc::format!("{n}\n")).collect();
        for (sorters, mergers) in [(1, 1), (2, 1), (1, 3), (2, 2), (5, 4)] {
            let cuts = cuts(text.as_bytes(), mergers);
            assert_eq!(cuts.len(), mergers - 1);
            let runs: Vec<Vec<u64>> = crate::parts::cut(text.as_bytes(), sorters, |byte| byte == b'\n')
                .into_iter()
                .map(|part| {
                    let mut run = parsed(&text.as_bytes()[part]).unwrap();
                    run.sort_unstable();
                    run
                })
                .collect();
            let mut all = Vec::new();
            for merger in 0..mergers {
                let inputs: Vec<&[u64]> =
                    runs.iter().map(|run| &run[pieces(run, &cuts).nth(merger).unwrap()]).collect();
                merge(&inputs, |value| all.push(value));
            }
            let mut expected = numbers.clone();
            expected.sort_unstable();
            assert_eq!(all, expected, "{sorters} sorters, {mergers} mergers");
        }
    }

    #[test]
    fn text_is_as_long_as_foretold() {
        let run = [0, 0, 9, 10, 99, 100, 12_345, 9_999_999_999_999_999_999, 10_000_000_000_000_000_000, u64::MAX];
        let text: alloc::string::String = run.iter().map(|n| alloc::format!("{n}\n")).collect();
        assert_eq!(text_len(&run), text.len());
        assert_eq!(text_len(&[]), 0);
    }

    #[test]
    fn formats_numbers() {
        for value in [0, 9, 10, 1234567890, u64::MAX] {
            assert_eq!(line(value, &mut [0; DIGITS + 1]), alloc::format!("{value}\n").as_bytes());
        }
    }
}
