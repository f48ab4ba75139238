//! The contact sheet of `workflows/photos.json`: photos are drawn here and stored by published encoders, the sheet is
//! read back by a published decoder, and looked at where the thumbnails must be.

mod support;

use jpeg_encoder::{ColorType, Encoder};
use monohull_visor::disk::Disk;
use monohull_visor::engine::RunOptions;
use monohull_visor::report::{Content, RunReport, Silent, Status};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use zune_core::bit_depth::BitDepth;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::EncoderOptions;
use zune_png::{PngDecoder, PngEncoder};

type Colour = [u8; 3];

/// A photo: a disc in one colour on a ground in another, darker towards the bottom.
struct Scene {
    width: u16,
    height: u16,
    disc: Colour,
    ground: Colour,
    png: bool,
}

const SCENES: [Scene; 6] = [
    Scene { width: 640, height: 480, disc: [220, 40, 40], ground: [200, 220, 240], png: false },
    Scene { width: 480, height: 640, disc: [40, 160, 60], ground: [240, 230, 200], png: false },
    Scene { width: 800, height: 200, disc: [40, 60, 200], ground: [250, 240, 120], png: false },
    Scene { width: 320, height: 320, disc: [230, 200, 40], ground: [60, 60, 90], png: true },
    Scene { width: 1600, height: 1200, disc: [160, 60, 180], ground: [180, 230, 190], png: false },
    Scene { width: 90, height: 60, disc: [250, 250, 250], ground: [20, 90, 110], png: true },
];

/// Bytes of the disk image with all of them.
const ALBUM_BYTES: u64 = 512 << 10;

/// Where thumbnails lie, as the example's source says.
const SIDE: usize = 160;
const MARGIN: usize = 10;
const BAR: usize = 6;

impl Scene {
    fn colour(&self, x: i32, y: i32) -> Colour {
        let (width, height) = (i32::from(self.width), i32::from(self.height));
        let (dx, dy, radius) = (x - width / 2, y - height / 2, width.min(height) * 3 / 8);
        match dx * dx + dy * dy < radius * radius {
            true => self.disc,
            false => self.ground.map(|part| (i32::from(part) * (2 * height - y) / (2 * height)) as u8),
        }
    }

    fn pixels(&self) -> Vec<u8> {
        let (width, height) = (i32::from(self.width), i32::from(self.height));
        (0..height).flat_map(|y| (0..width).flat_map(move |x| self.colour(x, y))).collect()
    }

    fn file(&self) -> Vec<u8> {
        let (pixels, mut file) = (self.pixels(), Vec::new());
        if self.png {
            let (width, height) = (self.width.into(), self.height.into());
            let options = EncoderOptions::new(width, height, ColorSpace::RGB, BitDepth::Eight);
            PngEncoder::new(&pixels, options).encode(&mut file).expect("a PNG");
        } else {
            let encoder = Encoder::new(&mut file, 90);
            encoder.encode(&pixels, self.width, self.height, ColorType::Rgb).expect("a JPEG");
        }
        file
    }

    fn mean(&self) -> Colour {
        let pixels = self.pixels();
        let sum = |part: usize| pixels.iter().skip(part).step_by(3).map(|p| u64::from(*p)).sum::<u64>();
        [0, 1, 2].map(|part| (sum(part) / (pixels.len() as u64 / 3)) as u8)
    }
}

fn run(photos: Vec<Vec<u8>>) -> RunReport {
    let inline_inputs = (0..).zip(photos).map(|(n, bytes)| (format!("photo.{n}"), bytes)).collect();
    let options = RunOptions { inline_inputs, ..RunOptions::default() };
    let ready = support::shipped("photos");
    let _one = support::one_at_a_time();
    ready.run(&options, Arc::new(Silent)).expect("the host can hold a domain")
}

/// The same from the disk image that is shipped: no inputs, but a folder to look into.
fn run_from_image() -> RunReport {
    let ready = support::shipped("disk/photos");
    let _one = support::one_at_a_time();
    ready.run(&RunOptions::default(), Arc::new(Silent)).expect("the host can hold a domain")
}

fn photos() -> Vec<Vec<u8>> {
    SCENES.iter().map(Scene::file).collect()
}

#[track_caller]
fn assert_close(what: &str, seen: Colour, expected: Colour) {
    let close = (0..3).all(|part| seen[part].abs_diff(expected[part]) <= 6);
    assert!(close, "{what}: {seen:?} where {expected:?} should be");
}

#[test]
fn six_photos_become_a_contact_sheet() {
    assert_is_right(&run(photos()));
}

#[test]
fn photos_in_a_disk_image_do_too() {
    let report = run_from_image();
    assert_is_right(&report);
    let loaded: BTreeSet<&str> = report.modules.iter().map(String::as_str).collect();
    assert_eq!(loaded, BTreeSet::from(["fatfs", "fdtab", "mm", "stdio"]));
}

/// The image holds what is drawn here. Where it does not, one that does is left to be put in its place.
#[test]
fn the_shipped_album_holds_these_photos() {
    let drawn = photos();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("album.img");
    let mut disk = Disk::create(&path, ALBUM_BYTES, true).expect("an image");
    for (n, file) in drawn.iter().enumerate() {
        disk.write(&format!("photo {n}"), &mut &file[..], file.len() as u64, 0).expect("there is room");
    }
    drop(disk);
    let shipped = Disk::open(&support::root().join("workflows/disk/album.img"), false).expect("an image");
    for (n, file) in drawn.iter().enumerate() {
        let mut found = Vec::new();
        shipped.read(&format!("photo {n}"), &mut found).expect("a photo");
        assert!(found == *file, "photo {n}: {} has the right one", path.display());
    }
}

/// Looks at the sheet and at what is said of the photos.
#[track_caller]
fn assert_is_right(report: &RunReport) {
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    let Some(Content::Bytes(file)) = &report.output["sheet"].content else { panic!("a PNG is no text") };
    // For people who want to see it.
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/contact-sheet.png"), file).expect("a place for it");

    let mut decoder = PngDecoder::new(ZCursor::new(&file[..]));
    let pixels = decoder.decode_raw().expect("the sheet is a PNG");
    let (width, height) = decoder.dimensions().expect("it has dimensions");
    assert_eq!((width, height), (3 * (SIDE + MARGIN) + MARGIN, 2 * (SIDE + BAR + MARGIN) + MARGIN));
    let at = |x: usize, y: usize| -> Colour {
        let start = (y * width + x) * 3;
        [pixels[start], pixels[start + 1], pixels[start + 2]]
    };
    for (n, scene) in SCENES.iter().enumerate() {
        let (left, top) = (n % 3 * (SIDE + MARGIN) + MARGIN, n / 3 * (SIDE + BAR + MARGIN) + MARGIN);
        assert_close(&format!("photo {n}, the disc"), at(left + SIDE / 2, top + SIDE / 2), scene.disc);
        assert_close(&format!("photo {n}, the bar"), at(left + SIDE / 2, top + SIDE + BAR / 2), scene.mean());
        // Near the upper left corner there is nothing but ground.
        let longer = usize::from(scene.width.max(scene.height)).max(SIDE);
        let small_height = usize::from(scene.height) * SIDE / longer;
        let small_width = usize::from(scene.width) * SIDE / longer;
        let (x, y) = (left + (SIDE - small_width) / 2 + 2, top + (SIDE - small_height) / 2 + 2);
        let there = (5 * longer / (2 * SIDE)) as i32;
        assert_close(&format!("photo {n}, the ground"), at(x, y), scene.colour(there, there));
        if small_height + 4 < SIDE {
            assert_eq!(at(left + SIDE / 2, top + 1), [24, 24, 28], "photo {n}: paper above a flat picture");
        }
    }

    let metadata: Value = serde_json::from_str(support::text(report, "metadata")).expect("the metadata are JSON");
    for ((n, scene), file) in SCENES.iter().enumerate().zip(photos()) {
        let photo = &metadata[n];
        let format = if scene.png { "PNG" } else { "JPEG" };
        let mean: Vec<u64> = photo["mean"].as_array().expect("a colour").iter().filter_map(Value::as_u64).collect();
        assert_close(&format!("photo {n}, its mean"), [0, 1, 2].map(|part| mean[part] as u8), scene.mean());
        let mut rest = photo.clone();
        rest.as_object_mut().expect("a photo is an object").remove("mean");
        let (width, height, bytes) = (scene.width, scene.height, file.len());
        let expected = json!({ "photo": n, "format": format, "width": width, "height": height, "bytes": bytes });
        assert_eq!(rest, expected);
    }
}

#[test]
fn a_damaged_photo_is_named() {
    let mut photos = photos();
    photos[2].truncate(100);
    let report = run(photos);
    let error = report.error.expect("a photo is damaged");
    assert_eq!((error.step.as_deref(), error.instance), (Some("thumbnails"), Some(2)));
    assert!(error.message.contains("photo 2: not a JPEG"), "{}", error.message);
}
