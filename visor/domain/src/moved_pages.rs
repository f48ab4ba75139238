//! Pages that move from one place of the address space to another, with what they hold and without a copy.
//!
//! ```text
//!   source   | a a a a a a |        |             |        |             |     anonymous, read-write; afterwards it is zero
//!                   1 ▼
//!   window   |             |        | a a a a a a |        |   no rights |     reserved; one move at a time
//!                                          2 ▼
//!   target   | x x x x x x |        | x x x x x x |        | a a a a a a |     what it held is freed
//! ```
//!
//! `mremap(2)` frees the target before it looks whether the source is one mapping (up to Linux 6.16): a refusal would leave a hole there, in which a
//! thread of the instance faults. So pages go to a window first, which no thread of an instance uses. If the source is several mappings, it is divided until
//! each piece is one, or is small enough to be copied. What has arrived in the window is one mapping (from Linux 6.17 on it may be several), so the second step is refused
//! for nothing but a lack of memory. A thread that uses the target meanwhile finds what it held before or what it holds then.
//!
//! The place in the window is as far from a huge page's beginning as the target, so that the kernel can move whole tables of pages.

use super::address_space::{Access, AddressSpace, AddressSpaceError, check};
use super::keys::Key;
use monohull_abi::layout::{PAGE, WINDOW_BASE, WINDOW_SIZE};
use monohull_abi::types::MOVED_MIN;
use monohull_trampoline::system::copy;
use std::ops::Range;
use std::sync::PoisonError;

/// Most bytes that are moved under one lock.
pub(super) const MOVED_AT_ONCE: u64 = 64 << 20;
/// A table of pages covers so much.
const TABLE: u64 = 2 << 20;

const _: () = assert!(MOVED_AT_ONCE + TABLE <= WINDOW_SIZE && WINDOW_BASE.is_multiple_of(TABLE));

impl AddressSpace {
    /// Moves what anonymous pages hold to other pages, which get this key; the source reads as zero afterwards. Both may be read and written
    /// to, do not overlap, and belong to one instance. Whether all were moved, and none copied. After an error some have been moved, and the
    /// target may lack pages.
    pub(super) fn move_pages(&self, from: Range<u64>, to: u64, key: Key) -> Result<bool, AddressSpaceError> {
        let (mut done, mut all) = (0, true);
        while done < from.end - from.start {
            let step = (from.end - from.start - done).min(MOVED_AT_ONCE);
            all &= self.move_piece(from.start + done..from.start + done + step, to + done, key)?;
            done += step;
        }
        Ok(all)
    }

    fn move_piece(&self, from: Range<u64>, to: u64, key: Key) -> Result<bool, AddressSpaceError> {
        let bytes = from.end - from.start;
        if self.remap(from.clone(), to, key)? {
            return Ok(true);
        }
        if bytes <= MOVED_MIN {
            return self.copy_pages(from, to).map(|()| false);
        }
        let middle = from.start + (bytes / 2).next_multiple_of(PAGE);
        let first = self.move_piece(from.start..middle, to, key)?;
        Ok(self.move_piece(middle..from.end, to + (middle - from.start), key)? && first)
    }

    /// Copies, and empties the source.
    pub(super) fn copy_pages(&self, from: Range<u64>, to: u64) -> Result<(), AddressSpaceError> {
        copy_bytes(from.clone(), to)?;
        self.discard(from)
    }

    /// Moves a piece that is one mapping. False if it is several, or the kernel has no room for another one: the source is as it was then.
    fn remap(&self, from: Range<u64>, to: u64, key: Key) -> Result<bool, AddressSpaceError> {
        let bytes = from.end - from.start;
        let (start, target) = (WINDOW_BASE + to % TABLE, to..to + bytes);
        let window = start..start + bytes;
        check(&from);
        check(&target);
        check(&window);
        // In its new place nothing fills what is missing.
        self.fill_missing(&from).map_err(|source| AddressSpaceError::Refused {
            what: "read",
            address: from.start,
            bytes,
            source,
        })?;
        let mut is_used = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        self.clear(&mut is_used)?;
        *is_used = true;
        if !remap(&from, start) {
            take_back(&window, from.start);
            // An old kernel has freed its place in the window before it refused.
            self.reset(window)?;
            *is_used = false;
            return Ok(false);
        }
        let is_moved = remap(&window, to);
        let moved = if is_moved { Ok(()) } else { self.refused(&window, &target, key) };
        // The source is empty. At the target, the kernel asks for nothing any more.
        self.forget_missing(&from);
        self.forget_missing(&target);
        // What is left of the window is empty, and has the rights of what was there.
        self.reset(window)?;
        *is_used = false;
        moved?;
        // It has come with the rights and the key of its source. Both are the instance's, but a key is never left to that.
        if self.keys().in_force() {
            self.protect(target, Access::ReadWrite, key)?;
        }
        Ok(true)
    }

    /// Empties the window, if the host has refused to do so when pages had gone through it.
    pub(super) fn clear_window(&self) -> Result<(), AddressSpaceError> {
        self.clear(&mut self.window.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn clear(&self, is_used: &mut bool) -> Result<(), AddressSpaceError> {
        if *is_used {
            self.reset(WINDOW_BASE..WINDOW_BASE + WINDOW_SIZE)?;
            *is_used = false;
        }
        Ok(())
    }

    /// After a second step that was refused, which is an error: what is in the window is copied, but a new kernel may have moved some of it
    /// before.
    #[cold]
    fn refused(&self, window: &Range<u64>, target: &Range<u64>, key: Key) -> Result<(), AddressSpaceError> {
        let source = std::io::Error::last_os_error();
        self.reset(target.clone())?;
        self.protect(target.clone(), Access::ReadWrite, key)?;
        copy_bytes(window.clone(), target.start)?;
        let (address, bytes) = (target.start, target.end - target.start);
        Err(AddressSpaceError::Refused { what: "mremap", address, bytes, source })
    }
}

/// Copies back what has arrived in the window before the rest was refused: from Linux 6.17 on, mappings move one after the other.
fn take_back(window: &Range<u64>, to: u64) {
    let pages = (window.start..window.end).step_by(PAGE as usize);
    // The window has no rights but where something has arrived.
    let _ = pages.zip((to..).step_by(PAGE as usize)).try_for_each(|(page, to)| copy_bytes(page..page + PAGE, to));
}

/// Copies bytes from one place that is an instance's to another; a fault is an error.
pub(super) fn copy_bytes(from: Range<u64>, to: u64) -> Result<(), AddressSpaceError> {
    // SAFETY: both lie in the reservation (the callers check that), where no object of Rust's lives; a fault is survived.
    match unsafe { copy(to as *mut u8, from.start as *const u8, (from.end - from.start) as usize) } {
        true => Ok(()),
        false => Err(AddressSpaceError::Refused {
            what: "copy",
            address: from.start,
            bytes: from.end - from.start,
            source: std::io::Error::from_raw_os_error(libc::EFAULT),
        }),
    }
}

/// Whether the kernel has moved these pages to another place, in place of what was there. The source stays mapped, without memory.
fn remap(from: &Range<u64>, to: u64) -> bool {
    let (bytes, flags) =
        ((from.end - from.start) as usize, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP);
    // SAFETY: mremap(2): source and target lie in the reservation, which only the address space changes; nothing of Rust's own lives
    // there but what these pages are not, as the caller has checked.
    let at = unsafe { libc::mremap(from.start as *mut _, bytes, bytes, flags, to as *mut libc::c_void) };
    at as u64 == to
}
