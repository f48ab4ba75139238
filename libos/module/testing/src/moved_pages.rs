//! Memory that moves between buffers and what functions map, in miniature.

use crate::{Domain, Shared};
use monohull_abi::Errno;
use monohull_abi::layout::{PAGE, cell_base, page_down, page_up};
use monohull_abi::types::{MOVED_MIN, MapAccess};

impl Domain {
    /// How many pages of the arena have memory that comes from a cell.
    pub fn remapped_pages(&self) -> usize {
        self.shared.remapped.borrow().len()
    }

    /// From now on no more than this many bytes of a call are moved.
    pub fn move_at_most(&self, bytes: u64) {
        self.shared.moves.set(bytes);
    }
}

/// Whether all of these pages are mapped and may be written to.
fn are_writable(shared: &Shared, instance: u32, address: u64, bytes: u64) -> bool {
    let mapped = shared.mapped_pages.borrow();
    let own = cell_base(instance as usize)..cell_base(instance as usize + 1);
    let Some(end) = address.checked_add(page_up(bytes)).filter(|end| own.contains(&address) && *end <= own.end) else {
        return false;
    };
    let pages = mapped.range(address..end).filter(|(_, page)| page.access == MapAccess::ReadWrite);
    pages.count() as u64 == (end - address) / PAGE
}

/// Copies, and empties the whole pages of the source; not more than may be moved.
fn transfer(shared: &Shared, from: u64, to: u64, bytes: u64) -> Result<(), Errno> {
    let (mut memory, most) = (shared.memory.borrow_mut(), shared.moves.get());
    let mut copy = vec![0; bytes.min(most) as usize];
    assert!(memory.read(from, &mut copy) && memory.write(to, &copy));
    memory.discard(from, page_down(bytes.min(most)));
    if bytes <= most { Ok(()) } else { Err(Errno::OutOfMemory) }
}

pub(crate) fn move_in(shared: &Shared, instance: u32, buffer: u64, address: u64, bytes: u64) -> Result<(), Errno> {
    if !are_writable(shared, instance, address, bytes) {
        return Err(Errno::Fault);
    }
    transfer(shared, buffer, address, bytes)
}

pub(crate) fn move_out(
    shared: &Shared,
    instance: u32,
    address: u64,
    buffer: u64,
    bytes: u64,
    remap: bool,
) -> Result<bool, Errno> {
    if !are_writable(shared, instance, address, bytes) {
        return Err(Errno::Fault);
    }
    let is_remapped = remap && bytes >= MOVED_MIN;
    if is_remapped {
        shared.remapped.borrow_mut().extend((buffer..buffer + page_down(bytes)).step_by(PAGE as usize));
    }
    transfer(shared, address, buffer, bytes).map(|()| is_remapped)
}
