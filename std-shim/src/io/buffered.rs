//! Buffers in front of readers and writers.

use super::{BufRead, Error, ErrorKind, IoSlice, Read, Result, Seek, SeekFrom, Write};
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

impl<R: Seek + ?Sized> BufReader<R> {
    /// Moves relative to the position; the buffer stays if the way does not lead out of it.
    pub fn seek_relative(&mut self, offset: i64) -> Result<()> {
        let to = i64::try_from(self.start).ok().and_then(|start| start.checked_add(offset));
        match to.and_then(|to| usize::try_from(to).ok()).filter(|to| *to <= self.end) {
            Some(to) => self.start = to,
            None => drop(self.seek(SeekFrom::Current(offset))?),
        }
        Ok(())
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

    fn stream_position(&mut self) -> Result<u64> {
        let ahead = (self.end - self.start) as u64;
        let position = self.inner.stream_position()?;
        Ok(position.checked_sub(ahead).expect("a reader is where its buffer ends"))
    }

    fn seek_relative(&mut self, offset: i64) -> Result<()> {
        BufReader::seek_relative(self, offset)
    }
}

impl<R: fmt::Debug + ?Sized> fmt::Debug for BufReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filled = format_args!("{}/{}", self.buffer().len(), self.capacity());
        f.debug_struct("BufReader").field("reader", &&self.inner).field("buffer", &filled).finish()
    }
}

/// A writer with a buffer, which is written when it is full, flushed or dropped.
pub struct BufWriter<W: Write + ?Sized> {
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

    /// The writer, after writing the buffer.
    pub fn into_inner(mut self) -> core::result::Result<W, IntoInnerError<BufWriter<W>>> {
        match self.write_buffer() {
            Ok(()) => Ok(self.take_apart().0),
            Err(error) => Err(IntoInnerError(self, error)),
        }
    }

    /// The writer, and what is buffered. It is never an error: a writer that panics ends the instance.
    pub fn into_parts(self) -> (W, core::result::Result<Vec<u8>, WriterPanicked>) {
        let (inner, buffer) = self.take_apart();
        (inner, Ok(buffer))
    }

    #[allow(unsafe_code, reason = "the fields leave a type that has a destructor")]
    fn take_apart(self) -> (W, Vec<u8>) {
        let mut this = ManuallyDrop::new(self);
        let buffer = core::mem::take(&mut this.buffer);
        // SAFETY: `this` is not dropped and not used again, so the writer has one owner.
        (unsafe { core::ptr::read(&this.inner) }, buffer)
    }
}

impl<W: Write + ?Sized> BufWriter<W> {
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

    /// Writes the buffer; what could not be written stays.
    fn write_buffer(&mut self) -> Result<()> {
        let mut written = 0;
        let mut result = Ok(());
        while written < self.buffer.len() {
            match self.inner.write(&self.buffer[written..]) {
                Ok(0) => {
                    result = Err(Error::constant(ErrorKind::WriteZero, "failed to write the buffered data"));
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

impl<W: Write + ?Sized> Write for BufWriter<W> {
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

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize> {
        let total = bufs.iter().map(|buf| buf.len()).fold(0, usize::saturating_add);
        if total > self.buffer.capacity() - self.buffer.len() {
            self.write_buffer()?;
        }
        if total >= self.buffer.capacity() {
            return self.inner.write_vectored(bufs);
        }
        bufs.iter().for_each(|buf| self.buffer.extend_from_slice(buf));
        Ok(total)
    }

    fn flush(&mut self) -> Result<()> {
        self.write_buffer()?;
        self.inner.flush()
    }
}

impl<W: Write + Seek + ?Sized> Seek for BufWriter<W> {
    fn seek(&mut self, position: SeekFrom) -> Result<u64> {
        self.write_buffer()?;
        self.inner.seek(position)
    }
}

impl<W: Write + ?Sized> Drop for BufWriter<W> {
    fn drop(&mut self) {
        // There is no caller left for the error.
        let _ = self.write_buffer();
    }
}

impl<W: Write + fmt::Debug + ?Sized> fmt::Debug for BufWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filled = format_args!("{}/{}", self.buffer.len(), self.buffer.capacity());
        f.debug_struct("BufWriter").field("writer", &&self.inner).field("buffer", &filled).finish()
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

    /// Why.
    pub fn into_error(self) -> Error {
        self.1
    }

    /// Why, and the buffered writer.
    pub fn into_parts(self) -> (Error, W) {
        (self.1, self.0)
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

/// What a buffer that a panicking writer may have written is wrapped in. Never made.
pub struct WriterPanicked {
    buffer: Vec<u8>,
}

impl WriterPanicked {
    /// The buffer.
    pub fn into_inner(self) -> Vec<u8> {
        self.buffer
    }
}

impl fmt::Debug for WriterPanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filled = format_args!("{}/{}", self.buffer.len(), self.buffer.capacity());
        f.debug_struct("WriterPanicked").field("buffer", &filled).finish()
    }
}

impl fmt::Display for WriterPanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BufWriter inner writer panicked, what data remains unwritten is not known")
    }
}

impl crate::error::Error for WriterPanicked {}

/// A buffered writer that writes whole lines at once.
pub struct LineWriter<W: Write + ?Sized>(BufWriter<W>);

impl<W: Write> LineWriter<W> {
    /// A buffer of the usual size.
    pub fn new(inner: W) -> LineWriter<W> {
        LineWriter::with_capacity(1024, inner)
    }

    /// A buffer of `capacity` bytes.
    pub fn with_capacity(capacity: usize, inner: W) -> LineWriter<W> {
        LineWriter(BufWriter::with_capacity(capacity, inner))
    }

    /// The writer, after writing the buffer.
    pub fn into_inner(self) -> core::result::Result<W, IntoInnerError<LineWriter<W>>> {
        self.0.into_inner().map_err(|IntoInnerError(writer, error)| IntoInnerError(LineWriter(writer), error))
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

impl<W: Write + ?Sized> LineWriter<W> {
    /// Whether nothing waits for its newline.
    pub(super) fn is_empty(&self) -> bool {
        self.0.buffer.is_empty()
    }

    /// Sends on what is buffered if it ends a line, which an error kept there.
    fn write_ended_line(&mut self) -> Result<()> {
        if self.0.buffer.last() == Some(&b'\n') { self.0.write_buffer() } else { Ok(()) }
    }
}

impl<W: Write + ?Sized> Write for LineWriter<W> {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        let Some(last) = buf.iter().rposition(|byte| *byte == b'\n') else {
            self.write_ended_line()?;
            return self.0.write(buf);
        };
        let (lines, rest) = buf.split_at(last + 1);
        self.0.write_buffer()?;
        let written = self.0.inner.write(lines)?;
        if written < lines.len() {
            return Ok(written);
        }
        // The lines are out: the next call returns an error of the rest.
        Ok(written + self.0.write(rest).unwrap_or(0))
    }

    fn write_all(&mut self, buf: &[u8]) -> Result<()> {
        let Some(last) = buf.iter().rposition(|byte| *byte == b'\n') else {
            self.write_ended_line()?;
            return self.0.write_all(buf);
        };
        let (lines, rest) = buf.split_at(last + 1);
        if self.is_empty() {
            self.0.inner.write_all(lines)?;
        } else {
            // An unfinished line is written together with its newline.
            self.0.write_all(lines)?;
            self.0.write_buffer()?;
        }
        self.0.write_all(rest)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

impl<W: Write + fmt::Debug + ?Sized> fmt::Debug for LineWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filled = format_args!("{}/{}", self.0.buffer.len(), self.0.buffer.capacity());
        f.debug_struct("LineWriter").field("writer", &&self.0.inner).field("buffer", &filled).finish_non_exhaustive()
    }
}
