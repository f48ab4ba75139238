//! The handles, over an arena on the host.

use super::buffer::Parts;
use super::host::census;
use super::raw::Raw;
use super::*;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt::Write;
use monohull_abi::types::{BYTES_FINGERPRINT, TEXT_FINGERPRINT};

#[derive(SlotData, Clone, Copy, PartialEq, Debug, Default)]
struct Point {
    x: u32,
    y: u64,
    shown: bool,
}

#[derive(SlotData, Clone, Copy, PartialEq, Debug)]
struct Pair<A, B>(A, [B; 2]);

#[derive(SlotData, Clone, Copy, PartialEq, Debug)]
#[repr(u8)]
enum Colour {
    Red = 1,
    Green = 7,
}

mod other {
    #[derive(super::SlotData, Default)]
    pub(super) struct Point {
        pub(super) x: u32,
        pub(super) y: u64,
        pub(super) shown: bool,
    }

    #[derive(super::SlotData)]
    #[repr(i16)]
    #[allow(dead_code, reason = "only its layout matters")]
    pub(super) enum Colour {
        Red = 1,
        Green = 7,
        None = 0,
    }
}

fn point(slot: &str) -> Point {
    *SlotBuffer::<Point>::from_slot(slot).unwrap()
}

#[test]
fn the_end_of_a_scope_hands_a_value_on() {
    {
        let mut made = SlotBuffer::<Point>::with_slot("p");
        assert_eq!(*made, Point::default());
        made.y = 7;
    }
    assert_eq!(point("p"), Point { y: 7, ..Point::default() });
    assert_eq!(census(), (0, 0), "taken, dropped, freed");
}

#[test]
fn slices_of_every_length() {
    for len in [0, 1, 1000, 100_000] {
        let mut made = SlotBuffer::<[u32]>::with_slot_len("s", len);
        assert_eq!(made.len(), len);
        made.iter_mut().enumerate().for_each(|(i, word)| *word = i as u32);
        made.publish().unwrap();
        let taken = SlotBuffer::<[u32]>::from_slot("s").unwrap();
        assert!(taken.iter().copied().eq(0..len as u32));
    }
    assert_eq!(census().0, 0);
}

#[test]
fn only_the_first_write_to_a_taken_buffer_is_a_hostcall() {
    let mut buffer = SlotBuffer::<[u8]>::with_slot_from("b", b"abc");
    buffer[0] = b'x';
    drop(buffer);
    assert_eq!(census().1, 0, "what was made here need not be touched");
    let mut buffer = SlotBuffer::<[u8]>::from_slot("b").unwrap();
    assert_eq!(&*buffer, b"xbc");
    assert_eq!(census().1, 0, "reading is no touch");
    buffer[1] = b'y';
    buffer[2] = b'z';
    assert_eq!((&*buffer, census().1), (&b"xyz"[..], 1));
}

#[test]
fn a_taken_buffer_is_handed_on_without_a_copy() {
    SlotBuffer::<[u8]>::with_slot_from("in", b"abc").publish().unwrap();
    let taken = SlotBuffer::<[u8]>::from_slot("in").unwrap();
    let address = taken.as_ptr();
    taken.hand_on("out").unwrap();
    let taken = SlotBuffer::<[u8]>::from_slot("out").unwrap();
    assert_eq!(taken.as_ptr(), address);
    taken.publish().unwrap();
    assert!(SlotBuffer::<[u8]>::try_from_slot("out").unwrap().is_some(), "under the name it was found with");
}

#[test]
fn discarding_frees() {
    SlotBuffer::<u64>::with_slot("x").discard();
    SlotVec::<u64>::with_slot("x").discard();
    SlotString::with_slot("x").discard();
    assert!(SlotBuffer::<u64>::try_from_slot("x").unwrap().is_none());
    assert_eq!(census().0, 0);
}

#[test]
fn errors_name_both_types() {
    drop(SlotVec::<u64>::with_slot("part.3"));
    let error = SlotBuffer::<[u8]>::from_slot("part.3").unwrap_err();
    assert_eq!(error.errno(), Errno::WrongType);
    assert_eq!(error.to_string(), "slot `part.3` holds `[u64]`, `[u8]` was asked for");
    let error = SlotBuffer::<u8>::from_slot("nowhere").unwrap_err();
    assert_eq!(error.errno(), Errno::NeverFilled);
    assert_eq!(error.to_string(), "slot `nowhere`: no instance is left that could fill this slot");
}

#[test]
fn a_filled_slot_is_an_error_for_publish_and_a_panic_for_drop() {
    SlotBuffer::<u8>::with_slot("x").publish().unwrap();
    let error = SlotBuffer::<u8>::with_slot("x").publish().unwrap_err();
    assert_eq!((error.errno(), error.message()), (Errno::Exists, "slot `x` is already filled"));
    assert_eq!(census().0, 1, "the second buffer has been freed");
    let dropped = std::panic::catch_unwind(|| drop(SlotBuffer::<u8>::with_slot("x")));
    assert_eq!(dropped.unwrap_err().downcast_ref::<String>().unwrap(), "slot `x` is already filled");
}

#[test]
fn what_is_no_valid_value_is_refused_and_stays() {
    fn lie<T: SlotData, U: SlotContent + ?Sized>(bytes: &[u8]) -> SlotError {
        let made = SlotBuffer::<[u8]>::with_slot_from("lie", bytes);
        let Parts { raw, .. } = made.into_parts();
        raw.publish("lie", (bytes.len() / size_of::<T>()) as u64, U::TAG).unwrap();
        let error = SlotBuffer::<U>::from_slot("lie").err().expect("the lie was not detected");
        assert!(Raw::take("lie", U::ACCEPTED, true).unwrap().is_some(), "the slot is still filled");
        error
    }
    assert_eq!(lie::<bool, bool>(&[2]).to_string(), "slot `lie` holds bytes that are no valid `bool`");
    assert_eq!(lie::<bool, [bool]>(&[0, 1, 255]).errno(), Errno::Invalid);
    assert_eq!(lie::<char, char>(&0xd800_u32.to_ne_bytes()).errno(), Errno::Invalid);
    assert_eq!(lie::<Colour, [Colour]>(&[1, 7, 2]).errno(), Errno::Invalid);
    assert_eq!(lie::<(u8, bool), (u8, bool)>(&[9; 2]).errno(), Errno::Invalid);
    assert_eq!(lie::<[bool; 3], [bool; 3]>(&[0, 0, 3]).errno(), Errno::Invalid);
    assert_eq!(lie::<Point, Point>(&[9; size_of::<Point>()]).errno(), Errno::Invalid);
    assert_eq!(lie::<u8, u8>(&[1, 2]).errno(), Errno::Invalid, "two values are not one");
    assert_eq!(lie::<u8, u8>(&[]).errno(), Errno::Invalid, "none is not one either");
}

#[test]
fn enums_and_generic_structs_travel() {
    let value = Pair(Colour::Green, [Point { x: 1, y: 2, shown: true }; 2]);
    drop(SlotBuffer::with_slot_value("v", value));
    assert_eq!(*SlotBuffer::<Pair<Colour, Point>>::from_slot("v").unwrap(), value);
    assert_eq!(Pair::<Colour, Point>::NAME.as_str(), "Pair<Colour,Point>");
}

#[test]
fn fingerprints_follow_name_and_layout() {
    assert_eq!(<[u8]>::TAG.fingerprint, BYTES_FINGERPRINT);
    assert_eq!(data::TEXT.fingerprint, TEXT_FINGERPRINT);
    assert_eq!(Point::FINGERPRINT, other::Point::FINGERPRINT, "where it is defined does not matter");
    assert_ne!(Colour::FINGERPRINT, other::Colour::FINGERPRINT);
    let all = [
        u8::FINGERPRINT,
        i8::FINGERPRINT,
        <[u8; 1]>::FINGERPRINT,
        <[u8; 2]>::FINGERPRINT,
        <(u8,)>::FINGERPRINT,
        <(u8, u8)>::FINGERPRINT,
        <()>::FINGERPRINT,
        Point::FINGERPRINT,
        <[Point]>::TAG.fingerprint,
        <[other::Colour]>::TAG.fingerprint,
        <[Colour]>::TAG.fingerprint,
        BYTES_FINGERPRINT,
        TEXT_FINGERPRINT,
    ];
    for (i, a) in all.iter().enumerate() {
        assert!(!all[i + 1..].contains(a), "{i}");
    }
}

#[test]
fn long_type_names_are_cut() {
    type Deep = Pair<Pair<Pair<Pair<[[u64; 1_000_000]; 1_000_000], u8>, u8>, u8>, u8>;
    assert_eq!(<[[u64; 1_000_000]; 12]>::NAME.as_str(), "[[u64; 1000000]; 12]");
    let long = <(Deep, Deep, Deep, Deep, Deep, Deep)>::NAME;
    assert_eq!(long.as_str().len(), 255);
    assert_eq!(TypeName::new("x").text(&"ä".repeat(200)).as_str().len(), 255);
    assert_eq!(TypeName::new("").text(&"ä".repeat(200)).text("!").as_str().len(), 254);
}

#[test]
fn vectors_grow_and_travel_as_slices() {
    let mut numbers = SlotVec::<u64>::with_slot("n");
    numbers.extend(0..10_000);
    numbers.extend_from_slice(&[1, 2, 3]);
    numbers.extend(&[4]);
    assert_eq!(numbers.pop(), Some(4));
    numbers.truncate(10_001);
    numbers[0] = 99;
    assert!(numbers.capacity() >= numbers.len());
    drop(numbers);
    let mut numbers = SlotVec::<u64>::try_from_slot("n").unwrap().unwrap();
    assert_eq!((numbers.len(), numbers[0], numbers[10_000]), (10_001, 99, 1));
    numbers.push(5);
    numbers.publish().unwrap();
    assert_eq!(SlotBuffer::<[u64]>::from_slot("n").unwrap().last(), Some(&5));
    assert_eq!(census().0, 0);
}

#[test]
fn vectors_of_nothing() {
    let mut nothing = SlotVec::<()>::with_slot("n");
    nothing.extend([(); 10]);
    drop(nothing);
    assert_eq!(SlotBuffer::<[()]>::from_slot("n").unwrap().len(), 10);
    assert!(SlotVec::<u8>::with_slot("n").pop().is_none());
}

#[test]
fn text_travels_as_text_and_is_found_in_bytes() {
    let mut text = SlotString::with_slot("t");
    write!(text, "{} äpfel", 3).unwrap();
    text.extend([", ", "2 birnen"]);
    text.push('!');
    drop(text);
    let error = SlotBuffer::<[u16]>::from_slot("t").unwrap_err();
    assert_eq!(error.to_string(), "slot `t` holds `str`, `[u16]` was asked for");
    let text = SlotString::from_slot("t").unwrap();
    assert_eq!(&*text, "3 äpfel, 2 birnen!");
    text.hand_on("bytes").unwrap();
    let bytes = SlotBuffer::<[u8]>::from_slot("bytes").unwrap();
    assert_eq!(bytes.len(), "3 äpfel, 2 birnen!".len(), "text is bytes, too");
    bytes.publish().unwrap();
    assert_eq!(&*SlotString::try_from_slot("bytes").unwrap().unwrap(), "3 äpfel, 2 birnen!");
    assert_eq!(census().0, 0);
}

#[test]
fn bytes_that_are_no_text_stay_bytes() {
    drop(SlotBuffer::<[u8]>::with_slot_from("b", b"\xff"));
    let error = SlotString::from_slot("b").unwrap_err();
    assert_eq!(error.to_string(), "slot `b` holds bytes that are not UTF-8");
    assert_eq!(&*SlotBuffer::<[u8]>::from_slot("b").unwrap(), b"\xff");
    drop(SlotVec::<u16>::with_slot("w"));
    assert_eq!(SlotString::from_slot("w").unwrap_err().to_string(), "slot `w` holds `[u16]`, `str` was asked for");
}

#[test]
fn indexed_slots_are_taken_in_order_until_one_is_missing() {
    for (name, value) in indexed("part").zip([10_u32, 11, 12]) {
        drop(SlotBuffer::with_slot_value(&name, value));
    }
    drop(SlotBuffer::with_slot_value(&indexed_name("part", 4), 14_u32));
    let values: Vec<u32> = SlotBuffer::<u32>::take_all("part").map(|part| *part.unwrap()).collect();
    assert_eq!(values, [10, 11, 12]);
    let mut wrong = SlotBuffer::<[u32]>::take_all("none");
    assert!(wrong.next().is_none());
    drop(SlotBuffer::with_slot_value("part.0", 1_u8));
    let mut parts = SlotBuffer::<u32>::take_all("part");
    assert_eq!(parts.next().unwrap().unwrap_err().errno(), Errno::WrongType);
    assert!(parts.next().is_none());
}

#[test]
fn names_and_sizes_are_looked_at_early() {
    let bad = |name: &'static str| std::panic::catch_unwind(|| SlotBuffer::<u8>::with_slot(name)).is_err();
    assert!(bad(""));
    assert!(bad("n".repeat(256).leak()));
    let error = SlotBuffer::<[u64]>::try_with_slot_len("big", usize::MAX / 2).unwrap_err();
    assert_eq!((error.errno(), error.message()), (Errno::OutOfMemory, "memory limit reached"));
}

#[test]
fn handles_may_change_threads() {
    fn send<T: Send>() {}
    send::<SlotBuffer<[u64]>>();
    send::<SlotVec<Point>>();
    send::<SlotString>();
}
