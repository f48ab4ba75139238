//! What may travel.
use monohull::slot::{SlotBuffer, SlotData, SlotString, SlotVec};

#[derive(SlotData, Default)]
struct Point {
    x: f64,
    y: f64,
}

#[derive(SlotData)]
struct Nothing;

#[derive(SlotData)]
struct Tagged<T, const N: usize> {
    tag: Tag,
    values: [T; N],
    letters: (char, bool),
}

#[derive(SlotData)]
#[repr(u8)]
enum Tag {
    First,
    Second = 7,
}

fn travels<T: SlotData>() {}

fn main() {
    travels::<Point>();
    travels::<Nothing>();
    travels::<Tagged<u128, 4>>();
    travels::<[(usize, [Point; 3]); 2]>();
    let _ = (Tag::First, Tag::Second);
    // The handles of these exist, too.
    let _ = SlotBuffer::<Point>::with_slot;
    let _ = SlotBuffer::<[Point]>::with_slot_len;
    let _ = SlotVec::<Tag>::from_slot;
    let _ = SlotString::from_slot;
}
