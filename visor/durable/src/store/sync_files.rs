//! Files that commits have not waited for: the disk gets them later, many at once.

use super::{Store, StoreError, at};
use crate::Sqlite;
use monohull_checkpoint::{NewFile, Replace};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Files that are looked at at once.
const AT_ONCE: usize = 64;

impl Store {
    /// Brings files of checkpoints to the disk whose contents are in the database, at most 64, and removes them there; how many. If the machine has
    /// stopped meanwhile, a file that is not as it was committed is written again.
    pub fn sync_files(&self, meta: &Mutex<Sqlite>) -> Result<usize, StoreError> {
        let lock = || meta.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.checkpoints();
        let mut synced = Vec::new();
        let files = lock().unsynced(AT_ONCE)?;
        for file in files {
            let Some(content) = lock().unsynced_content(&file)? else { continue };
            let path = folder.join(&file);
            self.make_file(meta, &file)?;
            if !is_on_disk(&path, &content) {
                // With the database: as long as it has the content, the name is this file's.
                let meta = lock();
                if meta.unsynced_content(&file)?.as_ref() != Some(&content) {
                    continue;
                }
                write(&path, &content).map_err(at(&path))?;
            }
            synced.push((file, content));
        }
        if synced.is_empty() {
            return Ok(0);
        }
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(at(&folder))?;
        lock().synced(&synced)?;
        Ok(synced.len())
    }

    /// Makes the file of a checkpoint whose content is in the database, if there is none. The disk is not waited for.
    pub fn make_file(&self, meta: &Mutex<Sqlite>, file: &str) -> Result<(), StoreError> {
        let path = self.checkpoints().join(file);
        if path.exists() {
            return Ok(());
        }
        // With the database: what is removed there is removed here after it.
        let meta = meta.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(content) = meta.unsynced_content(file)? else { return Ok(()) };
        let make = || {
            let new = NewFile::beside(&path)?;
            new.file().write_all(&content)?;
            new.name_unsynced().map(drop)
        };
        match make() {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(&path)(error)),
            _ => Ok(()),
        }
    }
}

/// Whether a file has this content, and the disk has that.
fn is_on_disk(path: &Path, content: &[u8]) -> bool {
    let compare = || -> io::Result<bool> {
        let file = File::open(path)?;
        let mut found = Vec::with_capacity(content.len());
        (&file).take(content.len() as u64 + 1).read_to_end(&mut found)?;
        let is_same = found == content;
        if is_same {
            // An error is told once, and what it was about is lost: the file is written again.
            file.sync_data()?;
        }
        Ok(is_same)
    };
    compare().unwrap_or(false)
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = NewFile::beside(path)?;
    new.file().write_all(content)?;
    new.publish(Replace::Yes).map(drop)
}
