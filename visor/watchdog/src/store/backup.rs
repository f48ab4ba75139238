//! A copy of a server's state folder, which the server may be using.
//!
//! The store of invocations goes first ([`Store::back_up`]): it has all that they need. Then come the registered functions and workflows, and the key
//! that seals checkpoints. A function or a workflow that is registered or removed meanwhile begins this part anew, so that no workflow lacks its
//! functions.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use monohull_durable::{BackedUp, Store, StoreError};

use crate::idle::NEXT_DUE;
use crate::invocations::ledger::durable_folder;
use crate::store::atomic_file::{PART, name_of};
use crate::store::state_folder::DAMAGED;

/// How often functions and workflows are copied anew.
const ROUNDS: usize = 100;

/// A file, and which one it was.
type Found = (PathBuf, (u64, u64, i64, i64));

/// Makes a copy of a server's state folder in a folder that is not there yet.
pub fn back_up(state: &Path, to: &Path) -> Result<BackedUp, StoreError> {
    let durable = durable_folder(state);
    make(to)?;
    let mut backed_up = Store::back_up(&durable, &durable_folder(to))?;
    let mut found = find(state)?;
    for _ in 0..ROUNDS {
        let copied = copy_all(state, to, &found);
        let now = find(state)?;
        if now == found {
            let (files, bytes) = copied?;
            backed_up.files += files;
            backed_up.bytes += bytes;
            return Ok(backed_up);
        }
        // What was copied of others stays, and is of no use to a server: it is removed.
        for (path, _) in &found {
            match fs::remove_file(to.join(path)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&to.join(path), error)),
                _ => {}
            }
        }
        found = now;
    }
    Err(at(state, io::Error::other("functions and workflows change all the time")))
}

/// The files beside the store: those of the folder itself, and those of its folders.
fn find(state: &Path) -> Result<Vec<Found>, StoreError> {
    let mut found = Vec::new();
    for path in list(state)? {
        let name = name_of(&path);
        let is_left_out =
            path == durable_folder(state) || [NEXT_DUE, DAMAGED].contains(&&*name) || name.ends_with(PART);
        let metadata = fs::symlink_metadata(&path).map_err(|error| at(&path, error))?;
        if is_left_out {
            continue;
        }
        if metadata.is_dir() && name != "lost+found" {
            found.extend(list(&path)?.into_iter().filter(|path| !name_of(path).ends_with(PART)));
        } else if metadata.is_file() {
            found.push(path);
        }
    }
    let which = |path: PathBuf| match fs::symlink_metadata(&path) {
        Ok(file) if file.is_file() => {
            let path = path.strip_prefix(state).unwrap_or(&path).to_owned();
            Some(Ok((path, (file.ino(), file.len(), file.mtime(), file.mtime_nsec()))))
        }
        Ok(_) => None,
        // It was removed meanwhile: the next look does not find it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(at(&path, error))),
    };
    found.into_iter().filter_map(which).collect()
}

/// Copies these files: how many, and their bytes.
fn copy_all(state: &Path, to: &Path, found: &[Found]) -> Result<(u64, u64), StoreError> {
    let mut bytes = 0;
    for (path, _) in found {
        let to = to.join(path);
        if let Some(folder) = to.parent().filter(|folder| !folder.exists()) {
            make(folder)?;
        }
        let from = state.join(path);
        bytes += fs::copy(&from, &to).map_err(|error| StoreError::of_copy(&from, &to, error))?;
    }
    Ok((found.len() as u64, bytes))
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    crate::store::atomic_file::list(folder).map_err(|error| at(folder, io::Error::other(error)))
}

fn make(folder: &Path) -> Result<(), StoreError> {
    DirBuilder::new().mode(0o700).create(folder).map_err(|error| at(folder, error))
}

fn at(path: &Path, source: io::Error) -> StoreError {
    StoreError::File { path: path.to_owned(), source }
}
