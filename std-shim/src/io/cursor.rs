//! Bytes in memory with a position.

use super::memory::{read_all_vectored, write_all_vectored};
use super::{BufRead, Error, ErrorKind, IoSlice, IoSliceMut, Read, Result, Seek, SeekFrom, Write};
use crate::boxed::Box;
use crate::vec::Vec;

/// Bytes in memory, to be read and written like a file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Cursor<T> {
    inner: T,
    pos: u64,
}

impl<T> Cursor<T> {
    /// The bytes, at their start.
    pub const fn new(inner: T) -> Cursor<T> {
        Cursor { inner, pos: 0 }
    }

    /// The bytes.
    pub fn into_inner(self) -> T {
        self.inner
    }

    /// The bytes.
    pub const fn get_ref(&self) -> &T {
        &self.inner
    }

    /// The bytes.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// The position.
    pub const fn position(&self) -> u64 {
        self.pos
    }

    /// Moves the position, which may be past the end.
    pub const fn set_position(&mut self, position: u64) {
        self.pos = position;
    }

    /// The position within `len` bytes.
    fn at(&self, len: usize) -> usize {
        usize::try_from(self.pos).map_or(len, |at| at.min(len))
    }
}

impl<T: AsRef<[u8]>> Cursor<T> {
    fn rest(&self) -> &[u8] {
        let bytes = self.inner.as_ref();
        &bytes[self.at(bytes.len())..]
    }
}

impl<T: AsRef<[u8]>> Read for Cursor<T> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let count = self.rest().read(buf)?;
        self.pos += count as u64;
        Ok(count)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> Result<usize> {
        let count = self.rest().read_to_end(buf)?;
        self.pos += count as u64;
        Ok(count)
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> Result<()> {
        let result = self.rest().read_exact(buf);
        match result {
            Ok(()) => self.pos += buf.len() as u64,
            // A failed attempt leaves nothing to be read, as in std.
            Err(_) => self.pos = self.inner.as_ref().len() as u64,
        }
        result
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> Result<usize> {
        read_all_vectored(self, bufs)
    }
}

impl<T: AsRef<[u8]>> BufRead for Cursor<T> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        Ok(self.rest())
    }

    fn consume(&mut self, amount: usize) {
        self.pos += amount as u64;
    }
}

impl<T: AsRef<[u8]>> Seek for Cursor<T> {
    fn seek(&mut self, position: SeekFrom) -> Result<u64> {
        let (base, offset) = match position {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::End(offset) => (self.inner.as_ref().len() as u64, offset),
            SeekFrom::Current(offset) => (self.pos, offset),
        };
        let invalid = || Error::constant(ErrorKind::InvalidInput, "invalid seek to a negative or overflowing position");
        self.pos = base.checked_add_signed(offset).ok_or_else(invalid)?;
        Ok(self.pos)
    }
}

/// Writes into bytes that do not grow.
fn write_fixed(cursor_at: &mut u64, at: usize, bytes: &mut [u8], buf: &[u8]) -> usize {
    let room = &mut bytes[at..];
    let count = room.len().min(buf.len());
    room[..count].copy_from_slice(&buf[..count]);
    *cursor_at += count as u64;
    count
}

macro_rules! fixed {
    ($([$($generics:tt)*] $type:ty;)*) => { $(
        impl<$($generics)*> Write for Cursor<$type> {
            fn write(&mut self, buf: &[u8]) -> Result<usize> {
                let at = self.at(self.inner.len());
                Ok(write_fixed(&mut self.pos, at, &mut self.inner[..], buf))
            }

            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize> {
                write_all_vectored(self, bufs)
            }

            fn flush(&mut self) -> Result<()> {
                Ok(())
            }
        }
    )* };
}

fixed! {
    [] &mut [u8];
    [] Box<[u8]>;
    [const N: usize] [u8; N];
}

/// Writes into bytes that grow; a gap before the position is filled with zeros.
fn write_growing(position: &mut u64, bytes: &mut Vec<u8>, buf: &[u8]) -> Result<usize> {
    let too_far = || Error::constant(ErrorKind::InvalidInput, "cursor position exceeds maximum possible vector length");
    let at = usize::try_from(*position).map_err(|_| too_far())?;
    let end = at.checked_add(buf.len()).ok_or_else(too_far)?;
    if bytes.len() < at {
        bytes.resize(at, 0);
    }
    let overlap = buf.len().min(bytes.len() - at);
    bytes[at..at + overlap].copy_from_slice(&buf[..overlap]);
    bytes.extend_from_slice(&buf[overlap..]);
    *position = end as u64;
    Ok(buf.len())
}

impl Write for Cursor<Vec<u8>> {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        write_growing(&mut self.pos, &mut self.inner, buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize> {
        write_all_vectored(self, bufs)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Write for Cursor<&mut Vec<u8>> {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        write_growing(&mut self.pos, self.inner, buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize> {
        write_all_vectored(self, bufs)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
