//! Photos become a contact sheet: each instance of the step `thumbnails` reads one photo and makes it small, the step
//! `sheet` puts the small ones together. Decoders, encoder and resizer are published crates, unmodified.
//!
//! ```text
//!   photo.0  JPEG or PNG ──▶ thumbnails 0 ──▶ thumbnail.0 ─┐
//!   photo.1  …           ──▶ thumbnails 1 ──▶ thumbnail.1 ─┼─▶ sheet ──▶ sheet (PNG), metadata (JSON)
//! ```
//!
//! With the argument `folder` the photos are files there instead, in a disk image for example.
#![no_std]
#![deny(unsafe_code)]

mod picture;
mod sheet;
mod thumbnail;

use monohull_std::prelude::*;
use serde::Deserialize;

/// Which of the two this instance is.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    Thumbnail,
    Sheet,
}

#[monohull::main]
fn main(part: Part, columns: Option<usize>, folder: Option<String>) -> Result<(), Box<dyn std::error::Error>> {
    match part {
        Part::Thumbnail => thumbnail::make(monohull::instance().index, folder.as_deref()),
        Part::Sheet => sheet::make(columns.unwrap_or(3)),
    }
}
