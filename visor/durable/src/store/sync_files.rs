//! Files that commits have not waited for: the disk gets them later, many at once.

use super::{Store, StoreError, at};
use crate::Sqlite;
use crate::sqlite::is_file_name;
use monohull_checkpoint::{NewFile, Replace};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Files whose folder is synced at once.
const AT_ONCE: usize = 64;

impl Store {
    /// Brings the files of checkpoints to the disk whose contents are in the database, and removes them there; how many. If the machine has stopped
    /// meanwhile, a file that is not as it was committed is written again. One that cannot be written does not hold up the others; the error is the
    /// first one.
    pub fn sync_files(&self, meta: &Mutex<Sqlite>) -> Result<usize, StoreError> {
        let lock = || meta.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.checkpoints();
        let (mut after, mut count, mut first) = (i64::MIN, 0, None);
        loop {
            let files = lock().unsynced(after, AT_ONCE)?;
            let Some((last, _)) = files.last() else { break };
            after = *last;
            let mut synced = Vec::new();
            for (_, file) in files {
                match self.sync_file(meta, &file) {
                    Ok(content) => synced.extend(content.map(|content| (file, content))),
                    Err(error) => _ = first.get_or_insert(error),
                }
            }
            if synced.is_empty() {
                continue;
            }
            File::open(&folder).and_then(|folder| folder.sync_all()).map_err(at(&folder))?;
            lock().synced(&synced)?;
            count += synced.len();
        }
        first.map_or(Ok(count), Err)
    }

    /// Has the disk take the content of a file, and gives that; `None` if it is not to be there any more.
    fn sync_file(&self, meta: &Mutex<Sqlite>, file: &str) -> Result<Option<Vec<u8>>, StoreError> {
        if !is_file_name(file) {
            // What was edited leads nowhere else.
            return Ok(None);
        }
        let lock = || meta.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(content) = lock().unsynced_content(file)? else { return Ok(None) };
        let path = self.checkpoints().join(file);
        self.make_file(meta, file)?;
        if is_on_disk(&path, &content) {
            return Ok(Some(content));
        }
        // With the database: as long as it has the content, the name is this file's.
        let meta = lock();
        if meta.unsynced_content(file)?.as_ref() != Some(&content) {
            return Ok(None);
        }
        write(&path, &content).map_err(at(&path))?;
        Ok(Some(content))
    }

    /// Makes the file of a checkpoint whose content is in the database, unless it is there and has that. The disk is not waited for.
    pub fn make_file(&self, meta: &Mutex<Sqlite>, file: &str) -> Result<(), StoreError> {
        let path = self.checkpoints().join(file);
        // With the database: what is removed there is removed here after it.
        let meta = meta.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(content) = meta.unsynced_content(file)? else { return Ok(()) };
        let made = match has(&path, &content) {
            Ok(true) => Ok(()),
            // The machine has stopped before the disk had all of it.
            Ok(false) => write(&path, &content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => NewFile::beside(&path).and_then(|new| {
                new.file().write_all(&content)?;
                new.name_unsynced().map(drop)
            }),
            Err(error) => Err(error),
        };
        made.map_err(at(&path))
    }
}

/// Whether a file has this content.
fn has(path: &Path, content: &[u8]) -> io::Result<bool> {
    let mut found = Vec::with_capacity(content.len());
    File::open(path)?.take(content.len() as u64 + 1).read_to_end(&mut found)?;
    Ok(found == content)
}

/// Whether a file has this content, and the disk has that.
fn is_on_disk(path: &Path, content: &[u8]) -> bool {
    // An error is told once, and what it was about is lost: the file is written again.
    has(path, content).is_ok_and(|has| has && File::open(path).and_then(|file| file.sync_data()).is_ok())
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = NewFile::beside(path)?;
    new.file().write_all(content)?;
    new.publish(Replace::Yes).map(drop)
}
