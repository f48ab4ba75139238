//! Several transactions in one, so that the disk is waited for once.
//!
//! ```text
//!   BEGIN ─ savepoint: one ─ savepoint: another, refused: back to it ─ savepoint: a third ─ COMMIT: the disk has all of it
//! ```

use super::Sqlite;
use crate::meta::MetaError;
use rusqlite::{Connection, Savepoint, Transaction};
use std::ops::Deref;

/// A transaction, or a part of one that several share. Dropped before its commit it changes nothing.
pub(super) enum Step<'c> {
    Whole(Transaction<'c>),
    Part(Savepoint<'c>),
}

impl Step<'_> {
    pub(super) fn commit(self) -> rusqlite::Result<()> {
        match self {
            Step::Whole(transaction) => transaction.commit(),
            Step::Part(savepoint) => savepoint.commit(),
        }
    }
}

impl Deref for Step<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match self {
            Step::Whole(transaction) => transaction,
            Step::Part(savepoint) => savepoint,
        }
    }
}

/// A transaction that is shared as long as this lives.
struct Shared<'s>(&'s mut Sqlite);

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.0.is_shared = false;
        if !self.0.connection.is_autocommit() {
            // Nothing of it is kept, whether this succeeds or not.
            let _ = self.0.connection.execute_batch("ROLLBACK");
        }
    }
}

impl Sqlite {
    /// Does transactions of this store one after another, each whole or not at all; when it returns the disk has all of them. After an
    /// error nothing is done, whatever each of them has said, and each can be done again.
    pub fn together(&mut self, works: &mut [impl FnMut(&mut Sqlite)]) -> Result<(), MetaError> {
        self.wait_for_disk(true)?;
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        self.is_shared = true;
        let shared = Shared(self);
        for work in works {
            work(shared.0);
            // An error of the disk ends the transaction itself.
            if shared.0.connection.is_autocommit() {
                return Err(MetaError::Undone);
            }
        }
        Ok(shared.0.connection.execute_batch("COMMIT")?)
    }
}

#[cfg(test)]
mod tests {
    use crate::{InvocationId, Meta, MetaError, NewInvocation, Sqlite, Started, Store};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;
    use tempfile::TempDir;

    fn start(meta: &mut Sqlite, name: &str, start: &[u8]) -> Result<Started, MetaError> {
        let id: InvocationId = name.parse().expect("a name");
        meta.start(&NewInvocation { id: &id, workflow: "w", start, due: 1 }, 1)
    }

    fn names(meta: &Sqlite) -> Vec<String> {
        let rows = meta.list(&[], "", 100).expect("read");
        rows.into_iter().map(|row| row.expect("it is whole").id.to_string()).collect()
    }

    #[test]
    fn each_is_whole_and_all_are_there_at_once() {
        let folder = TempDir::new().expect("a folder");
        let store = Store::open_served(folder.path(), None).expect("a new one");
        let (mut meta, other) = (store.meta().expect("a database"), store.meta().expect("a database"));
        let came = Mutex::new(Vec::new());
        let work = |(name, with): (&'static str, &'static [u8])| {
            let (came, other) = (&came, &other);
            move |meta: &mut Sqlite| {
                came.lock().expect("no panic").push(start(meta, name, with).expect("asked"));
                assert!(names(other).is_empty(), "another sees all of them or none");
            }
        };
        let mut works = [("a", &b"x"[..]), ("a", b"y"), ("b", b"z")].map(work);
        meta.together(&mut works).expect("done");
        assert_eq!(*came.lock().expect("no panic"), [Started::New, Started::Taken, Started::New]);
        assert_eq!(names(&other), ["a", "b"]);
        // Alone again.
        assert_eq!(start(&mut meta, "c", b"x").expect("started"), Started::New);
        assert_eq!(names(&other), ["a", "b", "c"]);
    }

    #[test]
    fn a_panic_undoes_all_and_the_next_one_is_whole() {
        let folder = TempDir::new().expect("a folder");
        let store = Store::open_served(folder.path(), None).expect("a new one");
        let mut meta = store.meta().expect("a database");
        let ended = catch_unwind(AssertUnwindSafe(|| {
            meta.together(&mut [|meta: &mut Sqlite| {
                start(meta, "a", b"x").expect("started");
                panic!("as asked");
            }])
        }));
        assert!(ended.is_err());
        assert!(names(&meta).is_empty());
        start(&mut meta, "b", b"x").expect("started");
        assert_eq!(names(&store.meta().expect("a database")), ["b"]);
    }
}
