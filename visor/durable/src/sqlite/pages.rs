//! How many pages of the log a transaction writes: each is on the disk before the transaction counts.

use super::Sqlite;
use crate::{
    Checkpoint, Claim, Claimed, Commit, InvocationId, Left, Meta, NewInvocation, NewMail, Outbox, Sent, Store, Wait,
    Want,
};
use monohull_report::{Outgoing, What};
use tempfile::TempDir;

/// Bytes of the log's header, and of a page in it.
const HEADER: u64 = 32;
const FRAME: u64 = 24 + 4096;
/// Bytes of a small function's checkpoint.
const CONTENT: usize = 22_000;

struct Fixture {
    folder: TempDir,
    meta: Sqlite,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = TempDir::new().expect("a folder");
        let meta = Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a new one");
        Fixture { folder, meta }
    }

    /// The pages that something writes, and what it gives.
    fn pages<T>(&mut self, work: impl FnOnce(&mut Sqlite) -> T) -> (u64, T) {
        let emptied = self.meta.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        emptied.expect("no other uses it");
        let done = work(&mut self.meta);
        let bytes = std::fs::metadata(self.folder.path().join("meta.sqlite-wal")).expect("a log").len();
        (bytes.saturating_sub(HEADER) / FRAME, done)
    }
}

fn id(name: &str) -> InvocationId {
    name.parse().expect("a name")
}

fn claim(meta: &mut Sqlite, name: &str) -> Claim {
    match meta.claim("owner", Want::Id(&id(name)), 5) {
        Ok(Claimed::Yes(claim)) => *claim,
        other => panic!("it is due: {other:?}"),
    }
}

/// One that is claimed.
fn started(meta: &mut Sqlite, name: &str) -> Claim {
    meta.start(&NewInvocation { id: &id(name), workflow: "w", start: &[7; 300], due: 1 }, 1).expect("started");
    claim(meta, name)
}

/// A wait, with the content of its checkpoint.
fn wait(claim: &Claim, due: Option<u64>, event: &str, taken: &[u64]) -> (Commit, Left) {
    let generation = claim.generation + 1;
    let file = format!("{}.{}.checkpoint", claim.held.id, claim.held.epoch);
    let wait = Wait { step: "s".into(), instance: 0, what: "an event".into(), until: due, event: Some(event.into()) };
    let (waits, taken, published) = (vec![wait], taken.to_vec(), Default::default());
    let commit = Commit::Suspended {
        checkpoint: Checkpoint { file: file.clone(), bytes: CONTENT as u64 },
        parent: None,
        due,
        waits,
        taken,
        published,
    };
    // No two have the same bytes, nor as many.
    let content = (0..CONTENT + generation as usize % 7).map(|at| (at as u64 * generation * 31) as u8).collect();
    (commit, Left { unsynced: Some((file, content)), ..Left::default() })
}

/// A save point: the invocation goes on at once.
fn step(meta: &mut Sqlite, claim: &Claim, taken: &[u64]) -> Claim {
    let event = format!("checkpoint:step:{}", claim.generation);
    let (commit, left) = wait(claim, None, &event, taken);
    let asked = Outgoing {
        what: What::Checkpoint,
        to: event,
        name: "step".to_owned(),
        bytes: Vec::new(),
        origin: "s/0/0".to_owned(),
    };
    let left = Left { sent: Outbox { events: vec![asked], ..Outbox::default() }, ..left };
    let (_, next) = meta.commit_and_claim(&claim.held, &commit, &left, "owner", 5).expect("it is ours");
    next.expect("it goes on")
}

#[test]
fn a_transaction_writes_few_pages() {
    let mut fixture = Fixture::new();
    for number in 0..10 {
        let held = started(&mut fixture.meta, &format!("other-{number}"));
        let (commit, left) = wait(&held, Some(1000), "paid", &[]);
        fixture.meta.commit_with(&held.held, &commit, &left, 5).expect("it is ours");
    }
    let mut claimed = started(&mut fixture.meta, "one");
    let mut taken = Vec::new();
    let mut steps = Vec::new();
    for _ in 0..40 {
        let (pages, next) = fixture.pages(|meta| step(meta, &claimed, &taken));
        claimed = next;
        taken = fixture.meta.given(&claimed.held).expect("read").iter().map(|mail| mail.number).collect();
        steps.push(pages);
    }
    let (commit, left) = wait(&claimed, Some(1000), "paid", &taken);
    let (suspend, _) = fixture.pages(|meta| meta.commit_with(&claimed.held, &commit, &left, 5).expect("it is ours"));
    let mail = NewMail::new("paid", b"yes", Some("key")).expect("an event");
    let (event, sent) = fixture.pages(|meta| meta.send(&id("one"), &mail, 5).expect("sent"));
    assert_eq!(sent, Sent::New);
    let (wake, _) = fixture.pages(|meta| claim(meta, "one"));
    // Six are the content of the checkpoint, the others: the row, its history, and the names of both files. As long as there is no content to write over, what
    // is free is noted too.
    assert!(steps[..17].iter().all(|pages| *pages <= 13), "{steps:?}");
    // One time in four the timeline has a page of its own to write.
    let more = steps[17..].iter().filter(|pages| **pages > 10).count();
    assert!(steps[17..].iter().all(|pages| *pages <= 11) && more <= steps[17..].len() / 4 + 1, "{steps:?}");
    // When it is due, and that it waits.
    assert!(suspend <= 12, "{suspend}");
    // The event, its key, its place in the mailbox, its number, the row, when that is due.
    assert!(event <= 6, "{event}");
    assert!(wake <= 3, "{wake}");
}
