//! When a commit says that something is due.

use super::*;
use monohull_durable::{Checkpoint, Wait};
use monohull_report::Outgoing;
use tempfile::TempDir;

/// When the first one would be due as the waker knows it, if no hint were given.
const LATER: Option<u64> = Some(u64::MAX - 1);

fn one() -> InvocationId {
    "one".parse().expect("a name")
}

/// A ledger with an invocation that is claimed, and no hint.
fn claimed() -> (TempDir, Ledger, Held) {
    let folder = TempDir::new().expect("a folder");
    let state = StateFolder::take(folder.path()).expect("a state folder");
    let ledger = Ledger::open(&state, None).expect("a new one");
    let new = NewInvocation { id: &one(), workflow: "w", start: b"start", due: 1 };
    ledger.meta().start(&new, 1).expect("started");
    let claimed = ledger.claim(|| false).expect("read").pop();
    let Some(Claimed::Yes(claim)) = claimed else { panic!("it is due: {claimed:?}") };
    ledger.sooner(None);
    (folder, ledger, claim.held)
}

/// It waits for an event at no time, and has sent this.
fn waits_for(event: &str, held: &Held, sent: &[(What, &str)]) -> Arc<(Commit, Left)> {
    let checkpoint = Checkpoint { file: format!("one.{}.checkpoint", held.epoch), bytes: 1 };
    let (step, what, event) = ("s".to_owned(), "an event".to_owned(), Some(event.to_owned()));
    let waits = vec![Wait { step, instance: 0, what, until: None, event }];
    let (taken, published) = (Vec::new(), Default::default());
    let commit = Commit::Suspended { checkpoint, parent: None, due: None, waits, taken, published };
    let outgoing = |(what, to): &(What, &str)| Outgoing {
        what: *what,
        to: (*to).to_owned(),
        name: "a".to_owned(),
        bytes: Vec::new(),
        origin: "s/0/0".to_owned(),
    };
    let sent = Outbox { events: sent.iter().map(outgoing).collect(), ..Outbox::default() };
    Arc::new((commit, Left { sent, ..Left::default() }))
}

#[test]
fn a_commit_that_makes_its_own_invocation_due_says_so() {
    let (_folder, ledger, held) = claimed();
    let save = waits_for("checkpoint:a:p", &held, &[(What::Checkpoint, "checkpoint:a:p")]);
    ledger.commit(&held, &save).expect("it is ours");
    assert!(ledger.next_due().expect("read").is_some_and(|due| due <= now()), "it is told of its save point");
    assert_eq!(ledger.sooner(LATER), None, "and what is due is read");
    // The control.
    let (_folder, ledger, held) = claimed();
    ledger.commit(&held, &waits_for("paid", &held, &[])).expect("it is ours");
    assert_eq!((ledger.next_due().expect("read"), ledger.sooner(LATER)), (None, LATER));
}

#[test]
fn a_save_point_that_goes_on_with_its_commit_is_no_reason_to_read_what_is_due() {
    let (_folder, ledger, held) = claimed();
    let save = waits_for("checkpoint:a:p", &held, &[(What::Checkpoint, "checkpoint:a:p")]);
    let (_, next) = ledger.commit_and_claim(&held, &save).expect("it is ours");
    assert!(next.is_some(), "it goes on");
    assert_eq!(ledger.sooner(LATER), LATER);
}

#[test]
fn all_but_events_and_the_only_save_point_of_one_that_goes_on_may_make_something_due() {
    let cases = [
        (vec![], [false, false]),
        (vec![What::Event], [false, false]),
        (vec![What::Checkpoint], [true, false]),
        (vec![What::Event, What::Checkpoint], [true, false]),
        (vec![What::Checkpoint, What::Checkpoint], [true, true]),
        (vec![What::Checkpoint, What::Cancel], [true, true]),
        (vec![What::Fork { copies: 1 }], [true, true]),
        (vec![What::Start { detached: false }], [true, true]),
        (vec![What::Start { detached: true }], [true, true]),
        (vec![What::Cancel], [true, true]),
    ];
    for (sent, expected) in cases {
        let of: Vec<_> = sent.iter().map(|what| (*what, "a")).collect();
        let (_, left) = &*waits_for("a", &Held { id: one(), epoch: 1 }, &of);
        assert_eq!([false, true].map(|goes_on| makes_due(&left.sent, goes_on)), expected, "{sent:?}");
    }
}

#[test]
fn a_name_that_a_file_or_a_content_has_is_not_new() {
    let (_folder, ledger, held) = claimed();
    let folder = ledger.store().checkpoints();
    let new = || ledger.new_name(&folder, &held.id, held.epoch);
    let name = format!("one.{}", held.epoch);
    assert_eq!(new(), name);
    let (commit, _) = &*waits_for("paid", &held, &[]);
    let unsynced = Some((format!("{name}.checkpoint"), b"content".to_vec()));
    let all = Arc::new((commit.clone(), Left { unsynced, ..Left::default() }));
    ledger.commit(&held, &all).expect("it is ours");
    assert_eq!(new(), format!("{name}-2"), "the database has a content of that name");
    fs::write(folder.join(format!("{name}-2.checkpoint")), b"").expect("written");
    assert_eq!(new(), format!("{name}-3"));
    for number in 3..100 {
        fs::write(folder.join(format!("{name}-{number}.checkpoint")), b"").expect("written");
    }
    let [one, other] = [new(), new()];
    assert!(one != other && one.starts_with(&format!("{name}-")), "{one} {other}");
}
