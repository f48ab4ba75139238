//! Does nothing: what an instance costs by itself.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::prelude::*;

#[monohull::main]
fn main() {}
