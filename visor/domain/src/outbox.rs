//! What functions have sent to other invocations, and the children that they have started: it leaves with the next checkpoint, or with the end.
//!
//! ```text
//!   SEND ─▶ here ── a copy goes with each capture ─▶ kept: forgotten here
//!                                                 └▶ not kept: goes with the next one
//! ```
//!
//! So what a function sends happens if, and only if, the state in which it has sent it is kept. Like what is published they belong to the run,
//! and are in no checkpoint.

use monohull_abi::Errno;
use monohull_abi::branch::{CHECKPOINT_EVENT, COPIES_MAX, FORK_EVENT, is_label};
use monohull_abi::child::is_child_id;
use monohull_abi::event::{
    EVENT_BYTES_MAX, OUTBOX_BYTES, OUTBOX_EVENTS, is_event_name, is_invocation_id, is_reserved_event,
};
use monohull_report::{Outgoing, What};
use std::sync::{Mutex, MutexGuard};

/// What has not left.
#[derive(Debug, Default)]
pub(crate) struct Outbox(Mutex<Vec<Outgoing>>);

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Vec<Outgoing>> {
        self.0.lock().expect("outbox")
    }

    /// Adds an event. After an error there are those that there were.
    pub(crate) fn send(&self, event: Outgoing) -> Result<(), Errno> {
        if !may_be_named(&event) {
            return Err(Errno::Invalid);
        }
        let mut events = self.lock();
        if events.len() >= OUTBOX_EVENTS {
            return Err(Errno::TooMany);
        }
        if event.bytes.len() > EVENT_BYTES_MAX || bytes(&events) + event.bytes.len() > OUTBOX_BYTES {
            return Err(Errno::NoSpace);
        }
        events.push(event);
        Ok(())
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Outgoing> {
        self.lock().clone()
    }

    /// The first so many have left.
    pub(crate) fn forget(&self, first: usize) {
        let mut events = self.lock();
        let first = first.min(events.len());
        events.drain(..first);
    }
}

fn bytes(events: &[Outgoing]) -> usize {
    events.iter().map(|event| event.bytes.len()).sum()
}

fn may_be_named(event: &Outgoing) -> bool {
    match event.what {
        What::Event => is_invocation_id(&event.to) && is_event_name(&event.name) && !is_reserved_event(&event.name),
        // Names of workflows have the same letters.
        What::Start { .. } => is_child_id(&event.to) && is_invocation_id(&event.name),
        What::Cancel => is_child_id(&event.to) && event.name.is_empty() && event.bytes.is_empty(),
        What::Checkpoint => is_told(event, CHECKPOINT_EVENT) && is_label(&event.name),
        What::Fork { copies } => {
            is_told(event, FORK_EVENT) && event.name.is_empty() && (1..=COPIES_MAX).contains(&u64::from(copies))
        }
    }
}

/// Whether it is told by an event whose name begins so.
fn is_told(event: &Outgoing, begin: &str) -> bool {
    event.to.starts_with(begin) && is_event_name(&event.to) && event.bytes.is_empty()
}

/// Whether a run can have sent these: what comes from its process is not believed.
pub fn may_be_sent(events: &[Outgoing]) -> bool {
    let fits = |event: &Outgoing| may_be_named(event) && event.bytes.len() <= EVENT_BYTES_MAX;
    events.len() <= OUTBOX_EVENTS && bytes(events) <= OUTBOX_BYTES && events.iter().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(to: &str, name: &str, bytes: usize) -> Outgoing {
        Outgoing {
            what: What::Event,
            to: to.to_owned(),
            name: name.to_owned(),
            bytes: vec![0; bytes],
            origin: "s/0/0".to_owned(),
        }
    }

    #[test]
    fn children_are_named_as_invocations_are() {
        let outbox = Outbox::default();
        let child = |what, to: &str, name: &str, bytes| Outgoing { what, ..event(to, name, bytes) };
        let start = What::Start { detached: false };
        for good in [child(start, "one", "thumbnail", 3), child(What::Cancel, "one", "", 0)] {
            assert_eq!(outbox.send(good), Ok(()));
        }
        assert!(may_be_sent(&outbox.all()));
        for bad in [
            child(start, "", "w", 0),
            child(start, "a/b", "w", 0),
            child(start, "a", "", 0),
            child(start, "a", "../w", 0),
            child(What::Cancel, "a", "w", 0),
            child(What::Cancel, "", "", 0),
            child(What::Cancel, "a", "", 1),
        ] {
            assert!(!may_be_sent(std::slice::from_ref(&bad)));
            assert_eq!(outbox.send(bad), Err(Errno::Invalid));
        }
    }

    #[test]
    fn what_an_invocation_asks_of_itself_is_told_by_an_event_of_the_systems() {
        let outbox = Outbox::default();
        let of = |what, to: &str, name: &str, bytes| Outgoing { what, ..event(to, name, bytes) };
        let fork = |copies| What::Fork { copies };
        for good in [
            of(What::Checkpoint, "checkpoint:a:0", "a", 0),
            of(fork(1), "fork:0", "", 0),
            of(fork(100), "fork:0", "", 0),
        ] {
            assert_eq!(outbox.send(good), Ok(()));
        }
        assert!(may_be_sent(&outbox.all()));
        for bad in [
            of(What::Checkpoint, "paid", "a", 0),
            of(What::Checkpoint, "fork:0", "a", 0),
            of(What::Checkpoint, "checkpoint:a:0", "", 0),
            of(What::Checkpoint, "checkpoint:a:0", "17", 0),
            of(What::Checkpoint, "checkpoint:a:0", "a", 1),
            of(What::Checkpoint, "checkpoint:\n", "a", 0),
            of(fork(0), "fork:0", "", 0),
            of(fork(101), "fork:0", "", 0),
            of(fork(1), "child:a", "", 0),
            of(fork(1), "fork:0", "a", 0),
        ] {
            assert!(!may_be_sent(std::slice::from_ref(&bad)));
            assert_eq!(outbox.send(bad), Err(Errno::Invalid));
        }
    }

    #[test]
    fn there_are_as_many_as_may_be_and_no_more() {
        let outbox = Outbox::default();
        for (to, name) in
            [("a", "child:b"), ("", "e"), ("a/b", "e"), ("..", "e"), ("a", ""), ("a", "\n"), (&*"x".repeat(65), "e")]
        {
            assert_eq!(outbox.send(event(to, name, 0)), Err(Errno::Invalid));
        }
        assert_eq!(outbox.send(event("a", "e", EVENT_BYTES_MAX + 1)), Err(Errno::NoSpace));
        for _ in 0..OUTBOX_BYTES / EVENT_BYTES_MAX {
            assert_eq!(outbox.send(event("a", "e", EVENT_BYTES_MAX)), Ok(()));
        }
        assert_eq!(outbox.send(event("a", "e", 1)), Err(Errno::NoSpace));
        let large = outbox.all().len();
        for _ in large..OUTBOX_EVENTS {
            assert_eq!(outbox.send(event("b", "e", 0)), Ok(()));
        }
        assert_eq!(outbox.send(event("b", "e", 0)), Err(Errno::TooMany));
        let mut all = outbox.all();
        assert!(may_be_sent(&all));
        all[0].bytes.push(0);
        assert!(!may_be_sent(&all));
        outbox.forget(large);
        assert!(outbox.all().iter().all(|event| event.to == "b"), "what has left does not count");
        assert_eq!(outbox.send(event("c", "e", EVENT_BYTES_MAX)), Ok(()));
        outbox.forget(usize::MAX);
        assert_eq!(outbox.all(), []);
        assert!(!may_be_sent(&[event("a/b", "e", 0)]) && !may_be_sent(&[event("a", "\u{1b}", 0)]));
        assert!(!may_be_sent(&vec![event("a", "e", 0); OUTBOX_EVENTS + 1]));
    }
}
