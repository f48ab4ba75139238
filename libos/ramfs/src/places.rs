//! The places of chunks: numbers by which a checkpoint names their pages.
//!
//! ```text
//!   chunk at place 5 ── pages 5 × 2 MiB … behind FILES_BASE of a checkpoint
//! ```
//!
//! A chunk has one place as long as it lives, so that a page which has not changed has the same name in the next checkpoint. There is no
//! memory at these addresses. What is free is a list of ranges, so that it is small whatever numbers a record has.

use alloc::collections::BTreeMap;
use monohull_abi::layout::FILES_SIZE;
use monohull_module::FutexMutex;

/// Bytes of a chunk of a large file: one huge page.
pub(crate) const CHUNK: u64 = 2 << 20;
/// How many there are.
const COUNT: u32 = (FILES_SIZE / CHUNK) as u32;

/// The places of all trees of a domain.
pub(crate) struct Places {
    /// Free ones: the first of each range, and the one behind its last.
    free: FutexMutex<BTreeMap<u32, u32>>,
}

impl Places {
    /// All of them, free.
    pub(crate) fn new() -> Places {
        Places { free: FutexMutex::new(BTreeMap::from([(0, COUNT)])) }
    }

    /// The lowest free place.
    pub(crate) fn take(&self) -> Option<u32> {
        let mut free = self.free.lock();
        let (first, end) = free.pop_first()?;
        if first + 1 < end {
            free.insert(first + 1, end);
        }
        Some(first)
    }

    /// This place, which a record has; false if another chunk has it, or none can.
    pub(crate) fn claim(&self, place: u32) -> bool {
        let mut free = self.free.lock();
        let around = free.range(..=place).next_back().map(|(first, end)| (*first, *end));
        let Some((first, end)) = around.filter(|(_, end)| *end > place) else { return false };
        free.remove(&first);
        for (first, end) in [(first, place), (place + 1, end)] {
            if first < end {
                free.insert(first, end);
            }
        }
        true
    }

    /// A place is free again.
    pub(crate) fn put(&self, place: u32) {
        let mut free = self.free.lock();
        let before = free.range(..place).next_back().map(|(first, end)| (*first, *end));
        let first = before.filter(|(_, end)| *end == place).map_or(place, |(first, _)| first);
        let end = free.remove(&(place + 1)).unwrap_or(place + 1);
        free.insert(first, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn ranges(places: &Places) -> Vec<(u32, u32)> {
        places.free.lock().iter().map(|(first, end)| (*first, *end)).collect()
    }

    #[test]
    fn free_places_are_few_ranges() {
        let places = Places::new();
        assert_eq!([(); 4].map(|()| places.take()), [0, 1, 2, 3].map(Some));
        places.put(1);
        places.put(3);
        assert_eq!(ranges(&places), [(1, 2), (3, COUNT)]);
        places.put(2);
        assert_eq!(ranges(&places), [(1, COUNT)]);
        assert_eq!(places.take(), Some(1), "the lowest first");
        places.put(0);
        places.put(1);
        assert_eq!(ranges(&places), [(0, COUNT)]);
    }

    #[test]
    fn a_place_is_claimed_once() {
        let places = Places::new();
        for place in [7, COUNT - 1, 0, 6] {
            assert!(places.claim(place) && !places.claim(place), "{place}");
        }
        assert_eq!(ranges(&places), [(1, 6), (8, COUNT - 1)]);
        for place in [COUNT, u32::MAX] {
            assert!(!places.claim(place), "{place}");
        }
        for place in [6, 0, COUNT - 1, 7] {
            places.put(place);
        }
        assert_eq!(ranges(&places), [(0, COUNT)]);
    }

    #[test]
    fn there_may_be_none_left() {
        let places = Places::new();
        *places.free.lock() = BTreeMap::from([(COUNT - 1, COUNT)]);
        assert_eq!((places.take(), places.take()), (Some(COUNT - 1), None));
        places.put(COUNT - 1);
        assert_eq!(places.take(), Some(COUNT - 1));
    }
}
