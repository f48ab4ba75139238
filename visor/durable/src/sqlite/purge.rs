//! An invocation is removed, with all that is kept of it.

use super::{Sqlite, branches, children, find, history, late, mail, number, served, timeline, undelivered, unsynced};
use crate::meta::MetaError;
use crate::{InvocationId, Outbox, Status};
use monohull_report::{What, child_invocation};
use rusqlite::{Connection, params};

/// Those that were removed by hand, as long as they are remembered: with the epoch behind which another invocation of the name begins, so that no owner of the
/// first one can commit to that.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS gone (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id     TEXT    NOT NULL UNIQUE,
        epoch  INTEGER NOT NULL
    ) STRICT;
";

/// So many are remembered.
const REMEMBERED: i64 = 10_000;

impl Sqlite {
    /// Whether there was an invocation of this name that was removed by hand, and there is none now.
    pub fn is_gone(&self, id: &InvocationId) -> Result<bool, MetaError> {
        let query =
            "SELECT EXISTS (SELECT 1 FROM gone WHERE id = ?1) AND NOT EXISTS (SELECT 1 FROM invocation WHERE id = ?1)";
        Ok(self.connection.prepare_cached(query)?.query_row([id.as_str()], |row| row.get(0))?)
    }
}

fn remember(connection: &Connection, id: &InvocationId) -> Result<(), MetaError> {
    let add = "INSERT OR REPLACE INTO gone (id, epoch) SELECT id, epoch FROM invocation WHERE id = ?1";
    connection.prepare_cached(add)?.execute([id.as_str()])?;
    let forget = "DELETE FROM gone WHERE number <= (SELECT max(number) FROM gone) - ?1";
    connection.prepare_cached(forget)?.execute([REMEMBERED])?;
    Ok(())
}

/// Removes an invocation that has ended, or whose row is damaged and that nothing else can be done with; whether there was one.
pub(super) fn purge(connection: &Connection, id: &InvocationId, now: u64) -> Result<bool, MetaError> {
    match find(connection, id) {
        // Whether it has ended is not sure then.
        Err(MetaError::Damaged { .. }) => {}
        found => {
            let Some(row) = found?.filter(|row| row.status.is_end()) else { return Ok(false) };
            remember(connection, &row.id)?;
            return purge_ended(connection, id);
        }
    }
    remember(connection, id)?;
    connection.prepare_cached("DELETE FROM invocation WHERE id = ?1")?.execute([id.as_str()])?;
    children::purge_damaged(connection, id, now)?;
    remove(connection, id)?;
    // Its history may have been damaged too.
    unsynced::forget_unnamed(connection)?;
    Ok(true)
}

/// Removes an invocation that has ended; whether there was one.
pub(super) fn purge_ended(connection: &Connection, id: &InvocationId) -> Result<bool, MetaError> {
    let ended = [Status::Completed, Status::Failed, Status::Cancelled].map(number);
    let removed = connection
        .prepare_cached("DELETE FROM invocation WHERE id = ?1 AND status IN (?2, ?3, ?4)")?
        .execute(params![id.as_str(), ended[0], ended[1], ended[2]])?;
    if removed > 0 {
        remove(connection, id)?;
    }
    Ok(removed > 0)
}

/// Children that have ended, and whose parent was removed, make room for those that another parent of its name starts, and for those of the copies that it
/// makes of itself.
pub(super) fn make_room(connection: &Connection, parent: &InvocationId, sent: &Outbox) -> Result<(), MetaError> {
    let mut started = Vec::new();
    for event in &sent.events {
        match event.what {
            What::Start { detached } => {
                make_room_for(connection, parent, &event.to)?;
                started.extend((!detached).then(|| event.to.clone()));
            }
            What::Fork { copies } => {
                let Some(row) = find(connection, parent)?.filter(|row| !row.status.is_end()) else { continue };
                let (ids, were_made) = branches::ids(connection, &row, &event.to, copies)?;
                if !were_made {
                    let mut names = children::copied_at(connection, parent, row.generation)?;
                    names.extend_from_slice(&started);
                    make_room_in(connection, &ids, &names)?;
                }
            }
            What::Event | What::Cancel | What::Checkpoint => {}
        }
    }
    Ok(())
}

/// The same for those of copies of an invocation as it was at a generation.
pub(super) fn make_room_for_copies(
    connection: &Connection,
    (original, at): (&InvocationId, u64),
    copies: &[InvocationId],
) -> Result<(), MetaError> {
    make_room_in(connection, copies, &children::copied_at(connection, original, at)?)
}

/// The same for children of these names of those copies that are not there yet.
fn make_room_in(connection: &Connection, copies: &[InvocationId], names: &[String]) -> Result<(), MetaError> {
    for copy in copies {
        if find(connection, copy)?.is_none() {
            names.iter().try_for_each(|name| make_room_for(connection, copy, name))?;
        }
    }
    Ok(())
}

fn make_room_for(connection: &Connection, parent: &InvocationId, name: &str) -> Result<(), MetaError> {
    let Ok(child) = child_invocation(parent.as_str(), name).parse() else { return Ok(()) };
    if children::is_orphan(connection, &child)? {
        purge_ended(connection, &child)?;
    }
    Ok(())
}

/// Removes what is kept of an invocation whose row is not there any more.
fn remove(connection: &Connection, id: &InvocationId) -> Result<(), MetaError> {
    mail::remove(connection, id)?;
    history::purge(connection, id)?;
    served::remove(connection, id)?;
    undelivered::remove(connection, id)?;
    // Requests make room for copies, so they name this file and not the other way round.
    connection.prepare_cached("DELETE FROM request WHERE id = ?1")?.execute([id.as_str()])?;
    late::remove(connection, id)?;
    timeline::remove(connection, id)?;
    children::purge(connection, id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Branched, Checkpoint, Claimed, Commit, Control, Controlled, Copied, Fork, History, Left, Meta, NewInvocation,
        NewMail, Outbox, Output, OutputAt, Sqlite, Started, Store, Want,
    };
    use monohull_report::{Outgoing, What, child_invocation};
    use monohull_state_key::KeyFile;
    use tempfile::TempDir;

    fn id(name: &str) -> InvocationId {
        name.parse().expect("a name")
    }

    /// A parent that has started `one`, which has started a child, has a checkpoint, events, outputs and lines, and waits.
    fn family(folder: &TempDir, key: Option<&KeyFile>) -> (Store, Sqlite, InvocationId) {
        let store = Store::open_served(&folder.path().join("state"), key).expect("a new one");
        let mut meta = store.meta().expect("a database");
        let starts = |name: &str| Outbox {
            events: vec![Outgoing {
                what: What::Start { detached: false },
                to: name.to_owned(),
                name: "w".to_owned(),
                bytes: Vec::new(),
                origin: "s/0/0".to_owned(),
            }],
            starts: vec![Ok(b"start".to_vec())],
            ..Outbox::default()
        };
        let new = NewInvocation { id: &id("parent"), workflow: "w", start: b"start", due: 1 };
        assert_eq!(meta.start(&new, 1).expect("done"), Started::New);
        let one = id(&child_invocation("parent", "one"));
        for (name, child) in [(&id("parent"), "one"), (&one, "below")] {
            let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(name), 5) else { panic!("{name} is due") };
            let checkpoint = Checkpoint { file: format!("{name}.checkpoint"), bytes: 1 };
            std::fs::write(store.checkpoints().join(&checkpoint.file), "content").expect("written");
            let unsynced = Some((checkpoint.file.clone(), b"content".to_vec()));
            let (waits, taken, published) = Default::default();
            let commit = Commit::Suspended { checkpoint, parent: None, due: Some(9), waits, taken, published };
            let outputs = vec![Output { slot: "out".to_owned(), at: OutputAt::Row(b"1".to_vec()), bytes: 1 }];
            let left = Left { printed: b"line".to_vec(), outputs, unsynced, sent: starts(child), ..Left::default() };
            meta.commit_with(&claim.held, &commit, &left, 5).expect("it is ours");
        }
        meta.send(&one, &NewMail::new("paid", b"1", Some("key")).expect("an event"), 6).expect("sent");
        (store, meta, one)
    }

    /// The tables that have something of an invocation.
    fn left_in(meta: &Sqlite, id: &InvocationId) -> Vec<String> {
        // That it was there is remembered.
        let columns = "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c \
            WHERE m.type = 'table' AND c.type = 'TEXT' AND m.name <> 'gone'";
        let mut columns = meta.connection.prepare(columns).expect("prepared");
        let columns = columns.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("asked");
        let mut found = Vec::new();
        for column in columns {
            let (table, column): (String, String) = column.expect("read");
            let query = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE instr({column}, ?1) > 0)");
            if meta.connection.query_row(&query, [id.as_str()], |row| row.get::<_, bool>(0)).expect("asked") {
                found.push(format!("{table}.{column}"));
            }
        }
        found
    }

    /// The owner of one that was killed and removed cannot commit to another one of its name.
    #[test]
    fn another_one_of_its_name_is_not_taken_for_it() {
        let folder = TempDir::new().expect("a folder");
        let store = Store::open(&folder.path().join("state"), None).expect("a new one");
        let mut meta = store.meta().expect("a database");
        let one = id("one");
        let new = NewInvocation { id: &one, workflow: "w", start: b"start", due: 1 };
        let claim = |meta: &mut Sqlite| match meta.claim("o", Want::Due, 5) {
            Ok(Claimed::Yes(claim)) => claim.held,
            other => panic!("it is due: {other:?}"),
        };
        meta.start(&new, 1).expect("started");
        let first = claim(&mut meta);
        assert_eq!(meta.kill(&one, 6).expect("done"), Controlled::Now(Status::Cancelled));
        assert_eq!(meta.kill(&one, 6).expect("done"), Controlled::Ended(Status::Cancelled));
        let ended = || Commit::Ended { well: true, cancelled: false, report: Vec::new(), published: None };
        assert!(matches!(meta.commit(&first, &ended(), 7), Err(MetaError::Stale(_))), "it has ended");
        assert!(!meta.is_gone(&one).expect("asked"));
        assert!(meta.purge(&one, 8).expect("removed") && meta.is_gone(&one).expect("asked"));
        assert_eq!(meta.start(&new, 9).expect("done"), Started::New);
        assert!(!meta.is_gone(&one).expect("asked"), "there is one again");
        let second = claim(&mut meta);
        assert!(second.epoch > first.epoch);
        assert!(matches!(meta.commit(&first, &ended(), 10), Err(MetaError::Stale(_))), "it is another one");
        meta.commit(&second, &ended(), 10).expect("it is its own");
        // Also if it runs from its beginning.
        assert!(meta.purge(&one, 11).expect("removed"));
        let third = meta.start_running(&new, "o", [12, 12]).expect("done").expect("it is new");
        assert!(third.epoch > second.epoch);
        for before in [&first, &second] {
            assert!(matches!(meta.commit(before, &ended(), 13), Err(MetaError::Stale(_))), "it is another one");
        }
        meta.commit(&third, &ended(), 13).expect("it is its own");
    }

    /// What it sends is no repetition, and the copies of the first one are not its own.
    #[test]
    fn another_one_of_its_name_sends_and_makes_copies_anew() {
        let folder = TempDir::new().expect("a folder");
        let store = Store::open_served(&folder.path().join("state"), None).expect("a new one");
        let mut meta = store.meta().expect("a database");
        let new = |name| NewInvocation { id: name, workflow: "w", start: b"start", due: 1 };
        let [one, receiver, by_hand] = ["one", "receiver", "by-hand"].map(id);
        meta.start(&new(&receiver), 1).expect("started");
        let outgoing = |what, to: &str, name: &str| Outgoing {
            what,
            to: to.to_owned(),
            name: name.to_owned(),
            bytes: Vec::new(),
            origin: "s/0/0".to_owned(),
        };
        let mut copies = Vec::new();
        for (life, came) in [(1, Copied::New), (2, Copied::Taken)] {
            let now = 10 * life;
            meta.start(&new(&one), now).expect("started");
            let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&one), now) else { panic!("it is due") };
            let events =
                vec![outgoing(What::Event, "receiver", "paid"), outgoing(What::Fork { copies: 1 }, "fork:p", "")];
            let sent = Outbox { events, workflows: vec!["w".to_owned()], ..Outbox::default() };
            let (waits, taken, published) = Default::default();
            let checkpoint = Checkpoint { file: format!("one.{life}.checkpoint"), bytes: 1 };
            let commit = Commit::Suspended { checkpoint, parent: None, due: None, waits, taken, published };
            let committed = meta.commit_with(&claim.held, &commit, &Left { sent, ..Left::default() }, now);
            assert_eq!(committed.expect("it is ours").undelivered, []);
            assert_eq!(meta.mail_count(&receiver).expect("asked"), life);
            let fork = Fork { id: &one, at: None, copies: std::slice::from_ref(&by_hand), paused: false };
            assert_eq!(meta.fork(fork, now).expect("done"), Branched::Done(vec![came]));
            let forks = meta.forks(&one, 9).expect("read").first;
            let own: Vec<_> = forks.into_iter().filter(|copy| *copy != by_hand).collect();
            assert!(own.len() == 1 && !copies.contains(&own[0]), "{own:?}");
            copies.extend(own);
            meta.kill(&one, now).expect("done");
            assert!(meta.purge(&one, now).expect("removed"));
        }
    }

    #[test]
    fn one_whose_row_is_damaged_is_removed_with_all_that_is_kept_of_it() {
        let keys = TempDir::new().expect("a folder");
        let path = keys.path().join("state.key");
        KeyFile::create(&path).expect("a new one");
        let key = KeyFile::load(&path).expect("a key");
        let exchanged = "start = (SELECT start FROM invocation WHERE id = 'parent')";
        let damages = [
            (false, "waits = 'x'"),
            (false, "status = 9"),
            (false, "status = 5, attempts = -1"),
            (false, "status = 1, owner = 'o', checkpoint = '{}'"),
            (true, exchanged),
            (true, "published = '{}'"),
        ];
        for (is_encrypted, damage) in damages {
            let folder = TempDir::new().expect("a folder");
            let (store, mut meta, one) = family(&folder, is_encrypted.then_some(&key));
            assert!(!meta.purge(&one, 7).expect("asked"), "it has not ended");
            let below = id(&child_invocation(one.as_str(), "below"));
            // Chunks are missing or damaged too, and what is known of its children and of its history.
            let edit = format!(
                "UPDATE invocation SET {damage} WHERE id = '{one}';
                 UPDATE history SET waits = 'x', file = '../' || file WHERE id = '{one}';
                 INSERT INTO lineage (id, copy, copies, keep) VALUES ('{one}', 5, 1, 0);"
            );
            meta.connection.execute_batch(&edit).expect("edited");
            assert!(meta.get(&one).is_err(), "{damage}");
            assert!(meta.purge(&one, 7).expect("removed"), "{damage}");
            assert!(!meta.purge(&one, 7).expect("asked"), "there is none any more");
            assert!(meta.is_gone(&one).expect("asked"), "it is known to have been there");
            assert_eq!(left_in(&meta, &one), ["child.id"], "{damage}: what its parent knows");
            assert_eq!(meta.get(&below).expect("read").expect("there").status, Status::Cancelled);
            let children = meta.children(&id("parent")).expect("read");
            assert_eq!((children.len(), children[0].status), (1, None));
            assert_eq!(meta.mail_count(&id("parent")).expect("asked"), 1, "its parent is told");
            // The cancelled child is removed too, and no file of them is left.
            assert!(meta.purge(&below, 8).expect("removed"));
            store.sweep(&meta, |_| Vec::new()).expect("swept");
            let files: Vec<_> = std::fs::read_dir(store.checkpoints())
                .expect("read")
                .map(|entry| entry.expect("read").file_name())
                .collect();
            assert_eq!(files, ["parent.checkpoint"], "{damage}");
            assert_eq!(meta.count_unsynced().expect("asked"), 1);
            // Its parent ends too, and nothing is left at all.
            meta.control(&id("parent"), Control::Cancel, 9).expect("done");
            assert!(meta.purge(&id("parent"), 9).expect("removed"));
            assert_eq!(left_in(&meta, &id("parent")), [""; 0], "{damage}");
        }
    }
}
