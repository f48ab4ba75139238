//! One photo made small, with what is known of it.

use crate::picture::{self, Format};
use monohull_std::error::Error;
use monohull_std::fs;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotData, indexed_name};
use resize::Pixel::RGB8;
use resize::Type::Lanczos3;
use rgb::FromSlice;

/// The longer side of a thumbnail, in pixels.
pub(crate) const SIDE: usize = 160;

/// A thumbnail as it travels: plain data of one size, so that nothing is copied on the way.
#[derive(SlotData)]
pub(crate) struct Thumbnail {
    /// What the photo was.
    pub(crate) bytes: u64,
    pub(crate) format: Format,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Its mean colour.
    pub(crate) mean: [u8; 3],
    /// The small picture; its rows lie one after the other.
    pub(crate) small_width: u32,
    pub(crate) small_height: u32,
    pub(crate) rgb: [u8; SIDE * SIDE * 3],
}

/// Takes photo `index`, from its slot or as a file of this folder, and hands its thumbnail on.
pub(crate) fn make(index: usize, folder: Option<&str>) -> Result<(), Box<dyn Error>> {
    let (taken, kept);
    let file: &[u8] = match folder {
        None => {
            taken = SlotBuffer::<[u8]>::from_slot(&indexed_name("photo", index))?;
            &taken
        }
        Some(folder) => {
            kept = read_nth(folder, index)?;
            &kept
        }
    };
    let photo = picture::read(file).map_err(|error| format!("photo {index}: {error}"))?;
    let longer = photo.width.max(photo.height).max(SIDE);
    let small = |side: usize| (side * SIDE / longer).max(1);
    let (width, height) = (small(photo.width), small(photo.height));

    let mut thumbnail = SlotBuffer::<Thumbnail>::with_slot_zeroed(&indexed_name("thumbnail", index));
    let room = thumbnail.rgb[..width * height * 3].as_rgb_mut();
    resize::new(photo.width, photo.height, width, height, RGB8, Lanczos3)
        .and_then(|mut resizer| resizer.resize(&photo.pixels, room))
        .map_err(|error| format!("photo {index}: {error}"))?;
    let count = photo.pixels.len() as u64;
    let mean =
        |part: fn(&rgb::RGB8) -> u8| (photo.pixels.iter().map(|p| u64::from(part(p))).sum::<u64>() / count) as u8;
    thumbnail.mean = [mean(|p| p.r), mean(|p| p.g), mean(|p| p.b)];
    thumbnail.bytes = file.len() as u64;
    thumbnail.format = photo.format;
    (thumbnail.width, thumbnail.height) = (photo.width as u32, photo.height as u32);
    (thumbnail.small_width, thumbnail.small_height) = (width as u32, height as u32);
    println!("{}×{} became {width}×{height}", photo.width, photo.height);
    thumbnail.publish()?;
    Ok(())
}

/// The file that is number `index` in the order of names.
fn read_nth(folder: &str, index: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<_> = entries.iter().map(|entry| entry.path()).collect();
    paths.sort();
    let path = paths.get(index).ok_or_else(|| format!("{folder} has {} files, not {}", paths.len(), index + 1))?;
    Ok(fs::read(path)?)
}
