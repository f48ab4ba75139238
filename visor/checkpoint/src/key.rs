//! The key that seals checkpoints, and the file that it is kept in.
//!
//! A file that a key has sealed is as it was when the owner of the key sealed it. The key is no secret of one checkpoint but of a
//! server, or of a user: who can read it can make checkpoints that are trusted. So it is random, its file is the owner's
//! alone, and a file that others may read or write is refused.

use crate::new_file::{NewFile, Replace};
use hmac::{Hmac, Mac};
use rustix::fs::OFlags;
use rustix::process::geteuid;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Seals checkpoints.
#[derive(Clone)]
pub struct Key([u8; KEY_BYTES]);

/// Distinguishes keys, without their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(pub [u8; 8]);

impl KeyId {
    /// No key.
    pub const NONE: KeyId = KeyId([0; 8]);
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

/// A file with a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum KeyError {
    #[error("the key cannot be read or made: {0}")]
    Io(#[from] io::Error),
    #[error("the key is not used: others than its owner may read or write it (mode {0:03o}); `chmod 600` changes that")]
    Open(u32),
    #[error("the key is not used: it belongs to another user ({0})")]
    Foreign(u32),
    #[error("it is no key: a key is a regular file of {KEY_BYTES} bytes")]
    NoKey,
}

impl Key {
    /// A key with these bytes.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Key {
        Key(bytes)
    }

    /// Reads a key.
    pub fn load(path: &Path) -> Result<Key, KeyError> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
        let metadata = file.metadata()?;
        let others = metadata.mode() & 0o077;
        if !metadata.is_file() || metadata.len() != KEY_BYTES as u64 {
            return Err(KeyError::NoKey);
        }
        if metadata.uid() != geteuid().as_raw() {
            return Err(KeyError::Foreign(metadata.uid()));
        }
        if others != 0 {
            return Err(KeyError::Open(metadata.mode() & 0o777));
        }
        let mut bytes = [0; KEY_BYTES];
        file.read_exact(&mut bytes)?;
        Ok(Key(bytes))
    }

    /// Reads a key; makes one if there is none. Processes that do so at the same time get the same key.
    pub fn load_or_create(path: &Path) -> Result<Key, KeyError> {
        match Key::load(path) {
            Err(KeyError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::from)?;
        let new = NewFile::beside(path)?;
        let mut file: &File = new.file();
        file.write_all(&bytes)?;
        match new.publish(Replace::No) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
        Key::load(path)
    }

    /// Its number.
    pub fn id(&self) -> KeyId {
        let hash = Sha256::new().chain_update(b"monohull checkpoint key").chain_update(self.0).finalize();
        KeyId(crate::section::part(&hash, 0))
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!("any length will do"));
        mac.update(b"monohull checkpoint");
        parts.iter().for_each(|part| mac.update(part));
        mac
    }

    /// The seal of an entry of a cache: of its content, and of what it was made from.
    pub fn seal_entry(&self, made_from: &[u8; 32], content: &[u8]) -> [u8; 32] {
        self.entry_mac(made_from, content).finalize().into_bytes().into()
    }

    /// Whether this is the seal of that entry; takes the same time either way.
    pub fn has_sealed_entry(&self, made_from: &[u8; 32], content: &[u8], seal: &[u8; 32]) -> bool {
        self.entry_mac(made_from, content).verify_slice(seal).is_ok()
    }

    /// The seal of an invocation that was exported.
    pub fn seal_export(&self, content: &[u8]) -> [u8; 32] {
        self.export_mac(content).finalize().into_bytes().into()
    }

    /// Whether this is its seal; takes the same time either way.
    pub fn has_sealed_export(&self, content: &[u8], seal: &[u8; 32]) -> bool {
        self.export_mac(content).verify_slice(seal).is_ok()
    }

    /// As with entries of a cache.
    fn export_mac(&self, content: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!("any length will do"));
        mac.update(b"monohull exported invocation");
        mac.update(content);
        mac
    }

    /// Begins with other words than the seal of a checkpoint, so that neither can stand for the other.
    fn entry_mac(&self, made_from: &[u8; 32], content: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!("any length will do"));
        [b"monohull cache entry".as_slice(), made_from, content].iter().for_each(|part| mac.update(part));
        mac
    }

    /// The seal of these bytes.
    pub(crate) fn seal(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether this is the seal of these bytes; takes the same time either way.
    pub(crate) fn has_sealed(&self, parts: &[&[u8]], seal: &[u8; 32]) -> bool {
        self.mac(parts).verify_slice(seal).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_key_is_made_once_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let key = Key::load_or_create(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);
        assert_eq!(Key::load_or_create(&path).expect("read").id(), key.id());
        assert_eq!(Key::load(&path).expect("read").0, key.0);
        let other = Key::load_or_create(&folder.path().join("other")).expect("made");
        assert_ne!(other.id(), key.id());
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 2, "nothing else is left there");
    }

    #[test]
    fn many_that_make_a_key_at_once_get_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let make = || Key::load_or_create(&path).expect("made or read").id();
        let ids: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        Key::load_or_create(&path).expect("made");
        for mode in [0o640, 0o604, 0o620, 0o602, 0o610] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("changed");
            assert!(matches!(Key::load_or_create(&path), Err(KeyError::Open(found)) if found == mode));
        }
    }

    #[test]
    fn what_is_no_key_is_refused_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        for length in [0, 31, 33] {
            fs::write(&path, vec![1; length]).expect("written");
            fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("changed");
            assert!(matches!(Key::load_or_create(&path), Err(KeyError::NoKey)));
            assert_eq!(fs::read(&path).expect("it is there").len(), length);
        }
        let link = folder.path().join("link");
        symlink(&path, &link).expect("a link");
        assert!(matches!(Key::load_or_create(&link), Err(KeyError::Io(_))), "links are not followed");
        assert!(matches!(Key::load_or_create(folder.path()), Err(KeyError::NoKey)));
    }
}
