//! Even text that lives for ever lives in one image.
use monohull::slot::SlotData;

#[derive(SlotData)]
struct Message {
    id: u64,
    body: &'static str,
}

fn main() {}
