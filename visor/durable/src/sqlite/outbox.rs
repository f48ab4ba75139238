//! What leaves with a commit, in its transaction.

use super::{branches, children, find_sound, mail, time};
use crate::InvocationId;
use crate::mail::{NewMail, Sent};
use crate::meta::MetaError;
use crate::outbox::{Outbox, Undelivered, WhyUndelivered, key};
use monohull_report::{Outgoing, What};
use rusqlite::{Connection, OptionalExtension};

/// Sends what is in an outbox; what cannot be sent.
pub(super) fn send(
    connection: &Connection,
    sender: &InvocationId,
    outbox: &Outbox,
    now: u64,
) -> Result<Vec<Undelivered>, MetaError> {
    let mut undelivered = Vec::new();
    let mut starts = outbox.starts.iter();
    for event in &outbox.events {
        let failed = match event.what {
            What::Event => send_one(connection, sender, outbox, event, now)?,
            What::Start { detached } => {
                let unknown = Err("nothing is known of its workflow".to_owned());
                children::start(connection, sender, event, detached, starts.next().unwrap_or(&unknown), now)?
            }
            What::Cancel => children::cancel(connection, sender, &event.to, now)?,
            What::Checkpoint => branches::label(connection, sender, event, now)?,
            What::Fork { copies } => branches::fork(connection, sender, event, copies, outbox.room, now)?,
        };
        if let Some(why) = failed {
            undelivered.push(Undelivered { what: event.what, to: event.to.clone(), name: event.name.clone(), why });
        }
    }
    Ok(undelivered)
}

/// When an invocation was started, if it is in the store. Of one that is not, what it sends is sent once, when it ends.
fn started(connection: &Connection, id: &InvocationId) -> Result<Option<u64>, MetaError> {
    let mut query = connection.prepare_cached("SELECT started FROM invocation WHERE id = ?1")?;
    Ok(query.query_row([id.as_str()], |row| row.get(0)).optional()?.map(time))
}

fn send_one(
    connection: &Connection,
    sender: &InvocationId,
    outbox: &Outbox,
    event: &Outgoing,
    now: u64,
) -> Result<Option<WhyUndelivered>, MetaError> {
    let Ok(to) = event.to.parse::<InvocationId>() else { return Ok(Some(WhyUndelivered::Unknown)) };
    let Some(receiver) = find_sound(connection, &to)? else { return Ok(Some(WhyUndelivered::Unknown)) };
    if !outbox.permits(&receiver.workflow) {
        return Ok(Some(WhyUndelivered::NotPermitted));
    }
    let started = started(connection, sender)?.unwrap_or(now);
    let key = key(sender, started, event);
    let Ok(mail) = NewMail::new(&event.name, &event.bytes, Some(&key)) else {
        return Ok(Some(WhyUndelivered::NotPermitted));
    };
    Ok(match mail::send(connection, &to, &mail, now)? {
        Sent::New | Sent::Duplicate => None,
        Sent::KeyTaken => Some(WhyUndelivered::KeyTaken),
        Sent::Full => Some(WhyUndelivered::Full),
        Sent::Ended(_) => Some(WhyUndelivered::Ended),
        Sent::Unknown => Some(WhyUndelivered::Unknown),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Sqlite, Unlock};
    use super::*;
    use crate::{Checkpoint, Claimed, Commit, Held, Left, Meta, NewInvocation, Wait, Want};

    fn id(name: &str) -> InvocationId {
        name.parse().expect("a name")
    }

    fn start(meta: &mut Sqlite, name: &str, workflow: &str) {
        let new = NewInvocation { id: &id(name), workflow, start: b"start", due: 1 };
        meta.start(&new, 1).expect("started");
    }

    fn claim(meta: &mut Sqlite, name: &str) -> Held {
        match meta.claim("o", Want::Id(&id(name)), 10) {
            Ok(Claimed::Yes(claim)) => claim.held,
            other => panic!("{name} is due: {other:?}"),
        }
    }

    /// It waits for `paid`, and has sent this.
    fn wait(meta: &mut Sqlite, held: &Held, sent: Outbox) -> Result<Vec<Undelivered>, MetaError> {
        let wait =
            Wait { step: "s".into(), instance: 0, what: "an event".into(), until: None, event: Some("paid".into()) };
        let commit = Commit::Suspended {
            checkpoint: Checkpoint { file: format!("{}.{}", held.id, held.epoch), bytes: 1 },
            parent: None,
            due: None,
            waits: vec![wait],
            taken: Vec::new(),
            published: Default::default(),
        };
        let left = Left { sent, ..Left::default() };
        meta.commit_with(held, &commit, &left, 10).map(|committed| committed.undelivered)
    }

    fn to(receivers: &[&str], bytes: &[u8], origin: &str) -> Outbox {
        let event = |to: &&str| Outgoing {
            what: What::Event,
            to: (*to).to_owned(),
            name: "paid".to_owned(),
            bytes: bytes.to_vec(),
            origin: origin.to_owned(),
        };
        let workflows = vec!["w".to_owned()];
        Outbox { events: receivers.iter().map(event).collect(), workflows, starts: Vec::new(), room: None }
    }

    #[test]
    fn an_event_is_sent_by_the_commit_that_counts_and_wakes_its_receiver_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut meta = Sqlite::open(&folder.path().join("meta.sqlite"), true, Unlock::Nothing).expect("opened");
        for name in ["sender", "r"] {
            start(&mut meta, name, "w");
        }
        let receiver = claim(&mut meta, "r");
        wait(&mut meta, &receiver, Outbox::default()).expect("committed");
        let lost = claim(&mut meta, "sender");
        meta.expire("o", 10).expect("done");
        let held = claim(&mut meta, "sender");
        let stale = wait(&mut meta, &lost, to(&["r"], b"1", "s/0/0"));
        assert!(matches!(stale, Err(MetaError::Stale(_))), "{stale:?}");
        assert_eq!(meta.mail_count(&id("r")).expect("asked"), 0, "what does not count sends nothing");
        assert_eq!(wait(&mut meta, &held, to(&["r", "sender"], b"1", "s/0/0")).expect("committed"), []);
        for name in ["r", "sender"] {
            let row = meta.get(&id(name)).expect("read").expect("there");
            assert_eq!((meta.mail_count(&row.id).expect("asked"), row.due), (1, Some(10)), "{name} is due");
        }
        // The same at the same place, as after a rewind; other content there; and the same at another place.
        for (bytes, origin, count) in [(b"1", "s/0/0", 1), (b"2", "s/0/0", 2), (b"1", "s/0/1", 3)] {
            let held = claim(&mut meta, "sender");
            assert_eq!(wait(&mut meta, &held, to(&["r"], bytes, origin)).expect("committed"), []);
            assert_eq!(meta.mail_count(&id("r")).expect("asked"), count);
        }
    }

    #[test]
    fn what_cannot_be_sent_is_named_and_the_rest_is_sent() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut meta = Sqlite::open(&folder.path().join("meta.sqlite"), true, Unlock::Nothing).expect("opened");
        for (name, workflow) in [("sender", "w"), ("r", "w"), ("other", "x"), ("done", "w")] {
            start(&mut meta, name, workflow);
        }
        meta.control(&id("done"), crate::Control::Cancel, 2).expect("cancelled");
        let held = claim(&mut meta, "sender");
        let receivers = ["nobody", "../r", "", "other", "done", "r"];
        let undelivered = wait(&mut meta, &held, to(&receivers, b"1", "s/0/0")).expect("committed");
        let why: Vec<_> = undelivered.iter().map(|it| (it.to.as_str(), it.why.clone())).collect();
        use WhyUndelivered::{Ended, NotPermitted, Unknown};
        let expected =
            [("nobody", Unknown), ("../r", Unknown), ("", Unknown), ("other", NotPermitted), ("done", Ended)];
        assert_eq!(why, expected);
        let counts = ["r", "other", "sender"].map(|name| meta.mail_count(&id(name)).expect("asked"));
        assert_eq!(counts, [1, 0, 0]);
        let text = undelivered[3].to_string();
        assert_eq!(
            text,
            "event `paid` was not sent to `other`: `sends_to` of the workflow file does not name its workflow"
        );
        let outbox = Outbox { workflows: Vec::new(), ..to(&["r"], b"2", "s/0/1") };
        assert_eq!(meta.send_all(&id("gone"), &outbox, 11).expect("done")[0].why, NotPermitted, "no workflow is named");
        let outbox = Outbox { workflows: vec![crate::ANY_WORKFLOW.to_owned()], ..to(&["other"], b"2", "s/0/1") };
        assert_eq!(meta.send_all(&id("gone"), &outbox, 11).expect("done"), []);
        // One whose row is damaged gets nothing, and does not hold up those that send to it.
        meta.connection.execute_batch("UPDATE invocation SET waits = 'x' WHERE id = 'r'").expect("edited");
        start(&mut meta, "another", "w");
        let held = claim(&mut meta, "another");
        let lost = wait(&mut meta, &held, to(&["r", "sender"], b"2", "s/0/1")).expect("committed");
        assert_eq!(lost.iter().map(|it| (it.to.as_str(), &it.why)).collect::<Vec<_>>(), [("r", &Unknown)]);
        assert_eq!(meta.mail_count(&id("sender")).expect("asked"), 1);
    }
}
