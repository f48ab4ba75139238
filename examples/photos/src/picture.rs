//! Pictures as rows of red, green, blue; read from JPEG and PNG.

use monohull_std::prelude::*;
use monohull_std::slot::SlotData;
use rgb::{AsPixels, RGB8};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;
use zune_png::PngDecoder;

/// What kind of file a picture came from.
#[derive(Clone, Copy, SlotData)]
#[repr(u8)]
pub(crate) enum Format {
    Jpeg,
    Png,
}

/// A picture in memory.
pub(crate) struct Picture {
    pub(crate) format: Format,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<RGB8>,
}

/// Reads a photo, whichever format it has.
pub(crate) fn read(file: &[u8]) -> Result<Picture, String> {
    if file.starts_with(b"\x89PNG") { png(file) } else { jpeg(file) }
}

fn jpeg(file: &[u8]) -> Result<Picture, String> {
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    let bytes = decoder.decode().map_err(|error| format!("not a JPEG: {error}"))?;
    let (width, height) = decoder.dimensions().ok_or("a JPEG without dimensions")?;
    Ok(Picture { format: Format::Jpeg, width, height, pixels: bytes.as_pixels().to_vec() })
}

fn png(file: &[u8]) -> Result<Picture, String> {
    let options = DecoderOptions::default().png_set_strip_to_8bit(true);
    let mut decoder = PngDecoder::new_with_options(ZCursor::new(file), options);
    let bytes = decoder.decode_raw().map_err(|error| format!("not a PNG: {error:?}"))?;
    let (width, height) = decoder.dimensions().ok_or("a PNG without dimensions")?;
    let pixels = match decoder.colorspace() {
        Some(ColorSpace::RGB) => bytes.as_pixels().to_vec(),
        Some(ColorSpace::RGBA) => bytes.chunks_exact(4).map(|pixel| RGB8::new(pixel[0], pixel[1], pixel[2])).collect(),
        Some(ColorSpace::Luma) => bytes.iter().map(|grey| RGB8::new(*grey, *grey, *grey)).collect(),
        other => return Err(format!("a PNG in colours that are not supported: {other:?}")),
    };
    Ok(Picture { format: Format::Png, width, height, pixels })
}
