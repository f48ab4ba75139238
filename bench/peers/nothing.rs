//! The smallest program one would write in C: starts, does nothing, ends.
//!
//! Compiled by the benchmark itself, as a static program.
#![no_main]

/// What C calls `main`.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    0
}
