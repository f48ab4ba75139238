//! The store of durable invocations.
//!
//! An *invocation* is one run of a workflow. A durable one is in a *state folder*, and outlives every process: while it
//! waits it is a checkpoint and a row in a database. A process that finds it due goes on with it, and commits its new state.
//!
//! ```text
//!              claim              commit: it waits
//!   pending ─────────▶ running ───────────────────▶ suspended ──┐
//!                      ▲  │ │                                   │ claim, when it is due
//!                      └──┼─┼───────────────────────────────────┘
//!     the owner has died  │ │ commit: it has ended            (commit: a checkpoint, and it goes on: stays running)
//!     (claim by another)  │ └─────────────▶ completed | failed
//!                         └─▶ paused: by hand, or after too many attempts;    cancelled: by hand
//! ```
//!
//! The state folder:
//!
//! ```text
//!   meta.sqlite         rows of invocations, of their checkpoints and events; what counts
//!   checkpoints/        ID.EPOCH….checkpoint, sealed files of monohull-checkpoint
//!   files/              images of functions, and inputs and outputs, by their SHA-256
//!   owners/             one locked file for each process that runs invocations
//!   files.lock          whether files are being added
//! ```
//!
//! With a key checkpoints, inputs, outputs and values of rows are encrypted (`monohull-state-key`), and the last two kinds of files are called by a hash
//! that is made with the key. Names, times, states, lengths and images are not.
//!
//! **One transaction** takes an invocation from one state to the next. Files are complete and on the disk before the
//! transaction that names them; those that no row names are removed ([`Store::sweep`]). So a process that is killed at any
//! moment leaves an invocation as it was at its last commit.
//!
//! **One owner.** A claim raises the *epoch* of an invocation. A commit with an older epoch is refused: two processes may
//! take an invocation for theirs, but only one of them commits. An owner is alive as long as it has the lock on its file
//! in `owners/`, which the kernel takes back when the process ends, however it ends.
//!
//! | module | |
//! | --- | --- |
//! | [`Meta`] | the transactions: what each does, and what it refuses |
//! | [`Mail`] | events from outside, kept until an invocation takes them |
//! | [`Outbox`] | events that an invocation sends to others, with its commit |
//! | [`Children`], [`Outcome`] | invocations that others have started, and how their ends are told |
//! | [`History`] | the transactions on earlier checkpoints: fork and rewind |
//! | [`Entry`] | what has happened to an invocation, across its suspensions |
//! | [`BackedUp`] | a copy of a state folder that is made while others use it |
//! | [`Export`] | an invocation as one file, which another store takes |
//! | [`Schedules`] | workflows that are started at times of a cron expression |
//! | [`Served`] | what a server needs besides: results for later, lists by time, and bounds |
//! | [`Versions`] | versions of workflows, and how an invocation comes to another one |
//! | [`Sqlite`] | the same in a SQLite file |
//! | [`Store`] | a state folder: the database, and the files that its rows name |
//!
//! **Another store**, for example in PostgreSQL, implements [`Meta`], [`History`], [`Children`], [`Served`], [`Schedules`] and [`Versions`]. Each method that
//! changes something is one transaction: durable when it returns, done whole or not at all, and as if it were alone (`SERIALIZABLE`, or a lock on the
//! rows that it reads). None of them reads a clock, supposes that its caller is the only one, or keeps something for the next call. `tests/conformance`
//! compares a store with a model in memory step by step, and has engines use it that are killed between any two transactions.

#![forbid(unsafe_code)]

mod children;
mod chunks;
mod clock;
mod exported;
mod hints;
mod history;
mod id;
mod invocation;
mod mail;
mod meta;
mod outbox;
mod owner;
mod schedule;
mod served;
mod sqlite;
mod store;
mod timeline;
mod value;
mod versions;

pub use children::{Child, Children, Family, Lost, OUTCOMES_MAX, Outcome};
pub use chunks::{Chunk, ChunkError, ChunkKind, Chunks, named_chunks};
pub use clock::{Clock, LAST_TIME, NoTime, SetClock, WallClock, nap, time_of};
pub use exported::{Export, ExportError, Exported, ExportedMail, is_export};
pub use hints::{Hints, NoHints, Poked};
pub use history::{
    Branched, Copied, Fork, Forks, History, KEEP, KEEP_MAX, Kept, Lineage, NoCheckpoint, Once, Point, REQUESTS_KEPT,
    Request, free_numbers, has_branches,
};
pub use id::{InvalidId, InvocationId};
pub use invocation::{Checkpoint, DamagedRow, Invocation, Listed, Status, Wait};
pub use mail::{InvalidMail, KEYS_KEPT, MAIL_BYTES_MAX, MAIL_MAX, Mail, NewMail, Sent};
pub use meta::{
    ATTEMPTS, Claim, Claimed, Commit, Committed, Control, Controlled, Held, Meta, MetaError, NewInvocation, Started,
    Trouble, Want,
};
pub use outbox::{ANY_WORKFLOW, Outbox, Undelivered, WhyUndelivered};
pub use owner::Owner;
pub use schedule::{
    DamagedSchedule, Defined, Definition, Fired, GRACE_NS, InvalidSchedule, Missed, Schedule, ScheduleName, Schedules,
    Step, Times,
};
pub use served::{Bounds, Filter, Left, Output, OutputAt, PRINTED_MAX, Served, Tally};
pub use sqlite::{Sqlite, Unlock};
pub use store::{Adding, BackedUp, Store, StoreError};
pub use timeline::{ENTRIES_KEPT, Entry, Happened, Woken, timeline_document};
pub use versions::{Before, Look, Member, Moving, Versions};
