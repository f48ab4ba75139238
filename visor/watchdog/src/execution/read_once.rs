//! Checkpoints that several copies go on from at the same time: each is read, decrypted and verified once, and all have the same sealed memory.
//!
//! What has been read is kept as long as a run that goes on from it. A file is known by its name and by how it begins: that has the digest of all
//! of it and the seal, or the nonce of an encrypted one. So another file under the name is read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use monohull_saved::Saved;

/// Bytes of the beginning of a file.
const BEGINNING: usize = 128;

/// A checkpoint in memory.
pub(crate) type InMemory = Arc<Saved<OwnedFd>>;

/// Those that runs go on from now.
#[derive(Default)]
pub(crate) struct ReadOnce(Mutex<HashMap<Known, Arc<Place>>>);

/// Locked while it is read, so that others wait for that.
type Place = Mutex<Weak<Saved<OwnedFd>>>;

/// What tells one file from another.
#[derive(PartialEq, Eq, Hash)]
struct Known {
    path: PathBuf,
    bytes: u64,
    beginning: [u8; BEGINNING],
}

impl Known {
    fn of(path: &Path) -> io::Result<Known> {
        let mut file = File::open(path)?;
        let mut beginning = [0; BEGINNING];
        file.read_exact(&mut beginning)?;
        Ok(Known { path: path.to_owned(), bytes: file.metadata()?.len(), beginning })
    }
}

impl ReadOnce {
    /// What is in the file: as it was read for another run that is under way, or now.
    pub(crate) fn get<E>(&self, path: &Path, read: impl FnOnce() -> Result<Saved<OwnedFd>, E>) -> Result<InMemory, E> {
        // What is wrong with it, its reader says.
        let Ok(known) = Known::of(path) else { return read().map(Arc::new) };
        let place = {
            let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_used = |place: &Place| place.lock().unwrap_or_else(PoisonError::into_inner).strong_count() > 0;
            // One that is in other hands is being read.
            places.retain(|_, place| Arc::strong_count(place) > 1 || is_used(place));
            places.entry(known).or_default().clone()
        };
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(saved) = place.upgrade() {
            return Ok(saved);
        }
        let saved = Arc::new(read()?);
        *place = Arc::downgrade(&saved);
        Ok(saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_ipc::sealed::seal;
    use monohull_saved::Engine;
    use std::fs;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn saved() -> Saved<OwnedFd> {
        Saved {
            workflow: "w".to_owned(),
            generation: 1,
            document: Vec::new(),
            functions: Vec::new(),
            engine: Engine::default(),
            continuation: seal(b"memory", 0).expect("memory"),
        }
    }

    #[test]
    fn a_file_is_read_once_while_it_is_used_and_another_one_under_its_name_is_read() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("a.checkpoint");
        let (once, reads) = (ReadOnce::default(), AtomicU32::new(0));
        let get = || {
            once.get(&path, || {
                reads.fetch_add(1, Ordering::Relaxed);
                Ok::<_, ()>(saved())
            })
            .expect("it is read")
        };
        let count = || reads.load(Ordering::Relaxed);
        // Without a file there is nothing to know it by.
        drop((get(), get()));
        assert_eq!(count(), 2);
        fs::write(&path, [1; 200]).expect("written");
        let all: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..4).map(|_| scope.spawn(get)).collect();
            started.into_iter().map(|one| one.join().expect("no panic")).collect()
        });
        assert_eq!(count(), 3);
        assert!(all.iter().all(|one| Arc::ptr_eq(one, &all[0])));
        fs::write(&path, [2; 200]).expect("written");
        let other = get();
        assert_eq!(count(), 4);
        assert!(!Arc::ptr_eq(&other, &all[0]));
        drop((all, other));
        drop(get());
        assert_eq!(count(), 5, "nothing is kept for no run");
        once.get(&path, || Err::<Saved<OwnedFd>, _>("damaged")).expect_err("what is wrong is told");
        assert_eq!(once.0.lock().expect("no panic").len(), 1);
    }
}
