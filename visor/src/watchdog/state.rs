//! What survives: functions and workflows, in a folder.
//!
//! ```text
//! STATE/
//!   lock               held while a server runs: one server per folder
//!   images/HASH        function images, called by the SHA-256 of their bytes; several functions may share one
//!   functions/NAME     which image the function is      ┐ entries: a line with the hash of what follows, then that
//!   workflows/NAME     the document as it was sent      ┘
//!   damaged/…          what was not as it should be, set aside for whoever wants to look
//! ```
//!
//! A file comes into being under another name, is synced, takes its name, and then the folder is synced: whenever the
//! machine or the server stops, an entry is either the old one or the new one, and one that has been acknowledged is
//! there. An image is written before the entry that names it, and removed after the last such entry.
//!
//! At the start everything is compared with its hash. What does not fit is set aside and told; the rest works. What the
//! host could not read just then is no damage: the server does not start, and nothing is moved.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::trace::hex;
use crate::domain::image::map::LoadError;

/// The first word of every entry; the number is the format's.
const MAGIC: &str = "monohull-entry-1";
/// What files are called until they are whole.
const PART: &str = ".part";

/// The state folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// another server uses the state folder {0}
    #[error("another server uses the state folder {0}")]
    Taken(PathBuf),
    /// the state folder cannot be used: {path}: {source}
    #[error("the state folder cannot be used: {path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The host's answer.
        source: io::Error,
    },
    /// the host failed to load a registered function
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Why something that was kept cannot be had.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The host could not give it: it may be as it should.
    Host(StateError),
    /// It is not as it should be.
    Damaged(String),
}

impl Trouble {
    /// A file of the state could not be read. One that is not there, or is none, will not come back by itself.
    fn reading(path: &Path, error: io::Error) -> Trouble {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => Trouble::Damaged(error.to_string()),
            _ => Trouble::Host(at(path)(error)),
        }
    }

    pub(super) fn damaged(reason: impl ToString) -> Trouble {
        Trouble::Damaged(reason.to_string())
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> StateError + use<> {
    let path = path.to_owned();
    move |source| StateError::Io { path, source }
}

/// The two kinds of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Function,
    Workflow,
}

impl Kind {
    const fn folder(self) -> &'static str {
        match self {
            Kind::Function => "functions",
            Kind::Workflow => "workflows",
        }
    }

    /// What one is called in sentences.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Function => "function",
            Kind::Workflow => "workflow",
        }
    }
}

/// The state folder of this server.
pub(super) struct State {
    root: PathBuf,
    /// Unlocked when the process ends, however it ends.
    _lock: Flock<File>,
}

/// An entry as it was found.
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

/// Something that is damaged.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Damage {
    /// The file, as it was called.
    pub(super) path: PathBuf,
    /// Why it cannot be used.
    pub(super) reason: String,
}

/// What a function's entry says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FunctionEntry {
    /// The image: SHA-256 in hexadecimal.
    pub(super) image: String,
    /// When it was registered: seconds since 1970.
    pub(super) registered: u64,
}

impl State {
    /// Opens the folder, makes what it lacks, and takes away what a server that was stopped left half done.
    pub(super) fn open(root: &Path) -> Result<State, StateError> {
        use std::os::unix::fs::DirBuilderExt;
        let private = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(at(path));
        private(root)?;
        let path = root.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(at(&path))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
            nix::Error::EWOULDBLOCK => StateError::Taken(root.to_owned()),
            error => at(&path)(error.into()),
        })?;
        for folder in ["images", "functions", "workflows", "damaged"] {
            let folder = root.join(folder);
            private(&folder)?;
            for path in list(&folder)?.into_iter().filter(|path| name_of(path).ends_with(PART)) {
                fs::remove_file(&path).map_err(at(&path))?;
            }
        }
        sync(root).map_err(at(root))?;
        // The folder itself may be new.
        let root = fs::canonicalize(root).map_err(at(root))?;
        if let Some(parent) = root.parent() {
            sync(parent).map_err(at(parent))?;
        }
        Ok(State { root, _lock: lock })
    }

    /// Reads all entries of a kind, and tells of those that are damaged.
    pub(super) fn entries(&self, kind: Kind) -> Result<(Vec<Entry>, Vec<Damage>), StateError> {
        let mut entries = Vec::new();
        let mut damages = Vec::new();
        for path in list(&self.root.join(kind.folder()))? {
            match read_entry(&path) {
                Ok(content) => entries.push(Entry { kind, name: name_of(&path), content }),
                Err(Trouble::Damaged(reason)) => damages.push(Damage { path, reason }),
                Err(Trouble::Host(error)) => return Err(error),
            }
        }
        Ok((entries, damages))
    }

    /// The bytes of an image that has not changed since it was written.
    pub(super) fn image(&self, hash: &str) -> Result<Vec<u8>, Trouble> {
        let path = self.image_path(hash);
        let bytes = fs::read(&path).map_err(|error| Trouble::reading(&path, error))?;
        if hex(&Sha256::digest(&bytes)) == hash { Ok(bytes) } else { Err(Trouble::damaged("its bytes have changed")) }
    }

    /// Keeps an image. It is there for good once an entry names it.
    pub(super) fn put_image(&self, hash: &str, bytes: &[u8]) -> Result<(), StateError> {
        let path = self.image_path(hash);
        // An image that is there has been compared with its hash at the start, or written since.
        if path.exists() { Ok(()) } else { put(&path, &[bytes]).map_err(at(&path)) }
    }

    /// Writes an entry, in place of an older one of the same name.
    pub(super) fn put(&self, kind: Kind, name: &str, content: &[u8]) -> Result<(), StateError> {
        let path = self.entry_path(kind, name);
        let head = format!("{MAGIC} {}\n", hex(&Sha256::digest(content)));
        put(&path, &[head.as_bytes(), content]).map_err(at(&path))
    }

    /// Removes an entry.
    pub(super) fn remove(&self, kind: Kind, name: &str) -> Result<(), StateError> {
        let path = self.entry_path(kind, name);
        let removed = fs::remove_file(&path).or_else(|error| match error.kind() {
            // An earlier attempt got this far.
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        });
        removed.and_then(|()| sync(&self.root.join(kind.folder()))).map_err(at(&path))
    }

    /// Removes the images that no function is any more.
    pub(super) fn sweep(&self, used: &HashSet<String>) -> Result<(), StateError> {
        self.unused(used)?.into_iter().try_for_each(|path| fs::remove_file(&path).map_err(at(&path)))
    }

    fn unused(&self, used: &HashSet<String>) -> Result<Vec<PathBuf>, StateError> {
        Ok(list(&self.root.join("images"))?.into_iter().filter(|path| !used.contains(&name_of(path))).collect())
    }

    /// An entry that is whole, and of no use for this reason.
    pub(super) fn damage(&self, entry: &Entry, reason: String) -> Damage {
        Damage { path: self.entry_path(entry.kind, &entry.name), reason }
    }

    /// Moves away what is damaged, so that the next start does not meet it again. With it go the images that are not used:
    /// one of them may be what a damaged entry named. They go first, or a stop in between would leave them unprotected.
    pub(super) fn set_aside(&self, damages: &mut [Damage], used: &HashSet<String>) -> Result<(), StateError> {
        if damages.is_empty() {
            return Ok(());
        }
        for path in self.unused(used)? {
            self.move_away(&path)?;
        }
        for damage in damages {
            let kept = self.move_away(&damage.path)?;
            damage.reason = format!("{}; kept as {}", damage.reason, kept.display());
        }
        Ok(())
    }

    fn move_away(&self, path: &Path) -> Result<PathBuf, StateError> {
        let folder = path.parent().map(name_of).unwrap_or_default();
        let kept = self.root.join("damaged").join(format!("{folder}-{}-{}", name_of(path), now()));
        fs::rename(path, &kept).map_err(at(path))?;
        Ok(kept)
    }

    fn image_path(&self, hash: &str) -> PathBuf {
        self.root.join("images").join(hash)
    }

    /// Names have been checked: they hold no `/` and no `.`.
    fn entry_path(&self, kind: Kind, name: &str) -> PathBuf {
        self.root.join(kind.folder()).join(name)
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn read_entry(path: &Path) -> Result<Vec<u8>, Trouble> {
    if !crate::workflow::is_name(&name_of(path)) {
        return Err(Trouble::damaged("it is not called like an entry"));
    }
    let bytes = fs::read(path).map_err(|error| Trouble::reading(path, error))?;
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(|| Trouble::damaged("it has no first line"))?;
    let (head, content) = (&bytes[..end], &bytes[end + 1..]);
    let right = format!("{MAGIC} {}", hex(&Sha256::digest(content)));
    if head == right.as_bytes() { Ok(content.to_vec()) } else { Err(Trouble::damaged("its bytes have changed")) }
}

/// The files of a folder, by name.
fn list(folder: &Path) -> Result<Vec<PathBuf>, StateError> {
    let entries =
        fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>()).map_err(at(folder))?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Puts a file in its place so that it is there as a whole or not at all, and stays once this has returned.
fn put(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(PART);
    let part = path.with_file_name(name);
    let written = File::create(&part).and_then(|mut file| {
        parts.iter().try_for_each(|bytes| file.write_all(bytes))?;
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&part, path)) {
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    sync(path.parent().unwrap_or(Path::new("/")))
}

/// Makes sure that the names in a folder stay.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn names(state: &State, kind: Kind) -> Vec<(String, Vec<u8>)> {
        let (entries, damages) = state.entries(kind).expect("readable");
        assert!(damages.is_empty(), "{damages:?}");
        entries.into_iter().map(|entry| (entry.name, entry.content)).collect()
    }

    #[test]
    fn entries_come_back_as_they_were() {
        let folder = TempDir::new().expect("a folder");
        let state = State::open(folder.path()).expect("a state");
        state.put(Kind::Workflow, "a", b"first").expect("kept");
        state.put(Kind::Workflow, "a", b"second\nline").expect("replaced");
        state.put(Kind::Workflow, "b", b"").expect("kept");
        state.put(Kind::Function, "a", b"f").expect("kept");
        state.remove(Kind::Workflow, "b").expect("removed");
        drop(state);
        let state = State::open(folder.path()).expect("a state");
        assert_eq!(names(&state, Kind::Workflow), [("a".to_owned(), b"second\nline".to_vec())]);
        assert_eq!(names(&state, Kind::Function), [("a".to_owned(), b"f".to_vec())]);
    }

    #[test]
    fn damaged_entries_are_set_aside_and_the_rest_works() {
        let folder = TempDir::new().expect("a folder");
        let state = State::open(folder.path()).expect("a state");
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
        let (entries, mut damages) = state.entries(Kind::Workflow).expect("readable");
        assert_eq!(entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["whole"]);
        assert_eq!(damages.len(), 4, "{damages:?}");
        state.set_aside(&mut damages, &HashSet::new()).expect("moved");
        assert_eq!(fs::read_dir(folder.path().join("damaged")).expect("a folder").count(), 4);
        assert_eq!(names(&state, Kind::Workflow).len(), 1);
    }

    #[test]
    fn a_changed_image_is_not_given_out() {
        let folder = TempDir::new().expect("a folder");
        let state = State::open(folder.path()).expect("a state");
        let hash = hex(&Sha256::digest(b"image"));
        state.put_image(&hash, b"image").expect("kept");
        assert_eq!(state.image(&hash).expect("whole"), b"image");
        fs::write(folder.path().join("images").join(&hash), b"imagE").expect("written");
        assert!(matches!(state.image(&hash), Err(Trouble::Damaged(_))));
        state.sweep(&HashSet::new()).expect("swept");
        assert!(matches!(state.image(&hash), Err(Trouble::Damaged(_))), "it is gone");
        state.put_image(&hash, b"image").expect("kept again");
        assert_eq!(state.image(&hash).expect("whole"), b"image");
    }

    /// A damaged entry no longer tells which image it named.
    #[test]
    fn images_without_a_function_are_kept_beside_what_is_damaged() {
        let folder = TempDir::new().expect("a folder");
        let state = State::open(folder.path()).expect("a state");
        let [used, lost] = [b"used", b"lost"].map(|bytes| {
            let hash = hex(&Sha256::digest(bytes));
            state.put_image(&hash, bytes).expect("kept");
            hash
        });
        fs::write(folder.path().join("functions/f"), "cut").expect("written");
        let (_, mut damages) = state.entries(Kind::Function).expect("readable");
        state.set_aside(&mut damages, &HashSet::from([used.clone()])).expect("moved");
        assert_eq!(state.image(&used).expect("whole"), b"used");
        let kept: Vec<Vec<u8>> = list(&folder.path().join("damaged"))
            .expect("a folder")
            .iter()
            .map(|path| fs::read(path).expect("readable"))
            .collect();
        assert!(kept.contains(&b"lost".to_vec()) && kept.contains(&b"cut".to_vec()), "{kept:?} {lost}");
        assert!(damages[0].reason.contains("kept as"), "{damages:?}");
    }

    #[test]
    fn two_servers_do_not_share_a_folder() {
        let folder = TempDir::new().expect("a folder");
        let state = State::open(folder.path()).expect("a state");
        assert!(matches!(State::open(folder.path()), Err(StateError::Taken(_))));
        drop(state);
        State::open(folder.path()).expect("free again");
    }

    #[test]
    fn what_was_half_written_is_taken_away() {
        let folder = TempDir::new().expect("a folder");
        drop(State::open(folder.path()).expect("a state"));
        let part = folder.path().join("functions/f.part");
        fs::write(&part, "half").expect("written");
        let state = State::open(folder.path()).expect("a state");
        assert!(!part.exists() && names(&state, Kind::Function).is_empty());
    }
}
