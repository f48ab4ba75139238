//! Processes that run invocations, and whether they are alive.

use monohull_checkpoint::CheckpointId;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// This process as an owner of invocations: a locked file in the state folder. The lock ends with the process.
#[derive(Debug)]
pub struct Owner {
    name: String,
    path: PathBuf,
    _locked: File,
}

impl Owner {
    /// A new owner, whose file is in `folder`.
    pub(crate) fn new(folder: &Path) -> io::Result<Owner> {
        let name = CheckpointId::random().map_err(io::Error::from)?.to_string();
        let path = folder.join(&name);
        let locked = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        // Between the two lines the file is there and free; but no process knows its name before this owner claims something.
        locked.lock()?;
        Ok(Owner { name, path, _locked: locked })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // One that stays is taken for one of an owner that has died, which is right.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether an owner is alive.
pub(crate) fn is_alive(folder: &Path, name: &str) -> io::Result<bool> {
    if name.parse::<CheckpointId>().is_err() {
        // No owner has such a name, and none may lead out of the folder.
        return Ok(false);
    }
    let file = match File::open(folder.join(name)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
