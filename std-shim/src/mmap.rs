//! Files as memory, in the way of the crate `memmap2`.
//!
//! ```rust,ignore
//! let file = std::fs::File::open("/models/weights.bin")?;
//! let weights = std::mmap::Mmap::map(&file)?;
//! println!("{} bytes, the first is {}", weights.len(), weights[0]);
//! ```
//!
//! A mapping is a private copy whose pages are made when they are first touched, so that bytes that are not touched are never
//! read. It counts with its whole length against the instance's memory limit.
//!
//! What differs from `memmap2`: mapping is safe. There a file that another program changes or truncates changes the bytes behind a
//! `&[u8]`, or takes them away; here a page stays as it was when it was first touched. If its bytes cannot be had then, the
//! instance ends with a report, as it would on a panic. For the same reason there is no mapping that writes to its file:
//! [`MmapOptions::map_copy`] is all that can be written to.
#![allow(unsafe_code, reason = "memory that the system maps becomes slices here")]

use crate::fs::File;
use crate::io;
use crate::sys::files;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use monohull_abi::file::{Advice as Raw, FILLED_AT_ONCE, map};

/// How to map a file.
#[derive(Clone, Debug, Default)]
pub struct MmapOptions {
    offset: u64,
    len: Option<usize>,
    populate: bool,
}

/// A file as memory, to be read; taken back when it is dropped.
pub struct Mmap(Mapping);

/// A private copy of a file, to be changed; taken back when it is dropped.
pub struct MmapMut(Mapping);

/// What will be done with a mapping. Only a hint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Advice {
    /// Nothing is known.
    Normal,
    /// It is touched without an order: fill only what is touched.
    Random,
    /// It is touched from start to end: fill far ahead.
    Sequential,
    /// It is needed soon: fill it now.
    WillNeed,
}

impl MmapOptions {
    /// The whole file.
    pub fn new() -> MmapOptions {
        MmapOptions::default()
    }

    /// Where in the file to begin: anywhere.
    pub fn offset(&mut self, offset: u64) -> &mut MmapOptions {
        self.offset = offset;
        self
    }

    /// How many bytes; otherwise all that come after the offset. The file has to have as many.
    pub fn len(&mut self, len: usize) -> &mut MmapOptions {
        self.len = Some(len);
        self
    }

    /// Fill it now, not when it is touched.
    pub fn populate(&mut self) -> &mut MmapOptions {
        self.populate = true;
        self
    }

    /// Maps a file, to be read.
    pub fn map(&self, file: &File) -> io::Result<Mmap> {
        self.make(file, 0).map(Mmap)
    }

    /// Maps a file, to be read and changed; the file stays as it is.
    pub fn map_copy(&self, file: &File) -> io::Result<MmapMut> {
        self.make(file, map::WRITE).map(MmapMut)
    }

    /// The same as [`MmapOptions::map`].
    pub fn map_copy_read_only(&self, file: &File) -> io::Result<Mmap> {
        self.map(file)
    }

    fn make(&self, file: &File, flags: u64) -> io::Result<Mapping> {
        let len = match self.len {
            Some(len) if isize::try_from(len).is_err() => return Err(io::ErrorKind::InvalidInput.into()),
            Some(len) => len as u64,
            None => {
                let known = file.metadata()?;
                match known.len().checked_sub(self.offset) {
                    // What is added meanwhile is left out, so that the length is known here.
                    Some(len) if known.is_file() => len,
                    // The system refuses that, with an explanation.
                    _ => 1,
                }
            }
        };
        if len == 0 {
            return Ok(Mapping { address: NonNull::dangling(), len: 0 });
        }
        let flags = if self.populate { flags | map::POPULATE } else { flags };
        let address = files::map(file.descriptor(), self.offset, len, flags)?;
        // SAFETY: what has been mapped is not at address 0.
        let mapping = Mapping { address: unsafe { NonNull::new_unchecked(address as *mut u8) }, len: len as usize };
        if self.populate && len > FILLED_AT_ONCE {
            mapping.advise(Advice::WillNeed, FILLED_AT_ONCE as usize, (len - FILLED_AT_ONCE) as usize)?;
        }
        Ok(mapping)
    }
}

impl Mmap {
    /// Maps a whole file.
    pub fn map(file: &File) -> io::Result<Mmap> {
        MmapOptions::new().map(file)
    }

    /// The same bytes, which may be changed from now on.
    pub fn make_mut(self) -> io::Result<MmapMut> {
        self.0.set_writable(true)?;
        Ok(MmapMut(self.0))
    }

    /// Announces how it will be used.
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        self.0.advise(advice, 0, self.0.len)
    }

    /// Announces how a part of it will be used. Only [`Advice::WillNeed`] applies to the part alone.
    pub fn advise_range(&self, advice: Advice, offset: usize, len: usize) -> io::Result<()> {
        self.0.advise(advice, offset, len)
    }
}

impl MmapMut {
    /// The same bytes, which stay as they are from now on.
    pub fn make_read_only(self) -> io::Result<Mmap> {
        self.0.set_writable(false)?;
        Ok(Mmap(self.0))
    }

    /// Announces how it will be used.
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        self.0.advise(advice, 0, self.0.len)
    }

    /// Announces how a part of it will be used. Only [`Advice::WillNeed`] applies to the part alone.
    pub fn advise_range(&self, advice: Advice, offset: usize, len: usize) -> io::Result<()> {
        self.0.advise(advice, offset, len)
    }
}

impl Deref for Mmap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Deref for MmapMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DerefMut for MmapMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `Mapping::bytes`; it is writable, and there is no other reference to it.
        unsafe { core::slice::from_raw_parts_mut(self.0.address.as_ptr(), self.0.len) }
    }
}

impl AsRef<[u8]> for Mmap {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsRef<[u8]> for MmapMut {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for MmapMut {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for Mmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mmap").field("ptr", &self.0.address).field("len", &self.0.len).finish()
    }
}

impl fmt::Debug for MmapMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MmapMut").field("ptr", &self.0.address).field("len", &self.0.len).finish()
    }
}

/// A mapping of this instance; an empty one has no memory.
struct Mapping {
    address: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the value alone, and is used through it as a `Box<[u8]>` would be.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn bytes(&self) -> &[u8] {
        // SAFETY: as many bytes are mapped there until the value is dropped. A page is filled before it can be read, and changed
        // only through this value.
        unsafe { core::slice::from_raw_parts(self.address.as_ptr(), self.len) }
    }

    fn address(&self) -> u64 {
        self.address.as_ptr() as u64
    }

    fn set_writable(&self, writable: bool) -> io::Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        files::protect_mapping(self.address(), writable)
    }

    fn advise(&self, advice: Advice, offset: usize, len: usize) -> io::Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        let raw = match advice {
            Advice::Normal => Raw::Normal,
            Advice::Random => Raw::Random,
            Advice::Sequential => Raw::Sequential,
            Advice::WillNeed => Raw::WillNeed,
        };
        files::advise_mapping(self.address(), offset as u64, len as u64, raw)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len > 0 {
            files::unmap(self.address());
        }
    }
}
