//! What an invocation is told of a save point that it goes on from in the transaction that commits it.
//!
//! ```text
//!   commit of `one` with CHECKPOINT a, and its next claim ─▶ its checkpoint has the label `a`, and says what is to be told
//!   each claim from that checkpoint                       ─▶ what the mailbox has, and behind it: it went on
//!   the next commit, which says that this was taken       ─▶ a checkpoint of which nothing is to be told
//! ```
//!
//! So an event that is there for one leg, as a rule, is no row of the mailbox that is made and removed again.

use super::{Sqlite, integer, mail};
use crate::meta::{Held, MetaError};
use crate::{Invocation, InvocationId, Mail, Outbox};
use monohull_abi::event::is_event_name;
use monohull_report::What;
use rusqlite::{Connection, OptionalExtension, params};

/// What is told: it went on.
pub(super) const WENT_ON: [u8; 1] = [0];

impl Sqlite {
    /// What a claimed invocation is given when it goes on: what waits in its mailbox, and what it is told of its checkpoint. Refused with
    /// [`MetaError::Stale`] if it is not the holder's any more.
    pub fn given(&self, held: &Held) -> Result<Vec<Mail>, MetaError> {
        // One transaction of several is read as the whole of them is.
        let _snapshot = (!self.is_shared).then(|| self.connection.unchecked_transaction()).transpose()?;
        let row = super::held_row(&self.connection, held)?;
        let mut given = mail::waiting(&self.connection, &held.id, 0)?;
        let told = of(&self.connection, &held.id, row.generation)?;
        if told.as_deref().is_some_and(|name| !is_event_name(name)) {
            return Err(MetaError::Damaged { id: held.id.to_string(), what: "event" });
        }
        given.extend(told.map(|name| Mail { number: mail::NO_NUMBER, name, bytes: WENT_ON.to_vec() }));
        Ok(given)
    }
}

/// The event that is told of a save point, if an outbox has one and nothing else is told.
pub(super) fn only_one(sent: &Outbox) -> Option<&str> {
    let mut asked = sent.events.iter().filter(|event| matches!(event.what, What::Checkpoint | What::Fork { .. }));
    match (asked.next(), asked.next()) {
        (Some(event), None) if event.what == What::Checkpoint => Some(&event.to),
        _ => None,
    }
}

/// What is told of the next checkpoint of an invocation: what its last one told, if the invocation has not taken that, or else something new. If it is both, the new
/// one is for the mailbox.
pub(super) fn next(
    connection: &Connection,
    before: &Invocation,
    taken: &[u64],
    new: Option<&str>,
) -> Result<Option<String>, MetaError> {
    let old = match taken.contains(&mail::NO_NUMBER) {
        true => None,
        false => of(connection, &before.id, before.generation)?,
    };
    Ok(old.or(new.map(str::to_owned)))
}

/// What is told of a checkpoint.
pub(super) fn of(connection: &Connection, id: &InvocationId, generation: u64) -> Result<Option<String>, MetaError> {
    let mut query = connection.prepare_cached("SELECT told FROM history WHERE id = ?1 AND generation = ?2")?;
    let told = query.query_row(params![id.as_str(), integer(generation)], |row| row.get(0)).optional()?;
    Ok(told.flatten())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        Branched, Checkpoint, Claim, Claimed, Commit, Control, Fork, History, Left, Meta, NewInvocation, Status, Store,
        Wait, Want,
    };
    use monohull_report::Outgoing;
    use tempfile::TempDir;

    const OWNER: &str = "owner";

    pub(in crate::sqlite) fn one() -> InvocationId {
        "one".parse().expect("a name")
    }

    /// A server's store, with an invocation that is claimed.
    pub(in crate::sqlite) fn claimed() -> (TempDir, Sqlite, Claim) {
        let folder = TempDir::new().expect("a folder");
        let mut meta = Store::open_served(folder.path(), None).and_then(|store| store.meta()).expect("a new one");
        meta.start(&NewInvocation { id: &one(), workflow: "w", start: b"start", due: 1 }, 1).expect("started");
        let claim = claim(&mut meta);
        (folder, meta, claim)
    }

    pub(in crate::sqlite) fn claim(meta: &mut Sqlite) -> Claim {
        match meta.claim(OWNER, Want::Due, 5) {
            Ok(Claimed::Yes(claim)) => *claim,
            other => panic!("it is due: {other:?}"),
        }
    }

    fn waits_for(claim: &Claim, events: &[&str], taken: &[u64]) -> Commit {
        let wait = |event: &&str| {
            let (step, what, event) = ("s".to_owned(), "an event".to_owned(), Some((*event).to_owned()));
            Wait { step, instance: 0, what, until: None, event }
        };
        let checkpoint = Checkpoint { file: format!("one.{}.checkpoint", claim.held.epoch), bytes: 1 };
        let (waits, taken, published) = (events.iter().map(wait).collect(), taken.to_vec(), Default::default());
        Commit::Suspended { checkpoint, parent: None, due: None, waits, taken, published }
    }

    fn asks(labels: &[&str]) -> Left {
        let asked = |label: &&str| Outgoing {
            what: What::Checkpoint,
            to: format!("checkpoint:{label}:p"),
            name: (*label).to_owned(),
            bytes: Vec::new(),
            origin: "s/0/0".to_owned(),
        };
        Left { sent: Outbox { events: labels.iter().map(asked).collect(), ..Outbox::default() }, ..Left::default() }
    }

    /// Comes to a save point of each label, having taken these events, and goes on.
    fn save(meta: &mut Sqlite, claim: &Claim, labels: &[&str], taken: &[u64]) -> Claim {
        let events: Vec<String> = labels.iter().map(|label| format!("checkpoint:{label}:p")).collect();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let commit = waits_for(claim, &events, taken);
        let (committed, next) =
            meta.commit_and_claim(&claim.held, &commit, &asks(labels), OWNER, 5).expect("it is ours");
        assert_eq!(committed.status, Status::Suspended);
        next.expect("it goes on")
    }

    fn given(meta: &Sqlite, claim: &Claim) -> Vec<(String, u8)> {
        let mail = meta.given(&claim.held).expect("it is ours");
        mail.into_iter().map(|mail| (mail.name, mail.bytes[0])).collect()
    }

    fn went_on(label: &str) -> (String, u8) {
        (format!("checkpoint:{label}:p"), 0)
    }

    #[test]
    fn a_save_point_is_told_of_until_a_commit_says_that_it_was_taken() {
        let (_folder, mut meta, first) = claimed();
        let next = save(&mut meta, &first, &["a"], &[]);
        assert_eq!((next.generation, next.attempt, next.held.epoch), (1, 1, first.held.epoch + 1));
        assert_eq!(given(&meta, &next), [went_on("a")]);
        assert_eq!(meta.mail_count(&one()).expect("asked"), 0, "it is no row");
        assert_eq!(meta.history(&one()).expect("read")[0].label.as_deref(), Some("a"));
        // Killed: the next one goes on from there, and is told the same.
        meta.expire(OWNER, 6).expect("done");
        assert!(matches!(meta.given(&next.held), Err(MetaError::Stale(_))));
        let again = claim(&mut meta);
        assert_eq!((given(&meta, &again), again.generation, again.attempt), (vec![went_on("a")], 1, 2));
        // It could not be run: told once more.
        let later = Commit::Released { due: 5, reason: "full".to_owned() };
        meta.commit(&again.held, &later, 5).expect("it is ours");
        let again = claim(&mut meta);
        assert_eq!(given(&meta, &again), [went_on("a")]);
        // Taken, with another save point.
        let next = save(&mut meta, &again, &["b"], &[0]);
        assert_eq!(given(&meta, &next), [went_on("b")]);
        meta.commit(&next.held, &waits_for(&next, &["paid"], &[0]), 5).expect("it is ours");
        assert!(matches!(meta.claim(OWNER, Want::Due, 6), Ok(Claimed::Nothing)), "nothing is told of it");
    }

    #[test]
    fn what_was_not_taken_is_told_with_the_next_checkpoint() {
        let (_folder, mut meta, first) = claimed();
        let next = save(&mut meta, &first, &["a"], &[]);
        // Another thread has come to a save point, or has two: those are for the mailbox.
        let next = save(&mut meta, &next, &["b"], &[]);
        assert_eq!(given(&meta, &next), [went_on("b"), went_on("a")]);
        let number = meta.mail(&next.held, 0).expect("read")[0].number;
        let next = save(&mut meta, &next, &["c", "d"], &[0, number]);
        assert_eq!(given(&meta, &next), [went_on("c"), went_on("d")]);
        // One that waits for what was not taken goes on.
        let numbers: Vec<u64> = meta.mail(&next.held, 0).expect("read").iter().map(|mail| mail.number).collect();
        let next = save(&mut meta, &next, &["e"], &numbers);
        meta.commit(&next.held, &waits_for(&next, &["checkpoint:e:p"], &[]), 5).expect("it is ours");
        let next = claim(&mut meta);
        assert_eq!((given(&meta, &next), next.generation), (vec![went_on("e")], 5));
    }

    #[test]
    fn one_that_is_paused_at_a_save_point_is_told_when_it_is_resumed() {
        let (_folder, mut meta, first) = claimed();
        meta.control(&one(), Control::Pause, 4).expect("noted");
        let commit = waits_for(&first, &["checkpoint:a:p"], &[]);
        let (committed, next) =
            meta.commit_and_claim(&first.held, &commit, &asks(&["a"]), OWNER, 5).expect("it is ours");
        assert_eq!((committed.status, next), (Status::Paused, None));
        meta.control(&one(), Control::Resume, 5).expect("done");
        let next = claim(&mut meta);
        assert_eq!(given(&meta, &next), [went_on("a")]);
    }

    #[test]
    fn who_comes_back_to_a_save_point_and_who_is_a_copy_of_it_is_told_that() {
        let (_folder, mut meta, first) = claimed();
        let next = save(&mut meta, &first, &["a"], &[]);
        meta.commit(&next.held, &waits_for(&next, &["paid"], &[0]), 5).expect("it is ours");
        let copy: InvocationId = "copy".parse().expect("a name");
        let fork = Fork { id: &one(), at: Some(1), copies: std::slice::from_ref(&copy), paused: false };
        assert!(matches!(meta.fork(fork, 5), Ok(Branched::Done(_))));
        let of_copy = claim(&mut meta);
        let came_back = [("checkpoint:a:p".to_owned(), 1)];
        assert_eq!((&of_copy.held.id, given(&meta, &of_copy)), (&copy, came_back.to_vec()));
        assert!(matches!(meta.rewind(&one(), 1, false, 5), Ok(Branched::Done(3))));
        let back = claim(&mut meta);
        assert_eq!((back.held.id.clone(), given(&meta, &back)), (one(), came_back.to_vec()));
    }
}
