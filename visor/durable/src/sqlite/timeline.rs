//! Timelines in the SQLite file.
//!
//! ```text
//!   row of the invocation: entries = 6, recent = "4\n5\n"     timeline: (id, 0) = "0\n1\n2\n3\n"
//!   a commit adds entry 6: entries = 7, recent = "4\n5\n6\n"
//!   a commit adds entry 7: entries = 8, recent = ""           timeline: (id, 4) = "4\n5\n6\n7\n"
//! ```
//!
//! A commit writes the row of its invocation anyway. So the newest entries are in that, and go into a row of their own together: a commit that did so each time would
//! write one page more.

use super::changes::Changes;
use super::{Sqlite, integer, text, time};
use crate::timeline::{ENTRIES_KEPT, Entry, Happened, Woken};
use crate::{InvocationId, MetaError};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

/// So many entries are a row. More make the row of an invocation too long for its page.
const TOGETHER: u64 = 4;

pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS timeline (
        id      TEXT    NOT NULL,
        first   INTEGER NOT NULL,
        entries TEXT    NOT NULL,
        PRIMARY KEY (id, first)
    ) STRICT, WITHOUT ROWID;
";

/// An entry without its number: what has happened, when, how long the leg was (ns), the generation, what woke it, the process, and what it is about.
#[derive(Serialize, Deserialize)]
struct Line(usize, u64, Option<i64>, u64, Option<String>, Option<u32>, String);

/// Why a leg began, as a word. The name of an event is behind its letter.
pub(super) fn word(woken: &Woken) -> String {
    match woken {
        Woken::Start => "s".to_owned(),
        Woken::Again => "a".to_owned(),
        Woken::Time => "t".to_owned(),
        Woken::Event(name) => format!("e{name}"),
    }
}

/// What such a word means.
pub(super) fn woken(word: &str) -> Option<Woken> {
    match word {
        "s" => Some(Woken::Start),
        "a" => Some(Woken::Again),
        "t" => Some(Woken::Time),
        event => Some(Woken::Event(event.strip_prefix('e')?.to_owned())),
    }
}

/// An entry as a line.
pub(super) fn line(entry: &Entry) -> rusqlite::Result<String> {
    let woken = entry.woken.as_ref().map(word);
    let Entry { at, generation, process, about, .. } = entry;
    // Each is in the list once.
    let what = Happened::ALL.iter().position(|what| *what == entry.what).unwrap_or_default();
    let ran = entry.began.map(|began| integer(*at).saturating_sub(integer(began)));
    let line = Line(what, *at, ran, *generation, woken, *process, about.clone());
    Ok(text(serde_json::to_string(&line))? + "\n")
}

fn read(number: u64, line: &str) -> Option<Entry> {
    let Line(what, at, ran, generation, word, process, about) = serde_json::from_str(line).ok()?;
    let woken = match word {
        None => None,
        Some(word) => Some(woken(&word)?),
    };
    let began = ran.map(|ran| at.saturating_add_signed(ran.saturating_neg()));
    Some(Entry { number, at, began, what: *Happened::ALL.get(what)?, generation, woken, process, about })
}

/// The columns in which the row of an invocation has an entry more.
pub(super) fn add(
    connection: &Connection,
    id: &InvocationId,
    entry: &Entry,
    changes: &mut Changes,
) -> Result<(), MetaError> {
    let (line, count) = (line(entry)?, entry.number + 1);
    changes.set("entries = ?", integer(count).into());
    if !count.is_multiple_of(TOGETHER) {
        changes.set("recent = recent || ?", line.into());
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO timeline (id, first, entries) SELECT id, ?2, recent || ?3 FROM invocation WHERE id = ?1",
        )?
        .execute(params![id.as_str(), integer(count - TOGETHER), line])?;
    changes.set("recent = ?", String::new().into());
    if let Some(last) = count.checked_sub(ENTRIES_KEPT + TOGETHER) {
        connection
            .prepare_cached("DELETE FROM timeline WHERE id = ?1 AND first <= ?2")?
            .execute(params![id.as_str(), integer(last)])?;
    }
    Ok(())
}

/// Removes what is kept of an invocation that is removed.
pub(super) fn remove(connection: &Connection, id: &InvocationId) -> Result<(), MetaError> {
    connection.prepare_cached("DELETE FROM timeline WHERE id = ?1")?.execute([id.as_str()])?;
    Ok(())
}

impl Sqlite {
    /// The entries of an invocation before this number, at most so many: the newest of them, the oldest first.
    pub fn timeline(&self, id: &InvocationId, before: u64, most: usize) -> Result<Vec<Entry>, MetaError> {
        // The row and the table are of one time, which may be that of other things too.
        let is_alone = self.connection.is_autocommit();
        let _snapshot = is_alone.then(|| self.connection.unchecked_transaction()).transpose()?;
        let newest: Option<(i64, String)> = self
            .connection
            .prepare_cached("SELECT entries, recent FROM invocation WHERE id = ?1")?
            .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((count, recent)) = newest else { return Ok(Vec::new()) };
        let count = time(count);
        let before = before.min(count);
        let first = count.saturating_sub(ENTRIES_KEPT).max(before.saturating_sub(most as u64));
        let mut entries = Vec::new();
        let mut take = |number: u64, lines: &str| -> Result<(), MetaError> {
            for (number, line) in (number..).zip(lines.lines()) {
                let entry = read(number, line).ok_or_else(|| damaged(id))?;
                if (first..before).contains(&number) {
                    entries.push(entry);
                }
            }
            Ok(())
        };
        let mut query = self.connection.prepare_cached(
            "SELECT first, entries FROM timeline WHERE id = ?1 AND first > ?2 AND first < ?3 ORDER BY first",
        )?;
        let values = params![id.as_str(), integer(first).saturating_sub(TOGETHER as i64), integer(before)];
        let mut rows = query.query(values)?;
        while let Some(row) = rows.next()? {
            take(time(row.get(0)?), row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?;
        }
        take(count - count % TOGETHER, &recent)?;
        if entries.len() as u64 != before.saturating_sub(first) {
            return Err(damaged(id));
        }
        Ok(entries)
    }
}

fn damaged(id: &InvocationId) -> MetaError {
    MetaError::Damaged { id: id.to_string(), what: "timeline" }
}

#[cfg(test)]
mod tests;
