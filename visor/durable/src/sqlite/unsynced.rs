//! Checkpoints whose files are not on the disk yet: their contents are in the transactions that name them.
//!
//! ```text
//!   file: written, named ─▶ commit: row, content ─▶ the disk has the log …… later, many at once: files, folder synced ─▶ contents removed
//!                                                     └─ the machine stops ─▶ what the files lack is written again
//! ```
//!
//! So a commit waits for the disk once. A file that is not read soon need not be there at all before it is synced. A content is here as long as the disk may lack its file, and no longer than a history names it.

use super::Sqlite;
use crate::Checkpoint;
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

/// Removes the contents of files that nothing names any more, and keeps that of another one, which a history names: in the place of one of theirs, if there is one. A row of
/// as many bytes is written over. Otherwise the database would have to note which of its pages are free.
pub(super) fn exchange(
    connection: &Connection,
    obsolete: &[Checkpoint],
    content: Option<&(String, Vec<u8>)>,
) -> Result<(), MetaError> {
    let mut new = content;
    for Checkpoint { file, .. } in obsolete {
        let Some((name, bytes)) = new else {
            forget(connection, file)?;
            continue;
        };
        let written = connection
            .prepare_cached(
                "UPDATE OR REPLACE unsynced SET file = ?2, content = ?3, filled = zeroblob(?4) WHERE file = ?1",
            )?
            .execute(params![file, name, bytes, filled(name, bytes)])?;
        if written > 0 {
            new = None;
        }
    }
    if let Some((name, bytes)) = new {
        connection
            .prepare_cached("INSERT OR REPLACE INTO unsynced (file, content, filled) VALUES (?1, ?2, zeroblob(?3))")?
            .execute(params![name, bytes, filled(name, bytes)])?;
    }
    Ok(())
}

/// Bytes of a page, and of a row's beginning on the page that it begins on if that is full.
const PAGE: usize = 4096;
const FIRST: usize = PAGE - 35;
/// The same of each other page of a row, which begins with the number of the next one.
const NEXT: usize = PAGE - 4;

/// How many bytes make a row of more than a page end with a page, so that those of about as many bytes have as many. Where they are not as many as
/// meant it takes pages more, and nothing else.
fn filled(name: &str, content: &[u8]) -> i64 {
    let (name, content) = (name.len(), content.len());
    // The types of the three values, each with its length, and the length of all that.
    let bytes = |filled: usize| {
        let types = varint(2 * name + 13) + varint(2 * content + 12) + varint(2 * filled + 12);
        1 + types + name + content + filled
    };
    let least = bytes(0);
    if least <= FIRST {
        return 0;
    }
    let whole = FIRST + (least - FIRST).div_ceil(NEXT) * NEXT;
    // Its own length takes up to three bytes more.
    (0..=4)
        .find_map(|less| (whole - least).checked_sub(less).filter(|filled| bytes(*filled) == whole))
        .map_or(0, |filled| filled as i64)
}

/// The bytes of a number as SQLite writes it.
fn varint(number: usize) -> usize {
    (number.max(1).ilog2() as usize) / 7 + 1
}

/// Nothing names a file any more.
pub(super) fn forget(connection: &Connection, file: &str) -> Result<(), MetaError> {
    connection.prepare_cached("DELETE FROM unsynced WHERE file = ?1")?.execute([file])?;
    Ok(())
}

/// Removes the contents of files that nothing names: of an invocation that was removed, and whose history was damaged.
pub(super) fn forget_unnamed(connection: &Connection) -> Result<(), MetaError> {
    let unnamed = "DELETE FROM unsynced WHERE NOT EXISTS (SELECT 1 FROM history WHERE history.file = unsynced.file) \
        AND NOT EXISTS (SELECT 1 FROM parent WHERE parent.parent = unsynced.file)";
    connection.execute(unnamed, [])?;
    Ok(())
}
