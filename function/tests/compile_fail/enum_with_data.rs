//! Nor is the layout of an enum with data fixed.
use monohull::slot::SlotData;

#[derive(SlotData)]
#[repr(u8)]
enum Shape {
    Point,
    Circle(u32),
}

fn main() {}
