//! A pointer means nothing to another function.
use monohull::slot::SlotData;

#[derive(SlotData)]
struct Message {
    id: u64,
    body: *const u8,
}

fn main() {}
