//! Checkpoints whose files are not on the disk yet: their contents are in the transactions that name them.
//!
//! ```text
//!   file: written, named ─▶ commit: row, content ─▶ the disk has the log …… later, many at once: files, folder synced ─▶ contents removed
//!                                                     └─ the machine stops ─▶ what the files lack is written again
//! ```
//!
//! So a commit waits for the disk once. A file that is not read soon need not be there at all before it is synced. A content is here as long as the disk may lack its file, and no longer than a history names it.

use super::Sqlite;
use crate::meta::MetaError;
use rusqlite::{Connection, OptionalExtension, params};

pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS unsynced (
        file    TEXT NOT NULL UNIQUE,
        content BLOB NOT NULL
    ) STRICT;
";

impl Sqlite {
    /// The names of files that may not be on the disk, with the numbers of their rows: at most so many behind this number.
    pub(crate) fn unsynced(&self, after: i64, most: usize) -> Result<Vec<(i64, String)>, MetaError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT rowid, file FROM unsynced WHERE rowid > ?1 ORDER BY rowid LIMIT ?2")?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let files = query.query_map([after, most], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(files.collect::<Result<_, _>>()?)
    }

    /// How many these are.
    pub fn count_unsynced(&self) -> Result<u64, MetaError> {
        let count: i64 = self.connection.query_row("SELECT count(*) FROM unsynced", [], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// What such a file has to have.
    pub(crate) fn unsynced_content(&self, file: &str) -> Result<Option<Vec<u8>>, MetaError> {
        let mut query = self.connection.prepare_cached("SELECT content FROM unsynced WHERE file = ?1")?;
        Ok(query.query_row([file], |row| row.get(0)).optional()?)
    }

    /// Whether the content of a file is here.
    pub fn is_unsynced(&self, file: &str) -> Result<bool, MetaError> {
        let mut query = self.connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM unsynced WHERE file = ?1)")?;
        Ok(query.query_row([file], |row| row.get(0))?)
    }

    /// The disk has these files, with these contents.
    pub(crate) fn synced(&mut self, files: &[(String, Vec<u8>)]) -> Result<(), MetaError> {
        let transaction = self.begin()?;
        for (file, content) in files {
            // Another file may have the name by now.
            transaction
                .prepare_cached("DELETE FROM unsynced WHERE file = ?1 AND content = ?2")?
                .execute(params![file, content])?;
        }
        Ok(transaction.commit()?)
    }
}

/// Keeps what the file of a checkpoint has, if a history names it.
pub(super) fn add(connection: &Connection, file: &str, content: &[u8]) -> Result<(), MetaError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO unsynced (file, content) SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM history WHERE file = ?1)",
        )?
        .execute(params![file, content])?;
    Ok(())
}

/// Nothing names a file any more.
pub(super) fn forget(connection: &Connection, file: &str) -> Result<(), MetaError> {
    connection.prepare_cached("DELETE FROM unsynced WHERE file = ?1")?.execute([file])?;
    Ok(())
}
