//! Durable invocations: workflows in a state folder, which outlive every process.
//!
//! `monohull run --state DIR` starts one and follows it to its end; `wake` goes on with those that are due, started by any
//! process; `send` sends them events; `ps`, `show`, `timeline` and `result` say what there is; `pause`, `cancel`, `kill`, `purge` and `resume --state` change it;
//! `fork`, `checkpoints` and `rewind` go on from it more than once; `export` and `import` move it. Without `--state` these ask a server (`remote`). The crate
//! `monohull-durable` keeps them. Here is what runs one from a claim to its next wait (`leg`), keeps it on the way (`kept`), and what is
//! shown.

pub(super) mod child_files;
pub(super) mod control;
pub(super) mod export;
mod family;
pub(super) mod fork;
mod kept;
pub(super) mod leg;
pub(super) mod ps;
pub(super) mod remote;
pub(super) mod result;
pub(super) mod send;
pub(super) mod show;
pub(super) mod start;
pub(super) mod started_with;
mod tables;
pub(super) mod timeline;
pub(super) mod wake;
mod words;

use super::client::{Client, ClientError, Server};
use super::exit::Exit;
use super::suspend::date;
use monohull_abi::event::{CANCEL_EVENT, CHILD_EVENT};
use monohull_durable::{
    Clock, InvalidMail, InvocationId, MAIL_BYTES_MAX, MAIL_MAX, MetaError, NoCheckpoint, Store, StoreError, Wait,
    WallClock,
};
use monohull_report::escape::shown;
use monohull_saved::FileError;
use monohull_state_key::{KeyFile, KeyFileError};
use std::io;
use std::path::{Path, PathBuf};

/// The state folder, of every verb that needs one.
#[derive(Debug, clap::Args)]
pub(super) struct State {
    /// The state folder, of `monohull run --state`
    #[arg(long = "state", value_name = "DIR")]
    folder: PathBuf,
    /// The file of the key that the state folder is encrypted with
    #[arg(long, value_name = "FILE")]
    state_key: Option<PathBuf>,
}

impl State {
    fn open(&self) -> Result<Store, Trouble> {
        open_existing(&self.folder, self.state_key.as_deref())
    }
}

/// Where invocations are, of every verb that works on a state folder and with a server.
#[derive(Debug, clap::Args)]
pub(super) struct Where {
    /// The state folder, of `monohull run --state`; without it a server is asked
    #[arg(long = "state", value_name = "DIR", conflicts_with_all = ["server", "token_file", "ca"])]
    folder: Option<PathBuf>,
    /// The file of the key that the state folder is encrypted with
    #[arg(long, value_name = "FILE", requires = "folder", conflicts_with_all = ["server", "token_file", "ca"])]
    state_key: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

/// What [`Where`] says.
enum Place {
    /// A state folder.
    Folder(Store),
    /// A server.
    Server(Client),
}

impl Where {
    /// What went wrong, with the place of it.
    fn at(&self, trouble: Trouble) -> Trouble {
        match &self.folder {
            Some(folder) => trouble.at(folder),
            None => trouble,
        }
    }

    fn open(&self) -> Result<Place, Trouble> {
        match &self.folder {
            Some(folder) => open_existing(folder, self.state_key.as_deref()).map(Place::Folder),
            None => Ok(Place::Server(Client::new(&self.server)?)),
        }
    }
}

/// Opens a state folder that is there. The key is in memory no longer than that takes.
pub(super) fn open_existing(folder: &Path, key: Option<&Path>) -> Result<Store, Trouble> {
    Ok(Store::open_existing(folder, key_file(key)?.as_ref())?)
}

/// The key in a file, if there is to be one.
pub(super) fn key_file(path: Option<&Path>) -> Result<Option<KeyFile>, Trouble> {
    Ok(path.map(KeyFile::load).transpose()?)
}

/// Why a verb cannot do what it should.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The state folder cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The same of its database, which does not say where it is.
    #[error("{trouble} ({}){}", shown(folder), if *full { "; once there is room the same command works" } else { "" })]
    Database {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        trouble: Box<Trouble>,
        /// Whether the disk is full.
        full: bool,
    },
    /// There is no key that could seal or check a checkpoint.
    #[error(transparent)]
    Key(#[from] super::checkpoint::Trouble),
    /// The file of the state folder's key cannot be used.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// There is no such invocation.
    #[error("there is no invocation `{0}` in the state folder")]
    Unknown(InvocationId),
    /// An id is another invocation's.
    #[error("`{0}` is another invocation's id: its workflow, inputs, outputs, images, children or settings differ")]
    Taken(InvocationId),
    /// What is imported is there.
    #[error(
        "there is an invocation `{0}` already, which was imported before or is another one; --id gives this one another id"
    )]
    There(InvocationId),
    /// An id is given to two copies.
    #[error("`{0}` is given twice, and each copy has an id of its own")]
    Twice(InvocationId),
    /// An invocation that has ended cannot be changed.
    #[error("invocation `{id}` has ended: it is {status}")]
    Ended {
        /// The invocation.
        id: InvocationId,
        /// What it is.
        status: &'static str,
    },
    /// Only one that has ended can be removed.
    #[error("invocation `{id}` is {status}: cancel it first")]
    Lives {
        /// The invocation.
        id: InvocationId,
        /// What it is.
        status: &'static str,
    },
    /// An event cannot be sent like that.
    #[error(transparent)]
    Mail(#[from] InvalidMail),
    /// The key of an event is another's.
    #[error("key `{key}` is that of another event that was sent to invocation `{id}`")]
    KeyTaken {
        /// The invocation.
        id: InvocationId,
        /// The key.
        key: String,
    },
    /// There is no room in a mailbox.
    #[error(
        "the mailbox of invocation `{0}` is full: at most {MAIL_MAX} events with {MAIL_BYTES_MAX} bytes in all wait for one that does \
         not take them"
    )]
    Full(InvocationId),
    /// There is nothing to copy or to go back to.
    #[error("invocation `{id}` is {status}: only one that is suspended, paused or has failed can be {what}")]
    NoBranches {
        /// The invocation.
        id: InvocationId,
        /// What it is.
        status: &'static str,
        /// What was to be done to it.
        what: &'static str,
    },
    /// It does not have this checkpoint.
    #[error("invocation `{id}` has {missing}")]
    NoCheckpoint {
        /// The invocation.
        id: InvocationId,
        /// The one that was asked for, and those that it has.
        missing: NoCheckpoint,
    },
    /// What a server has answered, or why none has.
    #[error(transparent)]
    Server(#[from] Box<ClientError>),
    /// A file is no invocation that can be imported.
    #[error("{} cannot be imported: {why}", shown(path))]
    NotImported {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// An invocation cannot leave the folder.
    #[error("invocation `{id}` cannot be exported: {why}")]
    NotExported {
        /// The invocation.
        id: InvocationId,
        /// Why.
        why: String,
    },
    /// A file cannot be written.
    #[error("{} cannot be written: {source}", shown(path))]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The verb does not fit the invocation.
    #[error("{0}")]
    Usage(String),
    /// A checkpoint cannot be gone on with.
    #[error(transparent)]
    File(#[from] Box<FileError>),
    /// A pipe of a start stays open for longer than the workflow may take.
    #[error("input slot `{slot}`: {} did not end in time", shown(path))]
    Late {
        /// The input slot.
        slot: String,
        /// The pipe.
        path: PathBuf,
    },
    /// A file of a start or an event cannot be read.
    #[error("{what} {} cannot be read: {source}", shown(path))]
    Unreadable {
        /// What it is.
        what: String,
        /// Where it should be.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        Trouble::Server(Box::new(error))
    }
}

impl From<MetaError> for Trouble {
    fn from(error: MetaError) -> Trouble {
        Trouble::Store(error.into())
    }
}

impl Trouble {
    fn unreadable(what: impl Into<String>, path: &Path) -> impl FnOnce(io::Error) -> Trouble {
        let (what, path) = (what.into(), path.to_owned());
        move |source| Trouble::Unreadable { what, path, source }
    }

    /// Reports it, with `json` also as a document, and gives the exit code.
    pub(super) fn report(&self, json: bool) -> Exit {
        if let Trouble::Server(error) = self {
            return error.report(json);
        }
        super::refuse(json, self.exit(), self.blame(), self)
    }

    /// The same with the folder, unless it says where that is.
    fn at(self, folder: &Path) -> Trouble {
        let full = match &self {
            Trouble::Store(StoreError::Meta(error @ (MetaError::Database { .. } | MetaError::Undone))) => {
                error.is_full()
            }
            _ => return self,
        };
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Trouble::Database { folder, trouble: Box::new(self), full }
    }

    /// Who is at fault.
    fn blame(&self) -> &'static str {
        match self.exit() {
            Exit::Host => "host",
            Exit::WorkflowFailed => "workflow",
            _ => "invocation",
        }
    }

    pub(super) fn exit(&self) -> Exit {
        match self {
            Trouble::Late { .. } => Exit::WorkflowFailed,
            Trouble::Key(trouble) => trouble.exit(),
            Trouble::Server(error) => error.exit(),
            Trouble::Database { trouble, .. } => trouble.exit(),
            Trouble::Unwritable { .. } => Exit::Host,
            Trouble::Store(StoreError::Meta(error)) if error.is_of_key() => Exit::Usage,
            Trouble::Store(_) => Exit::Host,
            Trouble::File(error) if error.is_hosts() => Exit::Host,
            _ => Exit::Usage,
        }
    }
}

/// The wall clock (ns since 1970).
fn now() -> u64 {
    WallClock.now()
}

/// When an invocation with these waits goes on, for people: with what it means if there is no time.
fn due(at: Option<u64>, waits: &[Wait]) -> String {
    when(at.map(date), waits.iter().filter_map(|wait| wait.event.as_deref()))
}

/// The same for one that goes on at this time, or with one of these events.
fn when<'e>(at: Option<String>, waits: impl Iterator<Item = &'e str>) -> String {
    let (mut events, mut children) = (Vec::new(), Vec::new());
    for event in waits {
        match event.strip_prefix(CHILD_EVENT) {
            Some(child) => children.push(child),
            // By hand, as for any.
            None if event == CANCEL_EVENT => {}
            None => events.push(event),
        }
    }
    let list = |what: &str, names: &[&str]| format!("{what} {}", shown(&names.join(", ")));
    match (at, events.is_empty(), children.is_empty()) {
        (Some(at), ..) => at,
        (None, true, true) => "by hand".to_owned(),
        (None, false, true) => list("with event", &events),
        (None, true, false) => list("with the end of child", &children),
        (None, false, false) => list("with event", &events) + &list(" or the end of child", &children),
    }
}
