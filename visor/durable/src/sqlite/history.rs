//! Histories in the SQLite file: a row for each checkpoint that is kept, and one for each invocation that is a copy or keeps another number.

use super::{BY_HAND, Sqlite, find, integer, is_file_name, number, text, time, timeline, unsynced};
use crate::history::{Branched, Copied, Fork, Forks, History, KEEP_MAX, Kept, Lineage, Once, has_branches};
use crate::{Checkpoint, Entry, Happened, Invocation, InvocationId, MetaError, Status};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeMap;

pub(super) const SCHEMA: &str = "
    CREATE TABLE history (
        id         TEXT    NOT NULL,
        generation INTEGER NOT NULL,
        rewound_to INTEGER,
        at         INTEGER NOT NULL,
        moved      INTEGER NOT NULL,
        file       TEXT    NOT NULL,
        bytes      INTEGER NOT NULL,
        due        INTEGER,
        waits      TEXT    NOT NULL,
        published  TEXT    NOT NULL DEFAULT '{}',
        label      TEXT,
        PRIMARY KEY (id, generation)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX named ON history (file);
    CREATE TABLE lineage (
        id         TEXT    PRIMARY KEY,
        parent     TEXT,
        generation INTEGER,
        copy       INTEGER NOT NULL,
        copies     INTEGER NOT NULL,
        keep       INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX copied ON lineage (parent) WHERE parent IS NOT NULL;
";

/// Which file takes pages from which. A row is there as long as the file is.
pub(super) const PARENTS: &str = "
    CREATE TABLE IF NOT EXISTS parent (
        file         TEXT    PRIMARY KEY,
        parent       TEXT    NOT NULL,
        parent_bytes INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS parents ON parent (parent);
";

/// The columns of a checkpoint, in the order in which [`read`] takes them.
const COLUMNS: &str = "generation, rewound_to, at, moved, file, bytes, due, waits, \
    decrypted_text(published, 'published', id || '/' || generation), label";

/// The copies of the invocation `?1`, and not of another one that had its name and was removed.
const COPY_OF: &str =
    "parent = ?1 AND (parent_started IS NULL OR parent_started = (SELECT started FROM invocation WHERE id = ?1))";

impl History for Sqlite {
    fn keep(&mut self, id: &InvocationId, checkpoints: u32) -> Result<(), MetaError> {
        let transaction = self.begin()?;
        if find(&transaction, id)?.is_some() {
            let lineage = Lineage { keep: checkpoints.clamp(1, KEEP_MAX), ..lineage(&transaction, id)? };
            set(&transaction, id, &lineage)?;
        }
        Ok(transaction.commit()?)
    }

    fn lineage(&self, id: &InvocationId) -> Result<Lineage, MetaError> {
        lineage(&self.connection, id)
    }

    fn forks(&self, id: &InvocationId, most: usize) -> Result<Forks, MetaError> {
        let query = format!("SELECT id FROM lineage WHERE {COPY_OF} ORDER BY id LIMIT ?2");
        let mut query = self.connection.prepare_cached(&query)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let first = query.query_map(params![id.as_str(), most], |row| row.get::<_, String>(0))?;
        let first = first.collect::<Result<Vec<_>, _>>()?.into_iter();
        let first =
            first.map(|id| id.parse().map_err(|_| MetaError::Damaged { id, what: "id" })).collect::<Result<_, _>>()?;
        let count = format!("SELECT count(*) FROM lineage WHERE {COPY_OF}");
        let count = self.connection.prepare_cached(&count)?.query_row([id.as_str()], |row| row.get(0))?;
        Ok(Forks { first, count: time(count) })
    }

    fn history(&self, id: &InvocationId) -> Result<Vec<Kept>, MetaError> {
        let query = format!("SELECT {COLUMNS} FROM history WHERE id = ?1 ORDER BY generation");
        let mut query = self.connection.prepare_cached(&query)?;
        let mut rows = query.query([id.as_str()])?;
        let mut history = Vec::new();
        while let Some(row) = rows.next()? {
            history.push(read(id, row)?);
        }
        Ok(history)
    }

    fn timeline(&self, id: &InvocationId, before: u64, most: usize) -> Result<Vec<Entry>, MetaError> {
        Sqlite::timeline(self, id, before, most)
    }

    fn fork(&mut self, fork: Fork<'_>, now: u64) -> Result<Branched<Vec<Copied>>, MetaError> {
        match self.fork_once(fork, None, now)? {
            Once::Now(made) => Ok(made),
            Once::Before(_) | Once::KeyTaken => unreachable!("there is no request that was made before"),
        }
    }

    fn rewind(&mut self, id: &InvocationId, to: u64, paused: bool, now: u64) -> Result<Branched<u64>, MetaError> {
        let transaction = self.begin()?;
        let came = rewind_in(&transaction, id, to, paused, now)?;
        if let Branched::Done(_) = came {
            transaction.commit()?;
        }
        Ok(came)
    }

    fn files(&self) -> Result<Vec<String>, MetaError> {
        let mut query =
            self.connection.prepare_cached("SELECT file FROM history UNION SELECT parent FROM parent ORDER BY 1")?;
        let files = query.query_map([], |row| row.get(0))?;
        Ok(files.collect::<Result<_, _>>()?)
    }
}

impl Sqlite {
    /// Gives a checkpoint, which is the newest, a label, unless it has one. The label that it has then.
    pub fn label(
        &mut self,
        id: &InvocationId,
        generation: u64,
        label: Option<&str>,
    ) -> Result<Branched<Option<String>>, MetaError> {
        let transaction = self.begin()?;
        let kept = match branch(&transaction, id, Some(generation))? {
            Branched::Done((row, kept)) if row.generation == generation => kept,
            // It has gone on meanwhile.
            Branched::Done((row, _)) => return Ok(Branched::NoCheckpoint(vec![row.generation])),
            Branched::Unknown => return Ok(Branched::Unknown),
            Branched::Refused(status) => return Ok(Branched::Refused(status)),
            Branched::NoCheckpoint(has) => return Ok(Branched::NoCheckpoint(has)),
        };
        let (Some(label), None) = (label, &kept.label) else { return Ok(Branched::Done(kept.label)) };
        transaction
            .prepare_cached("UPDATE history SET label = ?3 WHERE id = ?1 AND generation = ?2")?
            .execute(params![id.as_str(), integer(generation), label])?;
        transaction.commit()?;
        Ok(Branched::Done(Some(label.to_owned())))
    }

    /// A checkpoint of an invocation, if it is kept.
    pub fn kept(&self, id: &InvocationId, generation: u64) -> Result<Option<Kept>, MetaError> {
        kept_at(&self.connection, id, generation)
    }
}

/// Makes copies of an invocation: the generation that they are of, and what became of each.
pub(super) fn fork_in(
    connection: &Connection,
    fork: Fork<'_>,
    now: u64,
) -> Result<Branched<(u64, Vec<Copied>)>, MetaError> {
    let (row, kept) = match branch(connection, fork.id, fork.at)? {
        Branched::Done(found) => found,
        Branched::Unknown => return Ok(Branched::Unknown),
        Branched::Refused(status) => return Ok(Branched::Refused(status)),
        Branched::NoCheckpoint(has) => return Ok(Branched::NoCheckpoint(has)),
    };
    let waits_in_it = row.status != Status::Failed && kept.generation == row.generation;
    let kept = if waits_in_it { kept } else { kept.anew(now) };
    let made = copy(connection, &row, &kept, (fork.copies, fork.paused), now)?;
    let new: Vec<_> =
        fork.copies.iter().zip(&made).filter(|(_, came)| **came == Copied::New).map(|(id, _)| id).collect();
    for id in &new {
        super::branches::tell_again(connection, id, &row.id, &kept.waits, now)?;
    }
    note_copies(connection, &row, kept.generation, &new, now)?;
    Ok(Branched::Done((kept.generation, made)))
}

/// Takes an invocation back to a checkpoint: the generation that it has now.
pub(super) fn rewind_in(
    connection: &Connection,
    id: &InvocationId,
    to: u64,
    paused: bool,
    now: u64,
) -> Result<Branched<u64>, MetaError> {
    let (before, kept) = match branch(connection, id, Some(to))? {
        Branched::Done(found) => found,
        Branched::Unknown => return Ok(Branched::Unknown),
        Branched::Refused(status) => return Ok(Branched::Refused(status)),
        Branched::NoCheckpoint(has) => return Ok(Branched::NoCheckpoint(has)),
    };
    let mut row = before.clone();
    row.generation += 1;
    let kept = Kept { generation: row.generation, rewound_to: Some(to), ..kept.anew(now) };
    row.status = if paused { Status::Paused } else { Status::Suspended };
    row.reason = paused.then(|| BY_HAND.to_owned());
    row.changed = now;
    row.attempts = 0;
    row.report = None;
    row.due = kept.due;
    row.waits.clone_from(&kept.waits);
    row.published.clone_from(&kept.published);
    row.checkpoint = Some(kept.checkpoint.clone());
    row.rest();
    let entry = Entry::done(&row, Happened::Rewound, &format!("to generation {to}"));
    insert(connection, id, &kept, None)?;
    super::cancel::forget(connection, id)?;
    super::mail::forget_answers(connection, id, &kept.waits)?;
    // An event that it waits for again may be there.
    super::mail::take(connection, &mut row, &[], now)?;
    // The oldest may go, and its file is swept later.
    unsynced::exchange(connection, &trim(connection, id)?, None)?;
    super::store(connection, &before, &row, Some(&entry))?;
    super::children::rewound(connection, id, to, row.generation, now)?;
    super::branches::tell_again(connection, id, id, &kept.waits, now)?;
    Ok(Branched::Done(row.generation))
}

/// Makes copies of an invocation, with these ids, that go on from a checkpoint.
pub(super) fn copy(
    connection: &Connection,
    row: &Invocation,
    kept: &Kept,
    (ids, paused): (&[InvocationId], bool),
    now: u64,
) -> Result<Vec<Copied>, MetaError> {
    let copies = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    let keep = lineage(connection, &row.id)?.keep;
    let mut made = Vec::new();
    for (copy, id) in (1..).zip(ids) {
        let (parent, parent_started) = (Some((row.id.clone(), kept.generation)), Some(row.started));
        let new = Lineage { parent, parent_started, copy, copies, keep };
        if find(connection, id)?.is_some() {
            let there = lineage(connection, id)?;
            let parent_started = there.parent_started.or(new.parent_started);
            let is_same = Lineage { keep, parent_started, ..there } == new;
            made.push(if is_same { Copied::Same } else { Copied::Taken });
            continue;
        }
        let of = format!("of {}, generation {}", row.id, kept.generation);
        add(connection, id, (&row.workflow, &row.start), kept, (paused, now, now), (Happened::Copied, &of))?;
        set(connection, id, &new)?;
        insert(connection, id, &Kept { rewound_to: None, ..kept.clone() }, None)?;
        super::children::copied(connection, &row.id, id, kept.generation, now)?;
        made.push(Copied::New);
    }
    Ok(made)
}

/// Adds the row of an invocation that goes on from a checkpoint.
pub(super) fn add(
    connection: &Connection,
    id: &InvocationId,
    (workflow, start): (&str, &[u8]),
    kept: &Kept,
    (paused, started, now): (bool, u64, u64),
    (what, about): (Happened, &str),
) -> Result<(), MetaError> {
    let entry = Entry::first(now, kept.generation, what, about);
    connection.execute(
        "INSERT INTO invocation (id, workflow, status, started, changed, due, generation, checkpoint, waits, reason, start, \
         published, epoch, entries, recent) VALUES (?1, ?2, ?3, ?4, ?12, ?5, ?6, ?7, ?8, ?9, encrypted(?10, 'start', ?1), \
         encrypted_text(?11, 'published', ?1), coalesce((SELECT epoch FROM gone WHERE id = ?1), 0), 1, ?13)",
        params![
            id.as_str(),
            workflow,
            number(if paused { Status::Paused } else { Status::Suspended }),
            integer(started),
            kept.due.map(integer),
            integer(kept.generation),
            text(serde_json::to_string(&kept.checkpoint))?,
            text(serde_json::to_string(&kept.waits))?,
            paused.then_some(BY_HAND),
            start,
            text(serde_json::to_string(&kept.published))?,
            integer(now),
            timeline::line(&entry)?,
        ],
    )?;
    Ok(())
}

/// Notes in the timeline of an invocation that copies were made of it.
pub(super) fn note_copies(
    connection: &Connection,
    row: &Invocation,
    generation: u64,
    copies: &[&InvocationId],
    now: u64,
) -> Result<(), MetaError> {
    let Some((first, more)) = copies.split_first() else { return Ok(()) };
    let more = if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
    let about = format!("{first}{more}");
    // The row itself has not changed.
    let entry = Entry { at: now, generation, ..Entry::done(row, Happened::Forked, &about) };
    super::changes::write(connection, row, row, Some(&entry))
}

/// An invocation from whose checkpoint others can go on, and the checkpoint.
pub(super) fn branch(
    connection: &Connection,
    id: &InvocationId,
    at: Option<u64>,
) -> Result<Branched<(Invocation, Kept)>, MetaError> {
    let Some(row) = find(connection, id)? else { return Ok(Branched::Unknown) };
    if !has_branches(row.status) {
        return Ok(Branched::Refused(row.status));
    }
    let query = format!("SELECT {COLUMNS} FROM history WHERE id = ?1 AND generation = ?2");
    let mut query = connection.prepare_cached(&query)?;
    let mut rows = query.query(params![id.as_str(), integer(at.unwrap_or(row.generation))])?;
    if let Some(kept) = rows.next()? {
        return Ok(Branched::Done((row, read(id, kept)?)));
    }
    Ok(Branched::NoCheckpoint(generations(connection, id)?))
}

/// The numbers of the checkpoints that an invocation has.
pub(super) fn generations(connection: &Connection, id: &InvocationId) -> Result<Vec<u64>, MetaError> {
    let mut query = connection.prepare_cached("SELECT generation FROM history WHERE id = ?1 ORDER BY generation")?;
    let has = query.query_map([id.as_str()], |row| row.get(0).map(time))?;
    Ok(has.collect::<Result<_, _>>()?)
}

/// Adds the checkpoint in which an invocation waits now, and what is told of it, and removes the oldest if there are too many. The files that no
/// history names any more; their contents are still there ([`unsynced`]).
pub(super) fn suspended(
    connection: &Connection,
    row: &Invocation,
    told: Option<&str>,
) -> Result<Vec<Checkpoint>, MetaError> {
    let Some(checkpoint) = row.checkpoint.clone() else { return Ok(Vec::new()) };
    let (generation, at) = (row.generation, row.changed);
    let (waits, published) = (row.waits.clone(), row.published.clone());
    let kept =
        Kept { generation, rewound_to: None, at, moved: 0, checkpoint, due: row.due, waits, published, label: None };
    insert(connection, &row.id, &kept, told)?;
    trim(connection, &row.id)
}

/// Removes the oldest checkpoints if there are too many. The files that no history names any more; their contents are still there.
fn trim(connection: &Connection, id: &InvocationId) -> Result<Vec<Checkpoint>, MetaError> {
    let keep = lineage(connection, id)?.keep;
    let removed = connection
        .prepare_cached(
            "DELETE FROM history WHERE id = ?1 AND generation NOT IN \
             (SELECT generation FROM history WHERE id = ?1 ORDER BY generation DESC LIMIT ?2) AND generation NOT IN \
             (SELECT generation FROM history WHERE id = ?1 AND label IS NOT NULL ORDER BY generation DESC LIMIT ?2) \
             RETURNING file, bytes",
        )?
        .query_map(params![id.as_str(), keep], checkpoint)?
        .collect::<Result<Vec<_>, _>>()?;
    without_name(connection, removed)
}

/// Removes what an invocation in its state has no use for: one that has completed or was cancelled is not gone on with. The files that no
/// history names any more.
pub(super) fn leave_out(connection: &Connection, row: &Invocation) -> Result<Vec<Checkpoint>, MetaError> {
    match row.status {
        Status::Completed | Status::Cancelled => forget(connection, &row.id),
        _ => Ok(Vec::new()),
    }
}

/// Removes all checkpoints of an invocation. The files that no history names any more.
pub(super) fn forget(connection: &Connection, id: &InvocationId) -> Result<Vec<Checkpoint>, MetaError> {
    let removed = connection
        .prepare_cached("DELETE FROM history WHERE id = ?1 RETURNING file, bytes")?
        .query_map([id.as_str()], checkpoint)?
        .collect::<Result<Vec<_>, _>>()?;
    let without = without_name(connection, removed)?;
    unsynced::exchange(connection, &without, None)?;
    Ok(without)
}

/// Removes all that is kept about an invocation which is not there any more.
pub(super) fn purge(connection: &Connection, id: &InvocationId) -> Result<(), MetaError> {
    forget(connection, id)?;
    connection.execute("DELETE FROM lineage WHERE id = ?1", [id.as_str()])?;
    Ok(())
}

/// The first file takes pages from the other, which is kept as long.
pub(super) fn take_pages(connection: &Connection, file: &str, parent: &Checkpoint) -> Result<(), MetaError> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO parent (file, parent, parent_bytes) VALUES (?1, ?2, ?3)")?
        .execute(params![file, parent.file, integer(parent.bytes)])?;
    Ok(())
}

/// Those among removed checkpoints whose files are not needed any more, and those that these took pages from if they are not either: once
/// each, by name.
fn without_name(connection: &Connection, mut removed: Vec<Checkpoint>) -> Result<Vec<Checkpoint>, MetaError> {
    let mut is_needed = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM history WHERE file = ?1) OR EXISTS (SELECT 1 FROM parent WHERE parent = ?1)",
    )?;
    let mut forget = connection.prepare_cached("DELETE FROM parent WHERE file = ?1 RETURNING parent, parent_bytes")?;
    let mut without = BTreeMap::new();
    while let Some(Checkpoint { file, bytes }) = removed.pop() {
        if is_needed.query_row([&file], |row| row.get::<_, bool>(0))? {
            continue;
        }
        // Nothing needs its parent on its behalf.
        removed.extend(forget.query_map([&file], checkpoint)?.collect::<Result<Vec<_>, _>>()?);
        if is_file_name(&file) {
            without.insert(file, bytes);
        } else {
            unsynced::forget(connection, &file)?;
        }
    }
    Ok(without.into_iter().map(|(file, bytes)| Checkpoint { file, bytes }).collect())
}

fn checkpoint(row: &Row<'_>) -> rusqlite::Result<Checkpoint> {
    Ok(Checkpoint { file: row.get(0)?, bytes: time(row.get(1)?) })
}

fn read(id: &InvocationId, row: &Row<'_>) -> Result<Kept, MetaError> {
    let damaged = |what| MetaError::Damaged { id: id.to_string(), what };
    let checkpoint = Checkpoint { file: row.get(4)?, bytes: time(row.get(5)?) };
    if !is_file_name(&checkpoint.file) {
        return Err(damaged("checkpoint in its history"));
    }
    Ok(Kept {
        generation: time(row.get(0)?),
        rewound_to: row.get::<_, Option<i64>>(1)?.map(time),
        at: time(row.get(2)?),
        moved: row.get(3)?,
        checkpoint,
        due: row.get::<_, Option<i64>>(6)?.map(time),
        waits: serde_json::from_str(&row.get::<_, String>(7)?).map_err(|_| damaged("list of waits in its history"))?,
        published: serde_json::from_str(&row.get::<_, String>(8)?)
            .map_err(|_| damaged("list of what was published"))?,
        label: row.get(9)?,
    })
}

pub(super) fn insert(
    connection: &Connection,
    id: &InvocationId,
    kept: &Kept,
    told: Option<&str>,
) -> Result<(), MetaError> {
    connection
        .prepare_cached(
            "INSERT INTO history (id, generation, rewound_to, at, moved, file, bytes, due, waits, published, label, \
             told) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, encrypted_text(?10, 'published', ?1 || '/' || ?2), ?11, ?12)",
        )?
        .execute(params![
            id.as_str(),
            integer(kept.generation),
            kept.rewound_to.map(integer),
            integer(kept.at),
            kept.moved,
            kept.checkpoint.file,
            integer(kept.checkpoint.bytes),
            kept.due.map(integer),
            text(serde_json::to_string(&kept.waits))?,
            text(serde_json::to_string(&kept.published))?,
            kept.label,
            told,
        ])?;
    Ok(())
}

/// The copies of an invocation that it has made itself at this place.
pub(super) fn copies_of(
    connection: &Connection,
    id: &InvocationId,
    place: &str,
) -> Result<Vec<InvocationId>, MetaError> {
    let query = format!("SELECT id FROM lineage WHERE {COPY_OF} AND instr(id, ?2) > 0 ORDER BY copy");
    let mut query = connection.prepare_cached(&query)?;
    let ids = query.query_map([id.as_str(), place], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    ids.into_iter().map(|id| id.parse().map_err(|_| MetaError::Damaged { id, what: "id" })).collect()
}

/// The newest checkpoint of an invocation.
pub(super) fn checkpoint_of(connection: &Connection, row: &Invocation) -> Result<Option<Kept>, MetaError> {
    kept_at(connection, &row.id, row.generation)
}

pub(super) fn kept_at(connection: &Connection, id: &InvocationId, generation: u64) -> Result<Option<Kept>, MetaError> {
    let query = format!("SELECT {COLUMNS} FROM history WHERE id = ?1 AND generation = ?2");
    let mut query = connection.prepare_cached(&query)?;
    let mut rows = query.query(params![id.as_str(), integer(generation)])?;
    rows.next()?.map(|kept| read(id, kept)).transpose()
}

pub(super) fn lineage(connection: &Connection, id: &InvocationId) -> Result<Lineage, MetaError> {
    type Columns = ((Option<String>, Option<i64>, Option<i64>), (u32, u32, u32));
    let found: Option<Columns> = connection
        .prepare_cached("SELECT parent, generation, parent_started, copy, copies, keep FROM lineage WHERE id = ?1")?
        .query_row([id.as_str()], |row| {
            Ok(((row.get(0)?, row.get(1)?, row.get(2)?), (row.get(3)?, row.get(4)?, row.get(5)?)))
        })
        .optional()?;
    let Some(((parent, generation, parent_started), (copy, copies, keep))) = found else {
        return Ok(Lineage::default());
    };
    let damaged = || MetaError::Damaged { id: id.to_string(), what: "lineage" };
    let parent = match (parent, generation) {
        (Some(parent), Some(generation)) => Some((parent.parse().map_err(|_| damaged())?, time(generation))),
        (None, None) => None,
        _ => return Err(damaged()),
    };
    // A copy that has come from another store has no parent here.
    if copy > copies || parent.is_some() && copy == 0 || !(1..=KEEP_MAX).contains(&keep) {
        return Err(damaged());
    }
    Ok(Lineage { parent, parent_started: parent_started.map(time), copy, copies, keep })
}

pub(super) fn set(connection: &Connection, id: &InvocationId, lineage: &Lineage) -> Result<(), MetaError> {
    let (parent, generation) =
        lineage.parent.as_ref().map(|(id, generation)| (id.as_str(), integer(*generation))).unzip();
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO lineage (id, parent, generation, parent_started, copy, copies, keep) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            id.as_str(),
            parent,
            generation,
            lineage.parent_started.map(integer),
            lineage.copy,
            lineage.copies,
            lineage.keep
        ])?;
    Ok(())
}
