//! The example workflows, from end to end: the `monohull` binary runs them on files, and what comes out is compared
//! with what the machine's own tools make of the same files.
//!
//! They need the images that `cargo xtask build` links; `cargo xtask test` does both.

mod blob;
mod chain;
mod conformance;
mod crates;
mod files;
mod harness;
mod kinds;
mod modules;
mod real_std;
mod relay;
mod report;
mod search;
mod sort;
mod tour;
mod word_count;
