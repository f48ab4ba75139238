//! Chains that become longer or shorter: many clusters at once.

use super::stage::Stage;
use super::{EditError, Store};
use crate::geometry::FIRST;
use crate::{Error, FatEntry, Geometry, Image, Runs};
use alloc::vec::Vec;

/// Entries that are looked at together, in search of free ones.
const BLOCK: usize = 512;

/// Makes the chain of the file with this slot long enough for `to` bytes, its clusters side by side as far as they are free: the new
/// ones. The search begins behind the last cluster, or at `hint`.
pub(crate) fn lengthen<S: Store>(
    stage: &mut Stage<S>,
    geometry: &Geometry,
    (slot, runs): (u64, &Runs),
    to: u64,
    hint: u32,
) -> Result<Vec<u32>, EditError> {
    let count = to.saturating_sub(runs.capacity()).div_ceil(geometry.cluster_size);
    let start = runs.last().map_or(hint, |last| last + 1);
    let new = free_clusters(stage, geometry, start, count)?;
    for pair in new.windows(2) {
        stage.set_entry(pair[0], pair[1])?;
    }
    if let (Some(first), Some(last)) = (new.first(), new.last()) {
        stage.set_entry(*last, Geometry::END)?;
        match runs.last() {
            Some(before) => stage.set_entry(before, *first)?,
            None => set_first(stage, geometry, slot, *first)?,
        }
    }
    Ok(new)
}

/// Cuts a file, and gives back the clusters behind its new end.
pub(crate) fn shorten<S: Store>(
    stage: &mut Stage<S>,
    geometry: &Geometry,
    (slot, runs): (u64, &Runs),
    size: u64,
) -> Result<(), EditError> {
    let kept = size.div_ceil(geometry.cluster_size);
    stage.write(slot + 28, &(size as u32).to_le_bytes())?;
    match kept.checked_sub(1).and_then(|last| runs.cluster(geometry, last)) {
        // One that is the last already needs no word.
        Some(last) if runs.last() != Some(last) => stage.set_entry(last, Geometry::END)?,
        Some(_) => {}
        None => set_first(stage, geometry, slot, 0)?,
    }
    for index in kept..runs.capacity() / geometry.cluster_size {
        let cluster = runs.cluster(geometry, index).ok_or(Error::Damaged("a chain ends before its file"))?;
        stage.set_entry(cluster, 0)?;
    }
    Ok(())
}

fn set_first<S: Store>(stage: &mut Stage<S>, geometry: &Geometry, slot: u64, cluster: u32) -> Result<(), Error> {
    let bytes = cluster.to_le_bytes();
    if geometry.root_bytes == 0 {
        stage.write(slot + 20, &bytes[2..])?;
    }
    stage.write(slot + 26, &bytes[..2])
}

/// So many free clusters, from one on and around.
pub(crate) fn free_clusters<S: Store>(
    stage: &Stage<S>,
    geometry: &Geometry,
    start: u32,
    count: u64,
) -> Result<Vec<u32>, EditError> {
    if count > u64::from(geometry.clusters) {
        return Err(EditError::NoSpace);
    }
    let mut found = Vec::with_capacity(count as usize);
    let start = if geometry.has(start) { start } else { FIRST };
    for range in [start..FIRST + geometry.clusters, FIRST..start] {
        if found.len() as u64 == count {
            break;
        }
        for_each_free(stage, geometry, range, |cluster| {
            found.push(cluster);
            (found.len() as u64) < count
        })?;
    }
    if found.len() as u64 == count { Ok(found) } else { Err(EditError::NoSpace) }
}

/// How many clusters are free.
pub(crate) fn count_free<S: Store>(stage: &Stage<S>, geometry: &Geometry) -> Result<u32, Error> {
    let mut free = 0;
    for_each_free(stage, geometry, FIRST..FIRST + geometry.clusters, |_| {
        free += 1;
        true
    })?;
    Ok(free)
}

/// The free clusters of a range, as long as `each` wants more.
fn for_each_free<S: Store>(
    stage: &Stage<S>,
    geometry: &Geometry,
    range: core::ops::Range<u32>,
    mut each: impl FnMut(u32) -> bool,
) -> Result<(), Error> {
    let len = geometry.entry_len();
    let mut block = [0; BLOCK];
    let mut cluster = range.start;
    while cluster < range.end {
        // Entries of 12 bits do not lie in words of their own.
        if geometry.kind == crate::Kind::Fat12 {
            if geometry.entry(stage, cluster)? == FatEntry::Free && !each(cluster) {
                return Ok(());
            }
            cluster += 1;
            continue;
        }
        let count = ((range.end - cluster) as usize).min(BLOCK / len);
        let bytes = &mut block[..count * len];
        stage.read(geometry.entry_offset(cluster), bytes)?;
        for entry in bytes.chunks_exact(len) {
            let mut value = [0; 4];
            value[..len].copy_from_slice(entry);
            if u32::from_le_bytes(value) & 0x0fff_ffff == 0 && !each(cluster) {
                return Ok(());
            }
            cluster += 1;
        }
    }
    Ok(())
}
