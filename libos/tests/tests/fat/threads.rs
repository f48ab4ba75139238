//! Several threads at once, as carriers are, on files of an image.

use crate::{ME, checked, domain, formatted};
use lamfat::FatType;
use monohull_abi::Errno;
use monohull_abi::file::open;
use std::thread;

const THREADS: u32 = 3;
const ROUNDS: usize = 200;
const RECORD: usize = 100;

/// Records that threads append to a file which each of them opens and closes are all there and whole. Another file grows meanwhile, for which the
/// others wait.
#[test]
fn appended_records_are_whole_and_none_is_lost() {
    for kind in [FatType::Fat16, FatType::Fat32] {
        let domain = domain(formatted(kind));
        thread::scope(|scope| {
            for instance in 1..=THREADS {
                let domain = &domain;
                scope.spawn(move || {
                    let _part = domain.take_part();
                    let files = domain.files(instance);
                    for _ in 0..ROUNDS {
                        let log = files.open("/fat/log", open::WRITE | open::APPEND | open::CREATE).unwrap();
                        assert_eq!(files.write(log, &[instance as u8; RECORD]), Ok(RECORD as u64));
                        files.close(log).unwrap();
                        assert!(files.stat("/fat/log").unwrap().size >= RECORD as u64);
                    }
                });
            }
            let domain = &domain;
            scope.spawn(move || {
                let _part = domain.take_part();
                let files = domain.files(THREADS + 1);
                for _ in 0..ROUNDS {
                    let grows = files.make("/fat/grows");
                    files.write(grows, &[9; 2000]).unwrap();
                    files.close(grows).unwrap();
                    files.remove_file("/fat/grows").unwrap();
                }
            });
        });
        let written = domain.files(ME).read("/fat/log").unwrap();
        assert_eq!(written.len(), THREADS as usize * ROUNDS * RECORD, "{kind:?}");
        let mut counts = [0; THREADS as usize];
        for record in written.chunks(RECORD) {
            assert!(record.iter().all(|byte| *byte == record[0]), "a torn record: {record:?}");
            counts[record[0] as usize - 1] += 1;
        }
        assert_eq!(counts, [ROUNDS; THREADS as usize]);
        assert_eq!(checked(domain).findings, []);
    }
}

/// A file is removed also if it is closed at that moment.
#[test]
fn a_file_that_is_closed_meanwhile_is_removed() {
    let domain = domain(formatted(FatType::Fat16));
    for _ in 0..ROUNDS {
        let descriptor = domain.files(1).make("/fat/file");
        thread::scope(|scope| {
            let domain = &domain;
            scope.spawn(move || {
                let _part = domain.take_part();
                domain.files(1).close(descriptor).unwrap();
            });
            scope.spawn(move || {
                let _part = domain.take_part();
                let files = domain.files(2);
                assert!(files.stat("/fat/file").is_ok());
                assert_eq!(files.remove_file("/fat/file"), Ok(()));
                assert_eq!(files.stat("/fat/file").err(), Some(Errno::NotFound));
            });
        });
    }
    assert_eq!(checked(domain).findings, []);
}

/// A file that is open gets other names, and is removed, also if others cut it and write it at that moment.
#[test]
fn a_file_that_is_cut_meanwhile_is_moved_and_removed() {
    let domain = domain(formatted(FatType::Fat16));
    let descriptor = domain.files(1).make("/fat/one");
    thread::scope(|scope| {
        let domain = &domain;
        for instance in 2..=THREADS {
            let cut = domain.files(instance).open("/fat/one", open::WRITE).unwrap();
            scope.spawn(move || {
                let _part = domain.take_part();
                let files = domain.files(instance);
                for _ in 0..20 * ROUNDS {
                    files.resize(cut, 5000).unwrap();
                    files.resize(cut, 0).unwrap();
                }
                files.close(cut).unwrap();
            });
        }
        scope.spawn(move || {
            let _part = domain.take_part();
            let files = domain.files(1);
            for _ in 0..20 * ROUNDS {
                assert_eq!(files.rename("/fat/one", "/fat/two"), Ok(()));
                assert_eq!(files.rename("/fat/two", "/fat/one"), Ok(()));
            }
            assert_eq!(files.remove_file("/fat/one"), Ok(()));
            files.close(descriptor).unwrap();
        });
    });
    let checked = checked(domain);
    assert_eq!((checked.findings, checked.files), (Vec::new(), 0));
}
