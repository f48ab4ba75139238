//! Damaged images: whatever is wrong, functions get errors, and nothing hangs, panics or leads out of the image.

use crate::{ME, Slice, closed, domain, formatted};
use lamfat::FatType;
use monohull_abi::file::open;
use monohull_fat::check::check;
use monohull_fat::{Found, Geometry, Image, find};
use monohull_module_testing::Files;
use proptest::prelude::*;
use std::sync::LazyLock;

/// An image with files, directories and chains in pieces, one of each kind.
pub(crate) static FILLED: [LazyLock<Vec<u8>>; 3] = [
    LazyLock::new(|| filled(FatType::Fat12)),
    LazyLock::new(|| filled(FatType::Fat16)),
    LazyLock::new(|| filled(FatType::Fat32)),
];

fn filled(kind: FatType) -> Vec<u8> {
    let domain = domain(formatted(kind));
    let files = domain.files(ME);
    files.make_directory("/fat/d").unwrap();
    files.make_directory("/fat/d/e").unwrap();
    let open: Vec<u64> = (0..6).map(|n| files.make(&format!("/fat/d/file number {n}"))).collect();
    for round in 0..12 {
        for descriptor in &open {
            files.write(*descriptor, &vec![round; 300 + usize::from(round) * 50]).unwrap();
        }
    }
    for descriptor in open {
        files.close(descriptor).unwrap();
    }
    closed(domain)
}

/// Uses everything there is, whatever comes of it.
pub(crate) fn use_all(files: Files<'_>) {
    let _ = files.list("/fat");
    let _ = files.list("/fat/d");
    let _ = files.list("/fat/d/e");
    for n in 0..6 {
        let path = format!("/fat/d/file number {n}");
        let _ = files.stat(&path);
        if let Ok(descriptor) = files.open(&path, open::READ | open::WRITE) {
            let _ = files.read_at(descriptor, 9000, 0);
            let _ = files.write_at(descriptor, &[1; 3000], 4000);
            let _ = files.write_at(descriptor, &[2; 100], 60_000);
            let _ = files.resize(descriptor, 700);
            let _ = files.close(descriptor);
        }
    }
    let _ = files.open("/fat/new", open::WRITE | open::CREATE).map(|new| files.write(new, &[3; 5000]));
    let _ = files.make_directory("/fat/d/e/f");
    let _ = files.rename("/fat/d/file number 0", "/fat/d/e/f/g");
    let _ = files.rename("/fat/d", "/fat/h");
    let _ = files.remove_file("/fat/d/file number 1");
    let _ = files.remove_file("/fat/h/file number 2");
    let _ = files.remove_directory("/fat/h/e");
}

/// Which structure to damage.
#[derive(Clone, Copy, Debug)]
enum Where {
    Boot,
    Fat,
    Directory,
    Anywhere,
}

fn offset(image: &[u8], place: Where, at: u64) -> usize {
    let geometry = Geometry::read(&Slice(image)).expect("not damaged yet");
    let (start, len) = match place {
        Where::Boot => (0, 512),
        Where::Fat => (geometry.fat_start, 400),
        Where::Directory if geometry.root_bytes > 0 && at.is_multiple_of(2) => (geometry.root_start, 256),
        // The root, where it is a chain, and the directories made first.
        Where::Directory => (geometry.data_start, 6 * geometry.cluster_size),
        Where::Anywhere => (0, geometry.data_start + 20_000),
    };
    (start + at % len) as usize
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn whatever_is_damaged_nothing_breaks(
        kind in 0..3usize,
        place in prop_oneof![Just(Where::Boot), Just(Where::Fat), Just(Where::Directory), Just(Where::Anywhere)],
        damages in proptest::collection::vec((any::<u64>(), prop_oneof![any::<u8>(), Just(0), Just(0xff), 0..9u8]), 1..20),
    ) {
        let whole: &[u8] = &FILLED[kind];
        let mut image = whole.to_vec();
        for (at, value) in damages {
            image[offset(whole, place, at)] = value;
        }
        let _ = check(&Slice(&image));
        let domain = domain(image);
        use_all(domain.files(ME));
        let image = closed(domain);
        let _ = check(&Slice(&image));
    }
}

#[test]
fn a_chain_that_goes_round_is_an_error() {
    for (kind, filled) in FILLED.iter().enumerate() {
        let mut image = filled.to_vec();
        let geometry = Geometry::read(&Slice(&image)).unwrap();
        // Every cluster that is in use leads back to the first of all.
        for cluster in 2..40 {
            let (at, len) = (geometry.entry_offset(cluster) as usize, geometry.entry_len());
            let mut bytes = [0; 4];
            Slice(&image).read(at as u64, &mut bytes[..len]).unwrap();
            let bytes = geometry.with_value(bytes, cluster, 2);
            image[at..at + len].copy_from_slice(&bytes[..len]);
        }
        let domain = domain(image);
        let files = domain.files(ME);
        assert!(files.open("/fat/d/file number 1", open::READ).is_err(), "image {kind}");
        use_all(files);
    }
}

/// What the FAT library would be led along is refused: nothing in the image changes but its dirty flag.
#[test]
fn a_change_is_not_led_along_a_chain_that_goes_nowhere() {
    for (kind, filled) in FILLED.iter().enumerate() {
        let geometry = Geometry::read(&Slice(filled)).unwrap();
        let found = |path: &str| match find(&geometry, &Slice(filled), path) {
            Ok(Found::Entry(entry)) => entry,
            other => panic!("{path}: {other:?}"),
        };
        let (directory, file) = (found("d"), found("d/file number 1"));
        let lead = |image: &mut [u8], cluster: u32, to: u32| {
            let (at, len) = (geometry.entry_offset(cluster) as usize, geometry.entry_len());
            let mut bytes = [0; 4];
            bytes[..len].copy_from_slice(&image[at..at + len]);
            image[at..at + len].copy_from_slice(&geometry.with_value(bytes, cluster, to)[..len]);
        };
        for to in [1, geometry.clusters + 2, geometry.clusters + 100] {
            let mut image = filled.to_vec();
            lead(&mut image, directory.cluster, to);
            lead(&mut image, file.cluster, to);
            let domain = domain(image.clone());
            let files = domain.files(ME);
            // The positive control: what does not lead there.
            files.make_directory("/fat/control").expect("the root is whole");
            files.remove_directory("/fat/control").expect("it was just made");
            assert!(files.make_directory("/fat/d/new").is_err(), "image {kind}, {to}");
            assert!(files.rename("/fat/d/e", "/fat/e").is_err(), "image {kind}, {to}");
            assert!(files.remove_file("/fat/d/file number 1").is_err(), "image {kind}, {to}");
            let after = closed(domain);
            let same = |place: core::ops::Range<u64>| {
                let place = place.start as usize..place.end as usize;
                assert!(image[place.clone()] == after[place], "image {kind}, {to}");
            };
            same(geometry.fat_start..geometry.fat_start + geometry.fat_bytes);
            let cluster = |number: u32| geometry.offset(number).unwrap();
            same(cluster(directory.cluster)..cluster(directory.cluster) + geometry.cluster_size);
        }
    }
}

/// The boot sector of FAT32 says where the root begins, and which FAT counts.
#[test]
fn a_boot_sector_that_leads_nowhere_is_refused() {
    let whole: &[u8] = &FILLED[2];
    for (at, bytes) in [(44, [0; 4]), (44, [1, 0, 0, 0]), (44, [0xff; 4]), (40, [0x81, 0, 0, 0])] {
        let mut image = whole.to_vec();
        image[at..at + bytes.len()].copy_from_slice(&bytes);
        let domain = domain(image.clone());
        let files = domain.files(ME);
        assert!(files.make_directory("/fat/new").is_err(), "{bytes:?} at {at}");
        assert!(files.open("/fat/new", open::WRITE | open::CREATE).is_err(), "{bytes:?} at {at}");
        let after = closed(domain);
        assert!(image[512..] == after[512..], "{bytes:?} at {at}");
    }
}

#[test]
fn what_is_no_image_is_an_error_for_every_call() {
    for image in [vec![], vec![0; 100], vec![0; 4096], vec![0xff; 1 << 20]] {
        let domain = domain(image);
        let files = domain.files(ME);
        assert!(files.list("/fat").is_err() && files.stat("/fat/x").is_err());
        assert!(files.open("/fat/x", open::WRITE | open::CREATE).is_err());
        assert!(files.list("/ram").is_ok(), "the other file system is not harmed");
    }
}
