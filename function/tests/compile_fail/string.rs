//! And a `String`.
use monohull::slot::SlotData;

#[derive(SlotData)]
struct Message {
    id: u64,
    body: String,
}

fn main() {}
