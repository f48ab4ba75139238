//! The contents of a union cannot be checked.
use monohull::slot::SlotData;

#[derive(SlotData)]
union Either {
    number: u64,
    address: *const u8,
}

fn main() {}
