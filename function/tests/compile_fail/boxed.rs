//! A `Box` lies in the private heap.
use monohull::slot::SlotData;

#[derive(SlotData)]
struct Message {
    id: u64,
    body: Box<[u8; 16]>,
}

fn main() {}
