//! Checkpoints with changed fields, whose hashes and seal fit: what a worker in the wrong hands, or a party with the key, can make of one.
//!
//! ```text
//!   file ─▶ sections ─▶ fields: numbers, names, lists, what is there twice or is missing ─▶ file with hashes that fit
//!
//!   file ─▶ sealed ─▶ read, as by `monohull resume` ─▶ records of a continuation ─▶ checked, as in the process that goes on
//! ```
//!
//! It is refused, or what it says can be captured and read again. The workflows are those of the checkpoints in `../tests/golden`, where their images
//! are. What needs a domain is not reached: contents of pages, and what libos modules make of their records.
#![no_main]

mod forged;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    forged::check(bytes, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden"));
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = forged::Random::new(seed);
    // Bytes are changed as well, which the reader is to stand.
    let is_of_fields = random.below(16) > 0;
    match is_of_fields.then(|| forged::changed(&data[..size], max_size, &mut random)).flatten() {
        Some(file) => {
            data[..file.len()].copy_from_slice(&file);
            file.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
});
