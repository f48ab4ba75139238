//! What calls of sockets do with an end of a `socketpair`.

use super::STREAM;
use super::numbers::{
    MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL, SO_ACCEPTCONN, SO_DOMAIN, SO_ERROR, SO_KEEPALIVE, SO_LINGER, SO_PROTOCOL,
    SO_RCVBUF, SO_REUSEADDR, SO_REUSEPORT, SO_SNDBUF, SO_TYPE, SOL_SOCKET,
};
use super::transfer::whole;
use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EFAULT, EISCONN, ENOPROTOOPT};
use crate::local::{self, Local};
use alloc::sync::Arc;

const AF_UNIX: u16 = 1;

/// The end behind a descriptor, if it is one.
pub(super) fn of(descriptor: u64) -> Option<Arc<Local>> {
    match descriptors::get(descriptor) {
        Ok(Kind::Local(at)) => local::get(at).ok().filter(|local| local.is_socket()),
        _ => None,
    }
}

pub(super) fn receive(pair: &Local, buffer: u64, len: u64, flags: u64) -> Answer {
    let receive = |buffer, len| pair.read(buffer, len, flags & MSG_DONTWAIT == 0, flags & MSG_PEEK != 0);
    if flags & (MSG_WAITALL | MSG_PEEK | MSG_DONTWAIT) == MSG_WAITALL && !pair.is_non_blocking() {
        whole(buffer, len, receive)
    } else {
        receive(buffer, len)
    }
}

pub(super) fn send(pair: &Local, bytes: u64, len: u64, flags: u64, address: u64) -> Answer {
    if address != 0 {
        return EISCONN;
    }
    pair.write(bytes, len, flags & MSG_DONTWAIT == 0)
}

/// Its name, and that of its peer: a family without a path.
pub(super) fn name(out: u64, len: u64) -> Answer {
    if out == 0 || len == 0 {
        return EFAULT;
    }
    let family = AF_UNIX.to_ne_bytes();
    // SAFETY: the caller's `socklen_t`, and its buffer of as many bytes.
    unsafe {
        let room = (len as *const u32).read_unaligned().min(family.len() as u32);
        (out as *mut u8).copy_from_nonoverlapping(family.as_ptr(), room as usize);
        (len as *mut u32).write_unaligned(family.len() as u32);
    }
    0
}

pub(super) fn set_option(level: u64, option: u64) -> Answer {
    match (level, option) {
        (SOL_SOCKET, SO_REUSEADDR | SO_REUSEPORT | SO_SNDBUF | SO_RCVBUF | SO_LINGER | SO_KEEPALIVE) => 0,
        _ => ENOPROTOOPT,
    }
}

pub(super) fn option(level: u64, option: u64) -> Answer {
    match (level, option) {
        (SOL_SOCKET, SO_TYPE) => STREAM as Answer,
        (SOL_SOCKET, SO_DOMAIN) => AF_UNIX.into(),
        (SOL_SOCKET, SO_SNDBUF | SO_RCVBUF) => 64 << 10,
        (
            SOL_SOCKET,
            SO_ERROR | SO_ACCEPTCONN | SO_PROTOCOL | SO_REUSEADDR | SO_REUSEPORT | SO_LINGER | SO_KEEPALIVE,
        ) => 0,
        _ => ENOPROTOOPT,
    }
}
