//! Changing an image: names, directories and chains, each change whole or not at all.
//!
//! ```text
//!   Editor ─▶ names: slots of directories ─▶ stage: kept aside ── ordered words ──▶ Store
//!        └──▶ chains of files ─────────────▶   "
//! ```
//!
//! The bytes of files are not written here. A writer requests a chain that is long enough ([`Editor::lengthen`]),
//! stores the bytes where its runs are, and then the size.

mod chains;
mod naming;
mod room;
mod short;
mod stage;
#[cfg(test)]
mod tests;

use crate::geometry::FIRST;
use crate::{Error, Geometry, Image, Runs, first_cluster, runs as chain};
use alloc::boxed::Box;
use naming::Names;
use stage::Stage;

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
    /// Something else has the second name, and goes.
    pub replaced: bool,
    /// What is replaced does not go but gets this name, in the root directory.
    pub hidden: Option<&'m str>,
}

/// Changes one image. Paths are relative to the root: names with one `/` between them.
pub struct Editor<S: Store> {
    stage: Stage<S>,
    geometry: Geometry,
    now: Box<dyn Fn() -> i64 + Send + Sync>,
    /// The image's dirty flag before this editor set it; none until then.
    marked_before: Option<bool>,
    /// Where the search for free clusters begins.
    hint: u32,
}

impl<S: Store> Editor<S> {
    /// An editor for an image with this geometry; `now` is the clock, in ns since 1970.
    pub fn new(image: S, geometry: Geometry, now: impl Fn() -> i64 + Send + Sync + 'static) -> Editor<S> {
        let stage = Stage::new(image, geometry);
        Editor { stage, geometry, now: Box::new(now), marked_before: None, hint: FIRST }
    }

    /// Sets the image's dirty flag, until [`close`](Editor::close). Every change does.
    pub fn mark(&mut self) -> Result<(), Error> {
        if self.marked_before.is_none() {
            self.marked_before = Some(self.stage.set_mark(true)?);
        }
        Ok(())
    }

    /// Makes an empty file, or a directory; nothing may have the name.
    pub fn make(&mut self, path: &str, directory: bool) -> Result<(), EditError> {
        self.change_names(|mut names| names.make(path, directory))
    }

    /// Removes a file or an empty directory.
    pub fn remove(&mut self, path: &str) -> Result<(), EditError> {
        self.change_names(|mut names| names.remove(path))
    }

    /// Gives a file or directory another name.
    pub fn rename(&mut self, change: &Move<'_>) -> Result<(), EditError> {
        self.change_names(|mut names| names.rename(change))
    }

    /// Makes the chain of the file with this slot, which has these clusters, long enough for `to` bytes; its size stays.
    pub fn lengthen(&mut self, slot: u64, runs: &mut Runs, to: u64) -> Result<(), EditError> {
        let (geometry, hint) = (self.geometry, self.hint);
        let new = match self.change(|stage| chains::lengthen(stage, &geometry, (slot, runs), to, hint)) {
            Ok(new) => new,
            Err(error) => return Err(self.look_again(slot, runs, error)),
        };
        if let Some(last) = new.last() {
            self.hint = last + 1;
        }
        Ok(new.into_iter().try_for_each(|cluster| runs.push(&geometry, cluster))?)
    }

    /// Cuts the file with this slot, which has these clusters, and gives back those behind its new end.
    pub fn shorten(&mut self, slot: u64, runs: &mut Runs, size: u64) -> Result<(), EditError> {
        let geometry = self.geometry;
        if let Err(error) = self.change(|stage| chains::shorten(stage, &geometry, (slot, runs), size)) {
            return Err(self.look_again(slot, runs, error));
        }
        runs.cut(&geometry, size.next_multiple_of(geometry.cluster_size));
        Ok(())
    }

    /// After a change that may have been stored in part: what the image has is what the file has. If that cannot be read, it has nothing.
    fn look_again(&self, slot: u64, runs: &mut Runs, error: EditError) -> EditError {
        if let EditError::Image(_) = error {
            let first = first_cluster(&self.geometry, &self.stage, slot);
            *runs = first.and_then(|first| chain(&self.geometry, &self.stage, first)).unwrap_or_default();
        }
        error
    }

    /// Finishes changes: stores the number of free clusters, and clears the dirty flag. A wrong count does no harm: no reader relies
    /// on it. An image that was not closed before stays so: it has to be checked.
    pub fn close(&mut self) {
        let Some(marked_before) = self.marked_before.take() else { return };
        let _ = chains::count_free(&self.stage, &self.geometry).and_then(|free| self.stage.set_free_count(free));
        if !marked_before {
            let _ = self.stage.set_mark(false);
        }
    }

    fn change_names(&mut self, change: impl FnOnce(Names<'_, S>) -> Result<(), EditError>) -> Result<(), EditError> {
        let (geometry, now, hint) = (self.geometry, (self.now)(), self.hint);
        self.change(|stage| change(Names { stage, geometry: &geometry, now, hint }))
    }

    /// Makes a change: all of it, or nothing.
    fn change<R>(&mut self, change: impl FnOnce(&mut Stage<S>) -> Result<R, EditError>) -> Result<R, EditError> {
        self.mark()?;
        self.stage.begin();
        let changed = change(&mut self.stage).and_then(|result| {
            self.stage.commit()?;
            Ok(result)
        });
        if changed.is_err() {
            self.stage.begin();
        }
        changed
    }
}
