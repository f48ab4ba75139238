//! Even text that lives for ever lives in one image.
use monohull_std::slot::SlotData;

#[derive(SlotData)]
struct Message {
    id: u64,
    body: &'static str,
}

fn main() {}
