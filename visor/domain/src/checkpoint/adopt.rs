//! The memory of a captured instance, laid out again in a fresh cell: heap, stacks, mapped ranges, fault handler. Its pages come after.

use super::check::Rejected;
use super::record::InstanceRecord;
use super::restore_error::RestoreError;
use crate::address_space::AddressSpace;
use crate::cell::Cell;
use crate::instance::InstanceConfig;

/// Gives a fresh cell the ranges of a record, each of which is checked.
pub(super) fn adopt_memory(
    space: &AddressSpace,
    cell: &mut Cell,
    record: &InstanceRecord,
    config: &InstanceConfig,
) -> Result<(), RestoreError> {
    if cell.heap().start != record.heap_start || !cell.adopt(space, record.heap, record.stacks, &record.free_stacks)? {
        return Err(Rejected::Heap.into());
    }
    let mapped: Vec<_> = record.mapped.iter().map(|mapped| (mapped.range(), mapped.state)).collect();
    let (memory, room, key) = cell.mapped_mut();
    if !memory.adopt(space, key, &room, &mapped)? {
        return Err(Rejected::MappedMemory.into());
    }
    if let Some(handler) = &record.fault_handler {
        handler.check(&config.image.image, cell.image_base()).map_err(Rejected::from)?;
    }
    Ok(())
}
