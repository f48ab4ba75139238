//! A mapped image, as this module and the crate that knows FAT see it.
//!
//! The image's file may have holes, and the disk of the host no room for what is to fill them. A store there fails like one on a disk
//! that is broken. So after a failure the module has the host allocate blocks, and repeats the store; the result of the allocation is the answer.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::Errno;
use monohull_abi::file::Extent;
use monohull_abi::layout::PAGE;
use monohull_fat::edit::{EditError, Store};
use monohull_fat::{Error, Image};
use monohull_module::{Checked, HostRef, Memory};

/// The image as it is.
#[derive(Clone)]
pub(crate) struct Mapped {
    host: HostRef,
    mount: u32,
    memory: Memory,
    /// Which pages have been written to, a bit for each, if they are the domain's own.
    written: Option<Arc<[AtomicU64]>>,
}

impl Mapped {
    pub(crate) fn new(host: HostRef, mount: u32) -> Result<Mapped, Errno> {
        let memory = host.image(mount)?;
        let words = memory.len().div_ceil(PAGE).div_ceil(64);
        let is_private = host.image_identity(mount)?.private == 1;
        let written = is_private.then(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        Ok(Mapped { host, mount, memory, written })
    }

    /// Bytes of the whole image.
    pub(crate) fn len_of_image(&self) -> u64 {
        self.memory.len()
    }

    /// Whether changes are the domain's own and do not reach the file.
    pub(crate) fn is_private(&self) -> bool {
        self.written.is_some()
    }

    /// The domain's own pages: runs of first page and count.
    pub(crate) fn changed(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (index, word) in (0..).zip(self.written.iter().flat_map(|words| words.iter())) {
            let word = word.load(Ordering::Relaxed);
            for page in (0..64).filter(|bit| word & 1 << bit != 0).map(|bit| index * 64 + bit) {
                match runs.last_mut() {
                    Some((first, count)) if *first + *count == page => *count += 1,
                    _ => runs.push((page, 1)),
                }
            }
        }
        runs
    }

    /// Notes the pages of a range before they are written to.
    fn note(&self, offset: u64, len: u64) {
        let (Some(words), Some(last)) = (&self.written, len.checked_sub(1)) else { return };
        for page in offset / PAGE..=offset.saturating_add(last) / PAGE {
            // What lies behind the end is refused by the store that follows.
            if let Some(word) = words.get((page / 64) as usize)
                && word.load(Ordering::Relaxed) & 1 << (page % 64) == 0
            {
                word.fetch_or(1 << (page % 64), Ordering::Relaxed);
            }
        }
    }

    /// Copies out.
    pub(crate) fn fill(&self, offset: u64, to: &mut [u8]) -> Result<(), Errno> {
        self.memory.fill(offset, to)
    }

    /// Copies in.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) -> Result<(), Errno> {
        self.with_room(offset, from.len() as u64, || self.memory.write(offset, from))
    }

    /// Copies into a function's whole buffer.
    pub(crate) fn copy_out(&self, offset: u64, to: Checked) -> Result<(), Errno> {
        self.memory.copy_out(offset, to)
    }

    /// Copies a function's whole buffer in.
    pub(crate) fn copy_in(&self, offset: u64, from: Checked) -> Result<(), Errno> {
        self.with_room(offset, from.len(), || self.memory.copy_in(offset, from))
    }

    /// Fills a range with zeros.
    pub(crate) fn zero(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.with_room(offset, len, || self.memory.zero(offset, len))
    }

    /// Where a range lies.
    pub(crate) fn extent(&self, offset: u64, len: u64) -> Result<Extent, Errno> {
        self.memory.extent(offset, len)
    }

    fn with_room(&self, offset: u64, len: u64, store: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
        self.note(offset, len);
        match store() {
            Err(Errno::Io) => {
                self.host.image_reserve(self.mount, offset, len)?;
                store()
            }
            stored => stored,
        }
    }
}

impl Image for Mapped {
    fn len(&self) -> u64 {
        self.memory.len()
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        self.fill(offset, to).map_err(|_| Error::Bytes)
    }
}

impl Store for Mapped {
    fn store(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.write(offset, from).map_err(|errno| match errno {
            Errno::NoSpace => Error::DiskFull,
            _ => Error::Bytes,
        })
    }
}

pub(crate) fn errno_of(error: EditError) -> Errno {
    match error {
        EditError::NotFound => Errno::NotFound,
        EditError::Exists => Errno::Exists,
        EditError::NotEmpty => Errno::NotEmpty,
        EditError::NoSpace => Errno::NoSpace,
        EditError::InvalidName => Errno::InvalidName,
        EditError::Image(error) => errno_of_damage(error),
    }
}

pub(crate) fn errno_of_damage(error: Error) -> Errno {
    match error {
        Error::NotFound => Errno::NotFound,
        Error::NotDirectory => Errno::NotDirectory,
        Error::DiskFull => Errno::NoSpace,
        Error::Bytes | Error::NotFat(_) | Error::Damaged(_) => Errno::Io,
    }
}
