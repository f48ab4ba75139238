//! What ties slots and `main` to Rust's own std.

use crate::continuation::{CaptureError, ContinuationError, RewindError};
use crate::durable::EventError;
use crate::effect::PerformError;
use crate::slot::{SlotError, SlotVec};
use monohull_abi::Errno;
use std::io;

/// Bytes are added at the end; there is nothing to flush.
impl io::Write for SlotVec<u8> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<SlotError> for io::Error {
    fn from(error: SlotError) -> io::Error {
        io::Error::new(kind(error.errno()), error)
    }
}

impl From<EventError> for io::Error {
    fn from(error: EventError) -> io::Error {
        io::Error::new(kind(error.errno()), error)
    }
}

impl From<PerformError> for io::Error {
    fn from(error: PerformError) -> io::Error {
        io::Error::new(kind(error.errno()), error)
    }
}

impl From<ContinuationError> for io::Error {
    fn from(error: ContinuationError) -> io::Error {
        io::Error::new(kind(error.errno()), error)
    }
}

impl From<CaptureError> for io::Error {
    fn from(error: CaptureError) -> io::Error {
        io::Error::new(kind(error.errno()), error)
    }
}

impl From<RewindError> for io::Error {
    fn from(error: RewindError) -> io::Error {
        io::Error::new(kind(error.errno()), error)
    }
}

fn kind(errno: Errno) -> io::ErrorKind {
    match errno {
        Errno::NotFound | Errno::NeverFilled => io::ErrorKind::NotFound,
        Errno::Exists => io::ErrorKind::AlreadyExists,
        Errno::OutOfMemory => io::ErrorKind::OutOfMemory,
        Errno::NotPermitted => io::ErrorKind::PermissionDenied,
        Errno::Invalid | Errno::WrongType => io::ErrorKind::InvalidInput,
        _ => io::ErrorKind::Other,
    }
}

/// What `#[monohull::main]` expands to.
pub mod returned {
    use std::boxed::Box;
    use std::error::Error;

    crate::report_returned!(std::process::Termination, std::process::ExitCode);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn bytes_are_written_to_a_slot_by_stds_trait() {
        let mut out = SlotVec::<u8>::with_slot("written");
        write!(out, "{} two", 1).unwrap();
        io::copy(&mut &b", three"[..], &mut out).unwrap();
        drop(out);
        assert_eq!(&SlotVec::<u8>::from_slot("written").unwrap()[..], b"1 two, three");
    }

    #[test]
    fn an_error_of_a_slot_is_an_io_error() {
        let missing = io::Error::from(SlotVec::<u8>::from_slot("never").unwrap_err());
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
