//! What a state folder keeps, refuses and removes.

use super::*;
use crate::{Branched, Checkpoint, Claimed, Commit, Copied, Fork, History, NewInvocation, NewMail, Want};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::sync::Mutex;
use tempfile::TempDir;

fn store() -> (TempDir, Store) {
    let folder = TempDir::new().expect("a folder");
    let store = Store::open(&folder.path().join("state"), None).expect("a new one");
    (folder, store)
}

/// An invocation whose start names a file with these bytes.
fn start(store: &Store, id: &str, bytes: &[u8]) -> PathBuf {
    let adding = store.adding().expect("no file is being removed");
    let hash = store.add_file(&adding, &mut &*bytes).expect("added");
    let new = NewInvocation { id: &id.parse().expect("a name"), workflow: "w", start: &hash, due: 1 };
    store.meta().expect("a database").start(&new, 1).expect("started");
    store.file(&hash)
}

pub(super) fn key_file(folder: &TempDir) -> KeyFile {
    let path = folder.path().join("key");
    KeyFile::create(&path).expect("a new one");
    KeyFile::load(&path).expect("a key")
}

pub(super) fn named(start: &[u8]) -> Vec<[u8; 32]> {
    vec![start.try_into().expect("a hash")]
}

/// Files that no row names are removed: others' files must never be among them.
#[test]
fn a_folder_with_files_of_others_is_refused_and_stays_as_it_is() {
    let folder = TempDir::new().expect("a folder");
    for (name, is_taken) in [("README", false), ("files/photo", false), ("checkpoints/old", false), ("owners", true)] {
        let state = folder.path().join(name.replace('/', "-"));
        let file = state.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        if is_taken { fs::create_dir(&file) } else { fs::write(&file, "mine") }.expect("made");
        match Store::open(&state, None) {
            Ok(_) => assert!(is_taken, "{name}: it is begun, and has nothing in it"),
            Err(StoreError::Foreign { path, other }) => {
                assert_eq!((path, is_taken), (state.clone(), false));
                assert_eq!(Path::new(&other), Path::new(name).iter().next().expect("a name"));
                assert_eq!(fs::read_dir(&state).expect("a folder").count(), 1, "nothing is made in it");
                assert_eq!(fs::read_to_string(&file).expect("a file"), "mine");
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
    // The positive control: what is a state folder is taken, whatever else is put there later.
    let (_folder, store) = store();
    fs::write(store.folder.join("README"), "mine").expect("written");
    Store::open(&store.folder, None).expect("it has been a state folder before");
}

#[test]
fn files_that_nothing_names_are_removed_and_no_others() {
    let (_folder, store) = store();
    let kept = start(&store, "one", b"kept");
    assert_eq!(start(&store, "two", b"kept"), kept, "the same content is one file");
    let adding = store.adding().expect("no file is being removed");
    let unnamed = store.add_file(&adding, &mut &b"unnamed"[..]).expect("added");
    fs::write(store.checkpoints().join("x.1.checkpoint"), "left by a killed process").expect("written");
    // What was put there by hand keeps nothing else from being removed.
    let stray = store.checkpoints().join("a-folder");
    fs::create_dir(&stray).expect("made");
    let meta = store.meta().expect("a database");
    assert_eq!(store.sweep(&meta, named).expect("swept"), 0, "a file that is being added has no name yet");
    assert_eq!(store.try_sweep(&meta, named).expect("asked"), None, "so it is to be tried again");
    drop(adding);
    assert_eq!(store.sweep(&meta, named).expect("swept"), 2);
    assert_eq!(fs::read(&kept).expect("it is kept"), b"kept");
    assert!(!store.file(&unnamed).exists() && stray.exists());
}

/// Checkpoints of one that goes on, each of which takes pages from the one before, where one is kept.
#[test]
fn files_that_others_need_stay_until_nothing_needs_them() {
    let (folder, store) = store();
    start(&store, "one", b"");
    let (mut meta, id) = (store.meta().expect("a database"), "one".parse().expect("a name"));
    meta.keep(&id, 1).expect("it is there");
    let Ok(Claimed::Yes(claim)) = meta.claim("owner", Want::Due, 2) else { panic!("it is due") };
    let file = |number: u32| Checkpoint { file: format!("one.1.{number}.checkpoint"), bytes: 1 };
    let path = |number: u32| store.checkpoints().join(file(number).file);
    let there = || (1..=5).filter(|number| path(*number).exists()).collect::<Vec<_>>();
    let commit = |meta: &mut crate::Sqlite, number: u32, parent: Option<u32>| {
        fs::write(path(number), "a checkpoint").expect("written");
        let (checkpoint, parent) = (file(number), parent.map(file));
        let (waits, taken, published) = (Vec::new(), Vec::new(), Default::default());
        let commit = Commit::Checkpointed { checkpoint, parent, due: None, waits, taken, published };
        let committed = meta.commit(&claim.held, &commit, 3).expect("it is ours");
        store.sweep(meta, named).expect("swept");
        committed.obsolete.iter().map(|checkpoint| checkpoint.file.clone()).collect::<Vec<_>>()
    };
    assert!(commit(&mut meta, 1, None).is_empty());
    assert!(commit(&mut meta, 2, Some(1)).is_empty());
    assert!(commit(&mut meta, 3, Some(2)).is_empty());
    assert_eq!((there(), meta.history(&id).expect("read").len()), (vec![1, 2, 3], 1));
    // A whole one needs none of them.
    assert_eq!(commit(&mut meta, 4, None), [1, 2, 3].map(|number| file(number).file));
    assert_eq!(there(), [4]);
    assert!(commit(&mut meta, 5, Some(4)).is_empty());
    // A database may have been edited: what it says leads to no file outside the folder.
    fs::write(folder.path().join("state/outside"), "").expect("written");
    let connection = rusqlite::Connection::open(store.folder.join(DATABASE)).expect("a database");
    connection.execute_batch("UPDATE parent SET parent = '../outside'").expect("edited");
    let ended = Commit::Ended { well: true, cancelled: false, report: Vec::new(), published: None };
    let committed = meta.commit(&claim.held, &ended, 4).expect("it is ours");
    assert_eq!(committed.obsolete, [file(5)]);
    store.sweep(&meta, named).expect("swept");
    assert!(there().is_empty() && folder.path().join("state/outside").exists());
    assert!(meta.files().expect("read").is_empty());
}

/// Neither a link to itself, which cannot be read, nor other bytes stay in the place of what is put again.
#[test]
fn what_cannot_be_read_is_replaced_by_what_is_put_again() {
    let folder = TempDir::new().expect("a folder");
    for key in [None, Some(key_file(&folder))] {
        let state = folder.path().join(if key.is_some() { "encrypted" } else { "plain" });
        let store = Store::open(&state, key.as_ref()).expect("a new one");
        let adding = store.adding().expect("no file is being removed");
        let put = || store.add_data(&adding, &mut &b"content"[..]).expect("put");
        let hash = put();
        let path = store.file(&hash);
        store.check_data(&hash).expect("it is as it was put");
        fs::write(&path, "other bytes").expect("written");
        assert_eq!(store.check_data(&hash).expect_err("it was changed").kind(), io::ErrorKind::InvalidData);
        put();
        store.check_data(&hash).expect("it is as it was put");
        fs::remove_file(&path).expect("removed");
        symlink(&path, &path).expect("a link");
        store.check_data(&hash).expect_err("it cannot be read");
        put();
        store.check_data(&hash).expect("it is as it was put");
    }
}

/// What is there already is compared with what is put, and no copy of it is made for that.
#[test]
fn large_content_that_is_there_is_not_decrypted_into_memory() {
    const LARGE: u64 = 2 << 20;
    let folder = TempDir::new().expect("a folder");
    let store = Store::open(&folder.path().join("state"), Some(&key_file(&folder))).expect("a new one");
    let adding = store.adding().expect("no file is being removed");
    let put = || store.add_data(&adding, &mut io::repeat(7).take(LARGE)).expect("put");
    let hash = put();
    let is_copy = |entry: &fs::DirEntry| {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let is_ours = target.to_string_lossy().contains("monohull-data");
        is_ours && fs::metadata(entry.path()).is_ok_and(|file| file.len() > LARGE / 4)
    };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut copies = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                copies += fs::read_dir("/proc/self/fd").expect("a list").flatten().filter(is_copy).count();
            }
            copies
        });
        assert_eq!(put(), hash);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(watcher.join().expect("it does not panic"), 0);
    });
}

/// A writer that replaces a file has the folder's lock until the disk has that.
#[test]
fn what_is_put_first_waits_for_no_other() {
    let (_folder, store) = store();
    let files = File::open(store.folder.join(FILES)).expect("a folder");
    files.lock().expect("another one replaces a file here");
    let (done, put) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let adding = store.adding().expect("no file is being removed");
        let _ = done.send(store.add_file(&adding, &mut &b"content"[..]).is_ok());
    });
    assert_eq!(put.recv_timeout(std::time::Duration::from_secs(60)), Ok(true));
}

/// A database that has lost all its bytes names no file: nothing is removed because of that.
#[test]
fn an_empty_database_is_not_a_new_one() {
    let (folder, store) = store();
    let file = start(&store, "one", b"kept");
    let database = store.folder.join(DATABASE);
    drop(store);
    fs::write(&database, "").expect("emptied");
    let opened = Store::open(&folder.path().join("state"), None);
    assert!(matches!(opened, Err(StoreError::Meta(error)) if error.is_damage()));
    assert!(file.exists());
    assert_eq!(fs::metadata(&database).expect("it is there").len(), 0, "it stays as it was found");
}

#[test]
fn an_owner_lives_as_long_as_its_lock() {
    let (_folder, store) = store();
    start(&store, "one", b"");
    let mut meta = store.meta().expect("a database");
    let owner = store.owner().expect("an owner");
    let Ok(Claimed::Yes(first)) = meta.claim(owner.name(), Want::Due, 2) else { panic!("it is due") };
    store.expire_the_dead(&mut meta).expect("looked");
    let other = store.owner().expect("an owner");
    assert_eq!(meta.claim(other.name(), Want::Due, 3).expect("asked"), Claimed::Nothing);
    drop(owner);
    store.expire_the_dead(&mut meta).expect("looked");
    let Ok(Claimed::Yes(second)) = meta.claim(other.name(), Want::Due, 4) else { panic!("its owner is dead") };
    assert_eq!((second.held.epoch, second.attempt), (first.held.epoch + 1, 2));
    let ended = Commit::Ended { well: true, cancelled: false, report: Vec::new(), published: None };
    assert!(matches!(meta.commit(&first.held, &ended, 5), Err(MetaError::Stale(_))), "the first has lost it");
    assert!(meta.commit(&second.held, &ended, 5).is_ok());
}

#[test]
fn files_of_owners_that_were_killed_do_not_stay() {
    let (_folder, store) = store();
    let owners = store.folder.join(OWNERS);
    let (dead, other) = (owners.join("0123456789abcdef0123456789abcdef"), owners.join("other"));
    let alive = store.owner().expect("an owner");
    for file in [&dead, &other] {
        fs::write(file, "").expect("written");
    }
    let second = store.owner().expect("an owner");
    assert!(!dead.exists(), "no process has locked it");
    assert!(other.exists(), "it is no owner's");
    for owner in [&alive, &second] {
        assert!(is_alive(&owners, owner.name()).expect("looked"));
    }
}

#[test]
fn a_name_of_an_owner_leads_nowhere_else() {
    let (folder, store) = store();
    fs::write(folder.path().join("outside"), "").expect("written");
    let owners = store.folder.join(OWNERS);
    assert!(!is_alive(&owners, "../../outside").expect("looked"));
}

#[test]
fn what_kills_its_process_each_time_is_paused() {
    let (_folder, store) = store();
    start(&store, "one", b"");
    let mut meta = store.meta().expect("a database");
    for attempt in 1..=crate::ATTEMPTS {
        let Ok(Claimed::Yes(claim)) = meta.claim("gone", Want::Due, 2) else { panic!("attempt {attempt}") };
        assert_eq!(claim.attempt, attempt);
        store.expire_the_dead(&mut meta).expect("looked");
    }
    assert!(matches!(meta.claim("gone", Want::Due, 2), Ok(Claimed::Paused(_))));
    assert_eq!(meta.claim("gone", Want::Due, 2).expect("asked"), Claimed::Nothing);
}

#[test]
fn a_folder_that_others_may_change_is_refused() {
    let (folder, store) = store();
    let mode = |mode| fs::set_permissions(&store.folder, fs::Permissions::from_mode(mode)).expect("changed");
    let refused = |path: &Path| match Store::open(path, None) {
        Err(StoreError::Shared { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    for open in [0o770, 0o702] {
        mode(open);
        assert!(refused(&store.folder).contains("others may write to it"), "{open:o}");
    }
    mode(0o755);
    assert!(Store::open(&store.folder, None).is_ok(), "others may look");
    let link = folder.path().join("link");
    symlink(&store.folder, &link).expect("linked");
    assert!(refused(&link).contains("a symbolic link"));
    if geteuid().is_root() {
        chown(&store.folder, Some(65_534), None).expect("given away");
        assert!(refused(&store.folder).contains("belongs to the user with the number 65534"));
    }
}

#[test]
fn databases_of_others_are_refused() {
    let (_folder, store) = store();
    let path = store.folder.join(DATABASE);
    let change = |sql: &str| rusqlite::Connection::open(&path).expect("a database").execute_batch(sql).expect("done");
    change("PRAGMA user_version = 2");
    assert!(matches!(store.meta(), Err(StoreError::Meta(MetaError::Version { found: 2, known: 1 }))));
    change("PRAGMA application_id = 7");
    assert!(matches!(store.meta(), Err(StoreError::Meta(MetaError::Foreign))));
}

#[test]
fn rows_that_were_edited_are_named() {
    let (_folder, store) = store();
    start(&store, "one", b"");
    let meta = store.meta().expect("a database");
    let id = "one".parse().expect("a name");
    for (column, value) in [("status", "9"), ("checkpoint", "'{}'"), ("waits", "'x'"), ("wanted", "-1")] {
        let connection = rusqlite::Connection::open(store.folder.join(DATABASE)).expect("a database");
        connection.execute_batch(&format!("SAVEPOINT s; UPDATE invocation SET {column} = {value}")).expect("edited");
        connection.execute_batch("RELEASE s").expect("committed");
        let error = meta.get(&id).expect_err("it is damaged").to_string();
        assert!(error.contains("invocation `one` has a wrong"), "{column}: {error}");
        connection
            .execute_batch("UPDATE invocation SET status = 0, checkpoint = NULL, waits = '[]', wanted = NULL")
            .expect("restored");
    }
    let mut meta = meta;
    meta.send(&id, &NewMail::new("paid", b"", None).expect("it can be sent"), 2).expect("asked");
    let connection = rusqlite::Connection::open(store.folder.join(DATABASE)).expect("a database");
    connection.execute_batch("UPDATE mail SET name = char(27)").expect("edited");
    let Ok(Claimed::Yes(claim)) = meta.claim("owner", Want::Due, 3) else { panic!("it is due") };
    let error = meta.mail(&claim.held, 0).expect_err("it is damaged").to_string();
    assert!(error.contains("invocation `one` has a wrong event"), "{error}");
}

/// A database may have been edited. What it says then is refused, and nothing outside the folder is named.
#[test]
fn histories_and_parents_that_were_edited_are_named() {
    let (_folder, store) = store();
    start(&store, "one", b"");
    let mut meta = store.meta().expect("a database");
    let id = "one".parse().expect("a name");
    let Ok(Claimed::Yes(claim)) = meta.claim("gone", Want::Due, 2) else { panic!("it is due") };
    let checkpoint = Checkpoint { file: "one.1.checkpoint".to_owned(), bytes: 1 };
    let suspended = Commit::Suspended {
        checkpoint,
        parent: None,
        due: None,
        waits: Vec::new(),
        taken: Vec::new(),
        published: Default::default(),
    };
    meta.commit(&claim.held, &suspended, 3).expect("it is ours");
    let copies = ["two".parse().expect("a name")];
    let fork = Fork { id: &id, at: None, copies: &copies, paused: false };
    assert_eq!(meta.fork(fork, 4).expect("done"), Branched::Done(vec![Copied::New]));
    // A copy that leaves the store and comes into one again is a copy still, of none that is known there.
    let Ok(Branched::Done(exported)) = meta.export(&copies[0], None) else { panic!("it waits") };
    let three = "three".parse().expect("a name");
    assert_eq!(meta.import(&three, &exported, b"start", false, 5).expect("done"), crate::Started::New);
    let imported = meta.lineage(&three).expect("it is sound");
    assert_eq!((imported.parent, imported.copy, imported.copies), (None, 1, 1));
    assert!(meta.kill(&three, 5).is_ok() && meta.purge(&three, 5).expect("removed"));
    let edit = |sql: &str| {
        let connection = rusqlite::Connection::open(store.folder.join(DATABASE)).expect("a database");
        connection.execute_batch(sql).expect("edited");
    };
    let checks: [(&str, &str, &str); 7] = [
        ("history", "file = '../outside'", "file = 'one.1.checkpoint'"),
        ("history", "file = ''", "file = 'one.1.checkpoint'"),
        ("history", "waits = 'x'", "waits = '[]'"),
        ("lineage", "parent = '../one'", "parent = 'one'"),
        ("lineage", "parent = NULL", "parent = 'one'"),
        ("lineage", "copy = 2", "copy = 1"),
        ("lineage", "keep = 0", "keep = 16"),
    ];
    for (table, change, back) in checks {
        edit(&format!("UPDATE {table} SET {change}"));
        let asked = (meta.history(&copies[0]).map(drop), meta.lineage(&copies[0]).map(drop));
        let error = asked.0.and(asked.1).expect_err("it is damaged").to_string();
        assert!(error.contains("invocation `two` has a wrong"), "{change}: {error}");
        edit(&format!("UPDATE {table} SET {back}"));
    }
    edit("UPDATE invocation SET checkpoint = '{\"file\":\"../outside\",\"bytes\":1}'");
    assert!(meta.get(&id).expect_err("it is damaged").to_string().contains("has a wrong checkpoint"));
}

/// A commit that does not wait for the file of its checkpoint has its content, until the disk has the file.
#[test]
fn files_that_the_disk_lacks_are_written_again_from_their_commits() {
    let (folder, store) = store();
    start(&store, "one", b"");
    let id: crate::InvocationId = "one".parse().expect("a name");
    let mut meta = store.meta().expect("a database");
    meta.keep(&id, 2).expect("it is there");
    let meta = Mutex::new(meta);
    let lock = || meta.lock().expect("no panic");
    let file = |number: u32| format!("one.{number}.checkpoint");
    let path = |number: u32| store.checkpoints().join(file(number));
    let content = |number: u32| vec![number as u8; 5000];
    let commit = |number: u32, is_synced: bool| {
        fs::write(path(number), content(number)).expect("written");
        let Ok(Claimed::Yes(claim)) = lock().claim("owner", Want::Due, 2) else { panic!("it is due") };
        let checkpoint = Checkpoint { file: file(number), bytes: 5000 };
        let (waits, taken, published) = (Vec::new(), Vec::new(), Default::default());
        let commit = Commit::Suspended { checkpoint, parent: None, due: Some(2), waits, taken, published };
        let unsynced = (!is_synced).then(|| (file(number), content(number)));
        let left = crate::Left { unsynced, ..crate::Left::default() };
        let committed = lock().commit_with(&claim.held, &commit, &left, 2).expect("it is ours");
        committed.obsolete.iter().for_each(|obsolete| {
            fs::remove_file(store.checkpoints().join(&obsolete.file)).expect("it is there");
        });
    };
    let names = |files: Vec<(i64, String)>| files.into_iter().map(|(_, file)| file).collect::<Vec<_>>();
    let unsynced = || names(lock().unsynced(i64::MIN, 100).expect("read"));
    let synced = || store.sync_files(&meta).expect("the disk has room");
    commit(1, false);
    commit(2, false);
    assert_eq!(unsynced(), [file(1), file(2)]);
    // After the machine has stopped, a file may be missing, shorter, or hold something else.
    fs::remove_file(path(1)).expect("removed");
    fs::write(path(2), &content(2)[..100]).expect("written");
    assert_eq!((synced(), unsynced().len(), synced()), (2, 0, 0));
    for number in [1, 2] {
        assert_eq!(fs::read(path(number)).expect("it is there"), content(number));
    }
    fs::write(path(2), vec![9; 5000]).expect("written");
    assert_eq!((synced(), fs::read(path(2)).expect("it is there")), (0, vec![9; 5000]), "it is the disk's by now");
    // What no history names any more is not kept, and makes no file.
    commit(3, false);
    commit(4, false);
    commit(5, true);
    assert_eq!(unsynced(), [file(4)], "the first is forgotten, and the last was waited for");
    assert_eq!(synced(), 1);
    assert!(!path(3).exists() && path(4).exists());
    // One that was never made is made when it is asked for, and once.
    commit(7, false);
    fs::remove_file(path(7)).expect("removed");
    for _ in 0..2 {
        store.make_file(&meta, &file(7)).expect("there is room");
        assert_eq!(fs::read(path(7)).expect("it is there"), content(7));
    }
    // So is one that the machine has left half written.
    fs::write(path(7), &content(7)[..100]).expect("written");
    store.make_file(&meta, &file(7)).expect("there is room");
    assert_eq!(fs::read(path(7)).expect("it is there"), content(7));
    assert!(lock().is_unsynced(&file(7)).expect("asked"));
    store.make_file(&meta, "two.1.checkpoint").expect("nothing is made");
    assert!(!store.checkpoints().join("two.1.checkpoint").exists());
    // One that cannot be written does not hold up those behind it.
    commit(8, false);
    fs::remove_file(path(7)).expect("removed");
    fs::create_dir(path(7)).expect("made");
    store.sync_files(&meta).expect_err("a folder is no file");
    assert_eq!(unsynced(), [file(7)]);
    fs::remove_dir(path(7)).expect("removed");
    assert_eq!((synced(), lock().count_unsynced().expect("asked")), (1, 0));
    // A file of the same name that was waited for does not become what another one was.
    commit(6, false);
    let connection = rusqlite::Connection::open(store.folder.join(DATABASE)).expect("a database");
    connection.execute_batch("UPDATE unsynced SET file = '../outside' WHERE file LIKE 'one.6.%'").expect("edited");
    assert_eq!((synced(), folder.path().join("state/outside").exists()), (0, false), "it leads nowhere else");
}

/// What has ended needs no checkpoint, and no content of one.
#[test]
fn the_content_of_a_checkpoint_goes_with_its_invocation() {
    let (_folder, store) = store();
    start(&store, "one", b"");
    let mut meta = store.meta().expect("a database");
    let file = "one.1.checkpoint".to_owned();
    let suspended = Commit::Suspended {
        checkpoint: Checkpoint { file: file.clone(), bytes: 1 },
        parent: None,
        due: Some(2),
        waits: Vec::new(),
        taken: Vec::new(),
        published: Default::default(),
    };
    let left = crate::Left { unsynced: Some((file.clone(), vec![1])), ..crate::Left::default() };
    let Ok(Claimed::Yes(claim)) = meta.claim("owner", Want::Due, 2) else { panic!("it is due") };
    meta.commit_with(&claim.held, &suspended, &left, 2).expect("it is ours");
    assert_eq!(meta.unsynced(0, 9).expect("read"), [(1, file)]);
    let stale = meta.commit_with(&claim.held, &suspended, &left, 2);
    assert!(matches!(stale, Err(MetaError::Stale(_))), "{stale:?}");
    let Ok(Claimed::Yes(claim)) = meta.claim("owner", Want::Due, 2) else { panic!("it is due") };
    let ended = Commit::Ended { well: true, cancelled: false, report: Vec::new(), published: None };
    meta.commit(&claim.held, &ended, 3).expect("it is ours");
    assert_eq!(meta.count_unsynced().expect("read"), 0);
}
