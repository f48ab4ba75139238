//! A process that is killed between any two stores leaves an image that has lost space at most.

use crate::{ME, Slice, checked, closed, domain, formatted};
use lamfat::FatType;
use monohull_fat::check::{Finding, check, repair};
use monohull_fat::{Error, Image, ImageMut};
use monohull_module_testing::{Domain, Files};

/// What is there before, and must be there afterwards.
fn prepare(files: Files<'_>) {
    files.make_directory("/fat/kept").unwrap();
    for (name, size) in [("/fat/kept/one", 3000), ("/fat/kept/a second one", 9000), ("/fat/old", 2000)] {
        let descriptor = files.make(name);
        files.write(descriptor, &vec![size as u8; size]).unwrap();
        files.close(descriptor).unwrap();
    }
}

/// What is interrupted. Nothing is asserted: from some moment on nothing that is stored stays.
fn work(files: Files<'_>) {
    let _ = files.make_directory("/fat/new");
    if let Ok(descriptor) = files.open("/fat/new/a file with a long name", 11) {
        for _ in 0..8 {
            let _ = files.write(descriptor, &[9; 700]);
        }
        let _ = files.resize(descriptor, 1000);
        let _ = files.close(descriptor);
    }
    let _ = files.rename("/fat/new/a file with a long name", "/fat/moved");
    let _ = files.remove_file("/fat/old");
    let _ = files.rename("/fat/new", "/fat/kept/new");
    let _ = files.remove_directory("/fat/kept/new");
}

struct Owned(Vec<u8>);

impl Image for Owned {
    fn len(&self) -> u64 {
        Slice(&self.0).len()
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        Slice(&self.0).read(offset, to)
    }
}

impl ImageMut for Owned {
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.0[offset as usize..offset as usize + from.len()].copy_from_slice(from);
        Ok(())
    }
}

fn prepared(kind: FatType) -> Vec<u8> {
    let domain = domain(formatted(kind));
    prepare(domain.files(ME));
    closed(domain)
}

fn what_is_kept(domain: &Domain) {
    let files = domain.files(ME);
    assert_eq!(files.read("/fat/kept/one").unwrap(), vec![(3000 % 256) as u8; 3000]);
    assert_eq!(files.read("/fat/kept/a second one").unwrap(), vec![(9000 % 256) as u8; 9000]);
}

#[test]
fn killed_after_any_number_of_stores() {
    for kind in [FatType::Fat12, FatType::Fat16, FatType::Fat32] {
        let before = prepared(kind);
        let mut stores = 0;
        loop {
            let killed = domain(before.clone());
            killed.cut_off_after(stores);
            work(killed.files(ME));
            let done = killed.cut_off_after(0) > 0;
            let mut image = Owned(closed(killed));
            let what = format!("{kind:?} after {stores} stores");
            let report = check(&image).unwrap();
            // A file that is being moved has two names for a moment, and for the check the second one has lost.
            let lost: Vec<_> = report.findings.iter().filter(|finding| finding.loses_data()).collect();
            let moving = |finding: &&Finding| {
                matches!(finding, Finding::Cut { path, .. } | Finding::CutDirectory { path, .. }
                    if path.contains("moved") || path.contains("new"))
            };
            assert!(lost.iter().all(moving), "{what}: {lost:?}");
            // Used as it is, and after it was put right.
            what_is_kept(&domain(image.0.clone()));
            repair(&mut image).unwrap();
            assert_eq!(check(&image).unwrap().findings, [], "{what} and a repair");
            what_is_kept(&domain(image.0));
            if done {
                break;
            }
            stores += 1;
        }
        assert!(stores > 60, "{kind:?}: only {stores} stores");
    }
}

#[test]
fn an_image_that_was_not_closed_stays_so_until_it_is_checked() {
    let mut image = prepared(FatType::Fat16);
    let flag = monohull_fat::Geometry::read(&Slice(&image)).unwrap().dirty_flag() as usize;
    image[flag] |= 1;
    let used = domain(image);
    let file = used.files(ME).make("/fat/new");
    used.files(ME).write(file, b"text").unwrap();
    used.files(ME).close(file).unwrap();
    let mut image = Owned(closed(used));
    assert_eq!(repair(&mut image).unwrap().findings, [Finding::NotClosed]);
    assert_eq!(checked(domain(image.0)).findings, []);
}
