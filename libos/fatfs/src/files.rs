//! The open files of a volume by number, found without a lock of their own.
//!
//! A number is an index and a generation; the generation changes when the last descriptor is closed, so that a number that
//! is out of date is refused.

use crate::file::File;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI64, Ordering};
use monohull_abi::Errno;
use monohull_module::{FutexMutex, FutexRwLock, FutexRwLockWriteGuard, Segments};

/// Most files open at the same time, all instances together.
const OPEN_MAX: usize = 1 << 16;
/// No change since the file was opened.
const UNCHANGED: i64 = i64::MIN;

/// All open files.
pub(crate) struct Files {
    places: Segments<Place>,
    table: FutexMutex<Table>,
}

/// Which entries are in use, and for what.
#[derive(Default)]
struct Table {
    /// Numbers of open files by the offset of their slot in the image.
    by_slot: BTreeMap<u64, u64>,
    free: Vec<u32>,
    next: u32,
}

/// One entry of the table.
#[derive(Default)]
pub(crate) struct Place {
    content: FutexRwLock<Content>,
    /// When its bytes last changed.
    modified: AtomicI64,
}

/// What is in it.
#[derive(Default)]
pub(crate) struct Content {
    generation: u32,
    file: Option<File>,
}

impl Files {
    pub(crate) fn new() -> Files {
        Files { places: Segments::new(OPEN_MAX), table: FutexMutex::default() }
    }

    /// The number of the open file that has this slot.
    pub(crate) fn at(&self, slot: u64) -> Option<u64> {
        self.table.lock().by_slot.get(&slot).copied()
    }

    /// The numbers of all open files.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.table.lock().by_slot.values().copied().collect()
    }

    pub(crate) fn place(&self, node: u64) -> Result<&Place, Errno> {
        self.places.get(node as u32 as usize).ok_or(Errno::BadDescriptor)
    }

    /// A number for a file that has no descriptor yet.
    pub(crate) fn insert(&self, file: File) -> Result<u64, Errno> {
        let mut table = self.table.lock();
        let index = table.free.pop().unwrap_or(table.next);
        let place = self.places.make(index as usize).ok_or(Errno::TooManyOpen)?;
        table.next = table.next.max(index + 1);
        let mut content = place.content.write();
        let node = u64::from(content.generation) << 32 | u64::from(index);
        table.by_slot.insert(file.slot, node);
        content.file = Some(file);
        place.modified.store(UNCHANGED, Ordering::Relaxed);
        Ok(node)
    }

    /// Removes a file whose last descriptor has been closed.
    pub(crate) fn remove(&self, node: u64) {
        let Ok(place) = self.place(node) else { return };
        let mut table = self.table.lock();
        let mut content = place.content.write();
        if content.get(node).is_err() {
            return;
        }
        if let Some(file) = content.file.take() {
            table.by_slot.remove(&file.slot);
        }
        content.generation = content.generation.wrapping_add(1);
        table.free.push(node as u32);
    }

    /// A file's slot is somewhere else now.
    pub(crate) fn moved(&self, node: u64, from: u64, to: u64) {
        let mut table = self.table.lock();
        table.by_slot.remove(&from);
        table.by_slot.insert(to, node);
    }
}

impl Place {
    /// Locks the file exclusively.
    pub(crate) fn lock(&self) -> FutexRwLockWriteGuard<'_, Content> {
        self.content.write()
    }

    /// Reads the file, shared with other readers.
    pub(crate) fn read<R>(&self, node: u64, look: impl FnOnce(&File) -> Result<R, Errno>) -> Result<R, Errno> {
        look(self.content.read().get(node)?)
    }

    /// Changes the file exclusively.
    pub(crate) fn write<R>(&self, node: u64, change: impl FnOnce(&mut File) -> Result<R, Errno>) -> Result<R, Errno> {
        change(self.lock().get_mut(node)?)
    }

    /// Its bytes have changed.
    pub(crate) fn touch(&self, now: i64) {
        self.modified.store(now, Ordering::Relaxed);
    }

    /// When its bytes last changed, if they have since it was opened.
    pub(crate) fn modified(&self) -> Option<i64> {
        Some(self.modified.load(Ordering::Relaxed)).filter(|time| *time != UNCHANGED)
    }
}

impl Content {
    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, node: u64) -> Result<&mut File, Errno> {
        self.get(node)?;
        self.file.as_mut().ok_or(Errno::BadDescriptor)
    }

    /// The file, if `node` is its number still.
    fn get(&self, node: u64) -> Result<&File, Errno> {
        self.file.as_ref().filter(|_| u64::from(self.generation) == node >> 32).ok_or(Errno::BadDescriptor)
    }
}
