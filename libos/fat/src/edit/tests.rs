//! What changes of names cost, and how short names are found.

use super::{Editor, Store};
use crate::check::check;
use crate::{Error, Found, Geometry, Image, Runs, find, first_cluster, format, runs};
use std::format as text;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::vec;
use std::vec::Vec;

/// An image in memory that counts how often it is read, and can be stored to so many times.
#[derive(Clone)]
struct Counted(Arc<(Mutex<Vec<u8>>, AtomicU64, AtomicU64)>);

impl Counted {
    fn of(bytes: usize) -> Counted {
        Counted(Arc::new((Mutex::new(vec![0; bytes]), AtomicU64::new(0), AtomicU64::new(u64::MAX))))
    }

    fn let_store(&self, times: u64) {
        self.0.2.store(times, Relaxed);
    }

    fn reads(&self) -> u64 {
        self.0.1.load(Relaxed)
    }
}

impl Image for Counted {
    fn len(&self) -> u64 {
        self.0.0.lock().expect("bytes").len() as u64
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        self.0.1.fetch_add(1, Relaxed);
        let bytes = self.0.0.lock().expect("bytes");
        let from = bytes.get(offset as usize..).and_then(|rest| rest.get(..to.len())).ok_or(Error::Bytes)?;
        to.copy_from_slice(from);
        Ok(())
    }
}

impl Store for Counted {
    fn store(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.0.2.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).map_err(|_| Error::DiskFull)?;
        let mut bytes = self.0.0.lock().expect("bytes");
        let to = bytes.get_mut(offset as usize..).and_then(|rest| rest.get_mut(..from.len())).ok_or(Error::Bytes)?;
        to.copy_from_slice(from);
        Ok(())
    }
}

#[test]
fn a_name_costs_one_look_through_its_directory_however_many_begin_alike() {
    let image = Counted::of(16 << 20);
    format(&image, 1).expect("an image");
    let geometry = Geometry::read(&image).expect("a geometry");
    let mut editor = Editor::new(image.clone(), geometry, || 0);
    editor.make("d", true).expect("a directory");
    for n in 0..600 {
        editor.make(&text!("d/record of number {n:04}.text"), false).expect("a file");
    }
    // 600 names of three slots are 113 blocks.
    let before = image.reads();
    editor.make("d/record of number 0600.text", false).expect("a file");
    let reads = image.reads() - before;
    assert!(reads < 1000, "{reads}");
    editor.close();
    for n in 0..=600 {
        assert!(find(&geometry, &image, &text!("d/RECORD OF NUMBER {n:04}.TEXT")).is_ok(), "{n}");
    }
    assert_eq!(check(&image).expect("an image").findings, []);
}

/// A change that the disk stops half-way leaves a file that has what the image says, and no cluster that is free there.
#[test]
fn what_a_file_has_is_what_the_image_has_after_a_change_that_failed_half_way() {
    let image = Counted::of(16 << 20);
    format(&image, 1).expect("an image");
    let geometry = Geometry::read(&image).expect("a geometry");
    let mut editor = Editor::new(image.clone(), geometry, || 0);
    editor.make("file", false).expect("a file");
    let Ok(Found::Entry(entry)) = find(&geometry, &image, "file") else { panic!("a file") };
    let mut chain = Runs::default();
    let same = |chain: &Runs| {
        let first = first_cluster(&geometry, &image, entry.slot).expect("a cluster");
        assert_eq!(*chain, runs(&geometry, &image, first).expect("a chain"));
    };
    let mut failed = 0;
    for stores in 0..40 {
        for size in [1 << 20, 3000] {
            image.let_store(stores);
            let changed = match size > chain.capacity() {
                true => editor.lengthen(entry.slot, &mut chain, size),
                false => editor.shorten(entry.slot, &mut chain, size),
            };
            image.let_store(u64::MAX);
            failed += u32::from(changed.is_err());
            same(&chain);
        }
    }
    assert!(failed > 20, "{failed}");
}
