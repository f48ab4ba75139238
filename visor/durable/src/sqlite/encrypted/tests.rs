//! What can be read in a folder without its key, and what becomes of values that were changed.

use super::*;
use crate::{
    Checkpoint, Claimed, Commit, Defined, Definition, Fork, History, InvocationId, Left, Meta, Missed, NewInvocation,
    NewMail, Outbox, Outcome, Output, OutputAt, Sent, Sqlite, Status, Store, Want,
};
use monohull_report::{Outgoing, What, child_invocation};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use tempfile::TempDir;

/// What is searched for. Each is of a kind of its own.
const MARKERS: [&str; 12] = [
    "marker-start",
    "marker-report",
    "marker-published",
    "marker-event",
    "marker-key",
    "marker-outcome",
    "marker-printed",
    "marker-callback",
    "marker-inputs",
    "marker-file",
    "marker-of-a-child",
    "marker-output",
];

fn id(name: &str) -> InvocationId {
    name.parse().expect("a name")
}

fn key_file(folder: &TempDir) -> KeyFile {
    let path = folder.path().join("state.key");
    KeyFile::create(&path).expect("a new one");
    KeyFile::load(&path).expect("a key")
}

/// Whether a file in a folder has these bytes.
fn has(folder: &Path, bytes: &str) -> bool {
    fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => has(&path, bytes),
            false => fs::read(&path).expect("a file").windows(bytes.len()).any(|window| window == bytes.as_bytes()),
        }
    })
}

fn published(value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("count".to_owned(), value.to_owned())])
}

fn suspended(file: &str, value: &str) -> Commit {
    Commit::Suspended {
        checkpoint: Checkpoint { file: file.to_owned(), bytes: 1 },
        parent: None,
        due: Some(2),
        waits: Vec::new(),
        taken: Vec::new(),
        published: published(value),
    }
}

/// `one`, which has a child that has ended and an event that waits, and `two`, which is the same with other contents; a schedule, and a file.
fn fill(store: &Store, meta: &mut Sqlite) -> [u8; 32] {
    let hash = store.add_data(&store.adding().expect("begun"), &mut MARKERS[9].as_bytes()).expect("added");
    for (name, more) in [("one", ""), ("two", "-other")] {
        let own = |index: usize| format!("{}{more}", MARKERS[index]);
        let one = id(name);
        meta.start(&NewInvocation { id: &one, workflow: "w", start: own(0).as_bytes(), due: 1 }, 1).expect("started");
        let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&one), 2) else { panic!("it is due") };
        let child = Outgoing {
            what: What::Start { detached: false },
            to: "c".to_owned(),
            name: "w".to_owned(),
            bytes: own(10).into_bytes(),
            origin: String::new(),
        };
        let left = Left {
            printed: own(6).into_bytes(),
            sent: Outbox::new(vec![child], &[], |child| Ok(child.bytes.clone())),
            ..Left::default()
        };
        meta.commit_with(&claim.held, &suspended(&format!("{name}.1"), &own(2)), &left, 3).expect("it is ours");
        let mail = (own(3), own(4));
        let mail = NewMail::new("paid", mail.0.as_bytes(), Some(&mail.1)).expect("it can be sent");
        assert_eq!(meta.send(&one, &mail, 4).expect("asked"), Sent::New);
        assert_eq!(meta.send(&one, &mail, 4).expect("asked"), Sent::Duplicate);
        let child = id(&child_invocation(name, "c"));
        let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&child), 5) else { panic!("it is due") };
        let outcome = Outcome { message: own(5), ..Outcome::default() };
        let ended = Commit::Ended { well: false, cancelled: false, report: own(1).into_bytes(), published: None };
        let at = OutputAt::Row(own(11).into_bytes());
        let outputs = vec![Output { slot: "out".to_owned(), bytes: own(11).len() as u64, at }];
        let left = Left { outcome, outputs, callback: Some(own(7)), ..Left::default() };
        meta.commit_with(&claim.held, &ended, &left, 6).expect("it is ours");
    }
    let definition = Definition {
        workflow: "w".to_owned(),
        cron: "* * * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed: Missed::Once,
        inputs: MARKERS[8].as_bytes().to_vec(),
        paused: false,
    };
    let name = "s".parse().expect("a name");
    assert_eq!(meta.define_schedule(&name, &definition, Some, 7).expect("defined"), Defined::New);
    assert_eq!(meta.define_schedule(&name, &definition, Some, 7).expect("defined"), Defined::Same);
    hash
}

/// The control is a folder without a key: there each can be found.
#[test]
fn no_value_of_an_invocation_is_in_a_folder_with_a_key_and_all_are_read_with_it() {
    for is_encrypted in [false, true] {
        let folder = TempDir::new().expect("a folder");
        let key = is_encrypted.then(|| key_file(&folder));
        let state = folder.path().join("state");
        let store = Store::open_served(&state, key.as_ref()).expect("a new one");
        let mut meta = store.meta().expect("a database");
        let hash = fill(&store, &mut meta);
        // The log of the database is there as long as it is open.
        assert!(fs::metadata(state.join("meta.sqlite-wal")).expect("a log").len() > 0);
        for marker in MARKERS {
            assert_eq!(has(&state, marker), !is_encrypted, "{marker}");
        }
        drop(store);
        let store = Store::open_served(&state, key.as_ref()).expect("it is there");
        let mut meta = store.meta().expect("a database");
        let one = id("one");
        let row = meta.get(&one).expect("read").expect("there");
        assert_eq!((row.start.as_slice(), row.published), (MARKERS[0].as_bytes(), published(MARKERS[2])));
        assert_eq!(meta.history(&one).expect("read")[0].published, published(MARKERS[2]));
        assert_eq!(meta.printed(&one).expect("read"), [MARKERS[6].as_bytes()]);
        let child = id(&child_invocation("one", "c"));
        assert!(meta.owed().expect("read").contains(&child));
        assert_eq!(meta.owed_to(&child).expect("read").as_deref(), Some(MARKERS[7]));
        let outputs = meta.outputs(&child).expect("read");
        assert_eq!(outputs[0].at, OutputAt::Row(MARKERS[11].as_bytes().to_vec()));
        let child = meta.get(&child).expect("read").expect("there");
        assert_eq!((child.status, child.report.as_deref()), (Status::Failed, Some(MARKERS[1].as_bytes())));
        assert_eq!(
            meta.schedules().expect("read")[0].as_ref().expect("whole").definition.inputs,
            MARKERS[8].as_bytes()
        );
        let mut content = String::new();
        store.open_data(&hash).expect("it is there").read_to_string(&mut content).expect("text");
        assert_eq!(content, MARKERS[9]);
        // A copy has values of its own.
        let copies = [id("copy")];
        meta.fork(Fork { id: &one, at: None, copies: &copies, paused: false }, 8).expect("done");
        let copy = meta.get(&copies[0]).expect("read").expect("there");
        assert_eq!((copy.start.as_slice(), copy.published), (MARKERS[0].as_bytes(), published(MARKERS[2])));
        let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&one), 9) else { panic!("it is due") };
        let mail = meta.mail(&claim.held, 0).expect("read");
        assert_eq!(mail[0].bytes, MARKERS[3].as_bytes());
        assert!(mail[1].bytes.windows(14).any(|window| window == MARKERS[5].as_bytes()), "the end of the child");
    }
}

/// An attacker who can write to the database puts values of one place into another, or changes them. Each is noticed where it is read.
#[test]
fn values_that_were_changed_or_exchanged_are_named() {
    let folder = TempDir::new().expect("a folder");
    let key = key_file(&folder);
    let state = folder.path().join("state");
    let store = Store::open_served(&state, Some(&key)).expect("a new one");
    let mut meta = store.meta().expect("a database");
    fill(&store, &mut meta);
    let one = id("one");
    let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&one), 9) else { panic!("it is due") };
    // The last one that closes it empties its log.
    drop(meta);
    let child = child_invocation("one", "c");
    let exchange = |table: &str, column: &str, of: &str, to: &str, from: &str| {
        format!(
            "UPDATE {table} SET {column} = (SELECT {column} FROM {table} WHERE {of} = '{from}') WHERE {of} = '{to}'"
        )
    };
    let flip = |table: &str, column: &str, of: &str| {
        // The last byte is changed, whatever it is.
        let flipped = format!("substr({column}, 1, length({column}) - 1)");
        format!(
            "UPDATE {table} SET {column} = CAST({flipped} || iif(substr({column}, -1) = x'00', x'01', x'00') AS BLOB) WHERE {of} = 'one'"
        )
    };
    let other_child = child_invocation("two", "c");
    let damages: Vec<(String, &str)> = vec![
        (exchange("invocation", "start", "id", "one", "two"), "wrong start"),
        (flip("invocation", "start", "id"), "wrong start"),
        ("UPDATE invocation SET start = x'00' WHERE id = 'one'".to_owned(), "wrong start"),
        (exchange("invocation", "report", "id", &child, &other_child), "wrong report"),
        (exchange("invocation", "published", "id", "one", "two"), "wrong list of what it has published"),
        ("UPDATE invocation SET published = '{}' WHERE id = 'one'".to_owned(), "wrong list of what it has published"),
        (exchange("history", "published", "id", "one", "two"), "wrong list of what it has published"),
        (exchange("printed", "bytes", "id", "one", "two"), "wrong list of what it has printed"),
        (flip("printed", "bytes", "id"), "wrong list of what it has printed"),
        (exchange("owed", "url", "id", &child, &other_child), "wrong callback"),
        (exchange("output", "content", "id", &child, &other_child), "wrong output"),
        (exchange("mail", "bytes", "name = 'paid' AND invocation", "one", "two"), "wrong event"),
        (flip("mail", "bytes", "name = 'paid' AND invocation"), "wrong event"),
        // An event becomes one of another name.
        ("UPDATE mail SET name = 'approved' WHERE name = 'paid' AND invocation = 'one'".to_owned(), "wrong event"),
        (exchange("child", "outcome", "parent", "one", "two"), "wrong outcome of a child"),
        ("UPDATE schedule SET inputs = x'7b7d'".to_owned(), "a schedule has a wrong list of inputs"),
    ];
    let child = id(&child);
    let look = |meta: &Sqlite| -> Result<(), MetaError> {
        meta.get(&one)?;
        meta.get(&child)?;
        meta.history(&one)?;
        meta.printed(&one)?;
        meta.owed_to(&child)?;
        meta.outputs(&child)?;
        meta.mail(&claim.held, 0)?;
        meta.children(&one)?;
        meta.due_schedule(u64::MAX)?;
        Ok(())
    };
    for (number, (damage, what)) in damages.iter().enumerate() {
        let copy = folder.path().join(number.to_string());
        fs::create_dir(&copy).expect("made");
        fs::copy(state.join("meta.sqlite"), copy.join("meta.sqlite")).expect("copied");
        let meta = Store::open_served(&copy, Some(&key)).and_then(|store| store.meta()).expect("a copy");
        look(&meta).expect("the control");
        assert!(meta.connection.execute(damage, []).expect("changed") > 0, "{damage}");
        let error = look(&meta).expect_err(damage);
        assert!(error.is_damage() && error.to_string().contains(what), "{damage}: {error}");
    }
}

/// What stops one invocation does not stop those behind it.
#[test]
fn an_invocation_whose_start_was_changed_is_paused_and_the_others_go_on() {
    let folder = TempDir::new().expect("a folder");
    let key = key_file(&folder);
    let store = Store::open(&folder.path().join("state"), Some(&key)).expect("a new one");
    let mut meta = store.meta().expect("a database");
    for (name, due) in [("one", 1), ("two", 2)] {
        meta.start(&NewInvocation { id: &id(name), workflow: "w", start: name.as_bytes(), due }, 1).expect("started");
    }
    let change = "UPDATE invocation SET start = (SELECT start FROM invocation WHERE id = 'two') WHERE id = 'one'";
    meta.connection.execute_batch(change).expect("changed");
    assert_eq!(meta.claim("o", Want::Due, 3).expect("asked"), Claimed::Paused(id("one")));
    let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Due, 3) else { panic!("the other one is due") };
    assert_eq!((claim.held.id, claim.start), (id("two"), b"two".to_vec()));
    let (status, reason): (i64, String) = meta
        .connection
        .query_row("SELECT status, reason FROM invocation WHERE id = 'one'", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("there");
    assert!(status == 3 && reason.contains("invocation `one` has a wrong start"), "{status} {reason}");
}

#[test]
fn a_database_opens_with_its_key_alone() {
    let folder = TempDir::new().expect("a folder");
    let (own, other) = (key_file(&folder), key_file(&TempDir::new().expect("a folder")));
    let state = folder.path().join("state");
    Store::open(&state, Some(&own)).expect("a new one");
    let refused = |state: &Path, key: Option<&KeyFile>| match Store::open(state, key) {
        Err(crate::StoreError::Meta(error)) if error.is_of_key() => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refused(&state, None).contains("is encrypted"));
    assert!(refused(&state, Some(&other)).contains("is not the key of"));
    let store = Store::open(&state, Some(&own)).expect("it is its key");
    // What is kept of the first key is overwritten.
    let kept = |meta: &Sqlite| wrapped(&meta.connection).expect("read").expect("there");
    let first = kept(&store.meta().expect("open"));
    store.change_key(&own, &other).expect("changed");
    assert_ne!(kept(&store.meta().expect("those that have it open go on")), first);
    drop(store);
    assert!(refused(&state, Some(&own)).contains("is not the key of"));
    Store::open(&state, Some(&other)).expect("it is its key now");
    let bytes = fs::read(state.join("meta.sqlite")).expect("a file");
    assert!(!bytes.windows(first.len()).any(|window| window == first), "the old one is gone");
    // What says that there is a key was removed: nothing is taken for a folder without one.
    let connection = Connection::open(state.join("meta.sqlite")).expect("a database");
    connection.execute_batch("DELETE FROM state_key").expect("removed");
    assert!(refused(&state, None).contains("is encrypted"));
    assert!(refused(&state, Some(&other)).contains("is not the key of"));
    let plain = folder.path().join("plain");
    Store::open(&plain, None).expect("a new one");
    assert!(refused(&plain, Some(&own)).contains("is not encrypted"));
}

#[test]
fn an_encrypted_file_is_whole_and_its_own_or_an_error() {
    let folder = TempDir::new().expect("a folder");
    let key = key_file(&folder);
    let store = Store::open(&folder.path().join("state"), Some(&key)).expect("a new one");
    let adding = store.adding().expect("begun");
    let add = |bytes: &[u8]| store.add_data(&adding, &mut &*bytes).expect("added");
    let (one, two) = (add(b"one"), add(b"two"));
    assert_eq!(add(b"one"), one, "the same content is one file");
    use sha2::{Digest, Sha256};
    let sha256: [u8; 32] = Sha256::digest(b"one").into();
    assert_eq!(store.hash_of_data(sha256).expect("made"), one);
    assert_ne!(one, sha256, "its name does not say what is in it");
    assert_eq!(store.add_file(&adding, &mut &b"one"[..]).expect("added"), sha256, "code is as it was");
    let read = |hash: &[u8; 32]| -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        store.open_data(hash)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    assert_eq!(read(&one).expect("the control"), b"one");
    let whole = fs::read(store.file(&one)).expect("a file");
    let mut changed = whole.clone();
    changed[30] ^= 1;
    for damage in
        [changed, whole[..whole.len() - 1].to_vec(), fs::read(store.file(&two)).expect("a file"), b"one".to_vec()]
    {
        fs::write(store.file(&one), damage).expect("written");
        assert_eq!(read(&one).expect_err("it was changed").kind(), std::io::ErrorKind::InvalidData);
    }
    fs::write(store.file(&one), whole).expect("written");
    assert_eq!(read(&one).expect("the control"), b"one");
}
