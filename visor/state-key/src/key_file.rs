//! The file with the key that opens a state folder.

use crate::cipher::KEY_BYTES;
use crate::state_key::{DataKey, StateKey, StateKeyError};
use monohull_report::escape::shown;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The most bytes of a file that is read: digits, and the end of a line.
const FILE_MAX: usize = 2 * KEY_BYTES + 2;

/// A key that was read from its file.
pub struct KeyFile {
    path: PathBuf,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

/// A key file cannot be used, or not be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum KeyFileError {
    #[error("the key file {} cannot be read: {source}", shown(path))]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the key file {} cannot be made: {source}", shown(path))]
    Unwritable { path: PathBuf, source: io::Error },
    #[error(
        "the key file {} is not used: others than its owner may read or write it (mode {mode:03o}); `chmod 600` changes that",
        shown(path)
    )]
    Open { path: PathBuf, mode: u32 },
    #[error("the key file {} is not used: it belongs to another user ({owner})", shown(path))]
    Foreign { path: PathBuf, owner: u32 },
    #[error(
        "{} is no key file: it should have {KEY_BYTES} bytes, or {} hexadecimal digits; `monohull key new FILE` makes one",
        shown(path),
        2 * KEY_BYTES
    )]
    NoKey { path: PathBuf },
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl KeyFile {
    /// Makes a file with a new key, for its owner alone. One that is there stays, and is an error.
    pub fn create(path: &Path) -> Result<(), KeyFileError> {
        let unwritable = |source| KeyFileError::Unwritable { path: path.to_owned(), source };
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *bytes).map_err(|error| unwritable(error.into()))?;
        let mut digits = Zeroizing::new(Vec::with_capacity(FILE_MAX));
        for byte in *bytes {
            digits.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
        }
        digits.push(b'\n');
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(unwritable)?;
        file.write_all(&digits).and_then(|()| file.sync_all()).map_err(unwritable)?;
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(unwritable)
    }

    /// Reads a key. A link is followed; what counts is the file that it leads to.
    pub fn load(path: &Path) -> Result<KeyFile, KeyFileError> {
        let path = path.to_owned();
        let mut content = Zeroizing::new(Vec::with_capacity(FILE_MAX + 1));
        let mut read = || -> io::Result<(bool, u32, u32)> {
            // A pipe must not make the program wait.
            let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(&path)?;
            let metadata = file.metadata()?;
            if metadata.is_file() {
                file.take(FILE_MAX as u64 + 1).read_to_end(&mut content)?;
            }
            Ok((metadata.is_file(), metadata.uid(), metadata.mode() & 0o777))
        };
        let (is_file, owner, mode) = match read() {
            Ok(found) => found,
            Err(source) => return Err(KeyFileError::Unreadable { path, source }),
        };
        if !is_file {
            return Err(KeyFileError::NoKey { path });
        }
        if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
            return Err(KeyFileError::Foreign { path, owner });
        }
        if mode & 0o077 != 0 {
            return Err(KeyFileError::Open { path, mode });
        }
        match parse(&content) {
            Some(bytes) => Ok(KeyFile { path, bytes }),
            None => Err(KeyFileError::NoKey { path }),
        }
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A key for a new state folder, and what is to be kept there of it.
    pub fn new_state_key(&self) -> Result<(StateKey, Vec<u8>), StateKeyError> {
        let data = DataKey::random()?;
        Ok((data.open()?, data.wrap(&self.bytes)?))
    }

    /// The key of a state folder, of what is kept there of it.
    pub fn open(&self, wrapped: &[u8]) -> Result<StateKey, StateKeyError> {
        DataKey::unwrap(&self.bytes, wrapped)?.open()
    }

    /// What is to be kept in a state folder that this key opens so that `other` opens it.
    pub fn hand_over(&self, other: &KeyFile, wrapped: &[u8]) -> Result<Vec<u8>, StateKeyError> {
        DataKey::unwrap(&self.bytes, wrapped)?.wrap(&other.bytes)
    }
}

fn parse(content: &[u8]) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    if let Ok(bytes) = content.try_into() {
        return Some(Zeroizing::new(bytes));
    }
    let digits = content.strip_suffix(b"\n").unwrap_or(content);
    let digits = digits.strip_suffix(b"\r").unwrap_or(digits);
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_new_key_is_its_owners_alone_and_replaces_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.key");
        KeyFile::create(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);
        let digits = fs::read_to_string(&path).expect("text");
        assert!(matches!(KeyFile::create(&path), Err(KeyFileError::Unwritable { .. })));
        assert_eq!(fs::read_to_string(&path).expect("text"), digits);
        let other = folder.path().join("other.key");
        KeyFile::create(&other).expect("made");
        assert_ne!(fs::read_to_string(&other).expect("text"), digits);
    }

    #[test]
    fn bytes_and_digits_are_the_same_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.key");
        let bytes: Vec<u8> = (100..132).collect();
        let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        let mut wrapped = Vec::new();
        for content in [bytes.clone(), digits.clone().into_bytes(), format!("{digits}\r\n").to_lowercase().into_bytes()]
        {
            fs::write(&path, &content).expect("written");
            fs::set_permissions(&path, Permissions::from_mode(0o400)).expect("changed");
            let key = KeyFile::load(&path).expect("a key");
            assert_eq!(*key.bytes, bytes[..]);
            if wrapped.is_empty() {
                wrapped = key.new_state_key().expect("made").1;
            }
            key.open(&wrapped).expect("the same key");
            fs::remove_file(&path).expect("removed");
        }
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.key");
        KeyFile::create(&path).expect("made");
        for open in [0o640, 0o604, 0o620, 0o602, 0o610] {
            fs::set_permissions(&path, Permissions::from_mode(open)).expect("changed");
            let error = KeyFile::load(&path).expect_err("it is open");
            assert!(matches!(error, KeyFileError::Open { mode, .. } if mode == open), "{error}");
            assert!(error.to_string().contains("`chmod 600`"), "{error}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("changed");
        let link = folder.path().join("link");
        symlink(&path, &link).expect("a link");
        KeyFile::load(&link).expect("what it leads to is a key");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.key");
        for content in ["", "x", &"x".repeat(31), &"0".repeat(63), &"g".repeat(64), &"0".repeat(65), &"0".repeat(1000)]
        {
            fs::write(&path, content).expect("written");
            fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("changed");
            assert!(matches!(KeyFile::load(&path), Err(KeyFileError::NoKey { .. })), "{content}");
        }
        assert!(matches!(KeyFile::load(&folder.path().join("none")), Err(KeyFileError::Unreadable { .. })));
        assert!(matches!(KeyFile::load(folder.path()), Err(KeyFileError::NoKey { .. })));
    }
}
