//! Which pages of the arena are free.
//!
//! The index lies in trusted memory. Functions could forge a free list inside the free pages, because they may write to the
//! arena. Free pages form *holes*, which are found by address, to merge neighbours, and by size,
//! to find the smallest one that fits:
//!
//! ```text
//!  arena       | run | hole, 3 pages | run | run | hole, 1 page | run | hole, all the rest |
//!  by address       0x1000 → 3 pages            0x6000 → 1 page       0x8000 → …
//!  by size     (1 page, 0x6000) (3 pages, 0x1000) (…, 0x8000)
//! ```
//!
//! Every operation takes a time logarithmic in the number of holes. Functions choose the order in which buffers are
//! freed, so they choose how many holes there are.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Range;
use monohull_abi::layout::PAGE;

/// Buffers from this size on are aligned to it, so that they can be backed by huge pages.
pub(crate) const HUGE: u64 = 2 << 20;
/// Holes that are tried before a hole that is large enough at any start address.
const TRIES: usize = 16;

/// Consecutive pages that belong to one holder. It cannot be copied, and only [`PageSpace`] makes one.
#[derive(Debug)]
pub(crate) struct Run {
    address: u64,
    bytes: u64,
    origin: Origin,
}

/// Where the memory behind a run comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The arena.
    Own,
    /// The arena; it has gone elsewhere.
    MovedOut,
    /// A cell: to the kernel the run is another mapping than its neighbours, until it has been renewed.
    Cell,
    /// A cell; it has gone elsewhere.
    CellMovedOut,
}

impl Origin {
    /// Whether the run is a mapping of its own.
    pub(crate) fn is_cell(self) -> bool {
        matches!(self, Origin::Cell | Origin::CellMovedOut)
    }
}

impl Run {
    /// First byte, in the arena.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Whole pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// First byte behind.
    pub(crate) fn end(&self) -> u64 {
        self.address + self.bytes
    }

    /// Where its memory comes from.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// It is to have memory of a cell.
    pub(crate) fn expect_cell(&mut self) {
        self.origin = Origin::Cell;
    }

    /// Its memory has gone elsewhere.
    pub(crate) fn set_moved_out(&mut self) {
        self.origin = if self.origin.is_cell() { Origin::CellMovedOut } else { Origin::MovedOut };
    }

    /// Its memory is the arena's again.
    pub(crate) fn forget_origin(&mut self) {
        self.origin = Origin::Own;
    }

    /// Splits off everything behind the first `bytes`, which are whole pages and less than the run.
    pub(crate) fn split_off(&mut self, bytes: u64) -> Run {
        debug_assert!(bytes > 0 && bytes < self.bytes && bytes.is_multiple_of(PAGE));
        let tail = Run { address: self.address + bytes, bytes: self.bytes - bytes, origin: self.origin };
        self.bytes = bytes;
        tail
    }
}

/// The free pages of the arena.
pub(crate) struct PageSpace {
    /// Start and bytes of each hole; no two touch.
    by_address: BTreeMap<u64, u64>,
    /// The same holes: bytes and start.
    by_size: BTreeSet<(u64, u64)>,
}

impl PageSpace {
    /// All pages of a range are free.
    pub(crate) fn new(range: Range<u64>) -> PageSpace {
        let mut space = PageSpace { by_address: BTreeMap::new(), by_size: BTreeSet::new() };
        space.add(range);
        space
    }

    /// Takes `bytes` (whole pages, not none) from the smallest hole that fits. `None` if there is none; with an alignment of more
    /// than a page also if only a hole fits that happens to begin at the right address.
    pub(crate) fn take(&mut self, bytes: u64, align: u64) -> Option<Run> {
        let hole = self.fitting(bytes, align)?;
        self.remove(&hole);
        let address = hole.start.next_multiple_of(align);
        self.add(hole.start..address);
        self.add(address + bytes..hole.end);
        Some(Run { address, bytes, origin: Origin::Own })
    }

    /// Takes exactly these whole pages, if all of them are free.
    pub(crate) fn claim(&mut self, address: u64, bytes: u64) -> Option<Run> {
        let (&start, &free) = self.by_address.range(..=address).next_back()?;
        let (hole, end) = (start..start + free, address.checked_add(bytes)?);
        if bytes == 0 || end > hole.end {
            return None;
        }
        self.remove(&hole);
        self.add(hole.start..address);
        self.add(end..hole.end);
        Some(Run { address, bytes, origin: Origin::Own })
    }

    /// Extends a run if the pages behind it are free.
    pub(crate) fn extend(&mut self, run: &mut Run, bytes: u64) -> bool {
        let Some(&free) = self.by_address.get(&run.end()).filter(|free| **free >= bytes) else { return false };
        let hole = run.end()..run.end() + free;
        self.remove(&hole);
        self.add(hole.start + bytes..hole.end);
        run.bytes += bytes;
        true
    }

    /// Frees pages.
    pub(crate) fn give(&mut self, run: Run) {
        let mut hole = run.address..run.end();
        if let Some((&start, &bytes)) = self.by_address.range(..hole.start).next_back()
            && start + bytes == hole.start
        {
            self.remove(&(start..hole.start));
            hole.start = start;
        }
        if let Some(&bytes) = self.by_address.get(&hole.end) {
            let next = hole.end..hole.end + bytes;
            self.remove(&next);
            hole.end = next.end;
        }
        self.add(hole);
    }

    /// The hole to take from.
    fn fitting(&self, bytes: u64, align: u64) -> Option<Range<u64>> {
        let fits = |hole: &&(u64, u64)| hole.1.next_multiple_of(align) + bytes <= hole.1 + hole.0;
        let snug = self.by_size.range((bytes, 0)..).take(TRIES).find(fits);
        // A hole of this size fits wherever it begins.
        let ample = || self.by_size.range((bytes + align - PAGE, 0)..).next();
        snug.or_else(ample).map(|&(bytes, start)| start..start + bytes)
    }

    fn add(&mut self, hole: Range<u64>) {
        if !hole.is_empty() {
            self.by_address.insert(hole.start, hole.end - hole.start);
            self.by_size.insert((hole.end - hole.start, hole.start));
        }
    }

    fn remove(&mut self, hole: &Range<u64>) {
        self.by_address.remove(&hole.start);
        self.by_size.remove(&(hole.end - hole.start, hole.start));
    }

    /// The holes, in the order of their addresses.
    #[cfg(test)]
    pub(crate) fn holes(&self) -> alloc::vec::Vec<Range<u64>> {
        assert!(self.by_size.iter().all(|(bytes, start)| self.by_address.get(start) == Some(bytes)));
        assert_eq!(self.by_size.len(), self.by_address.len());
        self.by_address.iter().map(|(start, bytes)| *start..start + bytes).collect()
    }
}
