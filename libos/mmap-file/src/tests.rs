//! The module with the real descriptor table and file system, on a visor in miniature.

use crate::{MAPPINGS_AT_ONCE, MONOHULL_MODULE};
use monohull_abi::file::{Advice, FILLED_AT_ONCE, MountInfo, MountKind, TO_THE_END, map, open};
use monohull_abi::layout::PAGE;
use monohull_abi::module::Ending;
use monohull_abi::{Errno, number};
use monohull_module_testing::{Captured, Domain, Files};
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

const A: u32 = 1;
const B: u32 = 2;
/// More than one chunk of the file system in memory.
const LEN: usize = (5 << 20) + 100;

/// A domain with files in memory.
fn domain() -> Domain {
    let mount = MountInfo { kind: MountKind::Memory, read_only: 0, size: 64 << 20 };
    let modules = [&MONOHULL_MODULE, &monohull_libos_fdtab::MONOHULL_MODULE, &monohull_libos_ramfs::MONOHULL_MODULE];
    Domain::with_mounts(&modules, vec![(mount, "/".to_string())])
}

fn content() -> Vec<u8> {
    (0..LEN).map(|place| (place / 7) as u8).collect()
}

/// A file of an instance, with content.
fn file(files: Files<'_>, path: &str) -> u64 {
    let file = files.make(path);
    assert_eq!(files.write(file, &content()), Ok(LEN as u64));
    file
}

fn mapped(files: Files<'_>, descriptor: u64, offset: u64, len: u64) -> Result<u64, Errno> {
    files.call(number::FILE_MMAP, [descriptor, offset, len, 0])
}

#[test]
fn a_mapping_leads_to_the_files_bytes() {
    let domain = domain();
    let files = domain.files(A);
    let descriptor = file(files, "/f");
    for (offset, len) in [(0, LEN), (1, 10), (4095, 1 << 20), ((2 << 20) - 1, 2), (LEN - 1, 1)] {
        let address = mapped(files, descriptor, offset as u64, len as u64).expect("mapped");
        assert!(address.is_multiple_of(PAGE));
        assert_eq!(domain.touch_mapping(A, address), content()[offset..offset + len]);
        let known = domain.mapping(A, address).expect("it is there");
        assert_eq!((known.len, known.offset, &*known.path, known.writable), (len as u64, offset as u64, "f", false));
    }
    let address = mapped(files, descriptor, 100, TO_THE_END).expect("mapped");
    assert_eq!(domain.touch_mapping(A, address), content()[100..]);
    let copy = files.call(number::FILE_MMAP, [descriptor, 0, TO_THE_END, map::WRITE]).expect("mapped");
    assert!(domain.mapping(A, copy).expect("it is there").writable);
    assert_eq!(files.call(number::FILE_MPROTECT, [copy, 0]), Ok(0));
    assert!(!domain.mapping(A, copy).expect("it is there").writable);
}

#[test]
fn what_is_mapped_stays_whatever_becomes_of_the_file() {
    let domain = domain();
    let files = domain.files(A);
    let descriptor = file(files, "/f");
    let address = mapped(files, descriptor, 0, TO_THE_END).expect("mapped");
    files.call(number::FILE_FTRUNCATE, [descriptor, 0]).expect("cut");
    assert_eq!(domain.touch_mapping(A, address), content());
    files.close(descriptor).expect("closed");
    let [dir, path, len] = [monohull_abi::file::WORKING_DIRECTORY, domain.place(A, b"/f"), 2];
    files.call(number::FILE_UNLINK, [dir, path, len]).expect("removed");
    // Room for another file's bytes, if it had been freed.
    for name in 0..8 {
        let other = files.make(&format!("/other-{name}"));
        files.write(other, &[0xee; LEN]).expect("room");
    }
    assert_eq!(domain.touch_mapping(A, address), content());
    // What is pinned counts against the mount until it is let go: 64 MiB are 12 such files, one of them is pinned.
    assert_eq!(files.call(number::FILE_MUNMAP, [address]), Ok(0));
    assert_eq!((domain.mappings(), domain.mapping(A, address)), (0, None));
}

#[test]
fn what_is_pinned_counts_against_the_mount() {
    let domain = domain();
    let files = domain.files(A);
    let write = |path: &str| {
        let file = files.make(path);
        let written = files.write_whole(file, &vec![1; 40 << 20], 0);
        (file, written)
    };
    let (first, written) = write("/first");
    assert_eq!(written, Ok(40 << 20));
    let address = mapped(files, first, 0, TO_THE_END).expect("mapped");
    files.call(number::FILE_FTRUNCATE, [first, 0]).expect("cut");
    let (second, written) = write("/second");
    assert!(written.is_err() || written.is_ok_and(|bytes| bytes <= 24 << 20), "{written:?}");
    files.call(number::FILE_FTRUNCATE, [second, 0]).expect("cut");
    files.call(number::FILE_MUNMAP, [address]).expect("taken back");
    assert_eq!(files.write_whole(second, &vec![1; 40 << 20], 0), Ok(40 << 20));
}

#[test]
fn files_and_mappings_of_others_are_out_of_reach() {
    let domain = domain();
    let (a, b) = (domain.files(A), domain.files(B));
    let descriptor = file(a, "/f");
    let address = mapped(a, descriptor, 0, 100).expect("mapped");
    assert_eq!(mapped(b, descriptor, 0, 100), Err(Errno::BadDescriptor));
    for call in [number::FILE_MUNMAP, number::FILE_MADVISE, number::FILE_MPROTECT] {
        assert_eq!(b.call(call, [address, 0, 0]), Err(Errno::Invalid));
    }
    assert_eq!(domain.touch_mapping(A, address), content()[..100]);
    assert_eq!(a.call(number::FILE_MUNMAP, [address]), Ok(0));
    assert_eq!(a.call(number::FILE_MUNMAP, [address]), Err(Errno::Invalid), "once");
}

#[test]
fn what_is_needed_now_is_filled_some_at_a_time() {
    let domain = domain();
    let files = domain.files(A);
    let len = LEN as u64;
    let address = mapped(files, file(files, "/f"), 0, len).expect("mapped");
    let needed = |offset, len| files.call(number::FILE_MADVISE, [address, offset, len, Advice::WillNeed as u64]);
    assert_eq!(needed(0, len), Ok(FILLED_AT_ONCE));
    assert_eq!(needed(len - 5000, 5000), Ok(5000));
    assert_eq!(needed(FILLED_AT_ONCE, len), Err(Errno::Invalid), "all of it must be there");
    let advised = files.call(number::FILE_MADVISE, [address, 0, len, Advice::Random as u64]);
    assert_eq!(advised, Ok(0), "nothing is filled");
}

#[test]
fn wild_arguments_are_refused() {
    let domain = domain();
    let files = domain.files(A);
    let descriptor = file(files, "/f");
    let end = LEN as u64;
    let wild = [
        (0, end + 1),
        (end, 1),
        (end, TO_THE_END),
        (end + 1, TO_THE_END),
        (0, 0),
        (1 << 63, 1),
        (u64::MAX, TO_THE_END),
        (1, u64::MAX - 1),
        (end - 1, i64::MAX as u64),
    ];
    for (offset, len) in wild {
        assert_eq!(mapped(files, descriptor, offset, len), Err(Errno::Invalid), "{len} from {offset}");
    }
    for other in [0, 1, 2, 3000, u64::MAX] {
        assert_eq!(mapped(files, other, 0, 1), Err(Errno::BadDescriptor), "descriptor {other}");
    }
    for flags in [map::ALL + 1, u64::MAX] {
        assert_eq!(files.call(number::FILE_MMAP, [descriptor, 0, 1, flags]), Err(Errno::Invalid));
    }
    let written = files.open("/f", open::WRITE).expect("open");
    assert_eq!(mapped(files, written, 0, 1), Err(Errno::BadDescriptor));
    let directory = files.open("/", open::READ).expect("open");
    assert_eq!(mapped(files, directory, 0, 1), Err(Errno::IsDirectory));
    let address = mapped(files, descriptor, 0, 5000).expect("mapped");
    for wrong in [0, 1, address + 1, address + PAGE, address - PAGE, u64::MAX] {
        assert_eq!(files.call(number::FILE_MUNMAP, [wrong]), Err(Errno::Invalid), "{wrong:#x}");
        assert_eq!(files.call(number::FILE_MPROTECT, [wrong, 1]), Err(Errno::Invalid), "{wrong:#x}");
    }
    for (offset, len) in [(0, 5001), (5001, 0), (u64::MAX, 1), (1, u64::MAX)] {
        assert_eq!(files.call(number::FILE_MADVISE, [address, offset, len, 3]), Err(Errno::Invalid));
    }
    assert_eq!(files.call(number::FILE_MADVISE, [address, 0, 5000, 4]), Err(Errno::Invalid));
    assert_eq!(files.call(number::FILE_MPROTECT, [address, 2]), Err(Errno::Invalid));
    assert_eq!(domain.mappings(), 1, "only what was made on purpose");
}

#[test]
fn pinning_is_for_the_system() {
    let domain = domain();
    let files = domain.files(A);
    let descriptor = file(files, "/f");
    for call in [number::FILE_PIN, number::FILE_UNPIN] {
        let refused = domain.call(A, call, [u64::from(A), descriptor, 0, 0, 0, 0]);
        assert_eq!(Errno::from_value(refused), Err(Errno::NotPermitted));
    }
}

#[test]
fn memory_limits_hold_and_a_refusal_leaves_nothing() {
    let domain = domain();
    let files = domain.files(A);
    let descriptor = file(files, "/f");
    domain.set_limit(A, 8 << 20);
    let address = mapped(files, descriptor, 0, TO_THE_END).expect("mapped");
    assert_eq!(mapped(files, descriptor, 0, TO_THE_END), Err(Errno::OutOfMemory));
    assert_eq!(files.call(number::FILE_MUNMAP, [address]), Ok(0));
    assert!(mapped(files, descriptor, 0, TO_THE_END).is_ok());
}

#[test]
fn what_an_instance_leaves_is_taken_back() {
    let domain = domain();
    let (a, b) = (domain.files(A), domain.files(B));
    let descriptor = file(a, "/f");
    for _ in 0..2 * MAPPINGS_AT_ONCE {
        mapped(a, descriptor, 0, 5000).expect("mapped");
    }
    let theirs = file(b, "/g");
    let address = mapped(b, theirs, 0, 5000).expect("mapped");
    let mut left = Vec::new();
    domain.end_in_steps(A, Ending::Done, || left.push(domain.mappings()));
    assert_eq!(left, [MAPPINGS_AT_ONCE + 1, 1], "in steps");
    assert_eq!(domain.mappings(), 1);
    assert_eq!(domain.touch_mapping(B, address), content()[..5000]);
    domain.end(B, Ending::Failed);
    assert_eq!(domain.mappings(), 0);
}

/// File systems before the descriptor table, and this module behind it, as records are restored.
fn resume(captured: &Captured) -> Result<Domain, String> {
    let modules = [&monohull_libos_ramfs::MONOHULL_MODULE, &monohull_libos_fdtab::MONOHULL_MODULE, &MONOHULL_MODULE];
    Domain::resume(&modules, captured)
}

/// The same modules in that order.
fn captured(fill: impl FnOnce(&Domain)) -> Captured {
    let mount = MountInfo { kind: MountKind::Memory, read_only: 0, size: 64 << 20 };
    let modules = [&monohull_libos_ramfs::MONOHULL_MODULE, &monohull_libos_fdtab::MONOHULL_MODULE, &MONOHULL_MODULE];
    let domain = Domain::with_mounts(&modules, vec![(mount, "/".to_string())]);
    fill(&domain);
    domain.capture().expect("mappings are captured")
}

#[test]
fn mappings_are_where_they_were() {
    let mut addresses = Vec::new();
    let first = captured(|domain| {
        let files = domain.files(A);
        let descriptor = file(files, "/f");
        addresses.push(mapped(files, descriptor, 100, 5000).expect("mapped"));
        addresses.push(mapped(files, descriptor, 0, TO_THE_END).expect("mapped"));
        files.close(descriptor).expect("closed");
    });
    let domain = resume(&first).expect("a record of our own");
    let files = domain.files(A);
    assert_eq!(domain.touch_mapping(A, addresses[0]), content()[100..5100]);
    assert_eq!(domain.touch_mapping(A, addresses[1]), content());
    // What is cut off of the file is zeros for those that go on after that.
    let descriptor = files.open("/f", open::READ | open::WRITE).expect("open");
    files.call(number::FILE_FTRUNCATE, [descriptor, 3000]).expect("cut");
    files.close(descriptor).expect("closed");
    let again = domain.capture().expect("again");
    drop(domain);
    let domain = resume(&again).expect("a record of our own");
    let mut cut = content()[100..3000].to_vec();
    cut.resize(5000, 0);
    assert!(domain.touch_mapping(A, addresses[0]) == cut);
    for address in addresses {
        assert_eq!(domain.files(A).call(number::FILE_MUNMAP, [address]), Ok(0));
    }
    assert_eq!((domain.mappings(), domain.charged(A)), (0, 0));
}

#[test]
fn records_of_mappings_that_lie_are_refused() {
    let mut address = 0;
    let good = captured(|domain| {
        let files = domain.files(A);
        address = mapped(files, file(files, "/f"), 0, 5000).expect("mapped");
    });
    let with = |mapped: &[(u32, Vec<(u64, u64)>)]| {
        let mut edited = good.clone();
        edited.records[2].truncate(4);
        edited.records[2].extend(postcard::to_allocvec(mapped).expect("plain data"));
        resume(&edited).map(|domain| _ = domain.end(A, Ending::Done))
    };
    assert_eq!(with(&[(A, vec![(address, 1)])]), Ok(()), "as it is");
    assert_eq!(with(&[]), Ok(()), "a pin that nothing needs goes with its instance");
    let no_pin = format!("instance {A}: the file that was mapped at {address:#x}: {}", Errno::Invalid);
    for pin in [0, 2, u64::MAX] {
        let refused = with(&[(A, vec![(address, pin)])]);
        assert!(pin == 0 && refused.is_err() || refused == Err(no_pin.clone()), "pin {pin}: {refused:?}");
    }
    assert_eq!(with(&[(7, vec![(address, 1)])]), Err("there is no instance 7".to_string()));
    assert_eq!(with(&[(u32::MAX, vec![(address, 1)])]), Err(format!("there is no instance {}", u32::MAX)));
    assert!(with(&[(A, vec![]), (A, vec![])]).expect_err("twice").contains("the instances are not in order"));
    let twice = with(&[(A, vec![(address, 1), (address, 1)])]);
    assert!(twice.expect_err("twice").contains("the mappings are not in order"));
    let mut old = good.clone();
    old.records[2] = vec![1, 0, 0, 0];
    assert!(resume(&old).is_ok(), "version 1 had none");
    old.records[2] = vec![3, 0, 0, 0, 0];
    assert!(resume(&old).is_err_and(|why| why.contains("version 3")));
}
