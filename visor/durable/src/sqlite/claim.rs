//! Claims.
//!
//! What has a checkpoint, or may begin again, is claimed without waiting for the disk. If the machine stops before the next transaction that waits, it
//! is as if there had been no claim: the invocation goes on from the same place, and no process is left that has the epoch. What is run once at most
//! is run when the disk has its claim, and so is another attempt after one that has failed: that it was made is not to be lost with the machine,
//! if it is what stops the machine.

use super::{CLAIMABLE, Sqlite, integer, number, one, store};
use crate::meta::{ATTEMPTS, Claim, Claimed, Held, MetaError, Want};
use crate::{Entry, Happened, Invocation, Status, Woken};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

impl Sqlite {
    /// Says what may begin again, by what it was started with. Without that nothing may.
    pub fn begins_again(&mut self, start: fn(&[u8]) -> bool) {
        self.begins_again = start;
    }

    /// The claim of [`Meta`](crate::Meta).
    pub(super) fn claim_one(&mut self, owner: &str, want: Want<'_>, now: u64) -> Result<Claimed, MetaError> {
        if !self.is_shared {
            match self.goes_on(want, now)? {
                None => return Ok(Claimed::Nothing),
                Some(false) => {}
                Some(true) => {
                    let claimed = self.claim_relaxed(owner, want, now);
                    self.wait_for_disk(true)?;
                    if let Some(claimed) = claimed? {
                        return Ok(claimed);
                    }
                }
            }
        }
        let transaction = self.begin()?;
        let claimed = claim_in(&transaction, owner, want, now)?;
        transaction.commit()?;
        Ok(claimed)
    }

    /// Claims those that are due first, in one transaction: one, and others as long as `another` says so. It is asked when there is one more. What
    /// has to wait for the disk is claimed alone.
    pub fn claim_due(
        &mut self,
        owner: &str,
        now: u64,
        another: impl FnMut() -> bool,
    ) -> Result<Vec<Claimed>, MetaError> {
        if !self.is_shared && self.goes_on(Want::Due, now)? == Some(true) {
            let claimed = self.claim_several(owner, now, another);
            self.wait_for_disk(true)?;
            let claimed = claimed?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
        }
        Ok(match self.claim_one(owner, Want::Due, now)? {
            Claimed::Nothing => Vec::new(),
            claimed => vec![claimed],
        })
    }

    fn claim_several(
        &mut self,
        owner: &str,
        now: u64,
        mut another: impl FnMut() -> bool,
    ) -> Result<Vec<Claimed>, MetaError> {
        self.wait_for_disk(false)?;
        let begins_again = self.begins_again;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut claimed = Vec::new();
        while goes_on(&transaction, begins_again, Want::Due, now)? == Some(true) && (claimed.is_empty() || another()) {
            let next = claim_in(&transaction, owner, Want::Due, now)?;
            // The one that was looked at may be damaged, and this is another one.
            if matches!(&next, Claimed::Yes(claim) if !may_be_lost(claim, begins_again)) {
                return Ok(Vec::new());
            }
            claimed.push(next);
        }
        transaction.commit()?;
        Ok(claimed)
    }

    fn goes_on(&self, want: Want<'_>, now: u64) -> Result<Option<bool>, MetaError> {
        goes_on(&self.connection, self.begins_again, want, now)
    }

    /// A claim that does not wait for the disk; `None` if it has to after all.
    fn claim_relaxed(&mut self, owner: &str, want: Want<'_>, now: u64) -> Result<Option<Claimed>, MetaError> {
        self.wait_for_disk(false)?;
        let begins_again = self.begins_again;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let claimed = claim_in(&transaction, owner, want, now)?;
        if matches!(&claimed, Claimed::Yes(claim) if !may_be_lost(claim, begins_again)) {
            return Ok(None);
        }
        transaction.commit()?;
        Ok(Some(claimed))
    }
}

/// Whether a claim may be lost with the machine.
fn may_be_lost(claim: &Claim, begins_again: fn(&[u8]) -> bool) -> bool {
    claim.attempt == 1 && (claim.checkpoint.is_some() || begins_again(&claim.start))
}

/// Whether what would be claimed may be claimed more than once; `None` if there is nothing.
fn goes_on(
    connection: &Connection,
    begins_again: fn(&[u8]) -> bool,
    want: Want<'_>,
    now: u64,
) -> Result<Option<bool>, MetaError> {
    let columns = "SELECT checkpoint IS NOT NULL, attempts = 0, decrypted(start, 'start', id) FROM invocation";
    let read = |row: &Row<'_>| {
        let (has_checkpoint, is_first): (bool, bool) = (row.get(0)?, row.get(1)?);
        Ok(is_first && (has_checkpoint || begins_again(row.get_ref(2)?.as_blob()?)))
    };
    let found = match want {
        Want::Due => {
            let query = format!("{columns} WHERE {CLAIMABLE} AND due <= ?1 ORDER BY due, id LIMIT 1");
            connection.prepare_cached(&query)?.query_row([integer(now)], read).optional()
        }
        Want::Id(id) => {
            let query = format!("{columns} WHERE {CLAIMABLE} AND due <= ?1 AND id = ?2");
            let values = params![integer(now), id.as_str()];
            connection.prepare_cached(&query)?.query_row(values, read).optional()
        }
    };
    match found.map_err(MetaError::from) {
        // The claim says which it is.
        Err(error) if error.is_damage() => Ok(Some(false)),
        found => found,
    }
}

/// Makes an owner the one that runs an invocation which is due.
pub(super) fn claim_in(transaction: &Connection, owner: &str, want: Want<'_>, now: u64) -> Result<Claimed, MetaError> {
    let found = match want {
        Want::Due => {
            let first = format!("WHERE {CLAIMABLE} AND due <= ?1 ORDER BY due, id LIMIT 1");
            one(transaction, &first, params![integer(now)])
        }
        Want::Id(id) => {
            let this = format!("WHERE {CLAIMABLE} AND due <= ?1 AND id = ?2");
            one(transaction, &this, params![integer(now), id.as_str()])
        }
    };
    let found = match found {
        // The others go on.
        Err(MetaError::Damaged { id, what }) => {
            pause_damaged(transaction, &id, what, now)?;
            // A damaged name is none that can be told.
            return id.parse().map_or_else(|_| claim_in(transaction, owner, want, now), |id| Ok(Claimed::Paused(id)));
        }
        found => found?,
    };
    let Some(before) = found else { return Ok(Claimed::Nothing) };
    let mut found = before.clone();
    found.changed = now;
    if found.attempts >= ATTEMPTS {
        found.status = Status::Paused;
        found.reason = Some(format!("{ATTEMPTS} attempts ended before its next wait or its end"));
        let entry = Entry::done(&found, Happened::Paused, &Entry::reason(&found, Happened::Paused));
        store(transaction, &before, &found, Some(&entry))?;
        return Ok(Claimed::Paused(found.id));
    }
    take(&mut found, owner, now);
    store(transaction, &before, &found, None)?;
    Ok(Claimed::Yes(Box::new(of(found))))
}

/// Makes a row one that this owner runs.
pub(super) fn take(row: &mut Invocation, owner: &str, now: u64) {
    row.status = Status::Running;
    row.epoch += 1;
    row.attempts += 1;
    row.owner = Some(owner.to_owned());
    row.began = Some(now);
    row.woken = Some(Woken::of(row));
}

/// The claim of a row that was taken.
pub(super) fn of(row: Invocation) -> Claim {
    Claim {
        held: Held { id: row.id, epoch: row.epoch },
        workflow: row.workflow,
        generation: row.generation,
        checkpoint: row.checkpoint,
        start: row.start,
        published: row.published,
        attempt: row.attempts,
    }
}

/// Pauses an invocation whose row has a wrong value, and that no process runs. What else its row has stays as it is.
pub(super) fn pause_damaged(connection: &Connection, id: &str, what: &'static str, now: u64) -> Result<(), MetaError> {
    let damaged = MetaError::Damaged { id: id.to_owned(), what };
    connection.execute(
        "UPDATE invocation SET status = ?2, changed = ?3, reason = ?4, owner = NULL WHERE id = ?1",
        params![id, number(Status::Paused), integer(now), damaged.to_string()],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checkpoint, Commit, Control, InvocationId, Left, Meta, NewInvocation, Store};
    use tempfile::TempDir;

    fn meta() -> (TempDir, Sqlite) {
        let folder = TempDir::new().expect("a folder");
        let store = Store::open_served(folder.path(), None).expect("a new one");
        let mut meta = store.meta().expect("a database");
        let new = NewInvocation { id: &one(), workflow: "w", start: b"start", due: 1 };
        meta.start(&new, 1).expect("started");
        (folder, meta)
    }

    fn one() -> InvocationId {
        "one".parse().expect("a name")
    }

    fn claim(meta: &mut Sqlite) -> Claim {
        match meta.claim("o", Want::Due, 5) {
            Ok(Claimed::Yes(claim)) => *claim,
            other => panic!("it is due: {other:?}"),
        }
    }

    fn waits_until(due: u64, generation: u64) -> Commit {
        let checkpoint = Checkpoint { file: format!("one.{generation}.checkpoint"), bytes: 1 };
        let (waits, taken, published) = (Vec::new(), Vec::new(), Default::default());
        Commit::Suspended { checkpoint, parent: None, due: Some(due), waits, taken, published }
    }

    /// Whether its transactions wait for the disk.
    fn waits_for_disk(meta: &Sqlite) -> bool {
        let full = meta.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0)).expect("asked");
        full == 2 && !meta.is_relaxed
    }

    #[test]
    fn whatever_is_claimed_the_next_transaction_waits_for_the_disk() {
        let (_folder, mut meta) = meta();
        let first = claim(&mut meta);
        assert!(first.checkpoint.is_none() && waits_for_disk(&meta));
        meta.commit(&first.held, &waits_until(5, 1), 5).expect("it is ours");
        let next = claim(&mut meta);
        assert!(next.checkpoint.is_some() && waits_for_disk(&meta));
        assert!(matches!(meta.claim("o", Want::Due, 5), Ok(Claimed::Nothing)) && waits_for_disk(&meta));
        // One that was given up in its midst.
        meta.wait_for_disk(false).expect("done");
        assert!(!waits_for_disk(&meta));
        meta.commit(&next.held, &waits_until(5, 2), 5).expect("it is ours");
        assert!(waits_for_disk(&meta));
        meta.wait_for_disk(false).expect("done");
        meta.together(&mut [|meta: &mut Sqlite| assert_eq!(claim(meta).generation, 2)]).expect("done");
        assert!(waits_for_disk(&meta));
    }

    #[test]
    fn what_may_begin_again_is_claimed_without_the_disk_and_what_may_not_is_not() {
        let (_folder, mut meta) = meta();
        assert_eq!(meta.goes_on(Want::Due, 0).expect("asked"), None, "it is not due");
        assert_eq!(meta.goes_on(Want::Due, 1).expect("asked"), Some(false));
        assert!(meta.claim_relaxed("o", Want::Due, 1).expect("asked").is_none());
        assert_eq!(meta.get(&one()).expect("read").expect("there").status, Status::Pending, "nothing has happened");
        meta.begins_again(|start| start == b"start");
        assert_eq!(meta.goes_on(Want::Id(&one()), 1).expect("asked"), Some(true));
        assert!(claim(&mut meta).checkpoint.is_none() && waits_for_disk(&meta));
    }

    #[test]
    fn those_that_are_due_are_claimed_together_as_far_as_they_may_be() {
        let (folder, mut meta) = meta();
        meta.begins_again(|start| start == b"start");
        for (name, due) in [("a", 2), ("b", 3), ("c", 4), ("d", 9)] {
            let id: InvocationId = name.parse().expect("a name");
            let start: &[u8] = if name == "c" { b"once" } else { b"start" };
            meta.start(&NewInvocation { id: &id, workflow: "w", start, due }, 1).expect("started");
        }
        let names = |claimed: Vec<Claimed>| -> Vec<String> {
            let name = |claimed: Claimed| match claimed {
                Claimed::Yes(claim) => claim.held.id.to_string(),
                other => format!("{other:?}"),
            };
            claimed.into_iter().map(name).collect()
        };
        let mut asked = 0;
        let two = meta.claim_due("o", 5, || {
            asked += 1;
            asked < 2
        });
        assert_eq!((names(two.expect("claimed")), asked), (vec!["one".to_owned(), "a".to_owned()], 2));
        assert!(waits_for_disk(&meta));
        // What may not begin again is claimed by itself, and there the others end.
        assert_eq!(names(meta.claim_due("o", 5, || true).expect("claimed")), ["b"]);
        assert_eq!(names(meta.claim_due("o", 5, || true).expect("claimed")), ["c"]);
        assert_eq!(names(meta.claim_due("o", 5, || true).expect("claimed")), [""; 0]);
        let other = Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a database");
        let running = other.list(&[Status::Running], "", 10).expect("read");
        assert_eq!(running.len(), 4, "the others see it");
    }

    #[test]
    fn what_is_due_by_its_commit_is_claimed_in_it() {
        let (folder, mut meta) = meta();
        let other = Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a database");
        let first = claim(&mut meta);
        let left = Left::default();
        let (committed, next) =
            meta.commit_and_claim(&first.held, &waits_until(5, 1), &left, "o", 5).expect("it is ours");
        let next = next.expect("it is due");
        assert_eq!((committed.status, next.generation, next.attempt), (Status::Suspended, 1, 1));
        assert_eq!(next.held.epoch, first.held.epoch + 1);
        let row = other.get(&one()).expect("read").expect("there");
        assert_eq!((row.status, row.owner.as_deref()), (Status::Running, Some("o")));
        let stale = meta.commit_and_claim(&first.held, &waits_until(5, 2), &left, "o", 5);
        assert!(matches!(stale, Err(MetaError::Stale(_))), "{stale:?}");
        // One that is due later is not, and one that was paused meanwhile.
        let (_, later) = meta.commit_and_claim(&next.held, &waits_until(9, 2), &left, "o", 6).expect("it is ours");
        assert!(later.is_none());
        let Ok(Claimed::Yes(last)) = meta.claim("o", Want::Due, 9) else { panic!("it is due") };
        meta.control(&one(), Control::Pause, 9).expect("done");
        let (committed, paused) =
            meta.commit_and_claim(&last.held, &waits_until(9, 3), &left, "o", 9).expect("it is ours");
        assert_eq!((committed.status, paused.is_none()), (Status::Paused, true));
    }

    #[test]
    fn a_log_that_was_made_longer_is_a_log() {
        let (folder, mut meta) = meta();
        let bytes = || std::fs::metadata(folder.path().join("meta.sqlite-wal")).expect("a log").len();
        meta.lengthen_log().expect("there is room");
        let long = bytes();
        assert!(long > 3 << 20, "{long}");
        let held = claim(&mut meta).held;
        meta.commit(&held, &waits_until(9, 1), 5).expect("it is ours");
        assert_eq!(bytes(), long);
        // As it is after a kill.
        let copy = TempDir::new().expect("a folder");
        for name in ["meta.sqlite", "meta.sqlite-wal"] {
            std::fs::copy(folder.path().join(name), copy.path().join(name)).expect("copied");
        }
        let there = Store::open_served(copy.path(), None).and_then(|store| store.meta()).expect("a database");
        assert_eq!(there.get(&one()).expect("read"), meta.get(&one()).expect("read"));
        there.check(u64::MAX).expect("it is whole");
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'undone'";
        let undone: i64 = there.connection.query_row(tables, [], |row| row.get(0)).expect("asked");
        assert_eq!(undone, 0);
    }
}
