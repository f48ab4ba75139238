//! Callbacks that were waited for, and are not any more: an answer to one comes too late.
//!
//! A token is noted in the transaction in which its wait ends, whatever ends it. So it costs those alone that wait for callbacks, and once for each.

use super::Sqlite;
use crate::meta::MetaError;
use crate::{Invocation, InvocationId};
use monohull_abi::callback::is_token;
use rusqlite::{Connection, params};

pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS late (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id     TEXT    NOT NULL,
        token  TEXT    NOT NULL,
        UNIQUE (id, token)
    ) STRICT;
";

/// As many are remembered for each invocation.
const REMEMBERED: u32 = 1000;

impl Sqlite {
    /// Whether an invocation has waited for a callback, as far as that is remembered, and the wait has ended at least once.
    pub fn was_waited_for(&self, id: &InvocationId, token: &str) -> Result<bool, MetaError> {
        let query = "SELECT EXISTS (SELECT 1 FROM late WHERE id = ?1 AND token = ?2)";
        Ok(self.connection.prepare_cached(query)?.query_row([id.as_str(), token], |row| row.get(0))?)
    }
}

/// Notes the callbacks that an invocation waits for no longer.
pub(super) fn note(connection: &Connection, before: &Invocation, row: &Invocation) -> Result<(), MetaError> {
    let waits = |row: &Invocation, token: &str| row.waits.iter().any(|wait| wait.event.as_deref() == Some(token));
    let waited_for = before.waits.iter().filter_map(|wait| wait.event.as_deref());
    let mut has_noted = false;
    for token in waited_for.filter(|event| is_token(event) && !waits(row, event)) {
        connection
            .prepare_cached("INSERT OR IGNORE INTO late (id, token) VALUES (?1, ?2)")?
            .execute([row.id.as_str(), token])?;
        has_noted = true;
    }
    if has_noted {
        connection
            .prepare_cached(
                "DELETE FROM late WHERE id = ?1 AND number <= \
                 (SELECT number FROM late WHERE id = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)",
            )?
            .execute(params![row.id.as_str(), REMEMBERED])?;
    }
    Ok(())
}

/// Removes what is remembered of an invocation that is removed.
pub(super) fn remove(connection: &Connection, id: &InvocationId) -> Result<(), MetaError> {
    connection.prepare_cached("DELETE FROM late WHERE id = ?1")?.execute([id.as_str()])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::told::tests::{claim, claimed, one};
    use crate::{Branched, Checkpoint, Claim, Commit, Control, History, Meta, NewMail, Sent, Wait};

    fn token(number: u128) -> String {
        format!("callback-{number:032x}")
    }

    /// Waits for these events, and is due at once.
    fn wait(meta: &mut Sqlite, claim: &Claim, events: &[String]) {
        let wait = |event: &String| {
            let (step, what, event) = ("s".to_owned(), "an event".to_owned(), Some(event.clone()));
            Wait { step, instance: 0, what, until: Some(5), event }
        };
        let checkpoint = Checkpoint { file: format!("one.{}.checkpoint", claim.held.epoch), bytes: 1 };
        let (waits, taken, published) = (events.iter().map(wait).collect(), Vec::new(), Default::default());
        let commit = Commit::Suspended { checkpoint, parent: None, due: Some(5), waits, taken, published };
        meta.commit(&claim.held, &commit, 5).expect("it is ours");
    }

    #[test]
    fn what_is_waited_for_no_longer_is_remembered_until_the_invocation_is_removed() {
        let (_folder, mut meta, first) = claimed();
        let is_late = |meta: &Sqlite, number| meta.was_waited_for(&one(), &token(number)).expect("asked");
        wait(&mut meta, &first, &[token(1), "paid".to_owned()]);
        let next = claim(&mut meta);
        // Its time was over, and it waits again.
        wait(&mut meta, &next, &[token(1), token(2)]);
        assert!(!is_late(&meta, 1) && !is_late(&meta, 2));
        let next = claim(&mut meta);
        wait(&mut meta, &next, &[token(2)]);
        assert!(is_late(&meta, 1) && !is_late(&meta, 2));
        // Taken back to where it waits for the first one alone, which ends the other wait.
        assert_eq!(meta.rewind(&one(), 1, false, 5).expect("done"), Branched::Done(4));
        assert!(is_late(&meta, 1) && is_late(&meta, 2));
        meta.control(&one(), Control::Cancel, 6).expect("done");
        assert!(is_late(&meta, 1) && is_late(&meta, 2) && !is_late(&meta, 3));
        assert!(!meta.was_waited_for(&one(), "paid").expect("asked"), "it is no callback");
        assert!(meta.purge(&one(), 7).expect("removed"));
        assert!(!is_late(&meta, 1) && !is_late(&meta, 2));
    }

    #[test]
    fn a_callback_is_answered_again_by_one_that_was_taken_back_to_its_wait() {
        let (_folder, mut meta, first) = claimed();
        let answer = |meta: &mut Sqlite, what: &[u8]| {
            let token = token(1);
            let mail = NewMail::new(&token, what, Some(&token)).expect("an event");
            meta.send(&one(), &mail, 5).expect("sent")
        };
        wait(&mut meta, &first, &[token(1)]);
        assert_eq!(answer(&mut meta, b"yes"), Sent::New);
        let next = claim(&mut meta);
        let taken: Vec<u64> = meta.given(&next.held).expect("read").iter().map(|mail| mail.number).collect();
        let commit = |claim: &Claim, taken: Vec<u64>| {
            let checkpoint = Checkpoint { file: format!("one.{}.checkpoint", claim.held.epoch), bytes: 1 };
            let (waits, published) = (Vec::new(), Default::default());
            Commit::Suspended { checkpoint, parent: None, due: Some(5), waits, taken, published }
        };
        meta.commit(&next.held, &commit(&next, taken), 5).expect("it is ours");
        assert_eq!([answer(&mut meta, b"yes"), answer(&mut meta, b"no")], [Sent::Duplicate, Sent::KeyTaken]);
        meta.rewind(&one(), 1, false, 5).expect("done");
        assert_eq!(answer(&mut meta, b"no"), Sent::New);
        assert_eq!([answer(&mut meta, b"no"), answer(&mut meta, b"yes")], [Sent::Duplicate, Sent::KeyTaken]);
        // An answer that it has not taken stays.
        meta.rewind(&one(), 1, false, 5).expect("done");
        assert_eq!(answer(&mut meta, b"yes"), Sent::KeyTaken);
    }

    #[test]
    fn the_last_of_them_are_remembered() {
        let (_folder, mut meta, mut next) = claimed();
        let all: Vec<String> = (0..=u128::from(REMEMBERED)).map(token).collect();
        wait(&mut meta, &next, &all);
        next = claim(&mut meta);
        wait(&mut meta, &next, &[]);
        let late: Vec<bool> = [0, 1, 1000].map(|n| meta.was_waited_for(&one(), &token(n)).expect("asked")).into();
        assert_eq!(late, [false, true, true]);
    }
}
