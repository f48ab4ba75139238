//! The files of a tree by number, found without a lock of their own.
//!
//! A node's number is an index and a generation. The generation changes when the file is removed, so that a number that is out
//! of date is refused and never leads to another file's bytes.

use crate::body::{Body, Chunk, Contents};
use crate::fields::{Damage, FileRecord, PlaceRecord};
use crate::quota::Quota;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI64, Ordering};
use monohull_abi::Errno;
use monohull_abi::file::{DESCRIPTORS_MAX, Extent, FileKind, FileStat};
use monohull_abi::layout::CELL_COUNT;
use monohull_module::fs::{Times, in_pieces};
use monohull_module::record::RecordsRef;
use monohull_module::{Checked, FutexMutex, FutexRwLock, HostRef, Segments};

/// Most files of a tree.
const FILES_MAX: usize = 1 << 17;
/// What each file is charged besides its bytes.
const OVERHEAD: u64 = 512;

/// When a file was read of which that has not been set: when it was written.
const AS_MODIFIED: i64 = i64::MIN;

/// Most descriptors of a file.
const OPENED_MAX: u32 = (DESCRIPTORS_MAX * CELL_COUNT) as u32;

/// All files of a tree.
pub(crate) struct Nodes {
    host: HostRef,
    mount: u32,
    quota: Arc<Quota>,
    slots: Segments<Slot>,
    numbers: FutexMutex<Numbers>,
    pins: FutexMutex<Pins>,
}

/// Pinned chunks, by the numbers of their pins.
#[derive(Default)]
struct Pins {
    chunks: BTreeMap<u64, Vec<Arc<Chunk>>>,
    last: u64,
}

/// Which indices are in use.
#[derive(Default)]
struct Numbers {
    free: Vec<u32>,
    next: u32,
}

/// One entry of the table.
#[derive(Default)]
struct Slot {
    file: FutexRwLock<Place>,
    modified: AtomicI64,
    /// When it was read, if that has been set: what reads it leaves no trace.
    accessed: AtomicI64,
}

/// What is in it.
#[derive(Default)]
struct Place {
    generation: u32,
    file: Option<File>,
}

struct File {
    body: Body,
    /// It has a name.
    named: bool,
    opened: u32,
    created: i64,
}

impl Nodes {
    pub(crate) fn new(host: HostRef, mount: u32, quota: Arc<Quota>) -> Nodes {
        Nodes {
            host,
            mount,
            quota,
            slots: Segments::new(FILES_MAX),
            numbers: FutexMutex::default(),
            pins: FutexMutex::default(),
        }
    }

    /// A new, empty file with a name, not open.
    pub(crate) fn make(&self) -> Result<u64, Errno> {
        self.quota.charge(OVERHEAD)?;
        let index = {
            let mut numbers = self.numbers.lock();
            numbers.free.pop().unwrap_or_else(|| {
                numbers.next += 1;
                numbers.next - 1
            })
        };
        let Some(slot) = self.slots.make(index as usize) else {
            self.numbers.lock().next -= 1;
            self.quota.refund(OVERHEAD);
            return Err(Errno::NoSpace);
        };
        let now = self.host.realtime() as i64;
        slot.modified.store(now, Ordering::Relaxed);
        slot.accessed.store(AS_MODIFIED, Ordering::Relaxed);
        let mut place = slot.file.write();
        let body = Body::new(self.host, self.quota.clone());
        place.file = Some(File { body, named: true, opened: 0, created: now });
        Ok(Nodes::number(place.generation, index))
    }

    /// The number of the file at an index.
    pub(crate) fn number(generation: u32, index: u32) -> u64 {
        u64::from(generation) << 32 | u64::from(index)
    }

    /// Every place that has been used, and the free ones.
    pub(crate) fn describe(&self) -> (Vec<PlaceRecord>, Vec<u32>) {
        let numbers = self.numbers.lock();
        let slots = (0..numbers.next as usize).filter_map(|index| self.slots.get(index));
        let describe = |slot: &Slot| {
            let place = slot.file.read();
            let file = place.file.as_ref().map(|file| FileRecord {
                opened: file.opened,
                created: file.created,
                modified: slot.modified.load(Ordering::Relaxed),
                size: file.body.size(),
                chunks: file.body.chunks().collect(),
            });
            PlaceRecord { generation: place.generation, file }
        };
        (slots.map(describe).collect(), numbers.free.clone())
    }

    /// When files were read of which that has been set, by index.
    pub(crate) fn accessed(&self) -> Vec<(u32, i64)> {
        let next = self.numbers.lock().next;
        let slots = (0..next).filter_map(|index| Some((index, self.slots.get(index as usize)?)));
        let there = slots.filter(|(_, slot)| slot.file.read().file.is_some());
        let set = there.map(|(index, slot)| (index, slot.accessed.load(Ordering::Relaxed)));
        set.filter(|(_, time)| *time != AS_MODIFIED).collect()
    }

    /// Sets that of a file that a record has; false if there is none.
    pub(crate) fn restore_accessed(&self, index: u32, time: i64) -> bool {
        let slot = self.slots.get(index as usize).filter(|slot| slot.file.read().file.is_some());
        slot.inspect(|slot| slot.accessed.store(time, Ordering::Relaxed)).is_some()
    }

    /// Names the pages of all files, in the order of their numbers, and adds the places of their chunks.
    pub(crate) fn name_pages(&self, places: &mut Vec<u32>, records: RecordsRef<'_>) {
        let next = self.numbers.lock().next as usize;
        for slot in (0..next).filter_map(|index| self.slots.get(index)) {
            if let Some(file) = &slot.file.read().file {
                file.body.name_pages(places, records);
            }
        }
    }

    /// Rebuilds an empty table. `named` has the places with a name; the files' contents are taken from the front of `contents`.
    pub(crate) fn restore(
        &self,
        places: Vec<PlaceRecord>,
        free: Vec<u32>,
        named: &[Option<usize>],
        contents: &mut Contents<'_>,
    ) -> Result<(), Damage> {
        let mut is_free = vec![false; places.len()];
        for index in &free {
            let once = is_free.get_mut(*index as usize).filter(|is_free| !**is_free).ok_or(Damage::Numbers)?;
            *once = true;
        }
        let count = u32::try_from(places.len()).ok().filter(|count| *count as usize <= FILES_MAX);
        *self.numbers.lock() = Numbers { free, next: count.ok_or(Damage::Numbers)? };
        for (index, PlaceRecord { generation, file }) in places.into_iter().enumerate() {
            if file.is_some() == is_free[index] {
                return Err(Damage::Numbers);
            }
            let slot = self.slots.make(index).ok_or(Damage::Numbers)?;
            let mut place = slot.file.write();
            place.generation = generation;
            let named = named[index].is_some();
            let Some(FileRecord { opened, created, modified, size, chunks }) = file else {
                if named {
                    return Err(Damage::Place(index));
                }
                continue;
            };
            if opened > OPENED_MAX || !named && opened == 0 {
                return Err(Damage::Place(index));
            }
            self.quota.charge(OVERHEAD)?;
            slot.modified.store(modified, Ordering::Relaxed);
            slot.accessed.store(AS_MODIFIED, Ordering::Relaxed);
            let mut body = Body::new(self.host, self.quota.clone());
            if !body.restore(size, &chunks, contents)? {
                return Err(Damage::Place(index));
            }
            place.file = Some(File { body, named, opened, created });
        }
        Ok(())
    }

    /// One more descriptor.
    pub(crate) fn open(&self, node: u64) -> Result<(), Errno> {
        self.change(node, |file| {
            file.opened += 1;
            Ok(())
        })
    }

    /// The last descriptor is closed.
    pub(crate) fn close(&self, node: u64) -> Result<(), Errno> {
        self.change(node, |file| {
            file.opened = file.opened.saturating_sub(1);
            Ok(())
        })?;
        self.drop_if_unused(node);
        Ok(())
    }

    /// Its name has been removed.
    pub(crate) fn unname(&self, node: u64) {
        // The caller has just found it under that name.
        let _ = self.change(node, |file| {
            file.named = false;
            Ok(())
        });
        self.drop_if_unused(node);
    }

    pub(crate) fn read(&self, node: u64, offset: u64, to: Checked) -> Result<u64, Errno> {
        let slot = self.slot(node)?;
        in_pieces(to, |done, piece| slot.file.read().get(node)?.body.read(offset.saturating_add(done), piece))
    }

    pub(crate) fn write(&self, node: u64, offset: Option<u64>, from: Checked) -> Result<(u64, u64), Errno> {
        let slot = self.slot(node)?;
        let mut end = offset.unwrap_or(0);
        let bytes = in_pieces(from, |done, piece| {
            let at = offset.map(|offset| offset.checked_add(done).ok_or(Errno::FileTooLarge)).transpose()?;
            end = slot.write(node, at, piece)?;
            Ok(piece.len())
        })?;
        slot.modified.store(self.host.realtime() as i64, Ordering::Relaxed);
        Ok((bytes, end))
    }

    pub(crate) fn resize(&self, node: u64, size: u64) -> Result<(), Errno> {
        self.slot(node)?.modified.store(self.host.realtime() as i64, Ordering::Relaxed);
        self.change(node, |file| file.body.resize(size))
    }

    pub(crate) fn set_times(&self, node: u64, times: Times) -> Result<(), Errno> {
        let slot = self.slot(node)?;
        let place = slot.file.read();
        place.get(node)?;
        for (time, word) in [(times.read, &slot.accessed), (times.written, &slot.modified)] {
            time.inspect(|time| word.store(*time, Ordering::Relaxed));
        }
        Ok(())
    }

    pub(crate) fn stat(&self, node: u64) -> Result<FileStat, Errno> {
        let slot = self.slot(node)?;
        let place = slot.file.read();
        let file = place.get(node)?;
        let modified = slot.modified.load(Ordering::Relaxed);
        let accessed = Some(slot.accessed.load(Ordering::Relaxed)).filter(|time| *time != AS_MODIFIED);
        Ok(FileStat {
            kind: FileKind::File as u32,
            read_only: 0,
            size: file.body.size(),
            mount: self.mount,
            links: file.named.into(),
            node: node + 1,
            modified,
            accessed: accessed.unwrap_or(modified),
            created: file.created,
        })
    }

    pub(crate) fn pin(&self, node: u64, offset: u64, len: u64) -> Result<(u64, Vec<Extent>), Errno> {
        let (chunks, extents) = self.slot(node)?.file.read().get(node)?.body.pin(offset, len)?;
        let mut pins = self.pins.lock();
        pins.last += 1;
        let pin = pins.last;
        pins.chunks.insert(pin, chunks);
        Ok((pin, extents))
    }

    pub(crate) fn unpin(&self, pin: u64) -> Result<(), Errno> {
        let gone = self.pins.lock().chunks.remove(&pin);
        gone.map(drop).ok_or(Errno::Invalid)
    }

    fn slot(&self, node: u64) -> Result<&Slot, Errno> {
        self.slots.get(node as u32 as usize).ok_or(Errno::BadDescriptor)
    }

    fn change<R>(&self, node: u64, change: impl FnOnce(&mut File) -> Result<R, Errno>) -> Result<R, Errno> {
        let mut place = self.slot(node)?.file.write();
        place.get(node)?;
        change(place.file.as_mut().ok_or(Errno::BadDescriptor)?)
    }

    fn drop_if_unused(&self, node: u64) {
        let Ok(slot) = self.slot(node) else { return };
        let mut place = slot.file.write();
        if !place.get(node).is_ok_and(|file| !file.named && file.opened == 0) {
            return;
        }
        let gone = place.file.take();
        place.generation = place.generation.wrapping_add(1);
        drop(place);
        // Its chunks are freed without the lock.
        drop(gone);
        self.quota.refund(OVERHEAD);
        self.numbers.lock().free.push(node as u32);
    }
}

impl Place {
    /// The file, if `node` is its number still.
    fn get(&self, node: u64) -> Result<&File, Errno> {
        self.file.as_ref().filter(|_| u64::from(self.generation) == node >> 32).ok_or(Errno::BadDescriptor)
    }
}

impl Slot {
    /// Writes one piece, at an offset or at the end; gives the position behind it.
    fn write(&self, node: u64, offset: Option<u64>, piece: Checked) -> Result<u64, Errno> {
        if let Some(offset) = offset {
            // Other readers and writers of bytes that are there need not wait for each other.
            let place = self.file.read();
            let body = &place.get(node)?.body;
            if body.covers(offset, piece.len()) {
                body.overwrite(offset, piece)?;
                return Ok(offset + piece.len());
            }
        }
        let mut place = self.file.write();
        place.get(node)?;
        let body = &mut place.file.as_mut().ok_or(Errno::BadDescriptor)?.body;
        let offset = offset.unwrap_or(body.size());
        body.write(offset, piece)?;
        Ok(offset + piece.len())
    }
}
