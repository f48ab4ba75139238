//! One open file: where its bytes are.

use crate::image::Mapped;
use alloc::string::String;
use alloc::vec::Vec;
use monohull_abi::Errno;
use monohull_abi::file::Extent;
use monohull_fat::{Entry, Runs, encode_time};
use monohull_module::Checked;

/// The largest file that FAT can hold.
pub(crate) const SIZE_MAX: u64 = u32::MAX as u64;

/// Writes down when the bytes of what has this slot last changed.
pub(crate) fn set_modified(image: &Mapped, slot: u64, ns: i64) -> Result<(), Errno> {
    let (date, time) = encode_time(ns);
    image.write(slot + 22, &time.to_le_bytes())?;
    image.write(slot + 24, &date.to_le_bytes())
}

/// An open file.
pub(crate) struct File {
    /// Where the library finds it.
    pub(crate) path: String,
    /// Where its slot is in the image.
    pub(crate) slot: u64,
    /// Bytes that are the file's.
    pub(crate) size: u64,
    /// From the end up to here there are zeros; not before the end.
    clear: u64,
    /// Where they are; may reach further than the size.
    pub(crate) runs: Runs,
    /// It has a name that functions can see.
    pub(crate) named: bool,
    pub(crate) opened: u32,
    /// Number of pins: while a cluster may be read through one, the file frees none.
    pub(crate) pinned: u32,
    pub(crate) read_only: bool,
    pub(crate) created: i64,
}

impl File {
    pub(crate) fn new(path: String, entry: &Entry, runs: Runs) -> File {
        File {
            path,
            slot: entry.slot,
            size: entry.size,
            clear: entry.size,
            runs,
            named: true,
            opened: 0,
            pinned: 0,
            read_only: entry.read_only,
            created: entry.created,
        }
    }

    /// Copies what there is from `offset` on: bytes.
    pub(crate) fn read(&self, image: &Mapped, offset: u64, to: Checked) -> Result<u64, Errno> {
        let to = to.part(0, self.size.saturating_sub(offset));
        self.pieces(offset, to.len(), |at, done, len| image.copy_out(at, to.part(done, len)))?;
        Ok(to.len())
    }

    /// Whether a range lies inside the file.
    pub(crate) fn covers(&self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.size)
    }

    /// Replaces bytes inside the clusters.
    pub(crate) fn overwrite(&self, image: &Mapped, offset: u64, from: Checked) -> Result<(), Errno> {
        self.pieces(offset, from.len(), |at, done, len| image.copy_in(at, from.part(done, len)))
    }

    /// Writes where the clusters reach, and moves the end if need be.
    pub(crate) fn write(&mut self, image: &Mapped, offset: u64, from: Checked) -> Result<(), Errno> {
        self.clear(image, offset)?;
        let (end, clear) = (offset + from.len(), self.clear);
        // A part may have been copied when it fails.
        self.clear = clear.min(offset).max(self.size);
        self.overwrite(image, offset, from)?;
        if end > self.size {
            self.set_size(image, end)?;
        }
        self.clear = clear.max(self.size);
        Ok(())
    }

    /// Zeroes what lies between the end and `to`, inside of what the clusters reach.
    pub(crate) fn clear(&mut self, image: &Mapped, to: u64) -> Result<(), Errno> {
        self.pieces(self.clear, to.saturating_sub(self.clear), |at, _, len| image.zero(at, len))?;
        self.clear = self.clear.max(to);
        Ok(())
    }

    /// Up to where there are zeros behind the end, at least.
    pub(crate) fn cleared(&self) -> u64 {
        self.clear
    }

    /// Moves the end inside of what the clusters reach. The slot is updated at once: one aligned word.
    pub(crate) fn set_size(&mut self, image: &Mapped, size: u64) -> Result<(), Errno> {
        image.write(self.slot + 28, &(size as u32).to_le_bytes())?;
        self.has_size(size);
        Ok(())
    }

    /// It has given clusters back. Those that come have anything in them.
    pub(crate) fn has_fewer_clusters(&mut self) {
        self.clear = self.clear.min(self.runs.capacity()).max(self.size);
    }

    /// Its slot has this size.
    pub(crate) fn has_size(&mut self, size: u64) {
        self.clear = if size < self.size { size } else { self.clear.max(size) };
        self.size = size;
    }

    /// Where the bytes of a range lie, which is inside the file.
    pub(crate) fn extents(&self, image: &Mapped, offset: u64, len: u64) -> Result<Vec<Extent>, Errno> {
        if !self.covers(offset, len) {
            return Err(Errno::Invalid);
        }
        let mut extents = Vec::new();
        self.pieces(offset, len, |at, _, len| {
            extents.push(image.extent(at, len)?);
            Ok(())
        })?;
        Ok(extents)
    }

    /// Cuts a range into pieces that lie side by side in the image: offset, bytes before it, bytes.
    fn pieces(
        &self,
        offset: u64,
        len: u64,
        mut each: impl FnMut(u64, u64, u64) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut done = 0;
        while done < len {
            let (at, side_by_side) = self.runs.find(offset + done).ok_or(Errno::Io)?;
            let piece = side_by_side.min(len - done);
            each(at, done, piece)?;
            done += piece;
        }
        Ok(())
    }
}
