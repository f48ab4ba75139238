//! The bytes of an image in a file.

use monohull_fat::edit::Store;
use monohull_fat::{Error, Image, ImageMut};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// An image in a file.
#[derive(Clone, Debug)]
pub(crate) struct Bytes {
    file: Arc<File>,
    len: u64,
}

impl Bytes {
    pub(crate) fn new(file: File) -> io::Result<Bytes> {
        let len = file.metadata()?.len();
        Ok(Bytes { file: Arc::new(file), len })
    }
}

impl Image for Bytes {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact_at(to, offset).map_err(|_| Error::Bytes)
    }
}

impl Store for Bytes {
    fn store(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        // A write behind the end would make the image longer.
        match offset.checked_add(from.len() as u64) {
            Some(end) if end <= self.len => self.file.write_all_at(from, offset).map_err(|error| match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull,
                _ => Error::Bytes,
            }),
            _ => Err(Error::Bytes),
        }
    }
}

impl ImageMut for Bytes {
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.store(offset, from)
    }
}
