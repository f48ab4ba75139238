//! A table that grows and never moves, so that its entries are found without a lock.

use alloc::boxed::Box;
use spin::Once;

/// Entries in one segment.
const SEGMENT: usize = 64;

/// Entries made by `Default`, a segment at a time.
pub struct Segments<T>(Box<[Once<Box<[T]>>]>);

impl<T: Default> Segments<T> {
    /// Room for `most` entries, rounded up to whole segments; none is made yet.
    pub fn new(most: usize) -> Segments<T> {
        Segments((0..most.div_ceil(SEGMENT)).map(|_| Once::new()).collect())
    }

    /// An entry, if its segment has been made.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.0.get(index / SEGMENT)?.get().map(|segment| &segment[index % SEGMENT])
    }

    /// An entry, made if need be; `None` beyond the table's end.
    pub fn make(&self, index: usize) -> Option<&T> {
        let segment = self.0.get(index / SEGMENT)?;
        Some(&segment.call_once(|| (0..SEGMENT).map(|_| T::default()).collect())[index % SEGMENT])
    }
}

#[cfg(test)]
mod tests {
    use super::Segments;
    use core::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn entries_stay_where_they_are() {
        let table = Segments::<AtomicU32>::new(65);
        assert!(table.get(0).is_none());
        let first = table.make(3).unwrap();
        first.store(7, Ordering::Relaxed);
        assert!(table.make(127).is_some() && table.make(128).is_none());
        assert!(core::ptr::eq(first, table.get(3).unwrap()));
        assert_eq!(table.get(3).unwrap().load(Ordering::Relaxed), 7);
    }
}
