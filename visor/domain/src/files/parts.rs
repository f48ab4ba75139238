//! Parts of pieces of a [pool](super::pool), for files that are smaller than a piece.
//!
//! ```text
//!   piece    | 128 KiB | 128 KiB |      256 KiB      |  free   | …      each part begins at a multiple of its size
//!   used     |    1    |    1    |    1         1    |    0    | …      one bit for each unit of 128 KiB
//!   dirty    |    1    |    1    |    1         1    |    1    | …      has been part of a file: zeroed before it is so again
//! ```
//!
//! A part gets its pages when they are used, and they stay for the next part. They are no huge pages: most of one would be for nothing. Memory that
//! comes from the heap costs a little less than this, and much less if it is smaller and was used before; a mapping has to copy it.

use super::pool::{PIECE, Pool};
use monohull_trampoline::system::copy;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Bytes of the smallest part. A mapping of what is half as large is copied at once, which costs little more than to show it.
const UNIT: u64 = 128 << 10;
/// What a part is zeroed with.
static ZEROS: [u8; 4096] = [0; 4096];

/// The pieces that are divided, by their addresses.
#[derive(Debug, Default)]
pub(super) struct Parts(Mutex<BTreeMap<u64, Piece>>);

/// Its units, as bits.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    used: u32,
    dirty: u32,
}

impl Parts {
    /// Whether there are parts of this size.
    pub(super) fn has(bytes: u64) -> bool {
        (UNIT..PIECE).contains(&bytes) && bytes.is_power_of_two()
    }

    /// A part of zeros: its address; `None` if the pool has no piece, or the host no memory to make it zero.
    pub(super) fn take(&self, pool: &Pool, bytes: u64) -> Option<u64> {
        let (start, units, dirty) = {
            let mut pieces = self.lock();
            let found = pieces.iter().find_map(|(start, piece)| Some((*start, room(piece.used, bytes)?)));
            let (start, units) = match found {
                Some(found) => found,
                None => (pool.take_without_memory()?, room(0, bytes)?),
            };
            let piece = pieces.entry(start).or_default();
            piece.used |= units;
            let dirty = piece.dirty & units;
            piece.dirty |= units;
            (start, units, dirty)
        };
        // If it is not zero it stays in use, by nothing.
        let is_zero = places(dirty).all(|place| zero(start + place, UNIT));
        is_zero.then(|| start + u64::from(units.trailing_zeros()) * UNIT)
    }

    /// Takes a part of this size back, if it is one. A piece goes back to the pool when no part of it is in use, unless it is the only one.
    pub(super) fn put(&self, pool: &Pool, address: u64, bytes: u64) -> bool {
        let Some(start) = Parts::has(bytes).then(|| pool.piece_of(address)).flatten() else { return false };
        let mut pieces = self.lock();
        let Some(piece) = pieces.get_mut(&start) else { return false };
        piece.used &= !(mask(bytes) << ((address - start) / UNIT));
        if piece.used == 0 && pieces.len() > 1 {
            pieces.remove(&start);
            drop(pieces);
            pool.put(start);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Piece>> {
        self.0.lock().expect("the pieces that are divided")
    }
}

/// The units of so many bytes, the first of a piece.
fn mask(bytes: u64) -> u32 {
    (1 << (bytes / UNIT)) - 1
}

/// Units of so many bytes that are not in use, the first there are.
fn room(used: u32, bytes: u64) -> Option<u32> {
    let places = (0..PIECE / UNIT).step_by((bytes / UNIT) as usize);
    places.map(|unit| mask(bytes) << unit).find(|units| used & units == 0)
}

/// Where these units are in their piece.
fn places(units: u32) -> impl Iterator<Item = u64> {
    (0..PIECE / UNIT).filter(move |unit| units & 1 << unit != 0).map(|unit| unit * UNIT)
}

/// Makes memory zero; whether it could be.
fn zero(address: u64, bytes: u64) -> bool {
    let mut steps = (address..address + bytes).step_by(ZEROS.len());
    // SAFETY: a part of a piece that nothing uses; a fault is survived.
    steps.all(|at| unsafe { copy(at as *mut u8, ZEROS.as_ptr(), ZEROS.len()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(address: u64) -> &'static mut u8 {
        // SAFETY: the tests name addresses of parts that they have taken, one reference at a time.
        unsafe { &mut *(address as *mut u8) }
    }

    #[test]
    fn parts_lie_side_by_side_each_at_a_multiple_of_its_size() {
        let (pool, parts) = (Pool::new(3 * PIECE).expect("a memory file"), Parts::default());
        let take = |units: u64| parts.take(&pool, units * UNIT).expect("a part");
        let first = take(1);
        assert!(first.is_multiple_of(PIECE));
        let at = |address: u64| (address - first) / UNIT;
        assert_eq!([take(2), take(1), take(8), take(4), take(8)].map(at), [2, 1, 8, 4, 16]);
        assert!(parts.put(&pool, first + 2 * UNIT, 2 * UNIT));
        assert_eq!([take(1), take(1)].map(at), [2, 3]);
        assert_eq!(pool.window(first + UNIT).map(|window| window.offset), Some(UNIT), "mappings can show it");
        assert_eq!([UNIT / 2, UNIT, 3 * UNIT, PIECE / 2, PIECE].map(Parts::has), [false, true, false, true, false]);
    }

    #[test]
    fn a_part_is_zero_each_time_and_others_stay_as_they_are() {
        let (pool, parts) = (Pool::new(2 * PIECE).expect("a memory file"), Parts::default());
        let [first, second] = [(); 2].map(|()| parts.take(&pool, UNIT).expect("a part"));
        for address in [first, second] {
            *byte(address) = 7;
            *byte(address + UNIT - 1) = 9;
        }
        assert!(parts.put(&pool, first, UNIT));
        let again = parts.take(&pool, UNIT).expect("a part");
        assert_eq!((again, *byte(first), *byte(first + UNIT - 1)), (first, 0, 0));
        assert_eq!((*byte(second), *byte(second + UNIT - 1)), (7, 9));
        *byte(first) = 7;
        assert!(parts.put(&pool, first, UNIT) && parts.put(&pool, second, UNIT));
        let larger = parts.take(&pool, 4 * UNIT).expect("a part");
        assert_eq!(larger, first);
        assert!((0..4 * UNIT).step_by(64).all(|place| *byte(first + place) == 0));
    }

    #[test]
    fn pieces_without_parts_go_back_but_for_the_last_one() {
        let (pool, parts) = (Pool::new(2 * PIECE).expect("a memory file"), Parts::default());
        let halves = [(); 4].map(|()| parts.take(&pool, PIECE / 2).expect("a part"));
        assert_eq!((parts.take(&pool, UNIT), pool.take_without_memory()), (None, None), "all is in use");
        assert!(parts.put(&pool, halves[0], PIECE / 2) && parts.put(&pool, halves[1], PIECE / 2));
        assert_eq!(pool.take_without_memory(), Some(halves[0]));
        assert!(parts.put(&pool, halves[2], PIECE / 2) && parts.put(&pool, halves[3], PIECE / 2));
        assert_eq!(pool.take_without_memory(), None, "it stays for the next part");
        assert_eq!(parts.take(&pool, UNIT), Some(halves[2]));
    }

    #[test]
    fn what_is_no_part_is_not_taken_back() {
        let (pool, parts) = (Pool::new(2 * PIECE).expect("a memory file"), Parts::default());
        let whole = pool.take_without_memory().expect("a piece");
        let part = parts.take(&pool, UNIT).expect("a part");
        assert!(!parts.put(&pool, whole, UNIT) && !parts.put(&pool, whole - UNIT, UNIT));
        assert!(!parts.put(&pool, part, PIECE) && !parts.put(&pool, part, 4096));
        assert!(parts.put(&pool, part, UNIT));
    }
}
