//! Descriptors: small numbers that a program has. What they stand for is in [`table`]; here they are closed and duplicated.
//!
//! ```text
//!   0 1 2 3 4 5 …                    the program's numbers, lowest free first
//!   │ │ │ │ │ └─ Local(0) ─────────▶ the program's memory: eventfd, pipe, socketpair
//!   │ │ │ │ └─ Socket(7)  ─────────▶ SOCKET_*
//!   │ │ │ └─── File(3)    ─────────▶ FILE_*          a hostcall's number each: a duplicate has its own
//!   │ └─┴───── Output(1), Output(2)  STDIO_WRITE
//!   └───────── Input                 the slot that is the step's standard input
//! ```

pub(crate) mod table;

pub(crate) use table::{CLOSE_ON_EXEC, Kind, MOST, get};

use crate::errno::{Answer, EBADF, EINVAL};
use crate::files::{locks, proc};
use crate::{epoll, local, sockets};

/// The only flag of a number itself.
const FD_CLOEXEC: u64 = 1;

/// The lowest free number from `lowest` on, for something that is open; it is closed if there is none.
fn add_from(lowest: u64, kind: Kind, flags: u64) -> Answer {
    table::add_from(lowest, kind, flags, || release(kind))
}

/// The lowest free number. Of the flags with which it was opened, [`CLOSE_ON_EXEC`] is the number's.
pub(crate) fn add(kind: Kind, flags: u64) -> Answer {
    add_from(0, kind, flags)
}

/// Ends what a number stood for.
pub(crate) fn release(kind: Kind) -> Answer {
    match kind {
        Kind::File(file) => locks::close(file),
        Kind::Socket(socket) => sockets::release(socket),
        Kind::Local(local) => {
            if let Some(closed) = local::release(local) {
                epoll::forget_local(&closed);
            }
            0
        }
        Kind::Epoll(epoll) => epoll::release(epoll),
        Kind::Text(text) => proc::release(text),
        Kind::Input | Kind::Output(_) | Kind::Null | Kind::Zero | Kind::Random => 0,
    }
}

/// Another of the same.
fn duplicate(kind: Kind) -> Result<Kind, Answer> {
    match kind {
        Kind::File(file) => locks::duplicate(file).map(Kind::File),
        Kind::Socket(socket) => sockets::retain(socket).map(|()| kind),
        Kind::Local(local) => local::retain(local).map(|()| kind),
        Kind::Epoll(epoll) => epoll::retain(epoll).map(|()| kind),
        Kind::Text(text) => proc::retain(text).map(|()| kind),
        other => Ok(other),
    }
}

/// `close(descriptor)`.
pub(crate) fn close([descriptor, ..]: [u64; 6]) -> Answer {
    table::take(descriptor).map_or(EBADF, release)
}

/// `close_range(first, last, flags)`. One that closes when another program begins is kept as a flag of each number.
pub(crate) fn close_range([first, last, flags, ..]: [u64; 6]) -> Answer {
    const UNSHARE: u32 = 2;
    const CLOEXEC: u32 = 4;
    if first as u32 > last as u32 || flags as u32 & !(UNSHARE | CLOEXEC) != 0 {
        return EINVAL;
    }
    for descriptor in first as u32 as u64..=u64::from(last as u32).min(MOST as u64 - 1) {
        // A number that is not open is passed over, as on Linux.
        match flags as u32 & CLOEXEC {
            0 => drop(close([descriptor, 0, 0, 0, 0, 0])),
            _ => drop(table::close_on_exec(descriptor, true)),
        }
    }
    0
}

/// `dup(descriptor)`.
pub(crate) fn dup([descriptor, ..]: [u64; 6]) -> Answer {
    dup_from(descriptor, 0, 0)
}

/// The lowest free number from `lowest` on, for the same as another.
pub(crate) fn dup_from(descriptor: u64, lowest: u64, flags: u64) -> Answer {
    match get(descriptor).and_then(duplicate) {
        Ok(kind) => add_from(lowest, kind, flags),
        Err(error) => error,
    }
}

/// `dup2(descriptor, target)`.
pub(crate) fn dup2([descriptor, target, ..]: [u64; 6]) -> Answer {
    if descriptor as u32 == target as u32 {
        return get(descriptor).map_or_else(|error| error, |_| Answer::from(target as u32));
    }
    dup3([descriptor, target, 0, 0, 0, 0])
}

/// `dup3(descriptor, target, flags)`.
pub(crate) fn dup3([descriptor, target, flags, ..]: [u64; 6]) -> Answer {
    let at = target as u32 as usize;
    if descriptor as u32 == target as u32 || u64::from(flags as u32) & !CLOSE_ON_EXEC != 0 {
        return EINVAL;
    }
    if at >= MOST {
        return EBADF;
    }
    match get(descriptor).and_then(duplicate) {
        Ok(kind) => {
            table::replace(at, kind, flags).map(release);
            at as Answer
        }
        Err(error) => error,
    }
}

/// `fcntl(descriptor, command, argument)`.
pub(crate) fn fcntl([descriptor, command, argument, ..]: [u64; 6]) -> Answer {
    const DUPFD: u32 = 0;
    const GETFD: u32 = 1;
    const SETFD: u32 = 2;
    const GETFL: u32 = 3;
    const SETFL: u32 = 4;
    const GETLK: u32 = 5;
    const SETLK: u32 = 6;
    const SETLKW: u32 = 7;
    const DUPFD_CLOEXEC: u32 = 1030;
    const UNLOCKED: i16 = 2;
    let kind = match get(descriptor) {
        Ok(kind) => kind,
        Err(error) => return error,
    };
    match command as u32 {
        DUPFD | DUPFD_CLOEXEC if argument as u32 as usize >= MOST => EINVAL,
        DUPFD => dup_from(descriptor, argument as u32 as u64, 0),
        DUPFD_CLOEXEC => dup_from(descriptor, argument as u32 as u64, CLOSE_ON_EXEC),
        GETFD => table::closes_on_exec(descriptor).map_or_else(|error| error, Answer::from),
        SETFD => table::close_on_exec(descriptor, argument & FD_CLOEXEC != 0).map_or_else(|error| error, |()| 0),
        GETFL => crate::files::flags(kind),
        SETFL => crate::files::set_flags(kind, argument),
        GETLK => {
            // SAFETY: the caller's `struct flock`, which begins with the kind of lock.
            unsafe { (argument as *mut i16).write_unaligned(UNLOCKED) };
            0
        }
        // An instance's files are its own: no other program can hold a lock on them.
        SETLK | SETLKW => 0,
        _ => EINVAL,
    }
}
