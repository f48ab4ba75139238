//! The reader of checkpoints refuses any bytes, or what it says can be written again.
#![no_main]

#[path = "../../checkpoint/tests/support/promises.rs"]
mod promises;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| promises::check(bytes));
