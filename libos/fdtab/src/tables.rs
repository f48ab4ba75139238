//! Descriptors: one table per cell, found by the instance's number without a lock.

use crate::park_lock::ParkLock;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::Errno;
use monohull_abi::file::{DESCRIPTORS_MAX, FIRST_DESCRIPTOR};
use monohull_abi::layout::CELL_COUNT;
use monohull_module::{FutexMutex, Once, Segments};

/// An open file or directory.
#[repr(align(64))]
pub(crate) struct Open {
    /// The mount; `None` for a directory above mount points.
    pub(crate) mount: Option<u32>,
    /// The file system's number for it; 0 for directories.
    pub(crate) node: u64,
    pub(crate) flags: AtomicU64,
    /// Where the next read or write begins; of a directory, bytes of the listing that have been read.
    pub(crate) position: AtomicU64,
    /// Calls that use the position hold it.
    pub(crate) position_lock: ParkLock,
    /// Its absolute path when it was opened, without the first `/`. Another file may have that name now.
    pub(crate) path: String,
    /// Of a directory.
    pub(crate) directory: Option<Directory>,
}

/// The state of an open directory.
pub(crate) struct Directory {
    /// The instance that its listing is charged to.
    pub(crate) owner: u32,
    /// Its entries as they were when the first was asked for.
    pub(crate) listing: FutexMutex<Option<Arc<Vec<u8>>>>,
}

/// One descriptor. Threads that use neighbouring descriptors at the same time do not share a cache line.
#[derive(Default)]
#[repr(align(64))]
struct Entry(FutexMutex<Option<Arc<Open>>>);

/// The tables of all cells.
pub(crate) struct Tables([Once<Box<Table>>; CELL_COUNT]);

/// The descriptors of the instance in one cell.
pub(crate) struct Table {
    entries: Segments<Entry>,
    /// One bit for each descriptor in use. Bits and entries change together, under this lock.
    used: FutexMutex<[u64; DESCRIPTORS_MAX / 64]>,
    /// The working directory: an absolute path without the first `/`.
    pub(crate) working: FutexMutex<String>,
}

impl Tables {
    pub(crate) fn new() -> Box<Tables> {
        Box::new(Tables([const { Once::new() }; CELL_COUNT]))
    }

    /// The table of an instance's cell, if one has been made. It is empty after the end of an instance.
    pub(crate) fn find(&self, instance: u32) -> Option<&Table> {
        self.0[instance as usize % CELL_COUNT].get().map(|table| &**table)
    }

    /// The table of an instance's cell.
    pub(crate) fn of(&self, instance: u32) -> &Table {
        self.0[instance as usize % CELL_COUNT].call_once(Box::default)
    }

    /// The open file of a descriptor of an instance.
    pub(crate) fn open(&self, instance: u32, descriptor: u64) -> Result<Arc<Open>, Errno> {
        self.find(instance).and_then(|table| table.get(descriptor)).ok_or(Errno::BadDescriptor)
    }
}

impl Default for Table {
    fn default() -> Table {
        let entries = Segments::new(DESCRIPTORS_MAX);
        Table { entries, used: FutexMutex::default(), working: FutexMutex::default() }
    }
}

impl Table {
    pub(crate) fn get(&self, descriptor: u64) -> Option<Arc<Open>> {
        self.entries.get(usize::try_from(descriptor).ok()?)?.0.lock().clone()
    }

    /// Gives an open file the lowest free descriptor.
    pub(crate) fn insert(&self, open: Arc<Open>) -> Result<u64, Arc<Open>> {
        let mut used = self.used.lock();
        let Some(descriptor) = take_lowest(&mut *used) else { return Err(open) };
        self.set(descriptor, Some(open));
        Ok(descriptor)
    }

    /// Keeps the lowest free descriptor for a file that is about to be opened: nothing is changed on the way to an open file for which there is no
    /// descriptor.
    pub(crate) fn reserve(&self) -> Option<Reserved<'_>> {
        let descriptor = take_lowest(&mut *self.used.lock())?;
        Some(Reserved { table: self, descriptor })
    }

    /// Gives an open file this descriptor; returns the open file that had it.
    pub(crate) fn replace(&self, descriptor: u64, open: Arc<Open>) -> Result<Option<Arc<Open>>, Arc<Open>> {
        if !(FIRST_DESCRIPTOR..DESCRIPTORS_MAX as u64).contains(&descriptor) {
            return Err(open);
        }
        let mut used = self.used.lock();
        used[descriptor as usize / 64] |= 1 << (descriptor % 64);
        Ok(self.set(descriptor, Some(open)))
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self, descriptor: u64) -> Option<Arc<Open>> {
        let mut used = self.used.lock();
        let open = self.entries.get(usize::try_from(descriptor).ok()?)?.0.lock().take()?;
        used[descriptor as usize / 64] &= !(1 << (descriptor % 64));
        Some(open)
    }

    /// Removes the first descriptors, at most so many; the working directory is the root again.
    pub(crate) fn clear_some(&self, most: usize) -> Vec<Arc<Open>> {
        self.working.lock().clear();
        self.used().filter_map(|descriptor| self.remove(descriptor)).take(most).collect()
    }

    /// All descriptors in their order.
    pub(crate) fn all(&self) -> Vec<(u64, Arc<Open>)> {
        self.used().filter_map(|descriptor| Some((descriptor, self.get(descriptor)?))).collect()
    }

    /// The first descriptor in use behind one.
    pub(crate) fn behind(&self, descriptor: u64) -> Option<u64> {
        self.used().find(|used| *used > descriptor)
    }

    fn used(&self) -> impl Iterator<Item = u64> {
        let used = *self.used.lock();
        (0..DESCRIPTORS_MAX as u64).filter(move |d| used[*d as usize / 64] & 1 << (d % 64) != 0)
    }

    fn set(&self, descriptor: u64, open: Option<Arc<Open>>) -> Option<Arc<Open>> {
        let entry = self.entries.make(descriptor as usize)?;
        core::mem::replace(&mut *entry.0.lock(), open)
    }
}

/// A descriptor that nothing has yet; given back when it is dropped.
pub(crate) struct Reserved<'t> {
    table: &'t Table,
    descriptor: u64,
}

impl Reserved<'_> {
    /// Gives an open file the descriptor, or another one if that has been given this one meanwhile (`FILE_DUP`).
    pub(crate) fn fill(self, open: Arc<Open>) -> Result<u64, Arc<Open>> {
        let Reserved { table, descriptor } = self;
        // Whatever becomes of the descriptor from here on, it is not given back: another thread may close it at once, and a third reserve it.
        core::mem::forget(self);
        let used = table.used.lock();
        if table.get(descriptor).is_some() {
            drop(used);
            return table.insert(open);
        }
        table.set(descriptor, Some(open));
        Ok(descriptor)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut used = self.table.used.lock();
        if self.table.get(self.descriptor).is_none() {
            used[self.descriptor as usize / 64] &= !(1 << (self.descriptor % 64));
        }
    }
}

/// The lowest descriptor that is free; it is taken from here on.
fn take_lowest(used: &mut [u64]) -> Option<u64> {
    for (index, word) in used.iter_mut().enumerate() {
        // The standard streams count as taken.
        let taken = if index == 0 { *word | ((1 << FIRST_DESCRIPTOR) - 1) } else { *word };
        if taken != u64::MAX {
            let bit = taken.trailing_ones();
            *word |= 1 << bit;
            return Some(index as u64 * 64 + u64::from(bit));
        }
    }
    None
}

impl Open {
    /// Whether all of these flags were given.
    pub(crate) fn has(&self, flags: u64) -> bool {
        self.flags.load(Ordering::Relaxed) & flags == flags
    }
}
