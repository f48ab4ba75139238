//! Memory that functions map, in miniature: the access to each page, and whether it is charged.

use crate::mappings::charge;
use crate::{Domain, Shared};
use monohull_abi::Errno;
use monohull_abi::layout::{PAGE, THREAD_STACKS_OFFSET, cell_base, page_up};
use monohull_abi::types::MapAccess;

/// One page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedPage {
    /// What it may be used for.
    pub access: MapAccess,
    /// It is charged, because it is accessible or still holds something.
    pub charged: bool,
}

impl Domain {
    /// The mapped page at an address.
    pub fn mapped_page(&self, address: u64) -> Option<MappedPage> {
        self.shared.mapped_pages.borrow().get(&address).copied()
    }
}

/// Maps pages below all that the instance has mapped.
pub(crate) fn map(shared: &Shared, instance: u32, bytes: u64, align: u64, access: MapAccess) -> Result<u64, Errno> {
    let (cell, size) = (cell_base(instance as usize), page_up(bytes));
    let top = cell + THREAD_STACKS_OFFSET;
    let lowest = shared.mapped_pages.borrow().range(cell..top).next().map_or(top, |(page, _)| *page);
    let start = lowest.checked_sub(size).ok_or(Errno::NoSpace)? & !(align.max(PAGE) - 1);
    if start < cell {
        return Err(Errno::NoSpace);
    }
    let reserved = MappedPage { access: MapAccess::None, charged: false };
    shared.mapped_pages.borrow_mut().extend((start..start + size).step_by(PAGE as usize).map(|page| (page, reserved)));
    protect(shared, instance, start, size, access).inspect_err(|_| {
        shared.mapped_pages.borrow_mut().retain(|page, _| !(start..start + size).contains(page));
    })?;
    shared.memory.borrow_mut().map(start, size);
    Ok(start)
}

/// Changes each page of a range, all of which must be mapped: `to` gives the new one.
pub(crate) fn change(
    shared: &Shared,
    instance: u32,
    address: u64,
    bytes: u64,
    to: impl Fn(MappedPage) -> Option<MappedPage>,
) -> Result<(), Errno> {
    let end = address.checked_add(bytes).ok_or(Errno::Fault)?;
    let mut mapped = shared.mapped_pages.borrow_mut();
    let pages: Vec<_> = mapped.range(address..end).map(|(page, old)| (*page, *old)).collect();
    let own = (cell_base(instance as usize)..cell_base(instance as usize + 1)).contains(&address);
    if !own || pages.len() as u64 != bytes / PAGE {
        return Err(Errno::Fault);
    }
    let charged = |page: Option<MappedPage>| i64::from(page.is_some_and(|page| page.charged)) * PAGE as i64;
    if !charge(shared, instance, pages.iter().map(|(_, old)| charged(to(*old)) - charged(Some(*old))).sum()) {
        return Err(Errno::OutOfMemory);
    }
    for (page, old) in pages {
        match to(old) {
            Some(new) => mapped.insert(page, new),
            None => mapped.remove(&page),
        };
    }
    Ok(())
}

pub(crate) fn protect(
    shared: &Shared,
    instance: u32,
    address: u64,
    bytes: u64,
    access: MapAccess,
) -> Result<(), Errno> {
    let to = |old: MappedPage| Some(MappedPage { access, charged: old.charged || access != MapAccess::None });
    change(shared, instance, address, bytes, to)
}

pub(crate) fn discard(shared: &Shared, instance: u32, address: u64, bytes: u64) -> Result<(), Errno> {
    let to = |old: MappedPage| Some(MappedPage { charged: old.access != MapAccess::None, ..old });
    change(shared, instance, address, bytes, to)
}
