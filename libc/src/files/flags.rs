//! Flags of open descriptors: appending, not waiting.

use super::{O_APPEND, O_NONBLOCK, with_local};
use crate::descriptors::{self, Kind};
use crate::errno::{Answer, ENOTTY};
use crate::{host, sockets};
use monohull_abi::file::{KEEP_FLAGS, open};
use monohull_abi::number;

/// `ioctl(descriptor, request, argument)`: bytes that can be read and non-blocking sockets; nothing is a terminal.
pub(crate) fn ioctl([descriptor, request, argument, ..]: [u64; 6]) -> Answer {
    const FIONBIO: u32 = 0x5421;
    const FIOCLEX: u32 = 0x5451;
    const FIONCLEX: u32 = 0x5450;
    match (descriptors::get(descriptor), request as u32) {
        (Err(error), _) => error,
        (Ok(kind), FIONBIO) => {
            // SAFETY: the caller's pointer to an `int`.
            let on = unsafe { (argument as *const i32).read_unaligned() } != 0;
            set_flags(kind, if on { O_NONBLOCK } else { 0 })
        }
        (Ok(_), FIOCLEX | FIONCLEX) => 0,
        (Ok(_), _) => ENOTTY,
    }
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
