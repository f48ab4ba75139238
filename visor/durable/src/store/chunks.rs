//! The files of a state folder as chunks.

use super::{Adding, CHECKPOINTS, FILES, Store, StoreError, at, name_of};
use crate::MetaError;
use crate::chunks::{Chunk, ChunkError, ChunkKind, Chunks};
use crate::sqlite::is_file_name;
use monohull_checkpoint::{NewFile, Replace};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;

impl Store {
    fn path_of(&self, name: &str) -> io::Result<PathBuf> {
        match is_file_name(name) {
            true => Ok(self.checkpoints().join(name)),
            false => Err(io::ErrorKind::InvalidFilename.into()),
        }
    }

    /// Removes files that are not among these; how many. None of them if what is named is not known. `None`: while another process adds some.
    pub(super) fn sweep_files(
        &self,
        named: &mut dyn FnMut() -> Result<Option<BTreeSet<Chunk>>, MetaError>,
    ) -> Result<Option<usize>, StoreError> {
        let (path, file) = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(at(&path)(error)),
        }
        let Some(named) = named()? else { return Ok(Some(0)) };
        let mut removed = 0;
        for (folder, chunk) in [(CHECKPOINTS, checkpoint as fn(&str) -> Option<Chunk>), (FILES, content)] {
            let folder = self.folder.join(folder);
            for entry in fs::read_dir(&folder).map_err(at(&folder))? {
                let entry = entry.map_err(at(&folder))?;
                // A folder that was put there is not the store's, and keeps nothing else from being removed.
                if !entry.file_type().map_err(at(&entry.path()))?.is_file() {
                    continue;
                }
                let chunk = entry.file_name().to_str().and_then(chunk);
                if chunk.is_none_or(|chunk| !named.contains(&chunk)) {
                    fs::remove_file(entry.path()).map_err(at(&entry.path()))?;
                    removed += 1;
                }
            }
        }
        Ok(Some(removed))
    }
}

/// The checkpoint that a file of this name is.
fn checkpoint(name: &str) -> Option<Chunk> {
    Some(Chunk::Checkpoint(name.to_owned()))
}

/// The content that a file of this name has; `None` if it has none's name.
pub(super) fn content(name: &str) -> Option<Chunk> {
    let mut hash = [0; 32];
    for (place, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(name.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    (name_of(&hash) == name).then_some(Chunk::Content(hash))
}

impl Chunks for Store {
    type Hold = Adding;

    fn hold(&self) -> Result<Adding, ChunkError> {
        Ok(self.adding()?)
    }

    fn put(&self, hold: &Adding, kind: ChunkKind, mut from: &mut dyn Read) -> Result<[u8; 32], ChunkError> {
        Ok(match kind {
            ChunkKind::Code => self.add_file(hold, &mut from)?,
            ChunkKind::Data => self.add_data(hold, &mut from)?,
        })
    }

    fn put_checkpoint(&self, _hold: &Adding, name: &str, sealed: &[u8]) -> Result<(), ChunkError> {
        let new = NewFile::beside(&self.path_of(name)?)?;
        new.file().write_all(sealed)?;
        new.publish(Replace::Yes)?;
        Ok(())
    }

    fn content(&self, hash: &[u8; 32], kind: ChunkKind) -> Result<Vec<u8>, ChunkError> {
        let mut content = Vec::new();
        match kind {
            ChunkKind::Code => content = self.read_code(hash).map_err(read)?,
            ChunkKind::Data => _ = self.open_whole_data(hash).map_err(read)?.read_to_end(&mut content)?,
        }
        Ok(content)
    }

    fn checkpoint(&self, name: &str) -> Result<Vec<u8>, ChunkError> {
        fs::read(self.path_of(name)?).map_err(read)
    }

    fn remove_checkpoint(&self, name: &str) -> Result<(), ChunkError> {
        match fs::remove_file(self.path_of(name)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn sweep_but(
        &self,
        named: &mut dyn FnMut() -> Result<Option<BTreeSet<Chunk>>, MetaError>,
    ) -> Result<usize, ChunkError> {
        Ok(self.sweep_files(named)?.unwrap_or(0))
    }
}

fn read(error: io::Error) -> ChunkError {
    match error.kind() {
        io::ErrorKind::NotFound => ChunkError::Missing,
        io::ErrorKind::InvalidData => ChunkError::Damaged,
        _ => ChunkError::Io(error),
    }
}

impl From<StoreError> for ChunkError {
    fn from(error: StoreError) -> ChunkError {
        match error {
            StoreError::Meta(error) => ChunkError::Meta(error),
            // Its text has the path.
            other => ChunkError::Io(io::Error::other(other)),
        }
    }
}
