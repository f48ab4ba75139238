//! So does a `Vec`.
use monohull::slot::SlotData;

#[derive(SlotData)]
struct Message {
    id: u64,
    body: Vec<u8>,
}

fn main() {}
