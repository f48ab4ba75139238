//! Workers that wait, and go on from where they or others were: what they may say of it, and the events that come and go.

use super::*;
use crate::supervised::Residence;
use monohull_domain::checkpoint::GoOn;

#[test]
fn a_worker_without_a_continuation_cannot_refuse_one() {
    let refusal = || FromWorker::Unfit { why: "of an impossible size".to_owned() };
    let impostor = Impostor::new();
    impostor.message(&refusal(), &[]);
    impostor.refuses("a continuation that it has not got");
    // The control.
    let mut impostor = Impostor::new();
    impostor.running.worker.continues = true;
    impostor.message(&refusal(), &[]);
    assert!(matches!(impostor.running.next_message(), Ok(Some(Message::Unfit { .. }))));
    impostor.message(&refusal(), &[]);
    impostor.refuses("a continuation that it has not got");
}

/// A capture with sealed memory, or without.
fn capture(impostor: &Impostor, sealed: bool) {
    let memory = seal(b"a continuation", 0).expect("memory");
    let files: &[BorrowedFd<'_>] = if sealed { &[memory.as_fd()] } else { &[] };
    let published = Default::default();
    impostor.message(
        &FromWorker::Captured { waits: Vec::new(), until: None, events_taken: vec![3], published, sent: false },
        files,
    );
}

#[test]
fn a_capture_is_taken_where_it_was_asked_for_and_once_for_each_answer() {
    let mut asked = Impostor::new();
    asked.running.worker.captures = Captures::Next;
    for _ in 0..2 {
        capture(&asked, true);
        let received = asked.running.next_message().expect("receiving");
        assert!(matches!(&received, Some(Message::Captured(run)) if run.events_taken == [3]), "{received:?}");
        asked.running.answer(true, false, &[]).expect("sent");
        // One that nothing waits for is not sent.
        asked.running.answer(true, false, &[]).expect("not sent");
        let answer = asked.theirs.receive().expect("received").expect("an answer").read().expect("a message");
        assert!(matches!(answer, ToWorker::Kept { kept: true, whole: false, events: false }), "{answer:?}");
        assert!(asked.theirs.try_receive().expect("asked").is_none());
    }
    capture(&asked, true);
    assert!(matches!(asked.running.next_message().expect("receiving"), Some(Message::Captured(_))));
    capture(&asked, true);
    asked.refuses("a capture that was not asked for");

    let never = Impostor::new();
    capture(&never, true);
    never.refuses("a capture that was not asked for");

    let mut empty = Impostor::new();
    empty.running.worker.captures = Captures::Next;
    capture(&empty, false);
    empty.refuses("not one continuation");

    let mut late = Impostor::new();
    (late.running.worker.captures, late.running.worker.answered) = (Captures::Next, true);
    capture(&late, true);
    late.refuses("a capture that was not asked for");
}

#[test]
fn events_are_acknowledged_before_others_are_sent() {
    let mut impostor = Impostor::new();
    assert!(impostor.running.post().expect("no socket is made").is_none(), "it was not asked to listen");
    impostor.running.worker.listens = true;
    let post = impostor.running.post().expect("a socket").expect("it listens");
    let event = monohull_engine::Event { number: 7, name: "paid".to_owned(), bytes: b"17".to_vec() };
    for _ in 0..2 {
        assert!(post.send(std::slice::from_ref(&event)).expect("sent"));
        // A worker that reads nothing blocks no sender.
        assert!(!post.is_free() && !post.send(std::slice::from_ref(&event)).expect("not sent"));
        let packet = impostor.theirs.receive().expect("received").expect("a message");
        assert!(matches!(packet.read(), Ok(ToWorker::Events)));
        assert_eq!(job::read_events(&packet.files[0]), Ok(vec![event.clone()]));
        assert!(impostor.theirs.try_receive().expect("asked").is_none());
        impostor.message(&FromWorker::EventsTaken, &[]);
        assert!(matches!(impostor.running.next_message(), Ok(Some(Message::EventsTaken))));
        assert!(post.is_free());
    }
    impostor.message(&FromWorker::EventsTaken, &[]);
    impostor.refuses("an acknowledgement of nothing");
}

/// Its events for others, as it says: in the message.
fn sends_few(impostor: &Impostor, few: &[u8]) {
    let continuation = seal(b"a continuation", 0).expect("memory");
    let (waits, events_taken, published) = (Vec::new(), Vec::new(), Default::default());
    let few = few.to_vec();
    let message = FromWorker::Suspended { waits, until: None, events_taken, published, sent: false, few, stays: false };
    impostor.message(&message, &[continuation.as_fd()]);
}

/// Its events for others, as it says: in sealed memory, with a continuation.
fn sends(impostor: &Impostor, sent: &[u8]) {
    let [continuation, sent] = [b"a continuation", sent].map(|bytes| seal(bytes, 0).expect("memory"));
    let published = Default::default();
    let message = FromWorker::Suspended {
        waits: Vec::new(),
        until: None,
        events_taken: Vec::new(),
        published,
        sent: true,
        few: Vec::new(),
        stays: false,
    };
    impostor.message(&message, &[continuation.as_fd(), sent.as_fd()]);
}

#[test]
fn what_a_worker_has_sent_is_not_believed() {
    let event = |to: &str, bytes: usize| monohull_report::Outgoing {
        what: monohull_report::What::Event,
        to: to.to_owned(),
        name: "paid".to_owned(),
        bytes: vec![0; bytes],
        origin: "s/0/0".to_owned(),
    };
    let encoded = |events: &[monohull_report::Outgoing]| postcard::to_extend(events, Vec::new()).expect("encoded");
    let impostor = |sends: bool| {
        let mut impostor = Impostor::new();
        (impostor.running.worker.suspendable, impostor.running.worker.sends) = (true, sends);
        impostor
    };
    // The control.
    let mut allowed = impostor(true);
    sends(&allowed, &encoded(&[event("r", 3)]));
    let received = allowed.running.next_message().expect("receiving");
    assert!(matches!(&received, Some(Message::Suspended(run)) if run.sent == [event("r", 3)]), "{received:?}");
    let not_allowed = impostor(false);
    sends(&not_allowed, &encoded(&[event("r", 3)]));
    not_allowed.refuses("which it may not send");
    let many = vec![event("r", 0); 257];
    let large = vec![event("r", 1 << 20); 5];
    let wrong = [
        (encoded(&many), "too many"),
        (encoded(&large), "sent"),
        (encoded(&[event("r", (1 << 20) + 1)]), "more than a workflow may send"),
        (encoded(&[event("../r", 0)]), "more than a workflow may send"),
        (vec![0xff; 16], "the events that it has sent"),
        ([encoded(&[event("r", 3)]), vec![0]].concat(), "more than a workflow may send"),
        (Vec::new(), "sent"),
    ];
    for (bytes, why) in wrong {
        let other = impostor(true);
        sends(&other, &bytes);
        other.refuses(why);
        // What is too long for a message comes as it does. None at all are in the message if there are none.
        if (1..=4096).contains(&bytes.len()) {
            let other = impostor(true);
            sends_few(&other, &bytes);
            other.refuses(why);
        }
    }
    let mut allowed = impostor(true);
    sends_few(&allowed, &encoded(&[event("r", 3)]));
    let received = allowed.running.next_message().expect("receiving");
    assert!(matches!(&received, Some(Message::Suspended(run)) if run.sent == [event("r", 3)]), "{received:?}");
    let not_allowed = impostor(false);
    sends_few(&not_allowed, &encoded(&[event("r", 3)]));
    not_allowed.refuses("which it may not send");
    // As many bytes as may be a part of a message, and more.
    let [most, more] = [4096, 4097].map(|length| {
        let without = encoded(&[event("r", 4000)]).len() - 4000;
        encoded(&[event("r", length - without)])
    });
    assert_eq!([most.len(), more.len()], [4096, 4097]);
    let mut allowed = impostor(true);
    sends_few(&allowed, &most);
    let received = allowed.running.next_message().expect("receiving");
    assert!(matches!(&received, Some(Message::Suspended(run)) if run.sent.len() == 1), "{received:?}");
    for bytes in [more, encoded(&[event("r", 50_000)])] {
        let other = impostor(true);
        sends_few(&other, &bytes);
        other.refuses("more events in a message than may be a part of it");
    }
    let impostor = impostor(true);
    let published = Default::default();
    let message = FromWorker::Suspended {
        waits: Vec::new(),
        until: None,
        events_taken: Vec::new(),
        published,
        sent: true,
        few: Vec::new(),
        stays: false,
    };
    impostor.message(&message, &[]);
    impostor.refuses("the events that it has sent are missing");
}

/// It waits, and says whether it stays.
fn waits(impostor: &Impostor, stays: bool) {
    let continuation = seal(b"a continuation", 0).expect("memory");
    let (waits, events_taken, published) = (Vec::new(), Vec::new(), Default::default());
    let message =
        FromWorker::Suspended { waits, until: None, events_taken, published, sent: false, few: Vec::new(), stays };
    impostor.message(&message, &[continuation.as_fd()]);
}

#[test]
fn a_worker_stays_only_if_it_may_and_goes_on_only_if_it_is_told_to() {
    let impostor = |residence: Residence| {
        let mut impostor = Impostor::new();
        (impostor.running.worker.suspendable, impostor.running.worker.residence) = (true, residence);
        impostor
    };
    let event = monohull_engine::Event { number: 7, name: "paid".to_owned(), bytes: b"17".to_vec() };
    let order = |events: &[monohull_engine::Event]| {
        let events = events.to_vec();
        GoOn { lineage: Default::default(), keeps_deadline: true, may_leave: false, events }
    };
    // What is long is attached.
    let (few, many) = (vec![event.clone()], vec![event; 1000]);
    // The control: it waits, goes on, and waits again.
    let mut allowed = impostor(Residence::May);
    assert!(!allowed.running.go_on(&order(&few)).expect("no error"), "it does not wait");
    for events in [&few, &many, &Vec::new()] {
        let order = order(events);
        waits(&allowed, true);
        assert!(matches!(allowed.running.next_message(), Ok(Some(Message::Suspended(run))) if run.stays));
        assert!(allowed.running.is_resident());
        assert!(allowed.running.go_on(&order).expect("sent") && !allowed.running.go_on(&order).expect("no error"));
        let packet = allowed.theirs.receive().expect("received").expect("a message");
        let Ok(ToWorker::GoOn { keeps_deadline: true, events: attached, few, .. }) = packet.read() else {
            panic!("an order")
        };
        assert_eq!((attached, packet.files.len()), (events.len() == 1000, usize::from(events.len() == 1000)));
        let given = packet.files.first().map_or_else(|| job::decode_events(&few), job::read_events);
        assert_eq!(given.as_ref(), Ok(events));
        allowed.message(&FromWorker::WentOn { goes_on: true }, &[]);
        assert!(matches!(allowed.running.next_message(), Ok(Some(Message::WentOn(true)))));
        assert!(!allowed.running.is_resident());
    }
    // What has stayed says nothing.
    waits(&allowed, true);
    assert!(matches!(allowed.running.next_message(), Ok(Some(Message::Suspended(_)))));
    allowed.message(&FromWorker::EventsTaken, &[]);
    assert!(!allowed.running.is_resident());
    let not_allowed = impostor(Residence::Never);
    waits(&not_allowed, true);
    not_allowed.refuses("that it stays, which was not asked for");
    for residence in [Residence::Never, Residence::May, Residence::Stays] {
        let impostor = impostor(residence);
        impostor.message(&FromWorker::WentOn { goes_on: true }, &[]);
        impostor.refuses("an answer to no order");
    }
    // An answer in the place of the one to the order.
    let mut impostor = impostor(Residence::May);
    waits(&impostor, true);
    assert!(matches!(impostor.running.next_message(), Ok(Some(Message::Suspended(_)))));
    assert!(impostor.running.go_on(&order(&few)).expect("sent"));
    impostor.message(&with_report(Vec::new()), &[]);
    impostor.refuses("a second answer");
}
