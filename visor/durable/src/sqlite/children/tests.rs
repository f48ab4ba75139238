//! A parent, its children, and what each transaction does to the others.

use super::*;
use crate::Unlock;
use crate::{
    Branched, Checkpoint, Claimed, Commit, Control, Fork, Held, History, Left, Mail, Meta, NewMail, Outbox, Sent,
    Undelivered, Wait, Want,
};
use monohull_abi::child::Outcome as Told;
use monohull_report::What;
use std::slice;
use tempfile::TempDir;

struct World {
    _folder: TempDir,
    meta: Sqlite,
    now: u64,
}

fn id(name: &str) -> InvocationId {
    name.parse().expect("a name")
}

fn start_of(child: &str, input: &str) -> Outgoing {
    let what = What::Start { detached: false };
    let (to, name) = (child.to_owned(), "w".to_owned());
    Outgoing { what, to, name, bytes: input.as_bytes().to_vec(), origin: String::new() }
}

fn detached(child: &str) -> Outgoing {
    Outgoing { what: What::Start { detached: true }, ..start_of(child, "") }
}

fn cancel_of(child: &str) -> Outgoing {
    Outgoing { what: What::Cancel, name: String::new(), ..start_of(child, "") }
}

fn sent(events: Vec<Outgoing>) -> Left {
    let sent = Outbox::new(events, &[], |child| Ok(child.bytes.clone()));
    Left { sent, ..Left::default() }
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let mut meta = Sqlite::open(&folder.path().join("meta.sqlite"), true, Unlock::Nothing).expect("opened");
        meta.start(&NewInvocation { id: &id("p"), workflow: "w", start: b"", due: 1 }, 1).expect("started");
        World { _folder: folder, meta, now: 10 }
    }

    fn claim(&mut self, name: &str) -> (Held, Vec<Mail>) {
        self.now += 1;
        match self.meta.claim("o", Want::Id(&id(name)), self.now) {
            Ok(Claimed::Yes(claim)) => {
                let mail = self.meta.mail(&claim.held, 0).expect("it is ours");
                (claim.held, mail)
            }
            other => panic!("{name} is due: {other:?}"),
        }
    }

    /// A leg that waits for these events, after it has taken and sent these.
    fn wait(&mut self, name: &str, waits: &[&str], taken: &[u64], events: Vec<Outgoing>) -> Vec<Undelivered> {
        let (held, _) = self.claim(name);
        self.wait_as(&held, waits, taken, events)
    }

    fn wait_as(&mut self, held: &Held, waits: &[&str], taken: &[u64], events: Vec<Outgoing>) -> Vec<Undelivered> {
        let wait = |event: &&str| Wait {
            step: "s".into(),
            instance: 0,
            what: String::new(),
            until: None,
            event: Some((*event).to_owned()),
        };
        let commit = Commit::Suspended {
            checkpoint: Checkpoint { file: format!("{}.{}", held.id, held.epoch), bytes: 1 },
            parent: None,
            due: None,
            waits: waits.iter().map(wait).collect(),
            taken: taken.to_vec(),
            published: Default::default(),
        };
        self.meta.commit_with(held, &commit, &sent(events), self.now).expect("committed").undelivered
    }

    fn end(&mut self, name: &str, outputs: &[(&str, usize)]) {
        let (held, _) = self.claim(name);
        let outputs = outputs.iter().map(|(slot, bytes)| ((*slot).to_owned(), vec![b'x'; *bytes])).collect();
        let outcome = Outcome { outputs, ..Outcome::default() };
        let ended = Commit::Ended { well: true, cancelled: false, report: Vec::new(), published: None };
        self.meta.commit_with(&held, &ended, &Left { outcome, ..Left::default() }, self.now).expect("committed");
    }

    fn fail(&mut self, name: &str) {
        let (held, _) = self.claim(name);
        let outcome = Outcome { message: "no".to_owned(), ..Outcome::default() };
        let ended = Commit::Ended { well: false, cancelled: false, report: Vec::new(), published: None };
        self.meta.commit_with(&held, &ended, &Left { outcome, ..Left::default() }, self.now).expect("committed");
    }

    fn status(&self, name: &str) -> Option<Status> {
        self.meta.get(&id(name)).expect("read").map(|row| row.status)
    }

    fn cancel(&mut self, name: &str) {
        self.meta.control(&id(name), Control::Cancel, self.now).expect("cancelled");
    }
}

/// The invocation that is the child of this name.
fn of(parent: &str, child: &str) -> String {
    child_invocation(parent, child)
}

/// What an event says: of which child, how it has ended, and with how many outputs.
fn told(mail: &[Mail]) -> Vec<(String, Ending, usize)> {
    let each = mail.iter().map(|mail| {
        let outcome = Told::parse(&mail.bytes).expect("the end of a child");
        (mail.name.clone(), outcome.ending, outcome.outputs().count())
    });
    each.collect()
}

#[test]
fn a_damaged_parent_is_told_nothing_and_does_not_hold_up_its_child() {
    for damage in ["waits = 'x'", "status = 9"] {
        let mut world = World::new();
        world.wait("p", &["child:a"], &[], vec![start_of("a", "1")]);
        let (p, a) = (id("p"), of("p", "a"));
        world.meta.connection.execute_batch(&format!("UPDATE invocation SET {damage} WHERE id = 'p'")).expect("edited");
        world.end(&a, &[]);
        assert_eq!(world.status(&a), Some(Status::Completed), "{damage}");
        assert!(matches!(world.meta.get(&p), Err(MetaError::Damaged { .. })));
    }
}

#[test]
fn a_cancelled_parent_and_its_child_end_together_with_their_owner() {
    // Whichever of them comes first.
    for name in ["a", "z"] {
        let mut world = World::new();
        world.wait("p", &["x"], &[], vec![start_of(name, "1")]);
        let x = NewMail::new("x", b"", None).expect("it can be sent");
        world.meta.send(&id("p"), &x, world.now).expect("sent");
        let child = of("p", name);
        world.claim("p");
        world.claim(&child);
        world.cancel("p");
        assert_eq!([world.status("p"), world.status(&child)], [Some(Status::Running); 2]);
        world.meta.expire("o", world.now).expect("done");
        assert_eq!([world.status("p"), world.status(&child)], [Some(Status::Cancelled); 2], "{name}");
    }
}

#[test]
fn a_child_is_started_once_and_its_end_is_told_once() {
    let mut world = World::new();
    let lost = world.claim("p").0;
    world.meta.expire("o", world.now).expect("done");
    let (held, _) = world.claim("p");
    let stale = world.meta.commit_with(
        &lost,
        &Commit::Paused { reason: String::new() },
        &sent(vec![start_of("a", "1")]),
        world.now,
    );
    assert!(matches!(stale, Err(MetaError::Stale(_))), "{stale:?}");
    assert_eq!(world.status(&of("p", "a")), None, "what does not count starts nothing");
    assert_eq!(world.wait_as(&held, &["child:a"], &[], vec![start_of("a", "1"), start_of("a", "1")]), []);
    let a = of("p", "a");
    assert_eq!(world.status(&a), Some(Status::Pending));
    assert_eq!(world.meta.get(&id(&a)).expect("read").expect("there").start, b"1");
    assert_eq!(world.meta.get(&id("p")).expect("read").expect("there").due, None, "it waits without a time");
    world.end(&a, &[("out", 2)]);
    let (held, mail) = world.claim("p");
    assert_eq!(told(&mail), [("child:a".to_owned(), Ending::Completed, 1)]);
    // The same again after it has been taken: it is told once more, and not started.
    assert_eq!(world.wait_as(&held, &["x"], &[mail[0].number], vec![]), []);
    assert!(world.meta.children(&id("p")).expect("read")[0].joined);
    world.meta.send(&id("p"), &NewMail::new("x", b"", None).expect("it can be sent"), world.now).expect("sent");
    let (held, mail) = world.claim("p");
    assert_eq!(world.wait_as(&held, &["child:a"], &[mail[0].number], vec![start_of("a", "1")]), []);
    let (held, mail) = world.claim("p");
    assert_eq!(told(&mail), [("child:a".to_owned(), Ending::Completed, 1)]);
    assert_eq!(world.status(&a), Some(Status::Completed));
    assert_eq!(world.meta.started_by(&id(&a)).expect("read"), Some((id("p"), "a".to_owned())));
    // Another input is another child, and needs another id.
    let undelivered = world.wait_as(&held, &["x"], &[], vec![start_of("a", "2")]);
    let why = undelivered[0].to_string();
    assert_eq!(
        why,
        "child `a` of workflow `w` was not started: its id is that of another child, with another workflow or input"
    );
    assert_eq!(world.meta.undelivered(&id("p")).expect("read")[0].what, "start");
}

#[test]
fn the_end_of_a_child_is_told_behind_the_refusal_of_another_one_of_its_name() {
    for ends_first in [false, true] {
        let mut world = World::new();
        let undelivered = world.wait("p", &["child:a"], &[], vec![start_of("a", "1"), start_of("a", "2")]);
        assert_eq!(undelivered.len(), 1);
        let a = of("p", "a");
        let (held, mail) = world.claim("p");
        assert_eq!(told(&mail), [("child:a".to_owned(), Ending::Refused, 0)]);
        // The refusal is in its way, or was taken.
        if ends_first {
            world.end(&a, &[("out", 2)]);
        }
        world.wait_as(&held, &["child:a"], &[mail[0].number], vec![]);
        if !ends_first {
            assert!(!world.meta.children(&id("p")).expect("read")[0].joined);
            world.end(&a, &[("out", 2)]);
        }
        let (held, mail) = world.claim("p");
        assert_eq!(told(&mail), [("child:a".to_owned(), Ending::Completed, 1)], "{ends_first}");
        world.wait_as(&held, &["x"], &[mail[0].number], vec![]);
        assert!(world.meta.children(&id("p")).expect("read")[0].joined);
    }
}

#[test]
fn a_refusal_is_told_once_behind_the_end_of_the_other_child() {
    let mut world = World::new();
    assert_eq!(world.wait("p", &["x"], &[], vec![start_of("a", "1")]), []);
    world.end(&of("p", "a"), &[("out", 2)]);
    let mail = NewMail::new("x", b"", None).expect("it can be sent");
    assert_eq!(world.meta.send(&id("p"), &mail, world.now).expect("sent"), Sent::New);
    let (held, mail) = world.claim("p");
    let ended = ("child:a".to_owned(), Ending::Completed, 1);
    assert_eq!(told(&mail[..1]), slice::from_ref(&ended));
    // It is not taken, and others of its name are refused.
    world.wait_as(&held, &["child:a"], &[mail[1].number], vec![start_of("a", "2"), start_of("a", "3")]);
    let (held, mail) = world.claim("p");
    assert_eq!(told(&mail), [ended, ("child:a".to_owned(), Ending::Refused, 0)]);
    world.wait_as(&held, &["child:a"], &[mail[0].number], vec![]);
    let (held, mail) = world.claim("p");
    assert_eq!(told(&mail), [("child:a".to_owned(), Ending::Refused, 0)]);
    world.wait_as(&held, &["x"], &[mail[0].number], vec![]);
    assert_eq!(world.meta.mail_count(&id("p")).expect("asked"), 0, "its end was taken");
    assert!(world.meta.children(&id("p")).expect("read")[0].joined);
}

#[test]
fn however_a_parent_ends_its_children_are_cancelled_unless_they_are_detached() {
    for how in ["cancel", "complete", "fail"] {
        let mut world = World::new();
        assert_eq!(world.wait("p", &["x"], &[], vec![start_of("a", ""), start_of("run", ""), detached("d")]), []);
        let [a, run, d] = ["a", "run", "d"].map(|name| of("p", name));
        // A child with a child of its own.
        assert_eq!(world.wait(&a, &["x"], &[], vec![start_of("below", "")]), []);
        let (running, _) = world.claim(&run);
        match how {
            "cancel" => world.cancel("p"),
            _ => {
                let mail = NewMail::new("x", b"", None).expect("it can be sent");
                assert_eq!(world.meta.send(&id("p"), &mail, world.now).expect("sent"), Sent::New);
                if how == "fail" { world.fail("p") } else { world.end("p", &[]) }
            }
        }
        assert_eq!(world.status(&a), Some(Status::Cancelled), "{how}");
        assert_eq!(world.status(&of(&a, "below")), Some(Status::Cancelled), "{how}");
        assert_eq!(world.status(&run), Some(Status::Running), "until its next commit");
        assert_eq!(world.status(&d), Some(Status::Pending), "{how}");
        assert_eq!(world.wait_as(&running, &["x"], &[], vec![start_of("late", "")]), []);
        assert_eq!(world.status(&run), Some(Status::Cancelled), "{how}");
        assert_eq!(world.status(&of(&run, "late")), None, "one that has ended starts nothing");
        assert!(world.meta.purge(&id("p"), 9).expect("removed"));
        world.end(&d, &[]);
        assert_eq!(world.status(&d), Some(Status::Completed), "its parent is gone");
        for gone in [a.clone(), of(&a, "below"), run, d] {
            assert!(world.meta.purge(&id(&gone), 9).expect("removed"), "{gone}");
        }
        let rows: i64 =
            world.meta.connection.query_row("SELECT count(*) FROM child", [], |row| row.get(0)).expect("read");
        assert_eq!(rows, 0, "nothing is left of them");
    }
}

#[test]
fn a_child_is_cancelled_by_its_parent_alone_and_that_is_told() {
    let mut world = World::new();
    assert_eq!(world.wait("p", &["child:a"], &[], vec![start_of("a", "")]), []);
    let other = NewInvocation { id: &id("q"), workflow: "w", start: b"", due: 1 };
    world.meta.start(&other, 1).expect("started");
    // Another invocation has no such child: the victim is as it was.
    let undelivered = world.wait("q", &["x"], &[], vec![cancel_of("a")]);
    assert_eq!(undelivered[0].to_string(), "child `a` was not cancelled: there is no such invocation");
    assert_eq!(world.status(&of("p", "a")), Some(Status::Pending));
    world.cancel(&of("p", "a"));
    let (held, mail) = world.claim("p");
    assert_eq!(told(&mail), [("child:a".to_owned(), Ending::Cancelled, 0)]);
    let started = vec![start_of("b", ""), cancel_of("b"), cancel_of("b")];
    assert_eq!(world.wait_as(&held, &["child:b"], &[mail[0].number], started), []);
    assert_eq!(world.status(&of("p", "b")), Some(Status::Cancelled));
    let (_, mail) = world.claim("p");
    assert_eq!(told(&mail), [("child:b".to_owned(), Ending::Cancelled, 0)]);
}

#[test]
fn what_cannot_be_started_ends_as_refused() {
    let mut world = World::new();
    let (held, _) = world.claim("p");
    let commit = Commit::Suspended {
        checkpoint: Checkpoint { file: "p.1".to_owned(), bytes: 1 },
        parent: None,
        due: None,
        waits: Vec::new(),
        taken: Vec::new(),
        published: Default::default(),
    };
    let taken = NewInvocation { id: &id(&of("p", "taken")), workflow: "w", start: b"", due: 1 };
    world.meta.start(&taken, 1).expect("started");
    let mut events = vec![start_of("not-there", ""), start_of("taken", "")];
    events.extend((0..CHILDREN_MAX).map(|number| start_of(&format!("n{number}"), "")));
    events.push(start_of("too-many", ""));
    let start = |child: &Outgoing| if child.to == "not-there" { Err("no".to_owned()) } else { Ok(Vec::new()) };
    let left = Left { sent: Outbox::new(events, &[], start), ..Left::default() };
    let undelivered = world.meta.commit_with(&held, &commit, &left, world.now).expect("committed").undelivered;
    let names: Vec<_> = undelivered.iter().map(|it| it.to.as_str()).collect();
    assert_eq!(names, ["not-there", "taken", "too-many"]);
    assert_eq!(world.meta.mail_count(&id("p")).expect("asked"), 3, "each is told");
    assert_eq!(world.status(&of("p", "taken")), Some(Status::Pending), "the other is as it was");
    assert_eq!(world.meta.children(&id("p")).expect("read").len(), CHILDREN_MAX);
}

#[test]
fn children_of_children_are_as_deep_as_may_be() {
    let mut world = World::new();
    let mut parent = "p".to_owned();
    for depth in 1..=CHILD_DEPTH_MAX {
        assert_eq!(world.wait(&parent, &["child:c"], &[], vec![start_of("c", "")]), [], "{depth}");
        parent = of(&parent, "c");
    }
    let undelivered = world.wait(&parent, &["child:c"], &[], vec![start_of("c", "")]);
    assert!(undelivered[0].to_string().contains("8 invocations above it"), "{undelivered:?}");
    let (_, mail) = world.claim(&parent);
    assert_eq!(told(&mail), [("child:c".to_owned(), Ending::Refused, 0)]);
    assert_eq!(world.meta.relatives(&id("p")).expect("read").len(), CHILD_DEPTH_MAX as usize);
}

#[test]
fn outputs_that_are_too_large_are_not_told() {
    let mut world = World::new();
    let names: Vec<_> = (0..20).map(|number| format!("c{number:02}")).collect();
    let mut starts: Vec<_> = names.iter().map(|name| start_of(name, "")).collect();
    starts.push(start_of("large", ""));
    assert_eq!(world.wait("p", &["x"], &[], starts), []);
    world.end(&of("p", "large"), &[("out", 1 << 20)]);
    for name in &names {
        world.end(&of("p", name), &[("out", (1 << 20) - 100)]);
    }
    let mail = NewMail::new("x", b"", None).expect("it can be sent");
    // Ends are told even if the mailbox is full of other events, but they count for its bounds.
    assert_eq!(world.meta.send(&id("p"), &mail, world.now).expect("sent"), Sent::New);
    let (_, mail) = world.claim("p");
    let all = told(&mail[..mail.len() - 1]);
    let whole = all.iter().filter(|(_, ending, _)| *ending == Ending::Completed).count();
    assert_eq!((all.len(), whole), (21, 16), "as much as 16 MiB");
    assert_eq!(all[0], ("child:large".to_owned(), Ending::TooLarge, 0));
}

#[test]
fn a_copy_has_children_of_its_own_and_a_parent_that_goes_back_is_told_again() {
    let mut world = World::new();
    assert_eq!(world.wait("p", &["child:a"], &[], vec![start_of("a", "1"), start_of("b", "2"), detached("d")]), []);
    world.end(&of("p", "a"), &[("out", 1)]);
    let (held, mail) = world.claim("p");
    assert_eq!(world.wait_as(&held, &["child:b"], &[mail[0].number], vec![start_of("late", "3")]), []);
    // A copy of the checkpoint in which `a` is waited for.
    let copies = [id("copy")];
    let fork = Fork { id: &id("p"), at: Some(1), copies: &copies, paused: false };
    assert!(matches!(world.meta.fork(fork, world.now), Ok(Branched::Done(_))));
    let children = world.meta.children(&copies[0]).expect("read");
    let names: Vec<_> = children.iter().map(|child| (child.name.as_str(), child.id.to_string())).collect();
    assert_eq!(names, [("a", of("p", "a")), ("b", of("copy", "b"))]);
    assert_eq!(world.meta.get(&id(&of("copy", "b"))).expect("read").expect("there").start, b"2");
    let (held, mail) = world.claim("copy");
    assert_eq!(told(&mail), [("child:a".to_owned(), Ending::Completed, 1)]);
    assert_eq!(world.wait_as(&held, &["child:b"], &[mail[0].number], vec![]), []);
    // Each has a `b` of its own.
    world.end(&of("copy", "b"), &[]);
    assert_eq!(told(&world.claim("copy").1).len(), 1);
    assert_eq!(world.meta.mail_count(&id("p")).expect("asked"), 0);
    // Back to before `a` was taken and `late` was started.
    assert!(matches!(world.meta.rewind(&id("p"), 1, false, world.now), Ok(Branched::Done(3))));
    let names: Vec<_> = world.meta.children(&id("p")).expect("read").into_iter().map(|child| child.name).collect();
    assert_eq!(names, ["a", "b", "d"]);
    let (held, mail) = world.claim("p");
    assert_eq!(told(&mail), [("child:a".to_owned(), Ending::Completed, 1)]);
    world.end(&of("p", "late"), &[]);
    assert_eq!(world.meta.mail_count(&id("p")).expect("asked"), 1, "it does not know of `late` now");
    // It starts `late` again, which is the same one.
    assert_eq!(world.wait_as(&held, &["child:late"], &[mail[0].number], vec![start_of("late", "3")]), []);
    assert_eq!(told(&world.claim("p").1), [("child:late".to_owned(), Ending::Completed, 0)]);
}

#[test]
fn a_copy_of_a_name_is_made_again_while_a_child_of_the_first_one_still_runs() {
    let mut world = World::new();
    assert_eq!(world.wait("p", &["child:a"], &[], vec![start_of("a", "1")]), []);
    let copies = [id("copy")];
    let fork = Fork { id: &id("p"), at: Some(1), copies: &copies, paused: false };
    assert!(matches!(world.meta.fork(fork, world.now), Ok(Branched::Done(_))));
    let (child, _) = world.claim(&of("copy", "a"));
    world.cancel("copy");
    assert!(world.meta.purge(&copies[0], world.now).expect("removed"), "its child runs to its next commit");
    assert!(matches!(world.meta.fork(fork, world.now), Ok(Branched::Done(_))));
    let (_, mail) = world.claim("copy");
    assert_eq!(told(&mail), [("child:a".to_owned(), Ending::Refused, 0)], "the name of its child is taken");
    assert_eq!(world.wait_as(&child, &[], &[], vec![]), []);
    assert_eq!(world.status(&of("copy", "a")), Some(Status::Cancelled));
    assert_eq!(world.meta.mail_count(&copies[0]).expect("asked"), 1, "the first one's child is not its own");
}

/// Whether it is made by hand, or by its original with a commit that starts the child too.
#[test]
fn a_child_of_a_removed_copy_makes_room_for_that_of_another_copy_of_its_name() {
    let waits = ["fork:p", "child:a"];
    let by_hand = |world: &mut World| {
        let fork = Fork { id: &id("p"), at: None, copies: &[id("p-p-1")], paused: false };
        assert!(matches!(world.meta.fork(fork, world.now), Ok(Branched::Done(_))));
    };
    for forks in [false, true] {
        let mut world = World::new();
        assert_eq!(world.wait("p", &waits, &[], vec![start_of("a", "1")]), []);
        by_hand(&mut world);
        let (copy, a) = (id("p-p-1"), of("p-p-1", "a"));
        world.end(&a, &[]);
        world.cancel(copy.as_str());
        assert!(world.meta.purge(&copy, world.now).expect("removed"));
        assert_eq!(world.status(&a), Some(Status::Completed), "it is kept until its name is needed");
        if forks {
            world.meta.purge(&id(&of("p", "a")), world.now).expect("asked");
            let fork = Outgoing { what: What::Fork { copies: 1 }, to: "fork:p".to_owned(), ..start_of("", "") };
            let fork = Outgoing { name: String::new(), ..fork };
            world.meta.beat(&id("p"), "child:a", world.now).expect("sent");
            assert_eq!(world.wait("p", &waits, &[], vec![start_of("a", "1"), fork]), []);
        } else {
            by_hand(&mut world);
        }
        assert_eq!(world.status(&a), Some(Status::Pending), "it is another one");
        world.fail(&a);
        let (_, mail) = world.claim(copy.as_str());
        let ends: Vec<_> = mail.into_iter().filter(|mail| mail.name == "child:a").collect();
        assert_eq!(told(&ends), [("child:a".to_owned(), Ending::Failed, 0)]);
    }
}

#[test]
fn another_parent_of_the_same_name_has_children_of_its_own() {
    let mut world = World::new();
    let start = || vec![start_of("a", "1"), detached("d")];
    assert_eq!(world.wait("p", &["child:a"], &[], start()), []);
    world.end(&of("p", "a"), &[]);
    world.cancel("p");
    assert!(world.meta.purge(&id("p"), world.now).expect("removed"));
    let d = id(&of("p", "d"));
    assert_eq!((world.status(d.as_str()), world.meta.started_by(&d).expect("read")), (Some(Status::Pending), None));
    // The one that has ended makes room, the one that lives does not.
    let new = NewInvocation { id: &id("p"), workflow: "w", start: b"", due: 1 };
    world.meta.start(&new, world.now).expect("started");
    let refused = world.wait("p", &["child:a"], &[], start());
    assert_eq!(refused.iter().map(|refused| refused.to.as_str()).collect::<Vec<_>>(), ["d"]);
    assert_eq!(world.status(&of("p", "a")), Some(Status::Pending));
    let children = world.meta.children(&id("p")).expect("read");
    assert_eq!(children.iter().map(|child| child.name.as_str()).collect::<Vec<_>>(), ["a"]);
    world.fail(&of("p", "a"));
    assert_eq!(told(&world.claim("p").1), [("child:a".to_owned(), Ending::Failed, 0)], "its own has failed");
    // What is as deep as a child stays so without its parent.
    assert_eq!(world.wait(d.as_str(), &["x"], &[], vec![start_of("below", "")]), []);
    assert_eq!(depth(&world.meta.connection, &id(&of(d.as_str(), "below"))).expect("read"), 2);
}

#[test]
fn another_invocation_with_the_id_of_a_removed_child_is_no_child() {
    let mut world = World::new();
    assert_eq!(world.wait("p", &["child:a"], &[], vec![start_of("a", "1")]), []);
    let a = id(&of("p", "a"));
    world.end(a.as_str(), &[]);
    assert!(world.meta.purge(&a, world.now).expect("removed"));
    let stranger = NewInvocation { id: &a, workflow: "w", start: b"", due: 1 };
    world.meta.start(&stranger, world.now).expect("started");
    assert_eq!(world.meta.started_by(&a).expect("read"), None);
    assert_eq!(world.meta.children(&id("p")).expect("read")[0].status, None);
    world.end(a.as_str(), &[]);
    assert_eq!(told(&world.claim("p").1), [("child:a".to_owned(), Ending::Completed, 0)], "that of its child alone");
}

#[test]
fn a_row_that_was_edited_is_named() {
    let mut world = World::new();
    assert_eq!(world.wait("p", &["x"], &[], vec![start_of("a", "")]), []);
    for (change, back) in [("ending = 9", "ending = NULL"), ("name = '../a'", "name = 'a'"), ("id = ''", "id = 'a'")] {
        world.meta.connection.execute_batch(&format!("UPDATE child SET {change}")).expect("edited");
        let error = world.meta.children(&id("p")).expect_err("it is damaged").to_string();
        assert!(error.contains("invocation `p` has a wrong child"), "{change}: {error}");
        world.meta.connection.execute_batch(&format!("UPDATE child SET {back}")).expect("edited");
    }
}
