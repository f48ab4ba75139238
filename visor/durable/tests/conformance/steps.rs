//! Steps that can be done to a store.

use monohull_abi::event::CANCEL_EVENT;
use monohull_durable::{
    Bounds, Checkpoint, Commit, Control, Definition, Filter, InvocationId, Left, Missed, Outbox, Outcome, Output,
    OutputAt, Status, Wait,
};
use monohull_report::{Outgoing, What, child_invocation};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// How a commit is made.
#[derive(Clone, Debug)]
pub(crate) enum How {
    Alone,
    With,
    AndClaim(usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Start {
        id: usize,
        workflow: usize,
        due: u64,
    },
    StartSuspended {
        id: usize,
        commit: Commit,
        left: Left,
    },
    StartRunning {
        id: usize,
        owner: usize,
    },
    /// Claims so many, as many at once as the store does.
    ClaimDue {
        owner: usize,
        most: usize,
    },
    Claim {
        owner: usize,
        id: usize,
    },
    /// By the claim that was made this many claims ago.
    Commit {
        claim: usize,
        commit: Commit,
        left: Left,
        how: How,
    },
    /// Starts it if there is none, resumes it, waits until it is due, claims it, and commits.
    Leg {
        id: usize,
        commit: Commit,
        left: Left,
        how: How,
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
    /// Ends one at once.
    End {
        id: usize,
    },
    Beat {
        id: usize,
        event: usize,
    },
    Send {
        id: usize,
        event: usize,
        bytes: usize,
        key: Option<usize>,
    },
    SendAll {
        id: usize,
        sent: Outbox,
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
    Newest {
        filter: Filter,
        limit: usize,
    },
    Paid {
        id: usize,
    },
    Forget {
        bounds: Bounds,
    },
    Define {
        name: usize,
        definition: Definition,
        next: Option<u64>,
    },
    /// From what was seen of it this many looks ago.
    Fire {
        seen: usize,
        id: usize,
        starts: bool,
    },
    PutOff {
        seen: usize,
        by: u64,
    },
    LookAgain,
    StopSchedule {
        name: usize,
    },
    RemoveSchedule {
        name: usize,
    },
    Registered {
        workflow: usize,
        version: usize,
    },
    ClaimToMove {
        owner: usize,
        id: usize,
    },
    CommitMoved {
        claim: usize,
        commit: Commit,
        left: Left,
    },
    GiveBack {
        moved: usize,
    },
    ReplaceStart {
        looked_at: usize,
    },
    Pass {
        ns: u64,
    },
    /// The process is killed, and another one opens the store.
    Kill,
}

const BASE: [&str; 4] = ["a", "b", "c-1", "d_2"];
const CHILDREN: [&str; 2] = ["kid", "two"];
pub(crate) const EVENTS: [&str; 2] = ["paid", "approved \u{e4}"];
pub(crate) const OWNERS: [&str; 3] = ["first", "second", "third"];
pub(crate) const WORKFLOWS: [&str; 2] = ["w", "v"];
pub(crate) const SCHEDULES: [&str; 2] = ["nightly", "s"];
/// Events by which the system tells what it has done.
const TOLD: [&str; 5] = ["child:kid", "child:two", "checkpoint:l:p", "fork:p", "fork:q"];
/// Base names, children of the first two, and copies of them.
pub(crate) const IDS: usize = BASE.len() + 4 + 2;

pub(crate) fn id(index: usize) -> InvocationId {
    let name = match index.checked_sub(BASE.len()) {
        None => BASE[index].to_owned(),
        Some(child @ 0..4) => child_invocation(BASE[child / 2], CHILDREN[child % 2]),
        Some(copy) => format!("{}-p-1", BASE[copy - 4]),
    };
    name.parse().expect("a name")
}

fn ids() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0), 2 => 1..BASE.len(), 1 => BASE.len()..IDS]
}

fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    (0..6u64).prop_map(|bytes| Checkpoint { file: format!("{bytes}.checkpoint"), bytes })
}

/// Two of three files take pages from the one before them.
fn parent_of(checkpoint: &Checkpoint) -> Option<Checkpoint> {
    let bytes = checkpoint.bytes.checked_sub(1).filter(|_| !checkpoint.bytes.is_multiple_of(3))?;
    Some(Checkpoint { file: format!("{bytes}.checkpoint"), bytes })
}

/// One that waits, or goes on.
fn waiting(goes_on: impl Strategy<Value = bool>) -> impl Strategy<Value = Commit> {
    let until = prop::option::of(0..60u64);
    let event = prop::option::weighted(0.8, prop::sample::select([&EVENTS[..], &TOLD[..], &[CANCEL_EVENT]].concat()));
    let wait = (until.clone(), event, 3..5u32).prop_map(|(until, event, instance)| Wait {
        step: "s \"x\"".into(),
        instance,
        what: "a sleep".into(),
        until,
        event: event.map(str::to_owned),
    });
    // Two instances that are told to end.
    let both = [3, 4].map(|instance| Wait {
        step: "s".into(),
        instance,
        what: "to be cancelled".into(),
        until: None,
        event: Some(CANCEL_EVENT.to_owned()),
    });
    let waits = prop_oneof![9 => prop::collection::vec(wait, 0..3), 1 => Just(both.to_vec())];
    let taken = prop::collection::vec(0..8u64, 0..5);
    (checkpoint(), until, waits, taken, published(), goes_on).prop_map(
        |(checkpoint, due, waits, taken, published, goes_on)| {
            let parent = parent_of(&checkpoint);
            match goes_on {
                true => Commit::Checkpointed { checkpoint, parent, due, waits, taken, published },
                false => Commit::Suspended { checkpoint, parent, due, waits, taken, published },
            }
        },
    )
}

fn published() -> impl Strategy<Value = BTreeMap<String, String>> {
    let text = prop::sample::select(vec!["", "1", "\"two\""]).prop_map(str::to_owned);
    prop::collection::btree_map(prop::sample::select(vec!["a".to_owned(), "b".to_owned()]), text, 0..3)
}

fn commit() -> impl Strategy<Value = Commit> {
    prop_oneof![
        12 => waiting(prop::bool::weighted(0.3)),
        2 => (any::<bool>(), prop::bool::weighted(0.3), prop::option::of(published()))
            .prop_map(|(well, cancelled, published)| Commit::Ended { well, cancelled, report: b"{}".to_vec(), published }),
        1 => (0..60u64).prop_map(|due| Commit::Released { due, reason: "no room".into() }),
        1 => Just(Commit::Paused { reason: "damaged".into() }),
    ]
}

fn outgoing() -> impl Strategy<Value = Outgoing> {
    let made = |what, to: String, name: &str, bytes: Vec<u8>| {
        let origin = format!("s/0/{}", bytes.len());
        Outgoing { what, to, name: name.to_owned(), bytes, origin }
    };
    let child = prop::sample::select(CHILDREN.to_vec());
    prop_oneof![
        3 => (ids(), 0..EVENTS.len(), 0..3usize)
            .prop_map(move |(to, event, bytes)| made(What::Event, id(to).to_string(), EVENTS[event], vec![8; bytes])),
        3 => (child.clone(), any::<bool>(), prop_oneof![4 => Just(0usize), 1 => Just(1)], prop_oneof![4 => Just(0usize), 1 => Just(1)])
            .prop_map(move |(name, detached, workflow, bytes)| {
                made(What::Start { detached }, name.to_owned(), WORKFLOWS[workflow], vec![9; bytes])
            }),
        1 => child.prop_map(move |name| made(What::Cancel, name.to_owned(), "", Vec::new())),
        2 => Just(made(What::Checkpoint, "checkpoint:l:p".to_owned(), "l", Vec::new())),
        1 => (1..3u32, prop_oneof![4 => Just("fork:p"), 1 => Just("fork:q")])
            .prop_map(move |(copies, event)| made(What::Fork { copies }, event.to_owned(), "", Vec::new())),
    ]
}

/// How a copy is made.
#[derive(Clone, Copy)]
pub(crate) enum Copying {
    ByHand,
    ByItself,
    /// With the commit that starts the child, of an invocation that is removed too.
    WithTheStart,
}

/// A copy with a child of its own is removed, and made again.
pub(crate) fn copied_again(copying: Copying) -> Vec<Step> {
    let outgoing = |what, to: &str, name: &str| Outgoing {
        what,
        to: to.to_owned(),
        name: name.to_owned(),
        bytes: Vec::new(),
        origin: "s/0/0".to_owned(),
    };
    let start = outgoing(What::Start { detached: false }, CHILDREN[0], WORKFLOWS[0]);
    let asks = outgoing(What::Fork { copies: 1 }, "fork:p", "");
    let leg = |events| Step::Leg {
        id: 0,
        commit: Commit::Suspended {
            checkpoint: Checkpoint { file: "1.checkpoint".into(), bytes: 1 },
            parent: None,
            due: Some(0),
            waits: Vec::new(),
            taken: Vec::new(),
            published: BTreeMap::new(),
        },
        left: Left { sent: Outbox::new(events, &[], |_| Ok(b"w".to_vec())), ..Left::default() },
        how: How::With,
    };
    let by_itself = BASE.len() + 4;
    let by_hand = Step::Fork { id: 0, at: None, copies: vec![1], paused: false };
    // A child ends with its parent.
    let gone = |id| [Step::End { id }, Step::Purge { id }];
    let (first, copy, again) = match copying {
        Copying::ByHand => (vec![leg(vec![start]), by_hand.clone()], 1, by_hand),
        Copying::ByItself => (vec![leg(vec![start]), leg(vec![asks.clone()])], by_itself, leg(vec![asks])),
        Copying::WithTheStart => {
            let both = leg(vec![start, asks]);
            (vec![both.clone()], by_itself, both)
        }
    };
    let original = matches!(copying, Copying::WithTheStart).then(|| gone(0));
    let removed = gone(copy).into_iter().chain(original.into_iter().flatten());
    first.into_iter().chain(removed).chain([again, Step::End { id: copy }]).collect()
}

fn outbox() -> impl Strategy<Value = Outbox> {
    let workflows = prop::sample::select(vec![vec![], vec!["w".to_owned()], vec!["*".to_owned()]]);
    let room = prop::option::weighted(0.2, 0..3u64);
    (prop::collection::vec(outgoing(), 0..4), workflows, 0..6u8, room).prop_map(|(events, workflows, knows, room)| {
        let start = |event: &Outgoing| match knows {
            0 => Err("there is no such workflow".to_owned()),
            _ => Ok(event.name.as_bytes().to_vec()),
        };
        Outbox { room, ..Outbox::new(events, &workflows, start) }
    })
}

fn left() -> impl Strategy<Value = Left> {
    let bytes = || prop::sample::select(vec![Vec::new(), vec![1], vec![2; 5]]);
    let output = (prop::sample::select(vec!["o", "p"]), bytes(), any::<bool>()).prop_map(|(slot, bytes, in_row)| {
        let len = bytes.len() as u64;
        let at = if in_row { OutputAt::Row(bytes) } else { OutputAt::File([len as u8; 32]) };
        Output { slot: slot.to_owned(), at, bytes: len }
    });
    let callback = prop::option::weighted(0.3, Just("http://told/".to_owned()));
    let outcome = prop::sample::select(vec!["", "it failed"]).prop_map(|message| Outcome {
        message: message.to_owned(),
        outputs: vec![("o".to_owned(), vec![4])],
        left_out: None,
    });
    let unsynced = prop::option::of((0..6u64, bytes()));
    let start = prop::option::weighted(0.1, Just(b"more".to_vec()));
    (bytes(), prop::collection::vec(output, 0..2), callback, outbox(), outcome, unsynced, start).prop_map(
        |(printed, outputs, callback, sent, outcome, unsynced, start)| {
            let unsynced = unsynced.map(|(file, content)| (format!("{file}.checkpoint"), content));
            Left { printed, outputs, callback, sent, outcome, unsynced, start }
        },
    )
}

fn definition() -> impl Strategy<Value = Definition> {
    (0..WORKFLOWS.len(), 0..3usize, any::<bool>()).prop_map(|(workflow, missed, paused)| Definition {
        workflow: WORKFLOWS[workflow].to_owned(),
        cron: "0 6 * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed: Missed::ALL[missed],
        inputs: vec![5; missed],
        paused,
    })
}

fn filter() -> impl Strategy<Value = Filter> {
    let workflow = prop::option::of(Just("w".to_owned()));
    let statuses = prop::collection::vec(prop::sample::select(Status::ALL.to_vec()), 0..3);
    let before = prop::option::of((0..200u64, ids().prop_map(|index| id(index).to_string())));
    (workflow, statuses, prop::option::of(0..200u64), before).prop_map(|(workflow, statuses, started_after, before)| {
        Filter { workflow, statuses, started_after, before, report_path: None }
    })
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let owners = 0..OWNERS.len();
    let last = || prop_oneof![6 => 0..1usize, 1 => 1..6usize];
    let control = prop_oneof![2 => Just(Control::Pause), 3 => Just(Control::Resume), 2 => Just(Control::Cancel), 1 => Just(Control::Stop)];
    let status = prop::sample::select(Status::ALL.to_vec());
    let how = prop_oneof![
        1 => Just(How::Alone),
        2 => Just(How::With),
        2 => owners.clone().prop_map(How::AndClaim)
    ];
    // Of values that may be encrypted only whether there are any counts.
    let bounds = (0..4usize, prop::sample::select(vec![0, u64::MAX]), 0..200u64)
        .prop_map(|(number, bytes, ended_after)| Bounds { number, bytes, ended_after });
    let runs = prop_oneof![
        4 => (ids(), 0..2usize, 0..60u64).prop_map(|(id, workflow, due)| Step::Start { id, workflow, due }),
        1 => (ids(), waiting(Just(false)), left()).prop_map(|(id, commit, left)| Step::StartSuspended { id, commit, left }),
        1 => (ids(), owners.clone()).prop_map(|(id, owner)| Step::StartRunning { id, owner }),
        12 => (owners.clone(), 1..3usize).prop_map(|(owner, most)| Step::ClaimDue { owner, most }),
        3 => (owners.clone(), ids()).prop_map(|(owner, id)| Step::Claim { owner, id }),
        10 => (ids(), commit(), left(), how.clone()).prop_map(|(id, commit, left, how)| Step::Leg { id, commit, left, how }),
        10 => (last(), commit(), left(), how)
            .prop_map(|(claim, commit, left, how)| Step::Commit { claim, commit, left, how }),
        1 => owners.clone().prop_map(|owner| Step::Expire { owner }),
        3 => (ids(), control).prop_map(|(id, control)| Step::Control { id, control }),
        2 => ids().prop_map(|id| Step::Purge { id }),
        1 => ids().prop_map(|id| Step::End { id }),
        10 => (0..60u64).prop_map(|ns| Step::Pass { ns }),
        1 => Just(Step::Kill),
    ];
    let mail = prop_oneof![
        6 => (ids(), 0..EVENTS.len(), 0..3usize, prop::option::of(0..3usize))
            .prop_map(|(id, event, bytes, key)| Step::Send { id, event, bytes, key }),
        1 => (ids(), outbox()).prop_map(|(id, sent)| Step::SendAll { id, sent }),
        1 => (ids(), 0..EVENTS.len()).prop_map(|(id, event)| Step::Beat { id, event }),
        2 => (0..2usize, 0..4u64).prop_map(|(claim, after)| Step::Mail { claim, after }),
    ];
    let branches = prop_oneof![
        1 => (ids(), 0..5u32).prop_map(|(id, checkpoints)| Step::Keep { id, checkpoints }),
        3 => (ids(), prop::option::of(0..6u64), prop::collection::vec(0..BASE.len(), 0..4), any::<bool>())
            .prop_map(|(id, at, copies, paused)| Step::Fork { id, at, copies, paused }),
        3 => (ids(), 0..6u64, any::<bool>()).prop_map(|(id, to, paused)| Step::Rewind { id, to, paused }),
    ];
    let served = prop_oneof![
        1 => (prop::collection::vec(status, 0..3), prop::option::of(ids()), 0..5usize)
            .prop_map(|(statuses, after, limit)| Step::List { statuses, after, limit }),
        1 => (filter(), 0..5usize).prop_map(|(filter, limit)| Step::Newest { filter, limit }),
        1 => ids().prop_map(|id| Step::Paid { id }),
        1 => bounds.prop_map(|bounds| Step::Forget { bounds }),
    ];
    let schedules = prop_oneof![
        3 => (0..SCHEDULES.len(), definition(), prop::option::of(1..50u64))
            .prop_map(|(name, definition, next)| Step::Define { name, definition, next }),
        4 => (last(), ids(), any::<bool>()).prop_map(|(seen, id, starts)| Step::Fire { seen, id, starts }),
        1 => (last(), 0..90u64).prop_map(|(seen, by)| Step::PutOff { seen, by }),
        1 => Just(Step::LookAgain),
        1 => (0..SCHEDULES.len()).prop_map(|name| Step::StopSchedule { name }),
        1 => (0..SCHEDULES.len()).prop_map(|name| Step::RemoveSchedule { name }),
    ];
    let versions = prop_oneof![
        1 => (0..2usize, 0..3usize).prop_map(|(workflow, version)| Step::Registered { workflow, version }),
        3 => (owners, ids()).prop_map(|(owner, id)| Step::ClaimToMove { owner, id }),
        2 => (last(), commit(), left()).prop_map(|(claim, commit, left)| Step::CommitMoved { claim, commit, left }),
        2 => last().prop_map(|moved| Step::GiveBack { moved }),
        1 => last().prop_map(|looked_at| Step::ReplaceStart { looked_at }),
    ];
    prop_oneof![36 => runs, 5 => mail, 4 => branches, 2 => served, 3 => schedules, 3 => versions]
}
