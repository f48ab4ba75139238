//! Cancelling an invocation whose code is told, so that it ends by itself.
//!
//! ```text
//!   cancel ─┬─ it waits for CANCEL_EVENT ─▶ the event is in its mailbox ─▶ its code undoes what it has done, and ends ─▶ cancelled
//!           └─ it does not ──────────────▶ cancelled, and no code of it runs any more
//! ```
//!
//! There is an event for each instance that waits. The first of them has a key that no sender's has. So it is remembered once it was taken, and the
//! same again does not end what is being undone.

use super::encrypted::digest as kept_digest;
use super::{Sqlite, mail};
use crate::meta::MetaError;
use crate::{Invocation, InvocationId, Status};
use monohull_abi::event::CANCEL_EVENT;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;

/// The key of the first event. Those of senders have a byte and more.
const KEY: &str = "";

/// Tells an invocation that it is to end, if it waits for that; whether it is told now, or was before.
pub(super) fn tell(connection: &Connection, row: &Invocation, now: u64) -> Result<bool, MetaError> {
    // Of one that is paused nothing runs.
    if !matches!(row.status, Status::Suspended | Status::Running) {
        return Ok(false);
    }
    if told(connection, &row.id)?.is_some() {
        return Ok(true);
    }
    let waits = row.waits.iter().filter(|wait| wait.event.as_deref() == Some(CANCEL_EVENT));
    let waiting: BTreeSet<_> = waits.map(|wait| (&wait.step, wait.instance)).collect();
    if !waiting.is_empty() {
        mail::deliver_for_each(connection, &row.id, CANCEL_EVENT, (waiting.len(), KEY), now)?;
    }
    Ok(!waiting.is_empty())
}

impl Sqlite {
    /// Whether an invocation has been told to end, since it was taken back last.
    pub fn is_told_to_end(&self, id: &InvocationId) -> Result<bool, MetaError> {
        Ok(told(&self.connection, id)?.is_some())
    }
}

/// Whether one that has ended well was told to end, and has taken notice: its report says so (`reported`), or an earlier commit. A copy, or one that was
/// taken back to a checkpoint in which it had taken notice, has no event of that any more.
pub(super) fn has_obeyed(connection: &Connection, id: &InvocationId, reported: bool) -> Result<bool, MetaError> {
    Ok(reported || told(connection, id)?.is_some_and(|waits| !waits))
}

/// It has been taken back: what it was told then does not count.
pub(super) fn forget(connection: &Connection, id: &InvocationId) -> Result<(), MetaError> {
    let mut change = connection.prepare_cached("DELETE FROM mail WHERE invocation = ?1 AND name = ?2")?;
    change.execute(params![id.as_str(), CANCEL_EVENT])?;
    Ok(())
}

/// Whether it was told, and then whether the event still waits.
fn told(connection: &Connection, id: &InvocationId) -> Result<Option<bool>, MetaError> {
    let key = kept_digest(connection, "key", KEY.to_owned())?;
    let mut query =
        connection.prepare_cached("SELECT bytes IS NOT NULL FROM mail WHERE invocation = ?1 AND key = ?2")?;
    Ok(query.query_row(params![id.as_str(), key], |row| row.get(0)).optional()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::told::tests::{claim, claimed, one};
    use crate::{Checkpoint, Claim, Commit, Control, Controlled, History, Meta, Wait};

    /// Waits for an event, or for a time, with what it has taken.
    fn wait(meta: &mut Sqlite, claim: &Claim, event: Option<&str>, taken: Vec<u64>) {
        wait_in(meta, claim, &[(0, event)], taken);
    }

    /// The same of these instances.
    fn wait_in(meta: &mut Sqlite, claim: &Claim, instances: &[(u32, Option<&str>)], taken: Vec<u64>) {
        let wait = |(instance, event): &(u32, Option<&str>)| Wait {
            step: "s".to_owned(),
            instance: *instance,
            what: "a wait".to_owned(),
            until: None,
            event: event.map(str::to_owned),
        };
        let waits = instances.iter().map(wait).collect();
        let checkpoint = Checkpoint { file: format!("one.{}.checkpoint", claim.held.epoch), bytes: 1 };
        let commit =
            Commit::Suspended { checkpoint, parent: None, due: None, waits, taken, published: Default::default() };
        meta.commit(&claim.held, &commit, 5).expect("it is ours");
    }

    fn end(meta: &mut Sqlite, claim: &Claim, well: bool, cancelled: bool) -> Status {
        let ended = Commit::Ended { well, cancelled, report: b"{}".to_vec(), published: None };
        meta.commit(&claim.held, &ended, 6).expect("it is ours").status
    }

    fn cancel(meta: &mut Sqlite) -> Controlled {
        meta.control(&one(), Control::Cancel, 5).expect("done")
    }

    #[test]
    fn one_that_waits_for_it_is_told_once_and_ends_by_itself() {
        for (well, status) in [(true, Status::Cancelled), (false, Status::Failed)] {
            let (_folder, mut meta, first) = claimed();
            wait(&mut meta, &first, Some(CANCEL_EVENT), Vec::new());
            assert_eq!(cancel(&mut meta), Controlled::Told(Status::Suspended));
            assert_eq!(cancel(&mut meta), Controlled::Told(Status::Suspended));
            let next = claim(&mut meta);
            let mail = meta.mail(&next.held, 0).expect("it is ours");
            assert_eq!(mail.iter().map(|mail| mail.name.as_str()).collect::<Vec<_>>(), [CANCEL_EVENT]);
            // It waits once more while it undoes what it has done.
            wait(&mut meta, &next, None, vec![mail[0].number]);
            assert_eq!(cancel(&mut meta), Controlled::Told(Status::Suspended), "it is not disturbed");
            assert!(meta.is_told_to_end(&one()).expect("read"));
            meta.control(&one(), Control::Pause, 5).expect("done");
            meta.control(&one(), Control::Resume, 5).expect("done");
            wake(&mut meta);
            let last = claim(&mut meta);
            assert_eq!(cancel(&mut meta), Controlled::Told(Status::Running));
            assert_eq!(end(&mut meta, &last, well, false), status);
        }
    }

    #[test]
    fn each_instance_that_waits_for_it_is_told() {
        let (_folder, mut meta, first) = claimed();
        let told = Some(CANCEL_EVENT);
        wait_in(
            &mut meta,
            &first,
            &[(0, told), (0, Some("paid")), (1, Some("paid")), (2, told), (3, None)],
            Vec::new(),
        );
        assert_eq!(cancel(&mut meta), Controlled::Told(Status::Suspended));
        assert_eq!(cancel(&mut meta), Controlled::Told(Status::Suspended));
        let next = claim(&mut meta);
        let mail = meta.mail(&next.held, 0).expect("it is ours");
        assert_eq!(mail.iter().map(|mail| mail.name.as_str()).collect::<Vec<_>>(), [CANCEL_EVENT; 2]);
        // One of them undoes what it has done and waits, and the other has not run yet.
        wait_in(&mut meta, &next, &[(0, Some("refunded")), (2, told)], vec![mail[0].number]);
        assert_eq!(cancel(&mut meta), Controlled::Told(Status::Suspended), "it is not disturbed");
        let last = claim(&mut meta);
        assert_eq!(meta.mail(&last.held, 0).expect("it is ours"), mail[1..]);
        assert_eq!(end(&mut meta, &last, true, false), Status::Cancelled);
        assert_eq!(meta.mail_count(&one()).expect("read"), 0);
    }

    /// Makes it due.
    fn wake(meta: &mut Sqlite) {
        meta.connection.execute("UPDATE invocation SET due = 5", []).expect("written");
    }

    #[test]
    fn one_that_has_not_taken_notice_has_completed() {
        for (cancelled, status) in [(false, Status::Completed), (true, Status::Cancelled)] {
            let (_folder, mut meta, first) = claimed();
            wait(&mut meta, &first, Some(CANCEL_EVENT), Vec::new());
            wake(&mut meta);
            let next = claim(&mut meta);
            assert_eq!(cancel(&mut meta), Controlled::Told(Status::Running));
            assert_eq!(end(&mut meta, &next, true, cancelled), status);
            let row = meta.get(&one()).expect("read").expect("there");
            assert_eq!(row.report.as_deref(), Some(&b"{}"[..]));
        }
    }

    #[test]
    fn one_that_waits_for_something_else_is_paused_or_is_stopped_ends_at_once() {
        let waiting = |event| {
            let (folder, mut meta, first) = claimed();
            wait(&mut meta, &first, event, Vec::new());
            (folder, meta)
        };
        let (_folder, mut meta) = waiting(Some("paid"));
        assert_eq!(cancel(&mut meta), Controlled::Now(Status::Cancelled));
        let (_folder, mut meta) = waiting(Some(CANCEL_EVENT));
        meta.control(&one(), Control::Pause, 5).expect("done");
        assert_eq!(cancel(&mut meta), Controlled::Now(Status::Cancelled));
        let (_folder, mut meta) = waiting(Some(CANCEL_EVENT));
        assert_eq!(meta.control(&one(), Control::Stop, 5).expect("done"), Controlled::Now(Status::Cancelled));
    }

    #[test]
    fn one_that_is_taken_back_has_not_been_told() {
        let (_folder, mut meta, first) = claimed();
        wait(&mut meta, &first, Some(CANCEL_EVENT), Vec::new());
        cancel(&mut meta);
        let next = claim(&mut meta);
        let number = meta.mail(&next.held, 0).expect("it is ours")[0].number;
        wait(&mut meta, &next, Some("paid"), vec![number]);
        meta.rewind(&one(), 1, false, 5).expect("done");
        assert_eq!(meta.mail_count(&one()).expect("read"), 0);
        assert_eq!(cancel(&mut meta), Controlled::Told(Status::Suspended));
        let told = claim(&mut meta);
        assert_eq!(meta.mail(&told.held, 0).expect("it is ours").len(), 1, "it is told anew");
    }
}
