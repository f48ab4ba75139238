//! Captured and rebuilt: the same behaviour as without, and records that a stranger has edited.

use super::*;
use crate::record::{BufferRecord, OwnerRecord, SlotRecord, TableRecord};
use crate::table::RETAINED_MAX;
use monohull_abi::layout::{ARENA_BASE, ARENA_END};
use monohull_abi::module::Ending::{Done, Failed};
use monohull_abi::module::SYSTEM_INSTANCE;
use monohull_module_testing::Captured;
use proptest::prelude::*;
use std::string::ToString;
use std::{format, vec};

/// Bytes of the version at the start of a record.
const VERSION: usize = 4;

pub(super) fn resume(captured: &Captured) -> Result<Mm, String> {
    Domain::resume(&[&MONOHULL_MODULE], captured).map(Mm)
}

/// Captures, ends the domain, and goes on in a new one.
pub(super) fn moved(mm: Mm) -> Mm {
    let captured = mm.capture().expect("it is at rest");
    drop(mm);
    resume(&captured).expect("a record of our own")
}

/// What is known of a slot without a change of it.
fn look_of(mm: &Mm, name: &str) -> Option<(u64, u64, u64, Vec<u8>)> {
    let (info, type_name) = mm.look(name).ok()?;
    Some((info.address, info.count, info.element_size, type_name))
}

#[test]
fn buffers_slots_and_charges_are_the_same() {
    let mm = Mm::start();
    let (own, input) = (mm.alloc(A, 3 * PAGE), mm.alloc(A, 10));
    mm.poke(own + PAGE, b"own");
    mm.poke(input, b"input");
    mm.publish(A, "in", input, 5, BYTES);
    mm.publish(A, "words", mm.alloc(A, 80), 10, WORDS);
    mm.take(B, "in", BYTES).unwrap();
    let (words, charged) = (look_of(&mm, "words"), (mm.charged(A), mm.charged(B)));

    let mm = moved(mm);
    assert_eq!((mm.peek(own + PAGE, 3), mm.peek(input, 5)), (b"own".to_vec(), b"input".to_vec()));
    assert_eq!((look_of(&mm, "words"), (mm.charged(A), mm.charged(B))), (words, charged));
    assert_eq!((mm.owner_of(own), mm.owner_of(input)), (A, B));
    assert!(mm.owns(A, own, 3 * PAGE) && mm.owns(B, input, 10) && !mm.owns(A, input, 1));
    assert_eq!(mm.take(B, "words", BYTES), Err(Errno::WrongType));
    assert!(mm.end(B, Failed), "it has not written to its input");
    assert_eq!(mm.take(A, "in", BYTES).unwrap().address, input);
    assert!(!mm.end(A, Failed), "another has seen what it published");
    assert_eq!((mm.charged(A), mm.charged(B)), (0, 0));
}

#[test]
fn a_freed_input_is_there_for_the_next_attempt() {
    let mm = Mm::start();
    let input = mm.alloc(A, 10);
    mm.poke(input, b"input");
    mm.publish(A, "in", input, 5, BYTES);
    mm.end(A, Done);
    mm.take(B, "in", BYTES).unwrap();
    mm.free(B, input);
    let mm = moved(mm);
    assert!(mm.end(B, Failed));
    assert_eq!(mm.peek(mm.take(A, "in", BYTES).unwrap().address, 5), b"input");
}

#[test]
fn dirty_inputs_stay_dirty() {
    let mm = Mm::start();
    mm.publish(A, "in", mm.alloc(A, 10), 5, BYTES);
    mm.end(A, Done);
    let input = mm.take(B, "in", BYTES).unwrap().address;
    mm.touch(B, input);
    assert!(!moved(mm).end(B, Failed));
}

#[test]
fn what_was_freed_is_not_captured() {
    let mm = Mm::start();
    let (kept, freed) = (mm.alloc(A, PAGE), mm.alloc(A, 4 * PAGE));
    mm.poke(kept, b"kept");
    mm.poke(freed, b"secret");
    mm.free(A, freed);
    assert_eq!(mm.peek(freed, 6), b"secret", "a warm run keeps its bytes");
    let mm = moved(mm);
    assert_eq!(mm.pages_in_arena(), 1);
    assert_eq!((mm.peek(kept, 4), mm.peek(freed, 6)), (b"kept".to_vec(), vec![0; 6]));
    assert_eq!(mm.alloc(A, 4 * PAGE), freed, "its pages are free");
}

#[test]
fn what_is_in_use_refuses() {
    let mm = Mm::start();
    let own = mm.alloc(A, 10);
    assert!(mm.pin(A, own, 10));
    let refused = mm.capture().err();
    let expected = format!("instance {A}: a call reads, writes or moves its slot buffer at {own:#x}");
    assert_eq!(refused, Some(expected));
    mm.unpin(own);
    let trusted = mm.alloc(SYSTEM_INSTANCE, 10);
    assert_eq!(mm.capture().err(), Some(format!("trusted code uses the slot buffer at {trusted:#x}")));
    mm.free(SYSTEM_INSTANCE, trusted);
    assert!(mm.capture().is_ok(), "the refusals have changed nothing");
}

#[test]
fn an_instance_in_the_midst_of_its_end_refuses() {
    let mm = Mm::start();
    (0..=crate::batches::STEP * crate::batches::BATCH).for_each(|_| _ = mm.alloc(A, PAGE));
    let mut refused = None;
    mm.end_in_steps(A, Done, || refused = mm.capture().err());
    assert_eq!(refused, Some(format!("instance {A}: it has ended, and its buffers are being freed")));
    assert!(mm.capture().is_ok());
}

#[test]
fn limits_hold_for_what_is_rebuilt() {
    let mm = Mm::start();
    mm.alloc(A, 4 * PAGE);
    let mut captured = mm.capture().unwrap();
    drop(mm);
    captured.set_limit(A, 4 * PAGE - 1);
    let refused = resume(&captured).err();
    assert_eq!(refused, Some(format!("instance {A}: its slot buffers exceed its memory limit")));
    captured.set_limit(A, 4 * PAGE);
    assert_eq!(resume(&captured).unwrap().charged(A), 4 * PAGE);
}

#[test]
fn each_instance_gets_its_key_again() {
    let mm = Mm::start();
    mm.keep_apart();
    let (own, slot) = (mm.alloc(A, 10), mm.alloc(A, 10));
    mm.publish(A, "x", slot, 10, BYTES);
    let mm = moved(mm);
    assert_eq!((mm.owner_of(own), mm.owner_of(slot)), (A, SYSTEM_INSTANCE));
}

/// A holds one buffer; B holds an input; A has published "x"; B has freed an input.
fn scene() -> Captured {
    let mm = Mm::start();
    mm.alloc(A, 3 * PAGE);
    for name in ["in", "gone", "x"] {
        mm.publish(A, name, mm.alloc(A, 10), 10, BYTES);
    }
    mm.take(B, "in", BYTES).unwrap();
    let gone = mm.take(B, "gone", BYTES).unwrap();
    mm.free(B, gone.address);
    mm.capture().unwrap()
}

/// Puts an edited table in place of the record's.
fn edit(captured: &Captured, change: impl FnOnce(&mut TableRecord<'_>)) -> Captured {
    let mut edited = captured.clone();
    let mut table: TableRecord<'_> = postcard::from_bytes(&captured.records[0][VERSION..]).unwrap();
    change(&mut table);
    edited.records[0].truncate(VERSION);
    edited.records[0].extend(postcard::to_allocvec(&table).unwrap());
    edited
}

fn slot_of<'t, 'r>(buffer: &'t mut BufferRecord<'r>) -> &'t mut SlotRecord<'r> {
    match &mut buffer.owner {
        OwnerRecord::Held { origin, .. } => origin.as_mut().expect("an input"),
        OwnerRecord::Retained { slot, .. } | OwnerRecord::InSlot { slot, .. } => slot,
    }
}

fn set_owner(buffer: &mut BufferRecord<'_>, id: u32) {
    match &mut buffer.owner {
        OwnerRecord::Held { by, .. } | OwnerRecord::Retained { by, .. } => *by = id,
        OwnerRecord::InSlot { slot, .. } => slot.producer = id,
    }
}

#[test]
fn every_field_that_lies_is_refused() {
    let captured = scene();
    let long = "n".repeat(256);
    let arena = (ARENA_END - ARENA_BASE) / PAGE;
    let refuse = |words: &str, change: &dyn Fn(&mut TableRecord<'_>)| {
        let refused = resume(&edit(&captured, change)).err().unwrap_or_else(|| panic!("not refused: {words}"));
        assert!(refused.contains(words), "{refused:?} has no {words:?}");
    };
    // The buffers: A's own, B's input, B's freed input, the slot "x".
    let [own, input, gone, x] = [0, 1, 2, 3];
    refuse("are not in order", &|table| table.buffers[input].page = table.buffers[own].page);
    refuse("are not in order", &|table| table.buffers.swap(own, x));
    refuse("lies in another one", &|table| table.buffers[own].pages += 1);
    refuse("are no slot buffer", &|table| table.buffers[own].pages = 0);
    refuse("are no slot buffer", &|table| table.buffers[x].pages = u64::MAX);
    refuse("are no slot buffer", &|table| table.buffers[x].page = arena);
    refuse("are no slot buffer", &|table| table.buffers[x].page = u64::MAX);
    refuse("are no slot buffer", &|table| table.buffers[x].pages = arena);
    refuse("are no slot buffer", &|table| table.buffers[own].align = 0);
    refuse("are no slot buffer", &|table| table.buffers[own].align = 24);
    refuse("are no slot buffer", &|table| table.buffers[own].align = 1 << 40);
    refuse("are no slot buffer", &|table| table.buffers[input].align = 1 << 20);
    for buffer in [own, input, gone] {
        refuse("can own the slot buffer", &|table| set_owner(&mut table.buffers[buffer], SYSTEM_INSTANCE));
        refuse("can own the slot buffer", &|table| set_owner(&mut table.buffers[buffer], 77));
    }
    for buffer in [input, gone, x] {
        refuse("a slot's name has 0 bytes", &|table| slot_of(&mut table.buffers[buffer]).name = "");
        refuse("a slot's name has 256 bytes", &|table| {
            slot_of(&mut table.buffers[buffer]).name = "\u{e4}".repeat(128).leak()
        });
        refuse("its type has 0 bytes", &|table| slot_of(&mut table.buffers[buffer]).type_name = "");
        refuse("its type has 256 bytes", &|table| slot_of(&mut table.buffers[buffer]).type_name = long.clone().leak());
        refuse("do not fit", &|table| slot_of(&mut table.buffers[buffer]).count = PAGE + 1);
        refuse("do not fit", &|table| slot_of(&mut table.buffers[buffer]).element_size = PAGE);
        refuse("do not fit", &|table| {
            let slot = slot_of(&mut table.buffers[buffer]);
            (slot.count, slot.element_size) = (1 << 33, 1 << 33);
        });
    }
    refuse("is filled twice", &|table| {
        let owner = || SlotRecord {
            name: "x",
            type_name: "t",
            count: 0,
            element_size: 0,
            fingerprint: 0,
            producer: A,
            taken: false,
        };
        table.buffers[own].owner = OwnerRecord::InSlot { slot: owner(), before: None };
    });
    refuse("there is no instance 77", &|table| table.dirty = vec![77]);
    refuse("are not in order", &|table| table.dirty = vec![B, A]);
}

#[test]
fn other_versions_and_other_lengths_are_refused() {
    let captured = scene();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut edited = captured.clone();
        change(&mut edited.records[0]);
        resume(&edited).err().expect("it is refused")
    };
    assert_eq!(with(&|record| record[0] = 3), "its record has version 3; this Monohull knows versions up to 2");
    assert_eq!(with(&|record| record[0] = 0), "its record is damaged: there is no version 0");
    assert_eq!(with(&|record| record.truncate(3)), "its record is damaged: it has 3 bytes");
    assert_eq!(with(&|record| record.push(0)), "its record has 1 bytes behind its end");
    for len in VERSION..captured.records[0].len() {
        assert!(with(&|record| record.truncate(len)).starts_with("its record is damaged"), "cut to {len} bytes");
    }
}

/// A record from before there were continuations, whose list and last number are the last two bytes.
#[test]
fn a_record_of_version_1_is_read() {
    let mut captured = scene();
    let record = &mut captured.records[0];
    assert_eq!((record[0], &record[record.len() - 2..]), (2, &[0, 0][..]));
    record[0] = 1;
    record.truncate(record.len() - 2);
    let mm = resume(&captured).expect("an older record");
    assert!(mm.take(B, "x", BYTES).is_ok());
    harmless(&mm);
}

/// Uses whatever is there, and ends everything: all charges are taken back, and nothing is left.
fn harmless(mm: &Mm) {
    let alloc = || {
        let own = mm.alloc(A, 10);
        assert_eq!(mm.peek(own, 10), [0; 10], "no other buffer's");
    };
    // The first call frees the inputs that are of no use any more: those of an instance that is said to have written to one.
    alloc();
    let (buffers, bytes) = (mm.stats(A).arena_buffers, mm.stats(A).arena_bytes);
    alloc();
    assert_eq!((mm.stats(A).arena_buffers, mm.stats(A).arena_bytes), (buffers + 1, bytes + PAGE));
    mm.end(A, Failed);
    mm.end(B, Failed);
    assert_eq!((mm.charged(A), mm.charged(B)), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_damaged_record_is_refused_or_harmless(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut captured = scene();
        for (at, byte) in changes {
            let at = at.index(captured.records[0].len());
            captured.records[0][at] = byte;
        }
        if let Ok(mm) = resume(&captured) {
            harmless(&mm);
        }
    }

    #[test]
    fn no_bytes_are_more_than_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut captured = scene();
        captured.records[0].truncate(VERSION);
        captured.records[0].extend(bytes);
        if let Ok(mm) = resume(&captured) {
            harmless(&mm);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(u32, u64),
    Free(u32, usize),
    Resize(u32, usize, u64),
    Touch(u32, usize),
    Publish(u32, usize, usize),
    Take(u32, usize),
    End(u32, bool),
}

impl Step {
    /// The same, by the instance with this id.
    fn by(&self, ids: &[u32; 4]) -> Step {
        let mut step = self.clone();
        let (Step::Alloc(by, _)
        | Step::Free(by, _)
        | Step::Resize(by, ..)
        | Step::Touch(by, _)
        | Step::Publish(by, ..)
        | Step::Take(by, _)
        | Step::End(by, _)) = &mut step;
        *by = ids[*by as usize];
        step
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let instance = 1..4u32;
    let step = prop_oneof![
        6 => (instance.clone(), 1..20_000u64).prop_map(|(by, bytes)| Step::Alloc(by, bytes)),
        2 => (instance.clone(), any::<usize>()).prop_map(|(by, which)| Step::Free(by, which)),
        2 => (instance.clone(), any::<usize>(), 1..40_000u64).prop_map(|(by, which, bytes)| Step::Resize(by, which, bytes)),
        1 => (instance.clone(), any::<usize>()).prop_map(|(by, which)| Step::Touch(by, which)),
        4 => (instance.clone(), any::<usize>(), 0..NAMES.len()).prop_map(|(by, which, name)| Step::Publish(by, which, name)),
        4 => (instance.clone(), 0..NAMES.len()).prop_map(|(by, name)| Step::Take(by, name)),
        1 => (instance, any::<bool>()).prop_map(|(by, done)| Step::End(by, done)),
    ];
    prop::collection::vec(step, 1..60)
}

/// Runs all steps, in a new domain after each of these; what came of them. Buffers are known by their order, because their addresses
/// depend on what was freed before.
fn history(steps: &[Step], moves: &[bool]) -> Vec<String> {
    let mut mm = Mm::start();
    let mut known: Vec<u64> = Vec::new();
    let mut all = Vec::new();
    // An instance that has ended never comes back: another one takes its place.
    let mut ids = [0, 1, 2, 3];
    for (index, step) in steps.iter().enumerate() {
        let pick = |which: usize| (!known.is_empty()).then(|| which % known.len());
        let came = match step.by(&ids) {
            Step::Alloc(by, bytes) => {
                let address = mm.alloc(by, bytes);
                mm.poke(address, &(index as u64).to_ne_bytes());
                known.push(address);
                String::new()
            }
            Step::Free(by, which) => pick(which).map_or(0, |which| mm.free(by, known[which])).to_string(),
            Step::Resize(by, which, bytes) => pick(which)
                .map_or(0, |which| {
                    let answer = mm.resize(by, known[which], bytes);
                    if answer > 0 {
                        known[which] = answer as u64;
                    }
                    answer.min(0)
                })
                .to_string(),
            Step::Touch(by, which) => pick(which).map_or(0, |which| mm.touch(by, known[which])).to_string(),
            Step::Publish(by, which, name) => {
                pick(which).map_or(0, |which| mm.publish(by, NAMES[name], known[which], 8, BYTES)).to_string()
            }
            Step::Take(by, name) => match mm.take(by, NAMES[name], BYTES) {
                Ok(view) => {
                    let which = known.iter().rposition(|address| *address == view.address);
                    format!("{which:?} {} {} {:?}", view.count, view.capacity, mm.peek(view.address, 8))
                }
                Err(errno) => format!("{errno:?}"),
            },
            Step::End(by, done) => {
                ids[by as usize % 4] += 4;
                mm.end(by, if done { Done } else { Failed }).to_string()
            }
        };
        // What is freed may be another buffer next, in one history and not in the other.
        let in_slots: Vec<u64> = NAMES.iter().filter_map(|name| Some(mm.look(name).ok()?.0.address)).collect();
        known.retain(|at| in_slots.contains(at) || ids.iter().any(|id| mm.owns(*id, *at, 1)));
        let charged: Vec<u64> = ids.iter().map(|id| mm.charged(*id)).collect();
        let stats = mm.stats(1);
        all.push(format!("{step:?}: {came}, {charged:?}, {} in {}", stats.arena_bytes, stats.arena_buffers));
        if moves[index % moves.len()] {
            mm = moved(mm);
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_domain_that_moves_behaves_as_one_that_stays(steps in steps(), moves in prop::collection::vec(any::<bool>(), 1..8)) {
        prop_assert_eq!(history(&steps, &moves), history(&steps, &[false]));
    }
}

#[test]
fn retained_bytes_are_limited() {
    let captured = scene();
    let edited = edit(&captured, |table| {
        let gone = table.buffers.remove(2);
        table.buffers.push(BufferRecord { page: 1 << 20, pages: RETAINED_MAX / PAGE + 1, ..gone });
    });
    let expected = format!("instance {B}: more than {RETAINED_MAX} bytes of freed inputs");
    assert_eq!(resume(&edited).err(), Some(expected));
}
