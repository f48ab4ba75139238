//! The transactions in a SQLite file.
//!
//! One row for each invocation, one for each checkpoint that is kept ([`history`]), and one for each event ([`mail`]). Each transaction
//! takes the write lock at its beginning (`IMMEDIATE`), so that what it reads is what it changes, and is on the disk when it ends
//! (`synchronous = FULL`), but for some claims ([`claim`]). What invocations were given and have made of it is encrypted if the
//! folder has a key ([`encrypted`]).

mod branches;
mod cancel;
mod changes;
mod children;
mod claim;
mod commit;
mod disk;
mod encrypted;
mod error;
mod exported;
mod family;
mod group;
mod late;
mod listed;
mod mail;
mod migrate;
mod outbox;
#[cfg(test)]
mod pages;
mod purge;
mod reader;
mod request;
mod schema;
mod told;
mod undelivered;
mod unsynced;

use crate::mail::{Mail, NewMail, Sent};
use crate::meta::{
    Claimed, Commit, Committed, Control, Controlled, Held, Meta, MetaError, NewInvocation, Started, Want,
};
use crate::{Checkpoint, Entry, Happened, Invocation, InvocationId, Listed, Status};
use claim::{claim_in, pause_damaged};
use commit::{More, commit_in};
use error::not_opened;
use group::Step;
use listed::listed;
use monohull_state_key::{KeyFile, StateKey};
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row, TransactionBehavior, params};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

mod history;
mod schedule;
mod served;
mod timeline;
mod traits;
mod versions;

pub use encrypted::Unlock;

/// "Mono" in the header of the file: `file(1)` and other programs see whose it is.
const APPLICATION: i64 = 0x4d6f_6e6f;
/// "Mons": the same of a server's.
const SERVED: i64 = 0x4d6f_6e73;
/// The version of the schema.
const VERSION: i64 = 1;
/// How long a transaction waits for those of other processes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Statements that stay prepared: more than there are different ones in the transactions of a run.
const PREPARED: usize = 128;

/// Those that run. The query planner sees by it that the index is enough.
const RUNNING: &str = "status IN (0, 1, 2, 3) AND status = 1";

/// The columns, in the order in which [`read`] takes them.
const COLUMNS: &str = "id, workflow, status, started, changed, due, epoch, attempts, generation, owner, checkpoint, waits, \
    reason, wanted, decrypted(start, 'start', id), decrypted(report, 'report', id), decrypted_text(published, 'published', id), \
    began, woken, entries";

/// What can be claimed. The query planner sees by it that the index is enough.
const CLAIMABLE: &str = "due IS NOT NULL AND status IN (0, 2)";

/// A SQLite file of invocations.
#[derive(Debug)]
pub struct Sqlite {
    connection: Connection,
    key: Option<Arc<StateKey>>,
    /// Transactions are parts of one that is under way.
    is_shared: bool,
    /// Transactions do not wait for the disk.
    is_relaxed: bool,
    /// Whether what was started with this may begin again.
    begins_again: fn(&[u8]) -> bool,
}

/// A connection to the file, which is made if there is none.
fn connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(PREPARED);
    // A damaged schema must not make the program do anything but fail.
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // A plan does not depend on what is asked for: otherwise a statement on a table with a partial index is prepared anew for each value.
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

impl Sqlite {
    /// Opens the file, or makes it. A file of another program or of a newer version is refused and stays as it is; so is a server's, unless
    /// it is opened by one (`served`), and the other way round; and one that this key does not open, or that has none.
    pub fn open(path: &Path, served: bool, unlock: Unlock<'_>) -> Result<Sqlite, MetaError> {
        let (own, others) = if served { (SERVED, APPLICATION) } else { (APPLICATION, SERVED) };
        let unopened = |error| not_opened(path, error);
        let mut connection = connect(path).map_err(unopened)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unopened)?;
        let pragma = |name| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let folder = path.parent().unwrap_or(Path::new("."));
        let key = match (pragma("application_id")?, pragma("user_version")?) {
            (found, VERSION) if found == own => encrypted::open(&transaction, folder, unlock)?,
            (found, _) if found == others => return Err(MetaError::Other { served: !served }),
            (application, found) if application == own => return Err(MetaError::Version { found, known: VERSION }),
            (0, 0)
                if transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?
                    == 0 =>
            {
                schema::begin(&transaction)?;
                transaction.pragma_update(None, "application_id", own)?;
                transaction.pragma_update(None, "user_version", VERSION)?;
                encrypted::begin(&transaction, unlock)?
            }
            _ => return Err(MetaError::Foreign),
        };
        schema::complete(&transaction)?;
        transaction.commit()?;
        // Readers and the writer do not wait for each other.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        if key.is_some() {
            // What is sorted is decrypted, and is not for a file.
            connection.pragma_update(None, "temp_store", "MEMORY")?;
        }
        encrypted::add_functions(&connection, key.as_ref())?;
        Ok(Sqlite { connection, key, is_shared: false, is_relaxed: false, begins_again: |_| false })
    }

    /// The key that encrypts what is in the folder, if there is one.
    pub fn key(&self) -> Option<&Arc<StateKey>> {
        self.key.as_ref()
    }

    /// Lets the key of another file open the folder, and not that of the first one any more.
    pub fn change_key(&mut self, folder: &Path, from: &KeyFile, to: &KeyFile) -> Result<(), MetaError> {
        encrypted::change(&mut self.connection, folder, from, to)
    }

    /// Looks whether the file contradicts itself. It is read as a whole, unless it has more than so many bytes: then this says nothing.
    pub fn check(&self, most: u64) -> Result<(), MetaError> {
        let pragma = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let used = time(pragma("page_count")?).saturating_sub(time(pragma("freelist_count")?));
        if used.saturating_mul(time(pragma("page_size")?)) > most {
            return Ok(());
        }
        let found: String = self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if found == "ok" { Ok(()) } else { Err(MetaError::Check(found)) }
    }

    /// How many invocations have a checkpoint that they go on from.
    pub fn with_checkpoints(&self) -> Result<u64, MetaError> {
        let sql = "SELECT count(*) FROM invocation WHERE checkpoint IS NOT NULL";
        Ok(self.connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(time)?)
    }

    /// Ends an invocation at once. Of one that runs, what its owner commits from now on is refused.
    pub fn kill(&mut self, id: &InvocationId, now: u64) -> Result<Controlled, MetaError> {
        let transaction = self.begin()?;
        let Some(before) = find(&transaction, id)? else { return Ok(Controlled::Unknown) };
        if before.status.is_end() {
            return Ok(Controlled::Ended(before.status));
        }
        let mut row = before.clone();
        (row.status, row.changed, row.reason) = (Status::Cancelled, now, Some(BY_HAND.to_owned()));
        (row.owner, row.wanted) = (None, None);
        row.leave_out();
        let entry = match before.status {
            Status::Running => Entry::leg(&before, &row, Happened::Cancelled, BY_HAND),
            _ => Entry::done(&row, Happened::Cancelled, BY_HAND),
        };
        store(&transaction, &before, &row, Some(&entry))?;
        transaction.commit()?;
        Ok(Controlled::Now(row.status))
    }

    fn begin(&mut self) -> Result<Step<'_>, MetaError> {
        if self.is_shared {
            return Ok(Step::Part(self.connection.savepoint()?));
        }
        self.wait_for_disk(true)?;
        Ok(Step::Whole(self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?))
    }
}

impl Meta for Sqlite {
    fn start(&mut self, new: &NewInvocation<'_>, now: u64) -> Result<Started, MetaError> {
        let transaction = self.begin()?;
        if let Some(there) = find(&transaction, new.id)? {
            let is_same = there.workflow == new.workflow && there.start == new.start;
            return Ok(if is_same { Started::Same(there.status) } else { Started::Taken });
        }
        insert(&transaction, new, now)?;
        transaction.commit()?;
        Ok(Started::New)
    }

    fn claim(&mut self, owner: &str, want: Want<'_>, now: u64) -> Result<Claimed, MetaError> {
        self.claim_one(owner, want, now)
    }

    fn commit(&mut self, held: &Held, commit: &Commit, now: u64) -> Result<Committed, MetaError> {
        let transaction = self.begin()?;
        let (committed, _) = commit_in(&transaction, held, commit, More::default(), now)?;
        transaction.commit()?;
        Ok(committed)
    }

    fn owners(&self) -> Result<Vec<String>, MetaError> {
        let query =
            format!("SELECT DISTINCT owner FROM invocation WHERE {RUNNING} AND owner IS NOT NULL ORDER BY owner");
        let mut query = self.connection.prepare_cached(&query)?;
        let owners = query.query_map([], |row| row.get(0))?;
        Ok(owners.collect::<Result<_, _>>()?)
    }

    fn expire(&mut self, owner: &str, now: u64) -> Result<(), MetaError> {
        let transaction = self.begin()?;
        let owned = format!("WHERE {RUNNING} AND owner = ?1");
        for row in listed(&transaction, COLUMNS, &owned, &[owner.to_owned().into()])? {
            let row = match row {
                Ok(row) => row,
                Err(damaged) => {
                    pause_damaged(&transaction, &damaged.id, damaged.what, now)?;
                    continue;
                }
            };
            // The end of one before it may have marked this one.
            let Some(before) = find(&transaction, &row.id)? else { continue };
            let mut row = before.clone();
            row.changed = now;
            row.owner = None;
            row.status = row.waiting_status();
            if let Some(wanted) = row.wanted.take() {
                row.status = wanted;
                row.reason = Some(BY_HAND.to_owned());
            }
            row.leave_out();
            row.rest();
            let what = Happened::Lost.or(row.status);
            let entry = Entry::leg(&before, &row, what, &Entry::reason(&row, what));
            store(&transaction, &before, &row, Some(&entry))?;
        }
        Ok(transaction.commit()?)
    }

    fn control(&mut self, id: &InvocationId, control: Control, now: u64) -> Result<Controlled, MetaError> {
        let transaction = self.begin()?;
        let Some(before) = find(&transaction, id)? else { return Ok(Controlled::Unknown) };
        let mut row = before.clone();
        if row.status.is_end() {
            return Ok(Controlled::Ended(row.status));
        }
        if control == Control::Cancel && cancel::tell(&transaction, &row, now)? {
            transaction.commit()?;
            return Ok(Controlled::Told(row.status));
        }
        row.changed = now;
        let wanted = match control {
            Control::Pause => Some(Status::Paused),
            Control::Cancel | Control::Stop => Some(Status::Cancelled),
            Control::Resume => None,
        };
        let came = match (row.status, wanted) {
            (Status::Running, wanted) => {
                row.wanted = wanted;
                wanted.map_or(Controlled::Now(Status::Running), Controlled::AtNextCommit)
            }
            (status, Some(wanted)) => {
                row.status = wanted;
                // One that was paused already keeps the reason for it.
                if status != wanted {
                    row.reason = Some(BY_HAND.to_owned());
                }
                Controlled::Now(wanted)
            }
            (Status::Paused, None) => {
                row.status = row.waiting_status();
                // One without a checkpoint that was tried may have done all of it: that attempt counts.
                row.attempts = if row.checkpoint.is_some() { 0 } else { row.attempts.min(1) };
                row.reason = None;
                Controlled::Now(row.status)
            }
            (status, None) => Controlled::Now(status),
        };
        row.leave_out();
        let what = match row.status {
            status if status == before.status => None,
            Status::Paused | Status::Cancelled => Some(Happened::Resumed.or(row.status)),
            _ => Some(Happened::Resumed),
        };
        let entry = what.map(|what| Entry::done(&row, what, &Entry::reason(&row, what)));
        store(&transaction, &before, &row, entry.as_ref())?;
        transaction.commit()?;
        Ok(came)
    }

    fn purge(&mut self, id: &InvocationId, now: u64) -> Result<bool, MetaError> {
        let transaction = self.begin()?;
        let removed = purge::purge(&transaction, id, now)?;
        transaction.commit()?;
        Ok(removed)
    }

    fn send(&mut self, id: &InvocationId, mail: &NewMail<'_>, now: u64) -> Result<Sent, MetaError> {
        let transaction = self.begin()?;
        let sent = mail::send(&transaction, id, mail, now)?;
        transaction.commit()?;
        Ok(sent)
    }

    fn mail(&self, held: &Held, after: u64) -> Result<Vec<Mail>, MetaError> {
        let transaction = self.connection.unchecked_transaction()?;
        held_row(&transaction, held)?;
        mail::waiting(&transaction, &held.id, after)
    }

    fn mail_count(&self, id: &InvocationId) -> Result<u64, MetaError> {
        mail::count(&self.connection, id)
    }

    fn output_files(&self) -> Result<Vec<[u8; 32]>, MetaError> {
        served::hashes(&self.connection)
    }

    fn next_due(&self) -> Result<Option<u64>, MetaError> {
        let query = format!("SELECT due FROM invocation WHERE {CLAIMABLE} ORDER BY due, id LIMIT 1");
        let due: Option<i64> = self.connection.prepare_cached(&query)?.query_row([], |row| row.get(0)).optional()?;
        Ok(due.map(time))
    }

    fn get(&self, id: &InvocationId) -> Result<Option<Invocation>, MetaError> {
        find(&self.connection, id)
    }

    fn list(&self, statuses: &[Status], after: &str, limit: usize) -> Result<Vec<Listed>, MetaError> {
        let wanted: Vec<String> = statuses.iter().map(|status| number(*status).to_string()).collect();
        let among = if wanted.is_empty() { String::new() } else { format!("AND status IN ({})", wanted.join(", ")) };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let which = format!("WHERE id > ?1 {among} ORDER BY id LIMIT ?2");
        listed(&self.connection, COLUMNS, &which, &[after.to_owned().into(), limit.into()])
    }
}

/// The reason of a status that was set by a command.
const BY_HAND: &str = "by hand";

impl Invocation {
    /// What it is when no process runs it.
    fn waiting_status(&self) -> Status {
        if self.checkpoint.is_some() { Status::Suspended } else { Status::Pending }
    }

    /// No process runs it any more, and what woke it for that is not what wakes it next.
    fn rest(&mut self) {
        (self.began, self.woken) = (None, None);
    }

    /// Removes what an invocation in its state has no use for. A failed one keeps what it went on from last.
    fn leave_out(&mut self) {
        if self.status.is_end() {
            self.due = None;
            self.waits.clear();
            self.rest();
            if self.status != Status::Failed {
                self.checkpoint = None;
            }
        }
    }
}

fn insert(connection: &Connection, new: &NewInvocation<'_>, now: u64) -> Result<(), MetaError> {
    connection.execute(
        "INSERT INTO invocation (id, workflow, status, started, changed, due, start, published, epoch) VALUES (?1, ?2, 0, ?3, ?3, ?4, \
         encrypted(?5, 'start', ?1), encrypted_text('{}', 'published', ?1), \
         coalesce((SELECT epoch FROM gone WHERE id = ?1), 0))",
        params![new.id.as_str(), new.workflow, integer(now), integer(new.due), new.start],
    )?;
    Ok(())
}

fn find(connection: &Connection, id: &InvocationId) -> Result<Option<Invocation>, MetaError> {
    one(connection, "WHERE id = ?1", params![id.as_str()])
}

/// One that another invocation tells something. If its row is damaged it is told nothing, and the other one is not held up.
fn find_sound(connection: &Connection, id: &InvocationId) -> Result<Option<Invocation>, MetaError> {
    match find(connection, id) {
        Err(MetaError::Damaged { id: damaged, .. }) if damaged == id.as_str() => Ok(None),
        found => found,
    }
}

/// The invocation that is the holder's.
fn held_row(connection: &Connection, held: &Held) -> Result<Invocation, MetaError> {
    let found = find(connection, &held.id)?.filter(|row| row.status == Status::Running && row.epoch == held.epoch);
    found.ok_or_else(|| MetaError::Stale(held.id.clone()))
}

fn one(connection: &Connection, which: &str, values: impl Params) -> Result<Option<Invocation>, MetaError> {
    Ok(many(connection, which, values)?.pop())
}

fn many(connection: &Connection, which: &str, values: impl Params) -> Result<Vec<Invocation>, MetaError> {
    rows(connection, COLUMNS, which, values)
}

fn rows(
    connection: &Connection,
    columns: &str,
    which: &str,
    values: impl Params,
) -> Result<Vec<Invocation>, MetaError> {
    let mut query = connection.prepare_cached(&format!("SELECT {columns} FROM invocation {which}"))?;
    let mut rows = query.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<Invocation, MetaError> {
    let name: String = row.get(0)?;
    let damaged = |what| MetaError::Damaged { id: name.clone(), what };
    fn column<T: FromSql>(row: &Row<'_>, index: usize, damaged: impl FnOnce() -> MetaError) -> Result<T, MetaError> {
        row.get(index).map_err(|_| damaged())
    }
    let status = |value: i64| Status::ALL.into_iter().find(|status| number(*status) == value);
    let checkpoint: Option<String> = column(row, 10, || damaged("checkpoint"))?;
    let checkpoint: Option<Checkpoint> =
        checkpoint.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| damaged("checkpoint"))?;
    if checkpoint.as_ref().is_some_and(|checkpoint| !is_file_name(&checkpoint.file)) {
        return Err(damaged("checkpoint"));
    }
    let wanted: Option<i64> = row.get(13)?;
    let waits: String = column(row, 11, || damaged("list of waits"))?;
    let published: String = column(row, 16, || damaged("list of what it has published"))?;
    Ok(Invocation {
        id: name.parse().map_err(|_| damaged("id"))?,
        workflow: column(row, 1, || damaged("workflow"))?,
        status: status(row.get(2)?).ok_or_else(|| damaged("status"))?,
        started: time(row.get(3)?),
        changed: time(row.get(4)?),
        due: row.get::<_, Option<i64>>(5)?.map(time),
        epoch: time(row.get(6)?),
        attempts: column(row, 7, || damaged("number of attempts"))?,
        generation: time(row.get(8)?),
        owner: column(row, 9, || damaged("owner"))?,
        checkpoint,
        waits: serde_json::from_str(&waits).map_err(|_| damaged("list of waits"))?,
        reason: column(row, 12, || damaged("reason"))?,
        wanted: wanted.map(|value| status(value).ok_or_else(|| damaged("wanted status"))).transpose()?,
        start: row.get(14)?,
        report: row.get(15)?,
        published: serde_json::from_str(&published).map_err(|_| damaged("list of what it has published"))?,
        began: row.get::<_, Option<i64>>(17)?.map(time),
        woken: match column::<Option<String>>(row, 18, || damaged("reason why it runs"))? {
            Some(word) => Some(timeline::woken(&word).ok_or_else(|| damaged("reason why it runs"))?),
            None => None,
        },
        entries: time(row.get(19)?),
    })
}

/// Whether this names a file in the folder of checkpoints, and leads nowhere else.
pub(crate) fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// A value of a column.
fn text(value: serde_json::Result<String>) -> rusqlite::Result<String> {
    value.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Changes a row from what it was to what an invocation is now, with an entry of its timeline. One that has ended has no events and no children, and its parent is told.
/// The files that no history names any more.
fn store(
    connection: &Connection,
    before: &Invocation,
    row: &Invocation,
    entry: Option<&Entry>,
) -> Result<Vec<Checkpoint>, MetaError> {
    if row.status.is_end() {
        mail::remove_events(connection, &row.id)?;
    }
    changes::write(connection, before, row, entry)?;
    late::note(connection, before, row)?;
    if row.status.is_end() {
        children::ended(connection, &row.id, row.status, row.changed)?;
    }
    history::leave_out(connection, row)
}

/// A status in the database. The numbers never change their meaning.
const fn number(status: Status) -> i64 {
    match status {
        Status::Pending => 0,
        Status::Running => 1,
        Status::Suspended => 2,
        Status::Paused => 3,
        Status::Completed => 4,
        Status::Failed => 5,
        Status::Cancelled => 6,
    }
}

/// SQLite has signed numbers. Times of after 2262 are as far as can be.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn time(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
