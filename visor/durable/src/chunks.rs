//! What rows name and a database does not keep: images of functions, documents, inputs, outputs and checkpoints.
//!
//! ```text
//!   hold ─ put ─ … ─ the transaction that names it ─ end of the hold          sweep: alone; what no row names goes
//! ```
//!
//! A chunk is complete before a row names it, and never changes. One that is called by the hash of its content is put once, however many name it. A
//! checkpoint is sealed, and has a name of its own: its reader compares its content with its seal.
//!
//! [`Store`](crate::Store) has them in the files of a state folder. Another place, for example an object storage, has to give what [`Chunks`] says, and no
//! order between two puts; what it does not have of a hold by itself (objects that are younger than the longest hold stay) it has to make.

use crate::{Meta, MetaError};
use std::collections::BTreeSet;
use std::io::{self, Read};

/// Which chunk.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Chunk {
    /// Code, or what an invocation was given or has made.
    Content([u8; 32]),
    /// A sealed checkpoint: no other has its name.
    Checkpoint(String),
}

/// What a content is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkKind {
    /// An image of a function, or a document: it is never encrypted.
    Code,
    /// What an invocation was given or has made: it is encrypted where there is a key.
    Data,
}

/// A chunk cannot be had, or kept.
#[derive(Debug, thiserror::Error)]
pub enum ChunkError {
    /// There is none of this name.
    #[error("it is missing")]
    Missing,
    /// It has not the content that was put.
    #[error("it was changed")]
    Damaged,
    /// The system does not give or take it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The database does not say what rows name.
    #[error(transparent)]
    Meta(#[from] MetaError),
}

/// The chunks of a store.
pub trait Chunks {
    /// While it lives nothing is swept, by any process.
    type Hold;

    /// Begins to put chunks that a row will name.
    fn hold(&self) -> Result<Self::Hold, ChunkError>;

    /// Puts what `from` has, and gives its name. The same again is the same chunk. When this returns it outlives the machine's stop.
    fn put(&self, hold: &Self::Hold, kind: ChunkKind, from: &mut dyn Read) -> Result<[u8; 32], ChunkError>;

    /// Puts a sealed checkpoint, in the place of one of its name.
    fn put_checkpoint(&self, hold: &Self::Hold, name: &str, sealed: &[u8]) -> Result<(), ChunkError>;

    /// The content that was put with this name: all of it, or an error.
    fn content(&self, hash: &[u8; 32], kind: ChunkKind) -> Result<Vec<u8>, ChunkError>;

    /// A checkpoint. Its seal says whether it is as it was put.
    fn checkpoint(&self, name: &str) -> Result<Vec<u8>, ChunkError>;

    /// Removes a checkpoint that nothing names any more, if it is there.
    fn remove_checkpoint(&self, name: &str) -> Result<(), ChunkError>;

    /// Removes all but what `named` gives; how many. It is asked when no process holds; while one does nothing is removed, nor if it gives `None`.
    fn sweep_but(
        &self,
        named: &mut dyn FnMut() -> Result<Option<BTreeSet<Chunk>>, MetaError>,
    ) -> Result<usize, ChunkError>;
}

/// What the rows of a database name; `None` if a row is damaged, and so not known to name nothing. `of_start` gives the hashes of chunks that a start names.
pub fn named_chunks(
    meta: &impl Meta,
    of_start: impl Fn(&[u8]) -> Vec<[u8; 32]>,
) -> Result<Option<BTreeSet<Chunk>>, MetaError> {
    let mut named: BTreeSet<_> = meta.files()?.into_iter().map(Chunk::Checkpoint).collect();
    named.extend(meta.output_files()?.into_iter().map(Chunk::Content));
    let mut after = String::new();
    loop {
        let page = meta.list(&[], &after, 1000)?.into_iter().collect::<Result<Vec<_>, _>>();
        let Ok(page) = page else { return Ok(None) };
        for row in &page {
            named.extend(row.checkpoint.iter().map(|checkpoint| Chunk::Checkpoint(checkpoint.file.clone())));
            if !row.status.is_end() || row.checkpoint.is_some() {
                named.extend(of_start(&row.start).into_iter().map(Chunk::Content));
            }
        }
        match page.last() {
            Some(last) => after = last.id.to_string(),
            None => return Ok(Some(named)),
        }
    }
}
