//! A state folder: the database, and the files that its rows name.

mod backup;
mod chunks;
mod sync_files;

use crate::chunks::named_chunks;
use crate::clock::{Clock, WallClock};
use crate::meta::{Meta, MetaError};
use crate::owner::{Owner, is_alive};
use crate::{Sqlite, Unlock};
pub use backup::BackedUp;
use chunks::content;
use monohull_checkpoint::{NewFile, Replace};
use monohull_report::escape::shown;
use monohull_state_key::{Error as DecryptError, KeyFile, Place, StateKey};
use nix::sys::memfd::{MFdFlags, memfd_create};
use rustix::process::geteuid;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CHECKPOINTS: &str = "checkpoints";
const FILES: &str = "files";
const OWNERS: &str = "owners";
/// Held shared from before a file is added until a row names it, and alone while files are removed.
const LOCK: &str = "files.lock";
const DATABASE: &str = "meta.sqlite";
/// What an invocation was given or has made, as a kind of what is encrypted.
const DATA: &str = "data";

/// A state folder.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// It is a server's.
    served: bool,
    /// What encrypts the files and the values of rows.
    key: Option<Arc<StateKey>>,
}

/// While it lives no file is removed that no row names yet.
#[derive(Debug)]
#[must_use]
pub struct Adding {
    _locked: File,
}

/// The state folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file in it.
    #[error("{}: {source}", shown(path))]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The folder is not its user's alone.
    #[error("{} is not used as a state folder: {reason}", shown(path))]
    Shared {
        /// The folder.
        path: PathBuf,
        /// Which other user may change it.
        reason: String,
    },
    /// The folder has something else in it.
    #[error(
        "{} is not used as a state folder: it holds other files ({}); choose an empty folder, or one that does not exist yet",
        shown(path),
        shown(Path::new(other))
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// One of the files.
        other: OsString,
    },
    /// The database.
    #[error(transparent)]
    Meta(#[from] MetaError),
}

/// Refuses a folder that is not empty and that no process has made a state folder: files that no row names are removed from it. A database
/// without a byte is what damage has left of one: as a new one it would name none of the files.
fn check_content(folder: &Path) -> Result<(), StoreError> {
    let found = foreign(folder).map_err(at(folder))?;
    let Some(other) = found else { return Ok(()) };
    // Only now: another process may be making it at this moment.
    match fs::metadata(folder.join(DATABASE)) {
        Ok(database) if database.len() > 0 => Ok(()),
        Ok(_) => Err(MetaError::Check("it is empty, and there are files of invocations".into()).into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(StoreError::Foreign { path: folder.to_owned(), other })
        }
        Err(error) => Err(at(folder)(error)),
    }
}

/// Something in a folder that is not there when a state folder has been begun: its own folders are empty then.
fn foreign(folder: &Path) -> io::Result<Option<OsString>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let own = match name.to_str() {
            Some(CHECKPOINTS | FILES | OWNERS) => {
                entry.file_type()?.is_dir() && fs::read_dir(entry.path())?.next().is_none()
            }
            // A folder that is a file system of its own may have this.
            Some("lost+found") => true,
            Some(name) => name == LOCK || name.starts_with(DATABASE),
            None => false,
        };
        if !own {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

impl StoreError {
    /// What has kept one file from being copied to another. A disk that takes nothing is the copy's.
    pub fn of_copy(from: &Path, to: &Path, error: io::Error) -> StoreError {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let is_of_copy = matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | ReadOnlyFilesystem);
        at(if is_of_copy { to } else { from })(error)
    }
}

/// An error about this file.
fn at(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::File { path: path.to_owned(), source }
}

impl Store {
    /// Opens a state folder, or makes it: for its owner alone. One that is new is encrypted if there is a key; one that is there needs the key that
    /// it was made with, or none.
    pub fn open(folder: &Path, key: Option<&KeyFile>) -> Result<Store, StoreError> {
        Store::open_as(folder, false, key)
    }

    /// The same for a server. Command lines leave its folder alone, as they do not know what its invocations were started with.
    pub fn open_served(folder: &Path, key: Option<&KeyFile>) -> Result<Store, StoreError> {
        Store::open_as(folder, true, key)
    }

    fn open_as(folder: &Path, served: bool, key: Option<&KeyFile>) -> Result<Store, StoreError> {
        let folder = std::path::absolute(folder).map_err(at(folder))?;
        check_content(&folder)?;
        for name in ["", CHECKPOINTS, FILES, OWNERS] {
            let path = folder.join(name);
            DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(at(&path))?;
        }
        check_owner(&folder)?;
        let unlock = key.map_or(Unlock::Nothing, Unlock::File);
        let key = Sqlite::open(&folder.join(DATABASE), served, unlock)?.key().cloned();
        let store = Store { folder, served, key };
        // All files of the folder itself are there from the beginning.
        store.lock_file()?;
        Ok(store)
    }

    /// The same, if there is one.
    pub fn open_existing(folder: &Path, key: Option<&KeyFile>) -> Result<Store, StoreError> {
        let database = folder.join(DATABASE);
        match database.try_exists() {
            Ok(true) => Store::open(folder, key),
            Ok(false) => {
                let why = if folder.exists() { "it is no state folder" } else { "there is no such folder" };
                Err(at(folder)(io::Error::new(io::ErrorKind::NotFound, why)))
            }
            Err(error) => Err(at(&database)(error)),
        }
    }

    /// The key of the encrypted state folder that is there, whether it is a server's or not. `key` opens it.
    pub fn state_key(folder: &Path, key: &KeyFile) -> Result<Option<Arc<StateKey>>, StoreError> {
        let store = match Store::open_existing(folder, Some(key)) {
            Err(StoreError::Meta(MetaError::Other { served: true })) => Store::open_served(folder, Some(key)),
            other => other,
        };
        Ok(store?.key)
    }

    /// Its database. A process that forks must not have it open.
    pub fn meta(&self) -> Result<Sqlite, StoreError> {
        let unlock = self.key.as_ref().map_or(Unlock::Nothing, Unlock::Opened);
        Ok(Sqlite::open(&self.folder.join(DATABASE), self.served, unlock)?)
    }

    /// The files of the database that are there as long as it is open, and stay the same ones.
    pub fn files_of_database(&self) -> [PathBuf; 2] {
        let database = self.folder.join(DATABASE);
        let mut log = database.clone().into_os_string();
        log.push("-wal");
        [database, log.into()]
    }

    /// Lets the key of another file open the folder, and not that of the first one any more. Processes that have it open go on.
    pub fn change_key(&self, from: &KeyFile, to: &KeyFile) -> Result<(), StoreError> {
        Ok(self.meta()?.change_key(&self.folder, from, to)?)
    }

    /// What encrypts what is in the folder, if it has a key.
    pub fn key(&self) -> Option<&Arc<StateKey>> {
        self.key.as_ref()
    }

    /// This process as an owner of invocations.
    pub fn owner(&self) -> Result<Owner, StoreError> {
        let folder = self.folder.join(OWNERS);
        Owner::new(&folder).map_err(at(&folder))
    }

    /// Ends what owners have claimed that have died, so that it can be claimed again.
    pub fn expire_the_dead(&self, meta: &mut impl Meta) -> Result<(), StoreError> {
        let folder = self.folder.join(OWNERS);
        for owner in meta.owners()? {
            if !is_alive(&folder, &owner).map_err(at(&folder))? {
                meta.expire(&owner, WallClock.now())?;
            }
        }
        Ok(())
    }

    /// Begins to add files that a row will name.
    pub fn adding(&self) -> Result<Adding, StoreError> {
        let (path, file) = self.lock_file()?;
        file.lock_shared().map_err(at(&path))?;
        Ok(Adding { _locked: file })
    }

    fn lock_file(&self) -> Result<(PathBuf, File), StoreError> {
        let path = self.folder.join(LOCK);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(at(&path))?;
        Ok((path, file))
    }

    /// The folder of checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.folder.join(CHECKPOINTS)
    }

    /// Where the file with this content is, if it was added.
    pub fn file(&self, hash: &[u8; 32]) -> PathBuf {
        self.folder.join(FILES).join(name_of(hash))
    }

    /// Adds a file with the bytes that `from` has, and gives their SHA-256. One that is there is not added again, unless it was changed. It is code: it is not encrypted.
    pub fn add_file(&self, _adding: &Adding, from: &mut impl Read) -> Result<[u8; 32], StoreError> {
        let folder = self.folder.join(FILES);
        let new = NewFile::beside(&folder.join("new")).map_err(at(&folder))?;
        let hash = copy(from, &mut new.file()).map_err(at(&folder))?;
        self.publish(new, hash, |path| has_hash(&mut File::open(path)?, &hash))
    }

    /// Adds a file with what an invocation was given or has made, and gives its hash. It is encrypted if the folder has a key.
    pub fn add_data(&self, adding: &Adding, from: &mut impl Read) -> Result<[u8; 32], StoreError> {
        let Some(key) = &self.key else { return self.add_file(adding, from) };
        let folder = self.folder.join(FILES);
        let mut add = || {
            let new = NewFile::beside(&folder.join("new"))?;
            let mut to = key.encrypting(new.file())?;
            let hash = key.digest(DATA, &copy(from, &mut to)?)?;
            to.finish(Place { kind: DATA, name: &name_of(&hash) })?;
            Ok((new, hash))
        };
        let (new, hash) = add().map_err(at(&folder))?;
        self.publish(new, hash, |path| decrypt(key, &hash, path, &mut io::sink()))
    }

    /// What [`Store::add_data`] gives for contents with this SHA-256.
    pub fn hash_of_data(&self, sha256: [u8; 32]) -> Result<[u8; 32], StoreError> {
        match &self.key {
            None => Ok(sha256),
            Some(key) => key.digest(DATA, &sha256).map_err(at(&self.folder)),
        }
    }

    /// Publishes a file, unless there is one that is as it was. One that was changed, or cannot be read, is replaced.
    fn publish(
        &self,
        mut new: NewFile,
        hash: [u8; 32],
        check: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<[u8; 32], StoreError> {
        let path = self.file(&hash);
        new.set_name(path.file_name().unwrap_or_default());
        match check(&path) {
            Ok(()) => return Ok(hash),
            // Those that publish others are not waited for.
            Err(error) if error.kind() == io::ErrorKind::NotFound => match new.publish_first().map_err(at(&path))? {
                None => return Ok(hash),
                Some(_) if check(&path).is_ok() => return Ok(hash),
                Some(back) => new = back,
            },
            Err(_) => {}
        }
        new.publish(Replace::Yes).map_err(at(&path))?;
        Ok(hash)
    }

    /// Whether the file of code with this content is there and is as it was: all of it is read.
    pub fn check_code(&self, hash: &[u8; 32]) -> io::Result<()> {
        has_hash(&mut File::open(self.file(hash))?, hash)
    }

    /// The same of what [`Store::add_data`] has added.
    pub fn check_data(&self, hash: &[u8; 32]) -> io::Result<()> {
        match &self.key {
            None => self.check_code(hash),
            Some(key) => decrypt(key, hash, &self.file(hash), &mut io::sink()),
        }
    }

    /// What a file of code has. One that was changed is [`io::ErrorKind::InvalidData`].
    pub fn read_code(&self, hash: &[u8; 32]) -> io::Result<Vec<u8>> {
        let content = fs::read(self.file(hash))?;
        has_hash(&mut content.as_slice(), hash)?;
        Ok(content)
    }

    /// As [`Store::open_data`]. A file that was changed is [`io::ErrorKind::InvalidData`] also in a folder without a key: all of it is read.
    pub fn open_whole_data(&self, hash: &[u8; 32]) -> io::Result<File> {
        let mut file = self.open_data(hash)?;
        if self.key.is_none() {
            has_hash(&mut file, hash)?;
            file.rewind()?;
        }
        Ok(file)
    }

    /// The content of a file that [`Store::add_data`] has added. Where there is a key, one that was changed is [`io::ErrorKind::InvalidData`], and what is
    /// decrypted is a memory file.
    pub fn open_data(&self, hash: &[u8; 32]) -> io::Result<File> {
        let path = self.file(hash);
        let Some(key) = &self.key else { return File::open(path) };
        let mut plain = File::from(memfd_create(c"monohull-data", MFdFlags::MFD_CLOEXEC)?);
        decrypt(key, hash, &path, &mut plain)?;
        plain.rewind()?;
        Ok(plain)
    }

    /// Removes files that no row names; how many. None while another process adds some: the next time does.
    ///
    /// `named` gives the hashes of the files that a start names.
    pub fn sweep(&self, meta: &impl Meta, named: impl Fn(&[u8]) -> Vec<[u8; 32]>) -> Result<usize, StoreError> {
        Ok(self.try_sweep(meta, named)?.unwrap_or(0))
    }

    /// The same for one who tries again: `None` if nothing was looked at, because files are being added.
    pub fn try_sweep(
        &self,
        meta: &impl Meta,
        named: impl Fn(&[u8]) -> Vec<[u8; 32]>,
    ) -> Result<Option<usize>, StoreError> {
        self.sweep_files(&mut || named_chunks(meta, &named))
    }
}

/// Refuses a folder that others may change: what is in it decides which code runs, and where outputs are written.
fn check_owner(folder: &Path) -> Result<(), StoreError> {
    let metadata = fs::symlink_metadata(folder).map_err(at(folder))?;
    let (owner, user, mode) = (metadata.uid(), geteuid().as_raw(), metadata.mode() & 0o777);
    let reason = if !metadata.is_dir() {
        "it is no folder, or a symbolic link to one".to_owned()
    } else if owner != user {
        format!("it belongs to the user with the number {owner}, and this is {user}")
    } else if mode & 0o022 != 0 {
        format!("others may write to it (mode {mode:03o}): chmod go-w")
    } else {
        return Ok(());
    };
    Err(StoreError::Shared { path: folder.to_owned(), reason })
}

/// Decrypts a file of data.
fn decrypt(key: &StateKey, hash: &[u8; 32], path: &Path, to: &mut impl Write) -> io::Result<()> {
    let place = Place { kind: DATA, name: &name_of(hash) };
    match key.decrypt_file(place, &mut File::open(path)?, to) {
        Ok(()) => Ok(()),
        Err(DecryptError::Io(error)) => Err(error),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

/// What a file is called.
fn name_of(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Refuses what has another SHA-256.
fn has_hash(from: &mut impl Read, hash: &[u8; 32]) -> io::Result<()> {
    match copy(from, &mut io::sink())? == *hash {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "it was changed")),
    }
}

/// Copies all that `from` has; its SHA-256.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(hash.finalize().into()),
            Ok(len) => {
                hash.update(&piece[..len]);
                to.write_all(&piece[..len])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
