//! Nobody could check a union.
use monohull_std::slot::SlotData;

#[derive(SlotData)]
union Either {
    number: u64,
    address: *const u8,
}

fn main() {}
