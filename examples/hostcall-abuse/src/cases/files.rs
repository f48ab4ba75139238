//! The calls on files. The workflow mounts a file system in memory at `/work`, and nothing else.

use super::{Cases, HERE, MAX, MIN, Own, keep, room, want};
use monohull_abi::Errno::{BadDescriptor, Fault, Invalid, InvalidName, NameTooLong, NotFound, ReadOnly};
use monohull_abi::file::{FileStat, IoVec, NAME_MAX, PATH_MAX, VECTOR_MAX, WORKING_DIRECTORY, open};
use monohull_abi::number::*;
use monohull_std::prelude::*;
use monohull_trampoline::user::hostcall;

const STAT: u64 = size_of::<FileStat>() as u64;
const VECTOR: u64 = size_of::<IoVec>() as u64;
/// What the file holds at first.
const TEXT: &[u8; 16] = b"sixteen letters.";
const LEN: u64 = TEXT.len() as u64;

/// Good arguments lead here.
struct Good {
    /// The file's path, and its length.
    path: (u64, u64),
    file: u64,
    directory: u64,
}

/// The address and the length of a text that stays.
fn text(text: &str) -> (u64, u64) {
    (String::from(text).leak().as_ptr() as u64, text.len() as u64)
}

pub(super) fn all(cases: &mut Cases<'_>, own: &Own) {
    let opened = |name, flags| {
        let (path, len) = text(name);
        hostcall(FILE_OPEN, [WORKING_DIRECTORY, path, len, flags, 0, 0]) as u64
    };
    let file = opened("/work/file", open::READ | open::WRITE | open::CREATE);
    hostcall(FILE_PWRITE, [file, TEXT.as_ptr() as u64, LEN, 0, 0, 0]);
    let good = Good { path: text("/work/file"), file, directory: opened("/work", open::READ) };
    paths(cases, own, &good);
    buffers(cases, own, &good);
    vectors(cases, own, &good);
    descriptors(cases, own, &good);
    for descriptor in [good.file, good.directory] {
        cases.add("its own", FILE_CLOSE, &[descriptor], 0);
        cases.refused("one that it has closed", FILE_CLOSE, &[descriptor], BadDescriptor);
    }
}

/// Where a path is wanted.
fn paths(cases: &mut Cases<'_>, own: &Own, good: &Good) {
    let (path, len) = good.path;
    let names = [
        ("no path", (path, 0), NotFound),
        ("a path without end", (path, MAX), NameTooLong),
        ("a path that is too long", (own.bytes, PATH_MAX as u64 + 1), NameTooLong),
        ("a name that is too long", text(&"n".repeat(NAME_MAX + 1)), NameTooLong),
        ("a path with a zero byte", text("/work/a\0b"), Invalid),
        ("a path that is no text", (keep([0xffu8; 16]), 16), InvalidName),
        ("a path to where nothing is mounted", text("/elsewhere"), NotFound),
        ("a way out of the mount", text("/work/../../elsewhere"), NotFound),
    ];
    let takes_path: [(u32, [u64; 2]); 8] = [
        (FILE_OPEN, [open::READ, 0]),
        (FILE_STAT, [own.bytes, 0]),
        (FILE_MKDIR, [0, 0]),
        (FILE_RMDIR, [0, 0]),
        (FILE_UNLINK, [0, 0]),
        (FILE_CHDIR, [0, 0]),
        (FILE_REALPATH, [own.bytes, 512]),
        (FILE_SET_TIMES, [MIN, MIN]),
    ];
    for (call, [a, b]) in takes_path {
        cases.bad("a path", call, &[MAX, HERE, 16, a, b], want(16, 1));
        for (what, (path, len), errno) in names {
            cases.refused(what, call, &[MAX, path, len, a, b], errno);
        }
        for dir in [0, 2, good.directory + 100, 1 << 32 | good.directory, MIN] {
            let (path, len) = text("file");
            cases.refused("a directory it has not", call, &[dir, path, len, a, b], BadDescriptor);
        }
    }
    for flags in [0, open::CREATE | open::READ, 1 << 7 | open::READ, MAX, MIN] {
        cases.refused("such flags", FILE_OPEN, &[MAX, path, len, flags], Invalid);
    }
    cases.bad("a path", FILE_RENAME, &[MAX, HERE, 16, MAX, path, len], want(16, 1));
    cases.bad("a new path", FILE_RENAME, &[MAX, path, len, MAX, HERE, 16], want(16, 1));
    for (what, (other, other_len), errno) in names {
        cases.refused(what, FILE_RENAME, &[MAX, other, other_len, MAX, path, len], errno);
        cases.refused(&format!("{what}, the new one"), FILE_RENAME, &[MAX, path, len, MAX, other, other_len], errno);
    }
    let (name, name_len) = text("file");
    for dir in [0, 2, good.directory + 100, 1 << 32 | good.directory, MIN] {
        cases.refused("a directory it has not", FILE_RENAME, &[dir, name, name_len, MAX, path, len], BadDescriptor);
        cases.refused(
            "no new directory of its own",
            FILE_RENAME,
            &[MAX, path, len, dir, name, name_len],
            BadDescriptor,
        );
    }
    for dir in [0, 2, good.directory + 100, 1 << 32 | good.file, MIN] {
        cases.refused("an open file it has not", FILE_SET_TIMES, &[dir, 0, 0, 1, 1], BadDescriptor);
    }
    cases.refused("the root, which is no mount", FILE_SET_TIMES, &[MAX, text("/").0, 1, 1, 1], ReadOnly);
    for (read, written) in [(MIN, MIN), (1, MIN), (MIN, 1), (MAX, MAX), (MIN + 1, i64::MAX as u64)] {
        cases.add("its own file", FILE_SET_TIMES, &[MAX, path, len, read, written], 0);
        for open in [good.file, good.directory] {
            cases.add("what it has open", FILE_SET_TIMES, &[open, HERE, 0, read, written], 0);
        }
    }
    cases.add("its own name", FILE_RENAME, &[MAX, path, len, MAX, path, len], 0);
    cases.bad("room", FILE_STAT, &[MAX, path, len, HERE], room(STAT, 8));
    cases.bad("room", FILE_REALPATH, &[MAX, path, len, HERE, 512], room(10, 1));
    cases.refused("too little room", FILE_REALPATH, &[MAX, path, len, own.bytes, 9], NameTooLong);
    cases.bad("room", FILE_GETCWD, &[HERE, 512], room(1, 1));
    cases.add("a path", FILE_REALPATH, &[MAX, path, len, own.bytes, 512], len as i64);
    cases.add("where it works", FILE_GETCWD, &[own.bytes, 512], 1);
}

/// Where bytes go.
fn buffers(cases: &mut Cases<'_>, own: &Own, good: &Good) {
    let file = good.file;
    for (call, wanted) in [(FILE_READ, room(LEN, 1)), (FILE_WRITE, want(LEN, 1))] {
        cases.bad("a buffer", call, &[file, HERE, LEN], wanted);
        cases.refused("a buffer without end", call, &[file, own.bytes, MAX], Fault);
        cases.refused("a buffer beyond its cell", call, &[file, own.bytes, 1 << 40], Fault);
    }
    for (call, wanted) in [(FILE_PREAD, room(LEN, 1)), (FILE_PWRITE, want(LEN, 1))] {
        cases.bad("a buffer", call, &[file, HERE, LEN, 0], wanted);
        for offset in [MAX, MIN] {
            cases.refused("no offset", call, &[file, own.bytes, LEN, offset], Invalid);
        }
        cases.add("its own bytes", call, &[file, own.bytes, LEN, 0], LEN as i64);
    }
    cases.bad("room", FILE_FSTAT, &[file, HERE], room(STAT, 8));
    cases.bad("room", FILE_GETDENTS, &[good.directory, HERE, 512], room(LEN, 1));
    for len in [0, 1, 15] {
        cases.refused("too little room", FILE_GETDENTS, &[good.directory, own.bytes, len], Invalid);
    }
    cases.add("its own room", FILE_FSTAT, &[file, own.bytes], 0);
}

/// Where a list of buffers is wanted.
fn vectors(cases: &mut Cases<'_>, own: &Own, good: &Good) {
    for (call, wanted) in [(FILE_READV, room(LEN, 1)), (FILE_WRITEV, want(LEN, 1))] {
        cases.bad("a list", call, &[good.file, HERE, 1, 0], want(VECTOR, 8));
        cases.bad("a list at the position", call, &[good.file, HERE, 1, MAX], want(VECTOR, 8));
        let list = |address, len| keep([IoVec { address, len }]);
        for (label, address) in cases.addresses.bad(wanted) {
            cases.refused(&format!("a buffer {label}"), call, &[good.file, list(address, LEN), 1, 0], Fault);
        }
        cases.refused("a buffer without end", call, &[good.file, list(own.bytes, MAX), 1, 0], Fault);
        for count in [VECTOR_MAX + 1, 1 << 32, MAX, MIN] {
            cases.refused("so long a list", call, &[good.file, list(own.bytes, LEN), count, 0], Invalid);
        }
        for offset in [MAX - 1, MIN] {
            cases.refused("no offset", call, &[good.file, list(own.bytes, LEN), 1, offset], Invalid);
        }
        cases.add("its own bytes", call, &[good.file, list(own.bytes, LEN), 1, 0], LEN as i64);
        cases.add("an empty list", call, &[good.file, 0, 0, 0], 0);
    }
}

/// The calls on an open file that want nothing more for it to be looked for; `FILE_DUP` wants a number too.
pub(super) const ON_A_DESCRIPTOR: [u32; 13] = [
    FILE_READ,
    FILE_WRITE,
    FILE_PREAD,
    FILE_PWRITE,
    FILE_READV,
    FILE_WRITEV,
    FILE_SEEK,
    FILE_FSTAT,
    FILE_GETDENTS,
    FILE_FTRUNCATE,
    FILE_FSYNC,
    FILE_FLAGS,
    FILE_CLOSE,
];

/// Where a descriptor is wanted.
fn descriptors(cases: &mut Cases<'_>, own: &Own, good: &Good) {
    for descriptor in [0, 1, 2, good.file + 100, 1 << 32 | good.file, MAX, MIN] {
        for call in ON_A_DESCRIPTOR.into_iter().chain([FILE_DUP]) {
            cases.refused("a descriptor it has not", call, &[descriptor, own.bytes, 0, 0], BadDescriptor);
        }
    }
    for whence in [3, MAX, MIN] {
        cases.refused("from nowhere", FILE_SEEK, &[good.file, 0, whence], Invalid);
    }
    for offset in [MAX, MIN] {
        cases.refused("before the start", FILE_SEEK, &[good.file, offset, 0], Invalid);
    }
    for size in [1 << 63, MAX] {
        cases.refused("no size", FILE_FTRUNCATE, &[good.file, size], Invalid);
    }
    cases.refused("all flags", FILE_FLAGS, &[good.file, MAX - 1], Invalid);
    for target in [1024, 1 << 32, MIN] {
        cases.refused("a number too far", FILE_DUP, &[good.file, target], BadDescriptor);
    }
}
