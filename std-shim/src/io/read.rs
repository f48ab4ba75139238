//! Reading: the traits, and the adapters they make.

use super::{Error, ErrorKind, IoSliceMut, Result, Seek, SeekFrom};
use crate::string::String;
use crate::vec::Vec;
use core::str;

/// Something bytes come from.
pub trait Read {
    /// Fills a part of `buf` and returns its length; 0 is the end.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;

    /// Fills a part of several buffers, one after the other.
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> Result<usize> {
        match bufs.iter_mut().find(|buf| !buf.is_empty()) {
            Some(buf) => self.read(buf),
            None => self.read(&mut []),
        }
    }

    /// Appends everything up to the end.
    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> Result<usize> {
        let start = buf.len();
        let mut chunk = [0; 4096];
        loop {
            match self.read(&mut chunk) {
                Ok(0) => return Ok(buf.len() - start),
                Ok(count) => buf.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Appends everything up to the end; it must be UTF-8, else nothing is appended.
    fn read_to_string(&mut self, buf: &mut String) -> Result<usize> {
        append_text(buf, |bytes| self.read_to_end(bytes))
    }

    /// Fills `buf`; the end before that is an error.
    fn read_exact(&mut self, mut buf: &mut [u8]) -> Result<()> {
        while !buf.is_empty() {
            match self.read(buf) {
                Ok(0) => return Err(Error::constant(ErrorKind::UnexpectedEof, "failed to fill whole buffer")),
                Ok(count) => buf = &mut buf[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// This reader, borrowed.
    fn by_ref(&mut self) -> &mut Self
    where
        Self: Sized,
    {
        self
    }

    /// An iterator over the bytes.
    fn bytes(self) -> Bytes<Self>
    where
        Self: Sized,
    {
        Bytes { inner: self }
    }

    /// This reader, and then `next`.
    fn chain<R: Read>(self, next: R) -> Chain<Self, R>
    where
        Self: Sized,
    {
        Chain { first: self, second: next, first_done: false }
    }

    /// At most `limit` bytes of this reader.
    fn take(self, limit: u64) -> Take<Self>
    where
        Self: Sized,
    {
        Take { inner: self, whole: limit, limit }
    }
}

/// Bytes that should be text are not.
pub(super) fn not_text() -> Error {
    Error::constant(ErrorKind::InvalidData, "stream did not contain valid UTF-8")
}

/// Appends what `read` reads if it is UTF-8.
pub(crate) fn append_text(text: &mut String, read: impl FnOnce(&mut Vec<u8>) -> Result<usize>) -> Result<usize> {
    let mut bytes = Vec::new();
    let result = read(&mut bytes);
    let added = str::from_utf8(&bytes).map_err(|_| not_text())?;
    text.push_str(added);
    result
}

/// A reader with a buffer that can be looked into.
pub trait BufRead: Read {
    /// The buffer, filled if it was empty; empty at the end.
    fn fill_buf(&mut self) -> Result<&[u8]>;

    /// Marks bytes of the buffer as read.
    fn consume(&mut self, amount: usize);

    /// Appends bytes up to and including `byte`, or up to the end.
    fn read_until(&mut self, byte: u8, buf: &mut Vec<u8>) -> Result<usize> {
        read_until(self, byte, |bytes| buf.extend_from_slice(bytes))
    }

    /// Skips bytes up to and including `byte`, or up to the end.
    fn skip_until(&mut self, byte: u8) -> Result<usize> {
        read_until(self, byte, |_| {})
    }

    /// Appends a line with its newline; 0 is the end.
    fn read_line(&mut self, buf: &mut String) -> Result<usize> {
        append_text(buf, |bytes| self.read_until(b'\n', bytes))
    }

    /// An iterator over the pieces between `byte`s.
    fn split(self, byte: u8) -> Split<Self>
    where
        Self: Sized,
    {
        Split { inner: self, byte }
    }

    /// An iterator over the lines, without their newlines.
    fn lines(self) -> Lines<Self>
    where
        Self: Sized,
    {
        Lines { inner: self }
    }
}

fn read_until<R: BufRead + ?Sized>(reader: &mut R, byte: u8, mut take: impl FnMut(&[u8])) -> Result<usize> {
    let mut total = 0;
    loop {
        let available = match reader.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let found = available.iter().position(|b| *b == byte);
        let used = found.map_or(available.len(), |at| at + 1);
        take(&available[..used]);
        reader.consume(used);
        total += used;
        if found.is_some() || used == 0 {
            return Ok(total);
        }
    }
}

/// See [`Read::bytes`].
#[derive(Debug)]
pub struct Bytes<R> {
    inner: R,
}

impl<R: Read> Iterator for Bytes<R> {
    type Item = Result<u8>;

    fn next(&mut self) -> Option<Result<u8>> {
        let mut byte = [0];
        loop {
            return match self.inner.read(&mut byte) {
                Ok(0) => None,
                Ok(_) => Some(Ok(byte[0])),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Some(Err(error)),
            };
        }
    }
}

/// See [`Read::chain`].
#[derive(Debug)]
pub struct Chain<A, B> {
    first: A,
    second: B,
    first_done: bool,
}

impl<A, B> Chain<A, B> {
    /// Both readers.
    pub fn into_inner(self) -> (A, B) {
        (self.first, self.second)
    }

    /// Both readers.
    pub fn get_ref(&self) -> (&A, &B) {
        (&self.first, &self.second)
    }

    /// Both readers.
    pub fn get_mut(&mut self) -> (&mut A, &mut B) {
        (&mut self.first, &mut self.second)
    }
}

impl<A: Read, B: Read> Read for Chain<A, B> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        if !self.first_done {
            let count = self.first.read(buf)?;
            if count > 0 || buf.is_empty() {
                return Ok(count);
            }
            self.first_done = true;
        }
        self.second.read(buf)
    }
}

impl<A: BufRead, B: BufRead> BufRead for Chain<A, B> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if !self.first_done {
            self.first_done = self.first.fill_buf()?.is_empty();
        }
        if self.first_done { self.second.fill_buf() } else { self.first.fill_buf() }
    }

    fn consume(&mut self, amount: usize) {
        if self.first_done { self.second.consume(amount) } else { self.first.consume(amount) }
    }
}

/// See [`Read::take`].
#[derive(Debug)]
pub struct Take<R> {
    inner: R,
    /// How many bytes there were to take at first; with `limit`, how many were taken.
    whole: u64,
    limit: u64,
}

impl<R> Take<R> {
    /// How many bytes are left to take.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Changes how many bytes are left to take.
    pub fn set_limit(&mut self, limit: u64) {
        let taken = self.whole - self.limit;
        self.whole = taken.saturating_add(limit);
        self.limit = limit;
    }

    /// The reader.
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// The reader.
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// The reader.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    fn cut(&self, len: usize) -> usize {
        usize::try_from(self.limit).map_or(len, |limit| len.min(limit))
    }
}

impl<R: Read> Read for Take<R> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let most = self.cut(buf.len());
        if most == 0 {
            return Ok(0);
        }
        let count = self.inner.read(&mut buf[..most])?;
        self.limit -= count as u64;
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Take<R> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.limit == 0 {
            return Ok(&[]);
        }
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let available = self.inner.fill_buf()?;
        Ok(&available[..available.len().min(limit)])
    }

    fn consume(&mut self, amount: usize) {
        let amount = self.cut(amount);
        self.limit -= amount as u64;
        self.inner.consume(amount);
    }
}

/// Positions count from where the taking began.
impl<R: Seek> Seek for Take<R> {
    fn seek(&mut self, position: SeekFrom) -> Result<u64> {
        let taken = self.whole - self.limit;
        let target = match position {
            SeekFrom::Start(target) => Some(target),
            SeekFrom::End(offset) => self.whole.checked_add_signed(offset),
            SeekFrom::Current(offset) => taken.checked_add_signed(offset),
        };
        let target = target.filter(|target| *target <= self.whole);
        let target = target.ok_or(ErrorKind::InvalidInput)?;
        // An i64 holds the way there, or two of them do.
        let mut at = taken;
        while at != target {
            let step = i128::from(target) - i128::from(at);
            let step = step.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            self.inner.seek_relative(step)?;
            at = at.wrapping_add_signed(step);
        }
        self.limit = self.whole - target;
        Ok(target)
    }
}

/// See [`BufRead::split`].
#[derive(Debug)]
pub struct Split<R> {
    inner: R,
    byte: u8,
}

impl<R: BufRead> Iterator for Split<R> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        let mut piece = Vec::new();
        match self.inner.read_until(self.byte, &mut piece) {
            Ok(0) => None,
            Ok(_) => {
                piece.pop_if(|last| *last == self.byte);
                Some(Ok(piece))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// See [`BufRead::lines`].
#[derive(Debug)]
pub struct Lines<R> {
    inner: R,
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        let mut line = String::new();
        match self.inner.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => {
                if line.ends_with('\n') {
                    line.pop();
                    if line.ends_with('\r') {
                        line.pop();
                    }
                }
                Some(Ok(line))
            }
            Err(error) => Some(Err(error)),
        }
    }
}
