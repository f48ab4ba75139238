//! The traits for borrowed, boxed and in-memory readers and writers.

use super::read::not_text;
use super::{BufRead, Error, ErrorKind, IoSlice, IoSliceMut, Read, Result, Seek, SeekFrom, Write};
use crate::boxed::Box;
use crate::collections::VecDeque;
use crate::fmt;
use crate::string::String;
use crate::vec::Vec;

macro_rules! forward {
    ($($type:ty, $param:ident;)*) => { $(
        impl<$param: Read + ?Sized> Read for $type {
            fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
                (**self).read(buf)
            }
            fn read_to_end(&mut self, buf: &mut Vec<u8>) -> Result<usize> {
                (**self).read_to_end(buf)
            }
            fn read_to_string(&mut self, buf: &mut String) -> Result<usize> {
                (**self).read_to_string(buf)
            }
            fn read_exact(&mut self, buf: &mut [u8]) -> Result<()> {
                (**self).read_exact(buf)
            }
            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> Result<usize> {
                (**self).read_vectored(bufs)
            }
        }

        impl<$param: BufRead + ?Sized> BufRead for $type {
            fn fill_buf(&mut self) -> Result<&[u8]> {
                (**self).fill_buf()
            }
            fn consume(&mut self, amount: usize) {
                (**self).consume(amount);
            }
        }

        impl<$param: Write + ?Sized> Write for $type {
            fn write(&mut self, buf: &[u8]) -> Result<usize> {
                (**self).write(buf)
            }
            fn flush(&mut self) -> Result<()> {
                (**self).flush()
            }
            fn write_all(&mut self, buf: &[u8]) -> Result<()> {
                (**self).write_all(buf)
            }
            fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> Result<()> {
                (**self).write_fmt(arguments)
            }
            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize> {
                (**self).write_vectored(bufs)
            }
        }

        impl<$param: Seek + ?Sized> Seek for $type {
            fn seek(&mut self, position: SeekFrom) -> Result<u64> {
                (**self).seek(position)
            }
        }
    )* };
}

forward! {
    &mut T, T;
    Box<T>, T;
}

/// Fills all buffers as far as the reader gets, which has everything at hand.
pub(super) fn read_all_vectored(reader: &mut impl Read, bufs: &mut [IoSliceMut<'_>]) -> Result<usize> {
    let mut total = 0;
    for buf in bufs {
        let count = reader.read(buf)?;
        total += count;
        if count < buf.len() {
            break;
        }
    }
    Ok(total)
}

/// Writes all buffers as far as there is room, where everything is taken at once.
pub(super) fn write_all_vectored(writer: &mut (impl Write + ?Sized), bufs: &[IoSlice<'_>]) -> Result<usize> {
    let mut total = 0;
    for buf in bufs {
        let count = writer.write(buf)?;
        total += count;
        if count < buf.len() {
            break;
        }
    }
    Ok(total)
}

impl Read for &[u8] {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let count = buf.len().min(self.len());
        let (head, rest) = self.split_at(count);
        buf[..count].copy_from_slice(head);
        *self = rest;
        Ok(count)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> Result<usize> {
        buf.extend_from_slice(self);
        Ok(core::mem::take(self).len())
    }

    fn read_to_string(&mut self, buf: &mut String) -> Result<usize> {
        let text = core::str::from_utf8(self).map_err(|_| not_text())?;
        buf.push_str(text);
        Ok(core::mem::take(self).len())
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> Result<usize> {
        read_all_vectored(self, bufs)
    }

    #[inline]
    fn read_exact(&mut self, buf: &mut [u8]) -> Result<()> {
        if buf.len() > self.len() {
            *self = &[];
            return Err(Error::constant(ErrorKind::UnexpectedEof, "failed to fill whole buffer"));
        }
        self.read(buf).map(drop)
    }
}

impl BufRead for &[u8] {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        Ok(self)
    }

    fn consume(&mut self, amount: usize) {
        *self = &self[amount..];
    }
}

impl Write for &mut [u8] {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        let count = buf.len().min(self.len());
        let (head, rest) = core::mem::take(self).split_at_mut(count);
        head.copy_from_slice(&buf[..count]);
        *self = rest;
        Ok(count)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize> {
        write_all_vectored(self, bufs)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Write for Vec<u8> {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        self.extend_from_slice(buf);
        Ok(buf.len())
    }

    #[inline]
    fn write_all(&mut self, buf: &[u8]) -> Result<()> {
        self.extend_from_slice(buf);
        Ok(())
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize> {
        write_all_vectored(self, bufs)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Read for VecDeque<u8> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let count = self.as_slices().0.read(buf)?;
        self.drain(..count);
        Ok(count)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> Result<usize> {
        let count = self.len();
        buf.extend(self.drain(..));
        Ok(count)
    }
}

impl BufRead for VecDeque<u8> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        Ok(self.as_slices().0)
    }

    fn consume(&mut self, amount: usize) {
        self.drain(..amount);
    }
}

impl Write for VecDeque<u8> {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        self.extend(buf);
        Ok(buf.len())
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize> {
        write_all_vectored(self, bufs)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
