//! A change of the file system's structures, collected before it is made.
//!
//! What is written here is kept aside until the whole operation has succeeded; one that fails half-way leaves no trace. Then the words that differ are written in an order in which an interruption (the
//! process is killed between two stores) can lose free space and nothing else:
//!
//! ```text
//!   1  FAT entries of clusters that were free        not referred to yet: at worst they are lost
//!   2  what is in those clusters                     a directory grows by slots that are empty
//!   3  FAT entries that go on                        chains grow into what is marked already
//!   4  directory slots that come or change           names lead to whole chains
//!   5  directory slots that go                       for a moment a moved file has two names, never none
//!   6  FAT entries that end, and become free         not referred to any more
//! ```
//!
//! Each store is one aligned word, which is there whole or not at all. A slot has four: the first, without which there is none, comes
//! last. No slot goes and comes in one change, so what had it is whole until everything new is.

use super::Store;
use crate::directory::LONG;
use crate::{Error, Geometry, Image, Kind};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Bytes of a block: what is kept aside together.
const BLOCK: u64 = 512;
/// Bytes that are stored at once.
const WORD: usize = 8;
/// Bytes of a directory slot.
const SLOT: u64 = 32;
/// The words of a slot, in the order in which they are stored.
const WORDS: [usize; 4] = [1, 2, 3, 0];
/// The first byte of a directory slot that is free again.
const DELETED: u8 = 0xe5;
/// Offset of a slot's attributes.
const ATTRIBUTES: u64 = 11;

/// A cluster's entry that changes: its number, what it was, what it is to be.
type Change = (u32, u32, u32);

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
    /// The directory slots that go, in the order in which they do.
    going: Vec<u64>,
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
        Stage { image, geometry, blocks: BTreeMap::new(), order: Vec::new(), going: Vec::new() }
    }

    /// Forgets what is kept aside, and lets the next operation begin.
    pub(crate) fn begin(&mut self) {
        self.blocks.clear();
        self.order.clear();
        self.going.clear();
    }

    /// Whether the slot there goes. It is not free before the next change.
    pub(crate) fn goes(&self, slot: u64) -> bool {
        self.going.contains(&slot)
    }

    /// Keeps bytes aside.
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error> {
        if offset.checked_add(from.len() as u64).is_none_or(|end| end > self.len()) {
            return Err(Error::Damaged("something leads behind the image's end"));
        }
        if from.first() == Some(&DELETED) && offset.is_multiple_of(SLOT) && !self.fat().contains(&offset) {
            let mut before = [0];
            self.image.read(offset, &mut before)?;
            if !matches!(before[0], 0 | DELETED) && !self.goes(offset) {
                self.going.push(offset);
            }
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

    /// Sets a cluster's entry in the first FAT; the others follow when it is stored.
    pub(crate) fn set_entry(&mut self, cluster: u32, value: u32) -> Result<(), Error> {
        let (at, len) = (self.geometry.entry_offset(cluster), self.geometry.entry_len());
        let mut bytes = [0; 4];
        self.read(at, &mut bytes[..len])?;
        let bytes = self.geometry.with_value(bytes, cluster, value);
        self.write(at, &bytes[..len])
    }

    /// Stores the number of free clusters in the image, at once. It is a hint.
    pub(crate) fn set_free_count(&self, count: u32) -> Result<(), Error> {
        self.geometry.info.map_or(Ok(()), |at| self.store(at, &count.to_le_bytes()))
    }

    /// Sets or clears the dirty flag in the image, at once; returns its value before.
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
        let those = |which: fn(&Geometry, &Change) -> bool| -> Vec<Change> {
            entries.iter().filter(|entry| which(&self.geometry, entry)).copied().collect()
        };
        let fresh = those(|_, (_, old, new)| *old == 0 && *new != 0);
        let goes_on = those(|geometry, (_, old, new)| *old != 0 && *new != 0 && !geometry.is_end(*new));
        let ends = those(|geometry, (_, old, new)| *old != 0 && geometry.is_end(*new));
        let freed = those(|_, (_, _, new)| *new == 0);
        let is_fresh = |start: u64| {
            let cluster = self.geometry.at(start);
            cluster.is_some_and(|cluster| fresh.binary_search_by_key(&cluster, |(fresh, ..)| *fresh).is_ok())
        };
        self.store_entries(&fresh)?;
        self.store_words(is_fresh)?;
        self.store_entries(&goes_on)?;
        self.store_words(|start| !is_fresh(start))?;
        self.store_going()?;
        self.store_entries(&ends)?;
        self.store_entries(&freed)?;
        self.begin();
        Ok(())
    }

    fn fat(&self) -> core::ops::Range<u64> {
        self.geometry.fat_start..self.geometry.fat_start + self.geometry.fats * self.geometry.fat_bytes
    }

    /// The clusters whose entries in the first FAT differ, in their order.
    fn changed_entries(&self) -> Result<Vec<Change>, Error> {
        let first = self.geometry.fat_start..self.geometry.fat_start + self.geometry.fat_bytes;
        let len = self.geometry.entry_len();
        let last = self.geometry.clusters + 1;
        let mut entries = Vec::new();
        for (start, Block { old, new }) in self.blocks.range(first) {
            let from = start - self.geometry.fat_start;
            if self.geometry.kind == Kind::Fat12 {
                // Entries of 12 bits may begin one byte before the block.
                let (low, high) = (from.saturating_sub(1) * 2 / 3, (from + BLOCK) * 2 / 3);
                for cluster in low as u32..=(high as u32).min(last) {
                    let (old, new) = (self.geometry.value(&self.image, cluster)?, self.geometry.value(self, cluster)?);
                    if old != new {
                        entries.push((cluster, old, new));
                    }
                }
                continue;
            }
            for (index, (old, new)) in old.chunks_exact(len).zip(new.chunks_exact(len)).enumerate() {
                let cluster = (from as usize / len + index) as u32;
                let [old, new] = [old, new].map(|bytes| {
                    let mut value = [0; 4];
                    value[..len].copy_from_slice(bytes);
                    u32::from_le_bytes(value) & Geometry::END
                });
                if old != new && cluster <= last {
                    entries.push((cluster, old, new));
                }
            }
        }
        // An entry across two blocks has been found twice.
        entries.dedup();
        Ok(entries)
    }

    /// Stores entries into every copy of the FAT, those that share a word with one store.
    fn store_entries(&self, entries: &[Change]) -> Result<(), Error> {
        let together = |cluster: u32| match self.geometry.kind {
            // Entries of 12 bits may lie in two words.
            Kind::Fat12 => (self.geometry.entry_offset(cluster), self.geometry.entry_len()),
            _ => (self.geometry.entry_offset(cluster) / WORD as u64 * WORD as u64, WORD),
        };
        for entries in entries.chunk_by(|one, next| together(one.0) == together(next.0)) {
            let (start, len) = together(entries[0].0);
            for copy in 0..self.geometry.fats {
                let at = start + copy * self.geometry.fat_bytes;
                let mut word = [0; WORD];
                self.image.read(at, &mut word[..len])?;
                for (cluster, _, new) in entries {
                    let (into, len) =
                        ((self.geometry.entry_offset(*cluster) - start) as usize, self.geometry.entry_len());
                    let mut bytes = [0; 4];
                    bytes[..len].copy_from_slice(&word[into..into + len]);
                    let bytes = self.geometry.with_value(bytes, *cluster, *new);
                    word[into..into + len].copy_from_slice(&bytes[..len]);
                }
                self.store(at, &word[..len])?;
            }
        }
        Ok(())
    }

    /// Stores the words that differ in these blocks outside of the FAT, but for those with which slots go.
    fn store_words(&self, which: impl Fn(u64) -> bool) -> Result<(), Error> {
        for start in self.order.iter().filter(|start| !self.fat().contains(start) && which(**start)) {
            let Block { old, new } = &self.blocks[start];
            for slot in (0..BLOCK as usize).step_by(SLOT as usize) {
                for at in WORDS.map(|word| slot + word * WORD) {
                    let (from, to) = (&old[at..at + WORD], &new[at..at + WORD]);
                    if from != to && !(at == slot && self.goes(start + at as u64)) {
                        self.store(start + at as u64, to)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores the words with which slots go: of each name the slot that counts first, then the pieces of its long form.
    fn store_going(&self) -> Result<(), Error> {
        let mut pieces = Vec::new();
        for slot in &self.going {
            let block = &self.blocks[&(slot / BLOCK * BLOCK)];
            let at = (slot % BLOCK) as usize;
            pieces.push((*slot, &block.new[at..at + WORD]));
            if block.old[at + ATTRIBUTES as usize] & 0x3f != LONG {
                pieces.drain(..).rev().try_for_each(|(slot, word)| self.store(slot, word))?;
            }
        }
        pieces.into_iter().try_for_each(|(slot, word)| self.store(slot, word))
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.image.store(offset, bytes)
    }
}
