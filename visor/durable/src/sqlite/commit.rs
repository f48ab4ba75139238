//! The row of a claimed invocation after a commit.

use super::{BY_HAND, cancel, children, claim, held_row, history, mail, store, told, unsynced};
use crate::meta::{Claim, Commit, Committed, Held, MetaError};
use crate::{Entry, Happened, Status};
use rusqlite::Connection;

/// The reason of one that has ended by itself.
const AS_TOLD: &str = "it was told to end";

/// What else a commit does than to change the row.
#[derive(Clone, Copy, Default)]
pub(super) struct More<'m> {
    /// The content of the checkpoint's file, which the disk may not have.
    pub(super) content: Option<&'m (String, Vec<u8>)>,
    /// The event that tells the invocation of the checkpoint itself: it is no part of its mailbox.
    pub(super) told: Option<&'m str>,
    /// Who claims it again, if it is due.
    pub(super) claimer: Option<&'m str>,
    /// It is in another version of its workflow from now on.
    pub(super) is_move: bool,
}

/// Changes the row of a claimed invocation to what a commit says; the next claim, if there is one.
pub(super) fn commit_in(
    transaction: &Connection,
    held: &Held,
    commit: &Commit,
    more: More<'_>,
    now: u64,
) -> Result<(Committed, Option<Claim>), MetaError> {
    let before = held_row(transaction, held)?;
    let mut row = before.clone();
    let mut obsolete = Vec::new();
    row.changed = now;
    let owner = row.owner.take();
    let began = row.began;
    row.reason = None;
    row.rest();
    match commit {
        Commit::Suspended { checkpoint, parent, due, waits, taken, published }
        | Commit::Checkpointed { checkpoint, parent, due, waits, taken, published } => {
            // The claim of one that goes on is the first since this commit.
            let goes_on = matches!(commit, Commit::Checkpointed { .. }) && row.wanted.is_none();
            row.status = if goes_on { Status::Running } else { Status::Suspended };
            row.owner = owner.filter(|_| goes_on);
            (row.began, row.woken) = (began.filter(|_| goes_on), before.woken.clone().filter(|_| goes_on));
            row.attempts = goes_on.into();
            row.checkpoint = Some(checkpoint.clone());
            row.due = *due;
            row.waits.clone_from(waits);
            row.published.clone_from(published);
            row.generation += 1;
            if let Some(parent) = parent {
                history::take_pages(transaction, &checkpoint.file, parent)?;
            }
            let told = told::next(transaction, &before, taken, more.told)?;
            obsolete = history::suspended(transaction, &row, told.as_deref())?;
            let content = more.content.filter(|(file, _)| *file == checkpoint.file);
            unsynced::exchange(transaction, &obsolete, content)?;
            let behind = children::joined(transaction, &row, taken)?;
            mail::take(transaction, &mut row, taken, now)?;
            for (name, bytes) in behind {
                mail::put(transaction, &row.id, &name, (&bytes, &[None]))?;
                mail::wake(&mut row, &name, now);
            }
            if let Some(told) = &told {
                mail::wake(&mut row, told, now);
            }
        }
        Commit::Ended { well, cancelled, report, published } => {
            row.status = match *well {
                true if cancel::has_obeyed(transaction, &row.id, *cancelled)? => Status::Cancelled,
                true => Status::Completed,
                false => Status::Failed,
            };
            row.reason = (row.status == Status::Cancelled).then(|| AS_TOLD.to_owned());
            row.report = Some(report.clone());
            if let Some(published) = published {
                row.published.clone_from(published);
            }
            row.wanted = None;
        }
        Commit::Released { due, reason } => {
            row.status = row.waiting_status();
            row.due = Some(*due);
            row.reason = Some(reason.clone());
        }
        Commit::Paused { reason } => {
            row.status = Status::Paused;
            row.reason = Some(reason.clone());
        }
    }
    if let Some(wanted) = row.wanted.take() {
        row.status = wanted;
        row.reason = Some(BY_HAND.to_owned());
    }
    row.leave_out();
    let status = row.status;
    let due = row.due.filter(|_| status == Status::Suspended);
    let is_due = status == Status::Suspended && row.due.is_some_and(|due| due <= now);
    let claimer = more.claimer.filter(|_| is_due);
    let what = match commit {
        Commit::Released { .. } => Happened::Released,
        _ if more.is_move => Happened::Migrated,
        _ => Happened::Suspended,
    };
    let what = what.or(status);
    // One that goes on is in the same leg.
    let entry = (status != Status::Running).then(|| Entry::leg(&before, &row, what, &Entry::reason(&row, what)));
    if let Some(owner) = claimer {
        claim::take(&mut row, owner, now);
    }
    obsolete.extend(store(transaction, &before, &row, entry.as_ref())?);
    let committed = Committed { status, due, obsolete, undelivered: Vec::new() };
    Ok((committed, claimer.map(|_| claim::of(row))))
}
