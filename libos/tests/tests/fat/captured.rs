//! An image in a domain that is captured, and goes on in another one.

use crate::model::{Step, run, step, tree};
use crate::{ME, checked, formatted};
use lamfat::FatType;
use monohull_abi::Errno;
use monohull_abi::file::{FileStat, MountInfo, MountKind, open};
use monohull_abi::module::{Ending, ModuleTable};
use monohull_module_testing::{Captured, Domain};
use proptest::prelude::*;

/// File systems before the descriptor table, as records are restored.
fn modules() -> [&'static ModuleTable; 3] {
    use monohull_libos_fatfs as fatfs;
    [&monohull_libos_ramfs::MONOHULL_MODULE, &fatfs::MONOHULL_MODULE, &monohull_libos_fdtab::MONOHULL_MODULE]
}

/// A domain with an image at `/fat`, whose changes may be its own.
fn domain(image: Vec<u8>, private: bool) -> Domain {
    let info = |kind, size| MountInfo { kind, read_only: 0, size };
    let mounts =
        vec![(info(MountKind::Memory, 64 << 20), "/ram".to_string()), (info(MountKind::Image, 0), "/fat".to_string())];
    let domain = Domain::with_mounts(&modules(), mounts);
    match private {
        true => domain.set_private_image(1, image),
        false => domain.set_image(1, image),
    }
    domain.set_time(1, 1_795_132_800_000_000_000);
    domain
}

fn resume(captured: &Captured) -> Result<Domain, String> {
    Domain::resume(&modules(), captured)
}

fn moved(domain: Domain) -> Domain {
    let captured = domain.capture().expect("it is at rest");
    drop(domain);
    resume(&captured).expect("a record of our own")
}

/// What is known of the open files.
fn stats(domain: &Domain, descriptors: &[u64]) -> Vec<Result<FileStat, Errno>> {
    descriptors.iter().map(|file| domain.files(ME).stat_open(*file)).collect()
}

/// Without the node: which clusters a new directory gets, and so the nodes of the files in it, is not captured.
fn without_node(stat: Result<FileStat, Errno>) -> Result<FileStat, Errno> {
    stat.map(|stat| FileStat { node: 0, ..stat })
}

/// Does all steps, and changes the domain after each of these if it can be captured then; what came of them.
///
/// Of an open file everything stays as it was, its node too.
fn history(kind: FatType, private: bool, steps: &[Step], moves: &[bool]) -> Vec<String> {
    let mut domain = domain(formatted(kind), private);
    let mut descriptors = Vec::new();
    let mut all = Vec::new();
    for (round, step) in steps.iter().enumerate() {
        domain.set_time(1, 1_795_132_800_000_000_000 + round as u64 * 1_111_111_111);
        let came = run(domain.files(ME), "/fat", &mut descriptors, step, round);
        let known = stats(&domain, &descriptors);
        all.push(format!("{step:?}: {came}, {:?}", known.iter().copied().map(without_node).collect::<Vec<_>>()));
        if moves[round % moves.len()] {
            domain = match domain.capture() {
                Ok(captured) => {
                    drop(domain);
                    let resumed = resume(&captured).expect("a record of our own");
                    assert_eq!(stats(&resumed, &descriptors), known);
                    resumed
                }
                Err(refused) => {
                    assert!(
                        refused.ends_with("has been removed or renamed while it is open")
                            || refused.ends_with("while it is open"),
                        "{refused}"
                    );
                    domain
                }
            };
        }
    }
    all.push(format!("{:?}", tree(domain.files(ME), "/fat")));
    for descriptor in descriptors {
        domain.files(ME).close(descriptor).expect("it is open");
    }
    domain.end(ME, Ending::Done);
    all.push(format!("{:?}", checked(domain).findings));
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 15, ..ProptestConfig::default() })]
    #[test]
    fn a_domain_that_moves_behaves_as_one_that_stays(
        kind in 0..2usize,
        private: bool,
        steps in prop::collection::vec(step(), 1..80),
        moves in prop::collection::vec(any::<bool>(), 1..6),
    ) {
        let kind = [FatType::Fat12, FatType::Fat16][kind];
        prop_assert_eq!(history(kind, private, &steps, &moves), history(kind, private, &steps, &[false]));
    }
}

/// A domain with an open file of some words in its image.
fn with_file(private: bool) -> (Domain, u64) {
    let domain = domain(formatted(FatType::Fat12), private);
    let files = domain.files(ME);
    let file = files.make("/fat/file");
    files.write(file, b"some words").unwrap();
    (domain, file)
}

#[test]
fn changes_of_its_own_are_captured_and_others_are_on_the_disk() {
    for private in [true, false] {
        let (domain, file) = with_file(private);
        let syncs = domain.image_syncs();
        let captured = domain.capture().unwrap();
        assert!(domain.image_syncs() > syncs);
        let bytes = captured.records[1].len();
        assert!(if private { bytes > 4096 } else { bytes < 100 }, "{private}: {bytes}");
        drop(domain);
        let domain = resume(&captured).unwrap();
        assert_eq!(domain.files(ME).read_at(file, 100, 0).unwrap(), b"some words");
        assert_eq!(domain.files(ME).write(file, b", and more"), Ok(10));
        let domain = moved(domain);
        assert_eq!(domain.files(ME).read("/fat/file").unwrap(), b"some words, and more");
    }
}

#[test]
fn a_file_that_has_lost_its_name_refuses_and_stays() {
    let (domain, file) = with_file(false);
    domain.files(ME).remove_file("/fat/file").unwrap();
    let refused = domain.capture().err().expect("it cannot be found again");
    assert!(refused.contains("while it is open"), "{refused}");
    assert_eq!(domain.files(ME).read_at(file, 100, 0).unwrap(), b"some words");
    domain.files(ME).close(file).unwrap();
    assert!(domain.capture().is_ok());
}

#[test]
fn a_renamed_file_refuses_and_stays() {
    let (domain, file) = with_file(false);
    domain.files(ME).rename("/fat/file", "/fat/other").unwrap();
    let refused = domain.capture().err();
    assert_eq!(refused.as_deref(), Some("instance 1: `/fat/file` has been removed or renamed while it is open"));
    assert_eq!(domain.files(ME).read_at(file, 100, 0).unwrap(), b"some words");
}

#[test]
fn another_image_is_refused() {
    for private in [true, false] {
        let (domain, _) = with_file(private);
        let mut captured = domain.capture().unwrap();
        drop(domain);
        captured.with_image(1, |image| image[100_000] ^= 1);
        let refused = resume(&captured).err();
        assert_eq!(refused.as_deref(), Some("the disk image at `/fat`: the file has changed, or is another one"));
    }
}

#[test]
fn another_file_under_the_name_is_refused() {
    let (domain, _) = with_file(false);
    domain.files(ME).make("/fat/other");
    let mut captured = domain.capture().unwrap();
    drop(domain);
    let record = &mut captured.records[2];
    let at = record.windows(8).position(|bytes| bytes == b"fat/file").expect("its path");
    record[at + 4..at + 8].copy_from_slice(b"none");
    assert_eq!(resume(&captured).err().as_deref(), Some("instance 1: `/fat/none`: it is not there any more"));
}

#[test]
fn the_rights_of_today_hold() {
    let (domain, _) = with_file(false);
    let mut captured = domain.capture().unwrap();
    drop(domain);
    captured.mounts[1].0.read_only = 1;
    assert_eq!(resume(&captured).err().as_deref(), Some("instance 1: `/fat/file`: its mount is read-only"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_damaged_record_is_refused_or_harmless(
        private: bool,
        changes in prop::collection::vec((0..60usize, any::<u8>()), 1..4),
        cut in 0..20usize,
    ) {
        let (domain, file) = with_file(private);
        let mut captured = domain.capture().unwrap();
        drop(domain);
        let record = &mut captured.records[1];
        for (at, byte) in changes {
            let at = at % record.len();
            record[at] = byte;
        }
        if cut < 4 {
            record.truncate(record.len() * cut / 4);
        }
        if let Ok(domain) = resume(&captured) {
            let files = domain.files(ME);
            // Any answer will do.
            let _ = files.read_at(file, 100, 0);
            let _ = files.write(file, b"words");
            let _ = files.list("/fat");
            let _ = files.open("/fat/new", open::WRITE | open::CREATE);
            domain.end(ME, Ending::Done);
        }
    }
}
