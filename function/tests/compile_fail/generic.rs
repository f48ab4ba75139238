//! A generic struct travels only with arguments that do.
use monohull::slot::SlotData;

#[derive(SlotData)]
struct Pair<T>(T, T);

fn travels<T: SlotData>() {}

fn check() {
    travels::<Pair<u32>>();
    travels::<Pair<String>>();
}

fn main() {}
