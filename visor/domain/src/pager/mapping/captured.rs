//! One mapping of a domain that is captured, or that goes on.

use super::{Faults, Mapping, Source, State};
use crate::address_space::AddressSpace;
use monohull_abi::Errno;
use monohull_abi::layout::PAGE;
use monohull_trampoline::system::copy;
use std::ops::Range;

/// What a capture has found.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// The pages that are there, upwards and with gaps between them.
    there: Vec<Range<u64>>,
    /// Those among them that are not as the file has them.
    own: Vec<u64>,
}

impl Compared {
    fn push(&mut self, page: u64) {
        match self.there.last_mut() {
            Some(last) if last.end == page => last.end += 1,
            _ => self.there.push(page..page + 1),
        }
    }
}

/// The bytes of a page; false if it cannot be read.
fn read_page(page: u64, into: &mut [u8; PAGE as usize]) -> bool {
    // SAFETY: the buffer has this size; the page is one of a mapping, and the calling thread is a carrier, which survives a fault.
    unsafe { copy(into.as_mut_ptr(), page as *const u8, into.len()) }
}

impl Mapping {
    /// Finds which pages are there, and which of them differ from `file`. Only carriers call it, and no function runs.
    ///
    /// The pages are touched with the lock held: none of those that are there waits for the thread that fills pages.
    pub(in crate::pager) fn compare(&self, file: &Source) {
        let mut state = self.lock();
        let (mut now, mut compared) = ([0; PAGE as usize], Compared::default());
        for page in 0..state.end(self.pages()) {
            if !state.is_present(page) {
                continue;
            }
            if !state.shows(page, file) {
                if !read_page(self.addresses(page..page).start, &mut now) {
                    // Its bytes do not exist any more, as for the function.
                    continue;
                }
                let mut before = [0; PAGE as usize];
                // SAFETY: the buffer has this size, and the calling thread is a carrier.
                let read = unsafe { file.read(page * PAGE, before.as_mut_ptr() as u64, PAGE) };
                if read.is_err() || now != before {
                    compared.own.push(page);
                }
            }
            compared.push(page);
        }
        state.compared = Some(compared);
    }

    /// The pages that are there, as addresses, and whether it may be written to, after [`Mapping::compare`]. `each` gets those that differ.
    pub(in crate::pager) fn take_compared(&self, each: &mut impl FnMut(u64, &[u8])) -> Option<(Vec<Range<u64>>, bool)> {
        let mut state = self.lock();
        let Compared { there, own } = state.compared.take()?;
        let mut bytes = [0; PAGE as usize];
        for page in own {
            let page = self.addresses(page..page).start;
            if !read_page(page, &mut bytes) {
                return None;
            }
            each(page, &bytes);
        }
        Some((there.into_iter().map(|pages| self.addresses(pages)).collect(), state.writable))
    }

    /// Makes what is not shown of a new mapping accessible, with these pages there: zero, or as the file has them. The others are filled
    /// when they are touched.
    pub(in crate::pager) fn open_again<'f>(
        &self,
        space: &AddressSpace,
        faults: impl FnOnce() -> Option<&'f Faults>,
        there: &[Range<u64>],
        zero: bool,
    ) -> Result<(), Errno> {
        let mut state = self.lock();
        // A page that is shown now may have been written to before.
        state.may_differ = true;
        let gaps: Vec<_> = state.gaps(self.pages()).collect();
        let parts = gaps.iter().flat_map(|gap| {
            let parts = there.iter().map(move |part| part.start.max(gap.start)..part.end.min(gap.end));
            parts.filter(|part| !part.is_empty())
        });
        let parts: Vec<Range<u64>> = parts.collect();
        let count = |ranges: &[Range<u64>]| ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        if zero && count(&parts) == count(&gaps) {
            return self.protect(space, &state).map_err(|_| Errno::OutOfMemory);
        }
        let Some(faults) = faults() else {
            self.fill_all(space, &state)?;
            let mut zeroed = parts.into_iter().filter(|_| zero);
            return zeroed.try_for_each(|part| space.discard(self.addresses(part)).map_err(|_| Errno::OutOfMemory));
        };
        self.open(space, faults, &mut state).map_err(|_| Errno::OutOfMemory)?;
        for part in parts {
            if zero {
                let (at, pages) = (self.addresses(part.clone()).start, part.end - part.start);
                faults.zero(at, pages * PAGE).map_err(|_| Errno::OutOfMemory)?;
                state.mark(part);
                state.filled += pages;
            } else {
                self.fill(faults, &mut state, part).map_err(|_| Errno::Io)?;
            }
        }
        Ok(())
    }
}

impl State {
    /// Whether a page is that of `file` itself, as all know without looking at it.
    fn shows(&self, page: u64, file: &Source) -> bool {
        if self.may_differ {
            return false;
        }
        let mut runs = self.shown.iter().zip(&self.divided);
        let Some((run, divided)) = runs.find(|(run, _)| run.pages.contains(&page)) else { return false };
        let segment = file.at(page * PAGE);
        let is_same = segment.address == Some(run.source + (page - run.pages.start) * PAGE);
        !divided && is_same && segment.len >= PAGE
    }
}
