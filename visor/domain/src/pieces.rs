//! Parts of the memory that an instance has mapped which are mappings of their own to the kernel: plain data.
//!
//! ```text
//!   area    |           | piece |  piece  |            | piece |      |
//!                       ^       ^         ^            ^       ^           five boundaries, so at most five mappings more
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that do not overlap, and are not joined where they touch: end by start.
#[derive(Clone, Default, Debug)]
pub(super) struct Pieces(BTreeMap<u64, u64>);

impl Pieces {
    /// Where mappings may end because of them.
    pub(super) fn boundaries(&self) -> usize {
        2 * self.0.len() - self.0.values().filter(|end| self.0.contains_key(end)).count()
    }

    /// How many of these lie inside of a range, and not at its ends.
    pub(super) fn boundaries_inside(&self, range: &Range<u64>) -> usize {
        let inside = |at: &u64| range.start < *at && *at < range.end;
        let starts = self.0.keys().filter(|at| inside(at)).count();
        starts + self.0.values().filter(|at| inside(at) && !self.0.contains_key(at)).count()
    }

    /// Whether a part of a range belongs to one.
    pub(super) fn overlap(&self, range: &Range<u64>) -> bool {
        self.0.range(..range.end).next_back().is_some_and(|(_, end)| range.start < *end)
    }

    /// A range is one of them now, whatever was there before.
    pub(super) fn insert(&mut self, range: &Range<u64>) {
        self.remove(range);
        self.0.insert(range.start, range.end);
    }

    /// A range belongs to none any more.
    pub(super) fn remove(&mut self, range: &Range<u64>) {
        let reaching = self.0.range(..range.end).rev().take_while(|(_, end)| range.start < **end);
        for (start, end) in reaching.map(|(start, end)| (*start, *end)).collect::<Vec<_>>() {
            self.0.remove(&start);
            for rest in [start..range.start, range.end..end] {
                if rest.start < rest.end {
                    self.0.insert(rest.start, rest.end);
                }
            }
        }
    }

    /// There are none any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a list of pages, each of which has the number of its piece.
    #[test]
    fn boundaries_are_where_neighbours_differ() {
        const PAGES: usize = 64;
        let mut pieces = Pieces::default();
        let mut pages = [0; PAGES];
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize % below
        };
        for step in 1..4000 {
            let start = 1 + next(PAGES - 3);
            let end = start + 1 + next(PAGES - 1 - start);
            let range = start as u64..end as u64;
            assert_eq!(pieces.overlap(&range), pages[start..end].iter().any(|piece| *piece != 0));
            let inside = pages[start..end].windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert_eq!(pieces.boundaries_inside(&range), inside);
            if next(3) == 0 {
                pieces.remove(&range);
                pages[start..end].fill(0);
            } else {
                pieces.insert(&range);
                pages[start..end].fill(step);
            }
            let boundaries = pages.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert_eq!(pieces.boundaries(), boundaries, "step {step}");
        }
        pieces.clear();
        assert_eq!(pieces.boundaries(), 0);
    }
}
