//! Records of descriptors with one field changed: each is refused, and says whose it is.

use super::*;
use crate::record::{OpenRecord, TableRecord, TargetRecord};
use monohull_abi::file::{DESCRIPTORS_MAX, FILE_SIZE_MAX};
use monohull_module_testing::Captured;
use std::format;

/// Bytes of the version at the start of a record.
const VERSION: usize = 4;

/// File systems before the descriptor table, as records are restored.
fn resume(captured: &Captured) -> Result<Domain, String> {
    Domain::resume(&[&monohull_libos_ramfs::MONOHULL_MODULE, &MONOHULL_MODULE], captured)
}

/// A file with two descriptors, and a directory whose entries have been read.
fn scene() -> Captured {
    let modules = [&monohull_libos_ramfs::MONOHULL_MODULE, &MONOHULL_MODULE];
    let domain = Domain::with_mounts(&modules, vec![memory("/m", 1 << 20)]);
    let file = opened(&domain, "/m/file", RW);
    domain.files(ME).duplicate(file).unwrap();
    let directory = opened(&domain, "/m", open::READ | open::DIRECTORY);
    let buffer = domain.place(ME, &[0; 100]);
    domain.files(ME).call(number::FILE_GETDENTS, [directory, buffer, 100]).unwrap();
    domain.capture().unwrap()
}

/// What is answered to a record with this change of its only table.
fn resumed(captured: &Captured, change: &dyn Fn(&mut TableRecord)) -> Result<(), String> {
    let mut edited = captured.clone();
    let mut tables: Vec<TableRecord> = postcard::from_bytes(&captured.records[1][VERSION..]).unwrap();
    change(&mut tables[0]);
    edited.records[1].truncate(VERSION);
    edited.records[1].extend(postcard::to_allocvec(&tables).unwrap());
    resume(&edited).map(drop)
}

#[test]
fn every_field_that_lies_is_refused() {
    let captured = scene();
    assert_eq!(resumed(&captured, &|_| ()), Ok(()));
    let refuse = |words: &str, change: &dyn Fn(&mut TableRecord)| match resumed(&captured, change) {
        Ok(()) => panic!("not refused: {words}"),
        Err(refused) => assert!(refused.contains(words), "{refused:?} has no {words:?}"),
    };
    for instance in [0, 7, u32::MAX] {
        refuse(&format!("there is no instance {instance}"), &|table| table.instance = instance);
    }
    for path in ["/m", "m/", "m//x", "..", "m/../x", ".", "m\0", &"x".repeat(256), &"x/".repeat(4096)] {
        refuse("instance 1: its record is damaged: the working directory", &|table| table.working = path.to_string());
        refuse("instance 1: its record is damaged: an open file", &|table| table.files[0].path = path.to_string());
    }
    for descriptor in [0, 2, DESCRIPTORS_MAX as u64, u64::MAX] {
        let only = |table: &mut TableRecord| table.descriptors = vec![(descriptor, 0), (descriptor, 1)];
        refuse("the descriptors are not in order", &only);
        refuse("its record is damaged: a descriptor", &|table| {
            table.descriptors = vec![(descriptor, 0)];
            table.files.truncate(1);
        });
    }
    refuse("its record is damaged: a descriptor", &|table| table.descriptors[0].1 = 2);
    refuse("an open file without a descriptor", &|table| table.descriptors[2].1 = 0);
    for flags in [0, open::APPEND, RW, u64::MAX] {
        refuse("its record is damaged: an open file", &|table| table.files[0].flags = flags);
    }
    refuse("its record is damaged: an open file", &|table| table.files[0].position = FILE_SIZE_MAX + 1);
    refuse("`/x`: the workflow has no mount there", &|table| table.files[0].path = "x".to_string());
    refuse("`/`: its mount is read-only", &|table| table.files[0].path = String::new());
    let target = |target: fn() -> TargetRecord| move |table: &mut TableRecord| table.files[0].target = target();
    refuse("`/m/file`: there is no such file in memory", &target(|| TargetRecord::Numbered(1)));
    refuse("`/m/file`: there is no such file in memory", &target(|| TargetRecord::Numbered(u64::MAX)));
    refuse("`/m/file`: its mount is of another kind", &target(|| TargetRecord::ByPath(1)));
    refuse("`/m/file`: its mount is of another kind", &target(|| TargetRecord::Directory(None)));
    refuse("`/`: its mount is of another kind", &|table| {
        table.files[1] =
            OpenRecord { path: String::new(), flags: open::READ, position: 0, target: TargetRecord::Numbered(0) };
    });
}

#[test]
fn a_pinned_file_refuses() {
    let domain = one();
    opened(&domain, "/f", RW);
    let mut request = monohull_abi::file::FilePin { len: monohull_abi::file::TO_THE_END, ..Default::default() };
    let mut path = [0; monohull_abi::file::PATH_MAX];
    request.path = path.as_mut_ptr() as u64;
    let pin = domain.system(number::FILE_PIN, [ME.into(), 3, &raw mut request as u64, 0, 0, 0]);
    assert!(pin > 0);
    assert_eq!(domain.capture().err(), Some("`/f` is mapped".to_string()));
    assert_eq!(domain.system(number::FILE_UNPIN, [pin as u64, 0, 0, 0, 0, 0]), 0);
    assert!(domain.capture().is_ok());
}
