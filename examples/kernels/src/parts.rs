//! Cuts a text into parts of about the same size without cutting a word or a line in two.

use alloc::vec::Vec;
use core::ops::Range;

/// Cuts `text` into exactly `count` ranges, in order, that together cover it. A cut is made only behind a byte that
/// `is_border` accepts; where there are fewer borders than parts, some parts are empty.
pub fn cut(text: &[u8], count: usize, is_border: impl Fn(u8) -> bool) -> Vec<Range<usize>> {
    let count = count.max(1);
    let mut parts = Vec::with_capacity(count);
    let mut start = 0;
    for part in 1..=count {
        // 128 bits: the product may exceed 64.
        let ideal = (text.len() as u128 * part as u128 / count as u128) as usize;
        let end = match part == count {
            true => text.len(),
            // The byte before the ideal cut may itself be the border.
            false => {
                let from = ideal.max(start + 1) - 1;
                text[from.min(text.len())..]
                    .iter()
                    .position(|&byte| is_border(byte))
                    .map_or(text.len(), |offset| from + offset + 1)
            }
        };
        parts.push(start..end);
        start = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newline(byte: u8) -> bool {
        byte == b'\n'
    }

    #[test]
    fn covers_everything_and_cuts_at_borders() {
        let text = b"one\ntwo\nthree\n\nfour";
        for count in 1..30 {
            let parts = cut(text, count, newline);
            assert_eq!(parts.len(), count);
            assert_eq!((parts[0].start, parts[count - 1].end), (0, text.len()));
            for pair in parts.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
                let end = pair[0].end;
                assert!(end == 0 || end == text.len() || text[end - 1] == b'\n', "{count} parts, cut at {end}");
            }
        }
    }

    #[test]
    fn nothing_to_cut() {
        assert_eq!(cut(b"", 3, newline), [0..0, 0..0, 0..0]);
        assert_eq!(cut(b"abc", 2, newline), [0..3, 3..3]);
        assert_eq!(cut(b"\n", 2, newline), [0..1, 1..1]);
    }
}
