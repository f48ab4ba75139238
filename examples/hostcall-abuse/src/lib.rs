//! Gives hostcalls every address and number it should not.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::prelude::*;

#[monohull::main]
fn main() {}
