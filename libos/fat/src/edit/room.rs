//! Room for a name in a directory: slots side by side.

use super::short::Short;
use super::stage::Stage;
use super::{EditError, Store, chains};
use crate::directory::{BYTES_MAX, LABEL, LONG, SLOT, Slots};
use crate::name::{LongName, same, same_short};
use crate::{Error, Geometry};
use alloc::vec::Vec;

/// What a directory has for a name.
pub(crate) struct Room {
    /// Where its slots are to be, in the directory.
    pub(crate) at: u64,
    /// Its short name.
    pub(crate) short: [u8; 11],
}

impl Room {
    /// Looks through a directory once: for something of this name, for a short name that is free, and for so many free slots side by
    /// side. Slots that go in this change are not free yet.
    pub(crate) fn find<S: Store>(
        stage: &Stage<S>,
        mut slots: Slots<'_, Stage<S>>,
        name: &str,
        needed: u64,
    ) -> Result<Room, EditError> {
        let (mut short, mut long) = (Short::new(name), LongName::default());
        // The free slots before the place that is looked at, and where enough of them begin.
        let (mut free, mut found) = (0, None);
        while let Some((offset, slot)) = slots.next_slot()? {
            let used = slot[0] != 0xe5;
            free = if used || stage.goes(offset) { 0 } else { free + 1 };
            if free == needed && found.is_none() {
                found = Some(slots.position() - needed * SLOT);
            }
            match used {
                true if slot[11] & 0x3f == LONG => long.piece(&slot),
                true if slot[11] & LABEL == 0 => {
                    if long.is_in_order(&slot) && same(long.chars(), name.chars()) || same_short(&slot, name) {
                        return Err(EditError::Exists);
                    }
                    short.take(&slot[..11]);
                    long = LongName::default();
                }
                _ => long = LongName::default(),
            }
        }
        let at = found.unwrap_or(slots.position() - free * SLOT);
        Ok(Room { at, short: short.free() })
    }
}

/// Where these slots of a directory are in the image. It gets another cluster if they lie behind its last.
pub(crate) fn offsets<S: Store>(
    stage: &mut Stage<S>,
    geometry: &Geometry,
    directory: u32,
    at: u64,
    count: u64,
    hint: u32,
) -> Result<Vec<u64>, EditError> {
    let end = at + count * SLOT;
    let (mut offsets, last, capacity) = {
        let slots = Slots::new(geometry, &*stage, directory)?;
        let offsets: Vec<u64> = (at..end).step_by(SLOT as usize).map_while(|at| slots.offset(at)).collect();
        (offsets, slots.last_cluster(), slots.capacity())
    };
    if offsets.len() as u64 == count {
        return Ok(offsets);
    }
    // A root directory with an area of its own does not grow.
    let mut last = last.filter(|_| end <= BYTES_MAX).ok_or(EditError::NoSpace)?;
    let mut next = capacity;
    for cluster in chains::free_clusters(stage, geometry, hint, (end - capacity).div_ceil(geometry.cluster_size))? {
        empty_cluster(stage, geometry, cluster)?;
        stage.set_entry(last, cluster)?;
        last = cluster;
        let start = geometry.offset(cluster)?;
        let within =
            (0..geometry.cluster_size).step_by(SLOT as usize).filter(|from| next + from >= at && next + from < end);
        offsets.extend(within.map(|from| start + from));
        next += geometry.cluster_size;
    }
    Ok(offsets)
}

/// A cluster of a directory without any names; a chain ends with it.
pub(crate) fn empty_cluster<S: Store>(stage: &mut Stage<S>, geometry: &Geometry, cluster: u32) -> Result<(), Error> {
    const BLOCK: usize = 512;
    stage.set_entry(cluster, Geometry::END)?;
    let start = geometry.offset(cluster)?;
    (0..geometry.cluster_size).step_by(BLOCK).try_for_each(|from| stage.write(start + from, &[0; BLOCK]))
}
