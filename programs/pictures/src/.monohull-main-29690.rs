//! A picture that is drawn, written as PNG, read again, made smaller, and written as JPEG; and one line for each other format.

use std::error::Error;
use std::fs;

use image::imageops::FilterType;
use image::{ImageFormat, ImageReader, Rgb, RgbImage};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir();
    fs::create_dir_all(&folder)?;
    let (png, jpeg) = (folder.join("drawn.png"), folder.join("smaller.jpg"));
    let drawn = RgbImage::from_fn(640, 480, |x, y| Rgb([(x / 3) as u8, (y / 2) as u8, if x > y { 200 } else { 20 }]));
    drawn.save(&png)?;
    let read = ImageReader::open(&png)?.with_guessed_format()?;
    println!("format: {:?}", read.format());
    let read = read.decode()?;
    println!("same: {}", read.to_rgb8() == drawn);
    let smaller = read.resize(160, 160, FilterType::Lanczos3).blur(1.0);
    smaller.to_rgb8().save_with_format(&jpeg, ImageFormat::Jpeg)?;
    let back = image::open(&jpeg)?.to_rgb8();
    let Rgb([red, green, blue]) = *back.get_pixel(120, 30);
    println!(
        "jpeg: {} × {}, near: {}",
        back.width(),
        back.height(),
        [(red, 160), (green, 60), (blue, 200)].iter().all(|(is, was)| is.abs_diff(*was) < 12)
    );
    println!("smaller: {}", fs::metadata(&jpeg)?.len() < fs::metadata(&png)?.len());
    for format in [ImageFormat::Gif, ImageFormat::WebP, ImageFormat::Tiff, ImageFormat::Bmp, ImageFormat::Qoi] {
        let mut bytes = std::io::Cursor::new(Vec::new());
        smaller.to_rgba8().write_to(&mut bytes, format)?;
        let again = image::load_from_memory_with_format(bytes.get_ref(), format)?;
        println!("{format:?}: {} × {}", again.width(), again.height());
    }
    Ok(())
}

#[allow(warnings, clippy::all, unsafe_code)] const _: () = { unsafe extern "Rust" { #[link_name = "_RNvNtCsjrHSEGnQ3l9_3std2rt19lang_start_internal"] fn monohull_lang_start(main: &(dyn Fn() -> i32 + Sync + ::std::panic::RefUnwindSafe), argc: isize, argv: *const *const u8, sigpipe: u8) -> isize; } #[unsafe(export_name = "main")] extern "C" fn start(argc: i32, argv: *const *const u8) -> i32 { let run = || { let code = ::std::process::Termination::report(main()); (0..=255u8).find(|status| ::std::process::ExitCode::from(*status) == code).map_or(1, i32::from) }; unsafe { monohull_lang_start(&run, argc as isize, argv, 0) as i32 } } };
