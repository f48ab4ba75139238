//! Results, lists and bounds in the SQLite file.

use super::{
    CLAIMABLE, COLUMNS, Sqlite, children, commit_in, find, insert, integer, number, outbox, time, undelivered,
};
use crate::meta::{Commit, Committed, Held, Meta, MetaError, NewInvocation, Started};
use crate::served::{Bounds, Filter, Left, Output, PRINTED_MAX, Tally};
use crate::{Invocation, InvocationId, Outbox, Status, Undelivered};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

/// `printed` has a row for each commit before which something was printed.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS output (
        id    TEXT    NOT NULL,
        slot  TEXT    NOT NULL,
        hash  BLOB    NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (id, slot)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS printed (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id     TEXT    NOT NULL,
        bytes  BLOB    NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS printed_by ON printed (id, number);
    CREATE TABLE IF NOT EXISTS owed (
        id  TEXT PRIMARY KEY,
        url TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS by_start ON invocation (started, id);
    CREATE INDEX IF NOT EXISTS by_end ON invocation (changed) WHERE status IN (4, 5, 6);
    CREATE INDEX IF NOT EXISTS living ON invocation (status) WHERE status IN (0, 1, 2, 3);
";

impl Sqlite {
    /// Adds an invocation that already waits: one that was run before it was known that it would. `commit` is
    /// [`Commit::Suspended`], and the times are that of its start and the present one.
    pub fn start_suspended(
        &mut self,
        new: &NewInvocation<'_>,
        commit: &Commit,
        left: &Left,
        [started, now]: [u64; 2],
    ) -> Result<Started, MetaError> {
        let transaction = self.begin()?;
        if let Some(there) = find(&transaction, new.id)? {
            let is_same = there.workflow == new.workflow && there.start == new.start;
            return Ok(if is_same { Started::Same(there.status) } else { Started::Taken });
        }
        insert(&transaction, new, started)?;
        let held = Held { id: new.id.clone(), epoch: 1 };
        transaction.execute("UPDATE invocation SET status = 1, epoch = 1 WHERE id = ?1", params![new.id.as_str()])?;
        commit_in(&transaction, &held, commit, now)?;
        leave(&transaction, new.id, left)?;
        let lost = outbox::send(&transaction, new.id, &left.sent, now)?;
        undelivered::add(&transaction, new.id, &lost, now)?;
        transaction.commit()?;
        Ok(Started::New)
    }

    /// [`Meta::commit`], and in the same transaction what is left for those who ask later.
    pub fn commit_with(&mut self, held: &Held, commit: &Commit, left: &Left, now: u64) -> Result<Committed, MetaError> {
        let transaction = self.begin()?;
        if let Commit::Ended { well, .. } = commit {
            children::prepare(&transaction, &held.id, *well, &left.outcome)?;
        }
        let mut committed = commit_in(&transaction, held, commit, now)?;
        leave(&transaction, &held.id, left)?;
        // Behind the sender's own row, which may be a receiver's too.
        committed.undelivered = outbox::send(&transaction, &held.id, &left.sent, now)?;
        undelivered::add(&transaction, &held.id, &committed.undelivered, now)?;
        transaction.commit()?;
        Ok(committed)
    }

    /// Sends events of one that is not in the store; those that were not sent.
    pub fn send_all(&mut self, sender: &InvocationId, sent: &Outbox, now: u64) -> Result<Vec<Undelivered>, MetaError> {
        let transaction = self.begin()?;
        let undelivered = outbox::send(&transaction, sender, sent, now)?;
        transaction.commit()?;
        Ok(undelivered)
    }

    /// The outputs of an invocation, in the order of their slots' names.
    pub fn outputs(&self, id: &InvocationId) -> Result<Vec<Output>, MetaError> {
        let query = "SELECT slot, hash, bytes FROM output WHERE id = ?1 ORDER BY slot";
        let mut query = self.connection.prepare_cached(query)?;
        let rows = query.query_map([id.as_str()], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?, row.get(2)?)))?;
        let damaged = || MetaError::Damaged { id: id.to_string(), what: "hash of an output" };
        rows.map(|row| {
            let (slot, hash, bytes) = row?;
            Ok(Output { slot, hash: hash.try_into().map_err(|_| damaged())?, bytes: time(bytes) })
        })
        .collect()
    }

    /// What an invocation has printed, commit by commit.
    pub fn printed(&self, id: &InvocationId) -> Result<Vec<Vec<u8>>, MetaError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT decrypted(bytes, 'printed', id) FROM printed WHERE id = ?1 ORDER BY number")?;
        let rows = query.query_map([id.as_str()], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The invocations whose end is still to be told, and where.
    pub fn owed(&self) -> Result<Vec<(InvocationId, String)>, MetaError> {
        let mut query =
            self.connection.prepare_cached("SELECT id, decrypted_text(url, 'callback', id) FROM owed ORDER BY id")?;
        let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        rows.map(|row| {
            let (id, url) = row?;
            Ok((id.parse().map_err(|_| MetaError::Damaged { id, what: "id" })?, url))
        })
        .collect()
    }

    /// The end of an invocation has been told, or is not going to be.
    pub fn paid(&mut self, id: &InvocationId) -> Result<(), MetaError> {
        self.connection.prepare_cached("DELETE FROM owed WHERE id = ?1")?.execute([id.as_str()])?;
        Ok(())
    }

    /// At most `limit` invocations, the last started first, and of those started at once the last name first. Without their reports.
    pub fn newest(&self, filter: &Filter, limit: usize) -> Result<Vec<Invocation>, MetaError> {
        let (mut clauses, mut values) = (vec!["1".to_owned()], Vec::<Value>::new());
        if let Some(workflow) = &filter.workflow {
            clauses.push("workflow = ?".to_owned());
            values.push(workflow.clone().into());
        }
        if !filter.statuses.is_empty() {
            let numbers: Vec<_> = filter.statuses.iter().map(|status| number(*status).to_string()).collect();
            clauses.push(format!("status IN ({})", numbers.join(", ")));
        }
        if let Some(after) = filter.started_after {
            clauses.push("started > ?".to_owned());
            values.push(integer(after).into());
        }
        if let Some((started, id)) = &filter.before {
            clauses.push("(started, id) < (?, ?)".to_owned());
            values.extend([Value::from(integer(*started)), id.as_str().to_owned().into()]);
        }
        values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
        let columns = COLUMNS.replace("decrypted(report, 'report', id)", "NULL");
        let which = format!("WHERE {} ORDER BY started DESC, id DESC LIMIT ?", clauses.join(" AND "));
        let mut query = self.connection.prepare_cached(&format!("SELECT {columns} FROM invocation {which}"))?;
        let mut rows = query.query(params_from_iter(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(super::read(row)?);
        }
        Ok(found)
    }

    /// How many invocations have not ended.
    pub fn living(&self) -> Result<u64, MetaError> {
        let query = "SELECT count(*) FROM invocation WHERE status IN (0, 1, 2, 3)";
        Ok(time(self.connection.prepare_cached(query)?.query_row([], |row| row.get(0))?))
    }

    /// How much there is.
    pub fn tally(&self, now: u64) -> Result<Tally, MetaError> {
        let mut tally = Tally::default();
        let query = "SELECT status, count(*) FROM invocation WHERE status IN (0, 1, 2, 3) GROUP BY status";
        let mut query = self.connection.prepare_cached(query)?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (value, count) = (row.get::<_, i64>(0)?, time(row.get(1)?));
            if let Some(status) = Status::ALL.into_iter().find(|status| number(*status) == value) {
                tally.living.push((status, count));
            }
        }
        let one = |query: &str, values: &[i64]| -> Result<u64, MetaError> {
            let mut query = self.connection.prepare_cached(query)?;
            Ok(time(query.query_row(params_from_iter(values), |row| row.get(0))?))
        };
        let due = format!("SELECT count(*) FROM invocation WHERE {CLAIMABLE} AND due <= ?1");
        tally.due = one(&due, &[integer(now)])?;
        // Copies share files.
        let checkpoints = "SELECT coalesce(sum(bytes), 0) FROM (SELECT max(bytes) AS bytes FROM history GROUP BY file)";
        tally.checkpoint_bytes = one(checkpoints, &[])?;
        tally.schedules = one("SELECT count(*) FROM schedule", &[])?;
        Ok(tally)
    }

    /// When the first of those that have ended did so.
    pub fn first_end(&self) -> Result<Option<u64>, MetaError> {
        let query = "SELECT min(changed) FROM invocation WHERE status IN (4, 5, 6)";
        let first: Option<i64> = self.connection.prepare_cached(query)?.query_row([], |row| row.get(0))?;
        Ok(first.map(time))
    }

    /// Removes invocations that have ended and are more than is kept; how many. Those whose end is still to be told stay.
    pub fn forget(&mut self, bounds: Bounds) -> Result<usize, MetaError> {
        let mut surplus = Vec::new();
        {
            let mut query = self.connection.prepare_cached(
                "SELECT id, changed, length(start) + coalesce(length(report), 0) + coalesce((SELECT sum(bytes) FROM output \
                 WHERE output.id = invocation.id), 0) FROM invocation WHERE status IN (4, 5, 6) ORDER BY changed DESC",
            )?;
            let mut rows = query.query([])?;
            let (mut count, mut bytes) = (0, 0_u64);
            while let Some(row) = rows.next()? {
                count += 1;
                bytes = bytes.saturating_add(time(row.get(2)?));
                if count > bounds.number || bytes > bounds.bytes || time(row.get(1)?) < bounds.ended_after {
                    surplus.push(row.get::<_, String>(0)?);
                }
            }
        }
        let mut removed = 0;
        for name in surplus {
            let id: InvocationId = name.parse().map_err(|_| MetaError::Damaged { id: name, what: "id" })?;
            let is_owed: bool = self
                .connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM owed WHERE id = ?1)")?
                .query_row([id.as_str()], |row| row.get(0))?;
            removed += usize::from(!is_owed && self.purge(&id)?);
        }
        Ok(removed)
    }
}

/// Keeps what a commit leaves.
pub(super) fn leave(connection: &Connection, id: &InvocationId, left: &Left) -> Result<(), MetaError> {
    for output in &left.outputs {
        connection
            .prepare_cached("INSERT OR REPLACE INTO output (id, slot, hash, bytes) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![id.as_str(), output.slot, output.hash, integer(output.bytes)])?;
    }
    if let Some(url) = &left.callback {
        connection
            .prepare_cached("INSERT OR REPLACE INTO owed (id, url) VALUES (?1, encrypted_text(?2, 'callback', ?1))")?
            .execute(params![id.as_str(), url])?;
    }
    if left.printed.is_empty() {
        return Ok(());
    }
    connection
        .prepare_cached("INSERT INTO printed (id, bytes) VALUES (?1, encrypted(?2, 'printed', ?1))")?
        .execute(params![id.as_str(), left.printed])?;
    connection
        .prepare_cached(
            "DELETE FROM printed WHERE id = ?1 AND number IN (SELECT number FROM (SELECT number, sum(length(bytes)) \
             OVER (ORDER BY number DESC) AS behind FROM printed WHERE id = ?1) WHERE behind > ?2)",
        )?
        .execute(params![id.as_str(), integer(PRINTED_MAX)])?;
    Ok(())
}

/// Removes what was left of an invocation that is removed.
pub(super) fn remove(connection: &Connection, id: &InvocationId) -> Result<(), MetaError> {
    for table in ["output", "printed", "owed"] {
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE id = ?1"))?.execute([id.as_str()])?;
    }
    Ok(())
}

/// The hashes of all outputs.
pub(super) fn hashes(connection: &Connection) -> Result<Vec<[u8; 32]>, MetaError> {
    let mut query = connection.prepare_cached("SELECT DISTINCT hash FROM output")?;
    let rows = query.query_map([], |row| row.get::<_, Vec<u8>>(0))?.collect::<Result<Vec<_>, _>>()?;
    // One of another length names no file.
    Ok(rows.into_iter().filter_map(|hash| hash.try_into().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Branched, Checkpoint, Claimed, History, Store, Want};
    use tempfile::TempDir;

    fn meta() -> (TempDir, Sqlite) {
        let folder = TempDir::new().expect("a folder");
        let meta = Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a new one");
        (folder, meta)
    }

    fn id(name: &str) -> InvocationId {
        name.parse().expect("a name")
    }

    fn start(meta: &mut Sqlite, name: &str, at: u64) {
        let new = NewInvocation { id: &id(name), workflow: "w", start: b"start", due: at };
        assert_eq!(meta.start(&new, at).expect("started"), Started::New);
    }

    fn end(meta: &mut Sqlite, name: &str, at: u64, left: &Left) {
        let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&id(name)), at) else { panic!("{name} is due") };
        let ended = Commit::Ended { well: true, report: b"report".to_vec(), published: None };
        assert_eq!(meta.commit_with(&claim.held, &ended, left, at).expect("done").status, Status::Completed);
    }

    fn names(rows: &[Invocation]) -> Vec<&str> {
        rows.iter().map(|row| row.id.as_str()).collect()
    }

    #[test]
    fn what_is_left_is_there_until_it_is_removed() {
        let (_folder, mut meta) = meta();
        start(&mut meta, "one", 1);
        let outputs = vec![Output { slot: "out".to_owned(), hash: [7; 32], bytes: 5 }];
        let left =
            Left { printed: b"line".to_vec(), outputs, callback: Some("http://x/".to_owned()), ..Left::default() };
        end(&mut meta, "one", 2, &left);
        let one = id("one");
        assert_eq!(meta.outputs(&one).expect("read"), left.outputs);
        assert_eq!(meta.output_files().expect("read"), [[7; 32]]);
        assert_eq!(meta.printed(&one).expect("read"), [b"line".to_vec()]);
        assert_eq!(meta.owed().expect("read"), [(one.clone(), "http://x/".to_owned())]);
        let all = Bounds { number: 0, bytes: 0, ended_after: u64::MAX };
        assert_eq!(meta.forget(all).expect("done"), 0, "its end is still to be told");
        meta.paid(&one).expect("done");
        assert_eq!(meta.forget(all).expect("done"), 1);
        assert!(meta.outputs(&one).expect("read").is_empty() && meta.printed(&one).expect("read").is_empty());
        assert!(meta.output_files().expect("read").is_empty());
    }

    #[test]
    fn the_oldest_lines_go_first() {
        let (_folder, mut meta) = meta();
        start(&mut meta, "one", 1);
        let half = PRINTED_MAX as usize / 2;
        for number in 0..4_u8 {
            let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Due, 2) else { panic!("it is due") };
            let commit = Commit::Suspended {
                checkpoint: Checkpoint { file: format!("{number}"), bytes: 1 },
                due: Some(2),
                waits: Vec::new(),
                taken: Vec::new(),
                published: Default::default(),
            };
            let left = Left { printed: vec![number; half], ..Left::default() };
            meta.commit_with(&claim.held, &commit, &left, 2).expect("done");
        }
        let printed = meta.printed(&id("one")).expect("read");
        assert_eq!(printed.iter().map(|bytes| bytes[0]).collect::<Vec<_>>(), [2, 3]);
    }

    /// Row and checkpoint are there together, and an id is one invocation's.
    #[test]
    fn what_waits_already_is_started_once() {
        let (_folder, mut meta) = meta();
        let checkpoint = Checkpoint { file: "one.1.checkpoint".to_owned(), bytes: 3 };
        let commit = Commit::Suspended {
            checkpoint,
            due: Some(9),
            waits: Vec::new(),
            taken: Vec::new(),
            published: Default::default(),
        };
        let one = id("one");
        let mut begin = |start: &[u8]| {
            let new = NewInvocation { id: &one, workflow: "w", start, due: 0 };
            meta.start_suspended(&new, &commit, &Left::default(), [4, 5]).expect("asked")
        };
        assert_eq!(begin(b"x"), Started::New);
        assert_eq!(begin(b"x"), Started::Same(Status::Suspended));
        assert_eq!(begin(b"y"), Started::Taken);
        let row = meta.get(&one).expect("read").expect("there");
        assert_eq!((row.status, row.started, row.changed, row.due), (Status::Suspended, 4, 5, Some(9)));
        assert_eq!((row.generation, row.attempts, row.owner), (1, 0, None));
        assert_eq!(meta.rewind(&one, 1, false, 6).expect("done"), Branched::Done(2));
        assert!(matches!(meta.claim("o", Want::Due, 10), Ok(Claimed::Yes(claim)) if claim.held.epoch == 2));
    }

    #[test]
    fn lists_are_by_time_and_bounds_by_the_last_end() {
        let (_folder, mut meta) = meta();
        for (name, at) in [("a", 3), ("b", 1), ("c", 1), ("d", 2)] {
            start(&mut meta, name, at);
        }
        let newest = |meta: &Sqlite, filter: &Filter, limit| {
            names(&meta.newest(filter, limit).expect("read")).iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(newest(&meta, &Filter::default(), 10), ["a", "d", "c", "b"]);
        let before = |at, name: &str| Filter { before: Some((at, id(name))), ..Filter::default() };
        assert_eq!(newest(&meta, &before(2, "d"), 1), ["c"]);
        assert_eq!(newest(&meta, &before(1, "c"), 10), ["b"]);
        assert_eq!(newest(&meta, &Filter { started_after: Some(1), ..Filter::default() }, 10), ["a", "d"]);
        for (name, at) in [("a", 10), ("b", 11), ("c", 12)] {
            end(&mut meta, name, at, &Left::default());
        }
        let ended = Filter { statuses: vec![Status::Completed], ..Filter::default() };
        assert_eq!(newest(&meta, &ended, 10), ["a", "c", "b"]);
        assert_eq!((meta.living().expect("read"), meta.first_end().expect("read")), (1, Some(10)));
        let bounds = Bounds { number: 2, bytes: u64::MAX, ended_after: 0 };
        assert_eq!(meta.forget(bounds).expect("done"), 1);
        assert_eq!(newest(&meta, &Filter::default(), 10), ["d", "c", "b"]);
        assert_eq!(meta.forget(Bounds { ended_after: 12, ..bounds }).expect("done"), 1);
        assert_eq!(meta.forget(Bounds { bytes: 0, ..bounds }).expect("done"), 1);
        assert_eq!(newest(&meta, &Filter::default(), 10), ["d"]);
    }

    #[test]
    fn a_servers_store_is_no_command_lines_and_the_other_way_round() {
        let (served, _meta) = meta();
        assert!(matches!(
            Store::open(served.path(), None),
            Err(crate::StoreError::Meta(MetaError::Other { served: true }))
        ));
        let own = TempDir::new().expect("a folder");
        Store::open(own.path(), None).expect("a new one");
        assert!(matches!(
            Store::open_served(own.path(), None),
            Err(crate::StoreError::Meta(MetaError::Other { served: false }))
        ));
    }
}
