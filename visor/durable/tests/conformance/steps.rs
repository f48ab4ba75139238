//! Steps that can be done to a store, and what can be asked of it.

use monohull_durable::{
    Before, Bounds, Checkpoint, Children, Claimed, Commit, Control, Definition, Filter, Fork, Held, Invocation,
    InvocationId, Left, Mail, Meta, Missed, Moving, NewInvocation, NewMail, Outbox, Outcome, Output, OutputAt,
    Schedule, Schedules, Served, Status, Step as Due, Versions, Wait, Want,
};
use monohull_report::{Outgoing, What, child_invocation};
use proptest::prelude::*;
use std::fmt::Debug;

/// All that a store does.
pub(crate) trait All: Meta + Children + Served + Schedules + Versions {}

impl<T: Meta + Children + Served + Schedules + Versions> All for T {}

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
const EVENTS: [&str; 2] = ["paid", "approved \u{e4}"];
const OWNERS: [&str; 3] = ["first", "second", "third"];
const WORKFLOWS: [&str; 2] = ["w", "v"];
const SCHEDULES: [&str; 2] = ["nightly", "s"];
/// Events by which the system tells what it has done.
const TOLD: [&str; 4] = ["child:kid", "child:two", "checkpoint:l:p", "fork:p"];
/// Base names, children of the first two, and copies of them.
const IDS: usize = BASE.len() + 4 + 2;

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
    let event = prop::option::weighted(0.8, prop::sample::select([&EVENTS[..], &TOLD[..]].concat()));
    let wait = (until.clone(), event).prop_map(|(until, event)| Wait {
        step: "s \"x\"".into(),
        instance: 3,
        what: "a sleep".into(),
        until,
        event: event.map(str::to_owned),
    });
    let taken = prop::collection::vec(0..8u64, 0..5);
    (checkpoint(), until, prop::collection::vec(wait, 0..3), taken, published(), goes_on).prop_map(
        |(checkpoint, due, waits, taken, published, goes_on)| {
            let parent = parent_of(&checkpoint);
            match goes_on {
                true => Commit::Checkpointed { checkpoint, parent, due, waits, taken, published },
                false => Commit::Suspended { checkpoint, parent, due, waits, taken, published },
            }
        },
    )
}

fn published() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    let text = prop::sample::select(vec!["", "1", "\"two\""]).prop_map(str::to_owned);
    prop::collection::btree_map(prop::sample::select(vec!["a".to_owned(), "b".to_owned()]), text, 0..3)
}

fn commit() -> impl Strategy<Value = Commit> {
    prop_oneof![
        12 => waiting(prop::bool::weighted(0.3)),
        2 => (any::<bool>(), prop::option::of(published()))
            .prop_map(|(well, published)| Commit::Ended { well, report: b"{}".to_vec(), published }),
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
        1 => (1..3u32).prop_map(move |copies| made(What::Fork { copies }, "fork:p".to_owned(), "", Vec::new())),
    ]
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
    let control = prop_oneof![2 => Just(Control::Pause), 3 => Just(Control::Resume), 1 => Just(Control::Cancel)];
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
        10 => (0..60u64).prop_map(|ns| Step::Pass { ns }),
        1 => Just(Step::Kill),
    ];
    let mail = prop_oneof![
        6 => (ids(), 0..EVENTS.len(), 0..3usize, prop::option::of(0..3usize))
            .prop_map(|(id, event, bytes, key)| Step::Send { id, event, bytes, key }),
        1 => (ids(), outbox()).prop_map(|(id, sent)| Step::SendAll { id, sent }),
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

/// A commit takes events by their places in what is given. Beyond those its numbers are another's, or none.
fn of_its_mail(commit: &Commit, given: &[Mail]) -> Commit {
    let mut commit = commit.clone();
    if let Commit::Suspended { taken, .. } | Commit::Checkpointed { taken, .. } = &mut commit {
        for number in taken {
            *number = given.get(*number as usize).map_or(*number, |mail| mail.number);
        }
    }
    commit
}

/// What a user of a store remembers: the newest first.
pub(crate) struct User {
    pub(crate) now: u64,
    claims: Vec<Held>,
    moves: Vec<(Held, Before)>,
    looked_at: Vec<Invocation>,
    seen: Vec<Schedule>,
}

impl User {
    pub(crate) fn new() -> User {
        User { now: 1, claims: Vec::new(), moves: Vec::new(), looked_at: Vec::new(), seen: Vec::new() }
    }

    fn claimed(&mut self, claim: &Claimed) {
        if let Claimed::Yes(claim) = claim {
            self.claims.insert(0, claim.held.clone());
        }
    }

    fn commit(&mut self, meta: &mut impl All, held: &Held, commit: &Commit, left: &Left, how: &How) -> String {
        let commit = &of_its_mail(commit, &meta.given(held).unwrap_or_default());
        let came = match how {
            How::Alone => meta.commit(held, commit, self.now).map(|committed| (committed, None)),
            How::With => meta.commit_with(held, commit, left, self.now).map(|committed| (committed, None)),
            How::AndClaim(owner) => meta.commit_and_claim(held, commit, left, OWNERS[*owner], self.now),
        };
        if let Ok((_, Some(claim))) = &came {
            self.claims.insert(0, claim.held.clone());
        }
        format!("{came:?}")
    }

    /// Does a step; what comes of it.
    pub(crate) fn run(&mut self, meta: &mut impl All, step: &Step) -> String {
        fn told(came: impl Debug) -> String {
            format!("{came:?}")
        }
        let now = self.now;
        match step {
            Step::Start { id: index, workflow, due } => {
                let workflow = WORKFLOWS[*workflow];
                let new = NewInvocation { id: &id(*index), workflow, start: workflow.as_bytes(), due: *due };
                told(meta.start(&new, now))
            }
            Step::StartSuspended { id: index, commit, left } => {
                let new = NewInvocation { id: &id(*index), workflow: "w", start: b"w", due: 3 };
                told(meta.start_suspended(&new, commit, left, [now / 2, now]))
            }
            Step::StartRunning { id: index, owner } => {
                let new = NewInvocation { id: &id(*index), workflow: "w", start: b"w", due: 3 };
                let held = meta.start_running(&new, OWNERS[*owner], [now / 2, now]);
                self.claims.splice(0..0, held.iter().flatten().cloned());
                told(held)
            }
            Step::ClaimDue { owner, most } => {
                let mut all = Vec::new();
                while all.len() < *most {
                    let mut more = *most - all.len();
                    let claimed = meta.claim_due(OWNERS[*owner], now, &mut || {
                        more -= 1;
                        more > 0
                    });
                    let claimed = claimed.expect("the database is whole");
                    claimed.iter().for_each(|claimed| self.claimed(claimed));
                    if claimed.is_empty() {
                        break;
                    }
                    all.extend(claimed);
                }
                told(all)
            }
            Step::Claim { owner, id: index } => {
                let claim = meta.claim(OWNERS[*owner], Want::Id(&id(*index)), now).expect("the database is whole");
                self.claimed(&claim);
                told(claim)
            }
            Step::Commit { claim, commit, left, how } => match self.claims.get(*claim).cloned() {
                Some(held) => self.commit(meta, &held, commit, left, how),
                None => String::new(),
            },
            Step::Leg { id: index, commit, left, how } => {
                let id = id(*index);
                let new = NewInvocation { id: &id, workflow: "w", start: b"w", due: now };
                let started = meta.start(&new, now);
                let resumed = meta.control(&id, Control::Resume, now);
                let due = meta.get(&id).expect("the database is whole").and_then(|row| row.due);
                self.now = now.max(due.unwrap_or(now));
                let claimed = meta.claim(OWNERS[0], Want::Id(&id), self.now).expect("the database is whole");
                let committed = match &claimed {
                    Claimed::Yes(claim) => self.commit(meta, &claim.held.clone(), commit, left, how),
                    _ => String::new(),
                };
                told((started, resumed, claimed, committed))
            }
            Step::Expire { owner } => told(meta.expire(OWNERS[*owner], now)),
            Step::Control { id: index, control } => told(meta.control(&id(*index), *control, now)),
            Step::Purge { id: index } => told(meta.purge(&id(*index), now)),
            Step::Send { id: index, event, bytes, key } => {
                let (bytes, key) = (vec![7; *bytes], key.map(|key| ["k", "l", "m"][key]));
                let mail = NewMail::new(EVENTS[*event], &bytes, key).expect("it can be sent");
                told(meta.send(&id(*index), &mail, now))
            }
            Step::SendAll { id: index, sent } => told(meta.send_all(&id(*index), sent, now)),
            Step::Mail { claim, after } => match self.claims.get(*claim) {
                Some(held) => told((meta.mail(held, *after), meta.given(held))),
                None => String::new(),
            },
            Step::Keep { id: index, checkpoints } => told(meta.keep(&id(*index), *checkpoints)),
            Step::Fork { id: index, at, copies, paused } => {
                let copies: Vec<_> = copies.iter().map(|index| id(*index)).collect();
                told(meta.fork(Fork { id: &id(*index), at: *at, copies: &copies, paused: *paused }, now))
            }
            Step::Rewind { id: index, to, paused } => told(meta.rewind(&id(*index), *to, *paused, now)),
            Step::List { statuses, after, limit } => {
                let after = after.map(id);
                told(meta.list(statuses, after.as_ref().map_or("", InvocationId::as_str), *limit))
            }
            Step::Newest { filter, limit } => told(meta.newest(filter, *limit)),
            Step::Paid { id: index } => told(meta.paid(&id(*index))),
            Step::Forget { bounds } => told(meta.forget(*bounds)),
            Step::Define { name, definition, next } => {
                let name = SCHEDULES[*name].parse().expect("a name");
                let mut after = |time: u64| next.map(|next| time + next);
                let defined = meta.define_schedule(&name, definition, &mut after, now);
                self.seen.splice(0..0, meta.schedule(&name).expect("the database is whole"));
                told(defined)
            }
            Step::Fire { seen, id: index, starts } => {
                let Some(seen) = self.seen.get(*seen) else { return String::new() };
                let step = Due { start: seen.next, next: seen.next.map(|next| next + 50) };
                let new = NewInvocation { id: &id(*index), workflow: "w", start: b"w", due: now };
                told(meta.fire(seen, step, starts.then_some(&new), now))
            }
            Step::PutOff { seen, by } => match self.seen.get(*seen) {
                Some(seen) => told(meta.put_off(seen, "no room", now + by)),
                None => String::new(),
            },
            Step::LookAgain => told(meta.look_again()),
            Step::StopSchedule { name } => told(meta.stop_schedule(SCHEDULES[*name], "damaged")),
            Step::RemoveSchedule { name } => told(meta.remove_schedule(SCHEDULES[*name])),
            Step::Registered { workflow, version } => {
                told(meta.registered(WORKFLOWS[*workflow], ["1", "2", "3"][*version], now))
            }
            Step::ClaimToMove { owner, id: index } => {
                let moving = meta.claim_to_move(OWNERS[*owner], &id(*index), now).expect("the database is whole");
                let moving_told = told(&moving);
                match moving {
                    Moving::Claimed(claim, before) => {
                        self.claims.insert(0, claim.held.clone());
                        self.moves.insert(0, (claim.held, before));
                    }
                    Moving::NotBegun(row) => self.looked_at.insert(0, *row),
                    Moving::Refused(_) | Moving::Unknown => {}
                }
                moving_told
            }
            Step::CommitMoved { claim, commit, left } => match self.claims.get(*claim) {
                Some(held) => {
                    let commit = &of_its_mail(commit, &meta.given(held).unwrap_or_default());
                    told(meta.commit_moved(held, b"moved", commit, left, now))
                }
                None => String::new(),
            },
            Step::GiveBack { moved } => match self.moves.get(*moved) {
                Some((held, before)) => told(meta.give_back(held, before, now)),
                None => String::new(),
            },
            Step::ReplaceStart { looked_at } => match self.looked_at.get(*looked_at) {
                Some(row) => told(meta.replace_start(row, b"moved", now)),
                None => String::new(),
            },
            Step::Pass { ns } => {
                self.now += ns;
                String::new()
            }
            Step::Kill => String::new(),
        }
    }

    /// All that can be asked, and what is due is remembered.
    pub(crate) fn look(&mut self, meta: &impl All) -> String {
        let whole = "the database is whole";
        let rows: Vec<_> =
            meta.list(&[], "", usize::MAX).expect(whole).into_iter().map(|row| row.expect(whole)).collect();
        let mut ids: Vec<_> = (0..IDS).map(id).chain(rows.iter().map(|row| row.id.clone())).collect();
        ids.sort();
        ids.dedup();
        let of = |id: &InvocationId| {
            let mut relatives = meta.relatives(id).expect(whole);
            relatives.sort();
            let histories = (meta.history(id), meta.lineage(id), meta.forks(id, 2));
            let left = (meta.outputs(id), meta.printed(id), meta.owed_to(id));
            format!("{id} {:?} {histories:?} {:?} {relatives:?} {left:?}", meta.mail_count(id), meta.family(id))
        };
        let of: Vec<_> = ids.iter().map(of).collect();
        let mut members = Vec::new();
        let each = |id: &InvocationId, member: monohull_durable::Member<'_>| {
            members.push(format!("{id} {member:?}"));
            Ok(())
        };
        meta.each_member("w", &mut { each }).expect(whole);
        members.sort();
        let mut living = Vec::new();
        let look = |id: &InvocationId, member: monohull_durable::Member<'_>| {
            living.push(format!("{id} {member:?}"));
            Ok(living.len() < 3)
        };
        meta.living_members("w", "a", &mut { look }).expect(whole);
        let mut files = meta.output_files().expect(whole);
        files.sort();
        files.dedup();
        let due = meta.due_schedule(self.now).expect(whole);
        self.seen.splice(0..0, due.clone());
        format!(
            "{rows:#?} {of:#?} {members:?} {living:?} {files:?} {due:?} {:?} {:?} {:?} {:?}",
            (meta.files(), meta.owners(), meta.next_due(), meta.owed()),
            (meta.schedules(), meta.next_look(), meta.registrations("w")),
            (meta.living(), meta.tally(self.now), meta.first_end()),
            meta.get(&id(0)),
        )
    }
}
