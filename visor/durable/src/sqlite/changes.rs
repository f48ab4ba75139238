//! Changes of a row.
//!
//! Only what has changed is written. A column that is written makes each index that has it write a page, whether its value is another one or not.

use super::{integer, number, text, timeline};
use crate::meta::MetaError;
use crate::{Entry, Invocation};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

/// Columns with new values.
#[derive(Default)]
pub(super) struct Changes {
    columns: Vec<&'static str>,
    values: Vec<Value>,
}

impl Changes {
    pub(super) fn set(&mut self, column: &'static str, value: Value) {
        self.columns.push(column);
        self.values.push(value);
    }

    fn note(
        &mut self,
        is_other: bool,
        column: &'static str,
        value: impl FnOnce() -> Result<Value, MetaError>,
    ) -> Result<(), MetaError> {
        if is_other {
            self.set(column, value()?);
        }
        Ok(())
    }
}

/// Changes a row from what it was to what an invocation is now, with an entry of its timeline.
pub(super) fn write(
    connection: &Connection,
    before: &Invocation,
    row: &Invocation,
    entry: Option<&Entry>,
) -> Result<(), MetaError> {
    let mut changes = Changes::default();
    let integer = |value: u64| Ok(integer(value).into());
    changes.note(before.status != row.status, "status = ?", || Ok(number(row.status).into()))?;
    changes.note(before.changed != row.changed, "changed = ?", || integer(row.changed))?;
    changes.note(before.due != row.due, "due = ?", || Ok(row.due.map(super::integer).into()))?;
    changes.note(before.epoch != row.epoch, "epoch = ?", || integer(row.epoch))?;
    changes.note(before.attempts != row.attempts, "attempts = ?", || integer(row.attempts.into()))?;
    changes.note(before.generation != row.generation, "generation = ?", || integer(row.generation))?;
    changes.note(before.owner != row.owner, "owner = ?", || Ok(row.owner.clone().into()))?;
    changes.note(before.checkpoint != row.checkpoint, "checkpoint = ?", || {
        let checkpoint = row.checkpoint.as_ref().map(|checkpoint| text(serde_json::to_string(checkpoint)));
        Ok(checkpoint.transpose()?.into())
    })?;
    changes.note(before.waits != row.waits, "waits = ?", || Ok(text(serde_json::to_string(&row.waits))?.into()))?;
    changes.note(before.reason != row.reason, "reason = ?", || Ok(row.reason.clone().into()))?;
    changes.note(before.wanted != row.wanted, "wanted = ?", || Ok(row.wanted.map(number).into()))?;
    changes
        .note(before.report != row.report, "report = encrypted(?, 'report', id)", || Ok(row.report.clone().into()))?;
    changes.note(before.published != row.published, "published = encrypted_text(?, 'published', id)", || {
        Ok(text(serde_json::to_string(&row.published))?.into())
    })?;
    changes.note(before.began != row.began, "began = ?", || Ok(row.began.map(super::integer).into()))?;
    changes.note(before.woken != row.woken, "woken = ?", || Ok(row.woken.as_ref().map(timeline::word).into()))?;
    if let Some(entry) = entry {
        timeline::add(connection, &row.id, entry, &mut changes)?;
    }
    if !changes.columns.is_empty() {
        let change = format!("UPDATE invocation SET {} WHERE id = ?", changes.columns.join(", "));
        changes.values.push(row.id.as_str().to_owned().into());
        connection.prepare_cached(&change)?.execute(params_from_iter(changes.values))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Claimed, InvocationId, Meta, NewInvocation, Store, Want};
    use tempfile::TempDir;

    #[test]
    fn a_folder_with_the_indexes_of_before_goes_on_with_those_of_now() {
        let folder = TempDir::new().expect("a folder");
        let store = Store::open_served(folder.path(), None).expect("a new one");
        let mut meta = store.meta().expect("a database");
        let id: InvocationId = "one".parse().expect("a name");
        meta.start(&NewInvocation { id: &id, workflow: "w", start: b"start", due: 1 }, 1).expect("started");
        assert!(matches!(meta.claim("dead", Want::Due, 5), Ok(Claimed::Yes(_))));
        let before = "DROP INDEX living_by;
            CREATE INDEX owned ON invocation (owner) WHERE owner IS NOT NULL;
            CREATE INDEX living ON invocation (status) WHERE status IN (0, 1, 2, 3);
            ALTER TABLE history DROP COLUMN told;
            ALTER TABLE unsynced DROP COLUMN filled;
            DELETE FROM made;";
        meta.connection.execute_batch(before).expect("edited");
        drop(meta);
        let mut meta = store.meta().expect("a database");
        assert_eq!((meta.owners().expect("read"), meta.living().expect("read")), (vec!["dead".to_owned()], 1));
        meta.expire("dead", 6).expect("done");
        assert!(meta.owners().expect("read").is_empty());
        assert!(matches!(meta.claim("owner", Want::Due, 7), Ok(Claimed::Yes(claim)) if claim.attempt == 2));
        meta.check(u64::MAX).expect("it is whole");
        let count = "SELECT count(*) FROM sqlite_schema WHERE name IN ('owned', 'living')";
        assert_eq!(meta.connection.query_row(count, [], |row| row.get::<_, i64>(0)).expect("asked"), 0);
        // Neither all rows are looked at for those that run.
        let plan =
            format!("EXPLAIN QUERY PLAN SELECT id FROM invocation WHERE {} AND owner = 'x'", super::super::RUNNING);
        let plan: String = meta.connection.query_row(&plan, [], |row| row.get(3)).expect("asked");
        assert!(plan.contains("INDEX living_by (status=? AND owner=?)"), "{plan}");
    }
}
