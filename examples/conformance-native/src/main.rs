//! The conformance suite as a program: what std does, which the shim must do as well.
#![deny(unsafe_code)]

#[path = "../../conformance/src/suite/mod.rs"]
mod suite;

fn main() -> Result<(), suite::Ending> {
    suite::main()
}
