//! Memory without guards, which grows where it is: linear memories whose addresses instructions check, and what is collected in such programs.
//!
//! A memory reserves addresses for all that it may grow to, which is no more than the step's `memory`. That costs nothing, and to grow is to make
//! the next pages accessible. Wasmtime's own memory would be a block of the heap, which is copied into a larger one: while both are there, they take
//! three times what the program had.
//!
//! ```text
//!   | rw: charged | none: reserved       |        grow_to: | rw          | none        |
//! ```
//!
//! Where many memories have taken the addresses that there are for this ([`ADDRESSES_MAX`]), the next ones reserve half of what they begin with, and
//! are moved when that is used up.

use crate::host::plain as call;
use crate::memory::refused;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::ptr::{copy_nonoverlapping, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::Errno;
use monohull_abi::layout::{PAGE, page_up};
use monohull_abi::number::{GET_INFO, MAP, PROTECT, UNMAP};
use monohull_abi::types::{Info, MapAccess};
use wasmtime::{LinearMemory, MemoryCreator, MemoryType, Result};

/// Addresses that memories reserve together beyond what they are. A cell has twice as many for these, the heap and the stacks of threads.
const ADDRESSES_MAX: u64 = 16 << 30;
/// What a memory that cannot have all that it may grow to has beyond its half.
const GROWTH: u64 = 1 << 20;
/// All that an address of 32 bits can name.
const ADDRESSES_OF_32_BITS: u64 = 4 << 30;

/// Addresses that memories have reserved.
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// Makes memory that grows in place.
pub(crate) struct Creator;

// SAFETY: what it makes is zero, is as large as is said, and stays where it is up to its capacity. It knows no guards, and says so.
unsafe impl MemoryCreator for Creator {
    fn new_memory(
        &self,
        kind: MemoryType,
        minimum: usize,
        maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> core::result::Result<Box<dyn LinearMemory>, String> {
        if reserved.is_some_and(|bytes| bytes > 0) || guard > 0 {
            return Err("memory with guards is Wasmtime's own".to_string());
        }
        let limit = call(GET_INFO, [Info::MemoryLimit as u64]).unwrap_or(0);
        let most = if kind.is_64() { limit } else { limit.min(ADDRESSES_OF_32_BITS) };
        let most = maximum.map_or(most, |maximum| most.min(maximum as u64));
        let made = Place::new(minimum as u64, most).map_err(|errno| refused(errno).to_string())?;
        Ok(Box::new(InPlace { place: made, bytes: minimum, most }))
    }
}

/// Addresses, of which the first ones are accessible: whole pages.
struct Place {
    address: u64,
    accessible: u64,
    reserved: u64,
}

impl Place {
    /// One with so many bytes, which may grow to `most`.
    fn new(bytes: u64, most: u64) -> core::result::Result<Place, Errno> {
        let accessible = page_up(bytes);
        let left = ADDRESSES_MAX.saturating_sub(RESERVED.load(Ordering::Relaxed));
        let half_more = accessible.saturating_add(accessible / 2).saturating_add(GROWTH);
        let wanted = page_up(most.min(left.max(half_more))).max(accessible).max(PAGE);
        let least = accessible.max(PAGE);
        let (address, reserved) = match call(MAP, [wanted, 0, MapAccess::None as u64]) {
            Ok(address) => (address, wanted),
            Err(Errno::OutOfMemory) if wanted > least => (call(MAP, [least, 0, MapAccess::None as u64])?, least),
            Err(errno) => return Err(errno),
        };
        RESERVED.fetch_add(reserved, Ordering::Relaxed);
        let mut place = Place { address, accessible: 0, reserved };
        place.make_accessible(accessible)?;
        Ok(place)
    }

    /// Makes so many bytes from the start on accessible, which is not fewer than there are.
    fn make_accessible(&mut self, bytes: u64) -> core::result::Result<(), Errno> {
        let more = bytes - self.accessible;
        if more > 0 {
            call(PROTECT, [self.address + self.accessible, more, MapAccess::ReadWrite as u64])?;
            self.accessible = bytes;
        }
        Ok(())
    }

    fn start(&self) -> *mut u8 {
        with_exposed_provenance_mut(self.address as usize)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = call(UNMAP, [self.address, self.reserved]);
        RESERVED.fetch_sub(self.reserved, Ordering::Relaxed);
    }
}

/// One memory.
struct InPlace {
    place: Place,
    bytes: usize,
    /// What it may grow to: nothing beyond is charged.
    most: u64,
}

// SAFETY: the pages up to `byte_size` are mapped and may be written to for as long as this lives, and are moved by `grow_to` alone, beyond
// `byte_capacity`.
unsafe impl LinearMemory for InPlace {
    fn byte_size(&self) -> usize {
        self.bytes
    }

    fn byte_capacity(&self) -> usize {
        self.place.reserved as usize
    }

    fn grow_to(&mut self, bytes: usize) -> Result<()> {
        let accessible = page_up(bytes as u64);
        if accessible <= self.place.reserved {
            self.place.make_accessible(accessible.max(self.place.accessible)).map_err(refused)?;
        } else {
            let moved = Place::new(bytes as u64, self.most).map_err(refused)?;
            // SAFETY: both places are mapped, may be read and written to that far, and do not overlap.
            unsafe { copy_nonoverlapping(self.place.start(), moved.start(), self.bytes) };
            self.place = moved;
        }
        self.bytes = bytes;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.place.start()
    }
}
