//! Results, lists and bounds in the SQLite file.

use super::{
    CLAIMABLE, COLUMNS, More, Sqlite, children, claim_in, commit_in, find, insert, integer, listed, number, outbox,
    purge, time, timeline, told, undelivered,
};
use crate::meta::{Claim, Claimed, Commit, Committed, Held, MetaError, NewInvocation, Started, Want};
use crate::served::{Bounds, Filter, Left, Output, OutputAt, PRINTED_MAX, Tally};
use crate::{InvocationId, Listed, Outbox, Status, Undelivered, Woken};
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
        let run = "UPDATE invocation SET status = 1, epoch = epoch + 1, woken = ?2 WHERE id = ?1 RETURNING epoch";
        let values = params![new.id.as_str(), timeline::word(&Woken::Start)];
        let epoch = transaction.prepare_cached(run)?.query_row(values, |row| row.get(0).map(time))?;
        let held = Held { id: new.id.clone(), epoch };
        commit_in(&transaction, &held, commit, More { content: left.unsynced.as_ref(), ..More::default() }, now)?;
        leave(&transaction, new.id, left, false)?;
        purge::make_room(&transaction, new.id, &left.sent)?;
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
        // Another one of its name may have been removed: its owner has a lower epoch.
        let run = "UPDATE invocation SET status = 1, epoch = epoch + 1, attempts = 1, owner = ?2, changed = ?3, began = ?3, woken = ?4 WHERE id = ?1 \
                   RETURNING epoch";
        let values = params![new.id.as_str(), owner, integer(now), timeline::word(&Woken::Start)];
        let epoch = transaction.prepare_cached(run)?.query_row(values, |row| row.get(0).map(time))?;
        transaction.commit()?;
        Ok(Some(Held { id: new.id.clone(), epoch }))
    }

    /// [`Meta::commit`](crate::Meta::commit), and in the same transaction what is left for those who ask later.
    pub fn commit_with(&mut self, held: &Held, commit: &Commit, left: &Left, now: u64) -> Result<Committed, MetaError> {
        let transaction = self.begin()?;
        let (committed, _) = commit_with_in(&transaction, held, commit, left, None, now)?;
        transaction.commit()?;
        Ok(committed)
    }

    /// [`Sqlite::commit_with`]; what it comes to is told before others see it, and an error then makes it no commit.
    pub fn commit_if<E>(
        &mut self,
        held: &Held,
        commit: &Commit,
        left: &Left,
        now: u64,
        agrees: impl FnOnce(&Committed) -> Result<(), E>,
    ) -> Result<Result<Committed, E>, MetaError> {
        let transaction = self.begin()?;
        let (committed, _) = commit_with_in(&transaction, held, commit, left, None, now)?;
        if let Err(error) = agrees(&committed) {
            return Ok(Err(error));
        }
        transaction.commit()?;
        Ok(Ok(committed))
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
        purge::make_room(&transaction, sender, sent)?;
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

    /// How many rows this connection has changed since it was opened, those of all tables.
    pub fn changed(&self) -> u64 {
        self.connection.total_changes()
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
                "SELECT id, changed, length(start) + coalesce(length(report), 0) \
                 + coalesce((SELECT sum(bytes) FROM output WHERE output.id = invocation.id), 0) \
                 + coalesce((SELECT sum(length(bytes)) FROM printed WHERE printed.id = invocation.id), 0) \
                 + coalesce((SELECT sum(bytes) FROM history WHERE history.id = invocation.id), 0) \
                 FROM invocation WHERE status IN (4, 5, 6) ORDER BY changed DESC, id DESC",
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
    let more = More { content: left.unsynced.as_ref(), told, claimer, is_move: false };
    let (mut committed, claim) = commit_in(transaction, held, commit, more, now)?;
    leave(transaction, &held.id, left, committed.status.is_end())?;
    purge::make_room(transaction, &held.id, &left.sent)?;
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
mod tests;
