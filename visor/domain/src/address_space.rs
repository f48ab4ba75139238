//! The address space of a domain: the only place that maps, protects and unmaps it.
//!
//! A domain reserves its whole layout once, inaccessible and without memory behind it; everything after that only
//! changes what is inside the reservation. One function, [`AddressSpace::protect`], gives pages their access rights: with
//! protection keys it is also the one that tags them, so that no mapping can be left untagged.

use super::keys::{Key, Keys};
use super::missing_pages::MissingPages;
use crate::fault_injection::{self, Mitigation};
use monohull_abi::layout::{
    ARENA_BASE, ARENA_END, CARRIER_BASE, CARRIER_BLOCKS, CARRIER_SIZE, CELL_SIZE, CELLS_BASE, CELLS_END, FRAMES_BASE,
    FRAMES_SIZE, INFO_BASE, INFO_SIZE, MAPPINGS_OFFSET, PAGE, USER_BASE, USER_END,
};
use monohull_abi::types::MAP_RANGES_MAX;
use monohull_trampoline::system::copy;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// What a page may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Nothing.
    None,
    /// Constants and relocated data that is final.
    Read,
    /// Data, heap, stacks, slot buffers.
    ReadWrite,
    /// Code.
    ReadExecute,
}

impl Access {
    const fn flags(self) -> i32 {
        match self {
            Access::None => libc::PROT_NONE,
            Access::Read => libc::PROT_READ,
            Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
            Access::ReadExecute => libc::PROT_READ | libc::PROT_EXEC,
        }
    }
}

/// How pages are to be used that the kernel puts in place beforehand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageUse {
    /// They are read.
    Read,
    /// They are written to, so that a private mapping has pages of its own.
    Write,
}

/// The address space could not be changed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum AddressSpaceError {
    #[error("another workflow domain exists in this process")]
    Taken,
    #[error("there are too many ranges of mapped memory")]
    TooManyRanges,
    #[error("the host refused to {what} {bytes} bytes at {address:#x}: {source}")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// Where.
        address: u64,
        /// How much.
        bytes: u64,
        /// The host's answer.
        source: std::io::Error,
    },
}

/// `MADV_GUARD_INSTALL`, Linux 6.13: a guard page without a mapping of its own.
const MADV_GUARD_INSTALL: i32 = 102;

/// Most ranges that all instances together have mapped: each takes up to two of the kernel's mappings, of which a process has some
/// 65 000.
const DOMAIN_RANGES_MAX: usize = 4096;

/// Memory that takes some microseconds to give back.
pub(crate) const SMALL: u64 = 1 << 20;

/// Pieces of the arena from this size on ask for huge pages.
const HUGE: u64 = 2 << 20;

/// One page of zeros to copy from.
static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// The reserved layout. There is one per process at a time, because its addresses are fixed.
#[derive(Debug)]
pub struct AddressSpace {
    /// Dropped after the mappings: a key that is still on a page must not be given away.
    keys: Keys,
    /// Ranges that all instances together have mapped.
    ranges: AtomicUsize,
    /// Where what has been given rights ends, in each of [`DROPPED`].
    used: [AtomicU64; DROPPED.len()],
    /// Files have been mapped into cells.
    maps_files: AtomicBool,
    /// Where the part of the arena begins that is to have huge pages.
    huge_from: AtomicU64,
    /// Pages that are filled when they are touched, and go with the domain.
    missing: OnceLock<Arc<dyn MissingPages>>,
    /// Held while pages are in the window: whether something may be left there.
    pub(super) window: Mutex<bool>,
}

/// What is part of the bare reservation again when another domain takes the address space over: the blocks of carriers but the first,
/// entry frames, slot buffers.
const DROPPED: [Range<u64>; 3] = [
    CARRIER_BASE + CARRIER_SIZE..CARRIER_BASE + CARRIER_BLOCKS as u64 * CARRIER_SIZE,
    FRAMES_BASE..FRAMES_BASE + FRAMES_SIZE,
    ARENA_BASE..ARENA_END,
];

static TAKEN: AtomicBool = AtomicBool::new(false);
/// 0 unknown, 1 there, 2 not there.
static GUARD_ADVICE: AtomicU8 = AtomicU8::new(0);

const RESERVED: [Range<u64>; 2] =
    [CARRIER_BASE..CARRIER_BASE + CARRIER_BLOCKS as u64 * CARRIER_SIZE, USER_BASE..USER_END];

impl AddressSpace {
    /// Reserves the layout, whose pages are tagged with these keys.
    pub fn reserve(keys: Keys) -> Result<AddressSpace, AddressSpaceError> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(AddressSpaceError::Taken);
        }
        for (i, range) in RESERVED.iter().enumerate() {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
            if let Err(error) = map(range, libc::PROT_NONE, flags, -1, 0, "reserve") {
                for done in &RESERVED[..i] {
                    unmap(done);
                }
                TAKEN.store(false, Ordering::Release);
                return Err(error);
            }
        }
        Ok(AddressSpace {
            keys,
            ranges: AtomicUsize::new(0),
            used: Default::default(),
            maps_files: AtomicBool::new(false),
            huge_from: AtomicU64::new(ARENA_END),
            missing: OnceLock::new(),
            window: Mutex::default(),
        })
    }

    /// Every instance gets a key of its own, if keys are in force. No page may be tagged for a function yet.
    pub fn separate_instances(&mut self) {
        self.keys.separate_instances();
    }

    /// The keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Gives the pages of `range` these rights and this key. They must be anonymous memory or a mapping made by
    /// [`Self::map_file`].
    pub fn protect(&self, range: Range<u64>, access: Access, key: Key) -> Result<(), AddressSpaceError> {
        check(&range);
        self.note_use(&range);
        if self.keys.in_force() {
            let key = if fault_injection::disabled(Mitigation::Tagging) { Key::FUNCTIONS } else { key };
            // SAFETY: as below.
            let status = unsafe {
                libc::syscall(libc::SYS_pkey_mprotect, range.start, size(&range), access.flags(), key.number())
            };
            return if status == 0 { Ok(()) } else { Err(refused("protect", &range)) };
        }
        // SAFETY: the range lies in the reservation, which only this type changes; nothing of Rust's own lives there
        // but carrier contexts and the info page, whose rights are set once before they are used.
        let status = unsafe { libc::mprotect(range.start as *mut _, size(&range), access.flags()) };
        if status == 0 { Ok(()) } else { Err(refused("protect", &range)) }
    }

    /// Maps a file's pages there, privately; `offset` is a multiple of the page size. The host sets no memory aside for pages that may be
    /// written to, as for the rest of a cell.
    pub fn map_file(
        &self,
        range: Range<u64>,
        file: BorrowedFd<'_>,
        offset: u64,
        access: Access,
        key: Key,
    ) -> Result<(), AddressSpaceError> {
        check(&range);
        self.note_use(&range);
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // A fresh mapping has key 0, whatever was there before: without rights until the pages have their key.
        let first = if self.keys.in_force() { Access::None } else { access };
        map(&range, first.flags(), flags, file.as_raw_fd(), offset, "map a file into")?;
        self.forget_missing(&range);
        if self.keys.in_force() { self.protect(range, access, key) } else { Ok(()) }
    }

    /// Notes that these pages are about to get rights.
    fn note_use(&self, range: &Range<u64>) {
        for (dropped, used) in DROPPED.iter().zip(&self.used) {
            if dropped.start < range.end && range.start < dropped.end {
                used.fetch_max(range.end.min(dropped.end), Ordering::Relaxed);
            }
        }
        let in_cells = (CELLS_BASE..CELLS_END).contains(&range.start);
        if in_cells && (range.start - CELLS_BASE) % CELL_SIZE >= MAPPINGS_OFFSET {
            self.maps_files.store(true, Ordering::Relaxed);
        }
    }

    /// Whether files have been mapped into cells.
    pub(crate) fn has_mapped_files(&self) -> bool {
        self.maps_files.load(Ordering::Relaxed)
    }

    /// Whether little has been used outside of cells.
    pub(crate) fn is_small(&self) -> bool {
        let used = DROPPED
            .iter()
            .zip(&self.used)
            .map(|(dropped, end)| end.load(Ordering::Relaxed).saturating_sub(dropped.start));
        !self.has_mapped_files() && used.max().is_none_or(|most| most <= SMALL)
    }

    /// What has been used outside of cells is part of the bare reservation again; but for the first carrier's block and the info page,
    /// which is zero. After an error something of it may be left.
    pub(crate) fn drop_used(&mut self) -> Result<(), AddressSpaceError> {
        let parts = [Mitigation::ResetBlocks, Mitigation::ResetFrames, Mitigation::ResetArena];
        let used = std::mem::take(&mut self.used).map(AtomicU64::into_inner);
        for ((dropped, end), part) in DROPPED.iter().zip(used).zip(parts) {
            if end > dropped.start && !fault_injection::disabled(part) {
                self.reset(dropped.start..end)?;
            }
        }
        if !fault_injection::disabled(Mitigation::ResetInfo) {
            // SAFETY: the info page is writable for trusted code as long as there is an address space, and no carrier runs.
            unsafe { std::ptr::write_bytes(INFO_BASE as *mut u8, 0, INFO_SIZE as usize) };
        }
        self.clear_window()?;
        *self.ranges.get_mut() = 0;
        *self.maps_files.get_mut() = false;
        *self.huge_from.get_mut() = ARENA_END;
        self.missing = OnceLock::new();
        Ok(())
    }

    /// Back to the bare reservation: no rights, no memory.
    pub fn reset(&self, range: Range<u64>) -> Result<(), AddressSpaceError> {
        check(&range);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        map(&range, libc::PROT_NONE, flags, -1, 0, "clear")?;
        self.forget_missing(&range);
        Ok(())
    }

    /// Frees the memory of anonymous pages; they keep their rights and read as zero.
    ///
    /// This is how memory is wiped between two owners. The host refuses it for locked memory (`mlockall`), and then the pages may
    /// still hold what they held: they must not get another owner before they are [reset](Self::reset) or discarded.
    pub fn discard(&self, range: Range<u64>) -> Result<(), AddressSpaceError> {
        if range.is_empty() {
            return Ok(());
        }
        check(&range);
        // Before that: what another thread touches meanwhile must not be filled with what is meant to go.
        self.forget_missing(&range);
        // SAFETY: as in `protect`; the caller's data there is meant to go.
        let status = unsafe { libc::madvise(range.start as *mut _, size(&range), libc::MADV_DONTNEED) };
        if status == 0 { Ok(()) } else { Err(refused("wipe", &range)) }
    }

    /// From now on these pages are filled when they are touched. Nothing of the domain runs yet.
    pub(crate) fn fill_when_touched(&self, missing: Arc<dyn MissingPages>) {
        let _ = self.missing.set(missing);
    }

    pub(super) fn forget_missing(&self, range: &Range<u64>) {
        if let Some(missing) = self.missing.get() {
            missing.forget(range);
        }
    }

    /// Fills what is missing of a range: the kernel is about to touch it, or to move it.
    pub(crate) fn fill_missing(&self, range: &Range<u64>) -> std::io::Result<()> {
        self.missing.get().map_or(Ok(()), |missing| missing.fill(range))
    }

    /// Makes a page read as zero, by writing zeros where the host keeps the memory. A page without rights holds nothing.
    pub fn empty_page(&self, page: u64) {
        if self.discard(page..page + PAGE).is_err() {
            // SAFETY: the page lies in the reservation, and what it holds is meant to go; a fault is survived.
            unsafe { copy(page as *mut u8, ZEROS.as_ptr(), ZEROS.len()) };
        }
    }

    /// Gives an accessible page memory, by writing a zero to it.
    pub fn touch_page(&self, page: u64) {
        check(&(page..page + PAGE));
        // SAFETY: the page lies in the reservation, and a fault is survived. What is written there is zero already, unless a function
        // has used the page meanwhile: then it disturbs its own memory.
        unsafe { copy(page as *mut u8, ZEROS.as_ptr(), 1) };
    }

    /// Counts the ranges that an instance has mapped, which were `before` and are `after`: false, and nothing is counted, if
    /// they would be too many. They never are where they become fewer.
    pub fn count_ranges(&self, before: usize, after: usize) -> bool {
        if after <= before {
            self.ranges.fetch_sub(before - after, Ordering::Relaxed);
            return true;
        }
        let add = |all: usize| Some(all + (after - before)).filter(|all| *all <= DOMAIN_RANGES_MAX);
        after <= MAP_RANGES_MAX && self.ranges.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Gives the arena whole pages for buffers. What is behind a large piece is asked for in large pieces, too.
    pub(crate) fn commit_arena(&self, range: Range<u64>, key: Key) -> Result<(), AddressSpaceError> {
        self.protect(range.clone(), Access::ReadWrite, key)?;
        if range.end - range.start >= HUGE {
            self.huge_from.fetch_min(range.start, Ordering::Relaxed);
            self.prefer_huge(range);
        }
        Ok(())
    }

    /// Replaces pages of the arena by new ones, which are zero, and as those around them: the kernel joins them to one mapping.
    pub(crate) fn renew_arena(&self, range: Range<u64>, key: Key) -> Result<(), AddressSpaceError> {
        self.reset(range.clone())?;
        self.protect(range.clone(), Access::ReadWrite, key)?;
        let huge = range.start.max(self.huge_from.load(Ordering::Relaxed))..range.end;
        if !huge.is_empty() {
            self.prefer_huge(huge);
        }
        Ok(())
    }

    /// Asks for huge pages where they fit. Only a hint.
    pub fn prefer_huge(&self, range: Range<u64>) {
        check(&range);
        // SAFETY: a hint does not change what the memory holds.
        unsafe { libc::madvise(range.start as *mut _, size(&range), libc::MADV_HUGEPAGE) };
    }

    /// Has the kernel do now what it does when each of these pages is read or, to get the mapping its own, written to. What can be
    /// done before an error is done.
    pub(crate) fn populate(&self, range: Range<u64>, page_use: PageUse) -> std::io::Result<()> {
        check(&range);
        let advice = match page_use {
            PageUse::Read => libc::MADV_POPULATE_READ,
            PageUse::Write => libc::MADV_POPULATE_WRITE,
        };
        loop {
            // SAFETY: the range lies in the reservation; what the pages hold stays.
            if unsafe { libc::madvise(range.start as *mut _, size(&range), advice) } == 0 {
                return Ok(());
            }
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Makes one page inside accessible memory fault. True if the kernel could do so without splitting the mapping,
    /// of which a process may have only some 65 000.
    pub fn guard(&self, page: u64) -> Result<bool, AddressSpaceError> {
        let range = page..page + PAGE;
        check(&range);
        if GUARD_ADVICE.load(Ordering::Relaxed) != 2 {
            // SAFETY: the page lies in the reservation and holds nothing that is still needed.
            if unsafe { libc::madvise(page as *mut _, PAGE as usize, MADV_GUARD_INSTALL) } == 0 {
                GUARD_ADVICE.store(1, Ordering::Relaxed);
                return Ok(true);
            }
            GUARD_ADVICE.store(2, Ordering::Relaxed);
        }
        // SAFETY: as above.
        let status = unsafe { libc::mprotect(page as *mut _, PAGE as usize, libc::PROT_NONE) };
        if status == 0 { Ok(false) } else { Err(refused("guard", &range)) }
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        for range in &RESERVED {
            unmap(range);
        }
        TAKEN.store(false, Ordering::Release);
    }
}

pub(super) fn check(range: &Range<u64>) {
    let inside = RESERVED.iter().any(|r| r.start <= range.start && range.end <= r.end);
    let aligned = range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE);
    assert!(inside && range.start <= range.end && aligned, "{range:#x?}");
}

fn size(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}

fn refused(what: &'static str, range: &Range<u64>) -> AddressSpaceError {
    let source = std::io::Error::last_os_error();
    AddressSpaceError::Refused { what, address: range.start, bytes: range.end - range.start, source }
}

fn map(
    range: &Range<u64>,
    rights: i32,
    flags: i32,
    file: i32,
    offset: u64,
    what: &'static str,
) -> Result<(), AddressSpaceError> {
    // SAFETY: either the flags refuse to replace anything, or the range lies inside the reservation of this process's
    // only `AddressSpace` (checked by the callers), where nothing but what is being replaced lives.
    let at = unsafe { libc::mmap(range.start as *mut _, size(range), rights, flags, file, offset as i64) };
    if at == range.start as *mut _ {
        return Ok(());
    }
    let error = refused(what, range);
    if at != libc::MAP_FAILED {
        // An old kernel took the address for a hint: give the stray mapping back.
        // SAFETY: it has just been made here and nothing uses it.
        unsafe { libc::munmap(at, size(range)) };
    }
    Err(error)
}

fn unmap(range: &Range<u64>) {
    // SAFETY: the reservation was made by this type and ends with it.
    unsafe { libc::munmap(range.start as *mut _, size(range)) };
}

#[cfg(test)]
mod tests {
    use super::super::one_at_a_time;
    use super::*;

    fn bytes_at<'a>(page: u64) -> &'a mut [u8] {
        // SAFETY: the tests below have made the page readable and writable, and use one reference at a time.
        unsafe { std::slice::from_raw_parts_mut(page as *mut u8, PAGE as usize) }
    }

    /// `MADV_DONTNEED` is refused for locked memory, which then keeps its contents.
    #[test]
    fn memory_that_the_host_does_not_wipe_is_an_error() {
        let _one = one_at_a_time();
        let space = AddressSpace::reserve(Keys::disabled()).expect("address space");
        let pages = ARENA_BASE..ARENA_BASE + 2 * PAGE;
        space.protect(pages.clone(), Access::ReadWrite, Key::FUNCTIONS).expect("rights");
        pages.clone().step_by(PAGE as usize).for_each(|page| bytes_at(page).fill(7));
        // SAFETY: the page is mapped; locking it changes nothing of what it holds.
        assert_eq!(unsafe { libc::mlock(pages.start as *const _, PAGE as usize) }, 0, "one page may be locked");
        let error = space.discard(pages.clone()).expect_err("locked memory is not given back");
        assert!(error.to_string().contains("refused to wipe 8192 bytes"), "{error}");
        assert_eq!(bytes_at(pages.start)[0], 7, "it still holds what it held");
        space.empty_page(pages.start);
        assert_eq!(bytes_at(pages.start), [0; PAGE as usize]);
        bytes_at(pages.start).fill(7);
        space.reset(pages.clone()).expect("a mapping");
        space.protect(pages.clone(), Access::ReadWrite, Key::FUNCTIONS).expect("rights");
        pages.clone().step_by(PAGE as usize).for_each(|page| assert_eq!(bytes_at(page), [0; PAGE as usize]));
        bytes_at(pages.start).fill(7);
        space.discard(pages.clone()).expect("it is not locked any more");
        assert_eq!(bytes_at(pages.start), [0; PAGE as usize]);
    }

    /// A page that was given rights outside of cells has none afterwards, and what it held does not come back with new ones.
    #[test]
    fn what_is_used_outside_of_cells_is_dropped() {
        let _one = one_at_a_time();
        let mut space = AddressSpace::reserve(Keys::disabled()).expect("address space");
        space.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, Key::INFO).expect("the info page");
        let second_block = CARRIER_BASE + CARRIER_SIZE + PAGE;
        let places = [second_block, FRAMES_BASE + 3 * PAGE, ARENA_BASE, ARENA_BASE + (5 << 20), INFO_BASE];
        let give = |space: &AddressSpace, page| {
            space.protect(page..page + PAGE, Access::ReadWrite, Key::FUNCTIONS).expect("rights");
        };
        for page in places {
            give(&space, page);
            bytes_at(page).fill(7);
        }
        space.drop_used().expect("it is dropped");
        let mapped = std::fs::read_to_string("/proc/self/maps").expect("mappings");
        for page in &places[..4] {
            let has_rights = mapped.lines().filter(|line| !line.contains(" ---p ")).any(|line| {
                let bounds =
                    line.split([' ', '-']).take(2).map(|text| u64::from_str_radix(text, 16).expect("hexadecimal"));
                let bounds: Vec<u64> = bounds.collect();
                (bounds[0]..bounds[1]).contains(page)
            });
            assert!(!has_rights, "{page:#x}: {mapped}");
            give(&space, *page);
        }
        for page in places {
            assert_eq!(bytes_at(page), [0; PAGE as usize], "{page:#x}");
        }
    }

    #[test]
    fn a_mapped_file_is_noticed() {
        let _one = one_at_a_time();
        let space = AddressSpace::reserve(Keys::disabled()).expect("address space");
        let protect =
            |start: u64| space.protect(start..start + PAGE, Access::ReadWrite, Key::FUNCTIONS).expect("rights");
        protect(CELLS_BASE + PAGE);
        protect(CELLS_BASE + 3 * CELL_SIZE + MAPPINGS_OFFSET - PAGE);
        assert!(!space.has_mapped_files());
        protect(CELLS_BASE + 3 * CELL_SIZE + MAPPINGS_OFFSET);
        assert!(space.has_mapped_files());
    }
}
