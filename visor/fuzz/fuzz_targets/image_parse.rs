//! Feeds arbitrary files to the loader and the checker: they may refuse, but not panic, hang or eat memory, and what
//! they accept must keep the promises that mapping relies on.
#![no_main]

#[path = "../../tests/loader_builder/promises.rs"]
mod promises;

use libfuzzer_sys::fuzz_target;
use monohull_domain::image::{SymbolTable, verify};

fuzz_target!(|file: &[u8]| {
    // `verify` asks the checker last; it has to stand files that the loader refuses, too.
    let report = monohull_checker::check(file);
    assert!(SymbolTable::read(file).len() <= file.len());
    if let Ok(image) = verify("fuzz", file) {
        promises::check_promises(&image, file);
        assert!(report.is_ok_and(|report| !report.is_refused()), "a refused image was accepted");
    }
});
