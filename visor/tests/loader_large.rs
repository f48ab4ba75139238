//! Images whose code is so large that several threads look at it: what they find is what one thread finds in the whole file.

#[allow(dead_code, reason = "the hostile set uses all of it")]
mod loader_builder;

use goblin::elf64::program_header::{PF_R, PF_X, PT_LOAD};
use loader_builder::{Elf, segment};
use monohull_visor::domain::image::map::{LoadError, LoadedImage};
use monohull_visor::domain::image::{Image, ImageError, verify};

/// Where the large segment begins, in memory as in the file, behind all that the valid image has.
const LARGE: usize = 0x4000;
/// Its bytes: no whole number of pages, nor of the parts in which it is looked at.
const SIZE: usize = (5 << 20) + 77;
const WRPKRU: [u8; 3] = [0x0f, 0x01, 0xef];

/// The valid image with a large segment more, and what a test changes.
fn large(change: impl FnOnce(&mut Elf), planted: &[usize]) -> Vec<u8> {
    let mut elf = Elf::valid();
    elf.add_segment(segment(PT_LOAD, PF_R | PF_X, LARGE as u64, SIZE as u64, SIZE as u64));
    change(&mut elf);
    let mut file = elf.build();
    file.resize(LARGE, 0);
    file.resize(LARGE + SIZE, 0x90);
    for at in planted {
        file[*at..*at + WRPKRU.len()].copy_from_slice(&WRPKRU);
    }
    file
}

fn open(file: &[u8]) -> Result<Image, ImageError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.so");
    std::fs::write(&path, file).expect("written");
    match LoadedImage::open("large", &path) {
        Ok(loaded) => Ok(loaded.image),
        Err(LoadError::Refused { source, .. }) => Err(source),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_large_image_is_read_as_a_small_one_is() {
    let file = large(|_| {}, &[]);
    assert_eq!(open(&file), verify("large", &file));
    open(&file).expect("there is nothing in it");
}

#[test]
fn what_is_forbidden_is_found_wherever_it_is_in_a_large_image() {
    let part = 128 << 10;
    let end = LARGE + SIZE - WRPKRU.len();
    for at in [LARGE, LARGE + part - 1, LARGE + part - 2, LARGE + 17 * part, LARGE + SIZE / 2, end] {
        let file = large(|_| {}, &[at]);
        let Err(ImageError::Forbidden { finding }) = open(&file) else { panic!("nothing was found at {at:#x}") };
        assert_eq!(finding.offset, at as u64);
    }
}

/// The first of several is named, whichever thread finds one first, and what the parser refuses comes before them.
#[test]
fn a_large_image_is_refused_for_the_same_reason_as_by_one_thread() {
    let planted = [LARGE + SIZE - 100, LARGE + SIZE / 2, LARGE + 5];
    let file = large(|_| {}, &planted);
    assert_eq!(open(&file), verify("large", &file));
    let Err(ImageError::Forbidden { finding }) = open(&file) else { panic!("it is accepted") };
    assert_eq!(finding.offset, LARGE as u64 + 5);
    let file = large(|elf| elf.image_header[0] = 1, &planted);
    assert_eq!(open(&file), Err(ImageError::WrongMagic { magic: 1 }));
    assert_eq!(open(&file), verify("large", &file));
}
