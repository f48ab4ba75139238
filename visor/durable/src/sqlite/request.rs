//! Requests with keys: what was forked or taken back, so that the same request again does nothing twice.
//!
//! A key is noted in the transaction that does what is asked for. One that could not be done is not noted.

use super::encrypted::digest as kept_digest;
use super::{Sqlite, history, integer, purge, time};
use crate::history::{Branched, Copied, Fork, Once, REQUESTS_KEPT, Request};
use crate::meta::MetaError;
use crate::{History, InvocationId};
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

/// `generation` is what the request has led to: the one that was copied, or the new one.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS request (
        number     INTEGER PRIMARY KEY AUTOINCREMENT,
        id         TEXT    NOT NULL,
        key        TEXT    NOT NULL,
        digest     BLOB    NOT NULL,
        generation INTEGER NOT NULL,
        UNIQUE (id, key)
    ) STRICT;
";

impl Sqlite {
    /// Whether a request was made before, as far as that is remembered.
    pub fn requested(&self, id: &InvocationId, request: Request<'_>) -> Result<Once<()>, MetaError> {
        find(&self.connection, id, request)
    }

    /// [`History::fork`], unless this request was made before. Without a request it is that.
    pub fn fork_once(
        &mut self,
        fork: Fork<'_>,
        request: Option<Request<'_>>,
        now: u64,
    ) -> Result<Once<Branched<Vec<Copied>>>, MetaError> {
        let transaction = self.begin()?;
        match request.map(|request| find(&transaction, fork.id, request)).transpose()? {
            None | Some(Once::Now(())) => {}
            Some(Once::Before(generation)) => return Ok(Once::Before(generation)),
            Some(Once::KeyTaken) => return Ok(Once::KeyTaken),
        }
        if let Branched::Done((row, kept)) = history::branch(&transaction, fork.id, fork.at)? {
            purge::make_room_for_copies(&transaction, (&row.id, kept.generation), fork.copies)?;
        }
        let made = match history::fork_in(&transaction, fork, now)? {
            Branched::Done((generation, made)) => {
                if let Some(request) = request {
                    note(&transaction, fork.id, request, generation)?;
                }
                transaction.commit()?;
                Branched::Done(made)
            }
            Branched::Unknown => Branched::Unknown,
            Branched::Refused(status) => Branched::Refused(status),
            Branched::NoCheckpoint(has) => Branched::NoCheckpoint(has),
        };
        Ok(Once::Now(made))
    }

    /// [`History::rewind`], unless this request was made before.
    pub fn rewind_once(
        &mut self,
        (id, to, paused): (&InvocationId, u64, bool),
        request: Option<Request<'_>>,
        now: u64,
    ) -> Result<Once<Branched<u64>>, MetaError> {
        let Some(request) = request else { return self.rewind(id, to, paused, now).map(Once::Now) };
        let transaction = self.begin()?;
        match find(&transaction, id, request)? {
            Once::Now(()) => {}
            Once::Before(generation) => return Ok(Once::Before(generation)),
            Once::KeyTaken => return Ok(Once::KeyTaken),
        }
        let came = history::rewind_in(&transaction, id, to, paused, now)?;
        if let Branched::Done(generation) = came {
            note(&transaction, id, request, generation)?;
            transaction.commit()?;
        }
        Ok(Once::Now(came))
    }
}

fn find(connection: &Connection, id: &InvocationId, request: Request<'_>) -> Result<Once<()>, MetaError> {
    let (key, digest) = kept(connection, request)?;
    let known: Option<(Vec<u8>, i64)> = connection
        .prepare_cached("SELECT digest, generation FROM request WHERE id = ?1 AND key = ?2")?
        .query_row(params![id.as_str(), key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(match known {
        None => Once::Now(()),
        Some((known, generation)) if known == digest => Once::Before(time(generation)),
        Some(_) => Once::KeyTaken,
    })
}

/// What is kept of a request. The key is the client's word, as that of an event is.
fn kept(connection: &Connection, request: Request<'_>) -> Result<(String, Vec<u8>), MetaError> {
    let key = kept_digest(connection, "key", request.key.to_owned())?;
    let digest = kept_digest(connection, "request", Sha256::digest(request.asks).to_vec())?;
    Ok((key, digest))
}

fn note(connection: &Connection, id: &InvocationId, request: Request<'_>, generation: u64) -> Result<(), MetaError> {
    let (key, digest) = kept(connection, request)?;
    connection
        .prepare_cached("INSERT INTO request (id, key, digest, generation) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id.as_str(), key, digest, integer(generation)])?;
    connection
        .prepare_cached(
            "DELETE FROM request WHERE id = ?1 AND number <= \
             (SELECT number FROM request WHERE id = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute(params![id.as_str(), REQUESTS_KEPT])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checkpoint, Claimed, Commit, Control, Meta, NewInvocation, Status, Store, Want};
    use monohull_state_key::KeyFile;
    use tempfile::TempDir;

    fn id(name: &str) -> InvocationId {
        name.parse().expect("a name")
    }

    /// An invocation that waits in its first checkpoint.
    fn waiting(key: Option<&KeyFile>) -> (TempDir, Sqlite) {
        let folder = TempDir::new().expect("a folder");
        let store = Store::open_served(&folder.path().join("state"), key).expect("a new one");
        let mut meta = store.meta().expect("a database");
        let new = NewInvocation { id: &id("one"), workflow: "w", start: b"start", due: 1 };
        meta.start(&new, 1).expect("started");
        let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Due, 2) else { panic!("it is due") };
        let checkpoint = Checkpoint { file: "one.checkpoint".to_owned(), bytes: 1 };
        let (waits, taken, published) = Default::default();
        let commit = Commit::Suspended { checkpoint, parent: None, due: None, waits, taken, published };
        meta.commit(&claim.held, &commit, 3).expect("it is ours");
        (folder, meta)
    }

    fn asked<'a>(key: &'a str, asks: &'a str) -> Option<Request<'a>> {
        Some(Request { key, asks: asks.as_bytes() })
    }

    fn rows(meta: &Sqlite) -> i64 {
        meta.connection.query_row("SELECT count(*) FROM request", [], |row| row.get(0)).expect("asked")
    }

    #[test]
    fn a_request_with_a_key_is_done_once_and_its_key_is_that_of_no_other() {
        let keys = TempDir::new().expect("a folder");
        let path = keys.path().join("state.key");
        KeyFile::create(&path).expect("a new one");
        let key = KeyFile::load(&path).expect("a key");
        for key in [None, Some(&key)] {
            let (_folder, mut meta) = waiting(key);
            let one = id("one");
            let back = |meta: &mut Sqlite, to: u64, key: &str, asks: &str| {
                meta.rewind_once((&one, to, false), asked(key, asks), 5).expect("asked")
            };
            assert_eq!(back(&mut meta, 1, "k", "to 1"), Once::Now(Branched::Done(2)));
            assert_eq!(back(&mut meta, 1, "k", "to 1"), Once::Before(2));
            assert_eq!(back(&mut meta, 1, "k", "to 2"), Once::KeyTaken);
            let copies = [id("two"), id("three")];
            let fork = Fork { id: &one, at: None, copies: &copies, paused: false };
            assert_eq!(meta.fork_once(fork, asked("k", "two copies"), 5).expect("asked"), Once::KeyTaken);
            assert!(meta.get(&copies[0]).expect("read").is_none(), "it was not made");
            let made = meta.fork_once(fork, asked("l", "two copies"), 5).expect("asked");
            assert_eq!(made, Once::Now(Branched::Done(vec![Copied::New; 2])));
            // It has gone on meanwhile, and the same request is about the checkpoint of before.
            assert_eq!(back(&mut meta, 1, "m", "to 1"), Once::Now(Branched::Done(3)));
            assert_eq!(meta.fork_once(fork, asked("l", "two copies"), 5).expect("asked"), Once::Before(2));
            assert_eq!(
                meta.requested(&one, Request { key: "l", asks: b"two copies" }).expect("asked"),
                Once::Before(2)
            );
            // What could not be done may be asked for again.
            assert_eq!(back(&mut meta, 9, "n", "to 9"), Once::Now(Branched::NoCheckpoint(vec![1, 2, 3])));
            assert_eq!(back(&mut meta, 1, "n", "to 1"), Once::Now(Branched::Done(4)));
            assert_eq!(meta.requested(&id("two"), Request { key: "k", asks: b"to 1" }).expect("asked"), Once::Now(()));
            // Remembered after its end, and not after its removal.
            meta.control(&one, Control::Cancel, 6).expect("done");
            assert_eq!(meta.get(&one).expect("read").expect("there").status, Status::Cancelled);
            assert_eq!(back(&mut meta, 1, "k", "to 1"), Once::Before(2));
            assert_eq!(rows(&meta), 4);
            assert!(meta.purge(&one, 7).expect("removed"));
            assert_eq!(rows(&meta), 0);
        }
    }

    #[test]
    fn the_last_of_them_are_remembered() {
        let (_folder, mut meta) = waiting(None);
        for number in 0..REQUESTS_KEPT + 2 {
            let request = Request { key: &format!("key {number}"), asks: b"x" };
            note(&meta.connection, &id("one"), request, 1).expect("noted");
        }
        assert_eq!(rows(&meta), i64::from(REQUESTS_KEPT));
        let known = |meta: &mut Sqlite, key| meta.requested(&id("one"), Request { key, asks: b"x" }).expect("asked");
        assert_eq!((known(&mut meta, "key 1"), known(&mut meta, "key 2")), (Once::Now(()), Once::Before(1)));
    }
}
