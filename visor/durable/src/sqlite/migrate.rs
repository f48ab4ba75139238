//! Invocations that are moved to another version of their workflow.
//!
//! ```text
//!   suspended | paused ─ claim_to_move ─▶ running: its beginning in the new version is tried
//!        ▲                                   │
//!        ├───────────── give_back ───────────┤   it has failed, or was only a trial: all is as it was
//!        └───────────── commit_moved ────────┘   it waits or has ended: start, checkpoint and history are those of the new version
//! ```
//!
//! Until the commit the row is that of an invocation which runs: if the process that tries dies, it goes on as before, in the version before.

use super::{
    BY_HAND, More, Sqlite, children, claim, commit_in, find, history, mail, outbox, purge, served, store, undelivered,
};
use crate::meta::{Claim, Commit, Committed, Held, MetaError};
use crate::served::Left;
use crate::{Before, Entry, Happened, Invocation, InvocationId, Moving, Status};
use rusqlite::params;

impl Sqlite {
    /// Claims an invocation that waits, whether it is due or not. It is no attempt of the version that it is in.
    pub fn claim_to_move(&mut self, owner: &str, id: &InvocationId, now: u64) -> Result<Moving, MetaError> {
        let transaction = self.begin()?;
        let Some(kept) = find(&transaction, id)? else { return Ok(Moving::Unknown) };
        match kept.status {
            Status::Pending | Status::Paused if kept.checkpoint.is_none() => {
                return Ok(Moving::NotBegun(Box::new(kept)));
            }
            Status::Suspended | Status::Paused => {}
            status => return Ok(Moving::Refused(status)),
        }
        let mut row = kept.clone();
        let was_paused = row.status == Status::Paused;
        let before = Before { due: row.due, reason: row.reason.clone(), was_paused };
        row.status = Status::Running;
        row.changed = now;
        row.epoch += 1;
        row.owner = Some(owner.to_owned());
        row.began = Some(now);
        // It stays paused, whatever comes of it.
        row.wanted = was_paused.then_some(Status::Paused);
        store(&transaction, &kept, &row, None)?;
        transaction.commit()?;
        let claim = Claim { attempt: 1, ..claim::of(row) };
        Ok(Moving::Claimed(Box::new(claim), before))
    }

    /// Makes a claimed invocation one that was started with `start`, and has come so far in it: it waits, or has ended. Its earlier checkpoints go.
    pub fn commit_moved(
        &mut self,
        held: &Held,
        start: &[u8],
        commit: &Commit,
        left: &Left,
        now: u64,
    ) -> Result<Committed, MetaError> {
        let transaction = self.begin()?;
        super::held_row(&transaction, held)?;
        let id = held.id.as_str();
        transaction
            .prepare_cached("UPDATE invocation SET start = encrypted(?2, 'start', ?1) WHERE id = ?1")?
            .execute(params![id, start])?;
        let earlier = history::forget(&transaction, &held.id)?;
        if let Commit::Ended { well, .. } = commit {
            children::prepare(&transaction, &held.id, *well, &left.outcome)?;
        }
        let more = More { content: left.unsynced.as_ref(), is_move: true, ..More::default() };
        let (mut committed, _) = commit_in(&transaction, held, commit, more, now)?;
        committed.obsolete.extend(earlier);
        served::leave(&transaction, &held.id, left, committed.status.is_end())?;
        purge::make_room(&transaction, &held.id, &left.sent)?;
        committed.undelivered = outbox::send(&transaction, &held.id, &left.sent, now)?;
        undelivered::add(&transaction, &held.id, &committed.undelivered, now)?;
        transaction.commit()?;
        Ok(committed)
    }

    /// Makes a claimed invocation what it was before, unless something else was asked of it meanwhile: what it is now.
    pub fn give_back(&mut self, held: &Held, before: &Before, now: u64) -> Result<Status, MetaError> {
        let transaction = self.begin()?;
        let kept = super::held_row(&transaction, held)?;
        let mut row = kept.clone();
        row.changed = now;
        row.owner = None;
        row.began = None;
        row.due = before.due;
        row.status = row.waiting_status();
        row.reason = None;
        let mut asked = None;
        match row.wanted.take() {
            Some(Status::Paused) if before.was_paused => {
                row.status = Status::Paused;
                row.reason.clone_from(&before.reason);
            }
            Some(wanted) => {
                row.status = wanted;
                row.reason = Some(BY_HAND.to_owned());
                asked = Some(Happened::Resumed.or(wanted));
            }
            // It was resumed, and has all its attempts again.
            None if before.was_paused => {
                row.attempts = 0;
                asked = Some(Happened::Resumed);
            }
            None => row.reason.clone_from(&before.reason),
        }
        // An event that it waits for may have come.
        mail::take(&transaction, &mut row, &[], now)?;
        row.leave_out();
        let entry = asked.map(|what| Entry::done(&row, what, &Entry::reason(&row, what)));
        // Files that are not needed any more are swept.
        store(&transaction, &kept, &row, entry.as_ref())?;
        transaction.commit()?;
        Ok(row.status)
    }

    /// Makes an invocation that has not begun one that was started with `start`; whether it is as it was when it was looked at.
    pub fn replace_start(&mut self, looked_at: &Invocation, start: &[u8], now: u64) -> Result<bool, MetaError> {
        let transaction = self.begin()?;
        let row = find(&transaction, &looked_at.id)?;
        let is_same = row.is_some_and(|row| {
            (row.status, row.epoch, row.checkpoint, row.start)
                == (looked_at.status, looked_at.epoch, None, looked_at.start.clone())
        });
        if is_same {
            transaction
                .prepare_cached("UPDATE invocation SET start = encrypted(?2, 'start', ?1), changed = ?3 WHERE id = ?1")?
                .execute(params![looked_at.id.as_str(), start, super::integer(now)])?;
            transaction.commit()?;
        }
        Ok(is_same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Checkpoint, Claimed, Control, Controlled, History, Meta, NewInvocation, NewMail, Started, Store, Wait, Want,
    };
    use std::collections::BTreeMap;
    use tempfile::TempDir;

    struct Fixture {
        _folder: TempDir,
        meta: Sqlite,
        id: InvocationId,
    }

    fn suspended(file: &str, due: Option<u64>, taken: Vec<u64>) -> Commit {
        let checkpoint = Checkpoint { file: file.to_owned(), bytes: 1 };
        let (step, what) = ("s".to_owned(), "an event".to_owned());
        let waits = vec![Wait { step, instance: 0, what, until: due, event: Some("paid".to_owned()) }];
        let published = BTreeMap::from([("file".to_owned(), file.to_owned())]);
        Commit::Suspended { checkpoint, parent: None, due, waits, taken, published }
    }

    /// One that has been suspended twice, and waits for an event until 9.
    fn waiting() -> Fixture {
        let folder = TempDir::new().expect("a folder");
        let mut meta = Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a new one");
        let id: InvocationId = "one".parse().expect("a name");
        let new = NewInvocation { id: &id, workflow: "w", start: b"old", due: 1 };
        assert_eq!(meta.start(&new, 1).expect("done"), Started::New);
        for (file, due) in [("a", 2), ("b", 9)] {
            let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Due, 3) else { panic!("it is due") };
            meta.commit(&claim.held, &suspended(file, Some(due), Vec::new()), 3).expect("done");
        }
        Fixture { _folder: folder, meta, id }
    }

    impl Fixture {
        fn row(&self) -> Invocation {
            self.meta.get(&self.id).expect("read").expect("there")
        }

        fn claim(&mut self) -> (Claim, Before) {
            match self.meta.claim_to_move("o", &self.id, 4).expect("done") {
                Moving::Claimed(claim, before) => (*claim, before),
                other => panic!("{other:?}"),
            }
        }

        fn send(&mut self) {
            let mail = NewMail::new("paid", b"1", None).expect("an event");
            self.meta.send(&self.id, &mail, 5).expect("sent");
        }
    }

    #[test]
    fn what_was_tried_in_vain_is_as_it_was() {
        let mut one = waiting();
        let before = one.row();
        let (claim, given) = one.claim();
        assert_eq!((claim.generation, claim.published["file"].as_str()), (2, "b"));
        assert_eq!((one.row().status, one.row().attempts), (Status::Running, before.attempts));
        assert!(matches!(one.meta.claim_to_move("p", &one.id, 4), Ok(Moving::Refused(Status::Running))));
        assert_eq!(one.meta.give_back(&claim.held, &given, 4).expect("done"), Status::Suspended);
        assert_eq!(one.row(), Invocation { epoch: before.epoch + 1, changed: 4, ..before.clone() });
        assert!(matches!(one.meta.give_back(&claim.held, &given, 4), Err(MetaError::Stale(_))));
        // The process that tries it dies.
        one.claim();
        one.meta.expire("o", 5).expect("done");
        let entries = before.entries + 1;
        assert_eq!(one.row(), Invocation { epoch: before.epoch + 2, changed: 5, entries, ..before });
    }

    #[test]
    fn what_has_come_so_far_has_another_start_and_no_earlier_checkpoints() {
        let mut one = waiting();
        one.send();
        let (claim, given) = one.claim();
        let mail = one.meta.mail(&claim.held, 0).expect("read");
        let commit = suspended("c", None, vec![mail[0].number]);
        let committed = one.meta.commit_moved(&claim.held, b"new", &commit, &Left::default(), 6).expect("done");
        assert_eq!(committed.status, Status::Suspended);
        assert_eq!(committed.obsolete.iter().map(|checkpoint| &*checkpoint.file).collect::<Vec<_>>(), ["a", "b"]);
        let row = one.row();
        assert_eq!((&*row.start, row.generation, row.due, row.attempts), (&b"new"[..], 3, None, 0));
        let history = one.meta.history(&one.id).expect("read");
        assert_eq!(history.iter().map(|kept| kept.generation).collect::<Vec<_>>(), [3]);
        assert_eq!(one.meta.mail_count(&one.id).expect("read"), 0);
        let stale = one.meta.commit_moved(&claim.held, b"newer", &commit, &Left::default(), 7);
        assert!(matches!(stale, Err(MetaError::Stale(_))) && one.row() == row);
        assert!(matches!(one.meta.give_back(&claim.held, &given, 7), Err(MetaError::Stale(_))) && one.row() == row);
    }

    #[test]
    fn what_is_paused_stays_so_and_what_is_asked_meanwhile_is_done() {
        let mut one = waiting();
        one.meta.control(&one.id, Control::Pause, 3).expect("done");
        let (claim, given) = one.claim();
        assert_eq!(one.meta.give_back(&claim.held, &given, 4).expect("done"), Status::Paused);
        let (claim, _) = one.claim();
        one.meta.expire("o", 5).expect("done");
        assert!(matches!(one.meta.mail(&claim.held, 0), Err(MetaError::Stale(_))));
        assert_eq!(one.row().status, Status::Paused);
        let (claim, given) = one.claim();
        one.meta.control(&one.id, Control::Resume, 5).expect("done");
        one.send();
        assert_eq!(one.meta.give_back(&claim.held, &given, 6).expect("done"), Status::Suspended);
        assert_eq!((one.row().due, one.row().reason), (Some(6), None), "it goes on with the event that has come");
        let (claim, _) = one.claim();
        let asked = one.meta.control(&one.id, Control::Pause, 7).expect("done");
        assert_eq!(asked, Controlled::AtNextCommit(Status::Paused));
        let commit = suspended("c", None, Vec::new());
        let committed = one.meta.commit_moved(&claim.held, b"new", &commit, &Left::default(), 8).expect("done");
        assert_eq!((committed.status, &*one.row().start), (Status::Paused, &b"new"[..]));
        let (claim, given) = one.claim();
        one.meta.control(&one.id, Control::Cancel, 9).expect("done");
        assert_eq!(one.meta.give_back(&claim.held, &given, 9).expect("done"), Status::Cancelled);
        assert!(matches!(one.meta.claim_to_move("o", &one.id, 9), Ok(Moving::Refused(Status::Cancelled))));
    }

    #[test]
    fn what_has_not_begun_has_another_start_at_once() {
        let folder = TempDir::new().expect("a folder");
        let mut meta = Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a new one");
        let id: InvocationId = "one".parse().expect("a name");
        assert!(matches!(meta.claim_to_move("o", &id, 1), Ok(Moving::Unknown)));
        let new = NewInvocation { id: &id, workflow: "w", start: b"old", due: 5 };
        meta.start(&new, 1).expect("done");
        let Ok(Moving::NotBegun(row)) = meta.claim_to_move("o", &id, 1) else { panic!("it has not begun") };
        assert!(meta.replace_start(&row, b"new", 2).expect("done"));
        assert!(!meta.replace_start(&row, b"newer", 3).expect("done"), "it is not as it was");
        let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Due, 5) else { panic!("it is due") };
        assert_eq!(claim.start, b"new");
    }
}
