//! The contact sheet: thumbnails on a grid, each above a bar in its mean colour; and what is known of the photos, as JSON.

use crate::picture::Format;
use crate::thumbnail::{SIDE, Thumbnail};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotString};
use rgb::{ComponentBytes, FromSlice, RGB8};
use serde::Serialize;
use zune_core::bit_depth::BitDepth;
use zune_core::colorspace::ColorSpace;
use zune_core::options::EncoderOptions;
use zune_png::PngEncoder;

/// Space around thumbnails, and the height of the bars.
const MARGIN: usize = 10;
const BAR: usize = 6;
const CELL_WIDTH: usize = SIDE + MARGIN;
const CELL_HEIGHT: usize = SIDE + BAR + MARGIN;
const PAPER: RGB8 = RGB8::new(24, 24, 28);

/// What the sheet says of one photo.
#[derive(Serialize)]
struct Photo {
    photo: usize,
    format: &'static str,
    bytes: u64,
    width: u32,
    height: u32,
    mean: [u8; 3],
}

/// A picture to draw on.
struct Sheet {
    width: usize,
    height: usize,
    pixels: Vec<RGB8>,
}

impl Sheet {
    /// Draws a picture whose upper left corner comes to `x`, `y`.
    fn draw(&mut self, x: usize, y: usize, width: usize, pixels: &[RGB8]) {
        for (row, line) in pixels.chunks_exact(width).enumerate() {
            let start = (y + row) * self.width + x;
            self.pixels[start..start + width].copy_from_slice(line);
        }
    }
}

/// Takes all thumbnails, in order, and publishes the sheet and the list.
pub(crate) fn make(columns: usize) -> Result<(), Box<dyn Error>> {
    let thumbnails = SlotBuffer::<Thumbnail>::take_all("thumbnail").collect::<Result<Vec<_>, _>>()?;
    let columns = columns.clamp(1, thumbnails.len().max(1));
    let rows = thumbnails.len().div_ceil(columns).max(1);
    let (width, height) = (columns * CELL_WIDTH + MARGIN, rows * CELL_HEIGHT + MARGIN);
    let mut sheet = Sheet { width, height, pixels: vec![PAPER; width * height] };
    let mut photos = Vec::new();
    for (photo, thumbnail) in thumbnails.iter().enumerate() {
        let (left, top) = (photo % columns * CELL_WIDTH + MARGIN, photo / columns * CELL_HEIGHT + MARGIN);
        let (small_width, small_height) = (thumbnail.small_width as usize, thumbnail.small_height as usize);
        let (x, y) = (left + (SIDE - small_width) / 2, top + (SIDE - small_height) / 2);
        sheet.draw(x, y, small_width, thumbnail.rgb[..small_width * small_height * 3].as_rgb());
        let [red, green, blue] = thumbnail.mean;
        sheet.draw(left, top + SIDE, SIDE, &[RGB8::new(red, green, blue); SIDE * BAR]);
        let format = match thumbnail.format {
            Format::Jpeg => "JPEG",
            Format::Png => "PNG",
        };
        let (bytes, mean) = (thumbnail.bytes, thumbnail.mean);
        photos.push(Photo { photo, format, bytes, width: thumbnail.width, height: thumbnail.height, mean });
    }
    let mut file = Vec::new();
    let options = EncoderOptions::new(sheet.width, sheet.height, ColorSpace::RGB, BitDepth::Eight);
    let encoded = PngEncoder::new(sheet.pixels.as_bytes(), options).encode(&mut file);
    encoded.map_err(|error| format!("the sheet cannot be encoded: {error:?}"))?;
    SlotBuffer::with_slot_from("sheet", &file).publish()?;
    SlotString::with_slot("metadata").push_str(&serde_json::to_string_pretty(&photos)?);
    println!("{} photos on a sheet of {width}×{height}", photos.len());
    Ok(())
}
