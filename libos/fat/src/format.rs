//! Making an image with nothing in it.

use crate::Error;
use crate::edit::Store;
use lamfat::{FormatVolumeOptions, IoBase, IoError, Read, Seek, SeekFrom, Write};

/// Makes an empty file system in all of an image, whose bytes are zeros. `volume` is its serial number.
pub fn format<S: Store>(image: &S, volume: u32) -> Result<(), Error> {
    let mut disk = Disk { image, position: 0 };
    let options = FormatVolumeOptions::new().volume_id(volume).volume_label(*b"MONOHULL   ");
    lamfat::format_volume(&mut disk, options).map_err(|error| match error {
        lamfat::Error::Io(Failed(error)) => error,
        _ => Error::NotFat("it is too small, or too large"),
    })
}

/// What the library formats.
struct Disk<'i, S> {
    image: &'i S,
    position: u64,
}

#[derive(Debug)]
struct Failed(Error);

impl IoError for Failed {
    fn is_interrupted(&self) -> bool {
        false
    }

    fn new_unexpected_eof_error() -> Failed {
        Failed(Error::Bytes)
    }

    fn new_write_zero_error() -> Failed {
        Failed(Error::Bytes)
    }
}

impl<S> IoBase for Disk<'_, S> {
    type Error = Failed;
}

impl<S: Store> Read for Disk<'_, S> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Failed> {
        self.image.read(self.position, to).map_err(Failed)?;
        self.position += to.len() as u64;
        Ok(to.len())
    }
}

impl<S: Store> Write for Disk<'_, S> {
    fn write(&mut self, from: &[u8]) -> Result<usize, Failed> {
        self.image.store(self.position, from).map_err(Failed)?;
        self.position += from.len() as u64;
        Ok(from.len())
    }

    fn flush(&mut self) -> Result<(), Failed> {
        Ok(())
    }
}

impl<S: Store> Seek for Disk<'_, S> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, Failed> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
            SeekFrom::End(distance) => self.image.len().checked_add_signed(distance),
        };
        self.position = position.ok_or(Failed(Error::Bytes))?;
        Ok(self.position)
    }
}
