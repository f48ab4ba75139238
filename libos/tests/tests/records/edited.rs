//! Records of files that were damaged, or written by a stranger: refused or harmless, and nothing panics.

use crate::{ME, domain, resume};
use monohull_abi::file::open;
use monohull_abi::module::Ending;
use monohull_module_testing::{Captured, Domain};
use proptest::prelude::*;

/// Files, directories, and everything that may be open.
fn scene() -> Captured {
    let domain = domain();
    let files = domain.files(ME);
    files.make_directory("/d").unwrap();
    files.make_directory("/d/e").unwrap();
    let file = files.make("/d/e/file");
    files.write(file, b"some words").unwrap();
    files.duplicate(file).unwrap();
    let gone = files.make("/more/gone");
    files.write_at(gone, b"behind a hole", 3 << 20).unwrap();
    files.remove_file("/more/gone").unwrap();
    let listed = files.open("/d", open::READ | open::DIRECTORY).unwrap();
    let buffer = domain.place(ME, &[0; 100]);
    files.call(monohull_abi::number::FILE_GETDENTS, [listed, buffer, 100]).unwrap();
    domain.capture().unwrap()
}

/// Uses whatever is there, and ends the instance.
fn harmless(domain: &Domain) {
    let files = domain.files(ME);
    for descriptor in 0..16 {
        // Any answer will do.
        let _ = files.stat_open(descriptor);
        let _ = files.read_at(descriptor, 100, 0);
        let _ = files.write(descriptor, b"words");
        let _ = files.resize(descriptor, 10);
        let _ = files.duplicate(descriptor);
        let _ = files.close(descriptor);
    }
    for path in ["/", "/d", "/d/e", "/more"] {
        let _ = files.list(path);
        let _ = files.stat(path);
    }
    let _ = files.rename("/d/e/file", "/file");
    let _ = files.remove_file("/file");
    domain.end(ME, Ending::Done);
    assert_eq!(domain.charged(ME), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn damaged(which in 0..2usize, changes in prop::collection::vec((0..400usize, any::<u8>()), 1..4), cut: prop::sample::Index) {
        let mut captured = scene();
        let record = &mut captured.records[which];
        // The fields come first, and the bytes of files, which may be anything, behind them.
        let fields = record.len().min(400);
        for (at, byte) in changes {
            record[at % fields] = byte;
        }
        if cut.index(8) == 0 {
            record.truncate(cut.index(record.len()));
        }
        if let Ok(domain) = resume(&captured) {
            harmless(&domain);
        }
    }

    #[test]
    fn made_up(which in 0..2usize, bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut captured = scene();
        captured.records[which].truncate(4);
        captured.records[which].extend(bytes);
        if let Ok(domain) = resume(&captured) {
            harmless(&domain);
        }
    }
}

#[test]
fn the_rights_and_limits_of_today_hold() {
    let captured = scene();
    let mut smaller = captured.clone();
    smaller.mounts[1].0.size = 4096;
    let refused = resume(&smaller).err().expect("it does not fit");
    assert_eq!(refused, "files in memory at `/more`: the file system is full");
    let mut read_only = captured.clone();
    read_only.mounts[0].0.read_only = 1;
    let refused = resume(&read_only).err().expect("a file is open for writing");
    assert_eq!(refused, "instance 1: `/d/e/file`: its mount is read-only");
    let mut poor = captured.clone();
    poor.set_limit(ME, 0);
    let refused = resume(&poor).err().expect("a listing is charged");
    assert_eq!(refused, "instance 1: `/d`: its entries exceed the memory limit");
    let mut elsewhere = captured;
    elsewhere.mounts.pop();
    let refused = resume(&elsewhere).err().expect("a mount is gone");
    assert_eq!(refused, "mount 1 is no memory");
}
