//! Files that are there as a whole or not at all, and that are what was written.
//!
//! A file comes into being under another name, is synced, takes its name, and then the folder is synced: whenever the
//! machine or the server stops, it is either the old one or the new one, and one that has been acknowledged is there.
//!
//! ```text
//! NAME.part ─ write, sync ─▶ rename ─▶ NAME ─ sync the folder ─▶ acknowledged      MAGIC SHA-256 of what follows ⏎
//!                                                                                  what follows
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::ids::hex;
use crate::store::error::{StateError, at};

/// What files are called until they are whole.
pub(crate) const PART: &str = ".part";
/// Why something that was kept cannot be had.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The host could not give it: it may be as it should.
    Host(StateError),
    /// It is not as it should be.
    Corrupt(String),
}

impl ReadError {
    /// A file of the state could not be read. One that is not there, or is none, will not come back by itself.
    pub(crate) fn reading(path: &Path, error: io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => ReadError::Corrupt(error.to_string()),
            _ => ReadError::Host(at(path)(error)),
        }
    }

    pub(crate) fn corrupt(reason: impl ToString) -> ReadError {
        ReadError::Corrupt(reason.to_string())
    }
}

/// Something that is damaged.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CorruptFile {
    /// The file, as it was called.
    #[serde(serialize_with = "shown")]
    pub(crate) path: PathBuf,
    /// Why it cannot be used.
    pub(crate) reason: String,
}

/// Any name can be shown, also one that is no text.
fn shown<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&monohull_report::escape::shown(path))
}

/// The files of a folder, by name.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, StateError> {
    let entries =
        fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>()).map_err(at(folder))?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// What a file is called in its folder.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A file's bytes. What is no file, or leads to one elsewhere, was not put there by us.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    let kind = fs::symlink_metadata(path).map_err(|error| ReadError::reading(path, error))?.file_type();
    if !kind.is_file() {
        return Err(ReadError::corrupt("it is no regular file"));
    }
    fs::read(path).map_err(|error| ReadError::reading(path, error))
}

/// Removes what is of no use at the start. What stays is there at the next one as well, and does no harm.
pub(crate) fn sweep(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(path = %monohull_report::escape::shown(&path), %error, "cannot be removed");
    }
}

/// Puts a file in its place so that it is there as a whole or not at all, and stays once this has returned.
pub(crate) fn put(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), StateError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(PART);
    let part = path.with_file_name(name);
    let written = File::create(&part).and_then(|mut file| {
        write(&mut file)?;
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&part, path)) {
        let _ = fs::remove_file(&part);
        return Err(at(path)(error));
    }
    sync(path.parent().unwrap_or(Path::new("/"))).map_err(at(path))
}

/// The same with a first line by which [`read_marked`] knows that the rest is what was written. `content` is asked twice.
pub(crate) fn put_marked(
    path: &Path,
    magic: &str,
    content: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<(), StateError> {
    let mut hash = Sha256::new();
    content(&mut hash).map_err(at(path))?;
    let head = head(magic, hash);
    put(path, |file| {
        file.write_all(head.as_bytes())?;
        content(file)
    })
}

/// What [`put_marked`] has written, if it still is that.
pub(crate) fn read_marked(path: &Path, magic: &str) -> Result<Vec<u8>, ReadError> {
    let mut bytes = read(path)?;
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(|| ReadError::corrupt("it has no first line"))?;
    let content = bytes.split_off(end + 1);
    if bytes == head(magic, Sha256::new_with_prefix(&content)).as_bytes() {
        Ok(content)
    } else {
        Err(ReadError::corrupt("its bytes have changed"))
    }
}

fn head(magic: &str, hash: Sha256) -> String {
    format!("{magic} {}\n", hex(&hash.finalize()))
}

/// Removes a file, if it is there. It may come back if the machine stops; [`sync`] its folder against that.
pub(crate) fn remove(path: &Path) -> Result<(), StateError> {
    fs::remove_file(path)
        .or_else(|error| match error.kind() {
            // An earlier attempt got this far.
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
        .map_err(at(path))
}

/// Makes sure that the names in a folder stay.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
