//! The tour as a function. Only the two lines before the body are Monohull's; `examples/network_with_std.rs` compiles the same
//! body with std, and the two print the same.
#![no_std]
monohull_std::program!();

include!("body.rs");
