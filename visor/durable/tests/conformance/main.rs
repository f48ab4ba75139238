//! A store and a model of it: whatever is done to both, they answer the same and hold the same.

mod model;
mod model_history;

use model::Model;
use monohull_durable::{
    Checkpoint, Claimed, Commit, Control, Fork, Held, InvocationId, MAIL_BYTES_MAX, MAIL_MAX, Meta, NewInvocation,
    NewMail, Sent, Sqlite, Status, Unlock, Wait, Want,
};
use monohull_state_key::KeyFile;
use proptest::prelude::*;
use std::fmt::Debug;
use tempfile::TempDir;

#[derive(Clone, Debug)]
enum Step {
    Start {
        id: usize,
        workflow: usize,
        due: u64,
    },
    ClaimDue {
        owner: usize,
    },
    Claim {
        owner: usize,
        id: usize,
    },
    /// By the claim that was made this many claims ago.
    Commit {
        claim: usize,
        commit: Commit,
    },
    Expire {
        owner: usize,
    },
    Control {
        id: usize,
        control: Control,
    },
    Purge {
        id: usize,
    },
    Send {
        id: usize,
        event: usize,
        bytes: usize,
        key: Option<usize>,
    },
    /// What waits for the claim that was made this many claims ago.
    Mail {
        claim: usize,
        after: u64,
    },
    Keep {
        id: usize,
        checkpoints: u32,
    },
    Fork {
        id: usize,
        at: Option<u64>,
        copies: Vec<usize>,
        paused: bool,
    },
    Rewind {
        id: usize,
        to: u64,
        paused: bool,
    },
    List {
        statuses: Vec<Status>,
        after: Option<usize>,
        limit: usize,
    },
    Pass {
        ns: u64,
    },
}

const IDS: [&str; 4] = ["a", "b", "c-1", "d_2"];
const EVENTS: [&str; 2] = ["paid", "approved \u{e4}"];
const OWNERS: [&str; 3] = ["first", "second", "third"];

fn id(index: usize) -> InvocationId {
    IDS[index].parse().expect("a name")
}

fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    (0..6u64).prop_map(|bytes| Checkpoint { file: format!("{bytes}.checkpoint"), bytes })
}

/// Two of three files take pages from the one before them.
fn parent_of(checkpoint: &Checkpoint) -> Option<Checkpoint> {
    let bytes = checkpoint.bytes.checked_sub(1).filter(|_| !checkpoint.bytes.is_multiple_of(3))?;
    Some(Checkpoint { file: format!("{bytes}.checkpoint"), bytes })
}

fn commit() -> impl Strategy<Value = Commit> {
    let until = prop::option::of(0..200u64);
    let event = prop::option::of(prop::sample::select(EVENTS.to_vec()));
    let wait = (until.clone(), event).prop_map(|(until, event)| Wait {
        step: "s \"x\"".into(),
        instance: 3,
        what: "a sleep".into(),
        until,
        event: event.map(str::to_owned),
    });
    // Numbers of events that are its own, another's, or none.
    let taken = prop::collection::vec(0..12u64, 0..4);
    let text = prop::sample::select(vec!["", "1", "\"two\""]).prop_map(str::to_owned);
    let published = prop::collection::btree_map(prop::sample::select(vec!["a".to_owned(), "b".to_owned()]), text, 0..3);
    prop_oneof![
        6 => (checkpoint(), until, prop::collection::vec(wait, 0..3), taken, published.clone(), any::<bool>()).prop_map(
            |(checkpoint, due, waits, taken, published, goes_on)| {
                let parent = parent_of(&checkpoint);
                match goes_on {
                    true => Commit::Checkpointed { checkpoint, parent, due, waits, taken, published },
                    false => Commit::Suspended { checkpoint, parent, due, waits, taken, published },
                }
            }
        ),
        2 => (any::<bool>(), prop::option::of(published))
            .prop_map(|(well, published)| Commit::Ended { well, report: b"{}".to_vec(), published }),
        2 => (0..200u64).prop_map(|due| Commit::Released { due, reason: "no room".into() }),
        1 => Just(Commit::Paused { reason: "damaged".into() }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let (ids, owners) = (0..IDS.len(), 0..OWNERS.len());
    let control = prop_oneof![Just(Control::Pause), Just(Control::Resume), Just(Control::Cancel)];
    let status = prop::sample::select(Status::ALL.to_vec());
    prop_oneof![
        3 => (ids.clone(), 0..2usize, 0..100u64).prop_map(|(id, workflow, due)| Step::Start { id, workflow, due }),
        6 => owners.clone().prop_map(|owner| Step::ClaimDue { owner }),
        3 => (owners.clone(), ids.clone()).prop_map(|(owner, id)| Step::Claim { owner, id }),
        8 => (prop_oneof![4 => 0..1usize, 1 => 1..6usize], commit()).prop_map(|(claim, commit)| Step::Commit { claim, commit }),
        3 => owners.prop_map(|owner| Step::Expire { owner }),
        3 => (ids.clone(), control).prop_map(|(id, control)| Step::Control { id, control }),
        1 => ids.clone().prop_map(|id| Step::Purge { id }),
        6 => (ids.clone(), 0..EVENTS.len(), 0..3usize, prop::option::of(0..3usize))
            .prop_map(|(id, event, bytes, key)| Step::Send { id, event, bytes, key }),
        2 => (0..2usize, 0..4u64).prop_map(|(claim, after)| Step::Mail { claim, after }),
        1 => (ids.clone(), 0..5u32).prop_map(|(id, checkpoints)| Step::Keep { id, checkpoints }),
        3 => (ids.clone(), prop::option::of(0..6u64), prop::collection::vec(ids.clone(), 0..4), any::<bool>())
            .prop_map(|(id, at, copies, paused)| Step::Fork { id, at, copies, paused }),
        3 => (ids.clone(), 0..6u64, any::<bool>()).prop_map(|(id, to, paused)| Step::Rewind { id, to, paused }),
        1 => (prop::collection::vec(status, 0..3), prop::option::of(ids), 0..5usize)
            .prop_map(|(statuses, after, limit)| Step::List { statuses, after, limit }),
        3 => (0..60u64).prop_map(|ns| Step::Pass { ns }),
    ]
}

/// Does a step; `claims` are those that were made, the newest first.
fn run(meta: &mut impl Meta, step: &Step, claims: &mut Vec<Held>, now: &mut u64) -> String {
    fn told(came: impl Debug) -> String {
        format!("{came:?}")
    }
    match step {
        Step::Start { id: index, workflow, due } => {
            let workflow = ["w", "v"][*workflow];
            let new = NewInvocation { id: &id(*index), workflow, start: workflow.as_bytes(), due: *due };
            told(meta.start(&new, *now))
        }
        Step::ClaimDue { owner } => claimed(meta.claim(OWNERS[*owner], Want::Due, *now), claims),
        Step::Claim { owner, id: index } => {
            let claim = meta.claim(OWNERS[*owner], Want::Id(&id(*index)), *now);
            claimed(claim, claims)
        }
        Step::Commit { claim, commit } => match claims.get(*claim) {
            Some(held) => told(meta.commit(held, commit, *now)),
            None => String::new(),
        },
        Step::Expire { owner } => told(meta.expire(OWNERS[*owner], *now)),
        Step::Control { id: index, control } => told(meta.control(&id(*index), *control, *now)),
        Step::Purge { id: index } => told(meta.purge(&id(*index), *now)),
        Step::Send { id: index, event, bytes, key } => {
            let (bytes, key) = (vec![7; *bytes], key.map(|key| ["k", "l", "m"][key]));
            let mail = NewMail::new(EVENTS[*event], &bytes, key).expect("it can be sent");
            told(meta.send(&id(*index), &mail, *now))
        }
        Step::Mail { claim, after } => match claims.get(*claim) {
            Some(held) => told(meta.mail(held, *after)),
            None => String::new(),
        },
        Step::Keep { id: index, checkpoints } => told(meta.keep(&id(*index), *checkpoints)),
        Step::Fork { id: index, at, copies, paused } => {
            let copies: Vec<_> = copies.iter().map(|index| id(*index)).collect();
            told(meta.fork(Fork { id: &id(*index), at: *at, copies: &copies, paused: *paused }, *now))
        }
        Step::Rewind { id: index, to, paused } => told(meta.rewind(&id(*index), *to, *paused, *now)),
        Step::List { statuses, after, limit } => {
            let after = after.map(id);
            told(meta.list(statuses, after.as_ref().map_or("", InvocationId::as_str), *limit))
        }
        Step::Pass { ns } => {
            *now += ns;
            String::new()
        }
    }
}

fn claimed(claim: Result<Claimed, monohull_durable::MetaError>, claims: &mut Vec<Held>) -> String {
    if let Ok(Claimed::Yes(claim)) = &claim {
        claims.insert(0, claim.held.clone());
    }
    format!("{claim:?}")
}

fn key_file(folder: &TempDir) -> KeyFile {
    let path = folder.path().join("state.key");
    KeyFile::create(&path).expect("a new one");
    KeyFile::load(&path).expect("a key")
}

/// All that can be asked.
fn look(meta: &impl Meta) -> String {
    let rows: Vec<_> = (0..IDS.len()).map(|index| meta.get(&id(index))).collect();
    let mail: Vec<_> = (0..IDS.len()).map(|index| meta.mail_count(&id(index))).collect();
    let histories: Vec<_> = (0..IDS.len())
        .map(|index| (meta.history(&id(index)), meta.lineage(&id(index)), meta.forks(&id(index), 2)))
        .collect();
    format!("{rows:#?} {mail:?} {histories:#?} {:?} {:?} {:?}", meta.files(), meta.owners(), meta.next_due())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn sqlite_does_as_the_model(steps in prop::collection::vec(step(), 1..60), is_encrypted in any::<bool>()) {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("meta.sqlite");
        let key = is_encrypted.then(|| key_file(&folder));
        let unlock = key.as_ref().map_or(Unlock::Nothing, Unlock::File);
        let (mut sqlite, mut model) = (Sqlite::open(&path, false, unlock).expect("a new one"), Model::default());
        let (mut times, mut claims) = ((1, 1), (Vec::new(), Vec::new()));
        for (round, step) in steps.iter().enumerate() {
            let came = run(&mut sqlite, step, &mut claims.0, &mut times.0);
            let expected = run(&mut model, step, &mut claims.1, &mut times.1);
            prop_assert_eq!(came, expected, "{:?}", step);
            if round % 7 == 0 {
                sqlite = Sqlite::open(&path, false, unlock).expect("it is there");
            }
            prop_assert_eq!(look(&sqlite), look(&model), "after {:?}", step);
        }
    }
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
