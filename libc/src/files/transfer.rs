//! Reading and writing, of whatever a descriptor stands for.

use super::{O_APPEND, flags, with_file, with_local};
use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EBADF, EINVAL, EOPNOTSUPP, ESPIPE};
use crate::{host, memory, process, sockets, standard};
use monohull_abi::file::{AT_POSITION, IoVec, Whence};
use monohull_abi::number;

/// `read(descriptor, buffer, length)`.
pub(crate) fn read([descriptor, buffer, len, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => from_file(file, || host::call(number::FILE_READ, [file, buffer, len])),
        Ok(Kind::Socket(socket)) => sockets::receive(socket, buffer, len, 0),
        Ok(Kind::Local(local)) => with_local(local, |local| local.read(buffer, len, true, false)),
        Ok(Kind::Input) => standard::read(buffer, len),
        Ok(Kind::Null) => 0,
        Ok(Kind::Zero) => {
            // SAFETY: the caller's buffer.
            unsafe { (buffer as *mut u8).write_bytes(0, len as usize) };
            len as Answer
        }
        Ok(Kind::Random) => process::getrandom([buffer, len, 0, 0, 0, 0]),
        Ok(Kind::Epoll(_)) => EINVAL,
        Ok(Kind::Output(_)) => EBADF,
        Err(error) => error,
    }
}

/// `write(descriptor, bytes, length)`.
pub(crate) fn write([descriptor, bytes, len, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => to_file(file, || host::call(number::FILE_WRITE, [file, bytes, len])),
        Ok(Kind::Output(stream)) => host::call(number::STDIO_WRITE, [stream, bytes, len]),
        Ok(Kind::Socket(socket)) => sockets::send(socket, bytes, len),
        Ok(Kind::Local(local)) => with_local(local, |local| local.write(bytes, len, true)),
        Ok(Kind::Null | Kind::Zero | Kind::Random) => len as Answer,
        Ok(Kind::Epoll(_)) => EINVAL,
        Ok(Kind::Input) => EBADF,
        Err(error) => error,
    }
}

/// Reads a file by `act`, which finds there what was stored in its mappings.
fn from_file(file: u64, act: impl FnOnce() -> Answer) -> Answer {
    memory::write_back(file);
    act()
}

/// Writes to a file at its position by `act`; its mappings show it.
fn to_file(file: u64, act: impl FnOnce() -> Answer) -> Answer {
    // The position is the end of what was written, wherever that began.
    let position = || host::call(number::FILE_SEEK, [file, 0, Whence::Current as u64]) as u64;
    memory::writing(file, act, |written| position().saturating_sub(written))
}

/// `pread64(descriptor, buffer, length, offset)`.
pub(crate) fn pread([descriptor, buffer, len, offset, ..]: [u64; 6]) -> Answer {
    read_at(number::FILE_PREAD, descriptor, buffer, len, offset)
}

/// `pwrite64(descriptor, bytes, length, offset)`.
pub(crate) fn pwrite([descriptor, bytes, len, offset, ..]: [u64; 6]) -> Answer {
    write_at(number::FILE_PWRITE, descriptor, bytes, len, offset)
}

/// A call that reads at an offset; the one that stands for "at the position" is no offset here.
fn read_at(number: u32, descriptor: u64, first: u64, second: u64, offset: u64) -> Answer {
    if (offset as i64) < 0 {
        return EINVAL;
    }
    with_file(descriptor, ESPIPE, |file| from_file(file, || host::call(number, [file, first, second, offset])))
}

/// A call that writes at an offset, likewise.
fn write_at(number: u32, descriptor: u64, first: u64, second: u64, offset: u64) -> Answer {
    if (offset as i64) < 0 {
        return EINVAL;
    }
    let write = |file| memory::writing(file, || host::call(number, [file, first, second, offset]), |_| offset);
    with_file(descriptor, ESPIPE, write)
}

/// Reads or writes several buffers one after another, until one is not done whole.
fn each(list: u64, count: u64, mut act: impl FnMut(u64, u64) -> Answer) -> Answer {
    let mut done = 0;
    for at in 0..count as usize {
        // SAFETY: the caller's list of that many buffers.
        let buffer = unsafe { (list as *const IoVec).add(at).read_unaligned() };
        if buffer.len == 0 {
            continue;
        }
        match act(buffer.address, buffer.len) {
            error @ ..0 if done == 0 => return error,
            ..0 => break,
            part => {
                done += part;
                if (part as u64) < buffer.len {
                    break;
                }
            }
        }
    }
    done
}

/// `readv(descriptor, list, count)`.
pub(crate) fn readv([descriptor, list, count, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => from_file(file, || host::call(number::FILE_READV, [file, list, count, AT_POSITION])),
        _ if count > 1024 => EINVAL,
        // SAFETY: the caller's list of that many buffers.
        Ok(Kind::Socket(socket)) => sockets::receive_list(socket, unsafe { sockets::buffers(list, count) }, 0),
        Ok(Kind::Local(local)) => with_local(local, |local| {
            // Only the first part waits.
            let mut first = true;
            each(list, count, |buffer, len| local.read(buffer, len, core::mem::take(&mut first), false))
        }),
        _ => each(list, count, |buffer, len| read([descriptor, buffer, len, 0, 0, 0])),
    }
}

/// `writev(descriptor, list, count)`.
pub(crate) fn writev([descriptor, list, count, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => to_file(file, || host::call(number::FILE_WRITEV, [file, list, count, AT_POSITION])),
        _ if count > 1024 => EINVAL,
        // SAFETY: the caller's list of that many buffers.
        Ok(Kind::Socket(socket)) => sockets::send_list(socket, unsafe { sockets::buffers(list, count) }),
        _ => each(list, count, |bytes, len| write([descriptor, bytes, len, 0, 0, 0])),
    }
}

/// `preadv(descriptor, list, count, offset, high half)`.
pub(crate) fn preadv([descriptor, list, count, offset, ..]: [u64; 6]) -> Answer {
    read_at(number::FILE_READV, descriptor, list, count, offset)
}

/// `pwritev(descriptor, list, count, offset, high half)`.
pub(crate) fn pwritev([descriptor, list, count, offset, ..]: [u64; 6]) -> Answer {
    write_at(number::FILE_WRITEV, descriptor, list, count, offset)
}

/// `preadv2(descriptor, list, count, offset, high half, flags)`: offset −1 is the position; no flags.
pub(crate) fn preadv2([descriptor, list, count, offset, _, how]: [u64; 6]) -> Answer {
    match (how as u32, offset as i64) {
        (0, -1) => readv([descriptor, list, count, 0, 0, 0]),
        (0, _) => preadv([descriptor, list, count, offset, 0, 0]),
        _ => EOPNOTSUPP,
    }
}

/// `pwritev2(descriptor, list, count, offset, high half, flags)`: also with `RWF_NOAPPEND`, unless the descriptor appends.
pub(crate) fn pwritev2([descriptor, list, count, offset, _, how]: [u64; 6]) -> Answer {
    const RWF_NOAPPEND: u32 = 0x20;
    let appends = || descriptors::get(descriptor).is_ok_and(|kind| flags(kind) & O_APPEND as Answer != 0);
    match (how as u32, offset as i64) {
        (0, -1) => writev([descriptor, list, count, 0, 0, 0]),
        (RWF_NOAPPEND, _) if appends() => EOPNOTSUPP,
        (0 | RWF_NOAPPEND, 0..) => pwritev([descriptor, list, count, offset, 0, 0]),
        (0, _) => EINVAL,
        _ => EOPNOTSUPP,
    }
}
