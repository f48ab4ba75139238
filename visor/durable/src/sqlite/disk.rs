//! When a transaction waits for the disk, and for how long.

use super::Sqlite;
use crate::meta::MetaError;
use rusqlite::TransactionBehavior;

/// Bytes that the log has when it is begun anew, as a rule (SQLite's `wal_autocheckpoint`).
const LOG: usize = 1000 * 4096;

impl Sqlite {
    /// Makes the log as long as it becomes before it is begun anew: a disk takes longer to make a file longer than to write where it has bytes.
    pub fn lengthen_log(&mut self) -> Result<(), MetaError> {
        let before: i64 = self.connection.pragma_query_value(None, "cache_size", |row| row.get(0))?;
        // What there is no room for in memory is in the log before the end of its transaction.
        self.connection.pragma_update(None, "cache_size", 16)?;
        let lengthened = self.write_and_undo(LOG);
        self.connection.pragma_update(None, "cache_size", before)?;
        Ok(lengthened?)
    }

    fn write_and_undo(&mut self, bytes: usize) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch("CREATE TABLE undone (bytes BLOB)")?;
        transaction.execute("INSERT INTO undone VALUES (zeroblob(?1))", [i64::try_from(bytes).unwrap_or(0)])?;
        transaction.rollback()
    }

    /// Says whether transactions wait until the disk has them. If they do not, the next one that does waits for those before it too.
    pub(super) fn wait_for_disk(&mut self, waits: bool) -> Result<(), MetaError> {
        if waits && self.is_relaxed {
            self.connection.pragma_update(None, "synchronous", "FULL")?;
            self.is_relaxed = false;
        } else if !waits && !self.is_relaxed {
            self.is_relaxed = true;
            self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        }
        Ok(())
    }
}
