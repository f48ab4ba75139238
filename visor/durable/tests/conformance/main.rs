//! A store and a model of it: whatever is done to both, they answer the same and hold the same.
//!
//! Another store is compared by a test of its own as [`sqlite_does_as_the_model`], and needs nothing else of this suite.

mod chunks;
mod engines;
mod model;
mod model_children;
mod model_history;
mod model_served;
mod steps;
mod user;

use engines::{act, lose_nothing, lose_nothing_wherever_they_are_killed};
use model::Model;
use monohull_durable::{
    Checkpoint, Claimed, Commit, MAIL_BYTES_MAX, MAIL_MAX, Meta, MetaError, NewInvocation, NewMail, Sent, Sqlite,
    Trouble, Unlock, Want,
};
use monohull_state_key::KeyFile;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use steps::{Copying, Step, copied_again, id, step};
use tempfile::TempDir;
use user::{All, User};

/// Does steps to a store and to the model. `kill` gives what another process finds if the one that uses the store is killed.
fn does_as_the_model<S: All>(mut store: S, mut kill: impl FnMut(S) -> S, steps: &[Step]) -> TestCaseResult {
    let mut model = Model::default();
    let (mut user, mut users) = (User::new(), User::new());
    for step in steps {
        let came = user.run(&mut store, step);
        prop_assert_eq!(came, users.run(&mut model, step), "{:?}", step);
        if matches!(step, Step::Kill) {
            store = kill(store);
        }
        prop_assert_eq!(user.look(&store), users.look(&model), "after {:?}", step);
    }
    Ok(())
}

fn key_file(folder: &TempDir) -> KeyFile {
    let path = folder.path().join("state.key");
    KeyFile::create(&path).expect("a new one");
    KeyFile::load(&path).expect("a key")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn sqlite_does_as_the_model(steps in prop::collection::vec(step(), 1..150), is_encrypted in any::<bool>()) {
        let folder = TempDir::new().expect("a folder");
        let key = is_encrypted.then(|| key_file(&folder));
        let (store, kill) = sqlite(&folder, key.as_ref());
        does_as_the_model(store, kill, &steps)?;
    }
}

#[test]
fn a_copy_that_is_made_again_has_children_of_its_own() {
    for copying in [Copying::ByHand, Copying::ByItself, Copying::WithTheStart] {
        let folder = TempDir::new().expect("a folder");
        let (store, kill) = sqlite(&folder, None);
        does_as_the_model(store, kill, &copied_again(copying)).expect("as the model");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn engines_on_the_model_lose_nothing(acts in prop::collection::vec(act(), 1..150)) {
        lose_nothing(Model::default(), |model| model, &acts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn engines_on_sqlite_lose_nothing(acts in prop::collection::vec(act(), 1..150)) {
        let folder = TempDir::new().expect("a folder");
        let (store, kill) = sqlite(&folder, None);
        lose_nothing(store, kill, &acts);
    }
}

#[test]
fn engines_lose_nothing_wherever_they_are_killed() {
    lose_nothing_wherever_they_are_killed(|| (Model::default(), |model| model));
}

/// A file that gives what another process finds if the one that uses it is killed: the log is not brought into it, and no lock is given back.
fn sqlite(folder: &TempDir, key: Option<&KeyFile>) -> (Sqlite, impl FnMut(Sqlite) -> Sqlite) {
    let path = |kills: u32| folder.path().join(format!("{kills}.sqlite"));
    let open = move |kills| Sqlite::open(&path(kills), false, key.map_or(Unlock::Nothing, Unlock::File));
    let mut kills = 0;
    let kill = move |sqlite: Sqlite| {
        for part in ["", "-wal"] {
            let [from, to] = [kills, kills + 1].map(|kills| path(kills).with_extension(format!("sqlite{part}")));
            // Before the first transaction there is no log.
            if from.exists() {
                std::fs::copy(from, to).expect("copied");
            }
        }
        drop(sqlite);
        kills += 1;
        open(kills).expect("it is there")
    };
    (open(0).expect("a new one"), kill)
}

/// A store of another kind says in the same words what is wrong with it.
#[test]
fn an_error_of_any_database_is_told() {
    let error = |trouble| MetaError::Database { trouble, source: "connection reset".into() };
    assert_eq!(error(Trouble::Other).to_string(), "the database of the state folder: connection reset");
    let told = [Trouble::Damage, Trouble::Full, Trouble::Other].map(|trouble| {
        let error = error(trouble);
        (error.is_damage(), error.is_full())
    });
    assert_eq!(told, [(true, false), (false, true), (false, false)]);
}

/// A mailbox is full before it fills the disk, and empty again when its events have been taken.
#[test]
fn a_mailbox_has_bounds() {
    let folder = TempDir::new().expect("a folder");
    has_bounds(Sqlite::open(&folder.path().join("meta.sqlite"), false, Unlock::Nothing).expect("a new one"));
    let key = key_file(&folder);
    has_bounds(Sqlite::open(&folder.path().join("encrypted.sqlite"), false, Unlock::File(&key)).expect("a new one"));
}

fn has_bounds(mut meta: Sqlite) {
    for name in ["a", "b"] {
        let id = name.parse().expect("a name");
        meta.start(&NewInvocation { id: &id, workflow: "w", start: b"", due: 1 }, 1).expect("started");
    }
    let mut send = |to: usize, bytes: &[u8]| {
        let mail = NewMail::new("e", bytes, None).expect("it can be sent");
        meta.send(&id(to), &mail, 2).expect("asked")
    };
    for _ in 0..MAIL_MAX {
        assert_eq!(send(0, b""), Sent::New);
    }
    assert_eq!(send(0, b""), Sent::Full);
    let large = vec![0; 1 << 20];
    for _ in 0..MAIL_BYTES_MAX >> 20 {
        assert_eq!(send(1, &large), Sent::New);
    }
    assert_eq!((send(1, &large), send(1, b"x"), send(1, b"")), (Sent::Full, Sent::Full, Sent::New));
    let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&id(0)), 3) else { panic!("it is due") };
    let mail = meta.mail(&claim.held, 0).expect("it is the holder's");
    let taken = mail.iter().map(|mail| mail.number).collect();
    let checkpoint = Checkpoint { file: "c".into(), bytes: 1 };
    let published = Default::default();
    let commit = Commit::Suspended { checkpoint, parent: None, due: None, waits: Vec::new(), taken, published };
    meta.commit(&claim.held, &commit, 4).expect("it is the holder's");
    assert_eq!((meta.mail_count(&id(0)).expect("asked"), meta.mail_count(&id(1)).expect("asked")), (0, 17));
    assert_eq!(meta.send(&id(0), &NewMail::new("e", b"", None).expect("it can be sent"), 5).expect("asked"), Sent::New);
}
