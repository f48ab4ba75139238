//! Giving a file or directory a name, or another one, and taking it away.

use super::room::{Room, empty_cluster, offsets};
use super::stage::Stage;
use super::{EditError, Move, Store, chains};
use crate::directory::{FLAGS, MOVED, SLOT, Slots, find_with_slots};
use crate::name::{self, pieces};
use crate::{Entry, Error, Found, Geometry, Image, encode_time, entries, find, runs};
use alloc::vec::Vec;

const DIRECTORY: u8 = 0x10;
const DELETED: u8 = 0xe5;

/// The names of an image, in one change.
pub(crate) struct Names<'s, S> {
    pub(crate) stage: &'s mut Stage<S>,
    pub(crate) geometry: &'s Geometry,
    /// The clock, in ns since 1970.
    pub(crate) now: i64,
    /// Where the search for free clusters begins.
    pub(crate) hint: u32,
}

impl<S: Store> Names<'_, S> {
    /// Makes an empty file, or a directory.
    pub(crate) fn make(&mut self, path: &str, directory: bool) -> Result<(), EditError> {
        let (parent, name) = split(path);
        let parent = self.directory(parent)?;
        let mut slot = self.dated();
        if directory {
            let cluster = chains::free_clusters(self.stage, self.geometry, self.hint, 1)?[0];
            empty_cluster(self.stage, self.geometry, cluster)?;
            slot[11] = DIRECTORY;
            let start = self.geometry.offset(cluster)?;
            // What lies in the root leads up to 0.
            let above = if parent == self.geometry.root_cluster { 0 } else { parent };
            for (at, name, cluster) in [(start, b".          ", cluster), (start + SLOT, b"..         ", above)] {
                slot[..11].copy_from_slice(name);
                self.lead(&mut slot, cluster);
                self.stage.write(at, &slot)?;
            }
            self.lead(&mut slot, cluster);
        }
        self.place(parent, name, slot)
    }

    /// Removes a file or an empty directory.
    pub(crate) fn remove(&mut self, path: &str) -> Result<(), EditError> {
        let removed = self.unlink(path)?;
        self.free(&removed)
    }

    /// Changes a name.
    pub(crate) fn rename(&mut self, change: &Move<'_>) -> Result<(), EditError> {
        let replaced = match (change.replaced, change.hidden) {
            (false, _) => None,
            (true, None) => Some(self.unlink(change.to)?),
            (true, Some(hidden)) => {
                self.give_another(change.to, hidden)?;
                None
            }
        };
        let moved = self.give_another(change.from, change.to)?;
        runs(self.geometry, &*self.stage, moved.cluster)?;
        self.mark_moved(moved.slot)?;
        if moved.directory {
            self.lead_up(&moved, change.to)?;
        }
        // What is replaced frees its clusters last, so that nothing new has them before its name is removed.
        replaced.map_or(Ok(()), |replaced| self.free(&replaced))
    }

    /// What has one name gets another. What it was.
    fn give_another(&mut self, from: &str, to: &str) -> Result<Entry, EditError> {
        let entry = self.unlink_named(from)?;
        let mut slot = [0; SLOT as usize];
        self.stage.read(entry.slot, &mut slot)?;
        slot[FLAGS as usize] = 0;
        let (parent, name) = split(to);
        let parent = self.directory(parent)?;
        self.place(parent, name, slot)?;
        Ok(entry)
    }

    /// The first cluster of a directory; 0 for a root with an area of its own.
    fn directory(&self, path: &str) -> Result<u32, EditError> {
        match find(self.geometry, &*self.stage, path) {
            Ok(found) if !found.is_directory() => Err(Error::NotDirectory.into()),
            Ok(found) => Ok(found.cluster(self.geometry)?),
            Err(Error::NotFound) => Err(EditError::NotFound),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the name from what has it, if that can go.
    fn unlink(&mut self, path: &str) -> Result<Entry, EditError> {
        let entry = self.unlink_named(path)?;
        if entry.directory {
            let mut empty = true;
            entries(self.geometry, &*self.stage, &Found::Entry(entry.clone()), |_| {
                empty = false;
                false
            })?;
            if !empty {
                return Err(EditError::NotEmpty);
            }
        }
        Ok(entry)
    }

    /// Takes the name from what has it.
    fn unlink_named(&mut self, path: &str) -> Result<Entry, EditError> {
        let (parent, name) = split(path);
        let slots = Slots::new(self.geometry, &*self.stage, self.directory(parent)?)?;
        let (entry, slots) = find_with_slots(self.geometry, slots, name)?.ok_or(EditError::NotFound)?;
        slots.into_iter().try_for_each(|slot| self.stage.write(slot, &[DELETED]))?;
        Ok(entry)
    }

    /// Frees the clusters of what has no name any more.
    fn free(&mut self, removed: &Entry) -> Result<(), EditError> {
        let chain = runs(self.geometry, &*self.stage, removed.cluster)?;
        for index in 0..chain.capacity() / self.geometry.cluster_size {
            let cluster = chain.cluster(self.geometry, index).ok_or(Error::Damaged("a chain ends before its file"))?;
            self.stage.set_entry(cluster, 0)?;
        }
        Ok(())
    }

    /// Puts a slot into a directory, under a name that nothing has there.
    fn place(&mut self, directory: u32, name: &str, mut slot: [u8; SLOT as usize]) -> Result<(), EditError> {
        if !name::is_possible(name) {
            return Err(EditError::InvalidName);
        }
        let units: Vec<u16> = name.encode_utf16().collect();
        let needed = units.len().div_ceil(name::PIECE) as u64 + 1;
        let slots = Slots::new(self.geometry, &*self.stage, directory)?;
        let room = Room::find(self.stage, slots, name, needed)?;
        slot[..11].copy_from_slice(&room.short);
        let places = offsets(self.stage, self.geometry, directory, room.at, needed, self.hint)?;
        let slots = pieces(&units, &slot).chain([slot]);
        places.into_iter().zip(slots).try_for_each(|(at, slot)| self.stage.write(at, &slot))?;
        Ok(())
    }

    /// A slot that is made now.
    fn dated(&self) -> [u8; SLOT as usize] {
        let mut slot = [0; SLOT as usize];
        let (date, time) = encode_time(self.now);
        let ([t0, t1], [d0, d1]) = (time.to_le_bytes(), date.to_le_bytes());
        slot[14..20].copy_from_slice(&[t0, t1, d0, d1, d0, d1]);
        slot[22..26].copy_from_slice(&[t0, t1, d0, d1]);
        slot
    }

    /// Has a slot lead to a cluster.
    fn lead(&self, slot: &mut [u8; SLOT as usize], cluster: u32) {
        let bytes = cluster.to_le_bytes();
        if self.geometry.root_bytes == 0 {
            slot[20..22].copy_from_slice(&bytes[2..]);
        }
        slot[26..28].copy_from_slice(&bytes[..2]);
    }

    /// Marks a slot that is being removed: if an interruption leaves two names, a repair keeps the other one.
    fn mark_moved(&mut self, slot: u64) -> Result<(), EditError> {
        let mut flags = [0];
        self.stage.read(slot + FLAGS, &mut flags)?;
        Ok(self.stage.write(slot + FLAGS, &[flags[0] | MOVED])?)
    }

    /// `..` of a directory that has moved leads to its new parent.
    fn lead_up(&mut self, moved: &Entry, to: &str) -> Result<(), EditError> {
        let above = match find(self.geometry, &*self.stage, split(to).0)? {
            Found::Root => 0,
            Found::Entry(entry) => entry.cluster,
        };
        let at = self.geometry.offset(moved.cluster)? + SLOT;
        let mut slot = [0; SLOT as usize];
        self.stage.read(at, &mut slot)?;
        if slot[..11] == *b"..         " {
            self.lead(&mut slot, above);
            self.stage.write(at, &slot)?;
        }
        Ok(())
    }
}

/// A path's parent, and the last name in it.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}
