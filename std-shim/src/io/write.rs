//! Writing and seeking: the traits.

use super::{Error, ErrorKind, IoSlice, Result};
use crate::fmt;

/// Something bytes go to.
pub trait Write {
    /// Writes a part of `buf` and returns its length.
    fn write(&mut self, buf: &[u8]) -> Result<usize>;

    /// Takes a part of several buffers, one after the other.
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize> {
        self.write(bufs.iter().find(|buf| !buf.is_empty()).map_or(&[], |buf| &**buf))
    }

    /// Sends on what is buffered.
    fn flush(&mut self) -> Result<()>;

    /// Writes all of `buf`.
    fn write_all(&mut self, mut buf: &[u8]) -> Result<()> {
        while !buf.is_empty() {
            match self.write(buf) {
                Ok(0) => return Err(Error::constant(ErrorKind::WriteZero, "failed to write whole buffer")),
                Ok(count) => buf = &buf[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes formatted text; what `write!` calls.
    fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> Result<()> {
        /// Keeps the error that `fmt` has no room for.
        struct Adapter<'a, W: ?Sized> {
            inner: &'a mut W,
            result: Result<()>,
        }

        impl<W: Write + ?Sized> fmt::Write for Adapter<'_, W> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.result = self.inner.write_all(text.as_bytes());
                self.result.as_ref().map(drop).map_err(|_| fmt::Error)
            }
        }

        if let Some(text) = arguments.as_str() {
            return self.write_all(text.as_bytes());
        }
        let mut adapter = Adapter { inner: self, result: Ok(()) };
        match fmt::write(&mut adapter, arguments) {
            Ok(()) => Ok(()),
            Err(_) if adapter.result.is_err() => adapter.result,
            Err(_) => panic!("a formatting trait implementation returned an error when the underlying stream did not"),
        }
    }

    /// This writer, borrowed.
    fn by_ref(&mut self) -> &mut Self
    where
        Self: Sized,
    {
        self
    }
}

/// Something with a position that can be changed.
pub trait Seek {
    /// Moves the position and returns it, counted from the start.
    fn seek(&mut self, position: SeekFrom) -> Result<u64>;

    /// Moves to the start.
    fn rewind(&mut self) -> Result<()> {
        self.seek(SeekFrom::Start(0)).map(drop)
    }

    /// The position.
    fn stream_position(&mut self) -> Result<u64> {
        self.seek(SeekFrom::Current(0))
    }

    /// Moves relative to the position.
    fn seek_relative(&mut self, offset: i64) -> Result<()> {
        self.seek(SeekFrom::Current(offset)).map(drop)
    }
}

/// Where to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekFrom {
    /// So many bytes after the start.
    Start(u64),
    /// So many bytes after the end.
    End(i64),
    /// So many bytes after the position.
    Current(i64),
}
