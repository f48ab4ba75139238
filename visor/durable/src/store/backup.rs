//! A copy of a state folder that is made while others use it.
//!
//! ```text
//!   the database as of one moment ─▶ the checkpoints that it names ─▶ all are there ─▶ images, documents, inputs, outputs
//!            ▲                                  │
//!            └── some were removed meanwhile: ◀─┘ their invocations have gone on. The last time no transaction comes in between
//! ```
//!
//! A checkpoint is removed when no row names it any more, without waiting for readers. Other files are removed by a sweep, which waits for the copy
//! to be made. Nothing is decrypted: the copy needs the key that the folder has.

use super::{CHECKPOINTS, DATABASE, FILES, LOCK, OWNERS, Store, StoreError, at, check_owner, content};
use crate::meta::MetaError;
use crate::sqlite::is_file_name;
use nix::unistd::syncfs;
use rusqlite::ErrorCode::DiskFull;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, ffi};
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// How often the database is copied before its writers have to wait for the copy of what it names.
const ROUNDS: usize = 4;
/// How long a connection waits for the transactions of others.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a copy of a state folder has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BackedUp {
    /// How many invocations.
    pub invocations: u64,
    /// How many files beside the database.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Checkpoints that rows name and the folder does not have: what needs them is paused, in the folder and in the copy.
    pub missing: Vec<String>,
}

/// Which file it was that was copied.
#[derive(PartialEq, Eq)]
struct Identity {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Store {
    /// Makes a copy of a state folder, which may be in use, in a folder that is not there yet. The copy is one that can be opened: all that its
    /// database names is in it. [`Store::sync_backup`] brings it to the disk.
    pub fn back_up(from: &Path, to: &Path) -> Result<BackedUp, StoreError> {
        check_owner(from)?;
        if !from.join(DATABASE).is_file() {
            return Err(at(from)(io::Error::new(io::ErrorKind::NotFound, "it is no state folder")));
        }
        for name in ["", CHECKPOINTS, FILES, OWNERS] {
            let path = to.join(name);
            DirBuilder::new().mode(0o700).create(&path).map_err(at(&path))?;
        }
        let lock = from.join(LOCK);
        let sweeps = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&lock);
        let sweeps = sweeps.map_err(at(&lock))?;
        sweeps.lock_shared().map_err(at(&lock))?;
        let mut copied = HashMap::new();
        let mut backed_up = BackedUp::default();
        for round in 1..=ROUNDS {
            // It ends with the round.
            let _writers_wait = if round == ROUNDS { Some(stop_writers(&from.join(DATABASE))?) } else { None };
            let names = copy_database(&from.join(DATABASE), &to.join(DATABASE), &mut backed_up)?;
            backed_up.missing.clear();
            for name in names.into_iter().filter(|name| is_file_name(name)) {
                if !copy_checkpoint(from, to, &name, &mut copied)? {
                    backed_up.missing.push(name);
                }
            }
            if backed_up.missing.is_empty() {
                break;
            }
        }
        let mut bytes: u64 = copied.values().map(|identity| identity.bytes).sum();
        let mut files_copied = copied.len() as u64;
        let files = from.join(FILES);
        for entry in fs::read_dir(&files).map_err(at(&files))? {
            let entry = entry.map_err(at(&files))?;
            let name = entry.file_name();
            if name.to_str().and_then(content).is_some() {
                bytes += copy(&entry.path(), &to.join(FILES).join(&name))?;
                files_copied += 1;
            }
        }
        Ok(BackedUp { files: files_copied, bytes: backed_up.bytes + bytes, ..backed_up })
    }

    /// Has the disk take all of a copy.
    pub fn sync_backup(to: &Path) -> Result<(), StoreError> {
        File::open(to).and_then(|folder| Ok(syncfs(&folder)?)).map_err(at(to))
    }
}

/// As long as what this gives is there, others write nothing.
fn stop_writers(path: &Path) -> Result<Connection, MetaError> {
    let connection = connect(path)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    Ok(connection)
}

/// A connection that changes nothing by itself.
fn connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// Copies a database as it is at one moment. The checkpoints that it names, and does not have itself.
fn copy_database(from: &Path, to: &Path, backed_up: &mut BackedUp) -> Result<Vec<String>, StoreError> {
    // Only its owner may read it.
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to).map_err(at(to))?;
    let copied = || -> Result<(Vec<String>, u64), rusqlite::Error> {
        let source = connect(from)?;
        let mut copy = Connection::open(to)?;
        let backup = Backup::new(&source, &mut copy)?;
        // In one step: what is committed meanwhile is not in it.
        while backup.step(-1)? != StepResult::Done {
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(backup);
        let mut query = copy.prepare(
            "SELECT name FROM (SELECT file AS name FROM history UNION SELECT parent FROM parent UNION \
             SELECT json_extract(checkpoint, '$.file') FROM invocation WHERE json_valid(checkpoint)) \
             WHERE NOT EXISTS (SELECT 1 FROM unsynced WHERE file = name) ORDER BY 1",
        )?;
        let names = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        drop(query);
        let invocations: i64 = copy.query_row("SELECT count(*) FROM invocation", [], |row| row.get(0))?;
        Ok((names, invocations.unsigned_abs()))
    };
    let (names, invocations) = copied().map_err(|error| match error.sqlite_error() {
        Some(found) if found.code == DiskFull || found.extended_code == ffi::SQLITE_IOERR_WRITE => {
            at(to)(io::Error::new(io::ErrorKind::StorageFull, error))
        }
        _ => MetaError::from(error).into(),
    })?;
    backed_up.invocations = invocations;
    backed_up.bytes = fs::metadata(to).map_err(at(to))?.len();
    Ok(names)
}

/// Copies a checkpoint, unless it was copied before; whether it is there.
fn copy_checkpoint(
    from: &Path,
    to: &Path,
    name: &str,
    copied: &mut HashMap<String, Identity>,
) -> Result<bool, StoreError> {
    let path = from.join(CHECKPOINTS).join(name);
    let metadata = match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found.map_err(at(&path))?,
    };
    let changed = (metadata.mtime(), metadata.mtime_nsec());
    let identity = Identity { inode: metadata.ino(), bytes: metadata.len(), changed };
    if copied.get(name) == Some(&identity) {
        return Ok(true);
    }
    match copy(&path, &to.join(CHECKPOINTS).join(name)) {
        Ok(_) => {
            copied.insert(name.to_owned(), identity);
            Ok(true)
        }
        Err(StoreError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Copies a file; its bytes.
fn copy(from: &Path, to: &Path) -> Result<u64, StoreError> {
    fs::copy(from, to).map_err(|error| StoreError::of_copy(from, to, error))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{key_file, named};
    use super::*;
    use crate::{Checkpoint, Claimed, Commit, History as _, Meta, NewInvocation, Want};
    use std::sync::atomic::{AtomicBool, Ordering};
    use tempfile::TempDir;

    /// Invocations, each with a file, a checkpoint in a file and one in the database.
    fn state(folder: &TempDir, key: Option<&monohull_state_key::KeyFile>) -> Store {
        let store = Store::open(&folder.path().join("state"), key).expect("a new one");
        let mut meta = store.meta().expect("a database");
        for name in ["one", "two"] {
            let adding = store.adding().expect("no file is being removed");
            let hash = store.add_data(&adding, &mut name.as_bytes()).expect("added");
            let new = NewInvocation { id: &name.parse().expect("a name"), workflow: "w", start: &hash, due: 1 };
            meta.start(&new, 1).expect("started");
            go_on(&store, &mut meta, name, 2);
        }
        store
    }

    /// The next checkpoint of an invocation.
    fn go_on(store: &Store, meta: &mut crate::Sqlite, name: &str, now: u64) {
        let id = name.parse().expect("a name");
        let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&id), now) else { panic!("{name} is due") };
        let checkpoint = Checkpoint { file: format!("{name}.{now}.checkpoint"), bytes: 1 };
        fs::write(store.checkpoints().join(&checkpoint.file), &checkpoint.file).expect("written");
        let (waits, taken, published) = Default::default();
        let commit = Commit::Suspended { checkpoint, parent: None, due: Some(1), waits, taken, published };
        let committed = meta.commit(&claim.held, &commit, now).expect("it is ours");
        for obsolete in committed.obsolete {
            fs::remove_file(store.checkpoints().join(&obsolete.file)).expect("it is there");
        }
    }

    /// All that the rows of a copy name is in it, and a sweep removes nothing of that.
    #[track_caller]
    fn is_whole(to: &Path, key: Option<&monohull_state_key::KeyFile>) -> Vec<String> {
        let store = Store::open(to, key).expect("it can be opened");
        let meta = store.meta().expect("a database");
        meta.check(u64::MAX).expect("it does not contradict itself");
        store.sweep(&meta, named).expect("swept");
        let mut names = Vec::new();
        for row in meta.list(&[], "", 100).expect("a list") {
            let row = row.expect("not damaged");
            let file = row.checkpoint.expect("it waits").file;
            assert_eq!(fs::read_to_string(store.checkpoints().join(&file)).expect("it is there"), file);
            store.check_data(&row.start.as_slice().try_into().expect("a hash")).expect("as it was added");
            names.push(row.id.to_string());
        }
        names
    }

    #[test]
    fn a_copy_has_all_that_its_rows_name() {
        let folder = TempDir::new().expect("a folder");
        for key in [None, Some(key_file(&folder))] {
            let folder = TempDir::new().expect("a folder");
            let store = state(&folder, key.as_ref());
            let to = folder.path().join("copy");
            let backed_up = Store::back_up(&folder.path().join("state"), &to).expect("copied");
            Store::sync_backup(&to).expect("on the disk");
            assert_eq!((backed_up.invocations, backed_up.files), (2, 4));
            assert!(backed_up.missing.is_empty() && backed_up.bytes > 4096);
            assert_eq!(is_whole(&to, key.as_ref()), ["one", "two"]);
            // Not in the place of another.
            Store::back_up(&folder.path().join("state"), &to).expect_err("it is there");
            // The database has the content of a file that the disk may lack.
            let connection = Connection::open(folder.path().join("state").join(DATABASE)).expect("a database");
            let unsynced = "INSERT INTO unsynced (file, content) VALUES ('two.2.checkpoint', x'00')";
            connection.execute(unsynced, []).expect("added");
            fs::remove_file(store.checkpoints().join("two.2.checkpoint")).expect("removed");
            let without = Store::back_up(&folder.path().join("state"), &folder.path().join("without")).expect("copied");
            assert_eq!((without.files, without.missing.len()), (3, 0));
            assert!(folder.path().join("without/checkpoints/one.2.checkpoint").exists());
            // What the folder does not have is named.
            fs::remove_file(store.checkpoints().join("one.2.checkpoint")).expect("removed");
            let damaged = Store::back_up(&folder.path().join("state"), &folder.path().join("other")).expect("copied");
            assert_eq!(damaged.missing, ["one.2.checkpoint"]);
        }
        let none = Store::back_up(folder.path(), &folder.path().join("none")).expect_err("no state folder");
        assert!(none.to_string().contains("it is no state folder"), "{none}");
        assert!(!folder.path().join("none").exists());
    }

    /// While a writer goes on and removes each time what it does not need any more, and sweeps.
    #[test]
    fn a_copy_that_is_made_while_others_write_is_whole() {
        let folder = TempDir::new().expect("a folder");
        let store = state(&folder, None);
        store.meta().expect("a database").keep(&"one".parse().expect("a name"), 1).expect("it is there");
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut meta = store.meta().expect("a database");
                let mut now = 3;
                while !ends.load(Ordering::Relaxed) {
                    go_on(&store, &mut meta, "one", now);
                    store.sweep(&meta, named).expect("swept");
                    now += 1;
                }
                now
            });
            for number in 0..10 {
                let to = folder.path().join(format!("copy-{number}"));
                let backed_up = Store::back_up(&folder.path().join("state"), &to).expect("copied");
                assert_eq!(backed_up.missing, [""; 0]);
                assert_eq!(is_whole(&to, None), ["one", "two"]);
            }
            ends.store(true, Ordering::Relaxed);
            assert!(writer.join().expect("it ends well") > 20, "it has written meanwhile");
        });
    }
}
