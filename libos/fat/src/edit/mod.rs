//! Changing an image: names, directories and chains, each change whole or not at all.
//!
//! ```text
//!   Editor ─▶ library (published): names ─▶ stage: kept aside ── ordered words ──▶ Store
//!        └──▶ chains of files ─────────────▶   "
//! ```
//!
//! The bytes of files are not written here. A writer requests a chain that is long enough ([`Editor::lengthen`]),
//! stores the bytes where its runs are, and then the size.

mod chains;
mod library;
mod naming;
mod stage;

use crate::geometry::FIRST;
use crate::{Entry, Error, Geometry, Image, Runs};
use alloc::sync::Arc;
use library::Library;

/// An image whose bytes can be changed while other threads read it.
pub trait Store: Image + Send + Sync + 'static {
    /// Stores bytes. An aligned word of eight bytes is stored whole or not at all.
    fn store(&self, offset: u64, from: &[u8]) -> Result<(), Error>;
}

/// Why a change was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum EditError {
    #[error("nothing by that name")]
    NotFound,
    #[error("the name is taken")]
    Exists,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("the image is full")]
    NoSpace,
    #[error("FAT cannot hold this name")]
    InvalidName,
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
pub struct Editor<S: Store> {
    library: Library<S>,
    /// Where the search for free clusters begins.
    hint: u32,
}

impl<S: Store> Editor<S> {
    /// An editor for an image with this geometry; `now` is the clock, in ns since 1970.
    pub fn new(image: S, geometry: Geometry, now: impl Fn() -> i64 + Send + Sync + 'static) -> Editor<S> {
        Editor { library: Library::new(image, geometry, Arc::new(now)), hint: FIRST }
    }

    /// Sets the image's dirty flag, until [`close`](Editor::close). Every change does.
    pub fn mark(&mut self) -> Result<(), Error> {
        self.library.mark()
    }

    /// Makes an empty file, or a directory; nothing may have the name.
    pub fn make(&mut self, path: &str, directory: bool) -> Result<(), EditError> {
        let geometry = self.library.geometry;
        self.library.check(&[path])?;
        self.library.change(|fat, stage| naming::make(fat, stage, &geometry, path, directory))
    }

    /// Removes a file or an empty directory.
    pub fn remove(&mut self, path: &str) -> Result<(), EditError> {
        self.library.check(&[path])?;
        self.library.change(|fat, _| fat.root_dir().remove(path))
    }

    /// Gives a file or directory another name.
    pub fn rename(&mut self, change: &Move<'_>) -> Result<(), EditError> {
        let geometry = self.library.geometry;
        self.library.check(&[change.from, change.to, change.aside])?;
        self.library.change(|fat, stage| naming::rename(fat, stage, &geometry, change))
    }

    /// Makes the chain of the file with this slot, which has these clusters, long enough for `to` bytes; its size stays.
    pub fn lengthen(&mut self, slot: u64, runs: &mut Runs, to: u64) -> Result<(), EditError> {
        let (geometry, hint) = (self.library.geometry, self.hint);
        let lengthened = |stage: &mut _| chains::lengthen(stage, &geometry, (slot, runs), to, hint);
        let new = self.library.change_chains(lengthened)?;
        if let Some(last) = new.last() {
            self.hint = last + 1;
        }
        Ok(new.into_iter().try_for_each(|cluster| runs.push(&geometry, cluster))?)
    }

    /// Cuts the file with this slot, which has these clusters, and gives back those behind its new end.
    pub fn shorten(&mut self, slot: u64, runs: &mut Runs, size: u64) -> Result<(), EditError> {
        let geometry = self.library.geometry;
        self.library.change_chains(|stage| chains::shorten(stage, &geometry, (slot, runs), size))?;
        runs.cut(&geometry, size.next_multiple_of(geometry.cluster_size));
        Ok(())
    }

    /// Finishes changes: stores the number of free clusters, and clears the dirty flag.
    pub fn close(&mut self) {
        self.library.close();
    }
}
