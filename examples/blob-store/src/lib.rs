//! Handles the effect `blob`: the request is the name of a file, the reply is what is in it. An instance runs for each request.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::effect;
use monohull_std::error::Error;
use monohull_std::fs;
use monohull_std::prelude::*;
use monohull_std::str;

/// Replies with a file of `folder`.
#[monohull::main]
fn main(folder: String) -> Result<(), Box<dyn Error>> {
    let request = effect::request()?;
    let name = str::from_utf8(&request)?;
    // The asker may name a blob, and nothing else that this function can reach.
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(format!("{name:?} is no name of a blob").into());
    }
    let bytes = fs::read(format!("{folder}/{name}")).map_err(|error| format!("blob {name:?}: {error}"))?;
    effect::reply(&bytes)?;
    Ok(())
}
