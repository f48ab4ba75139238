//! Where a checkpoint is read from.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Something that can be read at any place.
pub trait ReadAt {
    /// How many bytes it has.
    fn length(&self) -> io::Result<u64>;
    /// How many of them occupy room. A file may have holes, which cost nothing and are read as zeros.
    fn stored(&self) -> io::Result<u64>;
    /// Fills the buffer from a place.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn length(&self) -> io::Result<u64> {
        let metadata = self.metadata()?;
        match metadata.is_file() {
            true => Ok(metadata.len()),
            false => Err(io::Error::other("it is no regular file")),
        }
    }

    fn stored(&self) -> io::Result<u64> {
        /// What blocks are counted in, whatever a file system's own are.
        const BLOCK: u64 = 512;
        self.metadata().map(|metadata| metadata.blocks().saturating_mul(BLOCK))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

impl ReadAt for &File {
    fn length(&self) -> io::Result<u64> {
        ReadAt::length(*self)
    }

    fn stored(&self) -> io::Result<u64> {
        ReadAt::stored(*self)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        ReadAt::read_exact_at(*self, buffer, offset)
    }
}

impl ReadAt for &[u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn stored(&self) -> io::Result<u64> {
        self.length()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.get(start..start.checked_add(buffer.len())?));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
