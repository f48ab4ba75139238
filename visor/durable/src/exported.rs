//! An invocation as one file, which another store takes: how it moves.
//!
//! ```text
//!   "monohull export\n"  version  key id  length  Header (postcard)  checkpoint  file …                    seal
//!                                                  its row, its mailbox           document, images, inputs  HMAC of all before it
//! ```
//!
//! The seal is that of checkpoints, by the key of the server or user: a file that was changed, cut off, or sealed by another is refused before anything in it is
//! read.
//!
//! One that leaves an encrypted folder is encrypted as a whole, with a key of its own that the folder's key file wraps:
//!
//! ```text
//!   "monohull secret\n"  length  wrapped key  encrypted: the file above
//! ```

use crate::Kept;
use monohull_checkpoint::{Key, KeyId};
use monohull_state_key::{KeyFile, Place};
use serde::{Deserialize, Serialize};

/// What a file begins with.
const MAGIC: &[u8; 16] = b"monohull export\n";
/// What one begins with that is encrypted.
const SECRET: &[u8; 16] = b"monohull secret\n";
/// The place of what is encrypted.
const PLACE: Place<'_> = Place { kind: "export", name: "invocation" };
/// The version of the format.
const VERSION: u32 = 1;
/// Bytes before the header.
const BEFORE: usize = MAGIC.len() + 4 + 8 + 8;
/// Bytes of a seal.
const SEAL: usize = 32;

/// An invocation that leaves a store, or comes into one. Times are in ns since 1970.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Exported {
    /// Its name.
    pub id: String,
    /// It is a server's.
    pub served: bool,
    /// The name of its workflow.
    pub workflow: String,
    /// When it was started.
    pub started: u64,
    /// What it was started with, in the starter's own encoding.
    pub start: Vec<u8>,
    /// What it goes on from. The name of its file is of no meaning elsewhere.
    pub kept: Kept,
    /// It waits in that checkpoint, so its timers go on. Otherwise they stand still.
    pub waits_in_it: bool,
    /// The event that is told of that checkpoint.
    pub told: Option<String>,
    /// Which copy it is, of how many, and how many checkpoints are kept.
    pub copy: (u32, u32, u32),
    /// Its mailbox, in order.
    pub mail: Vec<ExportedMail>,
    /// What it has printed, in the caller's own encoding.
    pub printed: Vec<Vec<u8>>,
}

/// An event in a mailbox, or the key of one that was taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExportedMail {
    /// Its name.
    pub name: String,
    /// Its content, unless it was taken.
    pub bytes: Option<Vec<u8>>,
    /// Its key, and the digest of its name and content.
    pub key: Option<(String, Vec<u8>)>,
}

/// Whether this begins as such a file does, encrypted or not.
pub fn is_export(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(SECRET)
}

/// The whole file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// The invocation.
    pub invocation: Exported,
    /// The file of its checkpoint: a whole one, sealed, and not encrypted.
    pub checkpoint: Vec<u8>,
    /// The files that its start names, in the caller's own order.
    pub files: Vec<Vec<u8>>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    invocation: Exported,
    checkpoint: u64,
    files: Vec<u64>,
}

/// A file is none that this key has sealed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExportError {
    /// It begins with something else.
    #[error("it is no exported invocation")]
    Foreign,
    /// Another version of the format.
    #[error("it has version {0} of the format; this Monohull knows version {VERSION}")]
    Version(u32),
    /// Another key.
    #[error(
        "it was exported by a server or user with another key, {found}; this one has {own}: both need the same `checkpoint.key`"
    )]
    Key {
        /// Its key.
        found: KeyId,
        /// This one.
        own: KeyId,
    },
    /// The seal is not that of its content.
    #[error("it is damaged: it is not as it was exported")]
    Damaged,
    /// It is encrypted, and there is no key.
    #[error("it is encrypted, and this state folder has no key: only one with the same `--state-key` takes it")]
    Encrypted,
    /// It is encrypted with another key, or damaged.
    #[error("it is encrypted with another key than that of this state folder, or it is damaged")]
    WrongKey,
    /// It is whole, and cannot be understood.
    #[error("it was exported by another version of Monohull")]
    Other,
    /// It has more than a file can have.
    #[error("it cannot be written: {0}")]
    Unwritable(String),
}

impl Export {
    /// The file, sealed.
    pub fn to_bytes(&self, key: &Key) -> Result<Vec<u8>, ExportError> {
        let length = |bytes: &Vec<u8>| bytes.len() as u64;
        let header = Header {
            invocation: self.invocation.clone(),
            checkpoint: length(&self.checkpoint),
            files: self.files.iter().map(length).collect(),
        };
        let header =
            postcard::to_extend(&header, Vec::new()).map_err(|error| ExportError::Unwritable(error.to_string()))?;
        let mut bytes = Vec::new();
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(key.id().0);
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header);
        for part in [&self.checkpoint].into_iter().chain(&self.files) {
            bytes.extend(part);
        }
        let seal = key.seal_export(&bytes);
        bytes.extend(seal);
        Ok(bytes)
    }

    /// A file for those who have the key file.
    pub fn encrypt(bytes: &[u8], file: &KeyFile) -> Result<Vec<u8>, ExportError> {
        let unwritable = |error: &dyn std::fmt::Display| ExportError::Unwritable(error.to_string());
        let (key, wrapped) = file.new_state_key().map_err(|error| unwritable(&error))?;
        let mut all = SECRET.to_vec();
        all.extend((wrapped.len() as u64).to_le_bytes());
        all.extend(wrapped);
        all.extend(key.encrypt(PLACE, bytes).map_err(|error| unwritable(&error))?);
        Ok(all)
    }

    /// The file that was encrypted; `None` if it was not.
    pub fn decrypt(bytes: &[u8], file: Option<&KeyFile>) -> Result<Option<Vec<u8>>, ExportError> {
        let Some(mut rest) = bytes.strip_prefix(SECRET) else { return Ok(None) };
        let file = file.ok_or(ExportError::Encrypted)?;
        let length = u64::from_le_bytes(take(&mut rest)?);
        let wrapped = part(&mut rest, length).map_err(|_| ExportError::WrongKey)?;
        let key = file.open(wrapped).map_err(|_| ExportError::WrongKey)?;
        key.decrypt(PLACE, rest).map(Some).map_err(|_| ExportError::WrongKey)
    }

    /// Reads a file that this key has sealed.
    pub fn parse(bytes: &[u8], key: &Key) -> Result<Export, ExportError> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(ExportError::Foreign)?;
        let version = u32::from_le_bytes(take(&mut rest)?);
        if version != VERSION {
            return Err(ExportError::Version(version));
        }
        let found = KeyId(take(&mut rest)?);
        if found != key.id() {
            return Err(ExportError::Key { found, own: key.id() });
        }
        let (content, seal) = bytes.split_last_chunk::<SEAL>().ok_or(ExportError::Damaged)?;
        if content.len() < BEFORE || !key.has_sealed_export(content, seal) {
            return Err(ExportError::Damaged);
        }
        let mut rest = &content[BEFORE - 8..];
        let header = u64::from_le_bytes(take(&mut rest)?);
        let header = postcard::from_bytes::<Header>(part(&mut rest, header)?).map_err(|_| ExportError::Other)?;
        let checkpoint = part(&mut rest, header.checkpoint)?.to_vec();
        let files = header.files.iter().map(|length| Ok(part(&mut rest, *length)?.to_vec()));
        let files = files.collect::<Result<_, ExportError>>()?;
        match rest {
            [] => Ok(Export { invocation: header.invocation, checkpoint, files }),
            _ => Err(ExportError::Other),
        }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], ExportError> {
    let (taken, behind) = rest.split_first_chunk::<N>().ok_or(ExportError::Damaged)?;
    *rest = behind;
    Ok(*taken)
}

fn part<'b>(rest: &mut &'b [u8], length: u64) -> Result<&'b [u8], ExportError> {
    let length = usize::try_from(length).map_err(|_| ExportError::Other)?;
    let (taken, behind) = rest.split_at_checked(length).ok_or(ExportError::Other)?;
    *rest = behind;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checkpoint;

    fn export() -> Export {
        let kept = Kept {
            generation: 7,
            rewound_to: None,
            at: 17,
            moved: -3,
            checkpoint: Checkpoint { file: "one.7.checkpoint".to_owned(), bytes: 4 },
            due: Some(99),
            waits: Vec::new(),
            published: [("count".to_owned(), "5".to_owned())].into(),
            label: None,
        };
        let mail = vec![
            ExportedMail { name: "a".to_owned(), bytes: Some(b"1".to_vec()), key: None },
            ExportedMail { name: "b".to_owned(), bytes: None, key: Some(("k".to_owned(), vec![1; 32])) },
        ];
        let invocation = Exported {
            id: "one".to_owned(),
            served: true,
            workflow: "w".to_owned(),
            started: 1,
            start: b"start".to_vec(),
            kept,
            waits_in_it: true,
            told: None,
            copy: (0, 0, 16),
            mail,
            printed: vec![b"line".to_vec()],
        };
        Export { invocation, checkpoint: b"page".to_vec(), files: vec![b"image".to_vec(), Vec::new()] }
    }

    #[test]
    fn what_was_exported_is_read_by_those_who_have_the_key() {
        let (key, other) = (Key::new([1; 32]), Key::new([2; 32]));
        let export = export();
        let bytes = export.to_bytes(&key).expect("written");
        assert_eq!(Export::parse(&bytes, &key), Ok(export));
        assert_eq!(Export::parse(&bytes, &other), Err(ExportError::Key { found: key.id(), own: other.id() }));
    }

    #[test]
    fn an_encrypted_one_is_read_by_those_who_have_the_key_file() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = |name: &str| {
            let path = folder.path().join(name);
            KeyFile::create(&path).and_then(|()| KeyFile::load(&path)).expect("a key")
        };
        let (own, other) = (file("own"), file("other"));
        let bytes = Export::encrypt(b"a secret", &own).expect("encrypted");
        assert!(!bytes.windows(8).any(|part| part == b"a secret"));
        assert_eq!(Export::decrypt(&bytes, Some(&own)), Ok(Some(b"a secret".to_vec())));
        assert_eq!(Export::decrypt(&bytes, Some(&other)), Err(ExportError::WrongKey));
        assert_eq!(Export::decrypt(&bytes, None), Err(ExportError::Encrypted));
        assert_eq!(Export::decrypt(b"monohull export\n", Some(&own)), Ok(None));
        for at in SECRET.len()..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Export::decrypt(&changed, Some(&own)).is_err(), "byte {at}");
        }
    }

    #[test]
    fn each_byte_that_is_changed_or_missing_is_noticed() {
        let key = Key::new([1; 32]);
        let bytes = export().to_bytes(&key).expect("written");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Export::parse(&changed, &key).is_err(), "byte {at}");
            assert!(Export::parse(&bytes[..at], &key).is_err(), "{at} bytes");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert_eq!(Export::parse(&longer, &key), Err(ExportError::Damaged));
    }
}
