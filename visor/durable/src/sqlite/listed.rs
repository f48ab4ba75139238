//! Lists of rows, in which a damaged row is named and the others are as they should be.

use super::{rows, time};
use crate::meta::MetaError;
use crate::{DamagedRow, Listed};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

/// The rows that a query finds.
pub(super) fn listed(
    connection: &Connection,
    columns: &str,
    which: &str,
    values: &[Value],
) -> Result<Vec<Listed>, MetaError> {
    match rows(connection, columns, which, params_from_iter(values)) {
        Err(MetaError::Damaged { .. }) => {}
        found => return Ok(found?.into_iter().map(Ok).collect()),
    }
    // A value that cannot be decrypted ends a query, so each row has one of its own.
    let mut query = connection.prepare_cached(&format!("SELECT id, workflow, started FROM invocation {which}"))?;
    let names = query.query_map(params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut found = Vec::new();
    for name in names {
        let (id, workflow, started): (String, String, i64) = name?;
        match rows(connection, columns, "WHERE id = ?1", [&id]) {
            Ok(row) => found.extend(row.into_iter().map(Ok)),
            Err(MetaError::Damaged { what, .. }) => {
                found.push(Err(DamagedRow { id, workflow, started: time(started), what }));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claimed, Control, Filter, Invocation, InvocationId, Meta, NewInvocation, Sqlite, Status, Store, Want};
    use monohull_state_key::KeyFile;
    use tempfile::TempDir;

    /// A server's store with the rows `a`, `b` and `c`, in this order.
    fn three(folder: &TempDir, key: Option<&KeyFile>) -> (Store, Sqlite) {
        let store = Store::open_served(&folder.path().join("state"), key).expect("a new one");
        let mut meta = store.meta().expect("a database");
        for (name, at) in [("a", 1), ("b", 2), ("c", 3)] {
            let id: InvocationId = name.parse().expect("a name");
            let new = NewInvocation { id: &id, workflow: "w", start: name.as_bytes(), due: at };
            meta.start(&new, at).expect("started");
        }
        (store, meta)
    }

    fn id(name: &str) -> InvocationId {
        name.parse().expect("a name")
    }

    fn shown(listed: Vec<Listed>) -> Vec<String> {
        let name = |row: Listed| match row {
            Ok(Invocation { id, .. }) => id.to_string(),
            Err(damaged) => format!("{} of {}: {damaged}", damaged.id, damaged.workflow),
        };
        listed.into_iter().map(name).collect()
    }

    #[test]
    fn a_damaged_row_is_named_and_the_others_are_listed() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("state.key");
        KeyFile::create(&path).expect("a new one");
        let key = KeyFile::load(&path).expect("a key");
        let exchanged = "start = (SELECT start FROM invocation WHERE id = 'a')";
        let damages = [
            (false, "waits = 'x'", "list of waits"),
            (false, "status = 9", "status"),
            (false, "attempts = -1", "number of attempts"),
            (false, "checkpoint = '{}'", "checkpoint"),
            (true, exchanged, "start"),
            (true, "published = '{}'", "list of what it has published"),
        ];
        for (is_encrypted, damage, what) in damages {
            let folder = TempDir::new().expect("a folder");
            let (store, meta) = three(&folder, is_encrypted.then_some(&key));
            meta.connection.execute_batch(&format!("UPDATE invocation SET {damage} WHERE id = 'b'")).expect("edited");
            let b = format!("b of w: its row in the database is damaged: it has a wrong {what}");
            let [a, b, c] = ["a".to_owned(), b, "c".to_owned()];
            assert_eq!(shown(meta.list(&[], "", 10).expect("listed")), [a.clone(), b.clone(), c.clone()], "{damage}");
            assert_eq!(shown(meta.list(&[], "a", 1).expect("listed")), std::slice::from_ref(&b), "a page of its own");
            assert_eq!(shown(meta.list(&[], "b", 10).expect("listed")), std::slice::from_ref(&c));
            let newest = |filter| shown(meta.newest(&filter, 10).expect("listed"));
            assert_eq!(newest(Filter::default()), [c.clone(), b.clone(), a.clone()]);
            assert_eq!(newest(Filter { before: Some((2, "b".to_owned())), ..Filter::default() }), [a]);
            // What it names is not known.
            let file = store.file(&[7; 32]);
            std::fs::write(&file, "").expect("written");
            assert_eq!(store.sweep(&meta, |_| Vec::new()).expect("looked"), 0);
            assert!(file.exists());
        }
    }

    /// A server that was killed while it ran one that is damaged now starts again, and what else it ran goes on.
    #[test]
    fn a_damaged_row_of_a_dead_owner_is_paused() {
        let folder = TempDir::new().expect("a folder");
        let (_store, mut meta) = three(&folder, None);
        for _ in 0..2 {
            assert!(matches!(meta.claim("dead", Want::Due, 5), Ok(Claimed::Yes(_))));
        }
        meta.connection.execute_batch("UPDATE invocation SET waits = 'x' WHERE id = 'b'").expect("edited");
        meta.expire("dead", 6).expect("done");
        assert!(meta.owners().expect("read").is_empty());
        assert_eq!(meta.list(&[Status::Paused], "", 10).expect("listed").len(), 1);
        for name in ["a", "c"] {
            assert!(matches!(meta.claim("o", Want::Due, 7), Ok(Claimed::Yes(claim)) if claim.held.id.as_str() == name));
        }
    }

    /// A server that was killed may have run all of it, also if it was paused meanwhile and is resumed by hand.
    #[test]
    fn one_that_was_paused_in_its_first_run_counts_as_one_that_has_run() {
        let folder = TempDir::new().expect("a folder");
        let (_store, mut meta) = three(&folder, None);
        assert!(matches!(meta.claim("dead", Want::Due, 5), Ok(Claimed::Yes(claim)) if claim.attempt == 1));
        meta.control(&id("a"), Control::Pause, 6).expect("noted");
        meta.expire("dead", 7).expect("done");
        meta.control(&id("a"), Control::Resume, 8).expect("resumed");
        assert!(matches!(meta.claim("o", Want::Id(&id("a")), 9), Ok(Claimed::Yes(claim)) if claim.attempt == 2));
        // The control: one that was paused before it ran.
        meta.control(&id("b"), Control::Pause, 10).expect("paused");
        meta.control(&id("b"), Control::Resume, 11).expect("resumed");
        assert!(matches!(meta.claim("o", Want::Id(&id("b")), 12), Ok(Claimed::Yes(claim)) if claim.attempt == 1));
    }

    /// Its name is none, so it cannot be told: what is due behind it is claimed all the same.
    #[test]
    fn a_row_with_a_damaged_name_does_not_hold_up_the_others() {
        let folder = TempDir::new().expect("a folder");
        let (_store, mut meta) = three(&folder, None);
        meta.connection.execute_batch("UPDATE invocation SET id = '../a' WHERE id = 'a'").expect("edited");
        assert!(matches!(meta.claim("o", Want::Due, 5), Ok(Claimed::Yes(claim)) if claim.held.id.as_str() == "b"));
        let listed = shown(meta.list(&[], "", 10).expect("listed"));
        assert_eq!(listed[0], "../a of w: its row in the database is damaged: it has a wrong id");
    }
}
