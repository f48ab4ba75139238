//! Code lies in one image.
use monohull::slot::SlotData;

#[derive(SlotData)]
struct Message {
    id: u64,
    body: fn() -> u32,
}

fn main() {}
