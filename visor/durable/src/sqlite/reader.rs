//! A connection that only reads. It sees what the last commit left, and waits for no transaction of another connection: not even for one that
//! waits for the disk.

use super::Sqlite;
use crate::meta::MetaError;

impl Sqlite {
    /// From now on this connection refuses to change anything.
    pub fn only_reads(self) -> Result<Sqlite, MetaError> {
        self.connection.pragma_update(None, "query_only", true)?;
        Ok(self)
    }

    /// Reads several things as they are at one time, whatever others commit meanwhile.
    pub fn at_one_time<T>(&self, read: impl FnOnce(&Sqlite) -> Result<T, MetaError>) -> Result<T, MetaError> {
        let _snapshot = self.connection.unchecked_transaction()?;
        read(self)
    }
}

#[cfg(test)]
mod tests {
    use crate::{InvocationId, Meta, MetaError, NewInvocation, Sqlite, Store};
    use tempfile::TempDir;

    fn start(meta: &mut Sqlite, name: &str) -> Result<(), MetaError> {
        let id: InvocationId = name.parse().expect("a name");
        meta.start(&NewInvocation { id: &id, workflow: "w", start: b"start", due: 1 }, 1).map(drop)
    }

    fn count(meta: &Sqlite) -> usize {
        meta.list(&[], "", 100).expect("read").len()
    }

    #[test]
    fn it_sees_the_last_commit_during_the_next_one_and_changes_nothing() {
        let folder = TempDir::new().expect("a folder");
        let store = Store::open_served(folder.path(), None).expect("a new one");
        let mut meta = store.meta().expect("a database");
        let mut reader = store.meta().and_then(|meta| Ok(meta.only_reads()?)).expect("a database");
        start(&mut meta, "a").expect("started");
        meta.together(&mut [|meta: &mut Sqlite| {
            start(meta, "b").expect("started");
            assert_eq!(count(&reader), 1, "it does not wait");
        }])
        .expect("done");
        assert_eq!(count(&reader), 2);
        assert!(start(&mut reader, "c").is_err());
        assert_eq!((count(&reader), count(&meta)), (2, 2));
    }

    #[test]
    fn what_is_read_at_one_time_is_not_changed_meanwhile() {
        let folder = TempDir::new().expect("a folder");
        let store = Store::open_served(folder.path(), None).expect("a new one");
        let mut meta = store.meta().expect("a database");
        let reader = store.meta().and_then(|meta| Ok(meta.only_reads()?)).expect("a database");
        let seen = reader.at_one_time(|reader| {
            let before = count(reader);
            start(&mut meta, "a")?;
            Ok((before, count(reader)))
        });
        assert_eq!(seen.expect("read"), (0, 0));
        assert_eq!(count(&reader), 1);
    }
}
