//! Flags of open descriptors: appending, not waiting.

use super::{O_APPEND, O_NONBLOCK, known, with_local};
use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EFAULT, ENOTTY};
use crate::{host, sockets};
use monohull_abi::file::{KEEP_FLAGS, Whence, open};
use monohull_abi::number;

/// `ioctl(descriptor, request, argument)`: bytes that can be read from pipes and files; sockets and pipes that do not wait; nothing is a terminal.
pub(crate) fn ioctl([descriptor, request, argument, ..]: [u64; 6]) -> Answer {
    const FIONREAD: u32 = 0x541b;
    const FIONBIO: u32 = 0x5421;
    const FIOCLEX: u32 = 0x5451;
    const FIONCLEX: u32 = 0x5450;
    match (descriptors::get(descriptor), request as u32) {
        (Err(error), _) => error,
        (Ok(kind @ (Kind::Socket(_) | Kind::Local(_))), FIONBIO) => {
            // SAFETY: the caller's pointer to an `int`.
            let on = unsafe { (argument as *const i32).read_unaligned() } != 0;
            set_flags(kind, if on { O_NONBLOCK } else { 0 })
        }
        (Ok(_), FIONBIO) => 0,
        (Ok(Kind::Local(local)), FIONREAD) => with_local(local, |local| told(argument, local.available() as u64)),
        (Ok(Kind::File(file)), FIONREAD) => {
            let position = host::call(number::FILE_SEEK, [file, 0, Whence::Current as u64]);
            match known(descriptor) {
                Ok((_, status)) if position >= 0 => told(argument, status.size.saturating_sub(position as u64)),
                Ok(_) => position,
                Err(error) => error,
            }
        }
        (Ok(Kind::Socket(socket)), FIONREAD) => sockets::how_much(socket, argument),
        (Ok(_), FIOCLEX | FIONCLEX) => 0,
        (Ok(_), _) => ENOTTY,
    }
}

/// Tells a number as an `int`.
fn told(out: u64, number: u64) -> Answer {
    if out == 0 {
        return EFAULT;
    }
    // SAFETY: the caller's pointer to an `int`.
    unsafe { (out as *mut i32).write_unaligned(i32::try_from(number).unwrap_or(i32::MAX)) };
    0
}

/// `F_GETFL`.
pub(crate) fn flags(kind: Kind) -> Answer {
    match kind {
        Kind::File(file) => match host::call(number::FILE_FLAGS, [file, KEEP_FLAGS]) {
            error @ ..0 => error,
            flags => {
                let flags = flags as u64;
                let access = match (flags & open::READ != 0, flags & open::WRITE != 0) {
                    (true, true) => 2,
                    (false, true) => 1,
                    _ => 0,
                };
                access | if flags & open::APPEND != 0 { O_APPEND as Answer } else { 0 }
            }
        },
        Kind::Socket(socket) => 2 | if sockets::is_non_blocking(socket) { O_NONBLOCK as Answer } else { 0 },
        Kind::Local(local) => {
            with_local(local, |local| local.access() | if local.is_non_blocking() { O_NONBLOCK as Answer } else { 0 })
        }
        Kind::Output(_) => 1,
        Kind::Input => 0,
        Kind::Null | Kind::Zero | Kind::Random | Kind::Epoll(_) => 2,
        Kind::Text(_) => 0,
    }
}

/// `F_SETFL`: appending of files, non-blocking of sockets, pipes and event counters.
pub(crate) fn set_flags(kind: Kind, flags: u64) -> Answer {
    match kind {
        Kind::File(file) => match host::call(number::FILE_FLAGS, [file, KEEP_FLAGS]) {
            error @ ..0 => error,
            old => {
                let append = if flags & O_APPEND != 0 { open::APPEND } else { 0 };
                host::call(number::FILE_FLAGS, [file, old as u64 & !open::APPEND | append]).min(0)
            }
        },
        Kind::Socket(socket) => sockets::set_non_blocking(socket, flags & O_NONBLOCK != 0),
        Kind::Local(local) => with_local(local, |local| local.set_non_blocking(flags & O_NONBLOCK != 0)),
        _ => 0,
    }
}
