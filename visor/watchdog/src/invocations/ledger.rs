//! The ledger of durable invocations: the store in the folder `durable` of the state folder, as the server uses it.
//!
//! ```text
//!            start ──▶ pending ──┐                       wake: claim, run a leg, commit
//!  a call that waits ──▶ suspended ──▶ due, or an event ──▶ running ──▶ suspended | completed | failed | …
//! ```
//!
//! What an invocation is started with is plain data: the workflow's document, its inputs and the images of its functions are files, called by
//! their hashes, so that a later `PUT` of a workflow or a function changes nothing for those that sleep. Everything here waits for the disk.

mod files;
mod forget;
mod obsolete;
mod room;

use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use monohull_checkpoint::{Key, KeyError};
use monohull_durable::{
    Claim, Claimed, Clock, Commit, Committed, Export, ExportError, Filter, Fired, Held, Hints, InvocationId, Left,
    Listed, Mail, Meta, MetaError, Moving, NewInvocation, Outbox, Owner, Poked, Schedule, Sqlite, Started,
    Status as RowStatus, Step, Store, StoreError, Tally, Undelivered, WallClock,
};
use monohull_report::What;
use monohull_saved::Keys;
use monohull_state_key::{KeyFile, KeyFileError};
use tokio::sync::{Notify, broadcast};

use crate::http::error::{ApiError, Blame};
use crate::invocations::stored::Start;
use crate::invocations::together::Together;
use crate::store::error::{StateError, takes_nothing};
use crate::store::state_folder::StateFolder;
use forget::Swept;
use hyper::StatusCode;
use room::Room;

/// The folder of the store.
const DURABLE: &str = "durable";
/// The file of the key that seals checkpoints.
const KEY: &str = "checkpoint.key";
/// A database of so many bytes is looked through at the start: that takes some hundredths of a second.
const CHECKED_MAX: u64 = 16 << 20;
/// Bytes of a checkpoint that is part of its commit, so that the disk is waited for once.
const UNSYNCED_BYTES: u64 = 128 << 10;
/// If there are so many they are synced as soon as possible, and no more than so many are waited for by none.
const UNSYNCED: Range<u64> = 256..512;
/// Commits after which they are counted again if they seem to be many.
const COUNT_EVERY: u64 = 32;
/// Changes that one who waits may have missed before it looks at all of its invocation again.
const CHANGES: usize = 1024;

/// The asynchronous calls of this server, and all others that have waited.
pub(crate) struct Ledger {
    folder: Arc<StateFolder>,
    store: Store,
    meta: Mutex<Sqlite>,
    /// Another connection to the database, for what is only read: it does not wait for those that wait for the disk.
    reader: Mutex<Sqlite>,
    /// Transactions that wait for the disk at the same time.
    together: Together,
    owner: Owner,
    key: Key,
    /// Encrypts what leaves an encrypted folder.
    key_file: Option<KeyFile>,
    compared: files::Compared,
    /// Invocations have ended, whose files are not needed any more.
    has_ended: AtomicBool,
    /// There may be files that nothing names any more.
    unnamed: AtomicBool,
    swept: Mutex<Swept>,
    /// The last count of those that have not ended.
    room: Room,
    /// What was counted last, when, and how long that took.
    tally: Mutex<Option<(Instant, Duration, Tally)>>,
    /// Something may be due sooner than it was.
    hurry: Box<dyn Hints>,
    /// When that is, if those are meant that have come to a wait; 0 if something else has changed.
    soonest: AtomicU64,
    /// Checkpoints whose files the disk may lack: as many as there were when they were counted last, and those that were written since.
    unsynced: AtomicU64,
    /// They are many.
    many_unsynced: Notify,
    /// Schedules have changed.
    rescheduled: Notify,
    /// How often invocations that run were marked as cancelled.
    marked: AtomicU64,
    /// The invocations that have changed; `None` stands for all.
    changes: broadcast::Sender<Option<InvocationId>>,
    /// The invocations that wait from now on, for clients that wait no longer than that.
    waits: broadcast::Sender<Option<InvocationId>>,
}

/// An invocation that was claimed again with its commit.
pub(crate) struct Next {
    pub(crate) claim: Claim,
    /// What it is given. `None` if that cannot be read: it is read once more, and then an error is told.
    pub(crate) mail: Option<Vec<Mail>>,
}

/// The ledger cannot be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum LedgerError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "{error}. Nothing was changed. Put a backup in the place of the state folder, or move {} away: then the server starts without \
         its durable invocations and schedules",
        monohull_report::escape::shown(folder)
    )]
    Damaged { folder: PathBuf, error: MetaError },
    #[error("the key of checkpoints, {}: {error}", monohull_report::escape::shown(path))]
    Key { path: PathBuf, error: KeyError },
    #[error(
        "the key of checkpoints, {}, is missing: it has sealed those of {count} invocation{}. Nothing was changed. Put it back from a backup, or \
         move {} away: then the server starts without its durable invocations and schedules",
        monohull_report::escape::shown(path),
        if *count == 1 { "" } else { "s" },
        monohull_report::escape::shown(folder)
    )]
    NoKey { path: PathBuf, folder: PathBuf, count: u64 },
    #[error(transparent)]
    StateKey(#[from] KeyFileError),
    #[error(transparent)]
    State(#[from] StateError),
}

impl LedgerError {
    /// Whether the operator has to name another file of a key, or none.
    pub fn is_of_key(&self) -> bool {
        match self {
            LedgerError::StateKey(_) => true,
            LedgerError::Store(StoreError::Meta(error)) => error.is_of_key(),
            _ => false,
        }
    }
}

/// The folder of durable invocations of a server with this state folder.
pub fn durable_folder(state: &Path) -> PathBuf {
    state.join(DURABLE)
}

impl Ledger {
    /// Opens the store, or makes it. Invocations that an earlier server ran can be claimed again. What an earlier server has left is
    /// removed later ([`Ledger::forget`]): that takes as long as there are rows, and something may be due.
    pub(crate) fn open(folder: &Arc<StateFolder>, state_key: Option<&Path>) -> Result<Ledger, LedgerError> {
        let root = folder.path();
        let state_key = state_key.map(KeyFile::load).transpose()?;
        let folder_of_store = durable_folder(root);
        let path = root.join(KEY);
        let has_key = !matches!(fs::symlink_metadata(&path), Err(error) if error.kind() == ErrorKind::NotFound);
        let opened = || -> Result<_, LedgerError> {
            let store = Store::open_served(&folder_of_store, state_key.as_ref())?;
            let mut meta = store.meta()?;
            meta.check(CHECKED_MAX).map_err(StoreError::from)?;
            let sealed = if has_key { 0 } else { meta.with_checkpoints().map_err(StoreError::from)? };
            if sealed > 0 {
                return Err(LedgerError::NoKey { path: path.clone(), folder: folder_of_store.clone(), count: sealed });
            }
            meta.begins_again(Start::begins_again);
            store.expire_the_dead(&mut meta)?;
            let reader = store.meta()?.only_reads().map_err(StoreError::from)?;
            Ok((store, meta, reader))
        };
        let (store, meta, reader) = opened().map_err(|error| match error {
            LedgerError::Store(StoreError::Meta(error)) if error.is_damage() => {
                LedgerError::Damaged { folder: folder_of_store.clone(), error }
            }
            error => error,
        })?;
        let key = Key::load_or_create(&path).map_err(|error| LedgerError::Key { path, error })?;
        let owner = store.owner()?;
        let swept = Mutex::new(Swept::at_start());
        let (meta, changes, waits) = (Mutex::new(meta), broadcast::channel(CHANGES).0, broadcast::channel(CHANGES).0);
        let ledger = Ledger {
            folder: folder.clone(),
            store,
            meta,
            reader: Mutex::new(reader),
            together: Together::default(),
            owner,
            key,
            key_file: state_key,
            compared: files::Compared::default(),
            has_ended: AtomicBool::new(true),
            unnamed: AtomicBool::new(false),
            swept,
            room: Room::default(),
            tally: Mutex::default(),
            hurry: Box::new(Within(Notify::new())),
            soonest: AtomicU64::new(0),
            unsynced: AtomicU64::new(0),
            many_unsynced: Notify::new(),
            rescheduled: Notify::new(),
            marked: AtomicU64::new(0),
            changes,
            waits,
        };
        // The files of checkpoints that an earlier server has not brought to the disk: each is looked at before it is read, and all of them soon.
        if let Ok(count) = ledger.meta().count_unsynced() {
            ledger.unsynced.store(count, Ordering::Relaxed);
        }
        if let Err(error) = ledger.meta().lengthen_log() {
            tracing::warn!(%error, "the log of the ledger is not made longer beforehand");
        }
        folder.has_database(ledger.store.files_of_database())?;
        Ok(ledger)
    }

    /// Brings the files of checkpoints to the disk that commits have not waited for.
    pub(crate) fn sync_files(&self) -> Result<(), StoreError> {
        let synced = self.store.sync_files(&self.meta);
        // Those that could not be synced count.
        if let Ok(count) = self.meta().count_unsynced() {
            self.unsynced.store(count, Ordering::Relaxed);
        }
        synced.map(drop)
    }

    /// The same if they are many. Those of steps and short waits are not needed for long: most of what was written may be gone.
    pub(crate) fn sync_files_if_many(&self) -> Result<(), StoreError> {
        let count = self.reader().count_unsynced()?;
        self.unsynced.store(count, Ordering::Relaxed);
        if count < UNSYNCED.start { Ok(()) } else { self.sync_files() }
    }

    /// Where the file of a checkpoint is, to be read. An error is the host's: the checkpoint itself is not lost.
    pub(crate) fn checkpoint(&self, file: &str) -> Result<PathBuf, StoreError> {
        self.store.make_file(&self.meta, file)?;
        Ok(self.store.checkpoints().join(file))
    }

    /// How many bytes a checkpoint may have to be part of its commit: none, if the files of too many are not on the disk.
    pub(crate) fn unsynced_max(&self) -> u64 {
        let unsynced = self.unsynced.fetch_add(1, Ordering::Relaxed);
        if unsynced >= UNSYNCED.end {
            return 0;
        }
        if unsynced >= UNSYNCED.start && (unsynced - UNSYNCED.start).is_multiple_of(COUNT_EVERY) {
            self.many_unsynced.notify_one();
        }
        UNSYNCED_BYTES
    }

    /// Returns when many files may not be on the disk.
    pub(crate) async fn many_unsynced(&self) {
        self.many_unsynced.notified().await;
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// What seals checkpoints, and what encrypts them.
    pub(crate) fn keys(&self) -> Keys<'_> {
        Keys { seal: &self.key, state: self.store.key().map(|key| &**key) }
    }

    /// An exported invocation as it leaves: encrypted, if the folder is.
    pub(crate) fn closed(&self, bytes: Vec<u8>) -> Result<Vec<u8>, ExportError> {
        match &self.key_file {
            Some(file) => Export::encrypt(&bytes, file),
            None => Ok(bytes),
        }
    }

    /// An exported invocation that comes.
    pub(crate) fn opened(&self, bytes: &[u8]) -> Result<Export, ExportError> {
        match Export::decrypt(bytes, self.key_file.as_ref())? {
            Some(plain) => Export::parse(&plain, &self.key),
            None => Export::parse(bytes, &self.key),
        }
    }

    /// The database.
    pub(crate) fn meta(&self) -> MutexGuard<'_, Sqlite> {
        // A transaction that was not committed has been rolled back.
        self.meta.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database as the last commit left it, to be read. Nothing is to be changed by it.
    pub(crate) fn reader(&self) -> MutexGuard<'_, Sqlite> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something. It counts only if the state folder was in its place before and after it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&Ledger) -> Result<T, ApiError>) -> Result<T, ApiError> {
        let lost = |error: StateError| ApiError::not_kept(error);
        self.folder.check().map_err(lost)?;
        let changed = change(self);
        self.folder.check().map_err(lost)?;
        changed.map_err(|refusal| self.placed(refusal))
    }

    /// An error of the disk that says which one it is.
    fn placed(&self, mut refusal: ApiError) -> ApiError {
        let folder = monohull_report::escape::shown(self.folder.path()).to_string();
        if refusal.status == StatusCode::INSUFFICIENT_STORAGE && !refusal.error.message.contains(&folder) {
            refusal.error.message.push_str(&format!(" ({folder})"));
        }
        refusal
    }

    /// An invocation has changed: those who wait for it look again, and what may be due is looked at.
    pub(crate) fn changed(&self, id: &InvocationId) {
        // Without receivers there is no wait.
        let _ = self.changes.send(Some(id.clone()));
        self.may_be_due(0);
    }

    /// All who wait look again.
    pub(crate) fn wake_all(&self) {
        let _ = self.changes.send(None);
        let _ = self.waits.send(None);
    }

    pub(crate) fn changes(&self) -> broadcast::Receiver<Option<InvocationId>> {
        self.changes.subscribe()
    }

    /// The invocations that wait from now on.
    pub(crate) fn waits(&self) -> broadcast::Receiver<Option<InvocationId>> {
        self.waits.subscribe()
    }

    /// One that runs has been marked as cancelled. This is said after its transaction, and before it is looked for among those that run.
    pub(crate) fn mark(&self) {
        self.marked.fetch_add(1, Ordering::SeqCst);
    }

    /// How often that was said. If it is as much when an invocation is shown as it was before its claim, it has not been marked in between.
    pub(crate) fn marked(&self) -> u64 {
        self.marked.load(Ordering::SeqCst)
    }

    /// Returns when something may be due sooner than it was.
    pub(crate) async fn hurried(&self) {
        self.hurry.poked().await;
    }

    /// Something is due then; 0 if that is not known.
    fn may_be_due(&self, at: u64) {
        self.soonest.fetch_min(at, Ordering::AcqRel);
        self.hurry.poke();
    }

    /// When the first is due, if it was this before the last hints. `None` if that has to be read.
    pub(crate) fn sooner(&self, than: Option<u64>) -> Option<u64> {
        match self.soonest.swap(u64::MAX, Ordering::AcqRel) {
            0 => None,
            u64::MAX => than,
            at => Some(than.map_or(at, |than| than.min(at))),
        }
    }

    /// Schedules have changed: what is due by them is looked at.
    pub(crate) fn reschedule(&self) {
        self.rescheduled.notify_one();
    }

    /// Returns when schedules have changed.
    pub(crate) async fn rescheduled(&self) {
        self.rescheduled.notified().await;
    }

    /// Starts an invocation. The same call again is no error.
    pub(crate) fn start(&self, id: &InvocationId, start: &Start, due: u64) -> Result<Started, ApiError> {
        let bytes = start.encode()?;
        let new = NewInvocation { id, workflow: start.head.workflow(), start: &bytes, due };
        let mut meta = self.meta();
        let started = meta.start(&new, now()).map_err(meta_kept)?;
        let started = match started {
            Started::Taken => {
                let there = meta.get(id).map_err(meta_kept)?;
                let same = there.filter(|row| Start::decode(&row.start).is_some_and(|it| it.is_same_call(start)));
                same.map_or(Started::Taken, |row| Started::Same(row.status))
            }
            started => started,
        };
        drop(meta);
        if started == Started::New {
            self.changed(id);
        }
        Ok(started)
    }

    /// Adds a call that this server runs from now on. `None` if there are `most`: its place is its own also when it comes to wait.
    pub(crate) fn start_running(
        &self,
        id: &InvocationId,
        start: &Start,
        accepted: u64,
        most: u64,
    ) -> Result<Option<Held>, ApiError> {
        let (id, bytes, workflow) = (id.clone(), start.encode()?, start.head.workflow().to_owned());
        let (owner, room) = (self.owner.name().to_owned(), self.room.clone());
        let held = self.together.run(&self.meta, move |meta| {
            if !room.is_there(meta, 1, most)? {
                return Ok(None);
            }
            let new = NewInvocation { id: &id, workflow: &workflow, start: &bytes, due: accepted };
            meta.start_running(&new, &owner, [accepted, now()]).map(Some)
        });
        let taken = || ApiError::monohull("its id is another invocation's");
        held.map_err(meta_kept)?.map(|held| held.ok_or_else(taken)).transpose()
    }

    /// Adds an invocation that was run, and waits.
    pub(crate) fn start_suspended(
        &self,
        id: &InvocationId,
        start: &Start,
        commit: &Commit,
        left: &Left,
    ) -> Result<(), ApiError> {
        let bytes = start.encode()?;
        let new = NewInvocation { id, workflow: start.head.workflow(), start: &bytes, due: 0 };
        let times = [start.head.accepted_ns(), now()];
        match self.meta().start_suspended(&new, commit, left, times).map_err(meta_kept)? {
            Started::New => {}
            Started::Same(_) | Started::Taken => return Err(ApiError::monohull("its id is another invocation's")),
        }
        self.changed(id);
        self.arrived(&left.sent, false);
        Ok(())
    }

    /// The callbacks that an earlier server owed.
    pub(crate) fn owed(&self) -> Result<Vec<InvocationId>, LedgerError> {
        Ok(self.meta().owed().map_err(StoreError::from)?)
    }

    /// When the next one is due, or has been.
    pub(crate) fn next_due(&self) -> Result<Option<u64>, MetaError> {
        self.reader().next_due()
    }

    /// When something is to be done next: an invocation is due, or a schedule.
    pub(crate) fn next_alarm(&self) -> Result<Option<u64>, MetaError> {
        // A schedule that fires between two readings would be seen by neither.
        let both = |meta: &Sqlite| Ok([meta.next_due()?, meta.next_look()?]);
        Ok(self.reader().at_one_time(both)?.into_iter().flatten().min())
    }

    /// Starts what a schedule says, and takes it on by a step, in one transaction.
    pub(crate) fn fire(
        &self,
        schedule: &Schedule,
        step: Step,
        id: &InvocationId,
        start: &Start,
    ) -> Result<Fired, ApiError> {
        let (bytes, now) = (start.encode()?, now());
        let new = NewInvocation { id, workflow: start.head.workflow(), start: &bytes, due: now };
        let fired = self.meta().fire(schedule, step, Some(&new), now).map_err(meta_kept)?;
        if fired == Fired::New {
            self.changed(id);
        }
        Ok(fired)
    }

    /// Claims those that are due first: one, and others as long as there may be another one.
    pub(crate) fn claim(&self, another: impl FnMut() -> bool) -> Result<Vec<Claimed>, StoreError> {
        let claimed = self.meta().claim_due(self.owner.name(), now(), another)?;
        for claimed in &claimed {
            if let Claimed::Paused(id) = claimed {
                self.changed(id);
            }
        }
        Ok(claimed)
    }

    /// Commits how far a claimed invocation has come.
    pub(crate) fn commit(&self, held: &Held, all: &Arc<(Commit, Left)>) -> Result<Committed, MetaError> {
        let (of, with) = (held.clone(), all.clone());
        let committed = self.together.run(&self.meta, move |meta| meta.commit_with(&of, &with.0, &with.1, now()))?;
        self.committed(held, &all.1, &committed);
        Ok(committed)
    }

    /// The same, and claims the invocation again if it is due at once, with what it is given then. Others cannot claim it in between.
    pub(crate) fn commit_and_claim(
        &self,
        held: &Held,
        all: &Arc<(Commit, Left)>,
    ) -> Result<(Committed, Option<Next>), MetaError> {
        let (of, with, owner) = (held.clone(), all.clone(), self.owner.name().to_owned());
        let (committed, next) = self.together.run(&self.meta, move |meta| {
            let (committed, claim) = meta.commit_and_claim(&of, &with.0, &with.1, &owner, now())?;
            // By the same connection, which has in memory what it reads.
            let next = claim.map(|claim| (meta.given(&claim.held), claim));
            Ok((committed, next.map(|(mail, claim)| Next { mail: mail.ok(), claim })))
        })?;
        // One that goes on at once is nothing that anybody waits for.
        match &next {
            Some(_) => self.follow(held, &all.1, &committed, true),
            None => self.committed(held, &all.1, &committed),
        }
        Ok((committed, next))
    }

    /// The same of one that has come so far in another version of its workflow, in which it counts as started from now on.
    pub(crate) fn commit_moved(
        &self,
        held: &Held,
        start: &[u8],
        commit: &Commit,
        left: &Left,
    ) -> Result<Committed, MetaError> {
        let committed = self.meta().commit_moved(held, start, commit, left, now())?;
        // Files of the version before may not be needed any more.
        self.has_ended.store(true, Ordering::Relaxed);
        self.committed(held, left, &committed);
        Ok(committed)
    }

    /// What follows from a commit.
    fn committed(&self, held: &Held, left: &Left, committed: &Committed) {
        // Before clients are told of an end: one may remove the invocation and use its id for another, whose files have these names.
        self.follow(held, left, committed, false);
        match committed.status.is_end() {
            true => self.changed(&held.id),
            // Most clients wait for the end.
            false => {
                let _ = self.waits.send(Some(held.id.clone()));
                match (committed.status, committed.due) {
                    (RowStatus::Suspended, Some(due)) => self.may_be_due(due),
                    // It goes on when an event has come, which is said then: of those that this commit has sent, by `arrived`.
                    (RowStatus::Suspended, None) => {}
                    _ => self.may_be_due(0),
                }
            }
        }
    }

    /// The same for others than those who wait for the invocation itself.
    fn follow(&self, held: &Held, left: &Left, committed: &Committed, goes_on: bool) {
        self.remove(&committed.obsolete);
        if committed.status.is_end() {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        self.arrived(&left.sent, goes_on);
        note_undelivered(&held.id, &committed.undelivered);
    }

    /// Claims an invocation that is to be moved to another version.
    pub(crate) fn claim_to_move(&self, id: &InvocationId) -> Result<Moving, MetaError> {
        let moving = self.meta().claim_to_move(self.owner.name(), id, now())?;
        self.changed(id);
        Ok(moving)
    }

    /// Sends the events of an invocation that has ended and is not in the ledger.
    pub(crate) fn send_all(&self, sender: &InvocationId, sent: &Outbox) -> Result<(), ApiError> {
        let undelivered = self.change(|ledger| ledger.meta().send_all(sender, sent, now()).map_err(meta_kept))?;
        self.arrived(sent, false);
        note_undelivered(sender, &undelivered);
        Ok(())
    }

    /// Events may be in the mailboxes of their receivers now, and others may be due by what was sent: children, and the sender itself.
    fn arrived(&self, sent: &Outbox, goes_on: bool) {
        for receiver in sent.receivers() {
            self.changed(&receiver);
        }
        if makes_due(sent, goes_on) {
            self.may_be_due(0);
        }
    }

    /// A page of the list.
    pub(crate) fn newest(&self, filter: &Filter, limit: usize) -> Result<Vec<Listed>, MetaError> {
        self.reader().newest(filter, limit)
    }
}

/// Whether something may be due by what was sent besides events: a child, or the sender, which is told what has become of it. When `goes_on`, the sender
/// was claimed by the same commit, and has been told of its only save point with that.
fn makes_due(sent: &Outbox, goes_on: bool) -> bool {
    let mut others = sent.events.iter().map(|event| event.what).filter(|what| *what != What::Event);
    match (others.next(), others.next()) {
        (None, _) => false,
        (Some(What::Checkpoint), None) => !goes_on,
        _ => true,
    }
}

/// Hints of a server to itself.
struct Within(Notify);

impl Hints for Within {
    fn poke(&self) {
        self.0.notify_one();
    }

    fn poked(&self) -> Poked<'_> {
        Box::pin(self.0.notified())
    }
}

/// Says which events were not sent.
fn note_undelivered(sender: &InvocationId, undelivered: &[Undelivered]) {
    for undelivered in undelivered {
        tracing::warn!(id = %sender, "{undelivered}");
    }
}

/// The wall clock (ns since 1970).
pub(crate) fn now() -> u64 {
    WallClock.now()
}

/// What was sent could not be kept.
pub(crate) fn kept(error: StoreError) -> ApiError {
    let full = match &error {
        StoreError::File { source, .. } => takes_nothing(source),
        StoreError::Meta(error) => error.is_full(),
        StoreError::Shared { .. } | StoreError::Foreign { .. } => false,
    };
    match full {
        true => ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "storage", Blame::Host, error.to_string()),
        false => ApiError::host(error.to_string()),
    }
}

pub(crate) fn meta_kept(error: MetaError) -> ApiError {
    kept(error.into())
}

#[cfg(test)]
mod tests;
