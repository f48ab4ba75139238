//! Commits of runs that the ledger has a row of: that one has ended, is to be tried again, or has come to its next wait.
//!
//! ```text
//!   result ─▶ outputs that are large: files ─▶ commit: end, report, lines, outputs, what it sends ─▶ shown ─▶ callback
//!                                                 └── tried again until the disk takes it: nothing is shown before
//! ```

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use monohull_durable::{Adding, Commit, Held, Left, Meta, MetaError, Output, OutputAt, Status as RowStatus};
use monohull_engine::Ready;
use monohull_report::Outgoing;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::http::content::{Content, SMALL};
use crate::http::error::{ApiError, Blame};
use crate::http::request_body::Hold;
use crate::invocations::invocation::Invocation;
use crate::invocations::ledger::{Ledger, now};
use crate::invocations::record::End;
use crate::invocations::report::Report;
use crate::invocations::status::Status;
use crate::invocations::stored::{Told, encode_end};
use crate::service::Watchdog;

/// The first pause before another attempt; each is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The pause after the ledger could not be used.
pub(crate) const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// Pauses between attempts to keep what waits, each longer than the one before. A disk that is full or read-only is waited for; what the host can
/// perhaps never take is given up after a minute.
#[derive(Default)]
pub(crate) struct Pauses {
    tries: u32,
    in_vain: u32,
}

impl Pauses {
    const MOST: u32 = 10;

    /// Waits for the next attempt after one that was refused. False if there is none: there were enough, or the invocation is cancelled.
    pub(crate) async fn wait(&mut self, invocation: &Invocation, refused: StatusCode) -> bool {
        self.tries = Pauses::MOST.min(self.tries + 1);
        self.in_vain += u32::from(refused != StatusCode::INSUFFICIENT_STORAGE);
        if self.in_vain > Pauses::MOST || invocation.is_cancelled() {
            return false;
        }
        sleep(TROUBLE_PAUSE * self.tries).await;
        !invocation.is_cancelled()
    }
}

/// Most bytes of outputs that are in the database and not in files: they are in memory until the disk takes the commit.
const ROWS_MAX: u64 = 1 << 20;

/// The row of a call that this server runs.
pub(crate) struct OwnRow {
    pub(crate) held: Held,
    /// Where its end is told.
    pub(crate) callback: Option<String>,
}

/// A run that has ended, and whose row does not say so yet.
pub(crate) struct Over {
    pub(crate) row: OwnRow,
    pub(crate) invocation: Arc<Invocation>,
    pub(crate) workflow: Arc<Ready>,
    pub(crate) status: Status,
    pub(crate) report: Option<Report>,
    pub(crate) result: Result<Vec<(String, Content)>, ApiError>,
    /// What leaves with its end.
    pub(crate) sent: Vec<Outgoing>,
    /// Which attempt it was, if there may be another one.
    pub(crate) attempt: Option<u32>,
}

/// The commit of an end, and what keeps its files until that is made.
pub(crate) type KeptEnd = (Commit, Left, Option<Adding>);

impl Watchdog {
    /// Commits the end of a run, shows it, and calls back. `until_shown` is dropped before a client that waits for this is answered: its next
    /// request may follow at once.
    pub(crate) async fn conclude(self: &Arc<Self>, over: Over, until_shown: impl Send) {
        let Over { row: OwnRow { held, callback }, invocation, workflow, status, report, result, sent, attempt } = over;
        invocation.point("ended");
        let mut end = invocation.ending(status, report, result);
        let printed = encode_end(&invocation.printed());
        let has_callback = callback.is_some();
        let kept = match attempt {
            Some(_) => self.keep_end_once(&held, &workflow, &end, sent).await,
            // It has done all that it had to do, and is not run again because the disk does not take it now.
            None => self.keep_end_in_time(&held, &workflow, &end, sent, &invocation).await,
        };
        let (commit, left, adding) = match (kept, attempt) {
            (Ok(kept), _) => kept,
            // Its outputs cannot be kept now; a later attempt may have room for them.
            (Err(refusal), Some(attempt)) => {
                drop(end);
                invocation.release_permit();
                self.commit(&held, later(attempt, refusal.error.message), Left::default()).await;
                return self.leave(&invocation, Status::Suspended);
            }
            (Err(refusal), None) => {
                end = invocation.ending(Status::Failed, None, Err(refusal));
                (ended(&end), Left::default(), None)
            }
        };
        // The outputs are in the commit, or files.
        let mut end = Arc::unwrap_or_clone(end).without_outputs();
        let mut both = Arc::new((commit, Left { printed, callback, ..left }));
        let mut room = None;
        let committed = match self.attempt(&held, &both).await {
            ControlFlow::Break(status) => status,
            ControlFlow::Continue(()) => {
                // The disk may take it much later.
                (both, room) = self.wait_with(&held, &mut end, both);
                invocation.release_permit();
                sleep(TROUBLE_PAUSE).await;
                self.commit_both(&held, both.clone()).await
            }
        };
        end.committed_as(committed.map(Status::from));
        drop((adding, until_shown));
        self.history.leave(&invocation);
        if !invocation.is_long() {
            self.log_end(&invocation, &end.with_report_of(&both.0));
            invocation.end_in_row();
        } else {
            invocation.end_in_row();
            let _permit = if room.is_some() { invocation.report_permit().await } else { None };
            let (watchdog, invocation) = (self.clone(), invocation.clone());
            let log = move || watchdog.log_end(&invocation, &end.with_report_of(&both.0));
            let _ = spawn_blocking(log).await;
        }
        drop(room);
        invocation.release_permit();
        if has_callback {
            self.call_back(&held.id);
        }
    }

    /// [`Watchdog::keep_end`], tried again as long as there is room in memory for the outputs.
    async fn keep_end_in_time(
        self: &Arc<Self>,
        held: &Held,
        workflow: &Arc<Ready>,
        end: &Arc<End>,
        sent: Vec<Outgoing>,
        invocation: &Arc<Invocation>,
    ) -> Result<KeptEnd, ApiError> {
        let (mut pauses, mut room) = (Pauses::default(), None);
        loop {
            let refusal = match self.keep_end_once(held, workflow, end, sent.clone()).await {
                Err(refusal) if refusal.error.blame == Blame::Host && !self.is_ending() => refusal,
                kept => return kept,
            };
            tracing::error!(id = %held.id, error = refusal.error.message, "outputs wait for the disk");
            invocation.release_permit();
            if room.is_none() {
                let outputs = end.result.iter().flatten();
                room = self.room_to_wait(outputs.map(|(_, content)| content.len()).sum());
            }
            if room.is_none() || !pauses.wait(invocation, refusal.status).await {
                return Err(refusal);
            }
        }
    }

    async fn keep_end_once(
        self: &Arc<Self>,
        held: &Held,
        workflow: &Arc<Ready>,
        end: &Arc<End>,
        sent: Vec<Outgoing>,
    ) -> Result<KeptEnd, ApiError> {
        let (watchdog, held, workflow, end) = (self.clone(), held.clone(), workflow.clone(), end.clone());
        let kept = spawn_blocking(move || watchdog.keep_end(&held, &workflow, &end, sent)).await;
        kept.map_err(|error| ApiError::monohull(error.to_string())).flatten()
    }

    /// Room for what waits for the disk in memory: all of it together has so much, or one has more.
    fn room_to_wait(&self, bytes: u64) -> Option<Hold> {
        let mut room = Hold::default();
        room.cover_alone(bytes, &self.waiting_reports).is_ok().then_some(room)
    }

    /// What an end has in memory while it waits for the disk: its row as bytes. A report that there is no room for beside those of others is left out.
    fn wait_with(&self, held: &Held, end: &mut End, both: Arc<(Commit, Left)>) -> (Arc<(Commit, Left)>, Option<Hold>) {
        let Commit::Ended { well, cancelled, report, published } = &both.0 else { return (both, None) };
        if report.len() as u64 <= SMALL {
            return (both, None);
        }
        end.report = None;
        if let Some(room) = self.room_to_wait(report.len() as u64) {
            return (both, Some(room));
        }
        tracing::warn!(id = %held.id, bytes = report.len(), "a report is lost: the disk is full, and so is the memory for reports that wait for it");
        let report = Told::encode_without_report(end);
        let commit = Commit::Ended { well: *well, cancelled: *cancelled, report, published: published.clone() };
        let left = Arc::try_unwrap(both).map_or_else(|both| both.1.clone(), |both| both.1);
        (Arc::new((commit, left)), None)
    }

    /// The commit of an end, once its large outputs and what it starts are files.
    pub(crate) fn keep_end(
        &self,
        held: &Held,
        workflow: &Ready,
        end: &End,
        sent: Vec<Outgoing>,
    ) -> Result<KeptEnd, ApiError> {
        let ledger = &self.ledger;
        let mut left = Left { outcome: ledger.outcome(&held.id, &end.result)?, ..Left::default() };
        let outputs = end.result.as_deref().unwrap_or_default();
        let files = are_files(outputs.iter().map(|(_, content)| content.len()));
        let has_files = !sent.is_empty() || files.contains(&true);
        let adding = if has_files { Some(ledger.adding()?) } else { None };
        for ((slot, content), is_file) in outputs.iter().zip(files) {
            let at = match &adding {
                Some(adding) if is_file => OutputAt::File(ledger.add_content(adding, content)?),
                _ => OutputAt::Row(content.read().map_err(|error| ApiError::host(error.to_string()))?.to_vec()),
            };
            left.outputs.push(Output { slot: slot.clone(), at, bytes: content.len() });
        }
        if let Some(adding) = &adding {
            left.sent = self.outbox(adding, &held.id, workflow.plan(), sent);
        }
        let commit = match end.status {
            // It was marked as cancelled before its process was stopped, and becomes that now.
            Status::Cancelled if ledger.is_marked(held) => {
                Commit::Released { due: now(), reason: "its process was stopped".to_owned() }
            }
            _ => ended(end),
        };
        Ok((commit, left, adding))
    }

    /// Shows what has a row to those that may stop it. What was cancelled between its start or claim and this is stopped, too. `marked` is what
    /// [`Ledger::marked`] said before the claim, if that is known: as a rule none was cancelled since.
    pub(crate) fn show(self: &Arc<Self>, held: &Held, invocation: &Arc<Invocation>, marked: Option<u64>) {
        self.history.begin(invocation.clone());
        if marked == Some(self.ledger.marked()) {
            return;
        }
        let (watchdog, held, invocation) = (self.clone(), held.clone(), invocation.clone());
        spawn_blocking(move || {
            if watchdog.ledger.is_marked(&held) {
                invocation.cancel();
            }
        });
    }

    /// Shows to clients that follow a leg that it is over. They find its row when they ask again.
    pub(crate) fn leave(&self, invocation: &Arc<Invocation>, status: Status) {
        self.history.leave(invocation);
        invocation.end(invocation.ending(status, None, Ok(Vec::new())));
        invocation.release_permit();
    }

    /// Makes a commit. As long as the disk does not take it nothing else can be done with the invocation, which is this server's.
    /// Where the invocation is then; `None` if the commit was not made.
    pub(crate) async fn commit(self: &Arc<Self>, held: &Held, commit: Commit, left: Left) -> Option<RowStatus> {
        self.commit_both(held, Arc::new((commit, left))).await
    }

    /// The same.
    pub(crate) async fn commit_both(self: &Arc<Self>, held: &Held, both: Arc<(Commit, Left)>) -> Option<RowStatus> {
        loop {
            if let ControlFlow::Break(status) = self.attempt(held, &both).await {
                return status;
            }
            sleep(TROUBLE_PAUSE).await;
        }
    }

    /// The same, once: whether it is to be tried again.
    async fn attempt(self: &Arc<Self>, held: &Held, both: &Arc<(Commit, Left)>) -> ControlFlow<Option<RowStatus>> {
        let (watchdog, of_claim, of_both) = (self.clone(), held.clone(), both.clone());
        match spawn_blocking(move || watchdog.commit_once(&of_claim, &of_both)).await {
            Ok(Ok(status)) => return ControlFlow::Break(Some(status)),
            Err(error) if error.is_cancelled() => return ControlFlow::Break(None),
            // Perhaps that of another one that was made together with this one.
            Err(error) => tracing::error!(id = %held.id, %error, "a commit is tried again"),
            Ok(Err(error @ MetaError::Stale(_))) => {
                tracing::warn!(%error, "a run counts for nothing");
                return ControlFlow::Break(None);
            }
            Ok(Err(error)) => tracing::error!(id = %held.id, %error, "a commit is tried again"),
        }
        // The next server goes on from the commit before.
        if self.is_ending() { ControlFlow::Break(None) } else { ControlFlow::Continue(()) }
    }

    /// Makes a commit, once.
    pub(crate) fn commit_once(&self, held: &Held, both: &Arc<(Commit, Left)>) -> Result<RowStatus, MetaError> {
        let committed = self.ledger.commit(held, both)?;
        if committed.status.is_end() || both.1.sent.has_children() {
            self.settle(&held.id);
        }
        Ok(committed.status)
    }
}

impl Ledger {
    /// Whether an invocation that runs is to be cancelled at its next commit.
    fn is_marked(&self, held: &Held) -> bool {
        let row = self.reader().get(&held.id);
        row.is_ok_and(|row| row.is_some_and(|row| row.wanted == Some(RowStatus::Cancelled)))
    }
}

/// Which outputs of these lengths are files.
fn are_files(lengths: impl Iterator<Item = u64>) -> Vec<bool> {
    let mut of_rows = 0;
    let is_file = |bytes: u64| {
        let is_small = bytes <= SMALL && of_rows + bytes <= ROWS_MAX;
        of_rows += if is_small { bytes } else { 0 };
        !is_small
    };
    lengths.map(is_file).collect()
}

/// Another attempt after this one, after a pause.
pub(crate) fn later(attempt: u32, reason: String) -> Commit {
    let pause = FIRST_PAUSE.saturating_mul(1 << attempt.min(8));
    let due = now().saturating_add(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX));
    Commit::Released { due, reason }
}

/// An end, as its row has it.
pub(crate) fn ended(end: &End) -> Commit {
    let (report, published) = Told::encode(end);
    // One that was told to end has a report that is not packed.
    let cancelled = matches!(&end.report, Some(Report::Whole(report)) if report.told_to_end);
    Commit::Ended { well: end.result.is_ok(), cancelled, report, published }
}

impl End {
    /// The row says how it has ended: one that was told to end, and ended well, is cancelled.
    pub(crate) fn committed_as(&mut self, committed: Option<Status>) {
        if let Some(status) = committed.filter(|status| status.is_final()) {
            self.status = status;
        }
    }

    /// The same, with its report as it was committed, if it has none.
    fn with_report_of(mut self, commit: &Commit) -> End {
        if let (None, Commit::Ended { report, .. }) = (&self.report, commit) {
            self.report = Told::decode(report).and_then(|told| told.report).map(Report::from);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_outputs_that_are_large_together_are_files() {
        assert_eq!(are_files([0, SMALL, SMALL + 1, 1].into_iter()), [false, false, true, false]);
        let many = are_files(std::iter::repeat_n(SMALL, 1000));
        assert_eq!(many.iter().filter(|is_file| !**is_file).count() as u64, ROWS_MAX / SMALL);
    }
}
