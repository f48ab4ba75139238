//! Continuations: which instance may use one, what becomes of it when it is dropped or what waits ends, and captures in between.

use super::records::{moved, resume};
use super::*;
use crate::continuation_record::ContinuationRecord;
use crate::record::{BufferRecord, OwnerRecord, SlotRecord, TableRecord};
use monohull_abi::continuation::{CONTINUATION_FINGERPRINT, CONTINUATION_NAME, CONTINUATIONS_MAX};
use monohull_abi::effect::{EffectPart, EffectSlot, PerformId};
use monohull_abi::module::Ending::{Done, Failed};
use monohull_abi::module::{SYSTEM_INSTANCE, Wake};
use monohull_module_testing::Captured;
use std::format;
use std::string::ToString;

const TOKEN: Type = Type { name: CONTINUATION_NAME, fingerprint: CONTINUATION_FINGERPRINT, size: 1 };
const C: u32 = 3;

impl Mm {
    /// A new continuation: its address, and the slot of what it is used with.
    fn continuation(&self, instance: u32) -> (u64, String) {
        let out = self.place(instance, &[0xff; 18]);
        let address = self.call(instance, number::CONTINUATION, [out, 0, 0, 0, 0, 0]);
        assert!(address > 0, "{address} {}", self.explained());
        (address as u64, String::from_utf8(self.peek(out, 18)).expect("a name"))
    }

    fn resume(&self, by: u32, continuation: u64, value: u64, count: u64) -> i64 {
        self.call(by, number::RESUME, [continuation, value, count, 0, 0, 0])
    }

    /// Uses one with these bytes.
    fn resume_with(&self, by: u32, continuation: u64, bytes: &[u8]) -> i64 {
        let value = self.alloc(by, bytes.len() as u64);
        self.poke(value, bytes);
        self.resume(by, continuation, value, bytes.len() as u64)
    }

    /// A continuation of `waiter` in the slot "next", and the wait: the slot, the call and its key.
    fn waits(&self, waiter: u32) -> Waits {
        let (address, slot) = self.continuation(waiter);
        assert_eq!(self.publish(waiter, "next", address, 1, TOKEN), 0);
        let (mut call, out) = self.prepare_take(waiter, &slot, BYTES, 0);
        let Step::Parked { key, .. } = self.step(&mut call) else { panic!("there is nothing") };
        self.take_woken();
        Waits { address, slot, call, out, key }
    }

    /// The next owner takes it from the slot "next".
    fn take_next(&self, by: u32) -> u64 {
        self.take(by, "next", TOKEN).expect("a continuation").address
    }

    /// What the wait ends with, if it has been woken.
    fn came(&self, waits: &mut Waits) -> Option<Result<Vec<u8>, String>> {
        let is_woken = self.take_woken().contains(&waits.key);
        waits.call.wake = Wake::Woken;
        let step = self.step(&mut waits.call);
        assert_eq!(is_woken, matches!(step, Step::Ready(_)), "{step:?}");
        match step {
            Step::Parked { .. } => None,
            Step::Ready(0) => {
                let view = self.view(waits.out);
                Some(Ok(self.peek(view.address, view.count as usize)))
            }
            Step::Ready(value) => {
                assert_eq!(value, Errno::NeverFilled.to_value());
                Some(Err(self.explained()))
            }
        }
    }
}

struct Waits {
    address: u64,
    slot: String,
    call: Call,
    out: u64,
    key: u64,
}

const GONE: &str =
    "the continuation is gone: it was freed unused, its last owner has ended, or what had used it has failed";

fn gone() -> Option<Result<Vec<u8>, String>> {
    Some(Err(GONE.to_string()))
}

#[test]
fn a_value_goes_to_what_waits_and_a_continuation_is_used_once() {
    let mm = Mm::start();
    let mut waits = mm.waits(A);
    assert!(!mm.owns(A, waits.address, 1), "it has been given away");
    let continuation = mm.take_next(B);
    assert_eq!(continuation, waits.address);
    assert_eq!(mm.came(&mut waits), None);
    let value = mm.alloc(B, 100);
    mm.poke(value, b"value");
    assert_eq!(mm.resume(B, continuation, value, 5), 0);
    assert!(!mm.owns(B, value, 1) && !mm.owns(B, continuation, 1));
    for _ in 0..2 {
        assert_eq!(mm.resume_with(B, continuation, b"again"), Errno::Fault.to_value());
    }
    assert_eq!(mm.came(&mut waits), Some(Ok(b"value".to_vec())));
    assert_eq!(mm.view(waits.out).address, value, "it is not copied");
    assert_eq!(mm.take(A, &waits.slot, BYTES), Err(Errno::NeverFilled), "it comes once");
    assert!(!mm.end(B, Failed), "what has used a continuation is not repeated alone");
    assert!(!mm.end(A, Failed), "nor is what has handed one on");
    assert_eq!((mm.stats(C).arena_buffers, mm.charged(A), mm.charged(B)), (0, 0, 0));
}

#[test]
fn a_continuation_goes_through_several_owners() {
    let mm = Mm::start();
    let mut waits = mm.waits(A);
    let continuation = mm.take_next(B);
    assert_eq!(mm.publish(B, "next", continuation, 1, TOKEN), 0);
    mm.end(B, Done);
    assert_eq!(mm.came(&mut waits), None, "the slot has it");
    assert_eq!(mm.resume_with(B, continuation, b"mine"), Errno::Fault.to_value(), "it has given it away");
    let continuation = mm.take_next(C);
    // Larger, at another address, and with other bytes: it is what it was.
    let moved = mm.resize(C, continuation, 9 * PAGE) as u64;
    mm.poke(moved, &[0xff; 64]);
    assert_eq!(mm.resume_with(C, moved, b"third"), 0);
    assert_eq!(mm.came(&mut waits), Some(Ok(b"third".to_vec())));
}

#[test]
fn a_continuation_that_is_dropped_ends_the_wait() {
    // What its owner does, and whether the wait ends only with the owner.
    type Drops = fn(&Mm, u64);
    let discard: Drops = |mm, continuation| {
        assert_eq!(mm.touch(B, continuation), 0);
        assert_eq!(mm.free(B, continuation), 0);
    };
    let free: Drops = |mm, continuation| assert_eq!(mm.free(B, continuation), 0);
    let keep: Drops = |_, _| {};
    for (drops, at_once) in [(discard, true), (free, false), (keep, false)] {
        let mm = Mm::start();
        let mut waits = mm.waits(A);
        drops(&mm, mm.take_next(B));
        if !at_once {
            assert_eq!(mm.came(&mut waits), None, "another attempt of the owner might use it");
            mm.end(B, Done);
        }
        assert_eq!(mm.came(&mut waits), gone());
        assert_eq!(mm.take(A, &waits.slot, BYTES), Err(Errno::NeverFilled), "also without waiting");
    }
    // Its own, before it waits.
    let mm = Mm::start();
    let (address, slot) = mm.continuation(A);
    assert_eq!(mm.free(A, address), 0);
    let (mut call, _) = mm.prepare_take(A, &slot, BYTES, 0);
    assert_eq!(mm.step(&mut call), Step::Ready(Errno::NeverFilled.to_value()));
    assert_eq!(mm.explained(), GONE);
}

#[test]
fn freed_inputs_that_are_given_up_for_memory_end_the_wait() {
    let mm = Mm::start();
    let mut waits = mm.waits(A);
    let continuation = mm.take_next(B);
    mm.set_limit(B, 2 * PAGE);
    assert_eq!(mm.free(B, continuation), 0);
    assert_eq!(mm.came(&mut waits), None);
    mm.alloc(B, 2 * PAGE);
    assert_eq!(mm.came(&mut waits), gone());
}

#[test]
fn an_owner_that_fails_gives_a_continuation_back() {
    let mm = Mm::start();
    let mut waits = mm.waits(A);
    let continuation = mm.take_next(B);
    assert!(mm.end(B, Failed), "it has not used it");
    assert_eq!(mm.came(&mut waits), None);
    assert_eq!(mm.take_next(C), continuation);
    assert_eq!(mm.free(C, continuation), 0);
    assert!(mm.end(C, Failed));
    assert_eq!(mm.take_next(4), continuation);
    assert_eq!(mm.resume_with(4, continuation, b"fourth"), 0);
    assert_eq!(mm.came(&mut waits), Some(Ok(b"fourth".to_vec())));
}

/// Its slot is filled again meanwhile, or its pages keep the key of the owner that has failed.
#[test]
fn a_continuation_that_cannot_be_given_back_ends_the_wait() {
    let mm = Mm::start();
    let mut waits = mm.waits(A);
    mm.take_next(B);
    assert_eq!(mm.publish(C, "next", mm.alloc(C, 1), 1, BYTES), 0);
    assert!(!mm.end(B, Failed));
    assert_eq!(mm.came(&mut waits), gone());
    drop(mm);
    let mm = Mm::start();
    let mut waits = mm.waits(A);
    mm.take_next(B);
    mm.refuse_to_assign(true);
    assert!(!mm.end(B, Failed));
    mm.refuse_to_assign(false);
    assert_eq!(mm.came(&mut waits), gone());
}

#[test]
fn what_comes_from_an_instance_that_fails_is_withdrawn() {
    let mm = Mm::start();
    let mut waits = mm.waits(A);
    let continuation = mm.take_next(B);
    assert_eq!(mm.resume_with(B, continuation, b"value"), 0);
    assert!(!mm.end(B, Failed));
    assert_eq!(mm.came(&mut waits), gone());
    assert_eq!(mm.stats(C).arena_buffers, 0);
}

#[test]
fn the_end_of_what_waits_is_told_by_name() {
    for ending in [Done, Failed] {
        let mm = Mm::start();
        mm.waits(A);
        let continuation = mm.take_next(B);
        let (used, _) = mm.continuation(A);
        assert_eq!(mm.resume_with(A, used, b"not taken"), 0);
        mm.end(A, ending);
        let value = mm.alloc(B, 8);
        assert_eq!(mm.resume(B, continuation, value, 8), Errno::NotFound.to_value());
        assert_eq!(mm.explained(), "step[1], which waited for this continuation, has ended");
        assert!(mm.owns(B, continuation, 1) && mm.owns(B, value, 8), "nothing has changed");
        assert_eq!((mm.free(B, value), mm.free(B, continuation)), (0, 0));
        mm.end(B, Done);
        assert_eq!(mm.stats(C).arena_buffers, 0, "what was not taken is gone");
    }
}

/// Neither bytes nor numbers nor names are a continuation, and one of another owner is none.
#[test]
fn continuations_are_not_forged() {
    let mm = Mm::start();
    let mut waits = mm.waits(A);
    let value = mm.alloc(B, 64);
    let refused = |continuation: u64| {
        assert_eq!(mm.resume(B, continuation, value, 1), Errno::Fault.to_value(), "{continuation:#x}");
        let why = format!("{continuation:#x} is not the address of a continuation that the caller owns");
        assert_eq!(mm.explained(), why);
    };
    let forged = mm.alloc(C, 1);
    mm.poke(forged, waits.slot.as_bytes());
    assert_eq!(mm.publish(C, "forged", forged, 1, TOKEN), 0);
    assert_eq!(mm.take(B, "forged", TOKEN).map(|view| view.address), Ok(forged), "its type is a name like any other");
    for continuation in [0, 1, waits.address, waits.address + 8, forged, value, 1 << 32 | 1, u64::MAX, i64::MIN as u64]
    {
        refused(continuation);
    }
    let continuation = mm.take_next(B);
    refused(continuation + 8);
    for value in [0, 1, value + 8, 1 << 32, u64::MAX] {
        assert_eq!(mm.resume(B, continuation, value, 1), Errno::Fault.to_value());
    }
    for count in [PAGE + 1, u64::MAX] {
        assert_eq!(mm.resume(B, continuation, value, count), Errno::Invalid.to_value());
    }
    let name = &*waits.slot;
    for by in [B, C] {
        assert_eq!(mm.take(by, name, BYTES), Err(Errno::Invalid), "its slot is what waits's alone");
        assert_eq!(mm.publish(by, name, value, 1, BYTES), Errno::Invalid.to_value());
    }
    assert_eq!(mm.came(&mut waits), None);
    for call in [number::CONTINUATION, number::RESUME] {
        let args = [value, value, 1, 0, 0, 0];
        assert_eq!(mm.system(call, args), Errno::NotPermitted.to_value(), "trusted code has none");
    }
    assert_eq!(mm.resume(B, continuation, value, 1), 0, "the positive control");
}

#[test]
fn a_continuation_changes_hands_in_a_slot_alone() {
    let mm = Mm::start();
    let mut waits = mm.waits(A);
    let (continuation, own) = (mm.take_next(B), mm.continuation(B).0);
    for value in [continuation, own] {
        assert_eq!(mm.resume(B, continuation, value, 1), Errno::NotPermitted.to_value());
        assert!(mm.explained().starts_with("a continuation is handed on in a slot"), "{}", mm.explained());
    }
    let id = PerformId { asker: B, number: 1 };
    let request = EffectSlot { part: EffectPart::Request, id }.to_string();
    let args = [B.into(), continuation, 1, request.as_ptr() as u64, request.len() as u64, 0];
    assert_eq!(mm.system(number::SLOT_GIVE, args), Errno::NotPermitted.to_value());
    mm.set_handler(B, id.to_raw());
    assert_eq!(mm.publish(B, "reply", continuation, 1, TOKEN), Errno::NotPermitted.to_value());
    assert_eq!(mm.publish(B, "next", continuation, 1, TOKEN), 0);
    let continuation = mm.take_next(C);
    assert_eq!(mm.resume_with(C, continuation, b"value"), 0);
    assert_eq!(mm.came(&mut waits), Some(Ok(b"value".to_vec())));
}

#[test]
fn buffers_in_use_are_not_used() {
    let mm = Mm::start();
    mm.waits(A);
    let (continuation, value) = (mm.take_next(B), mm.alloc(B, 8));
    for pinned in [continuation, value] {
        assert!(mm.pin(B, pinned, 1));
        assert_eq!(mm.resume(B, continuation, value, 8), Errno::Busy.to_value());
        mm.unpin(pinned);
    }
    assert_eq!(mm.resume(B, continuation, value, 8), 0);
}

#[test]
fn there_are_as_many_as_may_be() {
    let mm = Mm::start();
    let made: Vec<_> = (0..CONTINUATIONS_MAX).map(|_| mm.continuation(A)).collect();
    let out = mm.place(A, &[0; 18]);
    let one_more = || mm.call(A, number::CONTINUATION, [out, 0, 0, 0, 0, 0]);
    let buffers = mm.stats(A).arena_buffers;
    let full = || {
        assert_eq!(one_more(), Errno::TooMany.to_value());
        assert_eq!(mm.explained(), "an instance has at most 64 continuations that it still waits for");
        assert_eq!(mm.stats(A).arena_buffers, buffers, "there is no buffer left of it");
    };
    full();
    assert!(mm.continuation(B).0 > 0, "another has its own");
    assert_eq!(mm.free(B, mm.held(B)[0].0), 0);
    // One that was used counts until the value is taken.
    let (continuation, slot) = &made[7];
    assert_eq!(mm.resume_with(A, *continuation, b"7"), 0);
    full();
    assert_eq!(mm.take(A, slot, BYTES).map(|view| mm.free(A, view.address)), Ok(0));
    assert!(one_more() > 0);
    full();
    assert_eq!(mm.free(A, made[0].0), 0);
    assert!(one_more() > 0, "and one that is dropped counts no more");
    let names: std::collections::BTreeSet<_> = made.iter().map(|(_, slot)| slot).collect();
    assert_eq!(names.len(), CONTINUATIONS_MAX);
}

#[test]
fn a_bad_address_for_the_name_leaves_no_buffer() {
    let mm = Mm::start();
    mm.alloc(A, 1);
    for out in [0, 1, monohull_abi::layout::cell_base(2), u64::MAX - 4, (&raw const mm) as u64] {
        assert_eq!(mm.call(A, number::CONTINUATION, [out, 0, 0, 0, 0, 0]), Errno::Fault.to_value());
    }
    assert_eq!(mm.held(A).len(), 1);
}

#[test]
fn continuations_are_captured_wherever_they_are() {
    let mm = Mm::start();
    // Held, in a slot, freed but kept, used but not taken; and one of an instance that has ended.
    let (held, in_slot, kept, used) = (mm.continuation(A), mm.continuation(A), mm.continuation(A), mm.continuation(A));
    let dead = mm.continuation(4);
    for (number, (address, _)) in [&held, &in_slot, &kept, &used, &dead].into_iter().enumerate() {
        let by = if number == 4 { 4 } else { A };
        assert_eq!(mm.publish(by, &format!("next.{number}"), *address, 1, TOKEN), 0);
    }
    for number in [0, 2, 3, 4] {
        mm.take(B, &format!("next.{number}"), TOKEN).expect("a continuation");
    }
    assert_eq!(mm.free(B, kept.0), 0);
    mm.end(4, Done);
    let mm = moved(mm);
    assert_eq!(mm.resume_with(B, dead.0, b"dead"), Errno::NotFound.to_value());
    assert_eq!(mm.explained(), "step[4], which waited for this continuation, has ended");
    let before = mm.take(A, &used.1, BYTES);
    assert_eq!(before, Err(Errno::NotFound), "it can still be used");
    // Moved once more with the value in its slot.
    mm.take(C, "next.1", TOKEN).expect("a continuation");
    let mm = moved(mm);
    assert_eq!(mm.resume_with(C, in_slot.0, b"from its slot"), 0);
    let mm = moved(mm);
    assert_eq!(mm.take(A, &in_slot.1, BYTES).map(|view| mm.peek(view.address, 13)), Ok(b"from its slot".to_vec()));
    assert_eq!(mm.resume_with(B, held.0, b"held"), 0);
    assert_eq!(mm.take(A, &held.1, BYTES).map(|view| mm.peek(view.address, 4)), Ok(b"held".to_vec()));
    assert_eq!(mm.take(A, &kept.1, BYTES), Err(Errno::NeverFilled), "B's inputs are not kept any more");
    let names = [&held.1, &in_slot.1, &kept.1, &used.1];
    assert!(!names.contains(&&mm.continuation(A).1), "no name is used again");
    assert_eq!(mm.resume_with(B, used.0, b"used"), 0);
    assert_eq!(mm.take(A, &used.1, BYTES).map(|view| mm.peek(view.address, 4)), Ok(b"used".to_vec()));
}

/// Puts an edited table in place of the record's.
fn edit(captured: &Captured, change: impl FnOnce(&mut TableRecord<'_>)) -> Captured {
    const VERSION: usize = 4;
    let mut edited = captured.clone();
    let mut table: TableRecord<'_> = postcard::from_bytes(&captured.records[0][VERSION..]).unwrap();
    change(&mut table);
    edited.records[0].truncate(VERSION);
    edited.records[0].extend(postcard::to_allocvec(&table).unwrap());
    edited
}

fn slot(name: &str, producer: u32) -> SlotRecord<'_> {
    SlotRecord {
        name,
        type_name: "[u8]",
        count: 1,
        element_size: 1,
        fingerprint: BYTES_FINGERPRINT,
        producer,
        taken: true,
    }
}

#[test]
fn every_mark_that_lies_is_refused() {
    let mm = Mm::start();
    let own = mm.alloc(A, 1);
    let waits = mm.waits(A);
    mm.take_next(B);
    let second = mm.continuation(A).0;
    let captured = mm.capture().expect("it is at rest");
    drop(mm);
    // The buffers: A's own, its continuation that B has, its second one. The continuations: these two.
    let [plain, taken] = [0, 1];
    let refuse = |words: &str, change: &dyn Fn(&mut TableRecord<'_>)| {
        let refused = resume(&edit(&captured, change)).err().unwrap_or_else(|| panic!("not refused: {words}"));
        assert!(refused.contains(words), "{refused:?} has no {words:?}");
    };
    for asker in [77, SYSTEM_INSTANCE, 0] {
        refuse("waits for its continuation 1", &|table| table.continuations[0].asker = asker);
    }
    refuse("two slot buffers are its continuation 1", &|table| table.continuations[1].number = 1);
    refuse("are not in order", &|table| table.continuations[1].page = table.continuations[0].page);
    refuse("are not in order", &|table| table.continuations.swap(0, 1));
    for page in [1 << 20, u64::MAX, u64::MAX >> 12] {
        refuse("where no slot buffer begins", &|table| table.continuations[1].page = page);
    }
    refuse("where no slot buffer begins", &|table| _ = table.buffers.pop());
    let long: &str = "w".repeat(257).leak();
    for waiter in [long, "a\u{1b}[m", "a\nb"] {
        refuse("is too long, or has a control character", &|table| table.continuations[0].waiter = waiter);
    }
    for name in ["\0p0000000100000009", "\0a0000000100000009", "\0r0000000100000009", "\0k0000000100000009"] {
        for owner in [
            || OwnerRecord::InSlot { slot: slot("x", B), before: None },
            || OwnerRecord::InSlot { slot: slot("x", B), before: Some(slot("y", B)) },
            || OwnerRecord::Held { by: B, origin: Some(slot("x", B)) },
            || OwnerRecord::Retained { by: B, slot: slot("x", B) },
        ] {
            let named = |is_outer: &mut bool| {
                let mut owner = owner();
                *is_outer = matches!(&owner, OwnerRecord::InSlot { before: None, .. });
                match &mut owner {
                    OwnerRecord::InSlot { before: Some(slot), .. }
                    | OwnerRecord::InSlot { slot, .. }
                    | OwnerRecord::Held { origin: Some(slot), .. }
                    | OwnerRecord::Retained { slot, .. } => slot.name = name,
                    OwnerRecord::Held { .. } => {}
                }
                owner
            };
            let mut is_outer = false;
            named(&mut is_outer);
            if !name.starts_with("\0k") || is_outer {
                refuse("a continuation is a request, a reply or an event", &|table| {
                    table.buffers[taken].owner = named(&mut false);
                });
                continue;
            }
            // Whether it is a continuation or not.
            for which in [taken, plain] {
                refuse("what a continuation was used with was taken, and can be given back", &|table| {
                    table.buffers[which].owner = named(&mut false);
                });
            }
        }
    }
    let used = |name: &'static str| OwnerRecord::InSlot { slot: slot(name, B), before: None };
    let first: &str = waits.slot.clone().leak();
    refuse("its continuation 1 was used, and can be used", &|table| table.buffers[plain].owner = used(first));
    refuse("a continuation was used, but there is no instance 77", &|table| {
        table.buffers[plain].owner = used("\0k0000004d00000001");
    });
    refuse("it has more than 64 continuations", &|table| {
        let last = table.continuations[1].page + 1000;
        for number in 0..63 {
            let (page, owner) = (last + u64::from(number), OwnerRecord::Held { by: B, origin: None });
            table.buffers.push(BufferRecord { page, pages: 1, align: 1, owner });
            table.continuations.push(ContinuationRecord { page, asker: A, number: 100 + number, waiter: "w" });
        }
    });
    // What is no lie: another buffer, another number, and whatever the last number is.
    let given = edit(&captured, |table| {
        let page = table.buffers[plain].page;
        table.continuations.insert(0, ContinuationRecord { page, asker: A, number: 9, waiter: "w" });
        table.last_continuation = 8;
    });
    let mm = resume(&given).expect("it is a record like any other");
    assert!(!mm.continuation(A).1.ends_with("00000009"), "it is in use");
    assert_eq!(mm.resume_with(A, own, b"own"), 0);
    assert_eq!(mm.take(A, "\0k0000000100000009", BYTES).map(|view| mm.peek(view.address, 3)), Ok(b"own".to_vec()));
    assert_eq!(mm.resume_with(B, waits.address, b"first"), 0);
    assert_eq!(mm.resume_with(A, second, b"second"), 0);
}
