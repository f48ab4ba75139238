//! Children in the SQLite file: what each parent knows of them.

use super::encrypted::digest as kept_digest;
use super::{Sqlite, find, find_sound, insert, integer, store, time};
use crate::children::{self, Child, OUTCOMES_MAX, Outcome};
use crate::meta::{MetaError, NewInvocation};
use crate::outbox::WhyUndelivered;
use crate::{Entry, Happened, Invocation, InvocationId, Status};
use monohull_abi::child::{CHILD_DEPTH_MAX, CHILD_EVENT, CHILDREN_MAX, Ending};
use monohull_report::{Outgoing, child_invocation};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use sha2::{Digest, Sha256};

/// The most rows of one parent. Of children whose end it has taken the oldest go first.
const ROWS_MAX: u64 = 1000;

/// `since` is the generation of the parent that has started it. It was `removed` when it had ended: an invocation that has its id then is another one. From `gone` on its parent does not know of it: it went back to before that. `joined`
/// is the generation that has taken its end, `ending` how it has ended, and `outcome` the content of the event that tells it.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS child (
        number   INTEGER PRIMARY KEY AUTOINCREMENT,
        parent   TEXT    NOT NULL,
        name     TEXT    NOT NULL,
        id       TEXT    NOT NULL,
        workflow TEXT    NOT NULL,
        digest   BLOB    NOT NULL,
        detached INTEGER NOT NULL,
        depth    INTEGER NOT NULL,
        since    INTEGER NOT NULL,
        gone     INTEGER,
        joined   INTEGER,
        ending   INTEGER,
        outcome  BLOB,
        removed  INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE UNIQUE INDEX IF NOT EXISTS child_names ON child (parent, name);
    CREATE INDEX IF NOT EXISTS child_ids ON child (id);
    CREATE TABLE IF NOT EXISTS orphan (
        id    TEXT    PRIMARY KEY,
        depth INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// What a parent knows of a child.
struct Known {
    number: i64,
    parent: InvocationId,
    name: String,
    id: InvocationId,
    workflow: String,
    digest: Vec<u8>,
    detached: bool,
    depth: u32,
    since: i64,
    gone: Option<i64>,
    joined: Option<i64>,
    ending: Option<Ending>,
    outcome: Option<Vec<u8>>,
    removed: bool,
}

const COLUMNS: &str = "number, parent, name, id, workflow, digest, detached, depth, since, gone, joined, ending, \
     decrypted(outcome, 'outcome', parent || '/' || name), removed";

impl Sqlite {
    /// What an invocation knows of its children, in the order in which it has started them.
    pub fn children(&self, id: &InvocationId) -> Result<Vec<Child>, MetaError> {
        let mut children = Vec::new();
        for known in many(&self.connection, "WHERE parent = ?1 AND gone IS NULL ORDER BY number", [id.as_str()])? {
            let row = if known.removed { None } else { find(&self.connection, &known.id)? };
            let Known { name, id, workflow, detached, joined, .. } = known;
            let (status, joined) = (row.map(|row| row.status), joined.is_some());
            children.push(Child { name, id, workflow, detached, status, joined });
        }
        Ok(children)
    }

    /// The invocation that has started this one, and what it calls it.
    pub fn started_by(&self, id: &InvocationId) -> Result<Option<(InvocationId, String)>, MetaError> {
        Ok(of(&self.connection, id)?.map(|known| (known.parent, known.name)))
    }

    /// The invocation that has started this one, and all that this one has started, and those, and so on.
    pub fn relatives(&self, id: &InvocationId) -> Result<Vec<InvocationId>, MetaError> {
        let mut query = self.connection.prepare_cached(
            "WITH RECURSIVE below (id) AS (SELECT id FROM child WHERE parent = ?1 AND removed = 0 UNION SELECT child.id \
             FROM child JOIN below ON child.parent = below.id AND child.removed = 0) SELECT id FROM below UNION SELECT \
             parent FROM child WHERE id = ?1 AND removed = 0",
        )?;
        let ids = query.query_map([id.as_str()], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        ids.into_iter().map(|id| id.parse().map_err(|_| MetaError::Damaged { id, what: "child" })).collect()
    }
}

/// Starts a child of an invocation that has been committed; why it is not started, if it is not. The same again is the same child, whose end is told
/// once more if it has been taken.
pub(super) fn start(
    connection: &Connection,
    parent: &InvocationId,
    asked: &Outgoing,
    detached: bool,
    start: &Result<Vec<u8>, String>,
    now: u64,
) -> Result<Option<WhyUndelivered>, MetaError> {
    let row = find(connection, parent)?;
    let since = row.as_ref().map_or(0, |row| integer(row.generation));
    let lives = row.is_some_and(|row| !row.status.is_end());
    let refuse = |why: String| -> Result<Option<WhyUndelivered>, MetaError> {
        if lives && !detached {
            // Behind the end of the other child of this name, if that has not been taken: each is for a `join`.
            let refusal = children::end(Ending::Refused, &why);
            let name = format!("{CHILD_EVENT}{}", asked.to);
            super::mail::deliver_behind(connection, parent, &name, (&refusal, is_refusal), now)?;
        }
        Ok(Some(WhyUndelivered::NotStarted(why)))
    };
    let digest = kept_digest(connection, "child", digest(asked))?;
    if let Some(known) = by_name(connection, parent, &asked.to)? {
        if known.digest != digest || known.detached != detached {
            return refuse("its id is that of another child, with another workflow or input".to_owned());
        }
        connection
            .prepare_cached(
                "UPDATE child SET since = iif(gone IS NULL, since, ?2), gone = NULL, joined = NULL WHERE number = ?1",
            )?
            .execute(params![known.number, since])?;
        tell(connection, &Known { gone: None, joined: None, ..known }, now)?;
        return Ok(None);
    }
    if !lives && !detached {
        // It would be cancelled at once.
        return Ok(None);
    }
    let bytes = match start {
        Ok(bytes) => bytes,
        Err(why) => return refuse(why.clone()),
    };
    let depth = depth(connection, parent)? + 1;
    if depth > CHILD_DEPTH_MAX {
        return refuse(format!("there are {CHILD_DEPTH_MAX} invocations above it, as many as may be"));
    }
    if unjoined(connection, parent)? >= CHILDREN_MAX as u64 || !has_room(connection, parent)? {
        return refuse(format!("{CHILDREN_MAX} children have not been joined, as many as may be"));
    }
    let id = child_invocation(parent.as_str(), &asked.to);
    let id: InvocationId = id.parse().map_err(|_| MetaError::Damaged { id, what: "child" })?;
    if find(connection, &id)?.is_some() {
        return refuse(format!("there is an invocation `{id}` already"));
    }
    insert(connection, &NewInvocation { id: &id, workflow: &asked.name, start: bytes, due: now }, now)?;
    let (name, workflow) = (asked.to.clone(), asked.name.clone());
    add(
        connection,
        &Known {
            number: 0,
            parent: parent.clone(),
            name,
            id,
            workflow,
            digest,
            detached,
            depth,
            since,
            gone: None,
            joined: None,
            ending: None,
            outcome: None,
            removed: false,
        },
    )?;
    Ok(None)
}

/// Cancels a child; why that cannot be, if there is none.
pub(super) fn cancel(
    connection: &Connection,
    parent: &InvocationId,
    name: &str,
    now: u64,
) -> Result<Option<WhyUndelivered>, MetaError> {
    let Some(known) = by_name(connection, parent, name)? else { return Ok(Some(WhyUndelivered::Unknown)) };
    if known.ending.is_none() {
        cancel_invocation(connection, &known.id, "by its parent", now)?;
    }
    Ok(None)
}

/// What is to be told of an invocation when the commit that follows has ended it well, or not.
pub(super) fn prepare(
    connection: &Connection,
    id: &InvocationId,
    well: bool,
    outcome: &Outcome,
) -> Result<(), MetaError> {
    let Some(known) = of(connection, id)?.filter(|known| known.ending.is_none()) else { return Ok(()) };
    let mut bytes = outcome.encode(if well { Ending::Completed } else { Ending::Failed });
    let has_room = || -> Result<bool, MetaError> {
        let query = "SELECT coalesce(sum(plain_length(outcome)), 0) FROM child WHERE parent = ?1";
        let sum: i64 = connection.prepare_cached(query)?.query_row([known.parent.as_str()], |row| row.get(0))?;
        Ok(time(sum) + bytes.len() as u64 <= OUTCOMES_MAX)
    };
    if !has_room()? {
        connection
            .prepare_cached("UPDATE child SET outcome = NULL WHERE parent = ?1 AND joined IS NOT NULL")?
            .execute([known.parent.as_str()])?;
        if !has_room()? {
            bytes = children::too_large(bytes.len() as u64);
        }
    }
    connection
        .prepare_cached("UPDATE child SET outcome = encrypted(?2, 'outcome', parent || '/' || name) WHERE number = ?1")?
        .execute(params![known.number, bytes])?;
    Ok(())
}

/// An invocation has ended: its parent is told, and its children are cancelled.
pub(super) fn ended(connection: &Connection, id: &InvocationId, status: Status, now: u64) -> Result<(), MetaError> {
    let ending = match status {
        Status::Completed => Ending::Completed,
        Status::Failed => Ending::Failed,
        _ => Ending::Cancelled,
    };
    let id = id.as_str();
    for mut known in many(connection, "WHERE id = ?1 AND ending IS NULL AND removed = 0", [id])? {
        if ending == Ending::Cancelled {
            known.outcome = None;
        }
        known.ending = Some(ending);
        connection
            .prepare_cached(
                "UPDATE child SET ending = ?2, outcome = encrypted(?3, 'outcome', parent || '/' || name) WHERE number = ?1",
            )?
            .execute(params![known.number, ending as u8, known.outcome])?;
        tell(connection, &known, now)?;
    }
    for known in many(connection, "WHERE parent = ?1 AND ending IS NULL AND detached = 0", [id])? {
        cancel_invocation(connection, &known.id, "its parent has ended", now)?;
    }
    Ok(())
}

/// An invocation takes the events of these numbers, which are still in its mailbox: they may be the ends of children. What is to be told behind them: the ends of
/// those of which it takes only that another child of their name was refused.
pub(super) fn joined(
    connection: &Connection,
    row: &Invocation,
    taken: &[u64],
) -> Result<Vec<(String, Vec<u8>)>, MetaError> {
    let mut behind = Vec::new();
    for number in taken {
        let event = connection
            .prepare_cached(
                "SELECT name, decrypted(bytes, 'event', invocation || '/' || name) FROM mail \
                 WHERE number = ?1 AND invocation = ?2 AND bytes IS NOT NULL AND name GLOB ?3 || '*'",
            )?
            .query_row(params![integer(*number), row.id.as_str(), CHILD_EVENT], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?))
            })
            .optional()?;
        let Some((name, bytes)) = event else { continue };
        let child = name.strip_prefix(CHILD_EVENT).map(|child| by_name(connection, &row.id, child)).transpose()?;
        let Some(known) = child.flatten() else { continue };
        if is_refusal(&bytes) && known.ending != Some(Ending::Refused) {
            behind.extend(untold(&known).map(|end| (name, end)));
        } else {
            connection
                .prepare_cached("UPDATE child SET joined = ?2 WHERE number = ?1")?
                .execute(params![known.number, integer(row.generation)])?;
        }
    }
    Ok(behind)
}

/// Whether an event tells that a child was not started.
fn is_refusal(bytes: &[u8]) -> bool {
    monohull_abi::child::Outcome::parse(bytes).is_some_and(|told| told.ending == Ending::Refused)
}

/// The children that an invocation had at a generation, but for detached ones.
fn known_at(connection: &Connection, id: &InvocationId, at: u64) -> Result<Vec<Known>, MetaError> {
    let which = "WHERE parent = ?1 AND detached = 0 AND since <= ?2 AND (gone IS NULL OR gone > ?2) ORDER BY number";
    many(connection, which, params![id.as_str(), integer(at)])
}

/// The names of those that a copy has itself.
pub(super) fn copied_at(connection: &Connection, id: &InvocationId, at: u64) -> Result<Vec<String>, MetaError> {
    let known = known_at(connection, id, at)?.into_iter();
    Ok(known.filter(|known| known.ending.is_none()).map(|known| known.name).collect())
}

/// A copy was made of an invocation as it was at a generation. It has children of its own in the place of those that had not ended, and is told the ends
/// of the others.
pub(super) fn copied(
    connection: &Connection,
    original: &InvocationId,
    copy: &InvocationId,
    at: u64,
    now: u64,
) -> Result<(), MetaError> {
    for known in known_at(connection, original, at)? {
        let joined = known.joined.filter(|joined| *joined <= integer(at));
        let mut own = Known { parent: copy.clone(), gone: None, joined, ..known };
        if own.ending.is_none() {
            let id = child_invocation(copy.as_str(), &own.name);
            let id: InvocationId = id.parse().map_err(|_| MetaError::Damaged { id, what: "child" })?;
            let model = find(connection, &own.id)?;
            match (model, find(connection, &id)?) {
                (Some(model), None) => {
                    let new = NewInvocation { id: &id, workflow: &model.workflow, start: &model.start, due: now };
                    insert(connection, &new, now)?;
                }
                _ => {
                    own.ending = Some(Ending::Refused);
                    let why = format!("there is an invocation `{id}` already, or no start any more");
                    own.outcome = Some(children::end(Ending::Refused, &why));
                }
            }
            own.id = id;
        }
        add(connection, &own)?;
        tell(connection, &own, now)?;
    }
    Ok(())
}

/// An invocation went back to a generation, and has a new one: it is told again what it has taken since, and does not know of children that it has
/// started since.
pub(super) fn rewound(
    connection: &Connection,
    id: &InvocationId,
    to: u64,
    generation: u64,
    now: u64,
) -> Result<(), MetaError> {
    let (id, to, generation) = (id.as_str(), integer(to), integer(generation));
    let run = |change: &str| connection.prepare_cached(change)?.execute(params![id, to, generation]);
    run("UPDATE child SET gone = NULL WHERE parent = ?1 AND since <= ?2 AND gone > ?2 AND ?3 > 0")?;
    run("UPDATE child SET gone = ?3 WHERE parent = ?1 AND since > ?2 AND gone IS NULL")?;
    run("UPDATE child SET joined = NULL WHERE parent = ?1 AND joined > ?2 AND ?3 > 0")?;
    for known in many(connection, "WHERE parent = ?1 AND ending IS NOT NULL", [id])? {
        tell(connection, &known, now)?;
    }
    Ok(())
}

/// Removes what an invocation that is removed knows of its children, which are orphans then, and what a parent that is not there knows of it.
pub(super) fn purge(connection: &Connection, id: &InvocationId) -> Result<(), MetaError> {
    // One that was refused has the id of a stranger. A copy of the parent may know of the same child.
    let orphans = format!(
        "INSERT OR REPLACE INTO orphan (id, depth) SELECT id, depth FROM child WHERE parent = ?1 AND removed = 0 \
         AND ending IS NOT {} AND EXISTS (SELECT 1 FROM invocation WHERE invocation.id = child.id) \
         AND NOT EXISTS (SELECT 1 FROM child AS other WHERE other.id = child.id AND other.parent <> ?1)",
        Ending::Refused as u8
    );
    let changes = [
        orphans.as_str(),
        "DELETE FROM child WHERE parent = ?1",
        "DELETE FROM orphan WHERE id = ?1",
        "DELETE FROM child WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM invocation WHERE invocation.id = child.parent)",
        "UPDATE child SET removed = 1 WHERE id = ?1",
    ];
    for change in changes {
        connection.prepare_cached(change)?.execute([id.as_str()])?;
    }
    Ok(())
}

/// Whether an invocation is a child whose parent was removed.
pub(super) fn is_orphan(connection: &Connection, id: &InvocationId) -> Result<bool, MetaError> {
    let query = "SELECT EXISTS (SELECT 1 FROM orphan WHERE id = ?1)";
    Ok(connection.prepare_cached(query)?.query_row([id.as_str()], |row| row.get(0))?)
}

/// Removes the same of one whose row is damaged: its children end with it as if it were cancelled, and its parent is told that it was. What is damaged itself of what is
/// known of them is removed with it.
pub(super) fn purge_damaged(connection: &Connection, id: &InvocationId, now: u64) -> Result<(), MetaError> {
    match ended(connection, id, Status::Cancelled, now) {
        Err(MetaError::Damaged { .. }) => {
            connection.prepare_cached("DELETE FROM child WHERE parent = ?1")?.execute([id.as_str()])?;
            Ok(())
        }
        ended => ended,
    }
}

/// Tells the end of a child, if it has ended, to the parent that has not taken it yet.
fn tell(connection: &Connection, known: &Known, now: u64) -> Result<(), MetaError> {
    match untold(known) {
        Some(bytes) => deliver(connection, &known.parent, &known.name, &bytes, now),
        None => Ok(()),
    }
}

/// What is told of a child that has ended, to the parent that has not taken it yet.
fn untold(known: &Known) -> Option<Vec<u8>> {
    let ending = known.ending?;
    if known.detached || known.gone.is_some() || known.joined.is_some() {
        return None;
    }
    Some(match (&known.outcome, ending) {
        (Some(bytes), _) => bytes.clone(),
        (None, Ending::Completed) => children::end(Ending::TooLarge, "its outputs are not kept any more"),
        (None, ending) => children::end(ending, ""),
    })
}

/// Puts the end of a child into a mailbox, unless one is there.
fn deliver(
    connection: &Connection,
    parent: &InvocationId,
    name: &str,
    bytes: &[u8],
    now: u64,
) -> Result<(), MetaError> {
    super::mail::deliver(connection, parent, &format!("{CHILD_EVENT}{name}"), bytes, now)
}

/// As by hand: one that waits for that is told, and one that runs is cancelled with its next commit.
fn cancel_invocation(connection: &Connection, id: &InvocationId, reason: &str, now: u64) -> Result<(), MetaError> {
    let Some(before) = find_sound(connection, id)?.filter(|row| !row.status.is_end()) else { return Ok(()) };
    if super::cancel::tell(connection, &before, now)? {
        return Ok(());
    }
    let mut row = before.clone();
    row.changed = now;
    let mut entry = None;
    if row.status == Status::Running {
        row.wanted = Some(Status::Cancelled);
    } else {
        row.status = Status::Cancelled;
        row.reason = Some(reason.to_owned());
        row.leave_out();
        entry = Some(Entry::done(&row, Happened::Cancelled, reason));
    }
    // Files that no history names any more are swept.
    store(connection, &before, &row, entry.as_ref())?;
    Ok(())
}

/// How many children have not been joined.
fn unjoined(connection: &Connection, parent: &InvocationId) -> Result<u64, MetaError> {
    let query = "SELECT count(*) FROM child WHERE parent = ?1 AND joined IS NULL AND detached = 0";
    Ok(time(connection.prepare_cached(query)?.query_row([parent.as_str()], |row| row.get(0))?))
}

/// Makes room for one more row of a parent; whether there is.
fn has_room(connection: &Connection, parent: &InvocationId) -> Result<bool, MetaError> {
    let rows = || -> Result<u64, MetaError> {
        let query = "SELECT count(*) FROM child WHERE parent = ?1";
        Ok(time(connection.prepare_cached(query)?.query_row([parent.as_str()], |row| row.get(0))?))
    };
    let surplus = (rows()? + 1).saturating_sub(ROWS_MAX);
    if surplus == 0 {
        return Ok(true);
    }
    connection
        .prepare_cached(
            "DELETE FROM child WHERE number IN (SELECT number FROM child WHERE parent = ?1 AND (joined IS NOT NULL OR \
             detached = 1 AND ending IS NOT NULL) ORDER BY number LIMIT ?2)",
        )?
        .execute(params![parent.as_str(), integer(surplus)])?;
    Ok(rows()? < ROWS_MAX)
}

/// The row of the parent that has started an invocation. Copies may know of its end too: theirs are later.
fn of(connection: &Connection, id: &InvocationId) -> Result<Option<Known>, MetaError> {
    Ok(many(connection, "WHERE id = ?1 AND removed = 0 ORDER BY number LIMIT 1", [id.as_str()])?.pop())
}

/// How many invocations there are above one.
fn depth(connection: &Connection, id: &InvocationId) -> Result<u32, MetaError> {
    if let Some(known) = of(connection, id)? {
        return Ok(known.depth);
    }
    let mut query = connection.prepare_cached("SELECT depth FROM orphan WHERE id = ?1")?;
    Ok(query.query_row([id.as_str()], |row| row.get(0)).optional()?.unwrap_or(0))
}

fn by_name(connection: &Connection, parent: &InvocationId, name: &str) -> Result<Option<Known>, MetaError> {
    Ok(many(connection, "WHERE parent = ?1 AND name = ?2", [parent.as_str(), name])?.pop())
}

fn many(connection: &Connection, which: &str, values: impl Params) -> Result<Vec<Known>, MetaError> {
    let mut query = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM child {which}"))?;
    let mut rows = query.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<Known, MetaError> {
    let parent: String = row.get(1)?;
    let damaged = || MetaError::Damaged { id: parent.clone(), what: "child" };
    let ending = row.get::<_, Option<i64>>(11)?;
    let ending_of = |number: i64| Ending::ALL.into_iter().find(|ending| i64::from(*ending as u8) == number);
    let name: String = row.get(2)?;
    if !monohull_abi::child::is_child_id(&name) {
        return Err(damaged());
    }
    Ok(Known {
        number: row.get(0)?,
        parent: parent.parse().map_err(|_| damaged())?,
        name,
        id: row.get::<_, String>(3)?.parse().map_err(|_| damaged())?,
        workflow: row.get(4)?,
        digest: row.get(5)?,
        detached: row.get(6)?,
        depth: row.get(7)?,
        since: row.get(8)?,
        gone: row.get(9)?,
        joined: row.get(10)?,
        ending: ending.map(|ending| ending_of(ending).ok_or_else(damaged)).transpose()?,
        outcome: row.get(12)?,
        removed: row.get(13)?,
    })
}

fn add(connection: &Connection, known: &Known) -> Result<(), MetaError> {
    connection
        .prepare_cached(
            "INSERT INTO child (parent, name, id, workflow, digest, detached, depth, since, gone, joined, ending, outcome, removed) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, encrypted(?12, 'outcome', ?1 || '/' || ?2), ?13)",
        )?
        .execute(params![
            known.parent.as_str(),
            known.name,
            known.id.as_str(),
            known.workflow,
            known.digest,
            known.detached,
            known.depth,
            known.since,
            known.gone,
            known.joined,
            known.ending.map(|ending| ending as u8),
            known.outcome,
            known.removed,
        ])?;
    Ok(())
}

/// The SHA-256 of what a child is started with.
fn digest(asked: &Outgoing) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update((asked.name.len() as u64).to_le_bytes());
    hash.update(&asked.name);
    hash.update(&asked.bytes);
    hash.finalize().to_vec()
}

#[cfg(test)]
mod tests;
