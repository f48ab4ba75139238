//! Which parts of a mapping can show pages of a file, instead of copies of them.
//!
//! ```text
//!   source    | piece | piece |   piece   | zeros | piece …      trusted memory, contiguous or not
//!   mapping   |  copied  |    run of whole pages    | copied …   a run: the kernel maps the file's own pages there
//! ```
//!
//! A page is shown if all of it is the file's, and if it begins where a page of the file begins. So what lies behind the end of a file
//! in its last page, which may be another file's, is never shown. Each run is a mapping of the kernel, so there are few and none is
//! short.

use super::source::Source;
use super::window::Window;
use monohull_abi::layout::{PAGE, page_down, page_up};
use std::cmp::Reverse;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Fewest pages of a run. A mapping of the kernel costs about as much as copying two.
pub(super) const SHORTEST: u64 = 16;
/// Most runs of a mapping; the longest are taken.
pub(super) const RUNS_MAX: usize = 64;

/// Pages of a mapping that show those of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// Which pages of the mapping.
    pub(super) pages: Range<u64>,
    /// Where trusted code sees the first of them.
    pub(super) source: u64,
}

/// A run, and the file's pages that are to be mapped there.
#[derive(Debug)]
pub(super) struct Planned<'f> {
    pub(super) run: Run,
    pub(super) file: BorrowedFd<'f>,
    pub(super) offset: u64,
}

impl Run {
    /// The addresses at which trusted code sees it.
    pub(super) fn source(&self) -> Range<u64> {
        self.source..self.source + (self.pages.end - self.pages.start) * PAGE
    }

    /// The pages that a range of trusted addresses has a byte of.
    pub(super) fn pages_of(&self, addresses: &Range<u64>) -> Range<u64> {
        let all = self.source();
        let (start, end) = (addresses.start.max(all.start), addresses.end.min(all.end));
        if start >= end {
            return self.pages.start..self.pages.start;
        }
        self.pages.start + (start - all.start) / PAGE..self.pages.start + (end - all.start).div_ceil(PAGE)
    }
}

/// The runs of the first `len` bytes of a source, upwards.
pub(super) fn plan<'f>(source: &Source, len: u64, window: impl Fn(u64) -> Option<Window<'f>>) -> Vec<Planned<'f>> {
    let mut found = Vec::new();
    let mut place = 0;
    while place < len {
        let (address, end) = contiguous(source, place, len);
        if let Some(address) = address {
            found.extend(run(address, place..end, &window));
        }
        if end <= place {
            break;
        }
        place = end;
    }
    if found.len() > RUNS_MAX {
        found.sort_by_key(|planned| Reverse(planned.run.pages.end - planned.run.pages.start));
        found.truncate(RUNS_MAX);
        found.sort_by_key(|planned| planned.run.pages.start);
    }
    found
}

/// The address of the bytes from a place on, and where they stop being side by side.
fn contiguous(source: &Source, place: u64, len: u64) -> (Option<u64>, u64) {
    let first = source.at(place);
    let mut end = place + first.len;
    while let Some(address) = first.address
        && end < len
    {
        let next = source.at(end);
        if next.len == 0 || next.address != Some(address + (end - place)) {
            break;
        }
        end += next.len;
    }
    (first.address, end.min(len))
}

/// The run inside bytes that are side by side, if there is one.
fn run<'f>(address: u64, bytes: Range<u64>, window: impl Fn(u64) -> Option<Window<'f>>) -> Option<Planned<'f>> {
    let (from, to) = (page_up(bytes.start), page_down(bytes.end));
    let source = address + (from - bytes.start);
    if from >= to {
        return None;
    }
    let window = window(source)?;
    let to = to.min(from + page_down(window.len));
    let is_run = window.offset.is_multiple_of(PAGE) && to >= from + SHORTEST * PAGE;
    let run = Run { pages: from / PAGE..to / PAGE, source };
    is_run.then_some(Planned { run, file: window.file, offset: window.offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_abi::file::Extent;
    use std::fs::File;
    use std::os::fd::AsFd;

    const BASE: u64 = 0x7000_0000;
    const LEN: u64 = 1000 * PAGE;

    /// The runs of these extents, given by their offsets in a file that trusted code sees at [`BASE`]: pages and offset of each.
    fn runs(extents: &[(u64, u64)]) -> Vec<(Range<u64>, u64)> {
        let file = File::open("/dev/null").expect("a file");
        let window = |address: u64| {
            let offset = address.checked_sub(BASE).filter(|offset| *offset < LEN)?;
            Some(Window { file: file.as_fd(), offset, len: LEN - offset })
        };
        let list: Vec<Extent> = extents.iter().map(|(at, len)| Extent { address: BASE + at, len: *len }).collect();
        let len = extents.iter().map(|(_, len)| len).sum();
        let planned = plan(&Source::of_extents(&list), len, window);
        assert!(planned.iter().all(|planned| planned.run.source == BASE + planned.offset));
        planned.into_iter().map(|planned| (planned.run.pages, planned.offset)).collect()
    }

    #[test]
    fn whole_pages_that_lie_side_by_side_are_a_run() {
        assert_eq!(runs(&[(0, 20 * PAGE)]), [(0..20, 0)]);
        assert_eq!(runs(&[(3 * PAGE, 20 * PAGE + 1)]), [(0..20, 3 * PAGE)], "not the page that is not full");
        assert_eq!(runs(&[(0, 20 * PAGE - 1)]), [(0..19, 0)]);
        assert_eq!(runs(&[(0, 10 * PAGE), (10 * PAGE, 10 * PAGE)]), [(0..20, 0)], "two extents in one");
        assert_eq!(runs(&[(PAGE, 100), (PAGE + 100, 20 * PAGE)]), [(0..20, PAGE)]);
        assert_eq!(runs(&[(40 * PAGE, 16 * PAGE), (0, 17 * PAGE)]), [(0..16, 40 * PAGE), (16..33, 0)]);
    }

    #[test]
    fn what_no_page_of_the_mapping_begins_with_is_copied() {
        assert_eq!(runs(&[(0, 15 * PAGE)]), [], "short");
        assert_eq!(runs(&[(512, 100 * PAGE)]), [], "in the middle of the file's pages");
        assert_eq!(runs(&[(0, 512), (2 * PAGE, 100 * PAGE)]), [], "as well");
        // The second begins in the middle of a page of both, so its first page is in pieces.
        assert_eq!(runs(&[(0, 512), (2 * PAGE + 512, 100 * PAGE)]), [(1..100, 3 * PAGE)]);
        assert_eq!(runs(&[(LEN + PAGE, 100 * PAGE)]), [], "no file");
        assert_eq!(runs(&[(LEN - 20 * PAGE, 30 * PAGE)]), [(0..20, LEN - 20 * PAGE)], "the file ends");
        assert_eq!(runs(&[]), []);
    }

    #[test]
    fn of_many_runs_the_longest_are_taken() {
        let extents: Vec<(u64, u64)> = (0..20).map(|n| (n * 50 * PAGE, (16 + n) * PAGE)).collect();
        assert_eq!(runs(&extents).len(), 20);
        let many: Vec<(u64, u64)> = (0..200).map(|n| (n % 10 * 60 * PAGE, (16 + n % 3) * PAGE)).collect();
        let taken = runs(&many);
        assert_eq!(taken.len(), RUNS_MAX);
        assert!(
            taken.iter().all(|(pages, _)| pages.end - pages.start == 18) && taken.is_sorted_by_key(|run| run.0.start)
        );
    }

    #[test]
    fn a_store_has_the_pages_that_it_touches() {
        let run = Run { pages: 100..120, source: BASE };
        assert_eq!(run.pages_of(&(BASE..BASE + 1)), 100..101);
        assert_eq!(run.pages_of(&(BASE + PAGE - 1..BASE + PAGE + 1)), 100..102);
        assert_eq!(run.pages_of(&(0..u64::MAX)), 100..120);
        assert_eq!(run.pages_of(&(BASE + 19 * PAGE..BASE + 40 * PAGE)), 119..120);
        for none in [0..BASE, BASE + 20 * PAGE..u64::MAX, BASE + 5..BASE + 5] {
            assert!(run.pages_of(&none).is_empty(), "{none:x?}");
        }
    }
}
