//! The state folder as a whole: which folder a server takes, and whether it is still the one that it has taken.
//!
//! The file `lock` makes a folder a state folder. A server writes it into a folder that is empty, and holds a lock on it as
//! long as it runs. A folder that holds other files and no such file belongs to something else, and is left as it is.
//!
//! A folder may be removed, or another be put in its place, while its server runs. Its path then leads nowhere, or to the
//! state of another server. So the server compares what is at the path with what it holds open: at intervals, for
//! `/readyz`, and around each change, which is acknowledged only if the folder was in its place before and after it. So it does with the files of
//! its database, which stay open: what is written to one that was removed is lost with this process.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW};

use crate::clock::now;
use crate::store::atomic_file::{list, name_of};
use crate::store::error::{Loss, StateError, Unsuitable, at};

/// The folder of function images.
pub(crate) const IMAGES: &str = "images";
/// The folder of registered functions.
pub(crate) const FUNCTIONS: &str = "functions";
/// The folder of registered workflows.
pub(crate) const WORKFLOWS: &str = "workflows";
/// The folder that corrupt files are moved to.
pub(crate) const DAMAGED: &str = "damaged";

/// The file that makes a folder a state folder.
const LOCK: &str = "lock";
/// The user's key for checkpoints, which `monohull run --suspend` keeps in the same folder.
const CHECKPOINT_KEY: &str = "checkpoint.key";
/// What the lock file says. Its first line is the format of the folder.
const MARKER: &str =
    "monohull-state-1\nThis folder belongs to `monohull serve`, which holds a lock on this file while it runs.\n";
/// So much of a name is kept where more is put to it: file systems have names of up to 255 bytes.
const NAME_SHOWN: usize = 160;

/// What a file system that was just made has at its root.
const LOST_AND_FOUND: &str = "lost+found";

/// The state folder of this server.
#[derive(Debug)]
pub(crate) struct StateFolder {
    path: PathBuf,
    /// Keeps its number from being given to another.
    folder: (File, Identity),
    /// Unlocked when the process ends, however it ends.
    lock: (Flock<File>, Identity),
    /// Those of the database, which others hold open.
    database: OnceLock<Vec<(PathBuf, Identity)>>,
}

/// Identifies a file or folder of this host, as long as it is held open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Identity {
        Identity { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl StateFolder {
    /// Takes a folder, and makes it if there is none. The lock is held until the result is dropped.
    pub(crate) fn take(path: &Path) -> Result<Arc<StateFolder>, StateError> {
        // Without a slash behind the name, which would follow a link.
        let path: &Path = &path.components().collect::<PathBuf>();
        let unsuitable = |why| StateError::Unsuitable { path: path.to_owned(), why };
        if fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(at(path))?;
        }
        let open = File::options().read(true).custom_flags(O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC).open(path);
        let folder = open.map_err(|error| match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => unsuitable(Unsuitable::Link),
            Ok(metadata) if !metadata.is_dir() => unsuitable(Unsuitable::NotAFolder),
            _ => at(path)(error),
        })?;
        let metadata = folder.metadata().map_err(at(path))?;
        let user = nix::unistd::geteuid().as_raw();
        check_rights(metadata.uid(), metadata.mode(), user).map_err(unsuitable)?;
        let lock = lock(path)?;
        let lock_identity = Identity::of(&lock.metadata().map_err(at(path))?);
        Ok(Arc::new(StateFolder {
            path: fs::canonicalize(path).map_err(at(path))?,
            folder: (folder, Identity::of(&metadata)),
            lock: (lock, lock_identity),
            database: OnceLock::new(),
        }))
    }

    /// From now on these files are to be in their places too. They stay open as long as the folder is in use.
    pub(crate) fn has_database(&self, files: impl IntoIterator<Item = PathBuf>) -> Result<(), StateError> {
        let identified = |path: PathBuf| match fs::symlink_metadata(&path) {
            Ok(metadata) => Ok((path, Identity::of(&metadata))),
            Err(error) => Err(at(&path)(error)),
        };
        let files = files.into_iter().map(identified).collect::<Result<_, _>>()?;
        self.database.get_or_init(|| files);
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the folder at its path is still this one.
    pub(crate) fn check(&self) -> Result<(), StateError> {
        self.find_loss().map_or(Ok(()), |loss| Err(StateError::Lost { path: self.path.clone(), loss }))
    }

    fn find_loss(&self) -> Option<Loss> {
        let identity = |path: &Path| fs::symlink_metadata(path).map(|metadata| Identity::of(&metadata));
        match identity(&self.path) {
            Ok(found) if found == self.folder.1 => {}
            Ok(_) => return Some(Loss::Replaced),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Loss::Removed),
            Err(error) => return Some(Loss::Unknown(error)),
        }
        match identity(&self.path.join(LOCK)) {
            Ok(found) if found == self.lock.1 => {}
            Ok(_) => return Some(Loss::Unlocked),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Loss::Unlocked),
            Err(error) => return Some(Loss::Unknown(error)),
        }
        self.database.get().into_iter().flatten().find_map(|(path, known)| match identity(path) {
            Ok(found) if found == *known => None,
            Err(error) if error.kind() != io::ErrorKind::NotFound => Some(Loss::Unknown(error)),
            _ => Some(Loss::Database(path.strip_prefix(&self.path).unwrap_or(path).to_owned())),
        })
    }

    /// Changes something in the folder. The change counts only if the folder was in its place before it and after it.
    pub(crate) fn change<T>(&self, change: impl FnOnce() -> Result<T, StateError>) -> Result<T, StateError> {
        self.check()?;
        let changed = change();
        // What has become of the folder says more than the error that it leads to.
        self.check()?;
        changed
    }
}

/// Whether only this user can change a folder.
fn check_rights(owner: u32, mode: u32, user: u32) -> Result<(), Unsuitable> {
    if owner != user {
        return Err(Unsuitable::Owner { owner, user });
    }
    if mode & 0o022 != 0 {
        return Err(Unsuitable::Writable { mode: mode & 0o7777 });
    }
    Ok(())
}

/// Locks the folder of this server, and marks it as one if it is empty.
fn lock(folder: &Path) -> Result<Flock<File>, StateError> {
    let unsuitable = |why| StateError::Unsuitable { path: folder.to_owned(), why };
    let path = folder.join(LOCK);
    let own = |path: &PathBuf| [LOCK, LOST_AND_FOUND, CHECKPOINT_KEY].contains(&&*name_of(path));
    let others = || Ok::<_, StateError>(!list(folder)?.iter().all(own));
    if !path.try_exists().map_err(at(&path))? && others()? {
        return Err(unsuitable(Unsuitable::Foreign));
    }
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true).mode(0o600).custom_flags(O_NOFOLLOW | O_CLOEXEC);
    let file = options.open(&path).map_err(at(&path))?;
    let mut lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        nix::Error::EWOULDBLOCK => StateError::Taken(folder.to_owned()),
        error => at(&path)(error.into()),
    })?;
    let mut said = String::new();
    let read = (&mut *lock).take(2 * MARKER.len() as u64).read_to_string(&mut said);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => unsuitable(Unsuitable::Foreign),
        _ => at(&path)(error),
    })?;
    let (expected, format) = (first_line(MARKER), first_line(&said));
    if format == expected {
        return Ok(lock);
    }
    // A server that was stopped here has left a part of the marker, and nothing else.
    if MARKER.starts_with(&said) && !others()? {
        lock.set_len(0).and_then(|()| io::Seek::rewind(&mut *lock)).map_err(at(&path))?;
        lock.write_all(MARKER.as_bytes()).and_then(|()| lock.sync_all()).map_err(at(&path))?;
        return Ok(lock);
    }
    let family = expected.trim_end_matches(char::is_numeric);
    Err(unsuitable(if format.starts_with(family) {
        Unsuitable::Format(format.to_owned())
    } else {
        Unsuitable::Foreign
    }))
}

/// Moves what is damaged away, so that the next start does not meet it again. Gives its new name.
pub(crate) fn quarantine(root: &Path, path: &Path) -> Result<PathBuf, StateError> {
    let folder = path.parent().map(name_of).unwrap_or_default();
    let name = name_of(path);
    let name = &name[..name.floor_char_boundary(NAME_SHOWN)];
    let kept = root.join(DAMAGED).join(format!("{folder}-{name}-{}", now()));
    fs::rename(path, &kept).map_err(at(path))?;
    Ok(kept)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    /// Why a folder is not taken.
    fn refused(path: &Path) -> Unsuitable {
        match StateFolder::take(path) {
            Err(StateError::Unsuitable { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_empty_folder_a_new_one_and_ones_own_are_taken() {
        let root = TempDir::new().expect("a folder");
        let new = root.path().join("a/b");
        let mounted = root.path().join("mounted");
        fs::create_dir_all(mounted.join(LOST_AND_FOUND)).expect("made");
        let with_key = root.path().join("with-key");
        fs::create_dir(&with_key).expect("made");
        fs::write(with_key.join(CHECKPOINT_KEY), [7; 32]).expect("written");
        for path in [&new, &mounted, &with_key] {
            for _ in 0..2 {
                StateFolder::take(path).expect("suitable").check().expect("in its place");
                fs::write(path.join("entry"), "").expect("written");
            }
        }
        assert_eq!(fs::metadata(&new).expect("made").mode() & 0o777, 0o700);
        // A server that was stopped while it wrote the marker.
        let half = root.path().join("half");
        fs::create_dir(&half).expect("made");
        fs::write(half.join(LOCK), &MARKER[..5]).expect("written");
        StateFolder::take(&half).expect("suitable");
        assert_eq!(fs::read_to_string(half.join(LOCK)).expect("readable"), MARKER);
    }

    #[test]
    fn what_belongs_to_something_else_is_refused_and_left_as_it_is() {
        let root = TempDir::new().expect("a folder");
        let at = |name: &str| root.path().join(name);
        for (name, lock) in
            [("plain", None), ("locked", Some("4711\n")), ("empty-lock", Some("")), ("bytes", Some("\u{0}"))]
        {
            fs::create_dir(at(name)).expect("made");
            fs::write(at(name).join("precious"), "data").expect("written");
            if let Some(lock) = lock {
                fs::write(at(name).join(LOCK), lock).expect("written");
            }
            let before = list(&at(name)).expect("a folder");
            assert_eq!(refused(&at(name)), Unsuitable::Foreign, "{name}");
            assert_eq!(list(&at(name)).expect("a folder"), before, "{name}");
            assert_eq!(fs::read_to_string(at(name).join(LOCK)).ok().as_deref(), lock, "{name}");
        }
        fs::create_dir(at("newer")).expect("made");
        fs::write(at("newer").join(LOCK), "monohull-state-99\n").expect("written");
        assert_eq!(refused(&at("newer")), Unsuitable::Format("monohull-state-99".to_owned()));
        fs::write(at("file"), "data").expect("written");
        assert_eq!(refused(&at("file")), Unsuitable::NotAFolder);
    }

    #[test]
    fn links_and_folders_that_others_may_change_are_refused() {
        let root = TempDir::new().expect("a folder");
        let (folder, link) = (root.path().join("folder"), root.path().join("link"));
        fs::create_dir(&folder).expect("made");
        symlink(&folder, &link).expect("a link");
        assert_eq!(refused(&link), Unsuitable::Link);
        assert_eq!(refused(&link.join("")), Unsuitable::Link, "a slash behind it changes nothing");
        symlink(root.path().join("nowhere"), root.path().join("dangling")).expect("a link");
        assert_eq!(refused(&root.path().join("dangling")), Unsuitable::Link);
        for mode in [0o770, 0o707, 0o1777] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("changed");
            assert_eq!(refused(&folder), Unsuitable::Writable { mode });
        }
        assert_eq!(list(&folder).expect("a folder"), Vec::<PathBuf>::new(), "nothing is left in what is refused");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("changed");
        // The lock file is no link either: it would be locked, and marked, elsewhere.
        symlink(root.path().join("elsewhere"), folder.join(LOCK)).expect("a link");
        assert!(StateFolder::take(&folder).is_err());
        assert!(!root.path().join("elsewhere").exists());
        assert_eq!(check_rights(1, 0o700, 2), Err(Unsuitable::Owner { owner: 1, user: 2 }));
    }

    #[test]
    fn a_folder_that_is_removed_or_replaced_takes_no_changes() {
        let root = TempDir::new().expect("a folder");
        let (path, away) = (root.path().join("state"), root.path().join("away"));
        let folder = StateFolder::take(&path).expect("suitable");
        let lost = |folder: &StateFolder| match folder.change(|| Ok(())) {
            Ok(()) => None,
            Err(StateError::Lost { loss, .. }) => Some(loss.to_string()),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(lost(&folder), None);
        fs::rename(&path, &away).expect("moved");
        assert_eq!(lost(&folder).as_deref(), Some("has been removed"));
        let other = StateFolder::take(&path).expect("another server's");
        assert_eq!((lost(&folder).as_deref(), lost(&other)), (Some("has been replaced by another"), None));
        drop(other);
        fs::remove_dir_all(&path).expect("removed");
        fs::rename(&away, &path).expect("moved back");
        assert_eq!(lost(&folder), None);
        // A change during which the folder goes away does not count, whatever it says itself.
        let changed = folder.change(|| fs::rename(&path, &away).map_err(at(&path)));
        assert!(matches!(changed, Err(StateError::Lost { .. })), "{changed:?}");
        fs::rename(&away, &path).expect("moved back");
        fs::remove_file(path.join(LOCK)).expect("removed");
        assert_eq!(lost(&folder).as_deref(), Some("has lost its lock file"));
    }

    #[test]
    fn a_database_that_is_removed_or_replaced_takes_no_changes() {
        let root = TempDir::new().expect("a folder");
        let folder = StateFolder::take(&root.path().join("state")).expect("suitable");
        let [durable, away] = ["durable", "away"].map(|name| folder.path().join(name));
        let [database, log] = ["meta", "log"].map(|name| durable.join(name));
        let make = || {
            fs::create_dir(&durable).expect("made");
            fs::write(&database, "").and_then(|()| fs::write(&log, "")).expect("written");
        };
        make();
        folder.has_database([database.clone(), log.clone()]).expect("they are there");
        let lost = || folder.change(|| Ok(())).map_err(|error| error.to_string());
        let refused = |name: &str| {
            let error = lost().expect_err("they are others");
            assert!(error.contains(&format!("has lost its file durable/{name}, or has another one there")), "{error}");
        };
        assert_eq!(lost(), Ok(()));
        fs::rename(&durable, &away).expect("moved");
        refused("meta");
        make();
        refused("meta");
        fs::remove_dir_all(&durable).expect("removed");
        fs::rename(&away, &durable).expect("moved back");
        assert_eq!(lost(), Ok(()));
        fs::remove_file(&log).expect("removed");
        refused("log");
    }
}
