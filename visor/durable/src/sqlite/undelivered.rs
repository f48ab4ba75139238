//! What could not be sent, for those who ask about its sender.

use super::{Sqlite, integer, time};
use crate::meta::MetaError;
use crate::{InvocationId, Lost, Undelivered};
use monohull_report::What;
use rusqlite::{Connection, params};

/// The most that is kept of one sender. The oldest goes first.
const KEPT: u64 = 100;

pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS undelivered (
        number   INTEGER PRIMARY KEY AUTOINCREMENT,
        id       TEXT    NOT NULL,
        at       INTEGER NOT NULL,
        what     INTEGER NOT NULL,
        receiver TEXT    NOT NULL,
        name     TEXT    NOT NULL,
        why      TEXT    NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS undelivered_by ON undelivered (id, number);
";

impl Sqlite {
    /// What an invocation could not send last, the oldest first.
    pub fn undelivered(&self, id: &InvocationId) -> Result<Vec<Lost>, MetaError> {
        let query = "SELECT at, what, receiver, name, why FROM undelivered WHERE id = ?1 ORDER BY number";
        let mut query = self.connection.prepare_cached(query)?;
        let rows = query.query_map([id.as_str()], |row| {
            let what = match row.get::<_, i64>(1)? {
                0 => "event",
                1 => "start",
                2 => "cancel",
                3 => "checkpoint",
                _ => "fork",
            };
            Ok(Lost { at: time(row.get(0)?), what, to: row.get(2)?, name: row.get(3)?, why: row.get(4)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Keeps what could not be sent with a commit.
pub(super) fn add(connection: &Connection, id: &InvocationId, lost: &[Undelivered], now: u64) -> Result<(), MetaError> {
    if lost.is_empty() {
        return Ok(());
    }
    for undelivered in lost {
        let what = match undelivered.what {
            What::Event => 0,
            What::Start { .. } => 1,
            What::Cancel => 2,
            What::Checkpoint => 3,
            What::Fork { .. } => 4,
        };
        let Undelivered { to, name, why, .. } = undelivered;
        connection
            .prepare_cached(
                "INSERT INTO undelivered (id, at, what, receiver, name, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![id.as_str(), integer(now), what, to, name, why.to_string()])?;
    }
    connection
        .prepare_cached(
            "DELETE FROM undelivered WHERE id = ?1 AND number NOT IN \
             (SELECT number FROM undelivered WHERE id = ?1 ORDER BY number DESC LIMIT ?2)",
        )?
        .execute(params![id.as_str(), integer(KEPT)])?;
    Ok(())
}

/// Removes what is kept of an invocation that is removed.
pub(super) fn remove(connection: &Connection, id: &InvocationId) -> Result<(), MetaError> {
    connection.prepare_cached("DELETE FROM undelivered WHERE id = ?1")?.execute([id.as_str()])?;
    Ok(())
}
