//! Sending and receiving.

use super::address::{read_address, write_address};
use super::numbers::{MSG_DONTWAIT, MSG_PEEK};
use super::{get, is_non_blocking, of, pair, with};
use crate::errno::{Answer, EAGAIN};
use crate::host;
use alloc::vec::Vec;
use monohull_abi::file::IoVec;
use monohull_abi::network::{PEEK, SocketAddress, SocketOption};
use monohull_abi::number;

/// Does something with a number while the socket does not wait, if `flags` ask for that.
fn waiting_as(at: usize, open: u64, flags: u64, act: impl FnOnce() -> Answer) -> Answer {
    let change = flags & MSG_DONTWAIT != 0 && !is_non_blocking(at);
    let set = |on: u64| host::call(number::SOCKET_SET_OPTION, [open, SocketOption::NonBlocking as u64, on]);
    if change {
        set(1);
    }
    let answer = act();
    if change {
        set(0);
    }
    answer
}

/// What `recv` and `read` do.
pub(crate) fn receive(at: usize, buffer: u64, len: u64, flags: u64) -> Answer {
    let peek = if flags & MSG_PEEK != 0 { PEEK } else { 0 };
    with(at, |open| waiting_as(at, open, flags, || host::call(number::SOCKET_RECV, [open, buffer, len, peek])))
}

/// What `send` and `write` do.
pub(crate) fn send(at: usize, bytes: u64, len: u64) -> Answer {
    with(at, |open| host::call(number::SOCKET_SEND, [open, bytes, len]))
}

/// `recvfrom(socket, buffer, length, flags, address out, length)`.
pub(crate) fn recvfrom([descriptor, buffer, len, flags, out, out_len]: [u64; 6]) -> Answer {
    if let Some(pair) = pair::of(descriptor) {
        return pair::receive(&pair, buffer, len, flags);
    }
    let at = match of(descriptor) {
        Ok(at) => at,
        Err(error) => return error,
    };
    if out == 0 || get(at).stream {
        return receive(at, buffer, len, flags);
    }
    let mut from = SocketAddress::default();
    let peek = if flags & MSG_PEEK != 0 { PEEK } else { 0 };
    let answer = with(at, |open| {
        let call = [open, buffer, len, peek, (&raw mut from) as u64];
        waiting_as(at, open, flags, || host::call(number::SOCKET_RECVFROM, call))
    });
    if answer >= 0 {
        write_address(&from, out, out_len);
    }
    answer
}

/// `sendto(socket, bytes, length, flags, address, length)`.
pub(crate) fn sendto([descriptor, bytes, len, flags, address, address_len]: [u64; 6]) -> Answer {
    if let Some(pair) = pair::of(descriptor) {
        return pair::send(&pair, bytes, len, flags, address);
    }
    let at = match of(descriptor) {
        Ok(at) => at,
        Err(error) => return error,
    };
    if address == 0 || get(at).stream {
        return with(at, |open| waiting_as(at, open, flags, || send(at, bytes, len)));
    }
    match read_address(address, address_len) {
        Ok(to) => with(at, |open| {
            let call = [open, bytes, len, (&raw const to) as u64];
            waiting_as(at, open, flags, || host::call(number::SOCKET_SENDTO, call))
        }),
        Err(error) => error,
    }
}

/// `struct msghdr`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Message {
    name: u64,
    name_len: u32,
    list: u64,
    count: u64,
    control: u64,
    control_len: u64,
    flags: u32,
}

/// `recvmsg(socket, message, flags)`: into the first buffer that has room; there are no control messages.
pub(crate) fn recvmsg([descriptor, message, flags, ..]: [u64; 6]) -> Answer {
    // SAFETY: the caller's `struct msghdr`, and its list of buffers.
    unsafe {
        let message = message as *mut Message;
        let lists = core::slice::from_raw_parts((*message).list as *const IoVec, (*message).count as usize);
        let Some(first) = lists.iter().find(|buffer| buffer.len > 0) else { return 0 };
        let name_len = (&raw mut (*message).name_len) as u64;
        let (address, len) = (first.address, first.len);
        ((*message).control_len, (*message).flags) = (0, 0);
        recvfrom([descriptor, address, len, flags, (*message).name, name_len])
    }
}

/// `sendmsg(socket, message, flags)`: all buffers as one.
pub(crate) fn sendmsg([descriptor, message, flags, ..]: [u64; 6]) -> Answer {
    // SAFETY: the caller's `struct msghdr`, its list and its buffers.
    unsafe {
        let message = (message as *const Message).read();
        let list = core::slice::from_raw_parts(message.list as *const IoVec, message.count as usize);
        let mut bytes = Vec::new();
        for buffer in list.iter().filter(|buffer| buffer.len > 0) {
            bytes.extend_from_slice(core::slice::from_raw_parts(buffer.address as *const u8, buffer.len as usize));
        }
        let (address, len) = (bytes.as_ptr() as u64, bytes.len() as u64);
        sendto([descriptor, address, len, flags, message.name, u64::from(message.name_len)])
    }
}

/// Whether a stream or datagram socket has something to read now, without taking it; `None` of one that listens.
pub(crate) fn readable(at: usize) -> Option<bool> {
    let socket = get(at);
    if socket.listening {
        return None;
    }
    let mut byte = 0_u8;
    let answer = receive(at, (&raw mut byte) as u64, 1, MSG_PEEK | MSG_DONTWAIT);
    Some(answer != EAGAIN)
}
