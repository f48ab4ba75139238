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
//! At the start everything is compared with its hash. What does not fit is set aside and told; the rest works.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::trace::hex;

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

/// Something that was set aside.
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
        Ok(State { root: root.to_owned(), _lock: lock })
    }

    /// Reads all entries of a kind. What is damaged is set aside.
    pub(super) fn entries(&self, kind: Kind) -> Result<(Vec<Entry>, Vec<Damage>), StateError> {
        let mut entries = Vec::new();
        let mut damages = Vec::new();
        for path in list(&self.root.join(kind.folder()))? {
            match read_entry(&path) {
                Ok(content) => entries.push(Entry { kind, name: name_of(&path), content }),
                Err(reason) => damages.push(self.set_aside(&path, reason)),
            }
        }
        Ok((entries, damages))
    }

    /// The bytes of an image that has not changed since it was written. A damaged one is set aside.
    pub(super) fn image(&self, hash: &str) -> Result<Vec<u8>, Damage> {
        let path = self.image_path(hash);
        match fs::read(&path) {
            Ok(bytes) if hex(&Sha256::digest(&bytes)) == hash => Ok(bytes),
            Ok(_) => Err(self.set_aside(&path, "its bytes have changed".to_owned())),
            Err(error) => Err(Damage { path, reason: error.to_string() }),
        }
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
        for path in list(&self.root.join("images"))?.into_iter().filter(|path| !used.contains(&name_of(path))) {
            fs::remove_file(&path).map_err(at(&path))?;
        }
        Ok(())
    }

    /// Moves an entry away, so that the next start does not meet it again.
    pub(super) fn set_entry_aside(&self, kind: Kind, name: &str, reason: String) -> Damage {
        self.set_aside(&self.entry_path(kind, name), reason)
    }

    fn set_aside(&self, path: &Path, reason: String) -> Damage {
        let folder = path.parent().map(name_of).unwrap_or_default();
        let kept = self.root.join("damaged").join(format!("{folder}-{}-{}", name_of(path), now()));
        let reason = match fs::rename(path, &kept) {
            Ok(()) => format!("{reason}; kept as {}", kept.display()),
            Err(error) => format!("{reason}; it could not be moved to {}: {error}", kept.display()),
        };
        Damage { path: path.to_owned(), reason }
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

fn read_entry(path: &Path) -> Result<Vec<u8>, String> {
    if !crate::workflow::is_name(&name_of(path)) {
        return Err("it is not called like an entry".to_owned());
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or("it has no first line")?;
    let (head, content) = (&bytes[..end], &bytes[end + 1..]);
    let right = format!("{MAGIC} {}", hex(&Sha256::digest(content)));
    if head == right.as_bytes() { Ok(content.to_vec()) } else { Err("its bytes have changed".to_owned()) }
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
        let (entries, damages) = state.entries(Kind::Workflow).expect("readable");
        assert_eq!(entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["whole"]);
        assert_eq!(damages.len(), 4, "{damages:?}");
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
        assert!(state.image(&hash).is_err());
        assert!(state.image(&hash).is_err(), "it is gone");
        state.put_image(&hash, b"image").expect("kept again");
        assert_eq!(state.image(&hash).expect("whole"), b"image");
        state.sweep(&HashSet::new()).expect("swept");
        assert!(state.image(&hash).is_err());
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
