//! What Monohull itself knows about FAT: where things lie in an image, how to follow a chain and read a directory, and
//! whether all of it fits together.
//!
//! Names are made, removed and moved on a stage ([`edit`]), from where an interruption does no harm. A published FAT library
//! formats new images.
//!
//! ```text
//!   | boot sector | reserved | FAT | FAT (copy) | root directory (12, 16) | cluster 2 | cluster 3 | … |
//! ```
//!
//! An image is untrusted input: every offset is compared with the image's end, every
//! chain is followed for no longer than there are clusters, and what does not fit is an [`Error`], never a panic.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod chain;
pub mod check;
mod directory;
pub mod edit;
mod format;
mod geometry;
mod name;
mod time;

pub use chain::{Run, Runs, runs};
pub use directory::{Entry, Found, Slots, entries, find, find_in, first_cluster};
pub use format::format;
pub use geometry::{FatEntry, Geometry, Kind};
pub use time::{decode_time, encode_time};

/// Prefix of the names of temporary files in the root directory: they were removed while a descriptor had them
/// open, or are not complete yet. They are not shown, and go when an image is next written to or repaired.
pub const ASIDE: &str = ".monohull-removed-";

/// Where an image's bytes are.
pub trait Image {
    /// Bytes in it.
    fn len(&self) -> u64;
    /// Copies bytes out.
    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error>;
    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where an image's bytes can be changed.
pub trait ImageMut: Image {
    /// Copies bytes in.
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error>;
}

/// Why something in an image cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum Error {
    #[error("the image's bytes cannot be read or written")]
    Bytes,
    #[error("the disk that the image lies on is full")]
    DiskFull,
    #[error("this is no FAT image: {0}")]
    NotFat(&'static str),
    #[error("the image is damaged: {0}")]
    Damaged(&'static str),
    #[error("nothing by that name")]
    NotFound,
    #[error("something on the path is no directory")]
    NotDirectory,
}

fn read_u16<I: Image + ?Sized>(image: &I, offset: u64) -> Result<u16, Error> {
    let mut bytes = [0; 2];
    image.read(offset, &mut bytes)?;
    Ok(u16::from_le_bytes(bytes))
}

fn read_u32<I: Image + ?Sized>(image: &I, offset: u64) -> Result<u32, Error> {
    let mut bytes = [0; 4];
    image.read(offset, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}
