//! The files that the fuzz target begins with, and those that have made trouble, keep its promises.

#[path = "support/promises.rs"]
mod promises;

use std::fs;
use std::path::Path;

#[test]
fn what_the_fuzz_target_keeps() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/checkpoint_read");
    let files: Vec<_> = fs::read_dir(folder).expect("it is kept").map(|entry| entry.expect("a file").path()).collect();
    assert!(!files.is_empty());
    for file in files {
        promises::check(&fs::read(&file).expect("readable"));
    }
}
