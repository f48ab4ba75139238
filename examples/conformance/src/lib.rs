//! The conformance suite as a function: `suite` against the shim. `examples/conformance-native` compiles the same
//! files against std, and a test compares what the two print, line by line.
//!
//! The dependency is renamed to `std`, so the suite's files are ordinary ones without a word about Monohull.
#![deny(unsafe_code)]

mod suite;

std::program!();

fn main() -> Result<(), suite::Ending> {
    suite::main()
}
