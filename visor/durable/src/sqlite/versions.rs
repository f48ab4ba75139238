//! Versions of workflows in the SQLite file: when each was registered, and the invocations whose code they are.
//!
//! What a version is, the caller knows. Here it is a name.

use super::{Sqlite, integer, number, time};
use crate::meta::MetaError;
use crate::{InvocationId, Member, Status};
use rusqlite::{OptionalExtension, Params, params};

/// The most versions of all workflows whose times are kept. The oldest go first.
const KEPT: u64 = 1000;

pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS version (
        number   INTEGER PRIMARY KEY AUTOINCREMENT,
        workflow TEXT    NOT NULL,
        version  TEXT    NOT NULL,
        at       INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX IF NOT EXISTS version_names ON version (workflow, version);
";

impl Sqlite {
    /// Keeps when a version of a workflow was registered for the first time.
    pub fn registered(&mut self, workflow: &str, version: &str, now: u64) -> Result<(), MetaError> {
        let transaction = self.begin()?;
        let added = transaction
            .prepare_cached("INSERT OR IGNORE INTO version (workflow, version, at) VALUES (?1, ?2, ?3)")?
            .execute(params![workflow, version, integer(now)])?;
        if added > 0 {
            transaction
                .prepare_cached(
                    "DELETE FROM version WHERE number <= (SELECT number FROM version ORDER BY number DESC LIMIT 1 OFFSET ?1)",
                )?
                .execute([integer(KEPT)])?;
        }
        Ok(transaction.commit()?)
    }

    /// The versions of a workflow that are known, and when each was registered for the first time.
    pub fn registrations(&self, workflow: &str) -> Result<Vec<(String, u64)>, MetaError> {
        let mut query =
            self.connection.prepare_cached("SELECT version, at FROM version WHERE workflow = ?1 ORDER BY version")?;
        let rows = query.query_map([workflow], |row| Ok((row.get(0)?, time(row.get(1)?))))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Looks at each invocation of a workflow that needs its code: those that have not ended, and those that have failed and can be taken back. One
    /// whose row is damaged is passed over, as lists name it.
    pub fn each_member(
        &self,
        workflow: &str,
        mut look: impl FnMut(&InvocationId, Member<'_>) -> Result<(), MetaError>,
    ) -> Result<(), MetaError> {
        // Each has an index of its own.
        for which in ["status IN (0, 1, 2, 3)", "status IN (4, 5, 6) AND status = 5 AND checkpoint IS NOT NULL"] {
            self.members(&format!("{which} AND workflow = ?1"), [workflow], |id, member| {
                look(id, member).map(|()| true)
            })?;
        }
        Ok(())
    }

    /// Looks at the invocations of a workflow that have not ended and whose names are behind this one, by name, as long as `look` says so. As in
    /// [`Sqlite::each_member`] damaged ones are passed over.
    pub fn living_members(
        &self,
        workflow: &str,
        after: &str,
        look: impl FnMut(&InvocationId, Member<'_>) -> Result<bool, MetaError>,
    ) -> Result<(), MetaError> {
        // In the order of the table: what is behind the last one that is looked at is not read.
        self.members("+status IN (0, 1, 2, 3) AND workflow = ?1 AND id > ?2 ORDER BY id", [workflow, after], look)
    }

    fn members(
        &self,
        which: &str,
        values: impl Params,
        mut look: impl FnMut(&InvocationId, Member<'_>) -> Result<bool, MetaError>,
    ) -> Result<(), MetaError> {
        let query = format!("SELECT id, status, started, due FROM invocation WHERE {which}");
        let mut query = self.connection.prepare_cached(&query)?;
        // A value that cannot be decrypted ends a query, so each has one of its own.
        let mut start =
            self.connection.prepare_cached("SELECT decrypted(start, 'start', id) FROM invocation WHERE id = ?1")?;
        let mut rows = query.query(values)?;
        while let Some(row) = rows.next()? {
            let (id, value): (String, i64) = (row.get(0)?, row.get(1)?);
            let status = Status::ALL.into_iter().find(|status| number(*status) == value);
            let (Ok(id), Some(status)) = (id.parse::<InvocationId>(), status) else { continue };
            let (started, due) = (time(row.get(2)?), row.get::<_, Option<i64>>(3)?.map(time));
            let start = start.query_row([id.as_str()], |row| row.get::<_, Vec<u8>>(0)).optional();
            let start = match start.map_err(MetaError::from) {
                // It was removed meanwhile.
                Ok(None) | Err(MetaError::Damaged { .. }) => continue,
                Ok(Some(start)) => start,
                Err(error) => return Err(error),
            };
            if !look(&id, Member { status, started, due, start: &start })? {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Commit, Control, Meta, NewInvocation, Started, Store, Want, meta::Claimed};
    use monohull_state_key::KeyFile;
    use tempfile::TempDir;

    #[test]
    fn the_first_time_is_kept_and_so_many_versions() {
        let folder = TempDir::new().expect("a folder");
        let mut meta = Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a new one");
        meta.registered("w", "old", 1).expect("kept");
        meta.registered("w", "new", 2).expect("kept");
        meta.registered("w", "old", 3).expect("kept");
        assert_eq!(meta.registrations("w").expect("read"), [("new".to_owned(), 2), ("old".to_owned(), 1)]);
        assert_eq!(meta.registrations("v").expect("read"), []);
        for number in 0..KEPT - 1 {
            meta.registered("v", &number.to_string(), 4).expect("kept");
        }
        assert_eq!(meta.registrations("w").expect("read"), [("new".to_owned(), 2)]);
    }

    #[test]
    fn those_that_have_ended_need_no_code_unless_they_can_be_taken_back() {
        let folder = TempDir::new().expect("a folder");
        let mut meta = Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a new one");
        let id = |name: &str| name.parse::<InvocationId>().expect("a name");
        for (name, workflow) in [("a", "w"), ("b", "w"), ("c", "w"), ("d", "w"), ("e", "v")] {
            let new = NewInvocation { id: &id(name), workflow, start: name.as_bytes(), due: 5 };
            assert_eq!(meta.start(&new, 1).expect("done"), Started::New);
        }
        meta.control(&id("b"), Control::Cancel, 2).expect("done");
        for (name, well) in [("c", false), ("d", true)] {
            let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&id(name)), 6) else { panic!("{name} is due") };
            let checkpoint = crate::Checkpoint { file: name.to_owned(), bytes: 1 };
            let (waits, taken, published) = Default::default();
            let suspended = Commit::Suspended { checkpoint, parent: None, due: Some(7), waits, taken, published };
            meta.commit(&claim.held, &suspended, 6).expect("done");
            let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&id(name)), 8) else { panic!("{name} is due") };
            let ended = Commit::Ended { well, cancelled: false, report: Vec::new(), published: None };
            meta.commit(&claim.held, &ended, 8).expect("done");
        }
        let mut found = Vec::new();
        let look = |id: &InvocationId, member: Member<'_>| {
            assert_eq!(id.as_str().as_bytes(), member.start);
            found.push((id.to_string(), member.status, member.started, member.due));
            Ok(())
        };
        meta.each_member("w", look).expect("read");
        let failed = ("c".to_owned(), Status::Failed, 1, None);
        assert_eq!(found, [("a".to_owned(), Status::Pending, 1, Some(5)), failed]);
    }

    #[test]
    fn those_that_have_not_ended_are_looked_at_by_name_from_anywhere() {
        let folder = TempDir::new().expect("a folder");
        let mut meta = Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a new one");
        for (name, workflow) in [("d", "w"), ("b", "w"), ("e", "w"), ("a", "w"), ("c", "v"), ("f", "w")] {
            let id: InvocationId = name.parse().expect("a name");
            let new = NewInvocation { id: &id, workflow, start: b"start", due: 5 };
            assert_eq!(meta.start(&new, 1).expect("done"), Started::New);
        }
        meta.control(&"e".parse().expect("a name"), Control::Cancel, 2).expect("done");
        let page = |after: &str, most: usize| {
            let mut found = Vec::new();
            let look = |id: &InvocationId, _: Member<'_>| {
                found.push(id.to_string());
                Ok(found.len() < most)
            };
            meta.living_members("w", after, look).expect("read");
            found
        };
        assert_eq!(page("", 2), ["a", "b"]);
        assert_eq!(page("b", 9), ["d", "f"]);
        assert_eq!(page("f", 9), [""; 0]);
        let plan = "EXPLAIN QUERY PLAN SELECT id FROM invocation WHERE +status IN (0, 1, 2, 3) AND workflow = 'w' AND id > 'b' ORDER BY id";
        let mut plan = meta.connection.prepare(plan).expect("prepared");
        let plan: Vec<String> =
            plan.query_map([], |row| row.get(3)).expect("asked").collect::<Result<_, _>>().expect("read");
        assert_eq!(plan, ["SEARCH invocation USING PRIMARY KEY (id>?)"], "nothing is sorted");
    }

    #[test]
    fn a_damaged_row_is_passed_over() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("state.key");
        KeyFile::create(&path).expect("a new one");
        let key = KeyFile::load(&path).expect("a key");
        let store = Store::open_served(&folder.path().join("state"), Some(&key)).expect("a new one");
        let mut meta = store.meta().expect("a database");
        for name in ["a", "b", "c"] {
            let id: InvocationId = name.parse().expect("a name");
            let new = NewInvocation { id: &id, workflow: "w", start: name.as_bytes(), due: 5 };
            assert_eq!(meta.start(&new, 1).expect("done"), Started::New);
        }
        let exchange = "UPDATE invocation SET start = (SELECT start FROM invocation WHERE id = 'a') WHERE id = 'b';
            UPDATE invocation SET id = '../c' WHERE id = 'c'";
        meta.connection.execute_batch(exchange).expect("edited");
        let mut found = Vec::new();
        let look = |id: &InvocationId, _: Member<'_>| {
            found.push(id.to_string());
            Ok(())
        };
        meta.each_member("w", look).expect("read");
        assert_eq!(found, ["a"]);
    }
}
