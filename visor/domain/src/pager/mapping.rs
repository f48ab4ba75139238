//! One mapping: a range of a cell, the source of its pages, and which are present.
//!
//! A page is a copy, or it is shown: then it is the file's own, until it is about to be written to. Shown pages count as present.

mod captured;

use super::faults::Faults;
use super::runs::{Planned, Run};
use super::source::Source;
use crate::address_space::{Access, AddressSpace, AddressSpaceError, PageUse};
use crate::keys::Key;
use crate::this_thread::is_interrupted;
use captured::Compared;
use monohull_abi::Errno;
use monohull_abi::file::Advice;
use monohull_abi::layout::PAGE;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Pages around a touched one that are filled with it: as many as the kernel maps around a fault of a file of its own.
pub(super) const AROUND: u64 = 16;
/// The same once a good part of the mapping is there: then most of the rest will be touched as well, and waits cost more than copies.
const FAR_AROUND: u64 = 64;
/// Which part that is: one page in so many.
const GOOD_PART: u64 = 4;
/// Most pages that are filled at once.
const AT_ONCE: u64 = 512;
/// Shown pages that become copies together: the kernel's work for the first costs as much as two copies.
const KEPT_TOGETHER: u64 = 16;
/// Why a page cannot be read whose bytes are not there.
const LOST: &str = "the bytes do not exist any more, or cannot be read from the disk";

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
    /// The runs under which stores find it, if there are any.
    pub(super) entered: OnceLock<Vec<Run>>,
    key: Key,
    source: Source,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) writable: bool,
    /// What is shown may have been written to.
    may_differ: bool,
    /// For the capture that is under way.
    compared: Option<Compared>,
    /// One bit for each page that is there; `None` once all are.
    present: Option<Vec<u64>>,
    /// How many pages were filled.
    filled: u64,
    /// What is shown, upwards.
    shown: Vec<Run>,
    /// One bit for each page that was shown and is a copy now; empty before the first.
    kept: Vec<u64>,
    /// Which runs have such pages.
    divided: Vec<bool>,
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
        let state = State {
            writable,
            may_differ: writable,
            compared: None,
            present: None,
            filled: 0,
            shown: Vec::new(),
            kept: Vec::new(),
            divided: Vec::new(),
            order: Advice::Normal,
            truncated: None,
            unmapped: false,
        };
        let entered = OnceLock::new();
        Mapping { range, len, instance, path, offset, entered, key, source, state: Mutex::new(state) }
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

    /// Where a run of it begins.
    pub(super) fn address_of(&self, run: &Run) -> u64 {
        self.addresses(run.pages.clone()).start
    }

    /// Makes parts of it accessible that show the file's own pages; what the kernel refuses stays to be filled. Nothing of the mapping
    /// is accessible yet. The pages have their key before they have rights.
    pub(super) fn show(&self, space: &AddressSpace, state: &mut State, plan: Vec<Planned<'_>>) -> Result<(), Errno> {
        for Planned { run, file, offset } in plan {
            let addresses = self.addresses(run.pages.clone());
            let access = Mapping::access(state.writable);
            if space.map_file(addresses.clone(), file, offset, access, self.key).is_err() {
                // It may have come half-way.
                return space.reset(addresses).map_err(|_| Errno::OutOfMemory);
            }
            state.shown.push(run);
            state.divided.push(false);
        }
        Ok(())
    }

    /// Makes it accessible, its pages to be filled when they are touched. They are registered before they can be touched, and the
    /// range has its key before any is present.
    pub(super) fn open(&self, space: &AddressSpace, faults: &Faults, state: &mut State) -> io::Result<()> {
        for gap in state.gaps(self.pages()) {
            faults.watch(self.addresses(gap))?;
        }
        state.present = Some(vec![0; self.pages().div_ceil(64) as usize]);
        for run in state.shown.clone() {
            state.mark(run.pages);
        }
        self.protect(space, state).map_err(io::Error::other)
    }

    /// Makes it accessible with all of its pages there.
    pub(super) fn fill_all(&self, space: &AddressSpace, state: &State) -> Result<(), Errno> {
        for gap in state.gaps(self.pages()) {
            self.fill_gap(space, self.addresses(gap))?;
        }
        self.protect(space, state).map_err(|_| Errno::OutOfMemory)
    }

    fn fill_gap(&self, space: &AddressSpace, gap: Range<u64>) -> Result<(), Errno> {
        space.protect(gap.clone(), Access::ReadWrite, self.key).map_err(|_| Errno::OutOfMemory)?;
        if gap.end - gap.start >= AT_ONCE * PAGE {
            space.prefer_huge(gap.clone());
        }
        let end = gap.end.min(self.range.start + self.len);
        let piece = AT_ONCE * PAGE;
        for at in (gap.start..end).step_by(piece as usize) {
            if is_interrupted() {
                return Err(Errno::TimedOut);
            }
            // SAFETY: the pages are new, zero, writable and in a cell, which is no memory of the Rust program; modules are
            // called on carriers.
            unsafe { self.source.read(at - self.range.start, at, piece.min(end - at))? };
        }
        Ok(())
    }

    /// Bytes of it that are not shown.
    pub(super) fn not_shown(&self, state: &State) -> u64 {
        state.gaps(self.pages()).map(|gap| gap.end * PAGE - gap.start * PAGE).sum()
    }

    /// Has the kernel put shown pages in place, because the function has asked for it.
    pub(super) fn prefetch(&self, space: &AddressSpace, place: u64, len: u64) -> io::Result<()> {
        let state = self.lock();
        if state.unmapped {
            return Ok(());
        }
        let (first, end) = (place / PAGE, place.saturating_add(len).div_ceil(PAGE).min(state.end(self.pages())));
        for run in &state.shown {
            let pages = run.pages.start.max(first)..run.pages.end.min(end);
            if !pages.is_empty() {
                space.populate(self.addresses(pages), PageUse::Read)?;
            }
        }
        Ok(())
    }

    /// Copies what is shown of trusted memory that is about to change: the function goes on seeing what it has seen. No thread waits for
    /// another here, only for the disk.
    pub(super) fn keep(&self, space: &AddressSpace, bytes: &Range<u64>) -> Result<(), Errno> {
        let mut state = self.lock();
        let end = state.end(self.pages());
        if state.unmapped {
            return Ok(());
        }
        for index in 0..state.shown.len() {
            let run = &state.shown[index];
            let stored = run.pages_of(bytes);
            if stored.is_empty() {
                continue;
            }
            // Whole groups, as far as they are shown.
            let first = (stored.start - stored.start % KEPT_TOGETHER).max(run.pages.start);
            let last = stored.end.next_multiple_of(KEPT_TOGETHER).min(run.pages.end).min(end);
            let mut page = first;
            while page < last {
                let shown = (page..last).take_while(|page| !state.is_kept(*page)).count() as u64;
                if shown > 0 {
                    self.make_copies(space, &mut state, index, page..page + shown)?;
                }
                page += shown + 1;
            }
        }
        Ok(())
    }

    /// Makes shown pages copies.
    fn make_copies(
        &self,
        space: &AddressSpace,
        state: &mut State,
        index: usize,
        pages: Range<u64>,
    ) -> Result<(), Errno> {
        let addresses = self.addresses(pages.clone());
        // The kernel copies where a write is allowed. The function could write there meanwhile: into pages of its own.
        let mut opened = None;
        if !state.writable {
            // Of the whole run the first time: from then on its parts are alike to the kernel, which joins those that have become one
            // again. And where it cannot divide a mapping any more.
            let run = &state.shown[index].pages;
            let run = self.addresses(run.start..run.end.min(state.end(self.pages())));
            let is_first = !std::mem::replace(&mut state.divided[index], true);
            let ways = if is_first { [run, addresses.clone()] } else { [addresses.clone(), run] };
            let mut ways = ways.into_iter();
            let open = ways.find(|way| space.protect(way.clone(), Access::ReadWrite, self.key).is_ok());
            let open = open.ok_or(Errno::OutOfMemory)?;
            opened = Some(open);
        }
        let copied = match space.populate(addresses.clone(), PageUse::Write) {
            // Some are not there any more: nothing sees those, and the others are copied one by one.
            Err(error) if is_lost(&error) => addresses.step_by(PAGE as usize).try_for_each(|page| {
                let copied = space.populate(page..page + PAGE, PageUse::Write);
                copied.or_else(|error| if is_lost(&error) { Ok(()) } else { Err(error) })
            }),
            copied => copied,
        };
        if let Some(open) = opened
            && space.protect(open.clone(), Access::Read, self.key).is_err()
        {
            tracing::warn!("a mapped file stays writable for the instance that has mapped it, at {:#x}", open.start);
        }
        copied.map_err(|_| Errno::OutOfMemory)?;
        state.note_kept(pages, self.pages());
        Ok(())
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
        state.may_differ |= writable;
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
            state.filled += filled;
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

    /// What lies between and around the runs that are shown, upwards.
    fn gaps(&self, pages: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let starts = std::iter::once(0).chain(self.shown.iter().map(|run| run.pages.end)).collect::<Vec<_>>();
        let ends = self.shown.iter().map(|run| run.pages.start).chain([pages]).collect::<Vec<_>>();
        starts.into_iter().zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty())
    }

    /// Why a page that is shown cannot be read, as the kernel has just found.
    pub(super) fn lost(&self, page: u64) -> Option<&'static str> {
        self.shown.iter().any(|run| run.pages.contains(&page)).then_some(LOST)
    }

    fn is_kept(&self, page: u64) -> bool {
        self.kept.get((page / 64) as usize).is_some_and(|word| word & 1 << (page % 64) != 0)
    }

    fn note_kept(&mut self, pages: Range<u64>, all: u64) {
        self.kept.resize(all.div_ceil(64) as usize, 0);
        for page in pages {
            self.kept[(page / 64) as usize] |= 1 << (page % 64);
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
        let around = if self.filled > pages / GOOD_PART { FAR_AROUND } else { AROUND };
        let start = if before == 0 { self.around(page, around) } else { page };
        let len = (2 * before).clamp(around, AT_ONCE);
        let end = (start + len).min(self.end(pages));
        start..page + self.missing(page..end)
    }

    /// The first of the pages around one that are missing with it.
    fn around(&self, page: u64, around: u64) -> u64 {
        let block = page - page % around;
        (block..page).rev().take_while(|page| !self.is_present(*page)).last().unwrap_or(page)
    }
}

/// Why bytes could not be read, for a message.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EFAULT) => LOST.to_owned(),
        _ => error.to_string(),
    }
}

/// Whether the kernel could not put a page in place because its bytes are not there.
fn is_lost(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EFAULT | libc::EHWPOISON))
}

/// Clears a range of whole kernel mappings, for which the kernel needs no resource that it could lack. If it failed, a function
/// would keep pages that it must not have, or wait for ever.
fn clear(space: &AddressSpace, range: Range<u64>) {
    if let Err(error) = space.reset(range) {
        tracing::error!("a mapped file cannot be unmapped: {error}");
        std::process::abort();
    }
}
