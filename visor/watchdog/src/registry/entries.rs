//! Functions and workflows on disk.
//!
//! ```text
//! STATE/
//!   lock               the format of the folder; held while a server runs, see [`crate::store::state_folder`]
//!   images/HASH        function images, called by the SHA-256 of their bytes; several functions may share one
//!   functions/NAME     which image the function is      ┐ entries: a line with the hash of what follows, then that
//!   workflows/NAME     the document as it was sent      ┘
//!   invocations/ID     asynchronous calls, see [`crate::invocations::journal`]
//!   callbacks/ID       callbacks that are still to be made
//!   durable/…          durable invocations, see [`crate::invocations::ledger`]; their checkpoints are sealed with checkpoint.key
//!   damaged/…          corrupt files, moved here for inspection
//! ```
//!
//! Each file is the old one or the new one, whenever the machine or the server stops, see [`crate::store::atomic_file`]. An image is
//! written before the entry that names it, and removed after the last such entry.
//!
//! At the start everything is compared with its hash. Corrupt files are moved away and reported; the rest works. A file that
//! the host could not read is not corrupt: then the server does not start, and nothing is moved.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::hex;
use crate::store::atomic_file::{
    self, CorruptFile, PART, ReadError, list, name_of, put, put_marked, read_marked, remove, sync,
};
use crate::store::error::{StateError, at};
use crate::store::state_folder::{DAMAGED, FUNCTIONS, IMAGES, StateFolder, WORKFLOWS, quarantine};
use monohull_report::escape::shown;

/// The first word of every entry; the number is the format's.
const MAGIC: &str = "monohull-entry-1";

/// The two kinds of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Function,
    Workflow,
}

impl Kind {
    const fn folder(self) -> &'static str {
        match self {
            Kind::Function => FUNCTIONS,
            Kind::Workflow => WORKFLOWS,
        }
    }

    /// What one is called in sentences.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Function => "function",
            Kind::Workflow => "workflow",
        }
    }
}

/// The state folder of this server.
pub(crate) struct State {
    folder: Arc<StateFolder>,
    /// Images that an entry may name, although writing it has failed.
    uncertain: HashSet<String>,
}

/// An entry as it was found.
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

/// What a function's entry says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FunctionEntry {
    /// The image: SHA-256 in hexadecimal.
    pub(crate) image: String,
    /// When it was registered: seconds since 1970.
    pub(crate) registered: u64,
}

impl State {
    /// Opens the folder, makes what it lacks, and takes away what a server that was stopped left half done.
    pub(crate) fn open(folder: &Arc<StateFolder>) -> Result<State, StateError> {
        use std::os::unix::fs::DirBuilderExt;
        let private = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(at(path));
        let root = folder.path();
        for name in [IMAGES, FUNCTIONS, WORKFLOWS, DAMAGED] {
            let folder = root.join(name);
            private(&folder)?;
            for path in list(&folder)?.into_iter().filter(|path| name_of(path).ends_with(PART)) {
                atomic_file::sweep(&path);
            }
        }
        sync(root).map_err(at(root))?;
        // The folder itself may be new.
        if let Some(parent) = root.parent() {
            sync(parent).map_err(at(parent))?;
        }
        Ok(State { folder: folder.clone(), uncertain: HashSet::new() })
    }

    /// Reads all entries of a kind, and lists those that are corrupt.
    pub(crate) fn entries(&self, kind: Kind) -> Result<(Vec<Entry>, Vec<CorruptFile>), StateError> {
        let mut entries = Vec::new();
        let mut corrupt_files = Vec::new();
        for path in list(&self.root().join(kind.folder()))? {
            match read_entry(&path) {
                Ok(content) => entries.push(Entry { kind, name: name_of(&path), content }),
                Err(ReadError::Corrupt(reason)) => corrupt_files.push(CorruptFile { path, reason }),
                Err(ReadError::Host(error)) => return Err(error),
            }
        }
        Ok((entries, corrupt_files))
    }

    /// The bytes of an image that has not changed since it was written.
    pub(crate) fn image(&self, hash: &str) -> Result<Vec<u8>, ReadError> {
        let path = self.image_path(hash);
        let bytes = atomic_file::read(&path)?;
        if hex(&Sha256::digest(&bytes)) == hash { Ok(bytes) } else { Err(ReadError::corrupt("its bytes have changed")) }
    }

    /// Keeps an image. It is there for good once an entry names it.
    pub(crate) fn put_image(&self, hash: &str, bytes: &[u8]) -> Result<(), StateError> {
        self.folder.change(|| self.write_image(hash, bytes))
    }

    fn write_image(&self, hash: &str, bytes: &[u8]) -> Result<(), StateError> {
        let path = self.image_path(hash);
        // An image that is there has been compared with its hash at the start, or written since; its name may not have been
        // synced then.
        if path.exists() {
            sync(&self.root().join(IMAGES)).map_err(at(&path))
        } else {
            put(&path, |file| file.write_all(bytes))
        }
    }

    /// Writes an entry, in place of an older one of the same name.
    pub(crate) fn put(&self, kind: Kind, name: &str, content: &[u8]) -> Result<(), StateError> {
        let path = self.entry_path(kind, name);
        self.folder.change(|| put_marked(&path, MAGIC, |to| to.write_all(content)))
    }

    /// Removes an entry.
    pub(crate) fn remove(&self, kind: Kind, name: &str) -> Result<(), StateError> {
        let path = self.entry_path(kind, name);
        self.folder.change(|| {
            remove(&path)?;
            sync(&self.root().join(kind.folder())).map_err(at(&path))
        })
    }

    /// Removes the images that no function is any more.
    pub(crate) fn sweep(&self, used: &HashSet<String>) -> Result<(), StateError> {
        // In the folder of another server all images would be unused.
        self.folder.change(|| {
            let unused = self.unused(used)?;
            let is_certain = |path: &&PathBuf| !self.uncertain.contains(&name_of(path));
            unused.iter().filter(is_certain).for_each(|path| atomic_file::sweep(path));
            Ok(())
        })
    }

    /// An entry with this image could not be written for good, but may be there: the next server may find it, and needs the image.
    pub(crate) fn keep_image(&mut self, hash: &str) {
        self.uncertain.insert(hash.to_owned());
    }

    fn unused(&self, used: &HashSet<String>) -> Result<Vec<PathBuf>, StateError> {
        Ok(list(&self.root().join(IMAGES))?.into_iter().filter(|path| !used.contains(&name_of(path))).collect())
    }

    /// An entry that is whole, and of no use for this reason.
    pub(crate) fn corrupt_file(&self, entry: &Entry, reason: String) -> CorruptFile {
        CorruptFile { path: self.entry_path(entry.kind, &entry.name), reason }
    }

    /// Moves away what is damaged, so that the next start does not meet it again. With it go the images that are not used:
    /// one of them may be what a damaged entry named. They go first, or a stop in between would leave them unprotected.
    pub(crate) fn quarantine(
        &self,
        corrupt_files: &mut [CorruptFile],
        used: &HashSet<String>,
    ) -> Result<(), StateError> {
        if corrupt_files.is_empty() {
            return Ok(());
        }
        for path in self.unused(used)? {
            quarantine(self.root(), &path)?;
        }
        for file in corrupt_files {
            let kept = quarantine(self.root(), &file.path)?;
            file.reason = format!("{}; kept as {}", file.reason, shown(&kept));
        }
        Ok(())
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn image_path(&self, hash: &str) -> PathBuf {
        self.root().join(IMAGES).join(hash)
    }

    /// Names have been checked: they hold no `/` and no `.`.
    fn entry_path(&self, kind: Kind, name: &str) -> PathBuf {
        self.root().join(kind.folder()).join(name)
    }
}

fn read_entry(path: &Path) -> Result<Vec<u8>, ReadError> {
    if !monohull_workflow::is_name(&name_of(path)) {
        return Err(ReadError::corrupt("it is not called like an entry"));
    }
    read_marked(path, MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn open(folder: &TempDir) -> State {
        State::open(&StateFolder::take(folder.path()).expect("suitable")).expect("a state")
    }

    fn names(state: &State, kind: Kind) -> Vec<(String, Vec<u8>)> {
        let (entries, corrupt_files) = state.entries(kind).expect("readable");
        assert!(corrupt_files.is_empty(), "{corrupt_files:?}");
        entries.into_iter().map(|entry| (entry.name, entry.content)).collect()
    }

    #[test]
    fn entries_come_back_as_they_were() {
        let folder = TempDir::new().expect("a folder");
        let state = open(&folder);
        state.put(Kind::Workflow, "a", b"first").expect("kept");
        state.put(Kind::Workflow, "a", b"second\nline").expect("replaced");
        state.put(Kind::Workflow, "b", b"").expect("kept");
        state.put(Kind::Function, "a", b"f").expect("kept");
        state.remove(Kind::Workflow, "b").expect("removed");
        drop(state);
        let state = open(&folder);
        assert_eq!(names(&state, Kind::Workflow), [("a".to_owned(), b"second\nline".to_vec())]);
        assert_eq!(names(&state, Kind::Function), [("a".to_owned(), b"f".to_vec())]);
    }

    #[test]
    fn damaged_entries_are_set_aside_and_the_rest_works() {
        let folder = TempDir::new().expect("a folder");
        let state = open(&folder);
        for name in ["whole", "cut", "flipped", "empty"] {
            state.put(Kind::Workflow, name, b"content").expect("kept");
        }
        let path = |name: &str| folder.path().join("workflows").join(name);
        let mut bytes = fs::read(path("cut")).expect("readable");
        bytes.pop();
        fs::write(path("cut"), &bytes).expect("written");
        bytes.push(b'T');
        fs::write(path("flipped"), &bytes).expect("written");
        fs::write(path("empty"), "").expect("written");
        fs::write(path("..strange"), "").expect("written");
        let (entries, mut corrupt_files) = state.entries(Kind::Workflow).expect("readable");
        assert_eq!(entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["whole"]);
        assert_eq!(corrupt_files.len(), 4, "{corrupt_files:?}");
        state.quarantine(&mut corrupt_files, &HashSet::new()).expect("moved");
        assert_eq!(fs::read_dir(folder.path().join("damaged")).expect("a folder").count(), 4);
        assert_eq!(names(&state, Kind::Workflow).len(), 1);
    }

    #[test]
    fn a_changed_image_is_not_given_out() {
        let folder = TempDir::new().expect("a folder");
        let state = open(&folder);
        let hash = hex(&Sha256::digest(b"image"));
        state.put_image(&hash, b"image").expect("kept");
        assert_eq!(state.image(&hash).expect("whole"), b"image");
        fs::write(folder.path().join(IMAGES).join(&hash), b"imagE").expect("written");
        assert!(matches!(state.image(&hash), Err(ReadError::Corrupt(_))));
        state.sweep(&HashSet::new()).expect("swept");
        assert!(matches!(state.image(&hash), Err(ReadError::Corrupt(_))), "it is gone");
        state.put_image(&hash, b"image").expect("kept again");
        assert_eq!(state.image(&hash).expect("whole"), b"image");
    }

    /// The entry may be on the disk all the same, in place of the one before.
    #[test]
    fn the_image_of_an_entry_that_could_not_be_written_stays_for_the_next_server() {
        let folder = TempDir::new().expect("a folder");
        let mut state = open(&folder);
        let [uncertain, unused] = [b"uncertain".as_slice(), b"unused"].map(|bytes| {
            let hash = hex(&Sha256::digest(bytes));
            state.put_image(&hash, bytes).expect("kept");
            hash
        });
        state.keep_image(&uncertain);
        state.sweep(&HashSet::new()).expect("swept");
        assert_eq!(state.image(&uncertain).expect("whole"), b"uncertain");
        assert!(matches!(state.image(&unused), Err(ReadError::Corrupt(_))), "it is gone");
        drop(state);
        open(&folder).sweep(&HashSet::new()).expect("swept");
        assert!(!folder.path().join(IMAGES).join(&uncertain).exists(), "the next server knows");
    }

    /// A corrupt entry no longer names its image.
    #[test]
    fn images_without_a_function_are_kept_beside_what_is_damaged() {
        let folder = TempDir::new().expect("a folder");
        let state = open(&folder);
        let [used, lost] = [b"used", b"lost"].map(|bytes| {
            let hash = hex(&Sha256::digest(bytes));
            state.put_image(&hash, bytes).expect("kept");
            hash
        });
        fs::write(folder.path().join("functions/f"), "cut").expect("written");
        let (_, mut corrupt_files) = state.entries(Kind::Function).expect("readable");
        state.quarantine(&mut corrupt_files, &HashSet::from([used.clone()])).expect("moved");
        assert_eq!(state.image(&used).expect("whole"), b"used");
        let kept: Vec<Vec<u8>> = list(&folder.path().join("damaged"))
            .expect("a folder")
            .iter()
            .map(|path| fs::read(path).expect("readable"))
            .collect();
        assert!(kept.contains(&b"lost".to_vec()) && kept.contains(&b"cut".to_vec()), "{kept:?} {lost}");
        assert!(corrupt_files[0].reason.contains("kept as"), "{corrupt_files:?}");
    }

    #[test]
    fn two_servers_do_not_share_a_folder() {
        let folder = TempDir::new().expect("a folder");
        let state = open(&folder);
        assert!(matches!(StateFolder::take(folder.path()), Err(StateError::Taken(_))));
        drop(state);
        StateFolder::take(folder.path()).expect("free again");
    }

    #[test]
    fn what_was_half_written_is_taken_away() {
        let folder = TempDir::new().expect("a folder");
        drop(open(&folder));
        let part = folder.path().join("functions/f.part");
        fs::write(&part, "half").expect("written");
        let state = open(&folder);
        assert!(!part.exists() && names(&state, Kind::Function).is_empty());
    }
}
