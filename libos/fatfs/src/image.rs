//! A mapped image, as the crate that knows FAT sees it.

use monohull_abi::Errno;
use monohull_fat::edit::{EditError, Store};
use monohull_fat::{Error, Image};
use monohull_module::Memory;

/// The image as it is.
#[derive(Clone, Copy)]
pub(crate) struct Mapped(pub(crate) Memory);

impl Image for Mapped {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        self.0.fill(offset, to).map_err(|_| Error::Bytes)
    }
}

impl Store for Mapped {
    fn store(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.0.write(offset, from).map_err(|_| Error::Bytes)
    }
}

pub(crate) fn errno_of(error: EditError) -> Errno {
    match error {
        EditError::NotFound => Errno::NotFound,
        EditError::Exists => Errno::Exists,
        EditError::NotEmpty => Errno::NotEmpty,
        EditError::NoSpace => Errno::NoSpace,
        EditError::InvalidName => Errno::InvalidName,
        EditError::Image(error) => errno_of_damage(error),
    }
}

pub(crate) fn errno_of_damage(error: Error) -> Errno {
    match error {
        Error::NotFound => Errno::NotFound,
        Error::NotDirectory => Errno::NotDirectory,
        Error::Bytes | Error::NotFat(_) | Error::Damaged(_) => Errno::Io,
    }
}
