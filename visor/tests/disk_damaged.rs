//! Disk images with any bytes changed, as the verbs of `monohull image` meet them: an answer or an error, never more copied out than
//! there can be, and nothing copied in that makes a repair impossible.

use monohull_fat::Found;
use monohull_visor::disk::{Disk, DiskError};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use tempfile::TempDir;

/// An image with directories in each other and files of several clusters.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("disk.img");
    let mut disk = Disk::create(&path, 1 << 20, true).expect("an image");
    for directory in ["a", "a/b", "a/b/c", "other"] {
        disk.make_directory(directory).expect("room");
        for n in 0..4u8 {
            let file = format!("{directory}/a file with a long name {n}");
            disk.write(&file, &mut &vec![n; 9000][..], 9000, 0).expect("room");
        }
    }
    drop(disk);
    fs::read(&path).expect("readable")
});

/// Bytes of all files below a folder.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            if entry.path().is_dir() {
                bytes_in(&entry.path())
            } else {
                fs::metadata(entry.path()).map_or(0, |file| file.len())
            }
        })
        .sum()
}

/// Reads all that can be found by names, as deep as the image was.
fn read_all(disk: &Disk, path: &str, depth: u32) {
    for entry in disk.list(path).unwrap_or_default() {
        let inner = if path.is_empty() { entry.name.clone() } else { format!("{path}/{}", entry.name) };
        match disk.find(&inner) {
            Ok(found) if found.is_directory() && depth > 0 => read_all(disk, &inner, depth - 1),
            Ok(Found::Entry(_)) => _ = disk.read(&inner, &mut std::io::sink()),
            _ => {}
        }
    }
}

/// What became of a damaged image to which a file was to be copied.
#[derive(Default)]
struct Outcomes {
    written: Cell<u32>,
    refused: Cell<u32>,
}

#[test]
fn whatever_is_damaged_each_verb_comes_to_its_end() {
    // Where names and chains are, and now and then anywhere.
    let place = prop_oneof![9 => 512..40_000usize, 1 => 0..(1usize << 20)];
    let damages = proptest::collection::vec((place, prop_oneof![any::<u8>(), 0..40u8]), 1..12);
    let outcomes = Outcomes::default();
    let mut runner = TestRunner::new(ProptestConfig { source_file: Some(file!()), ..ProptestConfig::with_cases(200) });
    runner.run(&damages, |damages| each_verb(damages, &outcomes)).unwrap_or_else(|error| panic!("{error}"));
    let (written, refused) = (outcomes.written.get(), outcomes.refused.get());
    assert!(written >= 3 && refused >= 3, "of each there must be some: {written} written, {refused} refused");
}

fn each_verb(damages: Vec<(usize, u8)>, outcomes: &Outcomes) -> Result<(), TestCaseError> {
    let mut image = WHOLE.clone();
    for (at, value) in damages {
        image[at] = value;
    }
    let folder = TempDir::new().expect("a folder");
    let (path, out, new) = (folder.path().join("disk.img"), folder.path().join("out"), folder.path().join("new"));
    fs::write(&path, &image).and_then(|()| fs::write(&new, [5; 3000])).expect("files");
    // Those that are no image any more do not count as cases.
    let mut disk = Disk::open(&path, false).map_err(|error| TestCaseError::reject(error.to_string()))?;
    read_all(&disk, "", 4);
    let _ = disk.copy_out("", &out);
    prop_assert!(bytes_in(&out) <= 2 * image.len() as u64);
    let _ = disk.check(false);
    drop(disk);
    prop_assert!(fs::read(&path).expect("readable") == image, "looking changes nothing");
    let mut disk = Disk::open(&path, true).expect("as before");
    let copied = disk.copy_in(&new, "new");
    drop(disk);
    if let Err(DiskError::Unsound { .. } | DiskError::Image { .. }) = &copied {
        outcomes.refused.set(outcomes.refused.get() + 1);
        prop_assert!(fs::read(&path).expect("readable") == image, "nothing is written to it: {:?}", copied.err());
    } else if copied.is_ok() {
        outcomes.written.set(outcomes.written.get() + 1);
        let mut disk = Disk::open(&path, true).expect("as before");
        let mut there = Vec::new();
        prop_assert!(disk.read("new", &mut there).is_ok() && there == [5; 3000]);
        let lost = disk.check(true).expect("it can be checked").findings;
        prop_assert!(!lost.iter().any(|finding| finding.loses_data()), "{:?}", lost);
        prop_assert_eq!(disk.check(false).expect("it can be checked").findings, []);
    }
    Ok(())
}
