//! Errors of the state folder.

use std::io;
use std::path::{Path, PathBuf};

use monohull_domain::image::map::LoadError;

/// The state folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum StateError {
    #[error("another server uses the state folder {0}")]
    Taken(PathBuf),
    /// This folder is not taken for the state.
    #[error("{path} is not taken as the state folder: {why}")]
    Unsuitable {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        why: Unsuitable,
    },
    /// The folder is not what it was when the server started.
    #[error(
        "the state folder {path} {loss}; the server goes on once what it opened is there again, and takes another one when it is started anew"
    )]
    Lost {
        /// Where it was.
        path: PathBuf,
        /// What has become of it.
        loss: Loss,
    },
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

impl StateError {
    /// Whether the disk takes nothing now, and may later.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, StateError::Io { source, .. } if takes_nothing(source))
    }
}

/// Whether the disk takes nothing now and may later: it, or what this server may have of it, is full, or it has become read-only.
pub(crate) fn takes_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | ReadOnlyFilesystem)
}

/// Why a folder is not taken for the state. The operator is at fault, and can do as the message says.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    /// The path ends in a symbolic link.
    #[error("it is a symbolic link; name the folder that it leads to")]
    Link,
    /// There is something else at the path.
    #[error("it is not a folder")]
    NotAFolder,
    /// Another user owns it.
    #[error(
        "it belongs to the user with the number {owner}, and the server runs as {user}; choose a folder of that user's own"
    )]
    Owner {
        /// The folder's.
        owner: u32,
        /// The server's.
        user: u32,
    },
    /// Users besides its owner may change it.
    #[error(
        "other users may write to it (its mode is {mode:o}); choose another folder, or run `chmod go-w` on this one"
    )]
    Writable {
        /// Permission bits.
        mode: u32,
    },
    /// It is in use for something else.
    #[error(
        "it holds other files, and no server has made it its state folder; choose an empty folder, or one that does not exist yet"
    )]
    Foreign,
    /// The format is not this version's.
    #[error("its format is `{0}`, which this version of Monohull does not know")]
    Format(String),
}

/// What has become of a state folder while its server runs.
#[derive(Debug, thiserror::Error)]
pub enum Loss {
    /// There is nothing at its path.
    #[error("has been removed")]
    Removed,
    /// Another file or folder is at its path.
    #[error("has been replaced by another")]
    Replaced,
    /// The lock file is not at its path.
    #[error("has lost its lock file")]
    Unlocked,
    /// A file of the database is not at its path, or another one is.
    #[error("has lost its file {0}, or has another one there")]
    Database(PathBuf),
    /// The host could not say.
    #[error("cannot be reached: {0}")]
    Unknown(io::Error),
}

/// Says which file an error is about.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> StateError + use<> {
    let path = path.to_owned();
    move |source| StateError::Io { path, source }
}
