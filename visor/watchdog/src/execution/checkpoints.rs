//! The checkpoint of a run that waits: its file, and the commit that names it.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use monohull_durable::{Adding, Checkpoint, Commit, InvocationId, Wait};
use monohull_engine::Ready;
use monohull_report::{Outgoing, What};
use monohull_saved::{Base, Engine, FileError, Saved};
use monohull_worker::{Bounds, SuspendedRun, copy_continuation};
use monohull_workflow::Plan;

use crate::execution::basis::functions_of;
use crate::http::error::{ApiError, Blame};
use crate::invocations::ledger::{Ledger, now};
use crate::invocations::report::Report;
use crate::registry::documents::plan_once_registered;
use crate::store::error::takes_nothing;

/// The most waits that are kept of one invocation, and the most bytes of a text in them: they are a worker's own words.
const WAITS_MAX: usize = 1000;
const WAIT_TEXT_MAX: usize = 256;

/// So many names are looked at that may be free, before one is made that is.
const NAMES_MAX: u32 = 100;

/// What is needed to write the checkpoint of a run that waits.
pub(crate) struct Waits<'w> {
    pub(crate) id: &'w InvocationId,
    pub(crate) epoch: u64,
    pub(crate) generation: u64,
    /// It is the first checkpoint of its version.
    pub(crate) is_first: bool,
    pub(crate) document: &'w [u8],
    pub(crate) ready: &'w Ready,
    pub(crate) copy: (u32, u32),
    /// What it may take pages from.
    pub(crate) base: Option<&'w Base>,
    /// Its process is here, and goes on if what it waits for is there by the commit.
    pub(crate) may_go_on: bool,
}

/// A checkpoint that has been written.
pub(crate) struct Written {
    /// The commit that names it, which is to be made before `adding` is dropped.
    pub(crate) commit: Commit,
    /// What leaves with that.
    pub(crate) sent: Vec<Outgoing>,
    /// The file and its content, if the disk may not have it: they are part of the commit.
    pub(crate) unsynced: Option<(String, Vec<u8>)>,
    pub(crate) adding: Adding,
    pub(crate) deadline: Deadline,
    /// What its process may take pages from when it waits the next time.
    pub(crate) next_base: Option<Base>,
    /// It goes on as soon as it is committed, in its process.
    pub(crate) goes_on: bool,
}

/// When the time of a run is up in its checkpoint, compared with the process that was captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deadline {
    /// When it is in the process.
    Kept,
    /// Never.
    None,
    /// At another time.
    Moved,
}

impl Deadline {
    /// Whether a process that stays keeps its own; `None` if it cannot go on with the one in the checkpoint.
    pub(crate) fn is_kept(self) -> Option<bool> {
        match self {
            Deadline::Kept => Some(true),
            Deadline::None => Some(false),
            Deadline::Moved => None,
        }
    }
}

impl Ledger {
    /// Writes the checkpoint of a run that waits. If that fails the run is as it was, and may be written again.
    pub(crate) fn write_checkpoint(&self, waits: &Waits<'_>, run: &SuspendedRun) -> Result<Written, ApiError> {
        let plan = waits.ready.plan();
        let bounds = Bounds::of(plan);
        if run.bytes > bounds.bytes {
            let text = format!("its continuation has {} bytes, and may have {}", run.bytes, bounds.bytes);
            return Err(ApiError::monohull(text));
        }
        let lost = |why: String| ApiError::monohull(format!("the workflow's process has sent {why}"));
        let copied = copy_continuation(&run.continuation, bounds);
        let mut continuation = copied.map_err(|error| lost(format!("a continuation that cannot be read: {error}")))?;
        let captured = continuation.run_deadline;
        if waits.is_first {
            continuation.run_deadline = own_deadline(&plan.name, waits.document, plan, continuation.run_deadline)?;
        }
        let deadline = match continuation.run_deadline {
            own if own == captured => Deadline::Kept,
            None => Deadline::None,
            Some(_) => Deadline::Moved,
        };
        // The deadline of the process may have been the first thing that was to happen.
        let due = if deadline == Deadline::Kept { run.until } else { continuation.due() };
        let sizes = waits.ready.images().iter().map(|image| image.image.bytes);
        let functions = functions_of(waits.ready)?.into_iter().zip(sizes);
        let (file, copy) = (file_of(&plan.name), waits.copy);
        let saved = Saved {
            workflow: plan.name.clone(),
            generation: waits.generation,
            document: waits.document.to_vec(),
            functions: functions.map(|((name, hash), bytes)| (name, hash, bytes)).collect(),
            engine: Engine { file, copy, ..Engine::default() },
            continuation,
        };
        let adding = self.adding()?;
        let folder = self.store().checkpoints();
        let goes_on = waits.may_go_on && deadline.is_kept().is_some() && is_due(due, &run.sent);
        let most = self.unsynced_max();
        let base = waits.base.filter(|_| !saved.continuation.unchanged.is_empty());
        // Its process has all that is in it, and stays: as a rule the file is not read before the next one is written.
        let may_be_content = base.is_none() && run.stays && run.bytes <= most && self.keys().state.is_none();
        let name = match may_be_content {
            true => unique_name(waits.id, waits.epoch),
            false => self.new_name(&folder, waits.id, waits.epoch),
        };
        let content = may_be_content.then(|| saved.to_bytes(&folder.join(&name), self.keys())).transpose();
        // The workflow's document is part of it, too.
        let content = content.map_err(unwritten)?.filter(|content| content.len() as u64 <= most);
        let (file, bytes, unsynced, next_base) = if let Some(content) = content {
            (format!("{name}.checkpoint"), content.len() as u64, Some(content), None)
        } else {
            let written = match base {
                Some(base) => saved.write(&folder, &name, self.keys(), Some(base)),
                None => saved.write_unsynced(&folder, &name, self.keys(), most),
            };
            let written = written.map_err(unwritten)?;
            let is_base = written.unsynced.is_none() && !written.base.is_enough();
            let file = written.base.file().to_owned();
            (file, written.bytes, written.unsynced, Some(written.base).filter(|_| is_base))
        };
        let text = |mut text: String| {
            text.truncate(text.floor_char_boundary(WAIT_TEXT_MAX));
            text
        };
        let of_wait = |wait: monohull_domain::checkpoint::Wait| Wait {
            step: text(wait.step),
            instance: wait.index,
            what: text(wait.what),
            until: wait.until,
            event: wait.event.map(text),
        };
        let listed = run.waits.iter().take(WAITS_MAX).cloned().map(of_wait).collect();
        let unsynced = unsynced.map(|content| (file.clone(), content));
        let checkpoint = Checkpoint { file, bytes };
        let (taken, published) = (run.events_taken.clone(), run.published.clone());
        let parent = base.map(|base| Checkpoint { file: base.file().to_owned(), bytes: base.bytes() });
        let commit = Commit::Suspended { checkpoint, parent, due, waits: listed, taken, published };
        let sent = run.sent.clone();
        Ok(Written { commit, sent, unsynced, adding, deadline, next_base, goes_on })
    }

    /// A name for a checkpoint that no file has: copies may still have files of an invocation that was removed and whose id is used again.
    pub(crate) fn new_name(&self, folder: &Path, id: &InvocationId, epoch: u64) -> String {
        let name = format!("{id}.{epoch}");
        let others = (2..NAMES_MAX).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(others);
        let is_free = |name: &String| {
            let file = format!("{name}.checkpoint");
            // In this order: a content leaves the database once the folder has its file.
            !self.reader().is_unsynced(&file).unwrap_or(true) && !folder.join(&file).exists()
        };
        names.find(is_free).unwrap_or_else(|| unique_name(id, epoch))
    }
}

/// A name that no other file has, without a look at those that are there.
fn unique_name(id: &InvocationId, epoch: u64) -> String {
    format!("{id}.{epoch}-{:016x}", RandomState::new().hash_one(epoch))
}

/// What leaves with the end of a run. It is no part of its report.
pub(crate) fn take_sent(report: Option<&mut Report>) -> Vec<Outgoing> {
    let report = report.and_then(Report::whole_mut);
    report.map(|report| std::mem::take(&mut report.sent)).unwrap_or_default()
}

/// When the time of a workflow is up that was captured for the first time: its own timeout is not the server's, which is for the time in a
/// process.
fn own_deadline(name: &str, document: &[u8], plan: &Plan, captured: Option<u64>) -> Result<Option<u64>, ApiError> {
    let own = plan_once_registered(name, document).map_err(ApiError::monohull)?.limits.timeout;
    let more = own.zip(plan.limits.timeout).map(|(own, had)| own.saturating_sub(had).as_nanos());
    let more = more.map(|more| u64::try_from(more).unwrap_or(u64::MAX));
    Ok(captured.zip(more).map(|(at, more)| at.saturating_add(more)))
}

fn file_of(workflow: &str) -> PathBuf {
    format!("{workflow}.json").into()
}

pub(crate) fn unwritten(error: FileError) -> ApiError {
    match &error {
        FileError::Unwritable { source, .. } if takes_nothing(source) => {
            ApiError::new(hyper::StatusCode::INSUFFICIENT_STORAGE, "storage", Blame::Host, error.to_string())
        }
        FileError::Continuation(_) => ApiError::monohull(error.to_string()),
        _ => ApiError::host(error.to_string()),
    }
}

/// Whether what waits goes on as soon as it is committed.
fn is_due(due: Option<u64>, sent: &[Outgoing]) -> bool {
    let is_told = |event: &Outgoing| matches!(event.what, What::Checkpoint | What::Fork { .. });
    due.is_some_and(|due| due <= now()) || sent.iter().any(is_told)
}
