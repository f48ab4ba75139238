//! Records of descriptors with one field changed: each is refused, and says whose it is.

use super::*;
use crate::record::{OpenRecord, PinRecord, TableRecord, TargetRecord};
use monohull_abi::file::{DESCRIPTORS_MAX, Extent, FILE_SIZE_MAX, FilePin, PATH_MAX, TO_THE_END};
use monohull_abi::module::Ending;
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
    refuse("an open file without a descriptor or a pin", &|table| table.descriptors[2].1 = 0);
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

/// Pins a file of an instance; with a pin in place of a descriptor again. The pin, bytes of now, bytes of once, and the path.
fn pin(domain: &Domain, instance: u32, descriptor: u64, before: u64) -> Result<(u64, u64, u64, String), Errno> {
    let (mut path, mut extents) = ([0; PATH_MAX], [Extent::default(); 4]);
    let mut request = FilePin { len: TO_THE_END, offset: 2, ..FilePin::default() };
    (request.path, request.extents, request.room) = (path.as_mut_ptr() as u64, extents.as_mut_ptr() as u64, 4);
    let args = [instance.into(), descriptor, &raw mut request as u64, before, 0, 0];
    let pin = Errno::from_value(domain.system(number::FILE_PIN, args))?;
    let path = String::from_utf8(path[..request.path_len as usize].to_vec()).unwrap();
    Ok((pin, request.len, request.whole, path))
}

/// A domain with modules in the order in which they are restored.
fn empty() -> Domain {
    Domain::with_mounts(&[&monohull_libos_ramfs::MONOHULL_MODULE, &MONOHULL_MODULE], vec![memory("/", 1 << 20)])
}

/// Goes on in a new domain.
fn moved(domain: Domain) -> Domain {
    let captured = domain.capture().unwrap();
    drop(domain);
    resume(&captured).unwrap()
}

/// A file of 10 bytes that is pinned from its third byte on, and has no descriptor any more.
fn pinned() -> (Domain, u64) {
    let domain = empty();
    let file = opened(&domain, "/f", RW);
    domain.files(ME).write(file, b"ten bytes.").unwrap();
    let (number, now, whole, _) = pin(&domain, ME, file, 0).unwrap();
    assert_eq!((now, whole), (8, 8));
    domain.files(ME).close(file).unwrap();
    (domain, number)
}

#[test]
fn a_pin_of_a_captured_domain_is_taken_over_and_pinned_again() {
    let (domain, number) = pinned();
    assert_eq!(pin(&domain, ME + 1, 0, number), Err(Errno::Invalid), "another instance's");
    let domain = moved(domain);
    assert_eq!(pin(&domain, ME + 1, 0, number), Err(Errno::Invalid), "another instance's");
    assert_eq!(pin(&domain, ME, 0, number + 1), Err(Errno::Invalid), "no pin");
    let (again, now, whole, path) = pin(&domain, ME, 0, number).unwrap();
    assert_eq!((again > number, now, whole, &*path), (true, 8, 8, "f"));
    assert_eq!(domain.system(number::FILE_UNPIN, [number, 0, 0, 0, 0, 0]), 0);
    // The file is cut, and removed: the pin keeps it, with what there is of it.
    let file = domain.files(ME).open("/f", RW).unwrap();
    domain.files(ME).resize(file, 5).unwrap();
    domain.files(ME).close(file).unwrap();
    domain.files(ME).remove_file("/f").unwrap();
    let domain = moved(domain);
    let (last, now, whole, _) = pin(&domain, ME, 0, again).unwrap();
    assert_eq!((now, whole), (3, 8));
    for number in [again, last] {
        assert_eq!(domain.system(number::FILE_UNPIN, [number, 0, 0, 0, 0, 0]), 0);
        assert!(domain.system(number::FILE_UNPIN, [number, 0, 0, 0, 0, 0]) < 0, "once");
    }
}

#[test]
fn a_pin_that_no_module_takes_ends_with_its_instance() {
    let (domain, number) = pinned();
    domain.files(ME).remove_file("/f").unwrap();
    let domain = moved(domain);
    domain.end(ME, Ending::Done);
    assert_eq!(pin(&domain, ME, 0, number), Err(Errno::Invalid));
    let record = domain.capture().unwrap().records;
    drop(domain);
    assert_eq!(record[1], empty().capture().unwrap().records[1], "nothing is left of it");
}

#[test]
fn every_field_of_a_pin_that_lies_is_refused() {
    let (domain, _) = pinned();
    opened(&domain, "/", open::READ | open::DIRECTORY);
    opened(&domain, "/g", open::WRITE | open::CREATE);
    let captured = domain.capture().unwrap();
    drop(domain);
    assert_eq!(resumed(&captured, &|_| ()), Ok(()));
    let refuse = |words: &str, change: &dyn Fn(&mut PinRecord)| {
        let refused = resumed(&captured, &|table| change(&mut table.pins[0])).expect_err(words);
        assert!(refused.contains(words), "{refused:?} has no {words:?}");
    };
    // Which files there are: that of a directory, one that is open to write alone, and that of the pin.
    for file in [0, 1, 3, u32::MAX] {
        refuse("its record is damaged: a pin", &|pin| pin.file = file);
    }
    for (offset, len) in [(0, 0), (FILE_SIZE_MAX, 1), (u64::MAX, 1), (1, u64::MAX)] {
        refuse("its record is damaged: a pin", &|pin| (pin.offset, pin.len) = (offset, len));
    }
    for number in [0, u64::MAX] {
        refuse("its record is damaged: the number of a pin", &|pin| pin.number = number);
    }
    let twice = resumed(&captured, &|table| {
        let PinRecord { number, file, offset, len } = table.pins[0];
        table.pins.push(PinRecord { number, file, offset, len });
    });
    assert!(twice.expect_err("twice").contains("the pins are not in order"));
}
