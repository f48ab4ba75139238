//! The program's linear memory, and what a function of WASI reads and writes there.
//!
//! Pointers of the program are offsets in its memory. All access goes through a slice of that memory, so a wrong pointer is an error
//! of the call (`FAULT`) and never an access elsewhere.

use crate::errno::WasiError;
use core::ops::Range;

/// The linear memory during one call.
pub(crate) struct Guest<'a>(pub(crate) &'a mut [u8]);

impl Guest<'_> {
    fn range(&self, pointer: u32, len: u64) -> Result<Range<usize>, WasiError> {
        let start = u64::from(pointer);
        let end = start.checked_add(len).filter(|end| *end <= self.0.len() as u64).ok_or(WasiError::FAULT)?;
        Ok(start as usize..end as usize)
    }

    /// A part of the memory.
    pub(crate) fn bytes(&self, pointer: u32, len: u32) -> Result<&[u8], WasiError> {
        let range = self.range(pointer, len.into())?;
        Ok(&self.0[range])
    }

    /// A part of the memory, to be written to.
    pub(crate) fn bytes_mut(&mut self, pointer: u32, len: u32) -> Result<&mut [u8], WasiError> {
        let range = self.range(pointer, len.into())?;
        Ok(&mut self.0[range])
    }

    /// A text in UTF-8.
    pub(crate) fn text(&self, pointer: u32, len: u32) -> Result<&str, WasiError> {
        core::str::from_utf8(self.bytes(pointer, len)?).map_err(|_| WasiError::ILSEQ)
    }

    /// A little-endian number of `N` bytes.
    pub(crate) fn load<const N: usize>(&self, pointer: u32) -> Result<[u8; N], WasiError> {
        Ok(self.bytes(pointer, N as u32)?.try_into().expect("has this length"))
    }

    /// A `u32`.
    pub(crate) fn load_u32(&self, pointer: u32) -> Result<u32, WasiError> {
        self.load(pointer).map(u32::from_le_bytes)
    }

    /// A `u64`.
    pub(crate) fn load_u64(&self, pointer: u32) -> Result<u64, WasiError> {
        self.load(pointer).map(u64::from_le_bytes)
    }

    /// Writes bytes.
    pub(crate) fn store(&mut self, pointer: u32, bytes: &[u8]) -> Result<(), WasiError> {
        let len = u32::try_from(bytes.len()).map_err(|_| WasiError::FAULT)?;
        self.bytes_mut(pointer, len)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes a `u32`.
    pub(crate) fn store_u32(&mut self, pointer: u32, value: u32) -> Result<(), WasiError> {
        self.store(pointer, &value.to_le_bytes())
    }

    /// Writes a `u64`.
    pub(crate) fn store_u64(&mut self, pointer: u32, value: u64) -> Result<(), WasiError> {
        self.store(pointer, &value.to_le_bytes())
    }

    /// The buffers of an array of (pointer, length) pairs, as ranges of the memory. At most [`BUFFERS_MAX`] of them are used, and of these
    /// [`BYTES_MAX`] bytes, which a call that may read or write less than asked is free to do.
    pub(crate) fn buffers(&self, pointer: u32, count: u32) -> Result<alloc::vec::Vec<Range<usize>>, WasiError> {
        let count = count.min(BUFFERS_MAX);
        let mut left = BYTES_MAX;
        (0..count)
            .map(|index| {
                let entry = pointer.checked_add(index * 8).ok_or(WasiError::FAULT)?;
                let len = self.load_u32(entry.checked_add(4).ok_or(WasiError::FAULT)?)?;
                let range = self.range(self.load_u32(entry)?, len.into())?;
                let used = range.len().min(left);
                left -= used;
                Ok(range.start..range.start + used)
            })
            .collect()
    }
}

/// Most bytes of the buffers of one call. Buffers may overlap, so that they can have more than a program has, and a call tells how many bytes it has
/// transferred in 32 bits.
const BYTES_MAX: usize = i32::MAX as usize;
/// Most buffers of one call.
const BUFFERS_MAX: u32 = monohull_abi::file::VECTOR_MAX as u32;
