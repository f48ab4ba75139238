//! Checkpoints of an invocation, written and committed while it goes on, or when it waits.
//!
//! ```text
//!   worker ── captured, goes on ─▶ file: complete, sealed, on the disk ─▶ commit `Checkpointed` ─▶ events that have come since ─▶ worker
//!                                       │ no room                             │ paused, cancelled, another owner
//!                                       └─▶ a note; it goes on                └─▶ its process is ended
//! ```
//!
//! The first file of a process is whole. Those that follow have what has changed since the one before, until so many depend on each other, or
//! have so many bytes together, that one which is whole again takes less time to read. One in which the workflow waits is whole, as it may
//! be there for a long time, but for what its process has never touched: that stays in the file that the process has gone on from.

use super::super::output;
use super::now;
use super::started_with::Start;
use monohull_durable::{
    Adding, Claim, Commit, Committed, Held, Left, Mail, Meta, MetaError, Outbox, Sqlite, Status, Store, StoreError,
    Wait,
};
use monohull_engine::Event;
use monohull_report::Outgoing;
use monohull_saved::{Base, Engine, FileError, Keys, Saved};
use monohull_worker::{Bounds, Keep, Next, Waiting, copy_continuation};
use monohull_workflow::Plan;
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// A checkpoint that has been written, and what its commit says of it.
pub(super) struct Waits {
    pub(super) checkpoint: monohull_durable::Checkpoint,
    base: Base,
    /// What it takes pages from.
    pub(super) parent: Option<monohull_durable::Checkpoint>,
    pub(super) due: Option<u64>,
    pub(super) waits: Vec<Wait>,
    pub(super) taken: Vec<u64>,
    pub(super) published: BTreeMap<String, String>,
    pub(super) sent: Vec<Outgoing>,
}

/// Why the process of an invocation was ended after a checkpoint.
pub(super) enum Stopped {
    /// It was paused or cancelled, which the commit has done.
    Became(Status),
    /// It is not this process's any more.
    NotOwner(MetaError),
    /// Its process has sent what cannot be a checkpoint.
    Wrong(FileError),
}

/// What checkpoints of an invocation are made of, besides captures.
pub(super) struct Checkpoints<'a> {
    store: &'a Store,
    claim: &'a mut Claim,
    plan: &'a Plan,
    start: &'a Start,
    copy: (u32, u32),
    keys: Keys<'a>,
    /// The number of the last event that its process has been given.
    given: u64,
    /// The database, once there is something to commit: the workflow's process has been forked by then.
    meta: Option<Sqlite>,
    /// The last file of this process that was committed, if the next one may take pages from it.
    last: Option<Base>,
    stopped: Option<Stopped>,
}

impl<'a> Checkpoints<'a> {
    /// Of the invocation that was claimed, with its workflow, its start, which copy it is, and the keys; it has been given these events.
    pub(super) fn new(
        store: &'a Store,
        claim: &'a mut Claim,
        (plan, start, copy, keys): (&'a Plan, &'a Start, (u32, u32), Keys<'a>),
        events: &[Event],
    ) -> Checkpoints<'a> {
        let given = events.iter().map(|event| event.number).max().unwrap_or(0);
        Checkpoints { store, claim, plan, start, copy, keys, given, meta: None, last: None, stopped: None }
    }

    /// Which attempt it is since the last commit.
    pub(super) fn attempt(&self) -> u32 {
        self.claim.attempt
    }

    /// Whether a checkpoint of this process has been committed. What the process has gone on from may have been removed then.
    pub(super) fn has_committed(&self) -> bool {
        self.last.is_some()
    }

    /// Why the process was ended, if it was.
    pub(super) fn stopped(self) -> Option<Stopped> {
        self.stopped
    }

    /// Writes a checkpoint, which may take pages from another. It is not removed while it has no name.
    pub(super) fn write(&self, waiting: Waiting, base: Option<&Base>) -> Result<(Waits, Adding), FileError> {
        let folder = self.store.checkpoints();
        let Waiting { run, inputs, images } = waiting;
        let unwritable = |source| FileError::Unwritable { path: folder.clone(), source };
        let continuation =
            copy_continuation(&run.continuation, Bounds::of(self.plan)).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => {
                    FileError::Continuation(format!("the workflow's process has sent what cannot be read: {error}"))
                }
                _ => unwritable(error),
            })?;
        let Start { file, document, settings, outputs, .. } = self.start.clone();
        let bytes = |hash: &[u8; 32]| fs::metadata(self.store.file(hash)).map_or(0, |metadata| metadata.len());
        let functions = self.plan.functions.iter().zip(images);
        let saved = Saved {
            workflow: self.plan.name.clone(),
            generation: self.claim.generation + 1,
            document,
            functions: functions.map(|(function, hash)| (function.name.clone(), hash, bytes(&hash))).collect(),
            engine: Engine { file, settings, outputs, inputs, copy: self.copy, ..Engine::default() },
            continuation,
        };
        let adding = self.store.adding().map_err(|error| unwritable(io::Error::other(error)))?;
        let written = saved.write(&folder, &new_name(&folder, self.claim), self.keys, base)?;
        let of = |base: &Base| monohull_durable::Checkpoint { file: base.file().to_owned(), bytes: base.bytes() };
        let parent = base.filter(|_| written.base.depth() > 0).map(of);
        let checkpoint = of(&written.base);
        let waits = run.waits.into_iter();
        let waits = waits.map(|wait| {
            let (instance, what, until, event) = (wait.index, wait.what, wait.until, wait.event);
            Wait { step: wait.step, instance, what, until, event }
        });
        let (taken, published, sent) = (run.events_taken, run.published, run.sent);
        let (base, due, waits) = (written.base, run.until, waits.collect());
        Ok((Waits { checkpoint, base, parent, due, waits, taken, published, sent }, adding))
    }

    fn commit(&mut self, written: Waits, adding: &Adding) -> Result<Committed, StoreError> {
        let Waits { checkpoint, base, parent, due, waits, taken, published, sent } = written;
        let commit = Commit::Checkpointed { checkpoint, parent, due, waits, taken, published };
        let sent = outbox(self.store, adding, self.plan, self.start, sent);
        let left = Left { sent, ..Left::default() };
        let held = self.claim.held.clone();
        let committed = self.meta()?.commit_with(&held, &commit, &left, now())?;
        note_undelivered(&self.claim.held, &committed);
        self.last = Some(base);
        self.claim.generation += 1;
        // As the commit has it.
        self.claim.attempt = 1;
        remove(self.store, &committed.obsolete);
        Ok(committed)
    }

    /// The database, which stays open: the last connection that is closed waits for the disk to have all of it in its place.
    fn meta(&mut self) -> Result<&mut Sqlite, StoreError> {
        match &mut self.meta {
            Some(meta) => Ok(meta),
            none => Ok(none.insert(self.store.meta()?)),
        }
    }

    /// What has been sent to it since the last time.
    fn new_events(&mut self) -> Result<Vec<Event>, StoreError> {
        let (held, given) = (self.claim.held.clone(), self.given);
        let mail = self.meta()?.mail(&held, given)?;
        self.given = mail.iter().map(|mail| mail.number).max().unwrap_or(self.given);
        Ok(mail.into_iter().map(|Mail { number, name, bytes }| Event { number, name, bytes }).collect())
    }

    fn stop(&mut self, why: Stopped) -> Next {
        self.stopped = Some(why);
        Next::Stop
    }

    /// It goes on without a checkpoint: the next one may succeed.
    fn not_kept(&self, why: &dyn std::fmt::Display) -> Next {
        output::note(format_args!("monohull: invocation {}: a checkpoint was not kept: {why}", self.claim.held.id));
        Next::GoOn { kept: false, whole: false, events: Vec::new() }
    }
}

impl Keep for Checkpoints<'_> {
    fn keep(&mut self, captured: Waiting) -> Next {
        // Until the commit names the file.
        let (written, adding) = match self.write(captured, self.last.as_ref()) {
            Ok(written) => written,
            Err(error @ FileError::Unwritable { .. }) => return self.not_kept(&error),
            Err(error) if error.is_hosts() => return self.not_kept(&error),
            Err(error) => return self.stop(Stopped::Wrong(error)),
        };
        let file = written.checkpoint.clone();
        match self.commit(written, &adding) {
            Ok(Committed { status: Status::Running, .. }) => {}
            Ok(Committed { status, .. }) => return self.stop(Stopped::Became(status)),
            Err(StoreError::Meta(error @ MetaError::Stale(_))) => {
                remove(self.store, &[file]);
                return self.stop(Stopped::NotOwner(error));
            }
            Err(error) => return self.not_kept(&error),
        }
        // Without them it goes on as well; they stay in the mailbox.
        let whole = self.last.as_ref().is_none_or(Base::is_enough);
        Next::GoOn { kept: true, whole, events: self.new_events().unwrap_or_default() }
    }
}

/// A name for a checkpoint that no file has. Epoch and generation make it new even if an attempt before this one was killed after it had
/// written a file. Copies may still have files of an invocation that was removed and whose id is used again.
fn new_name(folder: &Path, claim: &Claim) -> String {
    let name = format!("{}.{}.{}", claim.held.id, claim.held.epoch, claim.generation + 1);
    let others = (2..).map(|number: u64| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(others);
    names.find(|name| !folder.join(format!("{name}.checkpoint")).exists()).unwrap_or(name)
}

/// What leaves with a commit, before which nothing is removed that is being added.
pub(super) fn outbox(store: &Store, adding: &Adding, plan: &Plan, start: &Start, events: Vec<Outgoing>) -> Outbox {
    Outbox::new(events, &plan.sends_to, |child| {
        let add = |mut input: &[u8]| store.add_data(adding, &mut input).map_err(|error| error.to_string());
        start.child(&child.name, &child.bytes, add)
    })
}

/// Says which events were not sent.
pub(super) fn note_undelivered(held: &Held, committed: &Committed) {
    for undelivered in &committed.undelivered {
        output::note(format_args!("monohull: invocation {}: {undelivered}", held.id));
    }
}

/// Removes files that no history names any more.
pub(super) fn remove(store: &Store, obsolete: &[monohull_durable::Checkpoint]) {
    for obsolete in obsolete {
        // One that stays is removed by the next sweep.
        let _ = fs::remove_file(store.checkpoints().join(&obsolete.file));
    }
}
