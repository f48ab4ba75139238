//! Which addresses of a cell an instance has mapped, and what each may be used for: plain data.
//!
//! ```text
//!   0x…1000       0x…5000      0x…6000                 0x…9000       0x…a000
//!   | Reserved    | ReadWrite  | Reserved              | (free)      | Read …
//! ```
//!
//! Neighbouring pages of one state are one range, so the number of ranges is also the number of the kernel's mappings behind them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// The state of mapped pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RangeState {
    /// Not accessible, and no memory behind it. Costs nothing.
    Reserved,
    /// Not accessible; what it holds is kept, so it is charged.
    Hidden,
    /// Readable, and charged.
    Read,
    /// Readable and writable, and charged.
    ReadWrite,
}

impl RangeState {
    /// Whether such pages are charged to the instance.
    pub(crate) fn is_charged(self) -> bool {
        self != RangeState::Reserved
    }
}

/// The mapped ranges of one instance.
#[derive(Default, Debug)]
pub(crate) struct MappedRanges {
    /// End and state, by start. They do not overlap, and neighbours that touch differ in their states.
    by_start: BTreeMap<u64, (u64, RangeState)>,
}

impl MappedRanges {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_start.len()
    }

    /// All of them, upwards.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Range<u64>, RangeState)> + '_ {
        self.by_start.iter().map(|(start, (end, state))| (*start..*end, *state))
    }

    /// The range around an address.
    pub(crate) fn around(&self, address: u64) -> Option<(Range<u64>, RangeState)> {
        let (start, (end, state)) = self.by_start.range(..=address).next_back()?;
        (address < *end).then_some((*start..*end, *state))
    }

    /// The parts of `range` that are mapped, upwards.
    pub(crate) fn within(&self, range: &Range<u64>) -> Vec<(Range<u64>, RangeState)> {
        let first = self.around(range.start).map_or(range.start, |(first, _)| first.start);
        let overlapping = self.by_start.range(first..range.end.max(first));
        overlapping.map(|(start, (end, state))| ((*start).max(range.start)..(*end).min(range.end), *state)).collect()
    }

    /// Whether `range` is not empty and mapped from its start to its end.
    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        let mut reached = range.start;
        while reached < range.end {
            match self.around(reached) {
                Some((found, _)) => reached = found.end,
                None => return false,
            }
        }
        range.start < range.end
    }

    /// The highest free place for `size` bytes inside `room`.
    pub(crate) fn find_room(&self, size: u64, align: u64, room: &Range<u64>) -> Option<u64> {
        let fits = |free: Range<u64>| {
            let start = free.end.checked_sub(size)? & !(align - 1);
            (start >= free.start.max(room.start)).then_some(start)
        };
        let mut end = room.end;
        for (range, _) in self.iter().rev() {
            if let Some(start) = fits(range.end..end) {
                return Some(start);
            }
            end = range.start;
        }
        fits(room.start..end)
    }

    /// Gives all of `range` this state, whatever it was before; `None` frees it.
    pub(crate) fn set(&mut self, range: Range<u64>, state: Option<RangeState>) {
        self.split(range.start);
        self.split(range.end);
        while let Some((start, _)) = self.by_start.range(range.clone()).next() {
            let start = *start;
            self.by_start.remove(&start);
        }
        let Some(state) = state else { return };
        let mut merged = range;
        if let Some((before, _)) =
            merged.start.checked_sub(1).and_then(|last| self.around(last)).filter(|b| b.1 == state)
        {
            self.by_start.remove(&before.start);
            merged.start = before.start;
        }
        if let Some((behind, _)) = self.around(merged.end).filter(|b| b.1 == state) {
            self.by_start.remove(&behind.start);
            merged.end = behind.end;
        }
        self.by_start.insert(merged.start, (merged.end, state));
    }

    /// Makes two ranges of the one around an address, the second of which begins there.
    fn split(&mut self, address: u64) {
        if let Some((around, state)) = self.around(address).filter(|(around, _)| around.start < address) {
            self.by_start.insert(around.start, (address, state));
            self.by_start.insert(address, (around.end, state));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RangeState::{Hidden, Read, ReadWrite, Reserved};
    use super::*;

    #[test]
    fn neighbours_of_one_state_are_one_range() {
        let mut ranges = MappedRanges::default();
        ranges.set(10..20, Some(Reserved));
        ranges.set(12..14, Some(ReadWrite));
        ranges.set(14..16, Some(ReadWrite));
        let all: Vec<_> = ranges.iter().collect();
        assert_eq!(all, [(10..12, Reserved), (12..16, ReadWrite), (16..20, Reserved)]);
        ranges.set(12..16, Some(Reserved));
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(10..20, Reserved)]);
        ranges.set(0..10, Some(Reserved));
        ranges.set(20..30, Some(Read));
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(0..20, Reserved), (20..30, Read)]);
    }

    #[test]
    fn a_range_is_covered_if_no_page_of_it_is_free() {
        let mut ranges = MappedRanges::default();
        ranges.set(10..20, Some(Read));
        ranges.set(20..30, Some(Hidden));
        ranges.set(31..40, Some(Read));
        for (range, covered) in [
            (10..30, true),
            (15..25, true),
            (9..12, false),
            (25..31, false),
            (30..31, false),
            (10..41, false),
            (12..12, false),
        ] {
            assert_eq!(ranges.covers(&range), covered, "{range:?}");
        }
        assert_eq!(ranges.within(&(15..35)), [(15..20, Read), (20..30, Hidden), (31..35, Read)]);
        assert_eq!(ranges.within(&(40..90)), []);
    }

    #[test]
    fn room_is_found_from_the_top() {
        let mut ranges = MappedRanges::default();
        assert_eq!(ranges.find_room(10, 1, &(100..200)), Some(190));
        assert_eq!(ranges.find_room(10, 64, &(100..200)), Some(128));
        assert_eq!((ranges.find_room(101, 1, &(100..200)), ranges.find_room(100, 1, &(100..200))), (None, Some(100)));
        ranges.set(120..180, Some(Read));
        assert_eq!((ranges.find_room(20, 1, &(100..200)), ranges.find_room(21, 1, &(100..200))), (Some(180), None));
        ranges.set(180..200, Some(Read));
        assert_eq!((ranges.find_room(20, 1, &(100..200)), ranges.find_room(20, 1, &(101..200))), (Some(100), None));
        ranges.set(130..140, None);
        assert_eq!(ranges.find_room(10, 1, &(100..200)), Some(130));
    }

    /// Against a list of pages, which has no ranges.
    #[test]
    fn many_changes_leave_what_a_list_of_pages_has() {
        const PAGES: usize = 64;
        let mut ranges = MappedRanges::default();
        let mut pages = [None; PAGES];
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize % below
        };
        for _ in 0..2000 {
            let start = next(PAGES);
            let end = start + 1 + next(PAGES - start);
            let state = [None, Some(Reserved), Some(Hidden), Some(Read), Some(ReadWrite)][next(5)];
            ranges.set(start as u64..end as u64, state);
            pages[start..end].fill(state);
            for (page, expected) in pages.iter().enumerate() {
                assert_eq!(ranges.around(page as u64).map(|(_, state)| state), *expected);
            }
            let changes = pages.windows(2).filter(|pair| pair[0] != pair[1] && pair[1].is_some()).count();
            assert_eq!(ranges.len(), changes + usize::from(pages[0].is_some()));
        }
    }
}
