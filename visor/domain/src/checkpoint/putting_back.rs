//! Captured pages, put where they were: large parts as private mappings of the memory that has them, the rest as copies.
//!
//! ```text
//!   sealed memory     │ ██████████████████████████ │ ██ │ ██████████████ │ …        any number of processes have it
//!                          │ mapped                   │ copied
//!   cell              data │ heap ██████▓██████▓███   │ stacks ██                     ▓ written to: a page of its own
//! ```
//!
//! What is mapped takes no time for pages that are not touched, and no memory for those that are only read. A part is data or heap, whose memory an
//! instance cannot free: a page that is dropped there would show the file again. Mapped memory can be freed in parts, and each costs a
//! mapping of the kernel's then, of which an instance has a limited number. So that is done for a template, whose functions do so with what
//! they begin with as well, and not for the rest of a run, which is to end as it would have without an interruption.

use super::captured_pages::Run;
use super::pages;
use super::restore_error::RestoreError;
use crate::address_space::{AddressSpace, PageUse};
use crate::cell::Cell;
use monohull_abi::layout::{CELL_SIZE, PAGE, cell_base};
use std::cmp::Reverse;
use std::ops::Range;

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

/// A part of a run that may be a mapping.
struct Part {
    /// Which run it is of.
    run: usize,
    pages: Range<u64>,
}

/// Gives cells the contents of runs of pages, which are in the order of their addresses. Each has its own cell's; those of none are copied.
///
/// # Safety
/// They lie in writable memory of these cells or elsewhere of functions, and no function that has access to it runs.
pub(super) unsafe fn put_back(
    space: &AddressSpace,
    cells: &mut [&mut Cell],
    runs: &[Run<'_>],
    mappable: Mappable,
) -> Result<(), RestoreError> {
    let mut parts = Vec::new();
    for (index, run) in runs.iter().enumerate().filter(|(_, run)| run.bytes.len() as u64 >= MAPPED && run.is_mappable())
    {
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
    let mut parts = parts.into_iter().peekable();
    for (index, run) in runs.iter().enumerate() {
        let copy = |part: Range<u64>| {
            let bytes = &run.bytes[(part.start - run.address) as usize..(part.end - run.address) as usize];
            // SAFETY: the caller's promise.
            unsafe { copy_back(space, part.start, bytes) };
        };
        let mut at = run.address;
        while let Some(Part { pages, .. }) = parts.next_if(|part| part.run == index) {
            let Some((file, offset)) = run.file else { continue };
            let Some(cell) = cell_around(cells, run.address) else { continue };
            if cell.show_file(space, pages.clone(), file, offset + (pages.start - run.address))? {
                copy(at..pages.start);
                at = pages.end;
            }
        }
        copy(at..run.range().end);
    }
    Ok(())
}

/// The cell that has an address.
fn cell_around<'c>(cells: &'c mut [&mut Cell], address: u64) -> Option<&'c mut Cell> {
    let has = |cell: &Cell| (cell_base(cell.index())..cell_base(cell.index()) + CELL_SIZE).contains(&address);
    cells.iter_mut().map(|cell| &mut **cell).find(|cell| has(cell))
}

/// Writes pages back to where they were.
///
/// # Safety
/// They lie in writable memory of functions, and no function that has access to it runs.
unsafe fn copy_back(space: &AddressSpace, address: u64, bytes: &[u8]) {
    if bytes.len() as u64 >= POPULATED {
        // Older kernels refuse: the pages come one by one then.
        let _ = space.populate(address..address + bytes.len() as u64, PageUse::Write);
    }
    // SAFETY: the caller's promise.
    unsafe { pages::put_back(address, bytes) };
}
