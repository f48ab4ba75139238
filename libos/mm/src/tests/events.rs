//! Events: their order, which instances may take them, and where each is when the domain is captured.

use super::*;
use crate::events::key_of;
use monohull_abi::event::{EventSlot, EventState};
use monohull_abi::module::{NEVER, Wake};
use monohull_abi::types::TypeDesc;
use std::string::ToString;
use std::vec;

impl Mm {
    /// Gives an event, as the visor does.
    fn give(&self, name: &str, number: u64, bytes: &[u8]) {
        let address = self.system(number::SLOT_ALLOC, [64, 1, 0, 0, 0, 0]) as u64;
        self.poke(address, bytes);
        let slot = EventSlot { name, number, state: EventState::Given }.to_string();
        let desc = TypeDesc {
            fingerprint: BYTES.fingerprint,
            name: BYTES.name.as_ptr() as u64,
            name_len: BYTES.name.len() as u64,
            element_size: BYTES.size,
        };
        let (at, desc) = (slot.as_ptr() as u64, (&raw const desc) as u64);
        assert_eq!(self.system(number::SLOT_PUBLISH, [at, slot.len() as u64, address, bytes.len() as u64, desc, 0]), 0);
    }

    fn prepare_event(&self, instance: u32, name: &str, deadline: u64) -> (Call, u64) {
        let at = self.place(instance, name.as_bytes());
        let out = self.place(instance, &[0xff; 24]);
        (self.prepare(instance, number::EVENT_WAIT, [at, name.len() as u64, out, deadline, 0, 0]), out)
    }

    /// What the next event of a name says.
    fn event(&self, instance: u32, name: &str) -> Result<(u64, Vec<u8>), Errno> {
        let (mut call, out) = self.prepare_event(instance, name, 0);
        match self.step(&mut call) {
            Step::Ready(value) => Errno::from_value(value).map(|_| {
                let view = self.view(out);
                (view.address, self.peek(view.address, view.count as usize))
            }),
            parked => panic!("{parked:?}"),
        }
    }

    fn said(&self, instance: u32, name: &str) -> Option<Vec<u8>> {
        self.event(instance, name).ok().map(|(_, bytes)| bytes)
    }
}

#[test]
fn events_of_a_name_are_taken_in_their_order() {
    let mm = Mm::start();
    mm.open_events();
    for (name, number, bytes) in
        [("b", 9, &b"9"[..]), ("a", 10, b"10"), ("ab", 1, b""), ("a", 11, b"11"), ("a", 2, b"2")]
    {
        mm.give(name, number, bytes);
    }
    assert_eq!(
        (mm.said(A, "a"), mm.said(B, "a"), mm.said(A, "a")),
        (Some(b"2".into()), Some(b"10".into()), Some(b"11".into()))
    );
    assert_eq!(mm.event(A, "a"), Err(Errno::TimedOut));
    assert_eq!((mm.said(A, "ab"), mm.said(B, "b")), (Some(Vec::new()), Some(b"9".into())));
    assert_eq!(mm.passed(A).taken, 3);
}

/// Of several names the event that was sent first is taken; the answer is its place in the list.
#[test]
fn the_first_of_several_events_is_the_one_that_was_sent_first() {
    let mm = Mm::start();
    mm.open_events();
    for (name, number, bytes) in [("b", 3, &b"3"[..]), ("a", 5, b"5"), ("c", 1, b"1"), ("a", 4, b"4")] {
        mm.give(name, number, bytes);
    }
    let take = |names: &str| {
        let (mut call, out) = mm.prepare_event(A, names, 0);
        let Step::Ready(value) = mm.step(&mut call) else { panic!("it does not wait") };
        let view = mm.view(out);
        (value, (value >= 0).then(|| mm.peek(view.address, view.count as usize)))
    };
    assert_eq!(take("a\nb"), (1, Some(vec![b'3'])));
    assert_eq!(take("x\na\na"), (1, Some(vec![b'4'])), "the first place of a name that is there twice");
    assert_eq!(take("b\nx"), (Errno::TimedOut.to_value(), None), "others are not taken");
    // What has come back goes before newer ones.
    mm.give("b", 6, b"6");
    mm.end(A, Ending::Failed);
    assert_eq!(take("c\nb\na"), (1, Some(vec![b'3'])), "of those that have come back the first as well");
    assert_eq!(
        (mm.said(B, "a"), mm.said(B, "a"), mm.said(B, "b")),
        (Some(vec![b'4']), Some(vec![b'5']), Some(vec![b'6']))
    );
    assert_eq!(mm.said(B, "c"), Some(vec![b'1']));
    for bad in ["a\n", "\na", "a\n\nb", "a\n\0", &["a"; 17].join("\n")] {
        assert_eq!(take(bad), (Errno::Invalid.to_value(), None), "{bad:?}");
    }
}

#[test]
fn a_wait_for_several_events_is_woken_by_each() {
    let mm = Mm::start();
    mm.open_events();
    let (mut call, out) = mm.prepare_event(A, "a\nb", 1500);
    assert_eq!(mm.step(&mut call), Step::Parked { key: key_of("\n"), deadline: 1500 });
    for (number, name) in [(1, "x"), (2, "b")] {
        mm.take_woken();
        mm.give(name, number, b"said");
        assert!(mm.take_woken().contains(&key_of("\n")), "{name}");
        call.wake = Wake::Woken;
        let step = mm.step(&mut call);
        match name {
            "b" => assert_eq!((step, mm.view(out).count), (Step::Ready(1), 4)),
            _ => assert_eq!(step, Step::Parked { key: key_of("\n"), deadline: 1500 }, "it waits on"),
        }
    }
    // One that comes back wakes it as well.
    let (mut call, _) = mm.prepare_event(B, "a\nb", NEVER);
    mm.step(&mut call);
    mm.take_woken();
    mm.end(A, Ending::Failed);
    assert!(mm.take_woken().contains(&key_of("\n")));
    let (mut call, _) = mm.prepare_event(B, "c\nd", NEVER);
    call.wake = Wake::Deadlock;
    assert_eq!(mm.step(&mut call), Step::Ready(Errno::Deadlock.to_value()));
    assert!(mm.explained().starts_with("event `c` or `d` cannot arrive"), "{}", mm.explained());
}

#[test]
fn a_buffer_of_an_event_is_the_takers_own() {
    let mm = Mm::start();
    mm.open_events();
    mm.give("a", 1, b"said");
    let (address, bytes) = mm.event(A, "a").unwrap();
    assert!(bytes == b"said" && mm.owns(A, address, PAGE) && !mm.owns(B, address, 1));
    assert_eq!(mm.stats(A).owned, PAGE);
    assert_eq!(mm.publish(A, "on", address, 4, BYTES), 0, "it can be passed on");
    assert_eq!(mm.take(B, "on", BYTES).unwrap().address, address);
    assert_eq!(mm.free(B, address), 0);
}

#[test]
fn a_wait_parks_until_an_event_or_its_deadline() {
    let mm = Mm::start();
    mm.open_events();
    mm.set_time(1000, 0);
    let (mut call, out) = mm.prepare_event(A, "a", 1500);
    assert_eq!(mm.step(&mut call), Step::Parked { key: key_of("a"), deadline: 1500 });
    assert_eq!(call.scratch, [0; 4], "nothing is kept between two runs");
    mm.give("b", 1, b"");
    assert!(!mm.take_woken().contains(&key_of("a")));
    // Woken for nothing: it waits on, for no longer than before.
    mm.set_time(1200, 0);
    call.wake = Wake::Woken;
    assert_eq!(mm.step(&mut call), Step::Parked { key: key_of("a"), deadline: 1500 });
    mm.give("a", 2, b"late, but there");
    assert_eq!(mm.take_woken(), [key_of("a"), key_of("\n")]);
    // An event that is there goes before a deadline that has passed.
    call.wake = Wake::TimedOut;
    assert_eq!(mm.step(&mut call), Step::Ready(0));
    assert_eq!(mm.view(out).count, 15);
    let (mut call, _) = mm.prepare_event(A, "a", NEVER);
    assert_eq!(mm.step(&mut call), Step::Parked { key: key_of("a"), deadline: NEVER });
    call.wake = Wake::Deadlock;
    assert_eq!(mm.step(&mut call), Step::Ready(Errno::Deadlock.to_value()));
    assert!(mm.explained().contains("the workflow cannot be suspended"), "{}", mm.explained());
    let (mut call, _) = mm.prepare_event(A, "a", 1200);
    assert_eq!(mm.step(&mut call), Step::Ready(Errno::TimedOut.to_value()), "that is now");
}

#[test]
fn who_cannot_receive_events_gets_those_that_are_there_and_no_others() {
    let mm = Mm::start();
    mm.give("a", 1, b"x");
    assert_eq!(mm.said(A, "a"), Some(b"x".into()));
    for deadline in [0, NEVER] {
        let (mut call, _) = mm.prepare_event(A, "a", deadline);
        assert_eq!(mm.step(&mut call), Step::Ready(Errno::NotPermitted.to_value()));
        assert!(mm.explained().contains("this run receives none"), "{}", mm.explained());
    }
}

#[test]
fn events_are_no_slots() {
    let mm = Mm::start();
    mm.open_events();
    mm.give("a", 1, b"x");
    let address = mm.alloc(A, 8);
    for state in [EventState::Given, EventState::Taken] {
        let slot = EventSlot { name: "a", number: 1, state }.to_string();
        assert_eq!(mm.take(A, &slot, BYTES), Err(Errno::Invalid));
        assert_eq!(mm.publish(A, &slot, address, 1, BYTES), Errno::Invalid.to_value(), "none is forged");
    }
    assert_eq!(mm.next(""), None, "they are no outputs, and nothing that was left unread");
    assert_eq!(mm.said(A, "a"), Some(b"x".into()));
}

#[test]
fn an_instance_that_fails_gives_back_what_it_took() {
    let mm = Mm::start();
    mm.open_events();
    for number in 1..=3 {
        mm.give("a", number, &[number as u8]);
    }
    let (first, _) = mm.event(A, "a").unwrap();
    mm.event(A, "a").unwrap();
    assert_eq!(mm.free(A, first), 0);
    let (mut waiter, _) = mm.prepare_event(B, "other", NEVER);
    mm.step(&mut waiter);
    mm.take_woken();
    mm.end(A, Ending::Failed);
    assert!(mm.take_woken().contains(&key_of("a")), "others may wait for it");
    let said: Vec<_> = std::iter::from_fn(|| mm.said(B, "a")).collect();
    assert_eq!(said, [[1], [2], [3]], "in their old order, and each once");
    mm.end(B, Ending::Done);
    assert_eq!(mm.event(3, "a"), Err(Errno::TimedOut), "an instance that has finished its work gives nothing back");
}

/// What is retained is in each checkpoint of an instance that takes events for years.
#[test]
fn little_is_retained_for_another_attempt() {
    let mm = Mm::start();
    mm.open_events();
    for number in 0..600 {
        mm.give("a", number, b"x");
        let (address, _) = mm.event(A, "a").unwrap();
        assert_eq!(mm.free(A, address), 0);
        assert!(mm.stats(A).owned <= 1 << 20, "{number}");
    }
    assert_eq!(mm.stats(A).owned, 0, "nothing is retained once that is of no use");
}

/// An event is in the mailbox or in the continuation, and never in both.
#[test]
fn a_capture_has_what_was_taken_and_nothing_else() {
    let mm = Mm::start();
    mm.open_events();
    for number in 1..=4 {
        mm.give("a", number, &[number as u8]);
    }
    mm.event(A, "a").unwrap();
    mm.event(B, "a").unwrap();
    // Comes back before the capture.
    mm.end(B, Ending::Failed);
    let captured = mm.capture().unwrap();
    drop(mm);
    let mm = Mm(Domain::resume(&[&MONOHULL_MODULE], &captured).unwrap());
    mm.open_events();
    assert_eq!(mm.stats(A).arena_buffers, 2);
    // The mailbox gives again what was not taken.
    mm.give("a", 3, &[3]);
    assert_eq!((mm.said(3, "a"), mm.said(3, "a"), mm.said(3, "a")), (Some(vec![2]), Some(vec![3]), None));
    // What was taken before the capture comes back after it as well.
    mm.end(A, Ending::Failed);
    assert_eq!(mm.said(3, "a"), Some(vec![1]));
}
