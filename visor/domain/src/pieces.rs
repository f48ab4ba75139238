//! Parts of the memory that an instance has mapped which are mappings of their own to the kernel: plain data.
//!
//! ```text
//!   area    |           | piece |  piece  |            | piece |      |
//!                       ^       ^         ^            ^       ^           five boundaries, so at most five mappings more
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

/// Why a part is a mapping of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Its pages were moved there.
    Moved,
    /// It may have huge pages. Two of these that touch are one mapping.
    Huge,
}

/// Ranges that do not overlap: start, end and kind. Those that were moved are not joined where they touch.
#[derive(Clone, Default, Debug)]
pub(super) struct Pieces(BTreeMap<u64, (u64, Kind)>);

impl Pieces {
    /// Where mappings may end because of them.
    pub(super) fn boundaries(&self) -> usize {
        2 * self.0.len() - self.ends().filter(|end| self.0.contains_key(end)).count()
    }

    /// How many of these lie inside of a range, and not at its ends.
    pub(super) fn boundaries_inside(&self, range: &Range<u64>) -> usize {
        let inside = |at: &u64| range.start < *at && *at < range.end;
        let starts = self.0.keys().filter(|at| inside(at)).count();
        starts + self.ends().filter(|at| inside(at) && !self.0.contains_key(at)).count()
    }

    fn ends(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.values().map(|(end, _)| *end)
    }

    /// Whether a part of a range belongs to one.
    pub(super) fn overlap(&self, range: &Range<u64>) -> bool {
        self.0.range(..range.end).next_back().is_some_and(|(_, (end, _))| range.start < *end)
    }

    /// A range is one of them now, whatever was there before.
    pub(super) fn insert(&mut self, range: &Range<u64>, kind: Kind) {
        self.remove(range);
        let Range { mut start, mut end } = *range;
        if kind == Kind::Huge {
            if let Some((&before, &(until, Kind::Huge))) = self.0.range(..start).next_back()
                && until == start
            {
                start = before;
            }
            if let Some(&(until, Kind::Huge)) = self.0.get(&end) {
                self.0.remove(&end);
                end = until;
            }
        }
        self.0.insert(start, (end, kind));
    }

    /// A range belongs to none any more.
    pub(super) fn remove(&mut self, range: &Range<u64>) {
        let reaching = self.0.range(..range.end).rev().take_while(|(_, (end, _))| range.start < *end);
        for (start, (end, kind)) in reaching.map(|(start, piece)| (*start, *piece)).collect::<Vec<_>>() {
            self.0.remove(&start);
            for rest in [start..range.start, range.end..end] {
                if rest.start < rest.end {
                    self.0.insert(rest.start, (rest.end, kind));
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

    /// Against a list of pages, each of which has the number of its piece; all huge ones have the same.
    #[test]
    fn boundaries_are_where_neighbours_differ() {
        const PAGES: usize = 64;
        const HUGE: usize = usize::MAX;
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
            let (kind, number) = match next(4) {
                0 => (None, 0),
                1 => (Some(Kind::Moved), step),
                _ => (Some(Kind::Huge), HUGE),
            };
            match kind {
                None => pieces.remove(&range),
                Some(kind) => pieces.insert(&range, kind),
            }
            pages[start..end].fill(number);
            let boundaries = pages.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert_eq!(pieces.boundaries(), boundaries, "step {step}");
        }
        pieces.clear();
        assert_eq!(pieces.boundaries(), 0);
    }
}
