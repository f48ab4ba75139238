//! Changing an image: names, directories and chains, each change whole or not at all.
//!
//! ```text
//!   Editor ─▶ library (published) ─▶ stage: kept aside ── ordered words ──▶ Store
//! ```
//!
//! The bytes of files are not written here. Who writes them asks for a chain that is long enough ([`Editor::lengthen`]),
//! finds its runs ([`crate::runs`]), stores the bytes there, and then the size.

mod library;
mod naming;
mod stage;

use crate::{Entry, Error, Geometry, Image};
use alloc::sync::Arc;
use library::{Library, lengthen, shorten};

/// An image whose bytes can be changed while others look at it.
pub trait Store: Image + Send + Sync + 'static {
    /// Stores bytes. An aligned word of eight bytes is stored whole or not at all.
    fn store(&self, offset: u64, from: &[u8]) -> Result<(), Error>;
}

/// Why a change was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EditError {
    /// nothing by that name
    #[error("nothing by that name")]
    NotFound,
    /// the name is taken
    #[error("the name is taken")]
    Exists,
    /// the directory is not empty
    #[error("the directory is not empty")]
    NotEmpty,
    /// the image is full
    #[error("the image is full")]
    NoSpace,
    /// FAT cannot hold this name
    #[error("FAT cannot hold this name")]
    InvalidName,
    /// {0}
    #[error(transparent)]
    Image(#[from] Error),
}

/// A name that is to change.
#[derive(Clone, Copy, Debug)]
pub struct Move<'m> {
    /// The name it has.
    pub from: &'m str,
    /// The name it gets.
    pub to: &'m str,
    /// What has the first name.
    pub moved: &'m Entry,
    /// Something else has the second name, and goes.
    pub replaced: bool,
    /// The second name is another spelling of the first.
    pub respelled: bool,
    /// What is replaced does not go but gets this name, in the root directory.
    pub hidden: Option<&'m str>,
    /// A name that nothing has, in the root directory, for the moment: of what is replaced and goes, or of what is respelled.
    pub aside: &'m str,
}

/// Changes one image. Paths are relative to the root: names with one `/` between them.
pub struct Editor<S: Store>(Library<S>);

impl<S: Store> Editor<S> {
    /// An editor for an image with this geometry; `now` tells the time, in ns since 1970.
    pub fn new(image: S, geometry: Geometry, now: impl Fn() -> i64 + Send + Sync + 'static) -> Editor<S> {
        Editor(Library::new(image, geometry, Arc::new(now)))
    }

    /// Has the image say that somebody writes to it, until [`close`](Editor::close). Every change does.
    pub fn mark(&mut self) -> Result<(), Error> {
        self.0.mark()
    }

    /// Makes an empty file, or a directory; nothing may have the name.
    pub fn make(&mut self, path: &str, directory: bool) -> Result<(), EditError> {
        let geometry = self.0.geometry;
        self.0.change(|fat, stage| naming::make(fat, stage, &geometry, path, directory))
    }

    /// Removes a file or an empty directory.
    pub fn remove(&mut self, path: &str) -> Result<(), EditError> {
        self.0.change(|fat, _| fat.root_dir().remove(path))
    }

    /// Gives a file or directory another name.
    pub fn rename(&mut self, change: &Move<'_>) -> Result<(), EditError> {
        let geometry = self.0.geometry;
        self.0.change(|fat, stage| naming::rename(fat, stage, &geometry, change))
    }

    /// Makes the chain of the file with this slot and size long enough for `to` bytes; its size stays.
    pub fn lengthen(&mut self, path: &str, slot: u64, size: u64, to: u64) -> Result<(), EditError> {
        self.0.change(|fat, stage| lengthen(fat, stage, (path, slot, size), to))
    }

    /// Cuts a file, and gives back the clusters behind its new end.
    pub fn shorten(&mut self, path: &str, size: u64) -> Result<(), EditError> {
        self.0.change(|fat, _| shorten(fat, path, size))
    }

    /// Puts the image in order after changes: it says how many clusters are free, and that nobody writes any more.
    pub fn close(&mut self) {
        self.0.close();
    }
}
