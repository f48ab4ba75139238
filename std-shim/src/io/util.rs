//! Readers and writers that do very little.

use super::{BufRead, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use crate::fmt;

/// Copies everything from `reader` to `writer`, and returns the number of bytes.
pub fn copy<R: Read + ?Sized, W: Write + ?Sized>(reader: &mut R, writer: &mut W) -> Result<u64> {
    let mut chunk = [0; 8192];
    let mut total = 0;
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(total),
            Ok(count) => {
                writer.write_all(&chunk[..count])?;
                total += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A reader at its end.
#[derive(Clone, Copy, Default, Debug)]
#[non_exhaustive]
pub struct Empty;

/// A reader at its end.
pub const fn empty() -> Empty {
    Empty
}

impl Read for Empty {
    fn read(&mut self, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }
}

impl BufRead for Empty {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        Ok(&[])
    }

    fn consume(&mut self, _: usize) {}
}

impl Seek for Empty {
    fn seek(&mut self, _: SeekFrom) -> Result<u64> {
        Ok(0)
    }
}

/// A reader of one byte, for ever.
#[derive(Clone)]
pub struct Repeat(u8);

/// A reader of one byte, for ever.
pub const fn repeat(byte: u8) -> Repeat {
    Repeat(byte)
}

impl Read for Repeat {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        buf.fill(self.0);
        Ok(buf.len())
    }
}

impl fmt::Debug for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repeat").finish_non_exhaustive()
    }
}

/// A writer that forgets.
#[derive(Clone, Copy, Default, Debug)]
#[non_exhaustive]
pub struct Sink;

/// A writer that forgets.
pub const fn sink() -> Sink {
    Sink
}

macro_rules! forgets {
    ($($type:ty),*) => { $(
        impl Write for $type {
            fn write(&mut self, buf: &[u8]) -> Result<usize> {
                Ok(buf.len())
            }

            fn flush(&mut self) -> Result<()> {
                Ok(())
            }
        }
    )* };
}

forgets!(Sink, &Sink, Empty, &Empty);
