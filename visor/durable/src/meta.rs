//! The transactions of the store: what each does, and what it refuses.
//!
//! A store of another kind implements [`Meta`] and what the crate's page names; `tests/conformance` compares it with a model.

use crate::mail::{Mail, NewMail, Sent};
use crate::outbox::Undelivered;
use crate::{Checkpoint, History, Invocation, InvocationId, Listed, Status, Wait};
use monohull_report::escape::shown;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

/// Claims of an invocation, one after another, that may end without a commit. Then it is paused: what kills its process each time
/// must not be run for ever.
pub const ATTEMPTS: u32 = 5;

/// An invocation to start.
#[derive(Clone, Debug)]
pub struct NewInvocation<'a> {
    /// Its name.
    pub id: &'a InvocationId,
    /// The name of its workflow.
    pub workflow: &'a str,
    /// What it is started with, in the starter's own encoding.
    pub start: &'a [u8],
    /// When it is due (ns since 1970).
    pub due: u64,
}

/// What came of a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Started {
    /// It is new.
    New,
    /// It was there, with the same workflow and the same start.
    Same(Status),
    /// The name is another's.
    Taken,
}

/// Which invocation is claimed.
#[derive(Clone, Copy, Debug)]
pub enum Want<'a> {
    /// The one that is due first.
    Due,
    /// This one, if it is due.
    Id(&'a InvocationId),
}

/// The right to run an invocation, until it is committed or its owner ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The invocation.
    pub id: InvocationId,
    /// Its epoch. A higher one makes this right void.
    pub epoch: u64,
}

/// An invocation that has been claimed, and what it goes on from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The right to it.
    pub held: Held,
    /// The name of its workflow.
    pub workflow: String,
    /// How often it has been suspended.
    pub generation: u64,
    /// Its checkpoint; without one it begins.
    pub checkpoint: Option<Checkpoint>,
    /// What it was started with.
    pub start: Vec<u8>,
    /// Which attempt it is since the last commit, from 1.
    pub attempt: u32,
    /// What it has published.
    pub published: BTreeMap<String, String>,
}

/// What came of a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Claimed {
    /// It is the claimer's.
    Yes(Box<Claim>),
    /// There is nothing to claim now.
    Nothing,
    /// It has been claimed too often without a commit, and is paused now.
    Paused(InvocationId),
}

/// How far an owner has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Commit {
    /// It waits.
    Suspended {
        /// What it goes on from.
        checkpoint: Checkpoint,
        /// The checkpoint that this one takes pages from, if there is one. It is kept as long as this one is.
        parent: Option<Checkpoint>,
        /// When it goes on by itself (ns since 1970).
        due: Option<u64>,
        /// What it waits for.
        waits: Vec<Wait>,
        /// The numbers of the events that are in the checkpoint now, and not in the mailbox any more.
        taken: Vec<u64>,
        /// What it has published.
        published: BTreeMap<String, String>,
    },
    /// It has a new checkpoint, and its owner goes on with it. If the owner dies it is as if it had been suspended with that.
    Checkpointed {
        /// What it goes on from if it must.
        checkpoint: Checkpoint,
        /// As of one that waits.
        parent: Option<Checkpoint>,
        /// When it would go on by itself (ns since 1970).
        due: Option<u64>,
        /// What it waited for.
        waits: Vec<Wait>,
        /// As of one that waits.
        taken: Vec<u64>,
        /// What it has published.
        published: BTreeMap<String, String>,
    },
    /// It has ended.
    Ended {
        /// Whether it has ended well.
        well: bool,
        /// Whether it has been told to end since the last commit. Then, if it has ended well, it was cancelled.
        cancelled: bool,
        /// Its report (JSON).
        report: Vec<u8>,
        /// What it has published, if that is known.
        published: Option<BTreeMap<String, String>>,
    },
    /// It could not be run, and may be later: it stays what it was before the claim.
    Released {
        /// When to try again (ns since 1970).
        due: u64,
        /// Why.
        reason: String,
    },
    /// It cannot be run until it is resumed by hand.
    Paused {
        /// Why.
        reason: String,
    },
}

/// What came of a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// Where the invocation is now.
    pub status: Status,
    /// When it goes on by itself, if it waits.
    pub due: Option<u64>,
    /// The checkpoints that no history names any more, and no checkpoint takes pages from.
    pub obsolete: Vec<Checkpoint>,
    /// Events for other invocations that were not sent.
    pub undelivered: Vec<Undelivered>,
}

/// What is done to an invocation by hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// It stays where it is.
    Pause,
    /// A paused one goes on when it is due, and has all its attempts again; one that was tried and has no checkpoint has all but that attempt.
    Resume,
    /// It ends. One that waits for [`CANCEL_EVENT`](monohull_abi::event::CANCEL_EVENT) is told, and ends by itself.
    Cancel,
    /// It ends, and no code of it runs any more.
    Stop,
}

/// What came of that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Controlled {
    /// It is that now, or was before.
    Now(Status),
    /// It runs, and becomes that at its next commit.
    AtNextCommit(Status),
    /// It is that, and has been told to end.
    Told(Status),
    /// It has ended before.
    Ended(Status),
    /// There is none of this name.
    Unknown,
}

/// The store cannot do a transaction. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// The database cannot be used.
    #[error("the database of the state folder: {source}")]
    Database {
        /// What that means for its user.
        trouble: Trouble,
        /// What the database says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// It lies where this user, or no user, may write.
    #[error("the database of the state folder cannot be written, {}: {source}", shown(path))]
    Unwritable {
        /// Its file, or the folder of that.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It has a version that this program does not know.
    #[error("the database of the state folder has version {found}; this Monohull knows version {known}")]
    Version {
        /// Its version.
        found: i64,
        /// The one that is known.
        known: i64,
    },
    /// It is a database of another program.
    #[error("the database of the state folder is another program's")]
    Foreign,
    /// It is that of a server, or, for a server, that of a command line.
    #[error("the state folder is {}", if *served { "a server's: its invocations are used over HTTP" } else { "that of `monohull run --state`, and no server's" })]
    Other {
        /// Whether it is a server's.
        served: bool,
    },
    /// It is encrypted, and there is no key.
    #[error("the state folder {} is encrypted: `--state-key FILE` names the file of its key", shown(folder))]
    KeyMissing {
        /// The folder.
        folder: PathBuf,
    },
    /// It is not encrypted, and there is a key.
    #[error(
        "the state folder {} is not encrypted, and stays so: use it without `--state-key`, or choose an empty folder",
        shown(folder)
    )]
    NotEncrypted {
        /// The folder.
        folder: PathBuf,
    },
    /// It is encrypted with another key.
    #[error(
        "{} is not the key of the state folder {}: `--state-key` names the file of its key",
        shown(file),
        shown(folder)
    )]
    WrongKey {
        /// The folder.
        folder: PathBuf,
        /// The file of the key.
        file: PathBuf,
    },
    /// There is no memory or no random number for a key.
    #[error("the key of the state folder cannot be made or kept: {0}")]
    Key(#[source] std::io::Error),
    /// A row has a value that no transaction writes.
    #[error("the database of the state folder is damaged: invocation `{id}` has a wrong {what}")]
    Damaged {
        /// The invocation.
        id: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The same of a schedule.
    #[error("the database of the state folder is damaged: a schedule has a wrong {what} (`{name}`)")]
    Schedule {
        /// The schedule.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
    /// SQLite has found that the file contradicts itself.
    #[error("the database of the state folder is damaged: {0}")]
    Check(String),
    /// The disk has failed at one of several transactions that were made at once.
    #[error(
        "the database of the state folder: the disk has failed at a transaction that was made together with this one"
    )]
    Undone,
    /// A commit of one that is not the owner any more.
    #[error(
        "invocation `{0}` has another owner now, or none: what this process has done since its claim does not count"
    )]
    Stale(InvocationId),
}

/// What it means that a database cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// What it has is damaged.
    Damage,
    /// The disk, or what this process may have of it, is full.
    Full,
    /// Something else.
    Other,
}

impl MetaError {
    /// Whether the file is no database any more, or has values that no transaction writes.
    pub fn is_damage(&self) -> bool {
        match self {
            MetaError::Database { trouble, .. } => *trouble == Trouble::Damage,
            MetaError::Damaged { .. } | MetaError::Schedule { .. } | MetaError::Check(_) => true,
            MetaError::Unwritable { .. }
            | MetaError::Foreign
            | MetaError::Version { .. }
            | MetaError::Other { .. }
            | MetaError::KeyMissing { .. }
            | MetaError::NotEncrypted { .. }
            | MetaError::WrongKey { .. }
            | MetaError::Key(_)
            | MetaError::Undone
            | MetaError::Stale(_) => false,
        }
    }

    /// Whether another key is needed, or none.
    pub fn is_of_key(&self) -> bool {
        matches!(self, MetaError::KeyMissing { .. } | MetaError::NotEncrypted { .. } | MetaError::WrongKey { .. })
    }

    /// Whether the disk, or what this process may have of it, is full.
    pub fn is_full(&self) -> bool {
        matches!(self, MetaError::Database { trouble: Trouble::Full, .. })
    }
}

/// The transactions. Times are in ns since 1970. Each is done whole, durably, or not at all.
pub trait Meta: History {
    /// Adds an invocation. The same again is no error, so that a caller who got no answer may repeat it.
    fn start(&mut self, new: &NewInvocation<'_>, now: u64) -> Result<Started, MetaError>;

    /// Makes `owner` the one that runs an invocation which is due, and that no other runs.
    fn claim(&mut self, owner: &str, want: Want<'_>, now: u64) -> Result<Claimed, MetaError>;

    /// Takes a claimed invocation to its next state. Refused with [`MetaError::Stale`] if it is not the holder's any more.
    ///
    /// If it was paused or cancelled while it ran, it becomes that instead of suspended or released, and with its next checkpoint instead of
    /// running; an end stays an end.
    fn commit(&mut self, held: &Held, commit: &Commit, now: u64) -> Result<Committed, MetaError>;

    /// The owners of running invocations, in order.
    fn owners(&self) -> Result<Vec<String>, MetaError>;

    /// Ends what an owner that has died has claimed: its invocations can be claimed again at once.
    fn expire(&mut self, owner: &str, now: u64) -> Result<(), MetaError>;

    /// Pauses, resumes, cancels or stops an invocation.
    fn control(&mut self, id: &InvocationId, control: Control, now: u64) -> Result<Controlled, MetaError>;

    /// Removes an invocation that has ended, or whose row is damaged; whether there was one. Children of the latter are cancelled, and its parent is told that it was.
    fn purge(&mut self, id: &InvocationId, now: u64) -> Result<bool, MetaError>;

    /// Sends an event to an invocation, which is due if it waits for it. One that has ended has no events.
    fn send(&mut self, id: &InvocationId, mail: &NewMail<'_>, now: u64) -> Result<Sent, MetaError>;

    /// The events with numbers above `after` that wait for a claimed invocation, in order. Refused with [`MetaError::Stale`] if it is not the holder's any more.
    fn mail(&self, held: &Held, after: u64) -> Result<Vec<Mail>, MetaError>;

    /// How many events wait for an invocation.
    fn mail_count(&self, id: &InvocationId) -> Result<u64, MetaError>;

    /// The hashes of files that are outputs of invocations. Only a server's store has some.
    fn output_files(&self) -> Result<Vec<[u8; 32]>, MetaError> {
        Ok(Vec::new())
    }

    /// When the first invocation that no process runs is due.
    fn next_due(&self) -> Result<Option<u64>, MetaError>;

    /// An invocation.
    fn get(&self, id: &InvocationId) -> Result<Option<Invocation>, MetaError>;

    /// At most `limit` invocations behind the name `after`, by name: all of these statuses, or of each if there are none.
    fn list(&self, statuses: &[Status], after: &str, limit: usize) -> Result<Vec<Listed>, MetaError>;
}
