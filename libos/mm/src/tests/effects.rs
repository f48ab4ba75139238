//! The slots of effects: who may use them, what becomes of a request when its handler or its asker ends, and captures in between.

use super::*;
use monohull_abi::effect::{EffectPart, EffectSlot, FAILURE_FINGERPRINT, FAILURE_NAME, PerformId};
use monohull_abi::module::Wake;
use monohull_abi::types::TypeDesc;
use std::string::ToString;
use std::vec;

/// The request of A, which B handles.
const ID: PerformId = PerformId { asker: A, number: 7 };

fn slot(part: EffectPart, id: PerformId) -> String {
    EffectSlot { part, id }.to_string()
}

impl Mm {
    /// An instance asks, as the visor does it: the address of the request.
    fn ask(&self, id: PerformId, bytes: &[u8]) -> u64 {
        let address = self.alloc(id.asker, 64);
        self.poke(address, bytes);
        assert_eq!(self.hand_over(id, address, bytes.len() as u64), 0);
        address
    }

    fn hand_over(&self, id: PerformId, address: u64, count: u64) -> i64 {
        let name = slot(EffectPart::Request, id);
        let args = [id.asker.into(), address, count, name.as_ptr() as u64, name.len() as u64, 0];
        self.system(number::SLOT_GIVE, args)
    }

    /// What the visor does when the handler has ended, or with the report of a failure.
    fn reply(&self, id: PerformId, report: Option<&[u8]>) {
        let (name, fingerprint) = match report {
            None => (BYTES.name, BYTES.fingerprint),
            Some(_) => (FAILURE_NAME, FAILURE_FINGERPRINT),
        };
        let desc = TypeDesc { fingerprint, name: name.as_ptr() as u64, name_len: name.len() as u64, element_size: 1 };
        let desc_at = (&raw const desc) as u64;
        let (address, count) = match report {
            Some(report) => {
                let address = self.system(number::SLOT_ALLOC, [64, 1, 0, 0, 0, 0]) as u64;
                self.poke(address, report);
                (address, report.len() as u64)
            }
            None => {
                let answer = slot(EffectPart::Answer, id);
                let mut view = SlotView::default();
                let out = (&raw mut view) as u64;
                let args = [answer.as_ptr() as u64, answer.len() as u64, desc_at, out, TAKE_NOW, 0];
                assert_eq!(self.system(number::SLOT_TAKE, args), 0);
                (view.address, view.count)
            }
        };
        let to = slot(EffectPart::Reply, id);
        let args = [to.as_ptr() as u64, to.len() as u64, address, count, desc_at, 0];
        assert_eq!(self.system(number::SLOT_PUBLISH, args), 0);
    }

    fn drop_all_of(&self, asker: u32) {
        assert_eq!(self.system(number::EFFECTS_DROP, [asker.into(), 0, 0, 0, 0, 0]), 0);
    }
}

fn with_a_handler() -> Mm {
    let mm = Mm::start();
    mm.set_handler(B, ID.to_raw());
    mm
}

#[test]
fn a_buffer_goes_to_the_handler_and_back_without_a_copy() {
    let mm = with_a_handler();
    let address = mm.ask(ID, b"what");
    assert!(!mm.owns(A, address, 4), "it is the asker's no more");
    let (mut waits, out) = mm.prepare_take(A, &slot(EffectPart::Reply, ID), BYTES, 0);
    let Step::Parked { key, .. } = mm.step(&mut waits) else { panic!("there is no reply") };
    let request = mm.take(B, "request", BYTES).expect("its request");
    assert_eq!((request.address, request.count), (address, 4));
    assert_eq!(mm.take(B, "request", BYTES), Err(Errno::NotFound), "there is one");
    let (mut again, _) = mm.prepare_take(B, "request", BYTES, 0);
    assert_eq!(mm.step(&mut again), Step::Ready(Errno::NeverFilled.to_value()), "and none to wait for");
    mm.poke(address, b"that!");
    assert_eq!(mm.touch(B, address), 0);
    assert_eq!(mm.publish(B, "reply", address, 5, BYTES), 0);
    mm.take_woken();
    mm.end(B, Ending::Done);
    assert!(!mm.take_woken().contains(&key), "its handler has ended, and the reply has not been passed on");
    mm.reply(ID, None);
    assert!(mm.take_woken().contains(&key));
    waits.wake = Wake::Woken;
    assert_eq!(mm.step(&mut waits), Step::Ready(0));
    let view = mm.view(out);
    assert_eq!((view.address, view.count, mm.peek(address, 5)), (address, 5, b"that!".to_vec()));
    assert!(mm.end(A, Ending::Failed), "the asker keeps its inputs");
    assert_eq!(mm.stats(3).arena_buffers, 0, "a reply is no input, which would go back");
}

#[test]
fn the_report_of_a_failure_is_told_apart_from_a_reply() {
    let mm = with_a_handler();
    mm.ask(ID, b"what");
    mm.reply(ID, Some(b"no idea"));
    let (mut call, out) = mm.prepare_take(A, &slot(EffectPart::Reply, ID), BYTES, 0);
    assert_eq!(mm.step(&mut call), Step::Ready(1));
    let view = mm.view(out);
    assert_eq!(mm.peek(view.address, view.count as usize), b"no idea");
    assert_eq!(mm.free(A, view.address), 0);
    assert_eq!(mm.take(A, &slot(EffectPart::Reply, ID), BYTES), Err(Errno::NotFound), "it can be taken once");
}

/// No function names a slot of a request, but for the replies to its own; and a handler has no other request than its own.
#[test]
fn no_other_instance_reaches_a_request_or_its_reply() {
    let mm = with_a_handler();
    let address = mm.ask(ID, b"what");
    let own = mm.alloc(A, 8);
    for part in EffectPart::ALL {
        for id in [ID, PerformId { number: 8, ..ID }, PerformId { asker: B, ..ID }, PerformId { asker: 3, ..ID }] {
            let name = slot(part, id);
            for instance in [A, B, 3] {
                let errno = match part {
                    EffectPart::Reply if instance == id.asker => Errno::NotFound,
                    // There is no continuation that could be used.
                    EffectPart::Resume if instance == id.asker => Errno::NeverFilled,
                    _ => Errno::Invalid,
                };
                assert_eq!(mm.take(instance, &name, BYTES), Err(errno), "{name:?}, {instance}");
            }
            assert_eq!(mm.publish(A, &name, own, 1, BYTES), Errno::Invalid.to_value(), "none is forged");
        }
    }
    // Slots of these names are ordinary ones to all others.
    assert_eq!(mm.publish(A, "request", own, 1, BYTES), 0);
    assert_eq!(mm.take(3, "request", BYTES).map(|view| view.address), Ok(own));
    assert_eq!(mm.publish(3, "reply", own, 1, BYTES), 0);
    assert_eq!(mm.take(B, "request", BYTES).map(|view| view.address), Ok(address));
    assert_eq!(mm.take(B, "reply", BYTES).map(|view| view.address), Ok(own), "it takes no reply of its own");
    assert_eq!(mm.next(""), None, "they are no outputs, and nothing that was left unread");
}

#[test]
fn only_trusted_code_gives_a_buffer_of_another_away() {
    let mm = with_a_handler();
    let address = mm.alloc(A, 64);
    let name = mm.place(A, slot(EffectPart::Request, ID).as_bytes());
    for (call, args) in
        [(number::SLOT_GIVE, [A.into(), address, 1, name, 18, 0]), (number::EFFECTS_DROP, [B.into(), 0, 0, 0, 0, 0])]
    {
        assert_eq!(mm.call(A, call, args), Errno::NotPermitted.to_value());
    }
    for (id, address, count, errno) in [
        (PerformId { asker: B, ..ID }, address, 1, Errno::Fault),
        (ID, address + 8, 1, Errno::Fault),
        (ID, 0, 1, Errno::Fault),
        (ID, address, 4097, Errno::Invalid),
        (ID, address, u64::MAX, Errno::Invalid),
    ] {
        assert_eq!(mm.hand_over(id, address, count), errno.to_value());
    }
    assert!(mm.pin(A, address, 8));
    assert_eq!(mm.hand_over(ID, address, 1), Errno::Busy.to_value());
    mm.unpin(address);
    assert_eq!(mm.hand_over(ID, address, 64), 0);
}

#[test]
fn a_handler_that_fails_is_tried_again_with_the_same_request() {
    let mm = with_a_handler();
    let address = mm.ask(ID, b"what");
    mm.take(B, "request", BYTES).expect("its request");
    assert_eq!(mm.free(B, address), 0);
    assert_eq!(mm.publish(B, "reply", mm.alloc(B, 8), 1, BYTES), 0);
    assert!(mm.end(B, Ending::Failed), "it has not written to it");
    mm.set_handler(3, ID.to_raw());
    let request = mm.take(3, "request", BYTES).expect("it has come back");
    assert_eq!(mm.peek(request.address, 4), b"what");
    assert_eq!(mm.publish(3, "reply", mm.alloc(3, 8), 1, BYTES), 0, "what the first has filled is withdrawn");
    // An input that its asker has given away as a request is not there for another attempt of the asker.
    let input = mm.alloc(4, 64);
    assert_eq!(mm.publish(4, "in", input, 1, BYTES), 0);
    mm.end(4, Ending::Done);
    let taken = mm.take(A, "in", BYTES).expect("an input").address;
    let second = PerformId { number: 8, ..ID };
    assert_eq!(mm.hand_over(second, taken, 1), 0);
    mm.set_handler(5, second.to_raw());
    mm.take(5, "request", BYTES).expect("the input");
    assert!(!mm.end(A, Ending::Failed));
}

#[test]
fn nothing_is_left_of_requests_whose_asker_has_ended() {
    for ending in [Ending::Done, Ending::Failed] {
        let mm = with_a_handler();
        for number in 1..=3 {
            mm.ask(PerformId { number, ..ID }, b"what");
        }
        mm.ask(PerformId { asker: 3, number: 1 }, b"what another asks");
        mm.set_handler(B, PerformId { number: 1, ..ID }.to_raw());
        mm.take(B, "request", BYTES).expect("its request");
        mm.set_handler(4, PerformId { number: 2, ..ID }.to_raw());
        assert_eq!(mm.publish(4, "reply", mm.alloc(4, 8), 1, BYTES), 0);
        mm.end(4, Ending::Done);
        mm.reply(PerformId { number: 2, ..ID }, None);
        mm.end(A, ending);
        mm.drop_all_of(A);
        mm.end(B, Ending::Failed);
        mm.drop_all_of(A);
        assert_eq!(mm.stats(5).arena_buffers, 1, "that of another is there");
        mm.drop_all_of(3);
        assert_eq!(mm.stats(5).arena_buffers, 0);
    }
}

/// A request is captured wherever it is, and goes on from there.
#[test]
fn a_capture_has_requests_answers_and_replies() {
    let mm = with_a_handler();
    let (first, second, third) = (ID, PerformId { number: 8, ..ID }, PerformId { number: 9, ..ID });
    mm.ask(first, b"first");
    mm.ask(second, b"second");
    mm.ask(third, b"third");
    mm.take(B, "request", BYTES).expect("the first request");
    mm.set_handler(3, second.to_raw());
    let request = mm.take(3, "request", BYTES).expect("the second request").address;
    assert_eq!(mm.publish(3, "reply", request, 6, BYTES), 0);
    let captured = mm.capture().expect("it is at rest");
    drop(mm);
    let mm = Mm(Domain::resume(&[&MONOHULL_MODULE], &captured).expect("a record of our own"));
    for (instance, id) in [(B, first), (3, second), (4, third)] {
        mm.set_handler(instance, id.to_raw());
    }
    assert_eq!(mm.take(4, "request", BYTES).map(|view| mm.peek(view.address, 5)), Ok(b"third".to_vec()));
    mm.end(3, Ending::Done);
    mm.reply(second, None);
    let reply = mm.take(A, &slot(EffectPart::Reply, second), BYTES).expect("the reply");
    assert_eq!(mm.peek(reply.address, 6), b"second");
    assert!(mm.end(B, Ending::Failed));
    mm.set_handler(5, first.to_raw());
    assert_eq!(mm.take(5, "request", BYTES).map(|view| mm.peek(view.address, 5)), Ok(b"first".to_vec()));
    assert_eq!(vec![mm.charged(B), mm.charged(3)], [0, 0]);
}
