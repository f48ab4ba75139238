//! The cells of a domain: which are free, and what is still mapped in them.
//!
//! ```text
//!            lease               prepare               release              wipe
//!   Empty ──────────▶ Leased ───────────────▶ (instance) ──────▶ Dirty ──────────▶ Warm ──lease──▶ Leased
//!     ▲                                                             │
//!     └──────── reset, tried again later ◀── Failed ◀── the host refuses to clear it
//! ```
//!
//! A warm cell still has its image mapped: the next instance of the same image starts there without a single mapping.
//!
//! Some cells of an ended domain are kept for the next one of their process, which takes a kept cell for an empty one: its
//! instances get the cells, and the keys, that they would get in a new process.
//!
//! An instance that starts from a template needs the cell in which that was made. Such cells are reserved: others get them last.
#![allow(clippy::vec_box, reason = "a cell is leased as a box, and is not moved")]

use super::address_space::{AddressSpace, AddressSpaceError, SMALL};
use super::cell::{self, Cell};
use super::fault_injection::{self, Mitigation};
use super::image::map::LoadedImage;
use super::keys::Key;
use monohull_abi::layout::{CELL_COUNT, cell_base};
use std::sync::{Arc, Mutex, MutexGuard};

/// The most cells that are kept from one domain for the next: each keeps some pages.
const KEPT_MAX: usize = 8;

/// All cells of a domain.
pub(crate) struct CellPool {
    space: Arc<AddressSpace>,
    states: Mutex<States>,
}

struct States {
    /// The cells that have ever been leased, by index; all others are empty.
    cells: Vec<CellState>,
    /// How many cells there may be.
    capacity: usize,
    /// Counts the cells that have been wiped.
    wiped: u64,
    /// Cells, of the first ones, in which instances are to start from templates: a bit for each. Others get them if there is no other.
    reserved: u64,
}

/// What a cell is used for.
enum CellState {
    /// Nothing is mapped in it.
    Empty,
    /// An instance has it, or it is being prepared, wiped or reset.
    Leased,
    /// It holds the data of an instance that has ended.
    Dirty(Box<Cell>),
    /// It is as it was before its first instance, and none of this domain has had it. It was kept from the domain before.
    Kept(Box<Cell>),
    /// It is wiped, and its image is mapped. `since` orders such cells by age.
    Warm { cell: Box<Cell>, since: u64 },
    /// The host refused to clear it; its pages keep this key. It is out of use until it has been reset.
    Failed(Key),
}

/// A cell that has been taken for an instance.
pub(crate) enum CellLease {
    /// The image is mapped in it.
    Warm(Box<Cell>),
    /// Nothing is mapped in the cell with this index; its pages get this key.
    Empty(usize, Key),
    /// Another image is mapped in it, which is cleared first.
    Other(Box<Cell>),
}

impl CellPool {
    /// All cells of an address space: these, which another pool has [kept](Self::keep), and which have their keys already; the others
    /// are empty.
    pub(crate) fn new(space: Arc<AddressSpace>, kept: Vec<Box<Cell>>) -> CellPool {
        for cell in &kept {
            space.keys().claim(cell.key());
        }
        let cells = kept.into_iter().map(CellState::Kept).collect();
        CellPool { space, states: Mutex::new(States { cells, capacity: CELL_COUNT, wiped: 0, reserved: 0 }) }
    }

    /// Leaves these cells to instances that need the very one, as far as there are others.
    pub(crate) fn reserve(&self, cells: impl IntoIterator<Item = usize>) {
        let bits = cells.into_iter().map(bit);
        self.lock().reserved |= bits.fold(0, |bits, bit| bits | bit);
    }

    /// Wipes the first cells, so that another domain may use them; all others become part of the bare reservation. No instance
    /// has a cell any more. After an error cells may hold data of instances.
    pub(crate) fn keep(self) -> Result<Vec<Box<Cell>>, AddressSpaceError> {
        let CellPool { space, states } = self;
        let states = states.into_inner().expect("cells").cells;
        let used = states.len();
        let most = if space.has_mapped_files() { 0 } else { KEPT_MAX };
        let mut kept = Vec::with_capacity(used.min(most));
        for (index, state) in states.into_iter().enumerate().take(most) {
            let (CellState::Dirty(mut cell) | CellState::Warm { mut cell, .. } | CellState::Kept(mut cell)) = state
            else {
                break;
            };
            // In a new process the cell would get this key.
            if cell.key() != space.keys().of_cell(index) {
                break;
            }
            if cell.wipe(&space).is_err() {
                break;
            }
            kept.push(cell);
        }
        if kept.len() < used && !fault_injection::disabled(Mitigation::ResetOtherCells) {
            space.reset(cell_base(kept.len())..cell_base(used))?;
        }
        Ok(kept)
    }

    /// Whether there is little in them.
    pub(crate) fn is_small(&self) -> bool {
        let states = self.lock();
        let used = |state: &CellState| match state {
            CellState::Dirty(cell) | CellState::Warm { cell, .. } | CellState::Kept(cell) => cell.used(),
            CellState::Empty | CellState::Leased | CellState::Failed(_) => 0,
        };
        states.cells.len() <= KEPT_MAX && states.cells.iter().map(used).sum::<u64>() <= SMALL
    }

    /// Uses only the first cells.
    #[cfg(test)]
    pub(crate) fn limit(&self, capacity: usize) {
        self.lock().capacity = capacity;
    }

    /// Takes a cell for an instance of `image`: one where the image is mapped, else an empty one, else the one that has been
    /// warm for longest. `None` if all are in use, or with a key for each instance all keys.
    pub(crate) fn lease(&self, image: &Arc<LoadedImage>, stack_size: u64) -> Option<CellLease> {
        let mut states = self.lock();
        if let Some(cell) = states.take_warm(|cell| cell.suits(image, stack_size), |since| since) {
            return Some(CellLease::Warm(cell));
        }
        let empty = states.empty();
        if let Some(cell) = empty.and_then(|index| states.take_kept(index)) {
            return Some(if cell.suits(image, stack_size) { CellLease::Warm(cell) } else { CellLease::Other(cell) });
        }
        if let Some(index) = empty
            && let Some(key) = self.space.keys().acquire_for(index)
        {
            states.set(index, CellState::Leased);
            return Some(CellLease::Empty(index, key));
        }
        // No key is left but those of cells that were kept.
        let kept = states.cells.iter().position(|state| matches!(state, CellState::Kept(_)));
        if let Some(cell) = kept.and_then(|index| states.take_kept(index)) {
            return Some(if cell.suits(image, stack_size) { CellLease::Warm(cell) } else { CellLease::Other(cell) });
        }
        states.take_warm(|_| true, |since| u64::MAX - since).map(CellLease::Other)
    }

    /// The same, but the cell with this index; `None` if that is in use, or has not been wiped.
    pub(crate) fn lease_reserved(&self, index: usize, image: &Arc<LoadedImage>, stack_size: u64) -> Option<CellLease> {
        let mut states = self.lock();
        states.reserved &= !bit(index);
        match states.cells.get(index) {
            None if index >= states.capacity => return None,
            None | Some(CellState::Empty) => {
                let key = self.space.keys().acquire_for(index)?;
                states.set(index, CellState::Leased);
                return Some(CellLease::Empty(index, key));
            }
            Some(CellState::Kept(_) | CellState::Warm { .. }) => {}
            Some(CellState::Leased | CellState::Dirty(_) | CellState::Failed(_)) => return None,
        }
        match std::mem::replace(&mut states.cells[index], CellState::Leased) {
            CellState::Kept(cell) | CellState::Warm { cell, .. } if cell.suits(image, stack_size) => {
                Some(CellLease::Warm(cell))
            }
            CellState::Kept(cell) | CellState::Warm { cell, .. } => Some(CellLease::Other(cell)),
            _ => None,
        }
    }

    /// Takes the cell with this index, which has never been used. `None` if it has, or if there is no key for it.
    pub(crate) fn lease_at(&self, index: usize) -> Option<CellLease> {
        let mut states = self.lock();
        if index >= states.capacity {
            return None;
        }
        if let Some(cell) = states.take_kept(index) {
            return Some(CellLease::Other(cell));
        }
        if !matches!(states.cells.get(index), None | Some(CellState::Empty)) {
            return None;
        }
        let key = self.space.keys().acquire()?;
        states.set(index, CellState::Leased);
        Some(CellLease::Empty(index, key))
    }

    /// Whether [`Self::lease`] would find one.
    pub(crate) fn has_free(&self) -> bool {
        let states = self.lock();
        let has_key = |state: &CellState| matches!(state, CellState::Warm { .. } | CellState::Kept(_));
        states.cells.iter().any(has_key) || states.empty().is_some() && self.space.keys().has_free()
    }

    /// How many leases [`Self::lease`] would find, one after the other.
    pub(crate) fn free(&self) -> usize {
        let states = self.lock();
        let count = |is: fn(&CellState) -> bool| states.cells.iter().filter(|state| is(state)).count();
        let ready = count(|state| matches!(state, CellState::Warm { .. } | CellState::Kept(_)));
        let empty =
            count(|state| matches!(state, CellState::Empty)) + states.capacity.saturating_sub(states.cells.len());
        ready + self.space.keys().free().map_or(empty, |keys| keys.min(empty))
    }

    /// Maps the image into a leased cell, unless it is there.
    pub(crate) fn prepare(
        &self,
        lease: CellLease,
        image: &Arc<LoadedImage>,
        stack_size: u64,
    ) -> Result<Box<Cell>, AddressSpaceError> {
        let (index, key) = match lease {
            CellLease::Warm(cell) => return Ok(cell),
            CellLease::Empty(index, key) => (index, key),
            CellLease::Other(cell) => {
                let (index, key) = (cell.index(), cell.key());
                cell.clear(&self.space).inspect_err(|_| self.lock().set(index, CellState::Failed(key)))?;
                (index, key)
            }
        };
        let cell = Cell::new(&self.space, index, image.clone(), stack_size, key);
        if cell.is_err() {
            self.lock().set(index, CellState::Failed(key));
            self.retry_failed();
        }
        cell.map(Box::new)
    }

    /// Takes back a cell that was leased for an instance that does not start.
    pub(crate) fn give_back(&self, lease: CellLease) {
        match lease {
            CellLease::Warm(cell) | CellLease::Other(cell) => self.release(cell),
            CellLease::Empty(index, key) => {
                let mut states = self.lock();
                states.set(index, CellState::Empty);
                self.space.keys().release(key);
            }
        }
    }

    /// Takes back the cell of an instance that has ended.
    pub(crate) fn release(&self, cell: Box<Cell>) {
        self.lock().set(cell.index(), CellState::Dirty(cell));
    }

    /// Resets the cells that could not be cleared before: what the host lacked, such as mappings, may have been freed. How many
    /// are empty now.
    pub(crate) fn retry_failed(&self) -> usize {
        // A reset takes its time: not under the lock that every lease needs.
        let failed = self.lock().take_failed();
        let mut emptied = 0;
        for (index, key) in failed {
            let bounds = cell::bounds(index);
            let reset = self.space.reset(bounds.start..bounds.end);
            let mut states = self.lock();
            if reset.is_ok() {
                states.set(index, CellState::Empty);
                self.space.keys().release(key);
                emptied += 1;
            } else {
                states.set(index, CellState::Failed(key));
            }
        }
        emptied
    }

    /// Makes the cells of ended instances fit for others.
    pub(crate) fn wipe_dirty(&self) {
        self.retry_failed();
        if let Err(error) = self.space.clear_window() {
            tracing::warn!("the window for pages that move cannot be cleared now: {error}");
        }
        loop {
            // Not as a condition of the loop: the lock is not to be held meanwhile.
            let dirty = self.lock().take_dirty();
            let Some(mut cell) = dirty else { return };
            let (index, key) = (cell.index(), cell.key());
            let wiped = cell.wipe(&self.space);
            let mut states = self.lock();
            match wiped {
                Ok(()) => states.set_warm(cell),
                Err(error) => {
                    tracing::warn!("cell {index} cannot be wiped now and is cleared later: {error}");
                    cell.forget_ranges(&self.space);
                    states.set(index, CellState::Failed(key));
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, States> {
        self.states.lock().expect("cells")
    }
}

/// Of the cell with this index, among those that can be reserved.
fn bit(index: usize) -> u64 {
    u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or(0)
}

impl States {
    fn set(&mut self, index: usize, state: CellState) {
        if index >= self.cells.len() {
            self.cells.resize_with(index + 1, || CellState::Empty);
        }
        self.cells[index] = state;
    }

    fn set_warm(&mut self, cell: Box<Cell>) {
        self.wiped += 1;
        let since = self.wiped;
        self.set(cell.index(), CellState::Warm { cell, since });
    }

    /// The index of an empty cell, or of a kept one. One that has never been used is a late choice: its page tables are new as well. One that is
    /// reserved is the last.
    fn empty(&self) -> Option<usize> {
        let is_empty = |index: &usize| matches!(self.cells[*index], CellState::Empty | CellState::Kept(_));
        let mut empty = (0..self.cells.len()).filter(is_empty).chain(self.cells.len()..self.capacity);
        let first = empty.clone().next();
        empty.find(|index| self.reserved & bit(*index) == 0).or(first)
    }

    /// Leases the warm cell with the highest `rank` among those that are `wanted`.
    fn take_warm(&mut self, wanted: impl Fn(&Cell) -> bool, rank: impl Fn(u64) -> u64) -> Option<Box<Cell>> {
        let ranked = self.cells.iter_mut().filter_map(|state| match state {
            CellState::Warm { cell, since } if wanted(cell) => Some((rank(*since), state)),
            _ => None,
        });
        let (_, best) = ranked.max_by_key(|(rank, _)| *rank)?;
        match std::mem::replace(best, CellState::Leased) {
            CellState::Warm { cell, .. } => Some(cell),
            _ => None,
        }
    }

    /// Leases the cell with this index, if it is a kept one.
    fn take_kept(&mut self, index: usize) -> Option<Box<Cell>> {
        let state = self.cells.get_mut(index).filter(|state| matches!(state, CellState::Kept(_)))?;
        match std::mem::replace(state, CellState::Leased) {
            CellState::Kept(cell) => Some(cell),
            _ => None,
        }
    }

    fn take_dirty(&mut self) -> Option<Box<Cell>> {
        let dirty = self.cells.iter_mut().find(|state| matches!(state, CellState::Dirty(_)))?;
        match std::mem::replace(dirty, CellState::Leased) {
            CellState::Dirty(cell) => Some(cell),
            _ => None,
        }
    }

    fn take_failed(&mut self) -> Vec<(usize, Key)> {
        let mut failed = Vec::new();
        for (index, state) in self.cells.iter_mut().enumerate() {
            if let CellState::Failed(key) = *state {
                *state = CellState::Leased;
                failed.push((index, key));
            }
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Keys;
    use super::super::one_at_a_time;
    use super::*;
    use std::path::Path;

    const STACK: u64 = 64 << 10;

    fn image() -> Arc<LoadedImage> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/images/no-op.so");
        Arc::new(LoadedImage::open("no-op", &path).expect("images are built first: run `cargo xtask test`"))
    }

    fn pool(capacity: usize) -> CellPool {
        let pool = CellPool::new(Arc::new(AddressSpace::reserve(Keys::disabled()).expect("address space")), Vec::new());
        pool.limit(capacity);
        pool
    }

    fn prepared(pool: &CellPool, image: &Arc<LoadedImage>) -> Box<Cell> {
        let lease = pool.lease(image, STACK).expect("a free cell");
        pool.prepare(lease, image, STACK).expect("memory")
    }

    #[test]
    fn the_warm_cell_of_the_image_is_used_before_an_empty_one_and_another_images_last() {
        let _one = one_at_a_time();
        let (pool, first, second) = (pool(2), image(), image());
        let (a, b) = (prepared(&pool, &first), prepared(&pool, &first));
        assert_eq!((a.index(), b.index()), (0, 1));
        assert!(!pool.has_free() && pool.lease(&first, STACK).is_none());
        pool.release(a);
        assert!(!pool.has_free(), "it is not wiped yet");
        pool.wipe_dirty();
        pool.release(b);
        pool.wipe_dirty();
        assert!(
            matches!(pool.lease(&first, STACK), Some(CellLease::Warm(cell)) if cell.index() == 1),
            "the last wiped"
        );
        let other = pool.lease(&second, STACK);
        assert!(matches!(&other, Some(CellLease::Other(cell)) if cell.index() == 0));
        let cell = pool.prepare(other.expect("a lease"), &second, STACK).expect("memory");
        assert!(cell.suits(&second, STACK) && !cell.suits(&first, STACK));
    }

    #[test]
    fn a_cell_that_cannot_be_wiped_is_leased_again_only_after_a_reset() {
        let _one = one_at_a_time();
        let (pool, image) = (pool(1), image());
        let cell = prepared(&pool, &image);
        let page = cell.base() + monohull_abi::layout::PAGE;
        // SAFETY: a page of the main stack; locking it changes nothing of what it holds.
        assert_eq!(unsafe { libc::mlock(page as *const _, 4096) }, 0, "one page may be locked");
        pool.release(cell);
        pool.wipe_dirty();
        assert!(!pool.has_free(), "locked memory is not wiped");
        assert_eq!(pool.retry_failed(), 1);
        assert!(matches!(pool.lease(&image, STACK), Some(CellLease::Empty(0, _))));
    }

    #[test]
    fn a_lease_that_is_given_back_leaves_its_cell_free() {
        let _one = one_at_a_time();
        let (pool, image) = (pool(1), image());
        pool.give_back(pool.lease(&image, STACK).expect("an empty cell"));
        assert!(pool.has_free());
        pool.release(prepared(&pool, &image));
        pool.wipe_dirty();
        pool.give_back(pool.lease(&image, STACK).expect("a warm cell"));
        pool.wipe_dirty();
        assert!(matches!(pool.lease(&image, STACK), Some(CellLease::Warm(_))));
    }

    /// Which cell a lease is of.
    fn index_of(lease: Option<CellLease>) -> Option<usize> {
        lease.map(|lease| match lease {
            CellLease::Empty(index, _) => index,
            CellLease::Warm(cell) | CellLease::Other(cell) => cell.index(),
        })
    }

    #[test]
    fn a_reserved_cell_goes_to_the_one_that_asks_for_it_and_to_others_last() {
        let _one = one_at_a_time();
        let (pool, image, other) = (pool(4), image(), image());
        pool.reserve([0, 2, 100]);
        assert_eq!([1, 3].map(Some), [(); 2].map(|()| index_of(pool.lease(&image, STACK))));
        let lease = pool.lease_reserved(2, &image, STACK).expect("it was left to this one");
        assert!(matches!(&lease, CellLease::Empty(2, _)) && pool.lease_reserved(2, &image, STACK).is_none());
        assert_eq!(index_of(pool.lease(&image, STACK)), Some(0), "there is no other");
        assert!(pool.lease_reserved(0, &image, STACK).is_none() && pool.lease_reserved(4, &image, STACK).is_none());
        // One that others have had.
        let cell = pool.prepare(lease, &image, STACK).expect("memory");
        pool.release(cell);
        assert!(pool.lease_reserved(2, &image, STACK).is_none(), "it is not wiped");
        pool.wipe_dirty();
        let lease = pool.lease_reserved(2, &image, STACK);
        assert!(matches!(&lease, Some(CellLease::Warm(cell)) if cell.index() == 2));
        pool.give_back(lease.expect("a lease"));
        pool.wipe_dirty();
        let lease = pool.lease_reserved(2, &other, STACK);
        assert!(matches!(&lease, Some(CellLease::Other(cell)) if cell.index() == 2));
    }

    #[test]
    fn a_cell_gets_its_key_in_whatever_order_they_are_leased() {
        let _one = one_at_a_time();
        let space = Arc::new(AddressSpace::reserve(Keys::scarce(3)).expect("address space"));
        let (pool, image) = (CellPool::new(space.clone(), Vec::new()), image());
        pool.reserve([0, 1]);
        for index in [2, 0, 1] {
            let lease = if index == 2 { pool.lease(&image, STACK) } else { pool.lease_reserved(index, &image, STACK) };
            let is_own = matches!(&lease, Some(CellLease::Empty(at, key)) if (*at, *key) == (index, space.keys().of_cell(index)));
            assert!(is_own, "{index}");
        }
        assert!(pool.lease(&image, STACK).is_none(), "there is no key left");
    }

    #[test]
    fn reserved_cells_that_were_kept_go_to_others_when_no_key_is_left() {
        let _one = one_at_a_time();
        let space = Arc::new(AddressSpace::reserve(Keys::scarce(3)).expect("address space"));
        let (first, image) = (CellPool::new(space.clone(), Vec::new()), image());
        let leases: Vec<_> = (0..2).map(|_| first.lease(&image, STACK).expect("a cell")).collect();
        for lease in leases {
            let cell = first.prepare(lease, &image, STACK).expect("memory");
            first.release(cell);
        }
        first.wipe_dirty();
        let kept = first.keep().expect("they are wiped");
        assert_eq!(kept.len(), 2);
        // Another domain of the process, in which two instances are to start from templates and others come before them.
        let pool = CellPool::new(space, kept);
        pool.reserve([0, 1]);
        let indices: Vec<_> = (0..3).map(|_| (pool.has_free(), index_of(pool.lease(&image, STACK)))).collect();
        assert_eq!(indices, [(true, Some(2)), (true, Some(0)), (true, Some(1))]);
        assert!(!pool.has_free() && pool.lease(&image, STACK).is_none());
    }

    /// A byte on the main stack of a cell.
    fn byte(cell: &Cell) -> *mut u8 {
        (cell.base() + monohull_abi::layout::PAGE) as *mut u8
    }

    #[test]
    fn the_next_domain_gets_the_first_cells_in_the_order_of_a_new_one() {
        let _one = one_at_a_time();
        let (pool, first, second) = (pool(CELL_COUNT), image(), image());
        let cells: Vec<Box<Cell>> = (0..KEPT_MAX + 2).map(|_| prepared(&pool, &first)).collect();
        for cell in &cells {
            // SAFETY: the stack of a cell is writable, and no thread runs on it.
            unsafe { byte(cell).write(7) };
        }
        // The last instance to end is not the first to be followed.
        cells.into_iter().for_each(|cell| pool.release(cell));
        let space = pool.space.clone();
        let kept = pool.keep().expect("the host clears the rest");
        assert_eq!(kept.iter().map(|cell| cell.index()).collect::<Vec<_>>(), Vec::from_iter(0..KEPT_MAX));
        // SAFETY: it is mapped still.
        assert!(kept.iter().all(|cell| unsafe { byte(cell).read() } == 0));
        let pool = CellPool::new(space, kept);
        assert!(matches!(pool.lease(&first, STACK), Some(CellLease::Warm(cell)) if cell.index() == 0));
        assert!(matches!(pool.lease(&second, STACK), Some(CellLease::Other(cell)) if cell.index() == 1));
        for index in 2..KEPT_MAX {
            assert!(matches!(pool.lease(&first, STACK), Some(CellLease::Warm(cell)) if cell.index() == index));
        }
        assert!(matches!(pool.lease(&first, STACK), Some(CellLease::Empty(KEPT_MAX, _))));
    }

    /// Cells behind one that is not clean would be others than those of a new process.
    #[test]
    fn a_cell_that_cannot_be_wiped_is_not_kept_nor_are_those_behind_it() {
        let _one = one_at_a_time();
        let (pool, image) = (pool(CELL_COUNT), image());
        let cells: Vec<Box<Cell>> = (0..3).map(|_| prepared(&pool, &image)).collect();
        let page = byte(&cells[1]);
        // SAFETY: a page of the main stack; locking it changes nothing of what it holds.
        assert_eq!(unsafe { libc::mlock(page.cast(), 4096) }, 0, "one page may be locked");
        cells.into_iter().for_each(|cell| pool.release(cell));
        let space = pool.space.clone();
        let kept = pool.keep().expect("the host clears the rest");
        assert_eq!(kept.iter().map(|cell| cell.index()).collect::<Vec<_>>(), [0]);
        let pool = CellPool::new(space, kept);
        assert!(matches!(pool.lease(&image, STACK), Some(CellLease::Warm(_))));
        assert!(matches!(pool.lease(&image, STACK), Some(CellLease::Empty(1, _))));
    }
}
