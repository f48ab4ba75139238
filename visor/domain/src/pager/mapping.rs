//! One mapping: a range of a cell, the source of its pages, and which are present.

use super::faults::Faults;
use super::source::Source;
use crate::address_space::{Access, AddressSpace, AddressSpaceError};
use crate::keys::Key;
use crate::this_thread::is_interrupted;
use monohull_abi::Errno;
use monohull_abi::file::Advice;
use monohull_abi::layout::PAGE;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// Pages around a touched one that are filled with it: as many as the kernel maps around a fault of a file of its own.
pub(super) const AROUND: u64 = 16;
/// Most pages that are filled at once.
const AT_ONCE: u64 = 512;

/// A mapped part of a file.
#[derive(Debug)]
pub(super) struct Mapping {
    /// Whole pages of a cell.
    pub(super) range: Range<u64>,
    /// Bytes that are the file's.
    pub(super) len: u64,
    /// Whose it is.
    pub(super) instance: u32,
    /// For reports: the file, and where in it the mapping begins.
    pub(super) path: String,
    pub(super) offset: u64,
    key: Key,
    source: Source,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) writable: bool,
    /// One bit for each page that is there; `None` once all are.
    present: Option<Vec<u64>>,
    /// The order in which the function will touch them, by its advice.
    order: Advice,
    /// The first page of those that have been removed, and why.
    pub(super) truncated: Option<(u64, String)>,
    /// The mapping has been removed.
    unmapped: bool,
}

impl Mapping {
    pub(super) fn new(
        range: Range<u64>,
        len: u64,
        instance: u32,
        key: Key,
        (path, offset): (String, u64),
        source: Source,
        writable: bool,
    ) -> Mapping {
        let state = State { writable, present: None, order: Advice::Normal, truncated: None, unmapped: false };
        Mapping { range, len, instance, path, offset, key, source, state: Mutex::new(state) }
    }

    /// Locks out fills, truncation and removal. The lock is not held while a cell is touched, but for filling a mapping that
    /// functions do not know yet. So a thread that waits for the lock never waits for one that waits for a page.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a mapping's state")
    }

    fn pages(&self) -> u64 {
        (self.range.end - self.range.start) / PAGE
    }

    fn addresses(&self, pages: Range<u64>) -> Range<u64> {
        self.range.start + pages.start * PAGE..self.range.start + pages.end * PAGE
    }

    fn access(writable: bool) -> Access {
        if writable { Access::ReadWrite } else { Access::Read }
    }

    /// Makes it accessible, its pages to be filled when they are touched. They are registered before they can be touched, and the
    /// range has its key before any is present.
    pub(super) fn open(&self, space: &AddressSpace, faults: &Faults, state: &mut State) -> io::Result<()> {
        faults.watch(self.range.clone())?;
        state.present = Some(vec![0; self.pages().div_ceil(64) as usize]);
        self.protect(space, state).map_err(io::Error::other)
    }

    /// Makes it accessible with all of its pages there.
    pub(super) fn fill_all(&self, space: &AddressSpace, state: &State) -> Result<(), Errno> {
        let refused = |_| Errno::OutOfMemory;
        space.protect(self.range.clone(), Access::ReadWrite, self.key).map_err(refused)?;
        if self.len >= AT_ONCE * PAGE {
            space.prefer_huge(self.range.clone());
        }
        let piece = AT_ONCE * PAGE;
        for done in (0..self.len).step_by(piece as usize) {
            if is_interrupted() {
                return Err(Errno::TimedOut);
            }
            // SAFETY: the pages are new, zero, writable and in a cell, which is no memory of the Rust program; modules are
            // called on carriers.
            unsafe { self.source.read(done, self.range.start + done, piece.min(self.len - done))? };
        }
        self.protect(space, state).map_err(refused)
    }

    fn protect(&self, space: &AddressSpace, state: &State) -> Result<(), AddressSpaceError> {
        let end = state.truncated.as_ref().map_or(self.range.end, |(page, _)| self.addresses(0..*page).end);
        match self.range.start < end {
            true => space.protect(self.range.start..end, Mapping::access(state.writable), self.key),
            false => Ok(()),
        }
    }

    /// Changes whether it may be written to.
    pub(super) fn set_writable(&self, space: &AddressSpace, writable: bool) -> Result<(), AddressSpaceError> {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.writable, writable);
        if state.unmapped {
            return Ok(());
        }
        self.protect(space, &state).inspect_err(|_| state.writable = before)
    }

    /// What the function will do with it.
    pub(super) fn set_order(&self, order: Advice) {
        self.lock().order = order;
    }

    /// Ends the wait of all threads for the page at an address: the page is present then, or never will be.
    pub(super) fn serve_fault(&self, space: &AddressSpace, faults: &Faults, address: u64) {
        let mut state = self.lock();
        let page = (address - self.range.start) / PAGE;
        if state.unmapped || state.is_present(page) || state.end(self.pages()) <= page {
            return faults.wake(self.addresses(page..page + 1));
        }
        let readahead = state.readahead(page, self.pages());
        if self.fill(faults, &mut state, readahead).is_ok() {
            return;
        }
        // A page that is only read ahead may fail.
        match self.fill(faults, &mut state, page..page + 1) {
            Ok(()) => faults.wake(self.addresses(page..page + 1)),
            Err(error) => self.truncate(space, faults, &mut state, page, reason(&error)),
        }
    }

    /// Fills what is missing of some bytes, for trusted code that is about to have the kernel touch them, or because the function
    /// has asked for it.
    pub(super) fn populate(&self, faults: &Faults, place: u64, len: u64) -> io::Result<()> {
        let pages = self.pages();
        let end = place.saturating_add(len).div_ceil(PAGE).min(pages);
        let mut page = place / PAGE;
        while page < end {
            if is_interrupted() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // Others that wait for a page get their turn in between.
            let mut state = self.lock();
            if state.unmapped || state.present.is_none() {
                return Ok(());
            }
            let next = (page + AT_ONCE).min(end).min(state.end(pages));
            if next <= page {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.fill(faults, &mut state, page..next)?;
            page = next;
        }
        Ok(())
    }

    /// Fills what is missing of some pages; up to the first that cannot be filled.
    fn fill(&self, faults: &Faults, state: &mut State, pages: Range<u64>) -> io::Result<()> {
        let mut page = pages.start;
        while page < pages.end {
            let missing = state.missing(page..pages.end);
            if missing == 0 {
                page += 1;
                continue;
            }
            let (at, place) = (self.addresses(page..page).start, page * PAGE);
            let segment = self.source.at(place);
            let whole = (segment.len / PAGE).min(missing);
            let filled = match (whole, segment.address) {
                (0, _) => {
                    faults.copy_pieces(at, &self.source, place)?;
                    1
                }
                (whole, Some(from)) => {
                    faults.copy(at, from, whole * PAGE)?;
                    whole
                }
                (whole, None) => {
                    faults.zero(at, whole * PAGE)?;
                    whole
                }
            };
            state.mark(page..page + filled);
            page += filled;
        }
        Ok(())
    }

    /// Removes `page`: a touch of it is a fault for good. All pages after it are removed too, so that a mapping is split in two
    /// at most.
    pub(super) fn truncate(&self, space: &AddressSpace, faults: &Faults, state: &mut State, page: u64, why: String) {
        let end = state.end(self.pages());
        if end <= page {
            return;
        }
        let mut from = page;
        if space.reset(self.addresses(from..end)).is_err() {
            // The kernel will not split it.
            from = 0;
            clear(space, self.range.clone());
        }
        state.truncated = Some((from, why));
        faults.wake(self.addresses(from..end));
    }

    /// Removes all of its pages.
    pub(super) fn truncate_all(&self, space: &AddressSpace, faults: &Faults, why: &str) {
        let mut state = self.lock();
        if !state.unmapped && state.present.is_some() {
            self.truncate(space, faults, &mut state, 0, why.to_owned());
        }
    }

    /// Removes the mapping. From here on its source is not read.
    pub(super) fn end(&self, space: &AddressSpace, faults: Option<&Faults>) {
        let mut state = self.lock();
        state.unmapped = true;
        clear(space, self.range.clone());
        if let Some(faults) = faults {
            // A thread that waits for one of its pages tries again, and faults.
            faults.wake(self.range.clone());
        }
    }
}

impl State {
    fn is_present(&self, page: u64) -> bool {
        let Some(present) = &self.present else { return true };
        present[(page / 64) as usize] & 1 << (page % 64) != 0
    }

    /// How many pages are missing from the first of some on.
    fn missing(&self, mut pages: Range<u64>) -> u64 {
        let first = pages.start;
        pages.find(|page| self.is_present(*page)).unwrap_or(pages.end.max(first)) - first
    }

    fn mark(&mut self, pages: Range<u64>) {
        let Some(present) = &mut self.present else { return };
        for page in pages {
            present[(page / 64) as usize] |= 1 << (page % 64);
        }
    }

    /// Where it ends, in pages.
    fn end(&self, pages: u64) -> u64 {
        self.truncated.as_ref().map_or(pages, |(page, _)| *page)
    }

    /// What is filled when a page is touched: some pages around it, or, where a segment before it is there already, as it is when
    /// it is read from start to end, twice as much again.
    fn readahead(&self, page: u64, pages: u64) -> Range<u64> {
        let before = match self.order {
            Advice::Random => return page..page + 1,
            Advice::Sequential => AT_ONCE,
            Advice::Normal | Advice::WillNeed => {
                let behind = (page.saturating_sub(AT_ONCE)..page).rev();
                behind.take_while(|page| self.is_present(*page)).count() as u64
            }
        };
        let start = if before == 0 { self.around(page) } else { page };
        let len = (2 * before).clamp(AROUND, AT_ONCE);
        let end = (start + len).min(self.end(pages));
        start..page + self.missing(page..end)
    }

    /// The first of the pages around one that are missing with it.
    fn around(&self, page: u64) -> u64 {
        let block = page - page % AROUND;
        (block..page).rev().take_while(|page| !self.is_present(*page)).last().unwrap_or(page)
    }
}

/// Why bytes could not be read, for a message.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EFAULT) => "the bytes do not exist any more, or cannot be read from the disk".to_owned(),
        _ => error.to_string(),
    }
}

/// Clears a range of whole kernel mappings, for which the kernel needs no resource that it could lack. If it failed, a function
/// would keep pages that it must not have, or wait for ever.
fn clear(space: &AddressSpace, range: Range<u64>) {
    if let Err(error) = space.reset(range) {
        tracing::error!("a mapped file cannot be unmapped: {error}");
        std::process::abort();
    }
}
