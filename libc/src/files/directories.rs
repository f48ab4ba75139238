//! Directories: what is in them, and changes of that.

use super::{HERE, Path, with, with_file};
use crate::errno::{Answer, EINVAL, ENOMEM, ENOTDIR, EPERM, ERANGE};
use crate::host;
use crate::refuse::{Missing, refuse};
use alloc::vec::Vec;
use monohull_abi::file::{DirEntry, FileKind, FileStat, PATH_MAX, open};
use monohull_abi::number;

const AT_REMOVEDIR: u64 = 0x200;

/// `getdents64(descriptor, buffer, length)`: without `.` and `..`.
pub(crate) fn getdents64([descriptor, buffer, len, ..]: [u64; 6]) -> Answer {
    /// Bytes of the fields before a name.
    const HEADER: usize = 19;
    /// The most that are looked at together.
    const MOST: u64 = 32 << 10;
    // An entry takes at most a third more here than where it comes from.
    let room = len.min(MOST) as usize * 3 / 4;
    let mut entries = Vec::new();
    if entries.try_reserve_exact(room).is_err() {
        return ENOMEM;
    }
    entries.resize(room, 0_u8);
    let read = with_file(descriptor, ENOTDIR, |file| {
        host::call(number::FILE_GETDENTS, [file, entries.as_mut_ptr() as u64, entries.len() as u64])
    });
    if read <= 0 {
        return read;
    }
    let (mut from, mut to) = (0, 0);
    while from < read as usize {
        // SAFETY: the host has written whole entries up to `read`.
        let entry = unsafe { entries.as_ptr().add(from).cast::<DirEntry>().read_unaligned() };
        let name = &entries[from + size_of::<DirEntry>()..][..entry.name_len as usize];
        let record = (HEADER + name.len() + 1).next_multiple_of(8);
        let kind = if FileKind::from_raw(entry.kind) == Some(FileKind::Directory) { 4 } else { 8 };
        // SAFETY: the caller's buffer, in which `to + record` is at most `len`: see above.
        unsafe {
            let out = (buffer as *mut u8).add(to);
            out.write_bytes(0, record);
            out.cast::<u64>().write_unaligned(entry.node);
            out.add(8).cast::<u64>().write_unaligned((to + record) as u64);
            out.add(16).cast::<u16>().write_unaligned(record as u16);
            out.add(18).write(kind);
            out.add(HEADER).copy_from_nonoverlapping(name.as_ptr(), name.len());
        }
        to += record;
        from += DirEntry::record_len(name.len());
    }
    to as Answer
}

/// `mkdir(path, mode)`.
pub(crate) fn mkdir([path, ..]: [u64; 6]) -> Answer {
    with(HERE, path, |path| path.call(number::FILE_MKDIR))
}

/// `mkdirat(directory, path, mode)`.
pub(crate) fn mkdirat([directory, path, ..]: [u64; 6]) -> Answer {
    with(directory, path, |path| path.call(number::FILE_MKDIR))
}

/// `rmdir(path)`.
pub(crate) fn rmdir([path, ..]: [u64; 6]) -> Answer {
    with(HERE, path, |path| path.call(number::FILE_RMDIR))
}

/// `unlink(path)`.
pub(crate) fn unlink([path, ..]: [u64; 6]) -> Answer {
    with(HERE, path, |path| path.call(number::FILE_UNLINK))
}

/// `unlinkat(directory, path, flags)`.
pub(crate) fn unlinkat([directory, path, flags, ..]: [u64; 6]) -> Answer {
    let number = if flags & AT_REMOVEDIR != 0 { number::FILE_RMDIR } else { number::FILE_UNLINK };
    with(directory, path, |path| path.call(number))
}

/// `rename(from, to)`.
pub(crate) fn rename([from, to, ..]: [u64; 6]) -> Answer {
    renameat2([HERE, from, HERE, to, 0, 0])
}

/// `renameat(directory, from, directory, to)`.
pub(crate) fn renameat([one, from, other, to, ..]: [u64; 6]) -> Answer {
    renameat2([one, from, other, to, 0, 0])
}

/// `renameat2(directory, from, directory, to, flags)`: without flags, or with `RENAME_NOREPLACE`.
pub(crate) fn renameat2([one, from, other, to, flags, ..]: [u64; 6]) -> Answer {
    const NO_REPLACE: u32 = 1;
    match flags as u32 {
        0 => with(one, from, |from| with(other, to, |to| rename_to(&from, &to))),
        NO_REPLACE => with(one, from, |from| with(other, to, |to| rename_to_new(&from, &to))),
        _ => EINVAL,
    }
}

fn rename_to(from: &Path, to: &Path) -> Answer {
    let bytes = |path: &Path| (path.bytes.as_ptr() as u64, path.bytes.len() as u64);
    let ((a, b), (c, d)) = (bytes(from), bytes(to));
    host::call(number::FILE_RENAME, [from.from, a, b, to.from, c, d])
}

/// Takes the new name first, by something empty of the same kind, which the renaming then replaces: of several that do so one succeeds.
fn rename_to_new(from: &Path, to: &Path) -> Answer {
    let mut file = FileStat::default();
    let (bytes, len) = (from.bytes.as_ptr() as u64, from.bytes.len() as u64);
    let known = host::call(number::FILE_STAT, [from.from, bytes, len, (&raw mut file) as u64]);
    if known < 0 {
        return known;
    }
    let is_directory = FileKind::from_raw(file.kind) == Some(FileKind::Directory);
    let taken = if is_directory {
        to.call(number::FILE_MKDIR)
    } else {
        match to.open(open::WRITE | open::CREATE | open::EXCLUSIVE) {
            error @ ..0 => error,
            made => host::call(number::FILE_CLOSE, [made as u64]),
        }
    };
    if taken < 0 {
        return taken;
    }
    let answer = rename_to(from, to);
    if answer < 0 {
        to.call(if is_directory { number::FILE_RMDIR } else { number::FILE_UNLINK });
    }
    answer
}

/// `chdir(path)`.
pub(crate) fn chdir([path, ..]: [u64; 6]) -> Answer {
    with(HERE, path, |path| path.call(number::FILE_CHDIR))
}

/// `fchdir(directory)`.
pub(crate) fn fchdir([directory, ..]: [u64; 6]) -> Answer {
    with(directory, c".".as_ptr() as u64, |path| path.call(number::FILE_CHDIR))
}

/// `getcwd(buffer, length)` → bytes, the zero included.
pub(crate) fn getcwd([buffer, len, ..]: [u64; 6]) -> Answer {
    let mut path = [0_u8; PATH_MAX];
    match host::call(number::FILE_GETCWD, [path.as_mut_ptr() as u64, path.len() as u64]) {
        error @ ..0 => error,
        bytes if bytes as u64 >= len => ERANGE,
        bytes => {
            // SAFETY: the caller's buffer, which is longer than the path.
            unsafe {
                (buffer as *mut u8).copy_from_nonoverlapping(path.as_ptr(), bytes as usize);
                (buffer as *mut u8).add(bytes as usize).write(0);
            }
            bytes + 1
        }
    }
}

/// `symlink`, `link` and their kin.
pub(crate) fn link(_: [u64; 6]) -> Answer {
    refuse(Missing::Link, EPERM)
}
