//! Asks for effects and handles them, in all the ways that the tests of effects want.
#![no_std]
#![deny(unsafe_code)]

mod asks;
mod handles;

use monohull_std::error::Error;
use monohull_std::prelude::*;

/// Does what `how` says: one of the ways to ask, or to handle a request.
#[monohull::main]
fn main(
    how: String,
    effect: Option<String>,
    request: Option<String>,
    times: Option<usize>,
    bytes: Option<usize>,
    milliseconds: Option<u64>,
) -> Result<(), Box<dyn Error>> {
    let effect = effect.unwrap_or_default();
    let wanted = asks::Wanted {
        effect: &effect,
        request: request.as_deref().unwrap_or_default().as_bytes(),
        times: times.unwrap_or(1),
        bytes: bytes.unwrap_or(0),
        milliseconds: milliseconds.unwrap_or(0),
    };
    match handles::handle(&how, &wanted) {
        Some(done) => done,
        None => asks::ask(&how, &wanted),
    }
}
