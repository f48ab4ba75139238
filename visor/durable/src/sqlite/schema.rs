//! The tables, and what was added to them since the first ones.
//!
//! ```text
//!   open ─▶ the file has all of this, as a digest says ─▶ done
//!         └▶ it is new, or of another build ─▶ each part in its turn: tables that are not there, columns that a table lacks ─▶ the digest
//! ```
//!
//! A part is never changed: what comes later is another part.

use super::{
    children, history, late, mail, purge, request, schedule, served, timeline, undelivered, unsynced, versions,
};
use crate::meta::MetaError;
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

const INVOCATIONS: &str = "
    CREATE TABLE invocation (
        id         TEXT    PRIMARY KEY,
        workflow   TEXT    NOT NULL,
        status     INTEGER NOT NULL,
        started    INTEGER NOT NULL,
        changed    INTEGER NOT NULL,
        due        INTEGER,
        epoch      INTEGER NOT NULL DEFAULT 0,
        attempts   INTEGER NOT NULL DEFAULT 0,
        generation INTEGER NOT NULL DEFAULT 0,
        owner      TEXT,
        checkpoint TEXT,
        waits      TEXT    NOT NULL DEFAULT '[]',
        reason     TEXT,
        wanted     INTEGER,
        start      BLOB    NOT NULL,
        report     BLOB,
        published  TEXT    NOT NULL DEFAULT '{}'
    ) STRICT, WITHOUT ROWID;
    -- What can be claimed: pending (0) and suspended (2) invocations that something happens to by itself.
    CREATE INDEX due ON invocation (due, id) WHERE due IS NOT NULL AND status IN (0, 2);
";

/// Those that have not ended, by status, and those that run by their owners. One index: each that has a row anew with a transaction makes that write a page more.
const LIVING: &str = "
    CREATE INDEX IF NOT EXISTS living_by ON invocation (status, owner) WHERE status IN (0, 1, 2, 3);
    DROP INDEX IF EXISTS owned;
    DROP INDEX IF EXISTS living;
";

/// The digest of the parts that the file has.
const MADE: &str = "
    CREATE TABLE IF NOT EXISTS made (
        id    INTEGER PRIMARY KEY CHECK (id = 1),
        parts BLOB    NOT NULL
    ) STRICT;
";

/// A part of the schema.
#[derive(Debug)]
enum Part {
    /// Statements that change nothing where they have been executed before.
    Tables(&'static str),
    /// A column of a table: the table, its name, and its type.
    Column(&'static str, &'static str, &'static str),
}

use Part::{Column, Tables};

/// The parts that a file has had since it was made. Where they are missing they have been lost, and with them what was in them.
const FIRST: &[Part] = &[Tables(INVOCATIONS), Tables(history::SCHEMA)];

/// All others, in the order in which they were added.
const PARTS: &[Part] = &[
    Column("invocation", "published", "TEXT NOT NULL DEFAULT '{}'"),
    Column("history", "published", "TEXT NOT NULL DEFAULT '{}'"),
    Column("invocation", "began", "INTEGER"),
    Column("invocation", "woken", "TEXT"),
    Column("invocation", "entries", "INTEGER NOT NULL DEFAULT 0"),
    Column("invocation", "recent", "TEXT NOT NULL DEFAULT ''"),
    Column("history", "label", "TEXT"),
    Column("history", "told", "TEXT"),
    Tables(mail::SCHEMA),
    Tables(history::PARENTS),
    Tables(served::SCHEMA),
    Column("output", "content", "BLOB"),
    Tables(schedule::SCHEMA),
    Column("lineage", "parent_started", "INTEGER"),
    Tables(children::SCHEMA),
    Column("child", "removed", "INTEGER NOT NULL DEFAULT 0"),
    Tables(undelivered::SCHEMA),
    Tables(versions::SCHEMA),
    Tables(unsynced::SCHEMA),
    Tables(purge::SCHEMA),
    Tables(request::SCHEMA),
    Tables(late::SCHEMA),
    Tables(timeline::SCHEMA),
    Column("unsynced", "filled", "BLOB"),
    Tables(LIVING),
    Tables(MADE),
];

/// Begins the schema of a file that is new.
pub(super) fn begin(connection: &Connection) -> Result<(), MetaError> {
    FIRST.iter().try_for_each(|part| add(connection, part))
}

/// Makes what the file lacks of the other parts.
pub(super) fn complete(connection: &Connection) -> Result<(), MetaError> {
    let parts = Sha256::digest(format!("{PARTS:?}"));
    if made(connection)?.is_some_and(|made| made == parts[..]) {
        return Ok(());
    }
    PARTS.iter().try_for_each(|part| add(connection, part))?;
    connection.execute("INSERT OR REPLACE INTO made (id, parts) VALUES (1, ?1)", [&parts[..]])?;
    Ok(())
}

fn add(connection: &Connection, part: &Part) -> Result<(), MetaError> {
    match part {
        Tables(statements) => Ok(connection.execute_batch(statements)?),
        Column(table, name, of) => add_column(connection, table, name, of),
    }
}

/// The digest of the parts that the file has, if it says so.
fn made(connection: &Connection) -> Result<Option<Vec<u8>>, MetaError> {
    let known = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'made')";
    if !connection.query_row(known, [], |row| row.get::<_, bool>(0))? {
        return Ok(None);
    }
    Ok(connection.query_row("SELECT parts FROM made", [], |row| row.get(0)).optional()?)
}

/// Adds a column to a table of before there was one.
fn add_column(connection: &Connection, table: &str, name: &str, of: &str) -> Result<(), MetaError> {
    let known = "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2)";
    if !connection.query_row(known, [table, name], |row| row.get::<_, bool>(0))? {
        connection.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {name} {of}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Meta, Store};
    use tempfile::TempDir;

    #[test]
    fn parts_are_made_where_another_build_has_not_made_them_and_where_they_are_lost_they_are_missed() {
        let folder = TempDir::new().expect("a folder");
        let open = || Store::open(folder.path(), None).and_then(|store| store.meta());
        let edit = |statements: &str| {
            open().expect("opened").connection.execute_batch(statements).expect("edited");
        };
        edit("DROP TABLE late; UPDATE made SET parts = x'00';");
        let meta = open().expect("opened");
        assert_eq!(made(&meta.connection).expect("read").expect("there is one").len(), 32);
        assert_eq!(meta.connection.query_row("SELECT count(*) FROM late", [], |row| row.get::<_, i64>(0)), Ok(0));
        drop(meta);
        // Empty tables would say that there were no invocations, and their files would be removed.
        edit("DROP TABLE invocation;");
        let lost = |what: &str| {
            let error = open().and_then(|meta| Ok(meta.list(&[], "", 1)?)).expect_err(what).to_string();
            assert!(error.contains("no such table: invocation"), "{what}: {error}");
        };
        lost("of this build");
        let connection = Connection::open(folder.path().join("meta.sqlite")).expect("opened");
        connection.execute_batch("UPDATE made SET parts = x'00';").expect("edited");
        let error = open().expect_err("of another build").to_string();
        assert!(error.contains("no such table"), "{error}");
    }
}
