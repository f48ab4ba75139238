//! A change of the file system's structures, collected before it is made.
//!
//! The FAT library reads and writes here. What it writes is kept aside until the whole operation has succeeded; one that
//! fails half-way leaves no trace. Then the words that differ are written in an order in which an interruption (the
//! process is killed between two stores) can lose free space and nothing else:
//!
//! ```text
//!   1  FAT entries of clusters that were free        nobody refers to them yet: at worst they are lost
//!   2  FAT entries that change                       chains grow into what is marked already
//!   3  directory slots that come or change           names lead to whole chains
//!   4  directory slots that go                       for a moment a moved file has two names, never none
//!   5  FAT entries that become free                  nobody refers to them any more
//! ```
//!
//! Each store is one aligned word, which is there whole or not at all.

use super::Store;
use crate::{Error, Geometry, Image, Kind};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Bytes of a block: what is kept aside together.
const BLOCK: u64 = 512;
/// Bytes that are stored at once.
const WORD: usize = 8;
/// Bytes of a directory slot.
const SLOT: u64 = 32;
/// The first byte of a directory slot that is free again.
const DELETED: u8 = 0xe5;

/// A block that is kept aside.
struct Block {
    /// As it was: what others have changed since then is theirs.
    old: [u8; BLOCK as usize],
    /// As it is to be.
    new: [u8; BLOCK as usize],
}

/// The image as it would be.
pub(crate) struct Stage<S> {
    image: S,
    geometry: Geometry,
    blocks: BTreeMap<u64, Block>,
    /// The blocks in the order in which they were first written.
    order: Vec<u64>,
    /// How many more accesses this operation may make: the structures of a damaged image can lead in circles.
    budget: u64,
}

impl<S: Store> Image for Stage<S> {
    fn len(&self) -> u64 {
        self.image.len()
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        let mut done = 0;
        while done < to.len() {
            let at = offset + done as u64;
            let into = (at % BLOCK) as usize;
            let piece = &mut to[done..];
            let len = piece.len().min(BLOCK as usize - into);
            match self.blocks.get(&(at - into as u64)) {
                Some(block) => piece[..len].copy_from_slice(&block.new[into..into + len]),
                None => self.image.read(at, &mut piece[..len])?,
            }
            done += len;
        }
        Ok(())
    }
}

impl<S: Store> Stage<S> {
    pub(crate) fn new(image: S, geometry: Geometry) -> Stage<S> {
        Stage { image, geometry, blocks: BTreeMap::new(), order: Vec::new(), budget: 0 }
    }

    /// Forgets what is kept aside, and lets the next operation begin.
    pub(crate) fn begin(&mut self) {
        self.blocks.clear();
        self.order.clear();
        self.budget = (8 << 20) + 16 * u64::from(self.geometry.clusters);
    }

    /// One access of the library.
    pub(crate) fn pay(&mut self) -> Result<(), Error> {
        self.budget = self.budget.checked_sub(1).ok_or(Error::Damaged("an operation does not come to its end"))?;
        Ok(())
    }

    /// Keeps bytes aside.
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error> {
        if offset.checked_add(from.len() as u64).is_none_or(|end| end > self.len()) {
            return Err(Error::Damaged("something leads behind the image's end"));
        }
        let mut done = 0;
        while done < from.len() {
            let at = offset + done as u64;
            let into = (at % BLOCK) as usize;
            let start = at - into as u64;
            let len = (from.len() - done).min(BLOCK as usize - into);
            if !self.blocks.contains_key(&start) {
                let mut old = [0; BLOCK as usize];
                self.image.read(start, &mut old)?;
                self.blocks.insert(start, Block { old, new: old });
                self.order.push(start);
            }
            let block = self.blocks.get_mut(&start).expect("just inserted");
            block.new[into..into + len].copy_from_slice(&from[done..done + len]);
            done += len;
        }
        Ok(())
    }

    /// Says in the image, at once, whether somebody writes to it; gives what it said before.
    pub(crate) fn set_mark(&self, mark: bool) -> Result<bool, Error> {
        let (at, mut flags) = (self.geometry.dirty_flag(), [0]);
        self.image.read(at, &mut flags)?;
        let before = flags[0] & 1 != 0;
        if before != mark {
            self.store(at, &[flags[0] & !1 | u8::from(mark)])?;
        }
        Ok(before)
    }

    /// Makes the change.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        let entries = self.changed_entries()?;
        let fresh = |(_, old, new): &&(u32, u32, u32)| *old == 0 && *new != 0;
        let changed = |(_, old, new): &&(u32, u32, u32)| *old != 0 && *new != 0;
        let freed = |(_, _, new): &&(u32, u32, u32)| *new == 0;
        entries.iter().filter(fresh).try_for_each(|entry| self.store_entry(entry))?;
        entries.iter().filter(changed).try_for_each(|entry| self.store_entry(entry))?;
        self.store_words(false)?;
        self.store_words(true)?;
        entries.iter().filter(freed).try_for_each(|entry| self.store_entry(entry))?;
        self.begin();
        Ok(())
    }

    fn fat(&self) -> core::ops::Range<u64> {
        self.geometry.fat_start..self.geometry.fat_start + self.geometry.fats * self.geometry.fat_bytes
    }

    /// The clusters whose entries in the first FAT differ: number, old value, new value.
    fn changed_entries(&self) -> Result<Vec<(u32, u32, u32)>, Error> {
        let first = self.geometry.fat_start..self.geometry.fat_start + self.geometry.fat_bytes;
        let mut entries = Vec::new();
        for (start, _) in self.blocks.range(first) {
            let from = start - self.geometry.fat_start;
            // Entries of 12 bits may begin one byte before the block.
            let (low, high) = match self.geometry.kind {
                Kind::Fat12 => (from.saturating_sub(1) * 2 / 3, (from + BLOCK) * 2 / 3),
                Kind::Fat16 => (from / 2, (from + BLOCK) / 2 - 1),
                Kind::Fat32 => (from / 4, (from + BLOCK) / 4 - 1),
            };
            for cluster in low..=high.min(u64::from(self.geometry.clusters) + 1) {
                let cluster = cluster as u32;
                let (old, new) = (self.geometry.value(&self.image, cluster)?, self.geometry.value(self, cluster)?);
                if old != new {
                    entries.push((cluster, old, new));
                }
            }
        }
        // An entry across two blocks has been found twice.
        entries.dedup();
        Ok(entries)
    }

    /// Stores an entry into every copy of the FAT.
    fn store_entry(&self, (cluster, _, new): &(u32, u32, u32)) -> Result<(), Error> {
        for copy in 0..self.geometry.fats {
            let at = self.geometry.entry_offset(*cluster) + copy * self.geometry.fat_bytes;
            let (mut bytes, len) = ([0; 4], self.geometry.entry_len());
            self.image.read(at, &mut bytes[..len])?;
            let value = self.geometry.with_value(bytes, *cluster, *new);
            self.store(at, &value[..len])?;
        }
        Ok(())
    }

    /// Stores the words outside of the FAT that differ: those that free a directory slot, or all others.
    fn store_words(&self, deletions: bool) -> Result<(), Error> {
        for start in self.order.iter().filter(|start| !self.fat().contains(start)) {
            let Block { old, new } = &self.blocks[start];
            for at in (0..BLOCK as usize).step_by(WORD) {
                let (from, to) = (&old[at..at + WORD], &new[at..at + WORD]);
                let frees = (start + at as u64).is_multiple_of(SLOT) && to[0] == DELETED && from[0] != DELETED;
                if from != to && frees == deletions {
                    self.store(start + at as u64, to)?;
                }
            }
        }
        Ok(())
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.image.store(offset, bytes)
    }
}
