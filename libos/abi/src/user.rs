//! Memory that a function names is an *allegation*: a [`UserSlice`] can do nothing until it has been checked.
//!
//! [`UserSlice::check`] compares it with what the caller may name — its own cell, or one arena buffer that it owns —
//! and gives a [`CheckedSlice`], which copies through the visor's fault-surviving copy routine. Each byte is read once:
//! what has been copied out cannot change under the reader, and a hole in the caller's memory is an error, not a fault.
//!
//! What has been checked stays so. A cell is its instance's until the last of its calls has come back. A buffer of the
//! arena could be handed on by another thread of the caller's, between the check and the copy; so the check pins it, and
//! the slice's drop lets it go:
//!
//! ```text
//!   thread 1   check ── pinned ── copy ── drop
//!   thread 2              └─ SLOT_PUBLISH, SLOT_FREE, SLOT_RESIZE: Busy
//! ```

use crate::Errno;
use crate::layout::{ARENA_BASE, ARENA_END, USER_BASE, USER_END};
use crate::module::{Call, Host, SYSTEM_INSTANCE};
use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// Why an address was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessError {
    /// The address is 0.
    Null,
    /// The address is not a multiple of the alignment.
    Misaligned {
        /// The alignment needed.
        align: u64,
    },
    /// Address plus length does not fit in 64 bits.
    Wraps,
    /// The range touches the system partition.
    Trusted,
    /// The range lies in the user partition, but outside the caller's cell.
    NotYours,
    /// The range lies in the arena, but not inside one buffer that the caller owns.
    NotYourBuffer,
    /// The range is allowed, but nothing is mapped there (or it is read-only).
    Unmapped,
}

impl core::fmt::Display for AccessError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            AccessError::Null => f.write_str("the address is null"),
            AccessError::Misaligned { align } => write!(f, "the address is not a multiple of {align}"),
            AccessError::Wraps => f.write_str("the range wraps around the end of memory"),
            AccessError::Trusted => f.write_str("the range touches the system partition"),
            AccessError::NotYours => f.write_str("the range lies outside the caller's cell"),
            AccessError::NotYourBuffer => f.write_str("the range is not inside a slot buffer that the caller owns"),
            AccessError::Unmapped => f.write_str("nothing the caller may use is mapped there"),
        }
    }
}

impl From<AccessError> for Errno {
    fn from(_: AccessError) -> Errno {
        Errno::Fault
    }
}

/// Plain data that may be copied between partitions byte by byte.
///
/// # Safety
/// Every bit pattern of the type's size is a valid value, and it has no padding.
pub unsafe trait Plain: Copy {}

// SAFETY: integers have no padding and no invalid values.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: four u64.
unsafe impl Plain for crate::types::TypeDesc {}
// SAFETY: three u64.
unsafe impl Plain for crate::types::SlotView {}
// SAFETY: four u64.
unsafe impl Plain for crate::types::SlotInfo {}
// SAFETY: two u64.
unsafe impl Plain for crate::types::FilledSlot {}
// SAFETY: three u64.
unsafe impl Plain for crate::types::HeldBuffer {}
// SAFETY: three u64.
unsafe impl Plain for crate::types::Captured {}
// SAFETY: five u64.
unsafe impl Plain for crate::types::MemoryStats {}
// SAFETY: two u32, a u64, two u32, then u64-sized integers: no padding.
unsafe impl Plain for crate::file::FileStat {}
// SAFETY: two u64.
unsafe impl Plain for crate::file::IoVec {}
// SAFETY: a u64 and two u32: no padding.
unsafe impl Plain for crate::file::DirEntry {}
// SAFETY: two u64.
unsafe impl Plain for crate::file::Extent {}
// SAFETY: eight u64.
unsafe impl Plain for crate::file::FilePin {}
// SAFETY: a u64 and two u32: no padding.
unsafe impl Plain for crate::network::QueueEvent {}
// SAFETY: two u32, sixteen bytes, two u32.
unsafe impl Plain for crate::network::SocketAddress {}

/// `count` elements of `T` somewhere in memory, as a function claims. Unusable until checked.
#[derive(Clone, Copy, Debug)]
pub struct UserSlice<T> {
    address: u64,
    count: u64,
    _element: PhantomData<T>,
}

impl<T: Plain> UserSlice<T> {
    /// Writes the claim down; nothing is looked at.
    pub const fn new(address: u64, count: u64) -> UserSlice<T> {
        UserSlice { address, count, _element: PhantomData }
    }

    /// Compares the claim with what `call`'s instance may name. An empty slice is always fine.
    pub fn check<'h>(self, host: &'h Host, call: &Call) -> Result<CheckedSlice<'h, T>, AccessError> {
        let refusal = match self.check_cell(host, call) {
            Ok(checked) => return Ok(checked),
            Err(refusal) => refusal,
        };
        if refusal != AccessError::NotYours {
            return Err(refusal);
        }
        // It lies in the user partition as a whole, so neither of these wraps.
        let bytes = self.count * size_of::<T>() as u64;
        if self.address < ARENA_BASE || self.address + bytes > ARENA_END {
            return Err(refusal);
        }
        // SAFETY: `host.domain` belongs to this `Host`, which is alive for 'h.
        match unsafe { host.pin(call.instance, self.address, bytes) } {
            1 => Ok(CheckedSlice { pinned: true, ..self.allowed(host) }),
            _ => Err(AccessError::NotYourBuffer),
        }
    }

    /// The same for memory that must be in the caller's own cell, such as a futex word: buffers change their owner. Such
    /// a slice pins nothing.
    pub fn check_cell<'h>(self, host: &'h Host, call: &Call) -> Result<CheckedSlice<'h, T>, AccessError> {
        if self.count == 0 {
            return Ok(self.allowed(host));
        }
        if self.address == 0 {
            return Err(AccessError::Null);
        }
        let align = align_of::<T>() as u64;
        if !self.address.is_multiple_of(align) {
            return Err(AccessError::Misaligned { align });
        }
        let bytes = self.count.checked_mul(size_of::<T>() as u64).ok_or(AccessError::Wraps)?;
        let end = self.address.checked_add(bytes).ok_or(AccessError::Wraps)?;
        if call.instance == SYSTEM_INSTANCE {
            return Ok(self.allowed(host));
        }
        // SAFETY: `host.domain` belongs to this `Host`, which is alive for 'h.
        let own = unsafe { host.bounds(call.instance) };
        if self.address >= own.start && end <= own.end {
            return Ok(self.allowed(host));
        }
        if self.address < USER_BASE || end > USER_END {
            return Err(AccessError::Trusted);
        }
        Err(AccessError::NotYours)
    }

    const fn allowed(self, host: &Host) -> CheckedSlice<'_, T> {
        CheckedSlice { address: self.address, count: self.count as usize, pinned: false, host, _element: PhantomData }
    }
}

/// A slice whose range has been checked; it may still have holes, which the copies report.
///
/// While it lives, the range is the caller's. A handler drops it before it parks, and checks again when it is called
/// again: a call that waits pins nothing. It is not dropped under a lock under which memory changes hands.
pub struct CheckedSlice<'h, T> {
    address: u64,
    count: usize,
    /// It lies in a buffer of the arena, which is pinned for it.
    pinned: bool,
    host: &'h Host,
    _element: PhantomData<T>,
}

impl<T> Drop for CheckedSlice<'_, T> {
    fn drop(&mut self) {
        if self.pinned {
            // SAFETY: the domain is the host's own, and the address was pinned for this slice, once.
            unsafe { self.host.unpin(self.address) }
        }
    }
}

impl<T: Plain> CheckedSlice<'_, T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its first address, for a service that copies by itself and survives holes, while the slice lives.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Copies elements out, from element `start` on, until `to` is full. Read once: the copy is the reader's own.
    pub fn read_at<'t>(&self, start: usize, to: &'t mut [MaybeUninit<T>]) -> Result<&'t mut [T], AccessError> {
        let from = self.range(start, to.len())?;
        // SAFETY: `to` is writable for its whole size, and `from` has been checked to be the caller's; holes are
        // survived by the copy routine.
        let status = unsafe { self.host.read_user(to.as_mut_ptr().cast(), from, size_of_val(to)) };
        if status != 0 {
            return Err(AccessError::Unmapped);
        }
        // SAFETY: every byte has just been written, and all bit patterns of a `Plain` type are valid.
        Ok(unsafe { core::slice::from_raw_parts_mut(to.as_mut_ptr().cast(), to.len()) })
    }

    /// The same into a slice that holds something already.
    pub fn read_into(&self, start: usize, to: &mut [T]) -> Result<(), AccessError> {
        let from = self.range(start, to.len())?;
        // SAFETY: as in `read_at`.
        let status = unsafe { self.host.read_user(to.as_mut_ptr().cast(), from, size_of_val(to)) };
        if status == 0 { Ok(()) } else { Err(AccessError::Unmapped) }
    }

    /// Copies `from` to the start of the slice, which must be at least as long.
    pub fn write(&self, from: &[T]) -> Result<(), AccessError> {
        self.write_at(0, from)
    }

    /// Copies `from` to the slice, from element `start` on.
    pub fn write_at(&self, start: usize, from: &[T]) -> Result<(), AccessError> {
        let to = self.range(start, from.len())?;
        // SAFETY: `from` is readable, `to` has been checked to be the caller's; holes are survived.
        let status = unsafe { self.host.write_user(to, from.as_ptr().cast(), size_of_val(from)) };
        if status == 0 { Ok(()) } else { Err(AccessError::Unmapped) }
    }

    fn range(&self, start: usize, count: usize) -> Result<u64, AccessError> {
        let end = start.checked_add(count).ok_or(AccessError::Wraps)?;
        if end > self.count {
            return Err(AccessError::NotYours);
        }
        Ok(self.address + (start * size_of::<T>()) as u64)
    }
}

/// One `T` that a function names; the same as a slice of one.
pub fn read_one<T: Plain>(host: &Host, call: &Call, address: u64) -> Result<T, AccessError> {
    let mut value = [MaybeUninit::uninit()];
    let slice = UserSlice::<T>::new(address, 1).check(host, call)?;
    Ok(slice.read_at(0, &mut value)?[0])
}

/// Writes one `T` where a function asked for it.
pub fn write_one<T: Plain>(host: &Host, call: &Call, address: u64, value: T) -> Result<(), AccessError> {
    UserSlice::<T>::new(address, 1).check(host, call)?.write(&[value])
}
