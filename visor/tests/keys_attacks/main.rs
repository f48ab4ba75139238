//! Attacks by a function, with protection keys in force: each is shown to work where nothing should stop it, to fail for the
//! stated reason where something should, and to leave its victim as it was.
//!
//! The attacks are in `examples/attacks`, in modules of the same names. They need a processor with protection keys:
//! `cargo xtask test --keys` runs them in a virtual machine that has some.

mod deputies;
mod doors;
mod exhaustion;
mod handover;
#[allow(dead_code, reason = "the negative control uses the rest")]
mod harness;
mod image;
mod instructions;
mod jumps;
mod leftovers;
mod memory;
mod places;
mod races;
#[path = "../serve_support/mod.rs"]
mod serve_support;
mod signals;
#[path = "../support/handover.rs"]
mod support;
