//! What the pages of a checkpoint belong to.

use crate::pages::{Content, Run};
use crate::record::{Contents, InstanceRecord};
use monohull_abi::layout::{
    ARENA_BASE, CELL_SIZE, CELLS_BASE, FILES_BASE, MAPPINGS_OFFSET, PAGE, THREAD_STACKS_OFFSET,
};
use std::collections::BTreeMap;

/// What a page belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PageKind {
    /// A stack.
    Stack,
    /// The writable part of an image.
    Data,
    /// A heap.
    Heap,
    /// Mapped memory.
    Mapped,
    /// A mapped file.
    MappedFile,
    /// A libos module's state: a slot buffer.
    Buffer,
    /// A file in memory.
    FileInMemory,
}

impl PageKind {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            PageKind::Stack => "stacks",
            PageKind::Data => "data of images",
            PageKind::Heap => "heaps",
            PageKind::Mapped => "mapped memory",
            PageKind::MappedFile => "mapped files",
            PageKind::Buffer => "slot buffers",
            PageKind::FileInMemory => "files in memory",
        }
    }
}

/// Numbers of pages, by where their contents come from.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PageCounts {
    /// Stored in the file.
    pub here: u64,
    /// Zero.
    pub zero: u64,
    /// As in the function's image.
    pub base: u64,
    /// As in the parent.
    pub parent: u64,
}

/// Counts the pages of a checkpoint's runs.
pub fn count_pages(contents: &Contents, runs: &[Run]) -> BTreeMap<PageKind, PageCounts> {
    let cells: BTreeMap<u64, &InstanceRecord> =
        contents.instances.iter().map(|instance| (u64::from(instance.id & 0xff), instance)).collect();
    let mut counts: BTreeMap<PageKind, PageCounts> = BTreeMap::new();
    for run in runs {
        let mut rest = *run;
        while rest.count > 0 {
            let (kind, end) = kind(&cells, rest.address);
            let pages = rest.count.min(end.saturating_sub(rest.address).div_ceil(PAGE).max(1));
            let counts = counts.entry(kind).or_default();
            *match run.content {
                Content::Here { .. } => &mut counts.here,
                Content::Zero => &mut counts.zero,
                Content::Base => &mut counts.base,
                Content::Parent => &mut counts.parent,
            } += pages;
            rest = rest.after(pages);
        }
    }
    counts
}

/// What the page at an address belongs to, and where the pages that follow it no longer do.
fn kind(cells: &BTreeMap<u64, &InstanceRecord>, address: u64) -> (PageKind, u64) {
    if address >= FILES_BASE {
        return (PageKind::FileInMemory, u64::MAX);
    }
    if address >= ARENA_BASE {
        return (PageKind::Buffer, FILES_BASE);
    }
    let cell = address.saturating_sub(CELLS_BASE) / CELL_SIZE;
    let base = CELLS_BASE + cell * CELL_SIZE;
    let (stack, heap, heap_end) = cells
        .get(&cell)
        .map_or((0, base, base), |instance| (instance.stack_size, instance.heap_start, instance.heap_end));
    let parts = [
        (PageKind::Stack, base + stack),
        (PageKind::Data, heap),
        (PageKind::Heap, heap_end),
        (PageKind::Mapped, base + THREAD_STACKS_OFFSET),
        (PageKind::Stack, base + MAPPINGS_OFFSET),
    ];
    parts.into_iter().find(|(_, end)| address < *end).unwrap_or((PageKind::MappedFile, base + CELL_SIZE))
}
