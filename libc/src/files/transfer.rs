//! Reading and writing, of whatever a descriptor stands for.

use super::{O_APPEND, flags, with_local, with_text};
use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EBADF, EINVAL, EOPNOTSUPP, ESPIPE};
use crate::local::WHOLE;
use crate::{host, memory, process, sockets, standard};
use monohull_abi::file::{AT_POSITION, IoVec, TRANSFER_MAX, Whence};
use monohull_abi::number;
use monohull_abi::types::LINE_MAX;

/// The most that Linux transfers at once.
const AT_ONCE: u64 = 0x7fff_f000;

/// `read(descriptor, buffer, length)`.
pub(crate) fn read([descriptor, buffer, len, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => {
            let part = |done, left| host::call(number::FILE_READ, [file, buffer + done, left]);
            from_file(file, || whole(len, TRANSFER_MAX, part))
        }
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
        Ok(Kind::Text(text)) => with_text(text, |text| text.read(buffer, len)),
        Ok(Kind::Epoll(_)) => EINVAL,
        Ok(Kind::Output(_)) => EBADF,
        Err(error) => error,
    }
}

/// `write(descriptor, bytes, length)`.
pub(crate) fn write([descriptor, bytes, len, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => {
            let part = |done, left| host::call(number::FILE_WRITE, [file, bytes + done, left]);
            to_file(file, || whole(len, TRANSFER_MAX, part))
        }
        Ok(Kind::Output(stream)) => {
            whole(len, LINE_MAX as u64, |done, left| host::call(number::STDIO_WRITE, [stream, bytes + done, left]))
        }
        Ok(Kind::Socket(socket)) => sockets::send(socket, bytes, len),
        Ok(Kind::Local(local)) => with_local(local, |local| local.write(bytes, len, true)),
        Ok(Kind::Null | Kind::Zero | Kind::Random) => len as Answer,
        Ok(Kind::Epoll(_)) => EINVAL,
        Ok(Kind::Input | Kind::Text(_)) => EBADF,
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

/// Transfers all of it, where one call transfers at most `at_once`: a part that is shorter than that, and than what is left, is the last.
fn whole(len: u64, at_once: u64, mut part: impl FnMut(u64, u64) -> Answer) -> Answer {
    let len = len.min(AT_ONCE);
    let mut done = 0;
    loop {
        match part(done, len - done) {
            error @ ..0 if done == 0 => return error,
            ..0 => return done as Answer,
            bytes => done += bytes as u64,
        }
        if done >= len || !done.is_multiple_of(at_once) || done == 0 {
            return done as Answer;
        }
    }
}

/// Transfers several buffers at an offset, or at the position: by one call that takes a list, or one after another if they have more
/// than that transfers.
fn whole_list(
    list: u64,
    count: u64,
    offset: u64,
    by_list: impl FnOnce() -> Answer,
    by_one: [u32; 2],
    file: u64,
) -> Answer {
    // SAFETY: the caller's list of that many buffers.
    let buffer = |at: usize| unsafe { (list as *const IoVec).add(at).read_unaligned() };
    let bytes = (0..count.min(1024) as usize).fold(0_u64, |bytes, at| bytes.saturating_add(buffer(at).len));
    if count > 1024 || bytes <= TRANSFER_MAX {
        return by_list();
    }
    let [at_position, at_offset] = by_one;
    let mut offset = offset;
    each(list, count, |address, len| {
        let answer = whole(len, TRANSFER_MAX, |done, left| match offset {
            AT_POSITION => host::call(at_position, [file, address + done, left]),
            _ => host::call(at_offset, [file, address + done, left, offset + done]),
        });
        if offset != AT_POSITION {
            offset += answer.max(0) as u64;
        }
        answer
    })
}

/// `pread64(descriptor, buffer, length, offset)`.
pub(crate) fn pread([descriptor, buffer, len, offset, ..]: [u64; 6]) -> Answer {
    read_at(
        descriptor,
        offset,
        |file| {
            whole(len, TRANSFER_MAX, |done, left| {
                host::call(number::FILE_PREAD, [file, buffer + done, left, offset + done])
            })
        },
        |device| match device {
            Kind::Text(text) => with_text(text, |text| text.read_at(buffer, len, offset)),
            _ => read([descriptor, buffer, len, 0, 0, 0]),
        },
    )
}

/// `pwrite64(descriptor, bytes, length, offset)`.
pub(crate) fn pwrite([descriptor, bytes, len, offset, ..]: [u64; 6]) -> Answer {
    write_at(
        descriptor,
        offset,
        |file| {
            whole(len, TRANSFER_MAX, |done, left| {
                host::call(number::FILE_PWRITE, [file, bytes + done, left, offset + done])
            })
        },
        |_| write([descriptor, bytes, len, 0, 0, 0]),
    )
}

/// Reads at an offset; the one that stands for "at the position" is no offset here. Devices have no positions.
fn read_at(
    descriptor: u64,
    offset: u64,
    of_file: impl FnOnce(u64) -> Answer,
    of_device: impl FnOnce(Kind) -> Answer,
) -> Answer {
    match descriptors::get(descriptor) {
        Ok(_) if (offset as i64) < 0 => EINVAL,
        Ok(Kind::File(file)) => from_file(file, || of_file(file)),
        Ok(device @ (Kind::Null | Kind::Zero | Kind::Random | Kind::Text(_))) => of_device(device),
        Ok(_) => ESPIPE,
        Err(error) => error,
    }
}

/// Writes at an offset, likewise.
fn write_at(
    descriptor: u64,
    offset: u64,
    to_file: impl FnOnce(u64) -> Answer,
    to_device: impl FnOnce(Kind) -> Answer,
) -> Answer {
    match descriptors::get(descriptor) {
        Ok(_) if (offset as i64) < 0 => EINVAL,
        Ok(Kind::File(file)) => memory::writing(file, || to_file(file), |_| offset),
        Ok(Kind::Text(_)) => EBADF,
        Ok(device @ (Kind::Null | Kind::Zero | Kind::Random)) => to_device(device),
        Ok(_) => ESPIPE,
        Err(error) => error,
    }
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
        Ok(Kind::File(file)) => from_file(file, || file_readv(file, list, count, AT_POSITION)),
        Err(error) => error,
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

fn file_readv(file: u64, list: u64, count: u64, offset: u64) -> Answer {
    let by_list = || host::call(number::FILE_READV, [file, list, count, offset]);
    whole_list(list, count, offset, by_list, [number::FILE_READ, number::FILE_PREAD], file)
}

fn file_writev(file: u64, list: u64, count: u64, offset: u64) -> Answer {
    let by_list = || host::call(number::FILE_WRITEV, [file, list, count, offset]);
    whole_list(list, count, offset, by_list, [number::FILE_WRITE, number::FILE_PWRITE], file)
}

/// `writev(descriptor, list, count)`.
pub(crate) fn writev([descriptor, list, count, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => to_file(file, || file_writev(file, list, count, AT_POSITION)),
        Err(error) => error,
        _ if count > 1024 => EINVAL,
        // SAFETY: the caller's list of that many buffers.
        Ok(Kind::Socket(socket)) => sockets::send_list(socket, unsafe { sockets::buffers(list, count) }),
        // A little is written whole, with nothing of another thread's between.
        Ok(Kind::Local(_) | Kind::Output(_)) => match gathered(list, count) {
            Some((bytes, len)) => write([descriptor, bytes.as_ptr() as u64, len as u64, 0, 0, 0]),
            None => each(list, count, |bytes, len| write([descriptor, bytes, len, 0, 0, 0])),
        },
        _ => each(list, count, |bytes, len| write([descriptor, bytes, len, 0, 0, 0])),
    }
}

/// What several buffers have, one after another, and how much that is; `None` if it is more than is written whole.
fn gathered(list: u64, count: u64) -> Option<([u8; WHOLE], usize)> {
    let (mut all, mut len) = ([0; WHOLE], 0);
    for at in 0..count as usize {
        // SAFETY: the caller's list of that many buffers.
        let buffer = unsafe { (list as *const IoVec).add(at).read_unaligned() };
        let room = all.get_mut(len..)?.get_mut(..usize::try_from(buffer.len).ok()?)?;
        // SAFETY: a buffer of the caller's list.
        unsafe { room.as_mut_ptr().copy_from_nonoverlapping(buffer.address as *const u8, room.len()) };
        len += room.len();
    }
    Some((all, len))
}

/// `preadv(descriptor, list, count, offset, high half)`.
pub(crate) fn preadv([descriptor, list, count, offset, ..]: [u64; 6]) -> Answer {
    let device = |device| match device {
        Kind::Text(text) => with_text(text, |text| {
            let mut at = offset;
            each(list, count, |buffer, len| {
                let read = text.read_at(buffer, len, at);
                at += read as u64;
                read
            })
        }),
        _ => readv([descriptor, list, count, 0, 0, 0]),
    };
    read_at(descriptor, offset, |file| file_readv(file, list, count, offset), device)
}

/// `pwritev(descriptor, list, count, offset, high half)`.
pub(crate) fn pwritev([descriptor, list, count, offset, ..]: [u64; 6]) -> Answer {
    let device = |_| writev([descriptor, list, count, 0, 0, 0]);
    write_at(descriptor, offset, |file| file_writev(file, list, count, offset), device)
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
