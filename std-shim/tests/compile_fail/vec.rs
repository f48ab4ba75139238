//! So does a `Vec`.
use monohull_std::slot::SlotData;

#[derive(SlotData)]
struct Message {
    id: u64,
    body: Vec<u8>,
}

fn main() {}
