//! The files that the fuzz targets begin with, and those that have made trouble, keep their promises.

#[path = "support/promises.rs"]
mod promises;

use std::fs;
use std::path::Path;

#[test]
fn what_the_fuzz_targets_keep() {
    for target in ["checkpoint_read", "checkpoint_records"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
        let files = fs::read_dir(folder).expect("it is kept").map(|entry| entry.expect("a file").path());
        let files: Vec<_> = files.collect();
        assert!(!files.is_empty());
        for file in files {
            promises::check(&fs::read(&file).expect("readable"));
        }
    }
}
