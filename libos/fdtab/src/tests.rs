//! Descriptors, mounts and paths over files in memory, called as functions call them.

mod records;
mod threads;

use crate::{DESCRIPTORS_AT_ONCE, MONOHULL_MODULE};
use monohull_abi::file::{FileStat, IoVec, MountInfo, MountKind, WORKING_DIRECTORY, open};
use monohull_abi::module::{Ending, Wake};
use monohull_abi::{Errno, number};
use monohull_module_testing::{Domain, Step};
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

const RW: u64 = open::READ | open::WRITE | open::CREATE;
/// A calling instance.
const ME: u32 = 1;

fn memory(point: &str, size: u64) -> (MountInfo, String) {
    (MountInfo { kind: MountKind::Memory, read_only: 0, size }, point.to_string())
}

fn domain(mounts: Vec<(MountInfo, String)>) -> Domain {
    Domain::with_mounts(&[&MONOHULL_MODULE, &monohull_libos_ramfs::MONOHULL_MODULE], mounts)
}

fn one() -> Domain {
    domain(vec![memory("/", 1 << 20)])
}

/// A call with one path; three more arguments. Its raw answer.
fn path(domain: &Domain, number: u32, path: &str, more: [u64; 3]) -> i64 {
    let [a, b, c] = more;
    domain.call(ME, number, [WORKING_DIRECTORY, domain.place(ME, path.as_bytes()), path.len() as u64, a, b, c])
}

fn opened(domain: &Domain, name: &str, flags: u64) -> u64 {
    domain.files(ME).open(name, flags).unwrap()
}

fn write(domain: &Domain, descriptor: u64, bytes: &[u8]) -> i64 {
    domain.files(ME).write(descriptor, bytes).map_or_else(Errno::to_value, |bytes| bytes as i64)
}

fn read_at(domain: &Domain, descriptor: u64, len: usize, offset: u64) -> Vec<u8> {
    domain.files(ME).read_at(descriptor, len, offset).unwrap()
}

fn stat(domain: &Domain, name: &str) -> Result<FileStat, Errno> {
    domain.files(ME).stat(name)
}

fn names(domain: &Domain, name: &str) -> Vec<String> {
    let names = domain.files(ME).list(name).unwrap();
    names.iter().map(|name| name.trim_end_matches('/').to_string()).collect()
}

/// What the step may not use it may not use by any path, and what lies inside is a mount of its own.
#[test]
fn an_instance_uses_the_mounts_that_its_step_lists() {
    let domain = domain(vec![memory("/", 1 << 20), memory("/deep", 1 << 20), memory("/deep/in/here", 1 << 20)]);
    let descriptor = opened(&domain, "/deep/kept", RW);
    assert_eq!(write(&domain, descriptor, b"kept"), 4);
    domain.deny_mount(ME, 1);
    let denied = Errno::NotPermitted;
    for name in
        ["/deep", "/deep/kept", "deep/kept", "/deep/", "/deep/new", "/deep/in/../kept", "/deep/in/here/../../kept"]
    {
        assert_eq!(domain.files(ME).open(name, open::READ).map(drop), Err(denied), "{name}");
        assert_eq!(domain.files(ME).open(name, RW).map(drop), Err(denied), "{name}");
        assert_eq!(stat(&domain, name), Err(denied), "{name}");
        for number in [number::FILE_MKDIR, number::FILE_RMDIR, number::FILE_UNLINK, number::FILE_CHDIR] {
            assert_eq!(path(&domain, number, name, [0; 3]), denied.to_value(), "{name}");
        }
    }
    assert_eq!(stat(&domain, "/deep/kept"), Err(denied));
    assert!(domain.explained().contains("not in the step's list `files`"), "{}", domain.explained());
    write(&domain, opened(&domain, "/deep/in/here/mine", RW), b"mine");
    write(&domain, opened(&domain, "/mine", RW), b"mine");
    assert!(stat(&domain, "/deep/in/here/mine").is_ok() && stat(&domain, "/mine").is_ok());
    assert_eq!(domain.files(ME + 1).open("/deep/kept", open::READ).map(drop), Ok(()), "another step has it");
}

#[test]
fn mounts_cover_each_other_and_are_listed() {
    let domain = domain(vec![memory("/", 1 << 20), memory("/deep/in/here", 1 << 20)]);
    assert_eq!(names(&domain, "/"), ["deep"]);
    assert_eq!(stat(&domain, "/deep/in/here").unwrap().mount, 1);
    assert_eq!(stat(&domain, "/").unwrap().mount, 0);
    assert_eq!(stat(&domain, "/deep"), Err(Errno::NotFound), "only the root file system can say that it is there");
    assert_eq!(path(&domain, number::FILE_RMDIR, "/deep/in/here", [0; 3]), Errno::Busy.to_value());
    assert_eq!(path(&domain, number::FILE_MKDIR, "/deep", [0; 3]), Errno::Exists.to_value());
    opened(&domain, "/deep/in/here/file", RW);
    assert_eq!(names(&domain, "/deep/in/here"), ["file"]);
}

#[test]
fn without_a_mount_there_are_only_ways_to_mounts() {
    let domain = domain(vec![memory("/a/b", 1 << 20), memory("/a/c", 1 << 20)]);
    assert_eq!(names(&domain, "/"), ["a"]);
    assert_eq!(names(&domain, "/a"), ["b", "c"]);
    assert_eq!(stat(&domain, "/a").unwrap().read_only, 1);
    for (number, name, errno) in [
        (number::FILE_MKDIR, "/a", Errno::Exists),
        (number::FILE_MKDIR, "/x", Errno::NotFound),
        (number::FILE_RMDIR, "/a", Errno::Busy),
        (number::FILE_UNLINK, "/a", Errno::IsDirectory),
    ] {
        assert_eq!(path(&domain, number, name, [0; 3]), errno.to_value(), "{name}");
        assert_ne!(domain.explained(), "");
    }
    assert_eq!(path(&domain, number::FILE_OPEN, "/a", [RW, 0, 0]), Errno::IsDirectory.to_value());
    assert_eq!(path(&domain, number::FILE_OPEN, "/x", [RW, 0, 0]), Errno::NotFound.to_value());
    assert!(domain.explained().contains("`files`"), "{}", domain.explained());
}

#[test]
fn renames_stay_on_their_mount() {
    let domain = domain(vec![memory("/a", 1 << 20), memory("/b", 1 << 20)]);
    opened(&domain, "/a/f", RW);
    let rename = |from: &str, to: &str| {
        let place = |text: &str| [WORKING_DIRECTORY, domain.place(ME, text.as_bytes()), text.len() as u64];
        let ([a, b, c], [d, e, f]) = (place(from), place(to));
        domain.call(ME, number::FILE_RENAME, [a, b, c, d, e, f])
    };
    assert_eq!(rename("/a/f", "/b/f"), Errno::CrossesMounts.to_value());
    assert_eq!(rename("/a", "/b/a"), Errno::Busy.to_value());
    assert_eq!(rename("/a/f", "/a"), Errno::Busy.to_value());
    assert_eq!(rename("/a/f/", "/a/g"), Errno::NotDirectory.to_value());
    assert_eq!(rename("/a/f", "/a/g"), 0);
    assert_eq!(names(&domain, "/a"), ["g"]);
}

#[test]
fn nothing_on_a_read_only_mount_changes() {
    let mut mounts = vec![memory("/", 1 << 20)];
    mounts[0].0.read_only = 1;
    let domain = domain(mounts);
    assert_eq!(path(&domain, number::FILE_OPEN, "/f", [RW, 0, 0]), Errno::ReadOnly.to_value());
    assert_eq!(path(&domain, number::FILE_OPEN, "/f", [open::WRITE, 0, 0]), Errno::NotFound.to_value());
    assert_eq!(path(&domain, number::FILE_MKDIR, "/d", [0; 3]), Errno::ReadOnly.to_value());
    assert_eq!(stat(&domain, "/").unwrap().read_only, 1);
}

#[test]
fn the_end_of_an_instance_closes_what_it_left_open() {
    let domain = one();
    let first = opened(&domain, "/f", RW);
    assert_eq!(write(&domain, first, b"kept"), 4);
    for _ in 0..1020 {
        assert!(domain.call(ME, number::FILE_DUP, [first, u64::MAX, 0, 0, 0, 0]) > 0);
    }
    assert_eq!(domain.call(ME, number::FILE_DUP, [first, u64::MAX, 0, 0, 0, 0]), Errno::TooManyOpen.to_value());
    // Nothing is made or emptied for which there is no descriptor.
    let (makes, empties) = (RW | open::CREATE, open::WRITE | open::TRUNCATE);
    assert_eq!(path(&domain, number::FILE_OPEN, "/g", [makes, 0, 0]), Errno::TooManyOpen.to_value());
    assert_eq!(path(&domain, number::FILE_OPEN, "/f", [empties, 0, 0]), Errno::TooManyOpen.to_value());
    assert_eq!((stat(&domain, "/g").err(), stat(&domain, "/f").unwrap().size), (Some(Errno::NotFound), 4));
    // One that could not be used is free again.
    assert_eq!(domain.call(ME, number::FILE_CLOSE, [first + 1, 0, 0, 0, 0, 0]), 0);
    assert_eq!(path(&domain, number::FILE_OPEN, "/none", [open::READ, 0, 0]), Errno::NotFound.to_value());
    assert_eq!(domain.call(ME, number::FILE_DUP, [first, u64::MAX, 0, 0, 0, 0]), first as i64 + 1);
    assert_eq!(path(&domain, number::FILE_UNLINK, "/f", [0; 3]), 0);
    let mut steps = 0;
    assert!(domain.end_in_steps(ME, Ending::Failed, || steps += 1), "its inputs are as whole as before");
    assert_eq!(steps, 1021 / DESCRIPTORS_AT_ONCE);
    assert_eq!(domain.call(ME, number::FILE_FSTAT, [first, 0, 0, 0, 0, 0]), Errno::BadDescriptor.to_value());
    let next = opened(&domain, "/h", RW);
    assert_eq!(next, 3, "the next instance in this cell begins anew");
    // The file that only the ended instance knew has given its memory back.
    assert_eq!(write(&domain, next, &vec![1; (1 << 20) - 8192]), (1 << 20) - 8192);
}

#[test]
fn descriptors_of_others_mean_nothing() {
    let domain = one();
    let mine = opened(&domain, "/f", RW);
    let other = 2;
    let buffer = domain.place(other, &[0; 16]);
    for number in [number::FILE_READ, number::FILE_WRITE, number::FILE_PREAD, number::FILE_GETDENTS] {
        let value = domain.call(other, number, [mine, buffer, 16, 0, 0, 0]);
        assert_eq!(value, Errno::BadDescriptor.to_value(), "{number}");
    }
    assert_eq!(domain.call(other, number::FILE_CLOSE, [mine, 0, 0, 0, 0, 0]), Errno::BadDescriptor.to_value());
    assert_eq!(write(&domain, mine, b"still mine"), 10);
}

#[test]
fn a_second_descriptor_shares_position_and_end() {
    let domain = one();
    let first = opened(&domain, "/f", RW);
    write(&domain, first, b"0123456789");
    let second = domain.call(ME, number::FILE_DUP, [first, 100, 0, 0, 0, 0]) as u64;
    assert_eq!(second, 100);
    assert_eq!(domain.call(ME, number::FILE_SEEK, [first, 4, 0, 0, 0, 0]), 4);
    assert_eq!(domain.call(ME, number::FILE_SEEK, [second, -1i64 as u64, 1, 0, 0, 0]), 3);
    assert_eq!(domain.call(ME, number::FILE_SEEK, [second, i64::MAX as u64, 1, 0, 0, 0]), Errno::Invalid.to_value());
    assert_eq!(domain.call(ME, number::FILE_SEEK, [second, -1i64 as u64, 0, 0, 0, 0]), Errno::Invalid.to_value());
    assert_eq!(domain.call(ME, number::FILE_SEEK, [second, 0, 3, 0, 0, 0]), Errno::Invalid.to_value());
    assert_eq!(domain.call(ME, number::FILE_CLOSE, [first, 0, 0, 0, 0, 0]), 0);
    assert_eq!(read_at(&domain, second, 4, 3), b"3456");
    assert_eq!(domain.call(ME, number::FILE_FLAGS, [second, u64::MAX, 0, 0, 0, 0]), 3);
    assert_eq!(domain.call(ME, number::FILE_FLAGS, [second, 3 | open::APPEND, 0, 0, 0, 0]), 3);
    assert_eq!(write(&domain, second, b"end"), 3);
    assert_eq!(read_at(&domain, second, 99, 8), b"89end");
    assert_eq!(domain.call(ME, number::FILE_FLAGS, [second, 1, 0, 0, 0, 0]), Errno::Invalid.to_value());
}

#[test]
fn vectors_go_one_behind_the_other() {
    let domain = one();
    let descriptor = opened(&domain, "/f", RW);
    let vector = |parts: &[(u64, u64)]| {
        let bytes: Vec<u8> =
            parts.iter().flat_map(|(address, len)| [address.to_ne_bytes(), len.to_ne_bytes()].concat()).collect();
        (domain.place(ME, &bytes), parts.len() as u64)
    };
    let (one, two) = (domain.place(ME, b"one"), domain.place(ME, b"two!"));
    let parts: Vec<(u64, u64)> = (0..40).map(|index| if index % 2 == 0 { (one, 3) } else { (two, 4) }).collect();
    let (list, count) = vector(&parts);
    assert_eq!(domain.call(ME, number::FILE_WRITEV, [descriptor, list, count, u64::MAX, 0, 0]), 140);
    assert_eq!(read_at(&domain, descriptor, 200, 0), b"onetwo!".repeat(20));
    let (list, count) = vector(&[(one, 3), (0x10, 4)]);
    assert_eq!(
        domain.call(ME, number::FILE_WRITEV, [descriptor, list, count, 0, 0, 0]),
        3,
        "what was written is reported"
    );
    let (list, count) = vector(&[(0x10, 4), (one, 3)]);
    assert_eq!(domain.call(ME, number::FILE_WRITEV, [descriptor, list, count, 0, 0, 0]), Errno::Fault.to_value());
    assert_eq!(domain.call(ME, number::FILE_READV, [descriptor, list, 1025, 0, 0, 0]), Errno::Invalid.to_value());
    // Appended, they are gathered first.
    let log = opened(&domain, "/log", RW | open::APPEND);
    for (parts, expected) in [
        (vec![(one, 3), (two, 4), (0, 0), (one, 3)], 10),
        (vec![(one, 3), (0x10, 4)], 3),
        (vec![(0x10, 4), (one, 3)], Errno::Fault.to_value()),
        (vec![(0, 0), (0, 0)], 0),
    ] {
        let (list, count) = vector(&parts);
        assert_eq!(domain.call(ME, number::FILE_WRITEV, [log, list, count, u64::MAX, 0, 0]), expected, "{parts:?}");
    }
    assert_eq!(read_at(&domain, log, 99, 0), b"onetwo!oneone");
    assert_eq!(size_of::<IoVec>(), 16);
}

#[test]
fn a_write_that_cannot_be_read_changes_nothing() {
    let domain = one();
    let descriptor = opened(&domain, "/f", RW);
    write(&domain, descriptor, b"0123456789");
    // One page is mapped, the next is not.
    let half = domain.place(ME, &[7; 4096]) + 4090;
    assert_eq!(domain.call(ME, number::FILE_PWRITE, [descriptor, half, 4096, 5, 0, 0]), Errno::Fault.to_value());
    assert_eq!(stat(&domain, "/f").unwrap().size, 10);
    let resized = domain.call(ME, number::FILE_FTRUNCATE, [descriptor, 30, 0, 0, 0, 0]);
    assert_eq!(resized, 0);
    assert_eq!(read_at(&domain, descriptor, 99, 10), [0; 20], "nothing of the failed write shows");
}

#[test]
fn a_full_file_system_says_so_and_goes_on() {
    let domain = domain(vec![memory("/", 256 * 1024)]);
    let descriptor = opened(&domain, "/f", RW);
    assert_eq!(write(&domain, descriptor, &vec![1; 300 * 1024]), Errno::NoSpace.to_value());
    assert_eq!(stat(&domain, "/f").unwrap().size, 0);
    assert_eq!(write(&domain, descriptor, &vec![1; 100 * 1024]), 100 * 1024);
    let far = domain.call(ME, number::FILE_PWRITE, [descriptor, domain.place(ME, b"x"), 1, 1 << 40, 0, 0]);
    assert_eq!(far, 1, "a hole costs nothing");
    assert_eq!(domain.call(ME, number::FILE_FTRUNCATE, [descriptor, 0, 0, 0, 0, 0]), 0);
    let mut made = 0;
    while path(&domain, number::FILE_MKDIR, &std::format!("/{made}"), [0; 3]) == 0 {
        made += 1;
    }
    assert!(made > 400 && made <= 512, "{made}");
    assert_eq!(path(&domain, number::FILE_RMDIR, "/7", [0; 3]), 0);
    assert_eq!(path(&domain, number::FILE_MKDIR, "/again", [0; 3]), 0);
}

#[test]
fn a_huge_offset_costs_little() {
    let domain = one();
    let descriptor = opened(&domain, "/f", RW);
    let byte = domain.place(ME, b"x");
    for offset in [i64::MAX as u64, u64::MAX - 1, 1 << 63] {
        let value = domain.call(ME, number::FILE_PWRITE, [descriptor, byte, 1, offset, 0, 0]);
        assert!([Errno::FileTooLarge, Errno::Invalid].map(Errno::to_value).contains(&value), "{offset:#x}: {value}");
    }
    assert_eq!(domain.call(ME, number::FILE_FTRUNCATE, [descriptor, i64::MAX as u64, 0, 0, 0, 0]), 0);
    assert_eq!(read_at(&domain, descriptor, 8, 1 << 50), [0; 8]);
    assert_eq!(domain.call(ME, number::FILE_FTRUNCATE, [descriptor, 1 << 63, 0, 0, 0, 0]), Errno::Invalid.to_value());
}

#[test]
fn only_functions_have_descriptors() {
    let domain = one();
    for number in number::FILE_OPEN..=number::FILE_SET_TIMES {
        assert_eq!(domain.system(number, [3, 0, 0, 0, 0, 0]), Errno::NotPermitted.to_value(), "{number}");
    }
    assert_eq!(domain.call(ME, number::RAMFS, [0; 6]), Errno::NotPermitted.to_value());
}

#[test]
fn a_wait_that_cannot_end_is_an_error() {
    let domain = one();
    let descriptor = opened(&domain, "/f", RW);
    let mut call = domain.prepare(ME, number::FILE_READ, [descriptor, domain.place(ME, &[0]), 1, 0, 0, 0]);
    call.wake = Wake::Deadlock;
    assert_eq!(domain.step(&mut call), Step::Ready(Errno::Deadlock.to_value()));
}

#[test]
fn directories_are_bases_of_paths() {
    let domain = one();
    path(&domain, number::FILE_MKDIR, "/d", [0; 3]);
    let d = opened(&domain, "/d", open::READ);
    let name = domain.place(ME, b"../d/./f");
    let f = domain.call(ME, number::FILE_OPEN, [d, name, 8, RW, 0, 0]);
    assert!(f > 0);
    assert_eq!(names(&domain, "/d"), ["f"]);
    let through_a_file = domain.call(ME, number::FILE_OPEN, [f as u64, name, 8, RW, 0, 0]);
    assert_eq!(through_a_file, Errno::NotDirectory.to_value());
    assert_eq!(domain.call(ME, number::FILE_OPEN, [999, name, 8, RW, 0, 0]), Errno::BadDescriptor.to_value());
    assert_eq!(domain.call(ME, number::FILE_CHDIR, [d, domain.place(ME, b"."), 1, 0, 0, 0]), 0);
    let buffer = domain.place(ME, &[0; 64]);
    assert_eq!(domain.call(ME, number::FILE_GETCWD, [buffer, 64, 0, 0, 0, 0]), 2);
    assert_eq!(domain.peek(buffer, 2), b"/d");
    assert_eq!(domain.call(ME, number::FILE_GETCWD, [buffer, 1, 0, 0, 0, 0]), Errno::NameTooLong.to_value());
    assert_eq!(domain.call(ME, number::FILE_GETDENTS, [d, buffer, 3, 0, 0, 0]), Errno::Invalid.to_value());
    assert!(domain.explained().contains("24 bytes"), "{}", domain.explained());
    assert_eq!(domain.charged(ME), 24, "the copy of the directory is charged");
    domain.call(ME, number::FILE_CLOSE, [d, 0, 0, 0, 0, 0]);
    assert_eq!(domain.charged(ME), 0);
}

#[test]
fn times_are_set_by_path_and_by_descriptor_where_the_mount_is_writable() {
    let read_only = (MountInfo { kind: MountKind::Memory, read_only: 1, size: 1 << 20 }, "/fixed".to_string());
    let domain = domain(vec![memory("/m", 1 << 20), read_only]);
    let files = domain.files(ME);
    let descriptor = files.make("/m/f");
    files.make_directory("/m/d").unwrap();
    let times = |name: &str| stat(&domain, name).map(|stat| (stat.accessed, stat.modified)).unwrap();
    files.set_times("/m/f", [Some(5), Some(-6)]).unwrap();
    assert_eq!(times("/m/f"), (5, -6));
    let reader = files.open("/m/f", open::READ).unwrap();
    files.set_open_times(reader, [None, Some(7)]).unwrap();
    assert_eq!(times("/m/f"), (5, 7));
    files.set_open_times(descriptor, [Some(i64::MAX), None]).unwrap();
    assert_eq!(times("/m/f"), (i64::MAX, 7));
    files.read_at(reader, 4, 0).unwrap();
    assert_eq!(times("/m/f"), (i64::MAX, 7), "reading leaves no trace");
    domain.set_time(1, 1000);
    files.write(descriptor, b"x").unwrap();
    assert_eq!(times("/m/f"), (i64::MAX, 1000));
    // Of a file without a name, and of a directory, which has one time.
    files.remove_file("/m/f").unwrap();
    files.set_open_times(reader, [Some(1), Some(2)]).unwrap();
    let known = files.stat_open(reader).unwrap();
    assert_eq!((known.accessed, known.modified), (1, 2));
    let again = files.make("/m/f");
    assert_eq!(times("/m/f"), (1000, 1000), "another file of the same name");
    files.set_times("/m/d/", [None, Some(8)]).unwrap();
    let directory = files.open("/m/d", open::READ | open::DIRECTORY).unwrap();
    assert_eq!(times("/m/d"), (8, 8));
    files.set_open_times(directory, [Some(3), None]).unwrap();
    assert_eq!(times("/m/d"), (8, 8));
    let root = files.open("/", open::READ | open::DIRECTORY).unwrap();
    let fixed = files.open("/fixed", open::READ | open::DIRECTORY).unwrap();
    for open in [root, fixed] {
        assert_eq!(files.set_open_times(open, [Some(1), Some(1)]), Err(Errno::ReadOnly));
    }
    for (path, errno) in [
        ("/", Errno::ReadOnly),
        ("/fixed", Errno::ReadOnly),
        ("/m/none", Errno::NotFound),
        ("/m/f/", Errno::NotDirectory),
        ("/m/f/none", Errno::NotDirectory),
        ("/none", Errno::NotFound),
    ] {
        assert_eq!(files.set_times(path, [Some(1), Some(1)]), Err(errno), "{path}");
    }
    files.close(again).unwrap();
    assert_eq!(files.set_open_times(again, [Some(1), Some(1)]), Err(Errno::BadDescriptor));
}
