//! What is kept of invocations that a server runs, and what is removed of it.

use super::*;
use crate::{Branched, Checkpoint, History, Meta, Store};
use tempfile::TempDir;

fn meta() -> (TempDir, Sqlite) {
    let folder = TempDir::new().expect("a folder");
    let meta = Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a new one");
    (folder, meta)
}

fn id(name: &str) -> InvocationId {
    name.parse().expect("a name")
}

fn start(meta: &mut Sqlite, name: &str, at: u64) {
    let new = NewInvocation { id: &id(name), workflow: "w", start: b"start", due: at };
    assert_eq!(meta.start(&new, at).expect("started"), Started::New);
}

fn end(meta: &mut Sqlite, name: &str, at: u64, left: &Left) {
    let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&id(name)), at) else { panic!("{name} is due") };
    let ended = Commit::Ended { well: true, cancelled: false, report: b"report".to_vec(), published: None };
    assert_eq!(meta.commit_with(&claim.held, &ended, left, at).expect("done").status, Status::Completed);
}

fn names(rows: &[Listed]) -> Vec<&str> {
    rows.iter().map(|row| row.as_ref().expect("it is whole").id.as_str()).collect()
}

#[test]
fn what_is_left_is_there_until_it_is_removed() {
    let (_folder, mut meta) = meta();
    start(&mut meta, "one", 1);
    let output = |slot: &str, at, bytes| Output { slot: slot.to_owned(), at, bytes };
    let outputs = vec![output("few", OutputAt::Row(b"bytes".to_vec()), 5), output("out", OutputAt::File([7; 32]), 9)];
    let left = Left { printed: b"line".to_vec(), outputs, callback: Some("http://x/".to_owned()), ..Left::default() };
    end(&mut meta, "one", 2, &left);
    let one = id("one");
    assert_eq!(meta.outputs(&one).expect("read"), left.outputs);
    assert_eq!(meta.output_files().expect("read"), [[7; 32]]);
    assert_eq!(meta.printed(&one).expect("read"), [b"line".to_vec()]);
    assert_eq!(meta.owed().expect("read"), std::slice::from_ref(&one));
    assert_eq!(meta.owed_to(&one).expect("read").as_deref(), Some("http://x/"));
    let all = Bounds { number: 0, bytes: 0, ended_after: u64::MAX };
    assert_eq!(meta.forget(all).expect("done"), 0, "its end is still to be told");
    meta.paid(&one).expect("done");
    assert_eq!(meta.forget(all).expect("done"), 1);
    assert!(meta.outputs(&one).expect("read").is_empty() && meta.printed(&one).expect("read").is_empty());
    assert!(meta.output_files().expect("read").is_empty());
}

#[test]
fn the_oldest_lines_go_first() {
    let (_folder, mut meta) = meta();
    start(&mut meta, "one", 1);
    let half = PRINTED_MAX as usize / 2;
    for number in 0..4_u8 {
        let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Due, 2) else { panic!("it is due") };
        let commit = Commit::Suspended {
            checkpoint: Checkpoint { file: format!("{number}"), bytes: 1 },
            parent: None,
            due: Some(2),
            waits: Vec::new(),
            taken: Vec::new(),
            published: Default::default(),
        };
        let left = Left { printed: vec![number; half], ..Left::default() };
        meta.commit_with(&claim.held, &commit, &left, 2).expect("done");
    }
    let printed = meta.printed(&id("one")).expect("read");
    assert_eq!(printed.iter().map(|bytes| bytes[0]).collect::<Vec<_>>(), [2, 3]);
}

/// Row and checkpoint are there together, and an id is one invocation's.
#[test]
fn what_waits_already_is_started_once() {
    let (_folder, mut meta) = meta();
    let checkpoint = Checkpoint { file: "one.1.checkpoint".to_owned(), bytes: 3 };
    let commit = Commit::Suspended {
        checkpoint,
        parent: None,
        due: Some(9),
        waits: Vec::new(),
        taken: Vec::new(),
        published: Default::default(),
    };
    let one = id("one");
    let mut begin = |start: &[u8]| {
        let new = NewInvocation { id: &one, workflow: "w", start, due: 0 };
        meta.start_suspended(&new, &commit, &Left::default(), [4, 5]).expect("asked")
    };
    assert_eq!(begin(b"x"), Started::New);
    assert_eq!(begin(b"x"), Started::Same(Status::Suspended));
    assert_eq!(begin(b"y"), Started::Taken);
    let row = meta.get(&one).expect("read").expect("there");
    assert_eq!((row.status, row.started, row.changed, row.due), (Status::Suspended, 4, 5, Some(9)));
    assert_eq!((row.generation, row.attempts, row.owner), (1, 0, None));
    assert_eq!(meta.rewind(&one, 1, false, 6).expect("done"), Branched::Done(2));
    assert!(matches!(meta.claim("o", Want::Due, 10), Ok(Claimed::Yes(claim)) if claim.held.epoch == 2));
}

/// A server runs it at once. If that dies it is an invocation that was tried once.
#[test]
fn what_runs_already_is_started_once_and_outlives_its_owner() {
    let (_folder, mut meta) = meta();
    let one = id("one");
    let new = |start| NewInvocation { id: &one, workflow: "w", start, due: 5 };
    let held = meta.start_running(&new(b"x"), "o", [4, 5]).expect("started").expect("a new one");
    assert_eq!(meta.start_running(&new(b"x"), "p", [6, 7]).expect("asked"), None);
    let row = meta.get(&one).expect("read").expect("there");
    assert_eq!((row.status, row.started, row.changed), (Status::Running, 4, 5));
    assert_eq!((row.owner.as_deref(), row.attempts, row.epoch), (Some("o"), 1, 1));
    assert_eq!(meta.claim("p", Want::Due, 9).expect("asked"), Claimed::Nothing);
    // More of its start is kept with its first checkpoint.
    let checkpoint = Checkpoint { file: "one.1.checkpoint".to_owned(), bytes: 3 };
    let (waits, taken, published) = (Vec::new(), Vec::new(), Default::default());
    let commit = Commit::Suspended { checkpoint, parent: None, due: Some(9), waits, taken, published };
    let left = Left { start: Some(b"more".to_vec()), ..Left::default() };
    meta.commit_with(&held, &commit, &left, 6).expect("done");
    let Ok(Claimed::Yes(claim)) = meta.claim("p", Want::Due, 9) else { panic!("it is due") };
    assert_eq!((claim.start, claim.attempt, claim.held.epoch), (b"more".to_vec(), 1, 2));
    let two = id("two");
    let new = NewInvocation { id: &two, workflow: "w", start: b"y", due: 5 };
    meta.start_running(&new, "o", [5, 5]).expect("started");
    meta.expire("o", 8).expect("done");
    let Ok(Claimed::Yes(claim)) = meta.claim("p", Want::Due, 9) else { panic!("it is due") };
    assert_eq!((claim.held.id, claim.attempt, claim.checkpoint), (two, 2, None));
}

#[test]
fn lists_are_by_time_and_bounds_by_the_last_end() {
    let (_folder, mut meta) = meta();
    for (name, at) in [("a", 3), ("b", 1), ("c", 1), ("d", 2)] {
        start(&mut meta, name, at);
    }
    let newest = |meta: &Sqlite, filter: &Filter, limit| {
        names(&meta.newest(filter, limit).expect("read")).iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(newest(&meta, &Filter::default(), 10), ["a", "d", "c", "b"]);
    let before = |at, name: &str| Filter { before: Some((at, name.to_owned())), ..Filter::default() };
    assert_eq!(newest(&meta, &before(2, "d"), 1), ["c"]);
    assert_eq!(newest(&meta, &before(1, "c"), 10), ["b"]);
    assert_eq!(newest(&meta, &Filter { started_after: Some(1), ..Filter::default() }, 10), ["a", "d"]);
    for (name, at) in [("a", 10), ("b", 11), ("c", 12)] {
        end(&mut meta, name, at, &Left::default());
    }
    let ended = Filter { statuses: vec![Status::Completed], ..Filter::default() };
    assert_eq!(newest(&meta, &ended, 10), ["a", "c", "b"]);
    let failed = meta.newest(&Filter { report_path: Some("$.why"), ..Filter::default() }, 1).expect("read");
    assert_eq!(failed[0].as_ref().map(|row| row.report.clone()), Ok(None), "it has no report");
    assert_eq!((meta.living().expect("read"), meta.first_end().expect("read")), (1, Some(10)));
    let bounds = Bounds { number: 2, bytes: u64::MAX, ended_after: 0 };
    assert_eq!(meta.forget(bounds).expect("done"), 1);
    assert_eq!(newest(&meta, &Filter::default(), 10), ["d", "c", "b"]);
    assert_eq!(meta.forget(Bounds { ended_after: 12, ..bounds }).expect("done"), 1);
    assert_eq!(meta.forget(Bounds { bytes: 0, ..bounds }).expect("done"), 1);
    assert_eq!(newest(&meta, &Filter::default(), 10), ["d"]);
}

#[test]
fn lists_have_a_part_of_the_reports_of_those_that_failed() {
    let (_folder, mut meta) = meta();
    for (name, well, report) in
        [("a", false, &br#"{"why":{"kind":"x"},"more":1}"#[..]), ("b", false, b"no JSON"), ("c", true, b"{}")]
    {
        start(&mut meta, name, 1);
        let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&id(name)), 2) else { panic!("{name} is due") };
        let ended = Commit::Ended { well, cancelled: false, report: report.to_vec(), published: None };
        meta.commit(&claim.held, &ended, 3).expect("done");
    }
    let filter = Filter { report_path: Some("$.why"), ..Filter::default() };
    let listed = meta.newest(&filter, 10).expect("read");
    let parts: Vec<_> = listed.iter().map(|row| row.as_ref().expect("it is whole").report.as_deref()).collect();
    assert_eq!(parts, [None, None, Some(&br#"{"kind":"x"}"#[..])]);
}

#[test]
fn a_servers_store_is_no_command_lines_and_the_other_way_round() {
    let (served, _meta) = meta();
    assert!(matches!(
        Store::open(served.path(), None),
        Err(crate::StoreError::Meta(MetaError::Other { served: true }))
    ));
    let own = TempDir::new().expect("a folder");
    Store::open(own.path(), None).expect("a new one");
    assert!(matches!(
        Store::open_served(own.path(), None),
        Err(crate::StoreError::Meta(MetaError::Other { served: false }))
    ));
}
