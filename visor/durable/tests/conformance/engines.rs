//! Engines on one store, any of which may be killed between any two of its transactions: nothing is lost, and nothing comes twice. Nor if one that lives is taken for
//! dead.
//!
//! ```text
//!   claim ─ given ─ file of the checkpoint ─ commit          due schedule ─ fire
//!         ▲        ▲                        ▲                             ▲
//!         └────────┴─── killed here, and others find out, now or later ───┘
//! ```
//!
//! A checkpoint is a list of the events that its invocation has taken. The clock jumps meanwhile, the store is killed and opened again, a killed engine's
//! commit comes late, and hints are lost: an engine that was not told looks when its nap is over.

use crate::user::All;
use monohull_durable::{
    Checkpoint, Claim, Claimed, Clock, Commit, Control, Definition, Fired, Held, InvocationId, Left, MetaError, Missed,
    NewInvocation, NewMail, Schedule, ScheduleName, Sent, SetClock, Started, Status, Step, Wait, Want, nap,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An hour, in ns.
pub(crate) const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;
/// The longest that an engine sleeps.
const NAP: Duration = Duration::from_secs(1);
/// When a world begins, so that a clock can be set back.
const BEGIN: u64 = 400 * DAY;
/// The time between two due times of the schedule.
const PERIOD: u64 = 7 * DAY;

/// What happens in a world.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Start {
        of: usize,
    },
    /// Its sender does not know whether it was sent, and sends it `times` times.
    Send {
        to: usize,
        times: usize,
        is_told: bool,
    },
    /// An engine that is awake does its next transaction.
    Work {
        engine: usize,
    },
    /// It is killed. What it holds stays with a process that does not know that it is to be dead.
    Kill {
        engine: usize,
    },
    /// That process goes on after all.
    Late {
        dead: usize,
    },
    /// An engine looks for the dead.
    Expire,
    /// One that lives is taken for dead.
    Accuse {
        engine: usize,
    },
    /// All are killed, and the store is opened again.
    KillAll,
    Control {
        of: usize,
        control: Control,
    },
    /// The clock is set.
    Jump {
        by: i64,
    },
    /// Time passes.
    Pass {
        ns: u64,
    },
}

pub(crate) fn act() -> impl Strategy<Value = Act> {
    let engine = 0..2usize;
    let of = || 0..3usize;
    let jump = prop::sample::select(vec![-(HOUR as i64), HOUR as i64, -30 * DAY as i64, 30 * DAY as i64]);
    let control = prop::sample::select(vec![Control::Pause, Control::Resume]);
    prop_oneof![
        2 => of().prop_map(|of| Act::Start { of }),
        4 => (of(), 1..3usize, any::<bool>()).prop_map(|(to, times, is_told)| Act::Send { to, times, is_told }),
        20 => engine.clone().prop_map(|engine| Act::Work { engine }),
        3 => engine.clone().prop_map(|engine| Act::Kill { engine }),
        3 => (0..3usize).prop_map(|dead| Act::Late { dead }),
        2 => Just(Act::Expire),
        2 => engine.prop_map(|engine| Act::Accuse { engine }),
        1 => Just(Act::KillAll),
        2 => (of(), control).prop_map(|(of, control)| Act::Control { of, control }),
        2 => jump.prop_map(|by| Act::Jump { by }),
        3 => prop::sample::select(vec![1, NAP.as_nanos() as u64, 5 * HOUR]).prop_map(|ns| Act::Pass { ns }),
    ]
}

/// What an engine has in its hands.
#[derive(Clone)]
enum Hands {
    Nothing,
    /// A claim: what its mailbox has is not known yet.
    Claimed(Claim),
    /// What it has done with it, in a file.
    Done(Held, Commit),
    /// A schedule that is due.
    Due(Schedule),
}

struct Engine {
    name: String,
    hands: Hands,
    /// When its nap is over, by the time that has passed.
    looks: u64,
}

pub(crate) struct World<S, K> {
    store: S,
    /// Gives what another process finds.
    kill: K,
    clock: SetClock,
    /// The furthest time that the clock has shown.
    furthest: u64,
    /// The time that has passed, in ns: no clock that can be set.
    passed: u64,
    engines: Vec<Engine>,
    named: u32,
    /// Engines that were killed, with what they held.
    dead: Vec<Engine>,
    /// What each file of a checkpoint has.
    files: BTreeMap<String, Vec<u64>>,
    /// What senders were told is kept, in order.
    acknowledged: BTreeMap<InvocationId, Vec<u64>>,
    events: u64,
    fired: BTreeSet<u64>,
}

fn id(of: usize) -> InvocationId {
    ["one", "two", "three"][of].parse().expect("a name")
}

fn schedule() -> ScheduleName {
    "often".parse().expect("a name")
}

impl<S: All, K: FnMut(S) -> S> World<S, K> {
    pub(crate) fn new(mut store: S, kill: K) -> World<S, K> {
        let definition = Definition {
            workflow: "w".to_owned(),
            cron: "0 0 * * 0".to_owned(),
            zone: "UTC".to_owned(),
            missed: Missed::All,
            inputs: Vec::new(),
            paused: false,
        };
        let mut next = |after| Some(after + PERIOD);
        store.define_schedule(&schedule(), &definition, &mut next, BEGIN).expect("the store is whole");
        let (engines, dead, files) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (acknowledged, fired) = (BTreeMap::new(), BTreeSet::new());
        let clock = SetClock::at(BEGIN);
        let mut world = World {
            store,
            kill,
            clock,
            furthest: BEGIN,
            passed: 0,
            engines,
            named: 0,
            dead,
            files,
            acknowledged,
            events: 0,
            fired,
        };
        world.engines.extend((0..2).map(|_| Engine::new(&mut world.named)));
        world
    }

    /// Does one thing, and looks that it was right.
    pub(crate) fn act(mut self, act: &Act) -> World<S, K> {
        let now = self.clock.now();
        match act {
            Act::Start { of } => {
                let id = id(*of);
                let new = NewInvocation { id: &id, workflow: "w", start: b"w", due: now };
                if self.store.start(&new, now).expect("the store is whole") == Started::New {
                    self.acknowledged.insert(id, Vec::new());
                }
            }
            Act::Send { to, times, is_told } => self.send(&id(*to), *times, *is_told),
            Act::Work { engine } => {
                if self.engines[*engine].looks <= self.passed {
                    let mut engine = self.engines.remove(*engine);
                    self.work(&mut engine);
                    // The turns change, and each has some.
                    self.engines.push(engine);
                }
            }
            Act::Kill { engine } => {
                let new = Engine::new(&mut self.named);
                self.dead.push(std::mem::replace(&mut self.engines[*engine], new));
            }
            Act::Late { dead } if *dead < self.dead.len() => {
                let mut late = self.dead.remove(*dead);
                if !matches!(late.hands, Hands::Nothing) {
                    self.work(&mut late);
                    self.dead.push(late);
                }
            }
            Act::Late { .. } => {}
            Act::Expire => self.expire(),
            Act::Accuse { engine } => {
                self.store.expire(&self.engines[*engine].name, now).expect("the store is whole");
            }
            Act::KillAll => {
                self.store = (self.kill)(self.store);
                for engine in &mut self.engines {
                    self.dead.push(std::mem::replace(engine, Engine::new(&mut self.named)));
                }
            }
            Act::Control { of, control } => {
                _ = self.store.control(&id(*of), *control, now).expect("the store is whole")
            }
            Act::Jump { by } => self.clock.jump(*by),
            Act::Pass { ns } => self.pass(*ns),
        }
        self.furthest = self.furthest.max(self.clock.now());
        self
    }

    fn pass(&mut self, ns: u64) {
        self.passed += ns;
        self.clock.set(self.clock.now() + ns);
    }

    fn send(&mut self, to: &InvocationId, times: usize, is_told: bool) {
        self.events += 1;
        let (key, bytes) = (format!("key-{}", self.events), self.events.to_le_bytes());
        let mail = NewMail::new("event", &bytes, Some(&key)).expect("it can be sent");
        for time in 0..times {
            match self.store.send(to, &mail, self.clock.now()).expect("the store is whole") {
                Sent::New => {
                    assert_eq!(time, 0, "it is sent once");
                    self.acknowledged.get_mut(to).expect("it was started").push(self.events);
                }
                Sent::Duplicate => assert!(time > 0, "none has this key yet"),
                Sent::Unknown => assert!(!self.acknowledged.contains_key(to), "it was started"),
                other => panic!("{other:?}"),
            }
        }
        if is_told {
            self.engines.iter_mut().for_each(|engine| engine.looks = 0);
        }
    }

    fn expire(&mut self) {
        let alive: BTreeSet<_> = self.engines.iter().map(|engine| engine.name.clone()).collect();
        for owner in self.store.owners().expect("the store is whole") {
            if !alive.contains(&owner) {
                self.store.expire(&owner, self.clock.now()).expect("the store is whole");
            }
        }
    }

    /// One transaction, and what follows from it in the memory of an engine.
    fn work(&mut self, engine: &mut Engine) {
        let now = self.clock.now();
        engine.hands = match std::mem::replace(&mut engine.hands, Hands::Nothing) {
            Hands::Nothing => self.look(engine),
            Hands::Claimed(claim) => match self.store.given(&claim.held) {
                Ok(given) => {
                    let mut has = claim.checkpoint.map_or_else(Vec::new, |before| self.files[&before.file].clone());
                    for mail in given.iter().take(2) {
                        has.push(u64::from_le_bytes(mail.bytes[..].try_into().expect("a number")));
                    }
                    let taken = given.iter().take(2).map(|mail| mail.number).collect();
                    Hands::Done(claim.held.clone(), self.write(&claim.held, has, taken))
                }
                Err(MetaError::Stale(_)) => Hands::Nothing,
                Err(error) => panic!("{error}"),
            },
            Hands::Done(held, commit) => {
                let before = self.store.get(&held.id).expect("the store is whole").expect("it is there");
                let committed = self.store.commit_with(&held, &commit, &Left::default(), now);
                match committed {
                    Ok(committed) => {
                        assert_eq!((before.status, before.epoch), (Status::Running, held.epoch));
                        assert_eq!(before.owner.as_ref(), Some(&engine.name), "it was the owner");
                        // What nothing names is not read any more.
                        for gone in committed.obsolete {
                            self.files.remove(&gone.file);
                        }
                    }
                    Err(MetaError::Stale(_)) => {
                        let is_own = before.owner.as_ref() == Some(&engine.name) && before.epoch == held.epoch;
                        assert!(!is_own, "it is not refused to its owner");
                    }
                    Err(error) => panic!("{error}"),
                }
                Hands::Nothing
            }
            Hands::Due(seen) => {
                let due = seen.next.expect("it is due");
                let step = Step { start: Some(due), next: Some(due + PERIOD) };
                let id = format!("often-{due}").parse().expect("a name");
                let new = NewInvocation { id: &id, workflow: "w", start: b"w", due };
                match self.store.fire(&seen, step, Some(&new), now).expect("the store is whole") {
                    Fired::New => assert!(self.fired.insert(due), "each due time is once"),
                    Fired::Known => panic!("{id} was started by none"),
                    Fired::Stale => {}
                }
                Hands::Nothing
            }
        };
    }

    /// What is due, or a nap.
    fn look(&mut self, engine: &mut Engine) -> Hands {
        let now = self.clock.now();
        if let Some(schedule) = self.store.due_schedule(now).expect("the store is whole") {
            return Hands::Due(schedule);
        }
        match self.store.claim(&engine.name, Want::Due, now).expect("the store is whole") {
            Claimed::Yes(claim) => {
                let row = self.store.get(&claim.held.id).expect("the store is whole").expect("it is there");
                assert!(row.due.is_some_and(|due| due <= now), "nothing is claimed before its time");
                return Hands::Claimed(*claim);
            }
            Claimed::Paused(_) => return Hands::Nothing,
            Claimed::Nothing => {}
        }
        let due = [self.store.next_due(), self.store.next_look()].map(|due| due.expect("the store is whole"));
        engine.looks = self.passed + nap(due.into_iter().flatten().min(), now, NAP).as_nanos() as u64;
        Hands::Nothing
    }

    /// Writes what an invocation is into a file, and says that it waits: for an event, and a day at most. One of the schedule ends.
    fn write(&mut self, held: &Held, has: Vec<u64>, taken: Vec<u64>) -> Commit {
        if held.id.as_str().starts_with("often") {
            return Commit::Ended { well: true, cancelled: false, report: Vec::new(), published: None };
        }
        let file = format!("{}.{}.checkpoint", held.id, held.epoch);
        self.files.insert(file.clone(), has);
        let due = Some(self.clock.now() + DAY);
        let (step, what, event) = ("s".to_owned(), "an event".to_owned(), Some("event".to_owned()));
        let waits = vec![Wait { step, instance: 0, what, until: due, event }];
        let checkpoint = Checkpoint { file, bytes: 1 };
        Commit::Suspended { checkpoint, parent: None, due, waits, taken, published: Default::default() }
    }

    /// All that was sent was taken, once and in order, when engines that are told of nothing have had a while.
    pub(crate) fn end(mut self) {
        self.expire();
        // What came when the clock was furthest is due then.
        self.clock.set(self.furthest);
        for _ in 0..10_000 {
            match (0..2).find(|engine| self.engines[*engine].looks <= self.passed) {
                Some(engine) => self = self.act(&Act::Work { engine }),
                None if self.is_settled() => return,
                None => {
                    // By hand: one may have used up its attempts.
                    for of in self.acknowledged.keys() {
                        self.store.control(of, Control::Resume, self.clock.now()).expect("the store is whole");
                    }
                    self.pass(NAP.as_nanos() as u64);
                    assert!(
                        self.engines.iter().all(|engine| engine.looks <= self.passed),
                        "it was not told of anything"
                    );
                }
            }
        }
        panic!("it does not come to rest: {:?}", self.acknowledged);
    }

    /// Whether each has taken all of its events; that none has taken others.
    fn is_settled(&self) -> bool {
        self.acknowledged.iter().all(|(id, acknowledged)| {
            let row = self.store.get(id).expect("the store is whole").expect("it is there");
            let taken = row.checkpoint.map_or(&[][..], |checkpoint| &self.files[&checkpoint.file]);
            assert!(acknowledged.starts_with(taken), "{id} has taken {taken:?} of {acknowledged:?}");
            row.status == Status::Suspended && taken.len() == acknowledged.len()
        })
    }
}

impl Engine {
    fn new(named: &mut u32) -> Engine {
        *named += 1;
        Engine { name: format!("engine-{named}"), hands: Hands::Nothing, looks: 0 }
    }
}

/// Engines do as they should, whatever happens.
pub(crate) fn lose_nothing<S: All>(store: S, kill: impl FnMut(S) -> S, acts: &[Act]) {
    let mut world = World::new(store, kill);
    for act in acts {
        world = world.act(act);
    }
    world.end();
}

/// The same story, with a kill between each two transactions, and another one between each two behind that: the dead one's commit comes late too.
pub(crate) fn lose_nothing_wherever_they_are_killed<S: All, K: FnMut(S) -> S>(mut open: impl FnMut() -> (S, K)) {
    let send = |to| Act::Send { to, times: 1, is_told: false };
    let work = || Act::Work { engine: 0 };
    let mut story = vec![Act::Start { of: 0 }, Act::Start { of: 1 }, send(0)];
    for round in 0..3 {
        story.extend((0..6).map(|_| work()));
        story.extend([send(round % 2), Act::Pass { ns: PERIOD }, send(0)]);
    }
    let kills = [Act::Kill { engine: 0 }, Act::Kill { engine: 1 }, Act::Expire];
    for first in 0..story.len() {
        for second in first + 1..story.len() {
            let mut acts = Vec::new();
            for (place, act) in story.iter().enumerate() {
                acts.push(act.clone());
                if place == first {
                    acts.extend(kills.clone());
                } else if place == second {
                    acts.extend([Act::KillAll, work(), Act::Late { dead: 0 }, Act::Expire, Act::Late { dead: 0 }]);
                }
            }
            let (store, kill) = open();
            lose_nothing(store, kill, &acts);
        }
    }
}
