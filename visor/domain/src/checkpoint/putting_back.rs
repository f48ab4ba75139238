//! Captured pages, put where they were: large parts as private mappings of the memory that has them, or to be filled from elsewhere as they
//! are touched; the rest as copies.
//!
//! ```text
//!   sealed memory     │ ██████████████████████████ │ ██ │ ██████████████ │ …        any number of processes have it
//!                          │ mapped                   │ copied
//!   cell              data │ heap ██████▓██████▓███   │ stacks ██                     ▓ written to: a page of its own
//!                                                        mapped memory ░░░░▓▓░░░        ▓ touched: filled from elsewhere
//! ```
//!
//! What is mapped takes no time for pages that are not touched, and no memory for those that are only read. A part is data or heap, whose memory an
//! instance cannot free: a page that is dropped there would show the file again. Mapped memory can be freed in parts, and each costs a
//! mapping of the kernel's then, of which an instance has a limited number. So that is done for a template, whose functions do so with what
//! they begin with as well, and not for the rest of a run, which is to end as it would have without an interruption.
//!
//! What is filled from elsewhere is memory like any other, so it can be all of these.

use super::captured_pages::{Contents, Run};
use super::pages;
use super::restore_error::RestoreError;
use crate::address_space::{AddressSpace, PageUse};
use crate::cell::Cell;
use crate::pager::{PageError, PageSource, Pager};
use monohull_abi::layout::{CELL_SIZE, PAGE, cell_base};
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

/// Runs of so many bytes or more get their pages by one system call, and not by a fault for each.
const POPULATED: u64 = 8 * PAGE;

/// Parts of runs from this size on are mapped, which takes as long as to copy a few pages.
const MAPPED: u64 = 16 * PAGE;
/// Most parts that are, the largest ones: each divides a mapping of the kernel's, of which a process has some 65 000.
const MAPPED_MOST: usize = 512;
/// The same of a template, where parts of mapped memory count as ranges of the instance.
const MAPPED_MOST_OF_TEMPLATE: usize = 64;

/// What of a cell may be a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mappable {
    /// Data and heap.
    Fixed,
    /// Mapped memory as well.
    All,
}

impl Mappable {
    fn most(self) -> usize {
        match self {
            Mappable::Fixed => MAPPED_MOST,
            Mappable::All => MAPPED_MOST_OF_TEMPLATE,
        }
    }
}

/// A part of a run that may be a mapping, or be filled later.
struct Part {
    /// Which run it is of.
    run: usize,
    pages: Range<u64>,
}

/// Gives cells the contents of runs of pages, which are in the order of their addresses. Each has its own cell's; those of none are copied. Runs
/// that are elsewhere have this `source`.
///
/// # Safety
/// They lie in writable memory of these cells or elsewhere of functions, and no function that has access to it runs.
pub(super) unsafe fn put_back(
    space: &AddressSpace,
    cells: &mut [&mut Cell],
    runs: &[Run<'_>],
    mappable: Mappable,
    later: Option<(&Pager, &Arc<dyn PageSource>)>,
) -> Result<(), RestoreError> {
    let (mapped, elsewhere): (Vec<_>, Vec<_>) = large_parts(cells, runs, mappable)
        .into_iter()
        .partition(|part| matches!(runs[part.run].contents, Contents::File(..)));
    let (watched, given) = match later {
        Some((pager, source)) => fill_later(space, cells, runs, elsewhere, (pager, source))?,
        None => Default::default(),
    };
    let pager_of = |part: &Range<u64>| {
        let next = given.partition_point(|given| given.end <= part.start);
        let is_given = given.get(next).is_some_and(|given| given.start <= part.start && part.end <= given.end);
        later.filter(|_| is_given).map(|(pager, _)| pager)
    };
    let mut parts: Vec<_> = mapped.into_iter().chain(watched).collect();
    parts.sort_by_key(|part| part.pages.start);
    let mut parts = parts.into_iter().peekable();
    for (index, run) in runs.iter().enumerate() {
        let copy = |part: Range<u64>| match pager_of(&part) {
            Some(pager) => each_piece(run, part, |address, bytes| {
                if !pager.give(address, bytes) {
                    // SAFETY: the caller's promise. The pager makes the page zero first.
                    unsafe { pages::put_back(address, bytes) };
                }
            }),
            // SAFETY: the caller's promise.
            None => unsafe { copy_back(space, run, part) },
        };
        let mut at = run.address;
        while let Some(Part { pages, .. }) = parts.next_if(|part| part.run == index) {
            let is_done = match run.contents {
                Contents::File(_, file, offset) => match cell_around(cells, run.address) {
                    Some(cell) => cell.show_file(space, pages.clone(), file, offset + (pages.start - run.address))?,
                    None => false,
                },
                Contents::Later(_) => true,
                Contents::Bytes(_) => false,
            };
            if is_done {
                copy(at..pages.start)?;
                at = pages.end;
            }
        }
        copy(at..run.range().end)?;
    }
    Ok(())
}

/// The largest parts of runs that need not be copied, upwards.
fn large_parts(cells: &mut [&mut Cell], runs: &[Run<'_>], mappable: Mappable) -> Vec<Part> {
    let mut parts = Vec::new();
    for (index, run) in runs.iter().enumerate().filter(|(_, run)| run.len >= MAPPED) {
        let mappable = match run.contents {
            Contents::File(..) => mappable,
            Contents::Later(_) => Mappable::All,
            Contents::Bytes(_) => continue,
        };
        let Some(cell) = cell_around(cells, run.address) else { continue };
        let of_cell = cell.parts_to_show(&run.range()).into_iter();
        let of_cell = of_cell.filter(|part| mappable == Mappable::All || part.start < cell.heap().end);
        let large = of_cell.filter(|part| part.end - part.start >= MAPPED);
        parts.extend(large.map(|pages| Part { run: index, pages }));
    }
    if parts.len() > mappable.most() {
        parts.sort_by_key(|part| Reverse(part.pages.end - part.pages.start));
        parts.truncate(mappable.most());
        parts.sort_by_key(|part| part.pages.start);
    }
    parts
}

/// Has parts filled when they are touched: those of which the kernel tells that. Between parts of a heap there may be a few pages that the run is
/// known to touch. Then they are one range of the kernel's, so that each does not cost three system calls and a mapping. These pages are told as well:
/// they lie in memory that is watched.
fn fill_later(
    space: &AddressSpace,
    cells: &mut [&mut Cell],
    runs: &[Run<'_>],
    parts: Vec<Part>,
    (pager, source): (&Pager, &Arc<dyn PageSource>),
) -> Result<(Vec<Part>, Vec<Range<u64>>), RestoreError> {
    let (mut ranges, mut between): (Vec<Range<u64>>, Vec<Range<u64>>) = Default::default();
    for Part { pages, .. } in &parts {
        let heap = cell_around(cells, pages.start).map(|cell| cell.heap()).unwrap_or_default();
        match ranges.last_mut() {
            Some(last)
                if heap.start <= last.start && pages.end <= heap.end && is_given(runs, last.end..pages.start) =>
            {
                between.extend(Some(last.end..pages.start).filter(|pages| !pages.is_empty()));
                last.end = pages.end;
            }
            _ => ranges.push(pages.clone()),
        }
    }
    for range in &ranges {
        if let Some(cell) = cell_around(cells, range.start) {
            cell.empty(space, range.clone())?;
        }
    }
    let watched = pager.fill_later(ranges, &between, source);
    let is_watched = |pages: &Range<u64>| {
        let next = watched.partition_point(|range| range.end <= pages.start);
        watched.get(next).is_some_and(|range| range.start <= pages.start)
    };
    let parts = parts.into_iter().filter(|part| is_watched(&part.pages)).collect();
    Ok((parts, between.into_iter().filter(is_watched).collect()))
}

/// Whether these pages are few, and runs that are here have all of them, so that each is there before anything runs.
fn is_given(runs: &[Run<'_>], pages: Range<u64>) -> bool {
    let (mut at, mut next) = (pages.start, runs.partition_point(|run| run.range().end <= pages.start));
    while let Some(run) = runs.get(next).filter(|run| at < pages.end && run.address <= at) {
        if let Contents::Later(_) = run.contents {
            return false;
        }
        (at, next) = (run.range().end, next + 1);
    }
    at == pages.end && pages.end - pages.start < MAPPED
}

/// The cell that has an address.
fn cell_around<'c>(cells: &'c mut [&mut Cell], address: u64) -> Option<&'c mut Cell> {
    let has = |cell: &Cell| (cell_base(cell.index())..cell_base(cell.index()) + CELL_SIZE).contains(&address);
    cells.iter_mut().map(|cell| &mut **cell).find(|cell| has(cell))
}

/// Writes a part of a run back to where it was.
///
/// # Safety
/// It lies in writable memory of functions, and no function that has access to it runs.
unsafe fn copy_back(space: &AddressSpace, run: &Run<'_>, part: Range<u64>) -> Result<(), RestoreError> {
    if part.end - part.start >= POPULATED {
        // Older kernels refuse: the pages come one by one then.
        let _ = space.populate(part.clone(), PageUse::Write);
    }
    // SAFETY: the caller's promise.
    each_piece(run, part, |address, bytes: &[u8]| unsafe { pages::put_back(address, bytes) })
}

/// Has the contents of a part of a run taken, piece by piece.
pub(super) fn each_piece(
    run: &Run<'_>,
    part: Range<u64>,
    mut take: impl FnMut(u64, &[u8]),
) -> Result<(), RestoreError> {
    let source = match run.contents {
        Contents::Bytes(bytes) | Contents::File(bytes, ..) => {
            take(part.start, &bytes[(part.start - run.address) as usize..(part.end - run.address) as usize]);
            return Ok(());
        }
        Contents::Later(source) => source,
    };
    let mut at = part.start;
    while at < part.end {
        let count = ((part.end - at) / PAGE).min(source.most());
        let mut is_whole = false;
        let given = source.pages(at, count, &mut |bytes| {
            is_whole = bytes.len() as u64 == count * PAGE;
            if is_whole {
                take(at, bytes);
            }
        });
        given?;
        if !is_whole {
            return Err(PageError::Host(format!("there are not {count} pages at {at:#x}")).into());
        }
        at += count * PAGE;
    }
    Ok(())
}
