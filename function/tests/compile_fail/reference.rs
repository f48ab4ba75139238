//! A reference is a pointer, whatever its lifetime.
use monohull::slot::SlotData;

#[derive(SlotData)]
struct Message<'a> {
    body: &'a [u8],
}

fn main() {}
