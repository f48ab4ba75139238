//! Memory of a domain that goes on from a checkpoint, filled from there as it is touched.
//!
//! ```text
//!   cell   data │ heap ░░░░░░░░▓▓░░░░▓░░░░ │ mapped memory ░░░▓▓▓░░      ░ missing     ▓ touched: filled
//!                              │
//!                              └─▶ userfaultfd ─▶ pager thread ─▶ PageSource ─▶ UFFDIO_COPY
//! ```
//!
//! A workflow that has slept often looks at little of its memory before it sleeps again. So only that is read, and compared with its
//! hashes. What is around a page comes with it and is kept beside, until a second page of them is touched. So it is known what was touched, without a wait
//! for each page. Where pages are touched one after the other more and more are filled at once.
//!
//! A page is filled once. If it is dropped afterwards, or was dropped before, it is zero when it is touched: the kernel goes on to ask for it.

use super::ENDED;
use super::faults::Faults;
use crate::address_space::AddressSpace;
use crate::missing_pages::MissingPages;
use monohull_abi::layout::{PAGE, page_down, page_up};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pages that come with one that is touched. To read and compare them takes less time than to wait for one of them.
const AROUND: u64 = 4;
/// So often what came with a page is kept: the latest.
const KEPT_MOST: usize = 16;
/// Most pages that are made zero at once.
const AT_ONCE: u64 = 512;
/// What was touched before is kept in mind as long as it is no more than one in so many pages.
const OLD_PART: u64 = 4;

/// Where pages are that a domain gets when it touches them.
pub trait PageSource: Send + Sync + Debug {
    /// Most pages that it gives at once.
    fn most(&self) -> u64;

    /// Has the contents of so many pages from an address on taken; or says why there are none. It may be called by several threads, and
    /// waits for no thread of the domain.
    fn pages(&self, address: u64, count: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), PageError>;

    /// A page that was touched cannot be had. Where this returns, the instance that waits for it ends with an error.
    fn lost(&self, error: &PageError);
}

/// A page cannot be had.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// It is not what it was.
    #[error("{0}")]
    Damaged(String),
    /// The host does not give it now.
    #[error("{0}")]
    Host(String),
}

/// Parts of cells whose pages come from a source.
#[derive(Debug)]
pub(super) struct Later {
    /// The most pages that the source gives at once.
    most: u64,
    faults: Arc<Faults>,
    /// Whole pages, upwards.
    parts: Vec<Range<u64>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Where pages come from, as long as some are missing.
    source: Option<Arc<dyn PageSource>>,
    /// How many are.
    missing: u64,
    /// One bit for each page of each part that was filled or dropped.
    done: Vec<Vec<u64>>,
    /// The same for those that were dropped, and are not there since.
    dropped: Vec<Vec<u64>>,
    /// The same for those that never were to be filled from the source: the domain had them when it went on.
    others: Vec<Vec<u64>>,
    /// The same for those that have been asked for. None comes a second time with another one, so that none is asked for more than twice.
    asked: Vec<Vec<u64>>,
    /// What came with pages that were touched.
    kept: VecDeque<Kept>,
    /// The page behind the last that were filled for a fault, and how many those were.
    next: (usize, u64),
    ahead: u64,
    /// Why pages cannot be had any more.
    lost: Option<String>,
    /// What an earlier part of the run has touched: addresses and bytes.
    before: Vec<(u64, u64)>,
    /// What has been touched until all was needed.
    touched: Option<Vec<(u64, u64)>>,
    /// Whether a capture may do without what has not been touched.
    may_leave: bool,
}

/// Pages of a part. Those that are missing may be filled with these bytes.
#[derive(Debug)]
struct Kept {
    part: usize,
    pages: Range<u64>,
    bytes: Vec<u8>,
}

impl Kept {
    fn bytes(&self, pages: &Range<u64>) -> &[u8] {
        let at = |page: u64| ((page - self.pages.start) * PAGE) as usize;
        &self.bytes[at(pages.start)..at(pages.end)]
    }
}

impl Later {
    /// The parts, which are upwards, are watched from before anything runs that could touch them. Pages of `others` are not the source's: they are
    /// filled before that, with [`Later::give`] or by a store.
    pub(super) fn new(
        source: Arc<dyn PageSource>,
        faults: Arc<Faults>,
        parts: Vec<Range<u64>>,
        others: &[Range<u64>],
    ) -> Later {
        let bits = |part: &Range<u64>| vec![0; pages_in(part).div_ceil(64) as usize];
        let (most, missing) = (source.most(), parts.iter().map(pages_in).sum());
        let [done, dropped, of_others, asked] = [(); 4].map(|()| parts.iter().map(bits).collect());
        let state = State {
            source: Some(source).filter(|_| missing > 0),
            missing,
            done,
            dropped,
            others: of_others,
            asked,
            kept: VecDeque::new(),
            next: (0, 0),
            ahead: AROUND,
            lost: None,
            before: Vec::new(),
            touched: None,
            may_leave: false,
        };
        let later = Later { most, faults, parts, state: Mutex::new(state) };
        {
            let mut state = later.lock();
            for (index, pages) in others.iter().flat_map(|pages| later.within(pages)) {
                pages.clone().for_each(|page| set(&mut state.others[index], page));
                state.finish(index, pages);
            }
        }
        later
    }

    /// Fills pages that are not the source's. What fails is zero when it is touched.
    pub(super) fn give(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.faults.copy(at, bytes.as_ptr() as u64, bytes.len() as u64)
    }

    /// No page of a cell is touched while this is locked.
    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic all that is missing stays so.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part that has an address.
    fn around(&self, address: u64) -> Option<usize> {
        let index = self.parts.partition_point(|part| part.end <= address);
        self.parts.get(index).filter(|part| part.contains(&address)).map(|_| index)
    }

    /// The parts that a range of addresses has pages of, and which those are.
    fn within(&self, range: &Range<u64>) -> impl Iterator<Item = (usize, Range<u64>)> + use<'_> {
        let (start, end) = (page_down(range.start), page_up(range.end));
        let first = self.parts.partition_point(|part| part.end <= start);
        let of_range = self.parts.iter().enumerate().skip(first).take_while(move |(_, part)| part.start < end);
        of_range.map(move |(index, part)| {
            (index, (start.max(part.start) - part.start) / PAGE..(end.min(part.end) - part.start) / PAGE)
        })
    }

    pub(super) fn touched_before(&self, touched: Vec<(u64, u64)>, may_leave: bool) {
        let mut state = self.lock();
        (state.before, state.may_leave) = (touched, may_leave);
    }

    pub(super) fn capture_all(&self) {
        self.lock().may_leave = false;
    }

    /// What has been neither filled nor forgotten, if a capture may do without it. What was dropped is zero then, without a fault for each page.
    pub(super) fn unread(&self) -> Vec<Range<u64>> {
        let mut state = self.lock();
        let mut unread: Vec<Range<u64>> = Vec::new();
        if !state.may_leave {
            return unread;
        }
        for (index, part) in self.parts.iter().enumerate() {
            let mut page = 0;
            while page < pages_in(part) {
                let last = pages_in(part).min(page + AT_ONCE);
                let dropped = state.dropped(index, page..last);
                if dropped > 0 {
                    self.zero(&mut state, index, page..page + dropped);
                }
                page += dropped.max(1);
            }
            for page in (0..pages_in(part)).filter(|page| !state.is_done(index, *page)) {
                let at = part.start + page * PAGE;
                match unread.last_mut() {
                    Some(last) if last.end == at => last.end += PAGE,
                    _ => unread.push(at..at + PAGE),
                }
            }
        }
        unread
    }

    /// What has been touched: now and before, if that is little beside what had not been read. Whether what was touched before is touched again is not
    /// known, so that the list would only grow.
    pub(super) fn touched(&self) -> Vec<(u64, u64)> {
        let mut state = self.lock();
        if let Some(touched) = &state.touched {
            return touched.clone();
        }
        let bytes = |list: &[(u64, u64)]| list.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
        let all = self.parts.iter().map(|part| part.end - part.start).sum::<u64>();
        let mut touched = state.before.clone();
        if bytes(&touched) > all / OLD_PART {
            touched.clear();
        }
        for (index, part) in self.parts.iter().enumerate() {
            for page in (0..pages_in(part)).filter(|page| state.is_touched(index, *page)) {
                let at = part.start + page * PAGE;
                match touched.last_mut() {
                    Some((start, bytes)) if start.checked_add(*bytes) == Some(at) => *bytes += PAGE,
                    _ => touched.push((at, PAGE)),
                }
            }
        }
        touched.sort_unstable();
        if !state.may_leave {
            // All of it is needed from here on.
            state.touched = Some(touched.clone());
        }
        touched
    }

    /// A thread waits for the page at an address. False if it is none of these.
    pub(super) fn serve_fault(&self, space: &AddressSpace, address: u64) -> bool {
        let Some(index) = self.around(address) else { return false };
        let start = self.parts[index].start;
        let page = (address - start) / PAGE;
        let at = start + page * PAGE;
        let mut state = self.lock();
        if state.lost.is_some() {
            self.faults.wake(at..at + PAGE);
        } else if state.is_done(index, page) {
            // It is there, or has been dropped.
            self.zero(&mut state, index, page..page + 1);
            self.faults.wake(at..at + PAGE);
        } else {
            let filled = self.fill_touched(&mut state, index, page);
            drop(state);
            match filled {
                Ok(()) => self.faults.wake(at..at + PAGE),
                Err(error) => self.fail(space, &error),
            }
        }
        true
    }

    /// Fills a page that is missing and was touched. What was touched then is known by what is filled: that page; pages of which two are touched that came
    /// together; and what comes next where pages are touched one after the other.
    fn fill_touched(&self, state: &mut State, index: usize, page: u64) -> Result<(), PageError> {
        if let Some(kept) = state.take_kept(index, page) {
            (state.next, state.ahead) = ((index, kept.pages.end), AROUND);
            return self.fill_kept(state, &kept, kept.pages.clone());
        }
        let goes_on = state.next == (index, page);
        let pages = state.with_page(index, page, pages_in(&self.parts[index]), self.most);
        if goes_on || pages.end - pages.start == 1 {
            return self.fill_pages(state, index, pages);
        }
        let mut kept = Kept { part: index, pages, bytes: Vec::new() };
        self.ask(state, index, &kept.pages, &mut |bytes| {
            kept.bytes = bytes.to_vec();
            Ok(())
        })?;
        self.fill_kept(state, &kept, page..page + 1)?;
        state.next = (index, page + 1);
        state.keep(kept);
        Ok(())
    }

    /// Fills those of these pages that are missing.
    fn fill_kept(&self, state: &mut State, kept: &Kept, mut pages: Range<u64>) -> Result<(), PageError> {
        while !pages.is_empty() {
            let missing = pages.start..state.missing(kept.part, pages.clone());
            if !missing.is_empty() {
                let at = self.parts[kept.part].start + missing.start * PAGE;
                self.copy(at, kept.bytes(&missing)).map_err(not_filled)?;
                state.finish(kept.part, missing.clone());
            }
            pages.start = missing.end.max(pages.start + 1);
        }
        Ok(())
    }

    /// Fills pages that are missing, no more than the source gives at once.
    fn fill_pages(&self, state: &mut State, index: usize, pages: Range<u64>) -> Result<(), PageError> {
        let at = self.parts[index].start + pages.start * PAGE;
        self.ask(state, index, &pages, &mut |bytes| self.copy(at, bytes))?;
        state.finish(index, pages);
        Ok(())
    }

    /// Has the contents of pages taken, no more than the source gives at once.
    fn ask(
        &self,
        state: &mut State,
        index: usize,
        pages: &Range<u64>,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), PageError> {
        let source = state.source.clone().ok_or_else(|| PageError::Host(ENDED.to_owned()))?;
        let at = self.parts[index].start + pages.start * PAGE;
        let count = pages.end - pages.start;
        let mut taken = Err(io::ErrorKind::UnexpectedEof.into());
        source.pages(at, count, &mut |bytes| {
            if bytes.len() as u64 == count * PAGE {
                taken = take(bytes);
            }
        })?;
        taken.map_err(not_filled)?;
        pages.clone().for_each(|page| set(&mut state.asked[index], page));
        Ok(())
    }

    /// Makes pages zero that were dropped, and leaves those that are there.
    fn zero(&self, state: &mut State, index: usize, pages: Range<u64>) {
        let at = |page: u64| self.parts[index].start + page * PAGE;
        if self.faults.zero(at(pages.start), (pages.end - pages.start) * PAGE).is_err() {
            // They consist of several mappings. One that the kernel does not ask for needs nothing.
            pages.clone().for_each(|page| _ = self.faults.zero(at(page), PAGE));
        }
        pages.for_each(|page| clear(&mut state.dropped[index], page));
    }

    /// What the instance has unmapped meanwhile stays so.
    fn copy(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let is_gone = |error: &io::Error| error.raw_os_error() == Some(libc::ENOENT);
        match self.faults.copy(at, bytes.as_ptr() as u64, bytes.len() as u64) {
            // Or it consists of several mappings.
            Err(error) if is_gone(&error) => (at..)
                .step_by(PAGE as usize)
                .zip(bytes.chunks_exact(PAGE as usize))
                .try_for_each(|(at, page)| match self.faults.copy(at, page.as_ptr() as u64, PAGE) {
                    Err(error) if is_gone(&error) => Ok(()),
                    copied => copied,
                }),
            copied => copied,
        }
    }

    fn fail(&self, space: &AddressSpace, error: &PageError) {
        let source = self.lock().source.clone();
        if let Some(source) = source {
            source.lost(error);
        }
        self.end(space, &error.to_string());
    }

    /// No page is filled any more: a touch of one that is missing is a fault for good.
    pub(super) fn end(&self, space: &AddressSpace, why: &str) {
        self.lock().lost.get_or_insert_with(|| why.to_owned());
        for part in &self.parts {
            // Without memory for that, a thread that waits faults again and again: it is ended by its deadline.
            let _ = space.reset(part.clone());
            self.faults.wake(part.clone());
        }
    }

    /// Why the page at an address could not be had, if it is one of these and could not.
    pub(super) fn why_lost(&self, address: u64) -> Option<String> {
        self.around(address)?;
        self.lock().lost.clone()
    }
}

impl MissingPages for Later {
    fn forget(&self, range: &Range<u64>) {
        let mut state = self.lock();
        for (index, pages) in self.within(range) {
            pages.clone().for_each(|page| set(&mut state.dropped[index], page));
            state.finish(index, pages);
        }
    }

    fn fill(&self, range: &Range<u64>) -> io::Result<()> {
        for (index, pages) in self.within(range) {
            let mut page = pages.start;
            while page < pages.end {
                let mut state = self.lock();
                if let Some(why) = &state.lost {
                    return Err(io::Error::other(why.clone()));
                }
                let last = pages.end.min(page + AT_ONCE);
                let dropped = state.dropped(index, page..last);
                if dropped > 0 {
                    self.zero(&mut state, index, page..page + dropped);
                    page += dropped;
                    continue;
                }
                if state.is_done(index, page) {
                    page += 1;
                    continue;
                }
                let end = state.missing(index, page..pages.end.min(page + self.most));
                if let Err(error) = self.fill_pages(&mut state, index, page..end) {
                    let source = state.source.clone();
                    drop(state);
                    if let Some(source) = source {
                        source.lost(&error);
                    }
                    return Err(io::Error::other(error));
                }
                page = end;
            }
        }
        Ok(())
    }
}

impl State {
    fn is_done(&self, part: usize, page: u64) -> bool {
        is_set(&self.done[part], page)
    }

    /// Whether it was the source's, and has been touched.
    fn is_touched(&self, part: usize, page: u64) -> bool {
        self.is_done(part, page) && !is_set(&self.others[part], page)
    }

    /// What came with this page, if it is kept.
    fn take_kept(&mut self, part: usize, page: u64) -> Option<Kept> {
        let has = |kept: &Kept| kept.part == part && kept.pages.contains(&page);
        self.kept.iter().position(has).and_then(|index| self.kept.remove(index))
    }

    fn keep(&mut self, kept: Kept) {
        if self.kept.len() == KEPT_MOST {
            self.kept.pop_front();
        }
        self.kept.push_back(kept);
    }

    /// How many of the first of these have been dropped.
    fn dropped(&self, part: usize, mut pages: Range<u64>) -> u64 {
        let first = pages.start;
        pages.find(|page| !is_set(&self.dropped[part], *page)).unwrap_or(pages.end) - first
    }

    /// These are missing no longer. With the last one the source is not needed any more.
    fn finish(&mut self, part: usize, pages: Range<u64>) {
        for page in pages {
            if !is_set(&self.done[part], page) {
                set(&mut self.done[part], page);
                self.missing -= 1;
            }
        }
        if self.missing == 0 {
            self.source = None;
        }
    }

    /// Where the missing pages end that the first of these begins.
    fn missing(&self, part: usize, mut pages: Range<u64>) -> u64 {
        let end = pages.end;
        pages.find(|page| self.is_done(part, *page)).unwrap_or(end)
    }

    /// The missing pages to be asked for at a fault of this one, in a part of so many.
    fn with_page(&mut self, part: usize, page: u64, pages: u64, most: u64) -> Range<u64> {
        let come = if self.next == (part, page) {
            self.ahead = self.ahead.saturating_mul(2).min(most);
            page..self.missing(part, page..pages.min(page + self.ahead).max(page + 1))
        } else {
            self.ahead = AROUND.min(most);
            let comes = |page: &u64| !self.is_done(part, *page) && !is_set(&self.asked[part], *page);
            let group = page - page % AROUND;
            let first = page - (group..page).rev().take_while(comes).count() as u64;
            let end = pages.min(group + AROUND).min(first + most);
            first..page + 1 + (page + 1..end).take_while(comes).count() as u64
        };
        self.next = (part, come.end);
        come
    }
}

fn not_filled(error: io::Error) -> PageError {
    PageError::Host(format!("the host cannot fill a page: {error}"))
}

fn is_set(bits: &[u64], page: u64) -> bool {
    bits[(page / 64) as usize] & 1 << (page % 64) != 0
}

fn set(bits: &mut [u64], page: u64) {
    bits[(page / 64) as usize] |= 1 << (page % 64);
}

fn clear(bits: &mut [u64], page: u64) {
    bits[(page / 64) as usize] &= !(1 << (page % 64));
}

fn pages_in(range: &Range<u64>) -> u64 {
    (range.end - range.start) / PAGE
}

#[cfg(test)]
mod tests;
