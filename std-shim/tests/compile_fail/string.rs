//! And a `String`.
use monohull_std::slot::SlotData;

#[derive(SlotData)]
struct Message {
    id: u64,
    body: String,
}

fn main() {}
