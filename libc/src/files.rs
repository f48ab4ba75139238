//! Files and directories over `FILE_*`.
//!
//! There are no owners, no permissions but read-only mounts, no links: what Linux reports of them is the same for every
//! file.

mod directories;
mod flags;
pub(crate) mod locks;
pub(crate) mod proc;
mod status;
mod times;
mod transfer;

pub(crate) use directories::{
    chdir, fchdir, getcwd, getdents64, link, mkdir, mkdirat, rename, renameat, renameat2, rmdir, unlink, unlinkat,
};
pub(crate) use flags::{flags, ioctl, set_flags};
pub(crate) use locks::flock;
pub(crate) use status::{
    accept_descriptor, accept_path, accept_path_at, access, faccessat, fstat, fstatfs, newfstatat, readlink,
    readlinkat, stat, statfs, statx,
};
pub(crate) use times::utimensat;
pub(crate) use transfer::{pread, preadv, preadv2, pwrite, pwritev, pwritev2, read, readv, write, writev};

use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EACCES, EEXIST, EFAULT, EINVAL, ENOENT, ENOSYS, ENOTDIR, EOPNOTSUPP, ESPIPE};
use crate::local::{self, Local};
use crate::{host, memory};
use core::ffi::{CStr, c_char};
use monohull_abi::file::{WORKING_DIRECTORY, open};
use monohull_abi::number;
use status::{S_IFREG, Stat, known};

/// `AT_FDCWD`.
const WORKING: i32 = -100;
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
const O_TRUNC: u64 = 0o1000;
const O_APPEND: u64 = 0o2000;
const O_NONBLOCK: u64 = 0o4000;
const O_DIRECTORY: u64 = 0o200_000;
const O_TMPFILE: u64 = 0o20_000_000;
/// Bytes that reading and writing go well with.
const BLOCK: u64 = 4096;

/// A path of the program's, and the directory that it starts from, as hostcalls take them.
struct Path {
    from: u64,
    bytes: &'static [u8],
}

impl Path {
    fn read(directory: u64, address: u64) -> Result<Path, Answer> {
        if address == 0 {
            return Err(EFAULT);
        }
        // SAFETY: the caller's string, which ends with a zero and does not change during the call.
        let bytes = unsafe { CStr::from_ptr(address as *const c_char) }.to_bytes();
        let from = match directory as i32 {
            _ if bytes.first() == Some(&b'/') => WORKING_DIRECTORY,
            WORKING => WORKING_DIRECTORY,
            _ => match descriptors::get(directory)? {
                Kind::File(file) => file,
                _ => return Err(ENOTDIR),
            },
        };
        Ok(Path { from, bytes })
    }

    /// The device that it stands for: these can be opened everywhere.
    fn device(&self) -> Option<Kind> {
        match self.bytes {
            b"/dev/null" => Some(Kind::Null),
            b"/dev/zero" => Some(Kind::Zero),
            b"/dev/random" | b"/dev/urandom" => Some(Kind::Random),
            b"/dev/stdin" => Some(Kind::Input),
            b"/dev/stdout" => Some(Kind::Output(1)),
            b"/dev/stderr" => Some(Kind::Output(2)),
            _ => None,
        }
    }

    /// The number of what it leads to, opened so.
    fn open(&self, wanted: u64) -> Answer {
        let (bytes, len) = (self.bytes.as_ptr() as u64, self.bytes.len() as u64);
        let file = host::call(number::FILE_OPEN, [self.from, bytes, len, wanted]);
        if file >= 0 && wanted & open::TRUNCATE != 0 {
            memory::resized(file as u64, 0, || 0);
        }
        file
    }

    fn call(&self, number: u32) -> Answer {
        host::call(number, [self.from, self.bytes.as_ptr() as u64, self.bytes.len() as u64])
    }
}

/// Does something with a path, or answers why there is none.
fn with(directory: u64, address: u64, act: impl FnOnce(Path) -> Answer) -> Answer {
    Path::read(directory, address).map_or_else(|error| error, act)
}

/// Does something with an open file, or answers why it is none.
fn with_file(descriptor: u64, otherwise: Answer, act: impl FnOnce(u64) -> Answer) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => act(file),
        Ok(_) => otherwise,
        Err(error) => error,
    }
}

/// Does something with an event counter or an end of a pipe.
fn with_local(at: usize, act: impl FnOnce(&Local) -> Answer) -> Answer {
    local::get(at).map_or_else(|error| error, |local| act(&local))
}

/// Does something with a text of `/proc`.
fn with_text(at: usize, act: impl FnOnce(&proc::Text) -> Answer) -> Answer {
    proc::get(at).map_or_else(|error| error, |text| act(&text))
}

const HERE: u64 = WORKING as i64 as u64;

/// `open(path, flags, mode)`.
pub(crate) fn open([path, flags, ..]: [u64; 6]) -> Answer {
    openat([HERE, path, flags, 0, 0, 0])
}

/// `creat(path, mode)`.
pub(crate) fn creat([path, ..]: [u64; 6]) -> Answer {
    openat([HERE, path, O_CREAT | O_TRUNC | 1, 0, 0, 0])
}

/// `openat(directory, path, flags, mode)`.
pub(crate) fn openat([directory, path, flags, ..]: [u64; 6]) -> Answer {
    with(directory, path, |path| {
        if flags & O_TMPFILE == O_TMPFILE {
            return EOPNOTSUPP;
        }
        if let Some(device) = path.device() {
            return if flags & O_DIRECTORY == O_DIRECTORY { ENOTDIR } else { descriptors::add(device, flags) };
        }
        let access = match flags & 3 {
            0 => open::READ,
            1 => open::WRITE,
            _ => open::READ | open::WRITE,
        };
        let mut wanted = access;
        for (flag, bit) in [
            (O_CREAT, open::CREATE),
            (O_EXCL, open::EXCLUSIVE),
            (O_TRUNC, open::TRUNCATE),
            (O_APPEND, open::APPEND),
            (O_DIRECTORY, open::DIRECTORY),
        ] {
            if flags & flag == flag {
                wanted |= bit;
            }
        }
        if wanted & open::CREATE == 0 {
            wanted &= !open::EXCLUSIVE;
        }
        if let Some(other) = proc::descriptor(path.bytes) {
            return descriptors::dup_from(other, 0, flags);
        }
        let opened = if access == open::READ { open_to_read(&path, wanted) } else { path.open(wanted) };
        match opened {
            ENOENT if let Some(text) = proc::open(path.bytes) => match access {
                open::READ => descriptors::add(text, flags),
                _ => {
                    descriptors::release(text);
                    EACCES
                }
            },
            error @ ..0 => error,
            file => descriptors::add(Kind::File(file as u64), flags),
        }
    })
}

/// Opens a file to be read. One that is to be made or emptied as well is opened to be written to first.
fn open_to_read(path: &Path, wanted: u64) -> Answer {
    let changes = open::CREATE | open::EXCLUSIVE | open::TRUNCATE;
    let plain = wanted & !(changes | open::APPEND);
    loop {
        // One that is there need not be made, and its mount may be read only.
        let there = match wanted & changes {
            0 | open::CREATE => path.open(plain),
            _ => ENOENT,
        };
        if there != ENOENT || wanted & changes == 0 {
            return there;
        }
        // If another makes it meanwhile, it is there.
        let exclusive = if wanted & open::TRUNCATE == 0 { open::EXCLUSIVE } else { 0 };
        match path.open(open::WRITE | wanted & (changes | open::DIRECTORY) | exclusive) {
            EEXIST if wanted & open::EXCLUSIVE == 0 => continue,
            error @ ..0 => return error,
            made => host::call(number::FILE_CLOSE, [made as u64]),
        };
        return path.open(plain);
    }
}

/// `lseek(descriptor, offset, whence)`.
pub(crate) fn lseek([descriptor, offset, whence, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => host::call(number::FILE_SEEK, [file, offset, whence]),
        // They have no position, and none is missed.
        Ok(Kind::Null | Kind::Zero | Kind::Random) => 0,
        Ok(Kind::Text(text)) => with_text(text, |text| text.seek(offset as i64, whence).unwrap_or(EINVAL)),
        Ok(_) => ESPIPE,
        Err(error) => error,
    }
}

/// `truncate(path, size)`.
pub(crate) fn truncate([path, size, ..]: [u64; 6]) -> Answer {
    match open([path, 1, 0, 0, 0, 0]) {
        error @ ..0 => error,
        descriptor => {
            let answer = ftruncate([descriptor as u64, size, 0, 0, 0, 0]);
            descriptors::close([descriptor as u64, 0, 0, 0, 0, 0]);
            answer
        }
    }
}

/// `ftruncate(descriptor, size)`.
pub(crate) fn ftruncate([descriptor, size, ..]: [u64; 6]) -> Answer {
    if (size as i64) < 0 {
        return EINVAL;
    }
    let truncate = |file| memory::resized(file, size, || host::call(number::FILE_FTRUNCATE, [file, size]));
    with_file(descriptor, EINVAL, truncate)
}

/// `fallocate(descriptor, mode, offset, length)`: extends a file, with mode 0.
pub(crate) fn fallocate([descriptor, mode, offset, len, ..]: [u64; 6]) -> Answer {
    if mode as u32 != 0 {
        return EOPNOTSUPP;
    }
    if len as i64 <= 0 || (offset as i64) < 0 {
        return EINVAL;
    }
    match known(descriptor) {
        Ok((_, file)) if file.size >= offset.saturating_add(len) => 0,
        Ok(_) => ftruncate([descriptor, offset.saturating_add(len), 0, 0, 0, 0]),
        Err(error) => error,
    }
}

/// `fsync(descriptor)`, `fdatasync(descriptor)`, `sync_file_range(descriptor, …)`: all of the file.
pub(crate) fn fsync([descriptor, ..]: [u64; 6]) -> Answer {
    with_file(descriptor, EINVAL, |file| match memory::write_back(file) {
        0 => host::call(number::FILE_FSYNC, [file]),
        error => error,
    })
}

/// Makes the written data of all open files safe.
pub(crate) fn sync_all() -> Answer {
    memory::write_back_all();
    for descriptor in 0..descriptors::MOST as u64 {
        with_file(descriptor, 0, |file| host::call(number::FILE_FSYNC, [file]));
    }
    0
}

/// `copy_file_range`, `sendfile`, `splice`: libraries copy by themselves then.
pub(crate) fn copy(_: [u64; 6]) -> Answer {
    ENOSYS
}

/// `getxattr` and its kin: there are no attributes.
pub(crate) fn attributes(_: [u64; 6]) -> Answer {
    EOPNOTSUPP
}
