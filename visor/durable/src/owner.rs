//! Processes that run invocations, and whether they are alive.

use monohull_checkpoint::CheckpointId;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// This process as an owner of invocations: a locked file in the state folder. The lock ends with the process.
#[derive(Debug)]
pub struct Owner {
    name: String,
    path: PathBuf,
    _locked: File,
}

impl Owner {
    /// A new owner, whose file is in `folder`. Files that owners have left there which were killed are removed.
    pub(crate) fn new(folder: &Path) -> io::Result<Owner> {
        remove_the_dead(folder);
        loop {
            let name = new_name()?;
            let path = folder.join(&name);
            let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            if let Some(locked) = lock(new, &path)? {
                return Ok(Owner { name, path, _locked: locked });
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A name that no other owner has: random, with the number of this process at its end.
fn new_name() -> io::Result<String> {
    let mut name = CheckpointId::random().map_err(io::Error::from)?;
    let number = std::process::id().to_be_bytes();
    let at = name.0.len() - number.len();
    name.0[at..].copy_from_slice(&number);
    Ok(name.to_string())
}

/// The number of the process that an owner of this name is, if it is one of [`Owner`].
pub(crate) fn process_of(name: &str) -> Option<u32> {
    let CheckpointId(bytes) = name.parse().ok()?;
    bytes.last_chunk().copied().map(u32::from_be_bytes)
}

impl Drop for Owner {
    fn drop(&mut self) {
        // One that stays is taken for one of an owner that has died, which is right.
        let _ = fs::remove_file(&self.path);
    }
}

/// Locks the file of a new owner. Before that it was free, and another process may have removed it as that of a dead one.
fn lock(new: File, path: &Path) -> io::Result<Option<File>> {
    new.lock()?;
    let ours = new.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok(((there.dev(), there.ino()) == (ours.dev(), ours.ino())).then_some(new)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the files of owners that have died. What these have claimed is found as before: an owner without a file is as dead.
fn remove_the_dead(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_none_or(|name| name.parse::<CheckpointId>().is_err()) {
            continue;
        }
        let Ok(file) = open(&entry.path()) else { continue };
        // Held until the file has no name: a new owner that waits for its lock sees then that it is gone.
        if file.try_lock_shared().is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Opens the file of an owner. What is none, such as a link or a pipe, is neither followed nor waited for.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)
}

/// Whether an owner is alive.
pub(crate) fn is_alive(folder: &Path, name: &str) -> io::Result<bool> {
    if name.parse::<CheckpointId>().is_err() {
        // No owner has such a name, and none may lead out of the folder.
        return Ok(false);
    }
    let file = match open(&folder.join(name)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_owner_says_which_process_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let owner = Owner::new(folder.path()).expect("a new one");
        assert_eq!(process_of(owner.name()), Some(std::process::id()));
        assert_eq!(process_of("me"), None);
    }

    #[test]
    fn a_file_that_is_gone_before_it_is_locked_is_no_owners() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new");
        let new = || File::create_new(&path).expect("made");
        let removed = new();
        fs::remove_file(&path).expect("removed");
        assert!(lock(removed, &path).expect("locked").is_none());
        let replaced = new();
        fs::remove_file(&path).expect("removed");
        let second = new();
        assert!(lock(replaced, &path).expect("locked").is_none());
        assert!(lock(second, &path).expect("locked").is_some());
    }
}
