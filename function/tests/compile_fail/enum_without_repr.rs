//! The layout of an enum must be fixed.
use monohull::slot::SlotData;

#[derive(SlotData)]
enum Colour {
    Red,
    Green,
}

fn main() {}
