//! Checkpoints as files: of any origin, or of a state folder that is encrypted.
//!
//! ```text
//!   STATE/meta.sqlite           the key of the folder, which the user's key file opens
//!   STATE/checkpoints/FILE      what is decrypted, with those beside it that it takes pages from
//! ```

use super::{Chain, Read, Trouble};
use monohull_checkpoint::{self as format, Key, Trust};
use monohull_durable::{Store, StoreError};
use monohull_host_files::input;
use monohull_saved::{Source, as_io, begins_encrypted, open_beside};
use monohull_state_key::{KeyFile, StateKey};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of a checkpoint.
pub(super) struct CheckpointFile<'p> {
    path: &'p Path,
    /// The key of the state folder that it is in, if it is encrypted.
    key: Option<Arc<StateKey>>,
}

impl<'p> CheckpointFile<'p> {
    /// `key` is the file of its state folder's key. With one, what is not encrypted is refused.
    pub(super) fn find(path: &'p Path, key: Option<&Path>) -> Result<CheckpointFile<'p>, Trouble> {
        let key = match key {
            Some(key) => match Store::state_key(&state_folder(path), &KeyFile::load(key)?) {
                Err(StoreError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    return Err(Trouble::Elsewhere { path: path.to_owned() });
                }
                found => found?,
            },
            None => None,
        };
        Ok(CheckpointFile { path, key })
    }

    /// Reads it.
    pub(super) fn read(&self) -> Result<Read, Trouble> {
        Read::read(self.source()?, Trust::Unchecked).map_err(|error| self.wrong(error))
    }

    /// The same with those that it takes pages from.
    pub(super) fn read_chain(&self) -> Result<Chain, Trouble> {
        let chain = Chain::of(self.read()?, Trust::Unchecked, |name| self.beside(name));
        chain.map_err(|error| self.wrong(error))
    }

    /// The same; this key must have sealed all of them.
    pub(super) fn read_sealed(&self, key: &Key) -> Result<Chain, Trouble> {
        let chain = Chain::read(self.source()?, Trust::Key(key), |name| self.beside(name));
        chain.map_err(|error| self.wrong(error))
    }

    pub(super) fn wrong(&self, error: format::Error) -> Trouble {
        Trouble::Checkpoint { path: self.path.to_owned(), error }
    }

    fn source(&self) -> Result<Source, Trouble> {
        let path = || self.path.to_owned();
        let file = input::open_regular(self.path, false);
        let file = file.map_err(|error| Trouble::Unreadable { path: path(), error: error.into() })?;
        if self.key.is_none() && begins_encrypted(&file) {
            return Err(Trouble::Encrypted { path: path() });
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        Source::new(file, &name, self.key.as_deref()).map_err(|error| Trouble::Decrypt { path: path(), error })
    }

    fn beside(&self, name: &str) -> std::io::Result<Source> {
        Source::new(open_beside(self.path, name)?, name, self.key.as_deref()).map_err(as_io)
    }
}

/// The state folder that a checkpoint is in.
fn state_folder(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors().nth(2).unwrap_or(Path::new("/")).to_owned()
}
