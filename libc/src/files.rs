//! Files and directories over `FILE_*`.
//!
//! There are no owners, no permissions but read-only mounts, no links: what Linux reports of them is the same for every
//! file.

mod directories;
mod flags;
mod status;
mod times;
mod transfer;

pub(crate) use directories::{
    chdir, fchdir, getcwd, getdents64, link, mkdir, mkdirat, rename, renameat, renameat2, rmdir, unlink, unlinkat,
};
pub(crate) use flags::{flags, ioctl, set_flags};
pub(crate) use status::{
    accept_descriptor, accept_path, accept_path_at, access, faccessat, fstat, fstatfs, newfstatat, readlink,
    readlinkat, stat, statfs, statx,
};
pub(crate) use times::utimensat;
pub(crate) use transfer::{pread, preadv, preadv2, pwrite, pwritev, pwritev2, read, readv, write, writev};

use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EFAULT, EINVAL, ENOSYS, ENOTDIR, EOPNOTSUPP, ESPIPE};
use crate::local::{self, Local};
use crate::{host, memory};
use core::ffi::{CStr, c_char};
use monohull_abi::file::{WORKING_DIRECTORY, open};
use monohull_abi::number;
use status::known;

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

    /// Whether it is one of the devices that can be opened everywhere.
    fn is_device(&self) -> bool {
        matches!(self.bytes, b"/dev/null" | b"/dev/zero" | b"/dev/urandom" | b"/dev/random")
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
        let device = match path.bytes {
            b"/dev/null" => Some(Kind::Null),
            b"/dev/zero" => Some(Kind::Zero),
            b"/dev/random" | b"/dev/urandom" => Some(Kind::Random),
            b"/dev/stdin" => Some(Kind::Input),
            b"/dev/stdout" => Some(Kind::Output(1)),
            b"/dev/stderr" => Some(Kind::Output(2)),
            _ => None,
        };
        if let Some(device) = device {
            return descriptors::add(device);
        }
        let mut wanted = match flags & 3 {
            0 => open::READ,
            1 => open::WRITE,
            _ => open::READ | open::WRITE,
        };
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
        let (bytes, len) = (path.bytes.as_ptr() as u64, path.bytes.len() as u64);
        match host::call(number::FILE_OPEN, [path.from, bytes, len, wanted]) {
            error @ ..0 => error,
            file => {
                if wanted & open::TRUNCATE != 0 {
                    memory::resized(file as u64, 0, || 0);
                }
                descriptors::add(Kind::File(file as u64))
            }
        }
    })
}

/// `lseek(descriptor, offset, whence)`.
pub(crate) fn lseek([descriptor, offset, whence, ..]: [u64; 6]) -> Answer {
    with_file(descriptor, ESPIPE, |file| host::call(number::FILE_SEEK, [file, offset, whence]))
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
    match known(descriptor) {
        Ok((_, file)) if file.size >= offset.saturating_add(len) => 0,
        Ok(_) => ftruncate([descriptor, offset.saturating_add(len), 0, 0, 0, 0]),
        Err(error) => error,
    }
}

/// `fsync(descriptor)`, `fdatasync(descriptor)`.
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
