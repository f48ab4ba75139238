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
    let mut copies_made = Vec::new();
    for event in &outbox.events {
        let failed = match event.what {
            What::Event => send_one(connection, sender, outbox, event, now)?,
            What::Start { detached } => {
                let unknown = Err("nothing is known of its workflow".to_owned());
                children::start(connection, sender, event, detached, starts.next().unwrap_or(&unknown), now)?
            }
            What::Cancel => children::cancel(connection, sender, &event.to, now)?,
            What::Checkpoint => branches::label(connection, sender, event, now)?,
            What::Fork { copies } => {
                branches::fork(connection, sender, event, (copies, &mut copies_made), outbox.room, now)?
            }
        };
        if let Some(why) = failed {
            undelivered.push(Undelivered { what: event.what, to: event.to.clone(), name: event.name.clone(), why });
        }
    }
    branches::tell_copies(connection, sender, &copies_made, now)?;
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
    use monohull_abi::branch::FORK_EVENT;

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

    /// What an invocation is told by the events of copies, in the order of their names.
    fn told_of_copies(meta: &mut Sqlite, name: &str) -> Vec<(String, String)> {
        let held = claim(meta, name);
        let mail = meta.mail(&held, 0).expect("read");
        let told = mail.iter().filter(|mail| mail.name.starts_with(FORK_EVENT));
        let mut told: Vec<_> =
            told.map(|mail| (mail.name.clone(), String::from_utf8_lossy(&mail.bytes).into_owned())).collect();
        told.sort();
        told
    }

    #[test]
    fn threads_that_ask_for_copies_at_once_are_told_the_same_in_all_of_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut meta = Sqlite::open(&folder.path().join("meta.sqlite"), true, Unlock::Nothing).expect("opened");
        start(&mut meta, "one", "w");
        let held = claim(&mut meta, "one");
        let events = ["a", "b"].map(|place| format!("{FORK_EVENT}{place}"));
        let wait = |event: &String| Wait {
            step: "s".into(),
            instance: 0,
            what: "copies".into(),
            until: None,
            event: Some(event.clone()),
        };
        let asked = |event: &String| Outgoing {
            what: What::Fork { copies: 2 },
            to: event.clone(),
            name: String::new(),
            bytes: Vec::new(),
            origin: "s/0/0".to_owned(),
        };
        let commit = Commit::Suspended {
            checkpoint: Checkpoint { file: "1.checkpoint".into(), bytes: 1 },
            parent: None,
            due: None,
            waits: events.iter().map(wait).collect(),
            taken: Vec::new(),
            published: Default::default(),
        };
        let sent = Outbox { events: events.iter().map(asked).collect(), room: Some(4), ..Outbox::default() };
        let left = Left { sent, ..Left::default() };
        assert_eq!(meta.commit_with(&held, &commit, &left, 10).expect("committed").undelivered, []);
        let [first, second] = ["a", "b"].map(|place| format!("original\none-{place}-1\none-{place}-2"));
        let told = |a: &str, b: &str| vec![(events[0].clone(), a.to_owned()), (events[1].clone(), b.to_owned())];
        assert_eq!(told_of_copies(&mut meta, "one"), told(&first, &second));
        assert_eq!(told_of_copies(&mut meta, "one-a-2"), told("copy\n2", &second));
        assert_eq!(told_of_copies(&mut meta, "one-b-1"), told(&first, "copy\n1"));
        // Those of one commit share the room that there is.
        start(&mut meta, "two", "w");
        let held = claim(&mut meta, "two");
        let sent = Outbox { room: Some(3), ..left.sent };
        let committed = meta.commit_with(&held, &commit, &Left { sent, ..Left::default() }, 10).expect("committed");
        let why: Vec<_> = committed.undelivered.into_iter().map(|it| it.why).collect();
        assert_eq!(why, [WhyUndelivered::NotStarted("there is room for 1 more invocations".to_owned())]);
    }
}
