//! The timeline in its tables: what each transaction adds, what is kept, and older databases.

use super::*;
use crate::sqlite::told::tests::{claim, claimed, one};
use crate::{
    Branched, Checkpoint, Claim, Commit, Control, Fork, History, Invocation, Left, Meta, NewMail, Status, Store, Wait,
};

/// Waits for `paid` until then.
fn wait(meta: &mut Sqlite, claim: &Claim, due: Option<u64>, now: u64) {
    let (step, what, event) = ("s".to_owned(), "for event `paid`".to_owned(), Some("paid".to_owned()));
    let waits = vec![Wait { step, instance: 0, what, until: due, event }];
    let checkpoint = Checkpoint { file: format!("one.{}.checkpoint", claim.held.epoch), bytes: 1 };
    let commit =
        Commit::Suspended { checkpoint, parent: None, due, waits, taken: Vec::new(), published: Default::default() };
    meta.commit(&claim.held, &commit, now).expect("it is ours");
}

fn all(meta: &Sqlite) -> Vec<Entry> {
    meta.timeline(&one(), u64::MAX, usize::MAX).expect("read")
}

/// What happened, why the leg began, how long it was, and what it is about.
fn told(entries: &[Entry]) -> Vec<String> {
    let told = |entry: &Entry| {
        let woken = entry.woken.as_ref().map_or("-".to_owned(), |woken| {
            let (kind, of) = woken.parts();
            format!("{kind} {}", of.unwrap_or_default()).trim_end().to_owned()
        });
        let ran = entry.began.map_or("-".to_owned(), |began| (entry.at as i64 - began as i64).to_string());
        format!("{} {woken} {ran} {}", entry.what.name(), entry.about).trim_end().to_owned()
    };
    entries.iter().map(told).collect()
}

fn row(meta: &Sqlite) -> Invocation {
    meta.get(&one()).expect("read").expect("there")
}

#[test]
fn what_happens_to_an_invocation_is_told_in_order() {
    let (_folder, mut meta, first) = claimed();
    assert_eq!((row(&meta).began, row(&meta).entries), (Some(5), 0));
    wait(&mut meta, &first, Some(5), 9);
    // Due by time, and then by an event that is sent while it waits.
    let next = claim_at(&mut meta, 20);
    wait(&mut meta, &next, Some(1000), 23);
    let mail = NewMail::new("paid", b"", None).expect("an event");
    meta.send(&one(), &mail, 30).expect("sent");
    assert_eq!(row(&meta).woken, Some(Woken::Event("paid".to_owned())));
    let next = claim_at(&mut meta, 31);
    // Its process dies, and the next one is told to stop.
    meta.expire("owner", 40).expect("done");
    assert_eq!((row(&meta).began, row(&meta).status), (None, Status::Suspended));
    assert!(matches!(
        meta.commit(&next.held, &Commit::Paused { reason: "late".to_owned() }, 41),
        Err(MetaError::Stale(_))
    ));
    let next = claim_at(&mut meta, 50);
    meta.control(&one(), Control::Pause, 51).expect("done");
    wait(&mut meta, &next, None, 52);
    meta.control(&one(), Control::Resume, 53).expect("done");
    assert_eq!(meta.rewind(&one(), 1, true, 54).expect("done"), Branched::Done(4));
    let copies = ["two", "three"].map(|name| name.parse().expect("a name"));
    let fork = Fork { id: &one(), at: None, copies: &copies, paused: false };
    assert!(matches!(meta.fork(fork, 55), Ok(Branched::Done(_))));
    meta.control(&one(), Control::Cancel, 56).expect("done");
    assert_eq!(
        told(&all(&meta)),
        [
            "suspended start 4 s[0] for event `paid`",
            "suspended time 3 s[0] for event `paid`",
            "lost event paid 9",
            "paused again 2 by hand",
            "resumed - -",
            "rewound - - to generation 1",
            "forked - - two, and 1 more",
            "cancelled - - by hand",
        ]
    );
    assert_eq!(all(&meta).iter().map(|entry| entry.generation).collect::<Vec<_>>(), [1, 2, 2, 3, 3, 4, 4, 4]);
    let of_copy = meta.timeline(&copies[1], u64::MAX, 10).expect("read");
    assert_eq!(told(&of_copy), ["copied - - of one, generation 4"]);
    assert!(meta.purge(&one(), 60).expect("done") && all(&meta).is_empty());
    let left = "SELECT count(*) FROM timeline WHERE id = 'one'";
    assert_eq!(meta.connection.query_row(left, [], |row| row.get::<_, i64>(0)).expect("asked"), 0);
}

fn claim_at(meta: &mut Sqlite, now: u64) -> Claim {
    match meta.claim("owner", crate::Want::Due, now) {
        Ok(crate::Claimed::Yes(claim)) => *claim,
        other => panic!("it is due: {other:?}"),
    }
}

/// A leg ends at a wait, and not at a checkpoint that it goes on behind.
#[test]
fn a_checkpoint_that_is_gone_on_behind_ends_no_leg() {
    let (_folder, mut meta, first) = claimed();
    for now in [6, 7] {
        let checkpoint = Checkpoint { file: format!("one.{now}.checkpoint"), bytes: 1 };
        let (due, waits, taken, published) = (Some(5), Vec::new(), Vec::new(), Default::default());
        let commit = Commit::Checkpointed { checkpoint, parent: None, due, waits, taken, published };
        meta.commit(&first.held, &commit, now).expect("it is ours");
    }
    let commit = Commit::Ended { well: true, cancelled: false, report: b"{}".to_vec(), published: None };
    meta.commit(&first.held, &commit, 8).expect("it is ours");
    assert_eq!(told(&all(&meta)), ["completed start 3"]);
    assert_eq!((row(&meta).began, row(&meta).woken), (None, None));
}

#[test]
fn the_newest_entries_are_kept_and_read_a_page_at_a_time() {
    let (_folder, mut meta, mut next) = claimed();
    let many = ENTRIES_KEPT + 3 * TOGETHER + 3;
    for now in 0..many {
        wait(&mut meta, &next, Some(5), now + 6);
        next = claim(&mut meta);
        let entries = all(&meta);
        let first = (now + 1).saturating_sub(ENTRIES_KEPT);
        let numbers: Vec<_> = entries.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, (first..=now).collect::<Vec<_>>());
    }
    let page = |before, most| -> Vec<u64> {
        let entries = meta.timeline(&one(), before, most).expect("read");
        entries.into_iter().map(|entry| entry.number).collect()
    };
    assert_eq!(page(u64::MAX, 3), [many - 3, many - 2, many - 1]);
    assert_eq!(page(many - 3, 2), [many - 5, many - 4]);
    let oldest = many - ENTRIES_KEPT;
    assert_eq!(page(oldest + 2, 10), [oldest, oldest + 1]);
    let at_one_time = meta.at_one_time(|meta| meta.timeline(&one(), u64::MAX, 3));
    assert_eq!(at_one_time.expect("read").len(), 3);
    assert!(page(oldest, 10).is_empty() && page(0, 10).is_empty() && page(9, 0).is_empty());
    // What is not needed any more is not there either.
    let rows: i64 = meta.connection.query_row("SELECT count(*) FROM timeline", [], |row| row.get(0)).expect("asked");
    assert!(rows as u64 <= ENTRIES_KEPT / TOGETHER + 1, "{rows}");
}

/// A folder of the version before goes on, and its timeline begins there.
#[test]
fn a_folder_without_timelines_is_made_one_with_them() {
    let (folder, mut meta, first) = claimed();
    wait(&mut meta, &first, Some(5), 9);
    claim_at(&mut meta, 20);
    let before =
        "DROP TABLE timeline; ALTER TABLE invocation DROP COLUMN began; ALTER TABLE invocation DROP COLUMN woken;
        ALTER TABLE invocation DROP COLUMN entries; ALTER TABLE invocation DROP COLUMN recent; DELETE FROM made;";
    meta.connection.execute_batch(before).expect("edited");
    drop(meta);
    let open = || Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("it is one");
    let mut meta = open();
    assert!(all(&meta).is_empty());
    let held = crate::Held { id: one(), epoch: 2 };
    let commit = Commit::Ended { well: false, cancelled: false, report: b"{}".to_vec(), published: None };
    meta.commit_with(&held, &commit, &Left::default(), 24).expect("it runs still");
    // Since its claim, and it is not known why.
    assert_eq!(told(&all(&meta)), ["failed - 4"]);
    drop(meta);
    assert_eq!(told(&all(&open())), ["failed - 4"]);
}

#[test]
fn damage_is_told_and_nothing_is_made_of_it() {
    let (_folder, mut meta, first) = claimed();
    wait(&mut meta, &first, Some(5), 9);
    for damage in ["recent = '[99,1,1,1,null,null,\"\"]\n'", "recent = ''", "recent = 'x\n'", "entries = 7"] {
        let keep = "CREATE TEMP TABLE kept AS SELECT entries, recent FROM invocation";
        meta.connection.execute_batch(&format!("{keep}; UPDATE invocation SET {damage}")).expect("edited");
        let read = meta.timeline(&one(), u64::MAX, 10);
        assert!(matches!(read, Err(MetaError::Damaged { what: "timeline", .. })), "{damage}: {read:?}");
        let undo = "UPDATE invocation SET (entries, recent) = (SELECT entries, recent FROM kept); DROP TABLE kept";
        meta.connection.execute_batch(undo).expect("edited");
        assert_eq!(all(&meta).len(), 1);
    }
    meta.connection.execute_batch("UPDATE invocation SET woken = 'x'").expect("edited");
    assert!(matches!(meta.get(&one()), Err(MetaError::Damaged { .. })));
}
