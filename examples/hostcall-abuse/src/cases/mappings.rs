//! The calls on mapped files, on a file in memory at `/work`; and mappings as the buffers of other calls.

use super::{Cases, HERE, MAX, MIN, Own, want};
use monohull_abi::Errno::{BadDescriptor, Fault, Invalid, IsDirectory};
use monohull_abi::file::{Advice, TO_THE_END, WORKING_DIRECTORY, map, open};
use monohull_abi::layout::{CELL_SIZE, PAGE};
use monohull_abi::number::*;
use monohull_abi::types::InfoString;
use monohull_std::prelude::*;
use monohull_trampoline::user::hostcall;

/// Bytes of the file: more than are filled when they are mapped, and a page that is not full.
const LEN: u64 = 100_000;

pub(super) fn all(cases: &mut Cases<'_>, own: &Own) {
    let opened = |name: &str, flags| {
        let path = String::from(name).leak();
        hostcall(FILE_OPEN, [WORKING_DIRECTORY, path.as_ptr() as u64, path.len() as u64, flags, 0, 0]) as u64
    };
    let file = opened("/work/mapped", open::READ | open::WRITE | open::CREATE);
    let bytes = vec![b'm'; LEN as usize].leak();
    hostcall(FILE_PWRITE, [file, bytes.as_ptr() as u64, LEN, 0, 0, 0]);
    let blind = opened("/work/mapped", open::WRITE);
    let directory = opened("/work", open::READ);
    let mapped = |flags| hostcall(FILE_MMAP, [file, 0, LEN, flags, 0, 0]) as u64;
    let (fixed, copy) = (mapped(0), mapped(map::WRITE));

    for other in [0, 2, file + 100, 1 << 32 | file, MIN, MAX] {
        cases.refused("a file it has not", FILE_MMAP, &[other, 0, LEN, 0], BadDescriptor);
    }
    cases.refused("a file it may not read", FILE_MMAP, &[blind, 0, LEN, 0], BadDescriptor);
    cases.refused("a directory", FILE_MMAP, &[directory, 0, LEN, 0], IsDirectory);
    for (offset, len) in [
        (0, 0),
        (0, LEN + 1),
        (LEN, 1),
        (LEN, TO_THE_END),
        (LEN - 1, 2),
        (MIN, 1),
        (MAX, TO_THE_END),
        (1, MAX - 1),
        (LEN - 1, MIN - 1),
        (1, MIN),
    ] {
        cases.refused("bytes it has not", FILE_MMAP, &[file, offset, len, 0], Invalid);
    }
    for flags in [map::ALL + 1, MIN, MAX] {
        cases.refused("such flags", FILE_MMAP, &[file, 0, LEN, flags], Invalid);
    }
    for wrong in [
        ("null", 0),
        ("the middle of a mapping", fixed + PAGE),
        ("a page's middle", fixed + 1),
        ("the page before", fixed - PAGE),
        ("the neighbour's", fixed + CELL_SIZE),
        ("the other neighbour's", fixed - CELL_SIZE),
        ("its heap", own.bytes),
        ("its slot buffer", own.buffer),
        ("the end of memory", MAX),
        ("the upper half", MIN),
    ] {
        let (what, address) = wrong;
        cases.refused(what, FILE_MUNMAP, &[address], Invalid);
        cases.refused(what, FILE_MPROTECT, &[address, 1], Invalid);
        cases.refused(what, FILE_MADVISE, &[address, 0, 1, Advice::WillNeed as u64], Invalid);
    }
    for (offset, len) in [(0, LEN + 1), (LEN, 1), (MAX, 1), (1, MAX), (MIN, MIN)] {
        cases.refused("what it has not", FILE_MADVISE, &[fixed, offset, len, Advice::WillNeed as u64], Invalid);
    }
    for advice in [4, MIN, MAX] {
        cases.refused("such advice", FILE_MADVISE, &[fixed, 0, LEN, advice], Invalid);
    }
    for writable in [2, MIN, MAX] {
        cases.refused("neither yes nor no", FILE_MPROTECT, &[fixed, writable], Invalid);
    }
    cases.add("a part of it", FILE_MADVISE, &[copy, PAGE, 1, Advice::WillNeed as u64], 1);

    // As buffers: what can be read is read, and what is fixed is not written.
    cases.add("from a mapping", FILE_PWRITE, &[file, fixed, LEN, 0], LEN as i64);
    cases.add("into a copy", FILE_PREAD, &[file, copy, LEN, 0], LEN as i64);
    cases.refused("into what is fixed", FILE_PREAD, &[file, fixed, LEN, 0], Fault);
    cases.refused("into what is fixed", GET_STRING, &[InfoString::Function as u64, fixed + 50_000, 512], Fault);
    // Over its end the host's kernel writes what there is.
    let end = fixed + LEN.next_multiple_of(PAGE);
    cases.refused("behind the end of a mapping", FILE_PWRITE, &[file, end, 16, 0], Fault);
    cases.bad("a buffer", FILE_PWRITE, &[file, HERE, 16, 0], want(16, 1));
    cases.add("gives up writing", FILE_MPROTECT, &[copy, 0], 0);
    cases.refused("into what is fixed now", FILE_PREAD, &[file, copy, LEN, 0], Fault);
    for address in [fixed, copy] {
        cases.add("its own", FILE_MUNMAP, &[address], 0);
        cases.refused("what is gone", FILE_MUNMAP, &[address], Invalid);
        cases.refused("from what is gone", FILE_PWRITE, &[file, address, 1, 0], Fault);
    }
}
