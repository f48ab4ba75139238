//! The `monohull` program.
fn main() {}
