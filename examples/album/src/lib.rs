//! An album: each picture is made small by a child, an invocation of the workflow `thumbnail`. A picture that cannot be made small is in the album
//! with the reason.
//!
//! The children run while this one waits, and this one has no process then (`monohull run --state`, or a server).
#![no_std]
#![deny(unsafe_code)]

use monohull_std::durable;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;

/// Fills the slot `album` from the pictures in the slot `pictures`: each has a line with its name, and then lines of its own up to an empty line.
#[monohull::main]
fn main() -> Result<(), Box<dyn Error>> {
    let pictures = SlotString::from_slot("pictures")?;
    let mut children = Vec::new();
    for picture in pictures.split("\n\n").filter(|picture| !picture.trim().is_empty()) {
        let (name, picture) = picture.trim_matches('\n').split_once('\n').unwrap_or((picture.trim(), ""));
        children.push((name, durable::start("thumbnail", name, picture.as_bytes())?));
    }
    let mut album = SlotString::with_slot("album");
    for (name, child) in &children {
        let outcome = child.join()?;
        match outcome.output("small") {
            Some(small) => album.push_str(&format!("{name}\n{}\n", String::from_utf8_lossy(small))),
            None => album.push_str(&format!("{name}: {:?}: {}\n\n", outcome.ending(), outcome.message())),
        }
    }
    album.publish()?;
    Ok(())
}
