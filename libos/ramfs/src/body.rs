//! The bytes of a file.
//!
//! ```text
//!   chunk 0 (4 KiB … 2 MiB, doubling while the file is small) | chunk 1: 2 MiB | … | hole | chunk 9: 2 MiB
//! ```
//!
//! What no chunk covers reads as zeros, and so does everything behind the end: cutting a file zeroes what is left of
//! its last chunk, so that growing it again shows nothing old.
//!
//! A chunk may be pinned: its bytes are read through the pin. A pinned chunk outlives its removal from the file, charged as before.

use crate::places::CHUNK;
use crate::quota::Quota;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;
use monohull_abi::Errno;
use monohull_abi::file::{Extent, FILE_SIZE_MAX};
use monohull_abi::layout::{FILES_BASE, page_up};
use monohull_module::record::RecordsRef;
use monohull_module::{Checked, HostRef, Store};

/// Bytes of the smallest chunk.
const SMALL: u64 = 4096;

/// Size and bytes.
pub(crate) struct Body {
    host: HostRef,
    quota: Arc<Quota>,
    size: u64,
    chunks: BTreeMap<u64, Arc<Chunk>>,
}

/// A piece of memory, its place and the charge for it, until the file and all pins have released it.
pub(crate) struct Chunk {
    quota: Arc<Quota>,
    store: Store,
    place: u32,
}

impl Chunk {
    /// Zeroed memory; charged, as if `old` bytes of another chunk had been freed already.
    fn new(host: HostRef, quota: &Arc<Quota>, len: u64, old: u64) -> Result<Chunk, Errno> {
        let place = quota.places.take().ok_or(Errno::NoSpace)?;
        Chunk::at(place, host, quota, len, old)
    }

    /// The same at a place, which is the chunk's now, and free again if there is none.
    fn at(place: u32, host: HostRef, quota: &Arc<Quota>, len: u64, old: u64) -> Result<Chunk, Errno> {
        let charged = quota.charge_instead(len, old);
        let made = charged.and_then(|()| {
            let store = Store::new(host, len).ok_or(Errno::OutOfMemory).inspect_err(|_| quota.refund(len))?;
            Ok(Chunk { quota: quota.clone(), store, place })
        });
        made.inspect_err(|_| quota.places.put(place))
    }

    /// Has so many of its bytes captured, or brought, under its name.
    fn name_pages(&self, used: u64, records: RecordsRef<'_>) {
        records.file_pages(FILES_BASE + u64::from(self.place) * CHUNK, &self.store, page_up(used));
    }
}

/// Where the contents of the files of a record are.
pub(crate) enum Contents<'r> {
    /// In it, file by file: until version 2.
    Here(&'r [u8]),
    /// In pages of their own, by the places of chunks, which are taken from the front.
    Pages(&'r [u32], RecordsRef<'r>),
}

impl Deref for Chunk {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.quota.refund(self.store.len());
        self.quota.places.put(self.place);
    }
}

impl Body {
    pub(crate) fn new(host: HostRef, quota: Arc<Quota>) -> Body {
        Body { host, quota, size: 0, chunks: BTreeMap::new() }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Index and bytes of each chunk.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.chunks.iter().map(|(index, chunk)| (*index, chunk.len()))
    }

    /// Names the pages that the chunks hold before the file's end, and adds their places.
    pub(crate) fn name_pages(&self, places: &mut Vec<u32>, records: RecordsRef<'_>) {
        for (index, chunk) in &self.chunks {
            places.push(chunk.place);
            chunk.name_pages(used_of(*index, chunk.len(), self.size), records);
        }
    }

    /// Rebuilds an empty file; its contents are taken from the front of `contents`. False if no file is like that.
    pub(crate) fn restore(
        &mut self,
        size: u64,
        chunks: &[(u64, u64)],
        contents: &mut Contents<'_>,
    ) -> Result<bool, Errno> {
        let mut next = 0;
        for (index, len) in chunks.iter().copied() {
            let begins_inside = index >= next && index.checked_mul(CHUNK).is_some_and(|start| start < size);
            let is_chunk = (1..=CHUNK).contains(&len) && len.is_multiple_of(SMALL);
            if size > FILE_SIZE_MAX || !begins_inside || !is_chunk {
                return Ok(false);
            }
            let used = used_of(index, len, size);
            let chunk = match contents {
                Contents::Here(bytes) => {
                    let Some((own, rest)) = bytes.split_at_checked(used as usize) else { return Ok(false) };
                    let chunk = Chunk::new(self.host, &self.quota, len, 0)?;
                    chunk.write(0, own)?;
                    *bytes = rest;
                    chunk
                }
                Contents::Pages(places, records) => {
                    let Some((place, rest)) = places.split_first() else { return Ok(false) };
                    if !self.quota.places.claim(*place) {
                        return Ok(false);
                    }
                    let chunk = Chunk::at(*place, self.host, &self.quota, len, 0)?;
                    chunk.name_pages(used, *records);
                    *places = rest;
                    chunk
                }
            };
            self.chunks.insert(index, Arc::new(chunk));
            next = index + 1;
        }
        self.size = size;
        Ok(size <= FILE_SIZE_MAX)
    }

    /// Copies what there is from `offset` on: bytes.
    pub(crate) fn read(&self, offset: u64, to: Checked) -> Result<u64, Errno> {
        let len = to.len().min(self.size.saturating_sub(offset));
        self.pieces(offset, to.part(0, len), |chunk, at, piece| match chunk {
            Some(chunk) => chunk.copy_out(at, piece),
            None => piece.zero(self.host),
        })?;
        Ok(len)
    }

    /// Whether [`Body::overwrite`] can take this range.
    pub(crate) fn covers(&self, offset: u64, len: u64) -> bool {
        let Some(end) = offset.checked_add(len).filter(|end| *end <= self.size) else { return false };
        (offset / CHUNK..=end.saturating_sub(1) / CHUNK).all(|index| self.capacity(index) >= part_of(index, end))
    }

    /// Replaces bytes that are there.
    pub(crate) fn overwrite(&self, offset: u64, from: Checked) -> Result<(), Errno> {
        self.pieces(offset, from, |chunk, at, piece| chunk.ok_or(Errno::Io)?.copy_in(at, piece))
    }

    /// Writes anywhere; the file grows if need be. A write that fails leaves the size as it was.
    pub(crate) fn write(&mut self, offset: u64, from: Checked) -> Result<(), Errno> {
        let end = offset.checked_add(from.len()).filter(|end| *end <= FILE_SIZE_MAX).ok_or(Errno::FileTooLarge)?;
        let written = self.reserve(offset, end).and_then(|()| self.overwrite(offset, from));
        match written {
            Ok(()) => self.size = self.size.max(end),
            // Part of it may have been copied behind the end already.
            Err(_) => self.cut(self.size),
        }
        written
    }

    /// Cuts or extends.
    pub(crate) fn resize(&mut self, size: u64) -> Result<(), Errno> {
        if size > FILE_SIZE_MAX {
            return Err(Errno::FileTooLarge);
        }
        if size < self.size {
            self.cut(size);
        }
        self.size = size;
        Ok(())
    }

    /// Frees the chunks behind `size`.
    fn cut(&mut self, size: u64) {
        self.chunks.split_off(&size.div_ceil(CHUNK));
        let last = size / CHUNK;
        if let Some(chunk) = self.chunks.get(&last) {
            let used = (size % CHUNK).min(chunk.len());
            // Memory of our own, inside its bounds. If the host has no memory to keep what a mapping shows of it, it stays as it was:
            // bytes of this file.
            let _ = chunk.zero(used, chunk.len() - used);
        }
    }

    /// Makes chunks for a range.
    fn reserve(&mut self, offset: u64, end: u64) -> Result<(), Errno> {
        if offset == end {
            return Ok(());
        }
        for index in offset / CHUNK..=(end - 1) / CHUNK {
            let (have, need) = (self.capacity(index), part_of(index, end));
            if have >= need {
                continue;
            }
            let is_small = index == 0 && end.max(self.size) <= CHUNK;
            let len = if is_small { need.next_power_of_two().max(SMALL) } else { CHUNK };
            let new = match self.grown(index, have, len) {
                // With little left, no more than what is needed.
                Err(Errno::NoSpace) => self.grown(index, have, need.next_multiple_of(SMALL))?,
                new => new?,
            };
            self.chunks.insert(index, Arc::new(new));
        }
        Ok(())
    }

    /// A larger chunk with what a chunk holds.
    fn grown(&self, index: u64, have: u64, len: u64) -> Result<Chunk, Errno> {
        let new = Chunk::new(self.host, &self.quota, len, have)?;
        if let Some(old) = self.chunks.get(&index) {
            old.copy_to(&new, have)?;
        }
        Ok(new)
    }

    /// Where the bytes of a range lie, and what keeps them there.
    pub(crate) fn pin(&self, offset: u64, len: u64) -> Result<(Vec<Arc<Chunk>>, Vec<Extent>), Errno> {
        let end = offset.checked_add(len).filter(|end| *end <= self.size).ok_or(Errno::Invalid)?;
        let (mut chunks, mut extents) = (Vec::new(), Vec::new());
        let mut at = offset;
        while at < end {
            let (index, into) = (at / CHUNK, at % CHUNK);
            let extent = match self.chunks.get(&index).filter(|chunk| into < chunk.len()) {
                Some(chunk) => {
                    chunks.push(chunk.clone());
                    chunk.extent(into, (end - at).min(chunk.len() - into))?
                }
                // A hole of any length is one.
                None => {
                    let next = self.chunks.range(index + 1..).next().map_or(end, |(next, _)| next * CHUNK);
                    Extent { address: 0, len: next.min(end) - at }
                }
            };
            at += extent.len;
            extents.push(extent);
        }
        Ok((chunks, extents))
    }

    fn capacity(&self, index: u64) -> u64 {
        self.chunks.get(&index).map_or(0, |chunk| chunk.len())
    }

    /// Cuts a range into pieces of one chunk, or of none, each; gives chunk, offset in it, and the piece.
    fn pieces(
        &self,
        offset: u64,
        buffer: Checked,
        mut each: impl FnMut(Option<&Store>, u64, Checked) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut done = 0;
        while done < buffer.len() {
            let (index, at) = ((offset + done) / CHUNK, (offset + done) % CHUNK);
            let chunk = self.chunks.get(&index).map(|chunk| &chunk.store).filter(|chunk| at < chunk.len());
            let end = chunk.map_or(CHUNK, |chunk| chunk.len());
            let piece = buffer.part(done, end - at);
            each(chunk, at, piece)?;
            done += piece.len();
        }
        Ok(())
    }
}

/// How much of chunk `index` a range that ends at `end` needs.
fn part_of(index: u64, end: u64) -> u64 {
    (end - index * CHUNK).min(CHUNK)
}

/// How many bytes of a chunk lie before the end of a file.
fn used_of(index: u64, len: u64, size: u64) -> u64 {
    size.saturating_sub(index * CHUNK).min(len)
}
