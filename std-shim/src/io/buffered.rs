//! Buffers in front of readers and writers.

use super::{BufRead, Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use crate::boxed::Box;
use crate::fmt;
use crate::vec;
use crate::vec::Vec;
use core::mem::ManuallyDrop;

/// std's size of a buffer.
const CAPACITY: usize = 8 * 1024;

/// A reader with a buffer.
pub struct BufReader<R: ?Sized> {
    buffer: Box<[u8]>,
    /// What is in the buffer and not read yet.
    start: usize,
    end: usize,
    inner: R,
}

impl<R: Read> BufReader<R> {
    /// A buffer of the usual size.
    pub fn new(inner: R) -> BufReader<R> {
        BufReader::with_capacity(CAPACITY, inner)
    }

    /// A buffer of `capacity` bytes.
    pub fn with_capacity(capacity: usize, inner: R) -> BufReader<R> {
        BufReader { buffer: vec![0; capacity].into_boxed_slice(), start: 0, end: 0, inner }
    }
}

impl<R> BufReader<R> {
    /// The reader, without what is buffered.
    pub fn into_inner(self) -> R {
        self.inner
    }
}

impl<R: ?Sized> BufReader<R> {
    /// The reader.
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// The reader.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// What is buffered.
    pub fn buffer(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Size of the buffer.
    pub fn capacity(&self) -> usize {
        self.buffer.len()
    }
}

impl<R: Read + ?Sized> Read for BufReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        // A large read past an empty buffer need not go through it.
        if self.start == self.end && buf.len() >= self.buffer.len() {
            return self.inner.read(buf);
        }
        let count = self.fill_buf()?.read(buf)?;
        self.consume(count);
        Ok(count)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> Result<usize> {
        let buffered = self.buffer().len();
        buf.extend_from_slice(self.buffer());
        self.consume(buffered);
        Ok(buffered + self.inner.read_to_end(buf)?)
    }
}

impl<R: Read + ?Sized> BufRead for BufReader<R> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.end = self.inner.read(&mut self.buffer)?;
        }
        Ok(self.buffer())
    }

    fn consume(&mut self, amount: usize) {
        self.start = (self.start + amount).min(self.end);
    }
}

impl<R: Seek + ?Sized> Seek for BufReader<R> {
    fn seek(&mut self, position: SeekFrom) -> Result<u64> {
        let position = match position {
            // The reader is ahead of us by what is buffered.
            SeekFrom::Current(offset) => {
                let ahead = (self.end - self.start) as i64;
                let offset = offset.checked_sub(ahead).ok_or(ErrorKind::InvalidInput)?;
                SeekFrom::Current(offset)
            }
            other => other,
        };
        let result = self.inner.seek(position)?;
        (self.start, self.end) = (0, 0);
        Ok(result)
    }
}

impl<R: fmt::Debug + ?Sized> fmt::Debug for BufReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufReader").field("reader", &&self.inner).finish_non_exhaustive()
    }
}

/// A writer with a buffer, which is written when it is full, flushed or dropped.
pub struct BufWriter<W: Write> {
    buffer: Vec<u8>,
    inner: W,
}

impl<W: Write> BufWriter<W> {
    /// A buffer of the usual size.
    pub fn new(inner: W) -> BufWriter<W> {
        BufWriter::with_capacity(CAPACITY, inner)
    }

    /// A buffer of `capacity` bytes.
    pub fn with_capacity(capacity: usize, inner: W) -> BufWriter<W> {
        BufWriter { buffer: Vec::with_capacity(capacity), inner }
    }

    /// The writer.
    pub fn get_ref(&self) -> &W {
        &self.inner
    }

    /// The writer.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// What is buffered.
    pub fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// Size of the buffer.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// The writer, after writing the buffer.
    #[allow(unsafe_code, reason = "the fields leave a type that has a destructor")]
    pub fn into_inner(mut self) -> core::result::Result<W, IntoInnerError<BufWriter<W>>> {
        if let Err(error) = self.write_buffer() {
            return Err(IntoInnerError(self, error));
        }
        let mut this = ManuallyDrop::new(self);
        drop(core::mem::take(&mut this.buffer));
        // SAFETY: `this` is not dropped and not used again, so the writer has one owner.
        Ok(unsafe { core::ptr::read(&this.inner) })
    }

    /// Writes the buffer; what could not be written stays.
    fn write_buffer(&mut self) -> Result<()> {
        let mut written = 0;
        let mut result = Ok(());
        while written < self.buffer.len() {
            match self.inner.write(&self.buffer[written..]) {
                Ok(0) => {
                    result = Err(Error::new(ErrorKind::WriteZero, "failed to write the buffered data"));
                    break;
                }
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.buffer.drain(..written);
        result
    }
}

impl<W: Write> Write for BufWriter<W> {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        if self.buffer.len() + buf.len() > self.buffer.capacity() {
            self.write_buffer()?;
        }
        if buf.len() >= self.buffer.capacity() {
            return self.inner.write(buf);
        }
        self.buffer.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.write_buffer()?;
        self.inner.flush()
    }
}

impl<W: Write + Seek> Seek for BufWriter<W> {
    fn seek(&mut self, position: SeekFrom) -> Result<u64> {
        self.write_buffer()?;
        self.inner.seek(position)
    }
}

impl<W: Write> Drop for BufWriter<W> {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.write_buffer();
    }
}

impl<W: Write + fmt::Debug> fmt::Debug for BufWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufWriter").field("writer", &self.inner).finish_non_exhaustive()
    }
}

/// The buffer could not be written; the writer comes back with it.
#[derive(Debug)]
pub struct IntoInnerError<W>(W, Error);

impl<W> IntoInnerError<W> {
    /// Why.
    pub fn error(&self) -> &Error {
        &self.1
    }

    /// The buffered writer.
    pub fn into_inner(self) -> W {
        self.0
    }
}

impl<W> From<IntoInnerError<W>> for Error {
    fn from(error: IntoInnerError<W>) -> Error {
        error.1
    }
}

impl<W> fmt::Display for IntoInnerError<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.1.fmt(f)
    }
}

impl<W: fmt::Debug> crate::error::Error for IntoInnerError<W> {}

/// A buffered writer that writes whole lines at once.
#[derive(Debug)]
pub struct LineWriter<W: Write>(BufWriter<W>);

impl<W: Write> LineWriter<W> {
    /// A buffer of the usual size.
    pub fn new(inner: W) -> LineWriter<W> {
        LineWriter::with_capacity(1024, inner)
    }

    /// A buffer of `capacity` bytes.
    pub fn with_capacity(capacity: usize, inner: W) -> LineWriter<W> {
        LineWriter(BufWriter::with_capacity(capacity, inner))
    }

    /// The writer.
    pub fn get_ref(&self) -> &W {
        self.0.get_ref()
    }

    /// The writer.
    pub fn get_mut(&mut self) -> &mut W {
        self.0.get_mut()
    }
}

impl<W: Write> LineWriter<W> {
    /// Whether nothing waits for its newline.
    pub(super) fn is_empty(&self) -> bool {
        self.0.buffer.is_empty()
    }
}

impl<W: Write> Write for LineWriter<W> {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        let Some(last) = buf.iter().rposition(|byte| *byte == b'\n') else {
            return self.0.write(buf);
        };
        let (lines, rest) = buf.split_at(last + 1);
        self.0.write_all(lines)?;
        self.0.write_buffer()?;
        // The lines are out: an error of the rest is for the next call to tell.
        Ok(lines.len() + self.0.write(rest).unwrap_or(0))
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}
