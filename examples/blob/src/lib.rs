//! Puts blobs together, which it asks for by their names. It has no file system, and no idea of where blobs are: that is what the step knows
//! that handles the effect `blob`, here the function in `examples/blob-store`.
//!
//! ```text
//!   perform("blob", "header.txt") ──▶ blob-store: /blobs/header.txt ──▶ bytes ─┐
//!   perform("blob", "poem.txt")   ──▶ another instance of it        ──▶ bytes ─┴─▶ slot `page`
//! ```
#![no_std]
#![deny(unsafe_code)]

use monohull_std::continuation::perform;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotVec;

/// Fills the slot `page` with these blobs, one after another.
#[monohull::main]
fn main(blobs: Vec<String>) -> Result<(), Box<dyn Error>> {
    let mut page = SlotVec::<u8>::with_slot("page");
    for name in &blobs {
        // The function waits here, without a thread of the host, until the handler has replied.
        let blob = perform("blob", name.as_bytes())?;
        println!("{name}: {} bytes", blob.len());
        page.extend_from_slice(&blob);
    }
    page.publish()?;
    Ok(())
}
