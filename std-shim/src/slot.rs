//! Slots, from the crate `monohull`; this adds the traits of [`io`].

pub use monohull::slot::*;

use crate::io;

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
    fn from(error: SlotError) -> Self {
        let kind = io::Error::from(error.errno()).kind();
        io::Error::new(kind, error)
    }
}
