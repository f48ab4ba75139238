//! The layout of an enum must be fixed.
use monohull_std::slot::SlotData;

#[derive(SlotData)]
enum Colour {
    Red,
    Green,
}

fn main() {}
