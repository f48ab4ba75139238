//! Results, lists and bounds in the SQLite file.

use super::{
    CLAIMABLE, COLUMNS, More, Sqlite, children, claim_in, commit_in, find, insert, integer, listed, number, outbox,
    purge, time, told, undelivered,
};
use crate::meta::{Claim, Claimed, Commit, Committed, Held, MetaError, NewInvocation, Started, Want};
use crate::served::{Bounds, Filter, Left, Output, OutputAt, PRINTED_MAX, Tally};
use crate::{InvocationId, Listed, Outbox, Status, Undelivered};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

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
        commit_in(&transaction, &held, commit, More { content: left.unsynced.as_ref(), ..More::default() }, now)?;
        leave(&transaction, new.id, left, false)?;
        let lost = outbox::send(&transaction, new.id, &left.sent, now)?;
        undelivered::add(&transaction, new.id, &lost, now)?;
        transaction.commit()?;
        Ok(Started::New)
    }

    /// Adds an invocation that its owner runs from now on. If the owner dies it can be claimed, as its second attempt. The times are that of its start and the
    /// present one.
    pub fn start_running(
        &mut self,
        new: &NewInvocation<'_>,
        owner: &str,
        [started, now]: [u64; 2],
    ) -> Result<Option<Held>, MetaError> {
        let transaction = self.begin()?;
        let known = "SELECT EXISTS (SELECT 1 FROM invocation WHERE id = ?1)";
        if transaction.prepare_cached(known)?.query_row([new.id.as_str()], |row| row.get(0))? {
            return Ok(None);
        }
        insert(&transaction, new, started)?;
        let run = "UPDATE invocation SET status = 1, epoch = 1, attempts = 1, owner = ?2, changed = ?3 WHERE id = ?1";
        transaction.prepare_cached(run)?.execute(params![new.id.as_str(), owner, integer(now)])?;
        transaction.commit()?;
        Ok(Some(Held { id: new.id.clone(), epoch: 1 }))
    }

    /// [`Meta::commit`](crate::Meta::commit), and in the same transaction what is left for those who ask later.
    pub fn commit_with(&mut self, held: &Held, commit: &Commit, left: &Left, now: u64) -> Result<Committed, MetaError> {
        let transaction = self.begin()?;
        let (committed, _) = commit_with_in(&transaction, held, commit, left, None, now)?;
        transaction.commit()?;
        Ok(committed)
    }

    /// [`Sqlite::commit_with`], and in the same transaction another claim of the invocation, if it waits and is due.
    pub fn commit_and_claim(
        &mut self,
        held: &Held,
        commit: &Commit,
        left: &Left,
        owner: &str,
        now: u64,
    ) -> Result<(Committed, Option<Claim>), MetaError> {
        let transaction = self.begin()?;
        let (committed, claim) = commit_with_in(&transaction, held, commit, left, Some(owner), now)?;
        let claim = match committed.status {
            // What it has sent may have made it due.
            Status::Suspended if claim.is_none() => match claim_in(&transaction, owner, Want::Id(&held.id), now)? {
                Claimed::Yes(claim) => Some(*claim),
                Claimed::Nothing | Claimed::Paused(_) => None,
            },
            _ => claim,
        };
        transaction.commit()?;
        Ok((committed, claim))
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
        let query = "SELECT slot, hash, bytes, decrypted(content, 'output', id || '/' || slot) FROM output \
                     WHERE id = ?1 ORDER BY slot";
        let mut query = self.connection.prepare_cached(query)?;
        let rows = query.query_map([id.as_str()], |row| {
            Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?, row.get(2)?, row.get::<_, Option<Vec<u8>>>(3)?))
        })?;
        let damaged = |what| MetaError::Damaged { id: id.to_string(), what };
        rows.map(|row| {
            let (slot, hash, bytes, content) = row?;
            let bytes = time(bytes);
            let at = match content {
                Some(content) if content.len() as u64 == bytes => OutputAt::Row(content),
                Some(_) => return Err(damaged("length of an output")),
                None => OutputAt::File(hash.try_into().map_err(|_| damaged("hash of an output"))?),
            };
            Ok(Output { slot, at, bytes })
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

    /// The invocations whose end is still to be told.
    pub fn owed(&self) -> Result<Vec<InvocationId>, MetaError> {
        let mut query = self.connection.prepare_cached("SELECT id FROM owed ORDER BY id")?;
        let rows = query.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
        // A name that is none has no end that could be told.
        Ok(rows.into_iter().filter_map(|id| id.parse().ok()).collect())
    }

    /// Where the end of an invocation is still to be told.
    pub fn owed_to(&self, id: &InvocationId) -> Result<Option<String>, MetaError> {
        let query = "SELECT decrypted_text(url, 'callback', id) FROM owed WHERE id = ?1";
        Ok(self.connection.prepare_cached(query)?.query_row([id.as_str()], |row| row.get(0)).optional()?)
    }

    /// The end of an invocation has been told, or is not going to be.
    pub fn paid(&mut self, id: &InvocationId) -> Result<(), MetaError> {
        self.connection.prepare_cached("DELETE FROM owed WHERE id = ?1")?.execute([id.as_str()])?;
        Ok(())
    }

    /// At most `limit` invocations, the last started first, and of those started at once the last name first. Of their reports there is only
    /// what the filter says.
    pub fn newest(&self, filter: &Filter, limit: usize) -> Result<Vec<Listed>, MetaError> {
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
            values.extend([Value::from(integer(*started)), id.clone().into()]);
        }
        values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
        let whole = "decrypted(report, 'report', id)";
        // What is no JSON was not written by a server, and is not worth the list.
        let part = filter.report_path.map(|path| {
            let text = format!("CAST({whole} AS TEXT)");
            let part = format!("CAST(json_extract({text}, '{path}') AS BLOB)");
            format!("CASE WHEN status = {} AND json_valid({text}) THEN {part} END", number(Status::Failed))
        });
        let columns = COLUMNS.replace(whole, part.as_deref().unwrap_or("NULL"));
        let which = format!("WHERE {} ORDER BY started DESC, id DESC LIMIT ?", clauses.join(" AND "));
        listed(&self.connection, &columns, &which, &values)
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
        // One whose name is damaged stays, and is named in lists.
        let surplus: Vec<InvocationId> = surplus.iter().filter_map(|name| name.parse().ok()).collect();
        let mut removed = Ok(0);
        // The disk is waited for once.
        self.together(&mut [|meta: &mut Sqlite| removed = meta.purge_all(&surplus)])?;
        removed
    }

    /// Removes those whose end is not still to be told; how many.
    fn purge_all(&mut self, ids: &[InvocationId]) -> Result<usize, MetaError> {
        let mut removed = 0;
        for id in ids {
            let is_owed: bool = self
                .connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM owed WHERE id = ?1)")?
                .query_row([id.as_str()], |row| row.get(0))?;
            if !is_owed {
                let transaction = self.begin()?;
                removed += usize::from(purge::purge_ended(&transaction, id)?);
                transaction.commit()?;
            }
        }
        Ok(removed)
    }
}

fn commit_with_in(
    transaction: &Connection,
    held: &Held,
    commit: &Commit,
    left: &Left,
    claimer: Option<&str>,
    now: u64,
) -> Result<(Committed, Option<Claim>), MetaError> {
    if let Commit::Ended { well, .. } = commit {
        children::prepare(transaction, &held.id, *well, &left.outcome)?;
    }
    // If it is not the holder's, all of this is undone.
    if let Some(start) = &left.start {
        transaction
            .prepare_cached("UPDATE invocation SET start = encrypted(?2, 'start', ?1) WHERE id = ?1")?
            .execute(params![held.id.as_str(), start])?;
    }
    // One that is claimed at once has nothing in its mailbox that it takes at once.
    let told = claimer.and_then(|_| told::only_one(&left.sent));
    let more = More { content: left.unsynced.as_ref(), told, claimer };
    let (mut committed, claim) = commit_in(transaction, held, commit, more, now)?;
    leave(transaction, &held.id, left, committed.status.is_end())?;
    // Behind the sender's own row, which may be a receiver's too.
    committed.undelivered = outbox::send(transaction, &held.id, &left.sent, now)?;
    undelivered::add(transaction, &held.id, &committed.undelivered, now)?;
    Ok((committed, claim))
}

/// Keeps what a commit leaves. An end is owed only by one that has ended.
pub(super) fn leave(connection: &Connection, id: &InvocationId, left: &Left, has_ended: bool) -> Result<(), MetaError> {
    for output in &left.outputs {
        let (hash, content) = match &output.at {
            OutputAt::File(hash) => (&hash[..], None),
            OutputAt::Row(content) => (&[][..], Some(content)),
        };
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO output (id, slot, hash, bytes, content) \
                 VALUES (?1, ?2, ?3, ?4, encrypted(?5, 'output', ?1 || '/' || ?2))",
            )?
            .execute(params![id.as_str(), output.slot, hash, integer(output.bytes), content])?;
    }
    if let Some(url) = left.callback.as_ref().filter(|_| has_ended) {
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
    use crate::{Branched, Checkpoint, History, Meta, Store};
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

    fn names(rows: &[Listed]) -> Vec<&str> {
        rows.iter().map(|row| row.as_ref().expect("it is whole").id.as_str()).collect()
    }

    #[test]
    fn what_is_left_is_there_until_it_is_removed() {
        let (_folder, mut meta) = meta();
        start(&mut meta, "one", 1);
        let output = |slot: &str, at, bytes| Output { slot: slot.to_owned(), at, bytes };
        let outputs =
            vec![output("few", OutputAt::Row(b"bytes".to_vec()), 5), output("out", OutputAt::File([7; 32]), 9)];
        let left =
            Left { printed: b"line".to_vec(), outputs, callback: Some("http://x/".to_owned()), ..Left::default() };
        end(&mut meta, "one", 2, &left);
        let one = id("one");
        assert_eq!(meta.outputs(&one).expect("read"), left.outputs);
        assert_eq!(meta.output_files().expect("read"), [[7; 32]]);
        assert_eq!(meta.printed(&one).expect("read"), [b"line".to_vec()]);
        assert_eq!(meta.owed().expect("read"), std::slice::from_ref(&one));
        assert_eq!(meta.owed_to(&one).expect("read").as_deref(), Some("http://x/"));
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

    /// A server runs it at once. If that dies it is an invocation that was tried once.
    #[test]
    fn what_runs_already_is_started_once_and_outlives_its_owner() {
        let (_folder, mut meta) = meta();
        let one = id("one");
        let new = |start| NewInvocation { id: &one, workflow: "w", start, due: 5 };
        let held = meta.start_running(&new(b"x"), "o", [4, 5]).expect("started").expect("a new one");
        assert_eq!(meta.start_running(&new(b"x"), "p", [6, 7]).expect("asked"), None);
        let row = meta.get(&one).expect("read").expect("there");
        assert_eq!((row.status, row.started, row.changed), (Status::Running, 4, 5));
        assert_eq!((row.owner.as_deref(), row.attempts, row.epoch), (Some("o"), 1, 1));
        assert_eq!(meta.claim("p", Want::Due, 9).expect("asked"), Claimed::Nothing);
        // More of its start is kept with its first checkpoint.
        let checkpoint = Checkpoint { file: "one.1.checkpoint".to_owned(), bytes: 3 };
        let (waits, taken, published) = (Vec::new(), Vec::new(), Default::default());
        let commit = Commit::Suspended { checkpoint, due: Some(9), waits, taken, published };
        let left = Left { start: Some(b"more".to_vec()), ..Left::default() };
        meta.commit_with(&held, &commit, &left, 6).expect("done");
        let Ok(Claimed::Yes(claim)) = meta.claim("p", Want::Due, 9) else { panic!("it is due") };
        assert_eq!((claim.start, claim.attempt, claim.held.epoch), (b"more".to_vec(), 1, 2));
        let two = id("two");
        let new = NewInvocation { id: &two, workflow: "w", start: b"y", due: 5 };
        meta.start_running(&new, "o", [5, 5]).expect("started");
        meta.expire("o", 8).expect("done");
        let Ok(Claimed::Yes(claim)) = meta.claim("p", Want::Due, 9) else { panic!("it is due") };
        assert_eq!((claim.held.id, claim.attempt, claim.checkpoint), (two, 2, None));
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
        let before = |at, name: &str| Filter { before: Some((at, name.to_owned())), ..Filter::default() };
        assert_eq!(newest(&meta, &before(2, "d"), 1), ["c"]);
        assert_eq!(newest(&meta, &before(1, "c"), 10), ["b"]);
        assert_eq!(newest(&meta, &Filter { started_after: Some(1), ..Filter::default() }, 10), ["a", "d"]);
        for (name, at) in [("a", 10), ("b", 11), ("c", 12)] {
            end(&mut meta, name, at, &Left::default());
        }
        let ended = Filter { statuses: vec![Status::Completed], ..Filter::default() };
        assert_eq!(newest(&meta, &ended, 10), ["a", "c", "b"]);
        let failed = meta.newest(&Filter { report_path: Some("$.why"), ..Filter::default() }, 1).expect("read");
        assert_eq!(failed[0].as_ref().map(|row| row.report.clone()), Ok(None), "it has no report");
        assert_eq!((meta.living().expect("read"), meta.first_end().expect("read")), (1, Some(10)));
        let bounds = Bounds { number: 2, bytes: u64::MAX, ended_after: 0 };
        assert_eq!(meta.forget(bounds).expect("done"), 1);
        assert_eq!(newest(&meta, &Filter::default(), 10), ["d", "c", "b"]);
        assert_eq!(meta.forget(Bounds { ended_after: 12, ..bounds }).expect("done"), 1);
        assert_eq!(meta.forget(Bounds { bytes: 0, ..bounds }).expect("done"), 1);
        assert_eq!(newest(&meta, &Filter::default(), 10), ["d"]);
    }

    #[test]
    fn lists_have_a_part_of_the_reports_of_those_that_failed() {
        let (_folder, mut meta) = meta();
        for (name, well, report) in
            [("a", false, &br#"{"why":{"kind":"x"},"more":1}"#[..]), ("b", false, b"no JSON"), ("c", true, b"{}")]
        {
            start(&mut meta, name, 1);
            let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&id(name)), 2) else { panic!("{name} is due") };
            let ended = Commit::Ended { well, report: report.to_vec(), published: None };
            meta.commit(&claim.held, &ended, 3).expect("done");
        }
        let filter = Filter { report_path: Some("$.why"), ..Filter::default() };
        let listed = meta.newest(&filter, 10).expect("read");
        let parts: Vec<_> = listed.iter().map(|row| row.as_ref().expect("it is whole").report.as_deref()).collect();
        assert_eq!(parts, [None, None, Some(&br#"{"kind":"x"}"#[..])]);
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
