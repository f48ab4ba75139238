//! Options of sockets.

use super::numbers::{
    SO_ACCEPTCONN, SO_ERROR, SO_KEEPALIVE, SO_LINGER, SO_RCVBUF, SO_REUSEADDR, SO_REUSEPORT, SO_SNDBUF, SO_TYPE,
    SOL_SOCKET,
};
use super::{Connection, DATAGRAM, STREAM, connect, connection, of, pair};
use crate::errno::{Answer, EFAULT, EINVAL, ENOPROTOOPT};
use crate::host;
use monohull_abi::network::SocketOption;
use monohull_abi::number;

const IPPROTO_IP: u64 = 0;
const IPPROTO_TCP: u64 = 6;
const IPPROTO_IPV6: u64 = 41;
const SO_BROADCAST: u64 = 6;
const SO_RCVTIMEO: u64 = 20;
const SO_SNDTIMEO: u64 = 21;
const TCP_NODELAY: u64 = 1;
const IP_TTL: u64 = 2;
/// How long a silent connection is left alone before it is probed, as Linux does.
const KEEP_ALIVE: u64 = 7200 * 1_000_000_000;

/// `setsockopt(socket, level, option, value, length)`.
pub(crate) fn setsockopt([descriptor, level, option, value, len, ..]: [u64; 6]) -> Answer {
    if pair::of(descriptor).is_some() {
        return pair::set_option(level, option);
    }
    let socket = match of(descriptor) {
        Ok(socket) => socket,
        Err(error) => return error,
    };
    if value == 0 || len < 4 {
        return EINVAL;
    }
    // SAFETY: the caller's value of at least four bytes.
    let number = unsafe { (value as *const u32).read_unaligned() };
    let flag = u64::from(number != 0);
    match (level, option) {
        (SOL_SOCKET, SO_RCVTIMEO | SO_SNDTIMEO) if len >= 16 => {
            // SAFETY: the caller's `struct timeval`.
            let [seconds, micros] = unsafe { (value as *const [u64; 2]).read_unaligned() };
            let time = seconds.saturating_mul(1_000_000_000).saturating_add(micros.saturating_mul(1000));
            socket.set(if option == SO_RCVTIMEO { SocketOption::ReadTimeout } else { SocketOption::WriteTimeout }, time)
        }
        (SOL_SOCKET, SO_BROADCAST) => socket.set(SocketOption::Broadcast, flag),
        (SOL_SOCKET, SO_KEEPALIVE) => socket.set(SocketOption::KeepAlive, flag * KEEP_ALIVE),
        (IPPROTO_TCP, TCP_NODELAY) => socket.set(SocketOption::NoDelay, flag),
        (IPPROTO_IP, IP_TTL) => socket.set(SocketOption::Ttl, number.into()),
        // What the network decides by itself.
        (SOL_SOCKET, SO_REUSEADDR | SO_REUSEPORT | SO_SNDBUF | SO_RCVBUF | SO_LINGER) => 0,
        (IPPROTO_TCP | IPPROTO_IPV6, _) => 0,
        _ => ENOPROTOOPT,
    }
}

/// `getsockopt(socket, level, option, value out, length)`.
pub(crate) fn getsockopt([descriptor, level, option, out, len, ..]: [u64; 6]) -> Answer {
    if out == 0 || len == 0 {
        return EFAULT;
    }
    if pair::of(descriptor).is_some() {
        return write_option(pair::option(level, option), false, out, len);
    }
    let socket = match of(descriptor) {
        Ok(socket) => socket,
        Err(error) => return error,
    };
    let state = socket.now();
    let read = |option: SocketOption| match state.open {
        Some(open) => host::call(number::SOCKET_GET_OPTION, [open, option as u64]),
        None => state.options.get(option as usize).copied().flatten().unwrap_or(0) as Answer,
    };
    let (value, time) = match (level, option) {
        (SOL_SOCKET, SO_RCVTIMEO) => (read(SocketOption::ReadTimeout), true),
        (SOL_SOCKET, SO_SNDTIMEO) => (read(SocketOption::WriteTimeout), true),
        (SOL_SOCKET, SO_TYPE) => (if socket.stream { STREAM } else { DATAGRAM } as Answer, false),
        (SOL_SOCKET, SO_ERROR) => {
            let error = match (connection(&socket), state.open) {
                (Connection::Failed(_), _) => -connect::take_failure(&socket),
                (Connection::Settled | Connection::Made, Some(_)) => read(SocketOption::Error),
                (_, _) => 0,
            };
            (error, false)
        }
        (SOL_SOCKET, SO_ACCEPTCONN) => (state.listening.into(), false),
        (SOL_SOCKET, SO_BROADCAST) => (read(SocketOption::Broadcast), false),
        (SOL_SOCKET, SO_KEEPALIVE) => (i64::from(read(SocketOption::KeepAlive) > 0), false),
        (SOL_SOCKET, SO_SNDBUF | SO_RCVBUF) => (64 << 10, false),
        (SOL_SOCKET, SO_REUSEADDR | SO_REUSEPORT | SO_LINGER) => (0, false),
        (IPPROTO_TCP, TCP_NODELAY) => (read(SocketOption::NoDelay), false),
        (IPPROTO_IP, IP_TTL) => (read(SocketOption::Ttl), false),
        _ => return ENOPROTOOPT,
    };
    write_option(value, time, out, len)
}

/// Writes the value of an option, as `struct timeval` if it is a time in nanoseconds, cut to the room that there is.
fn write_option(value: Answer, time: bool, out: u64, len: u64) -> Answer {
    if value < 0 {
        return value;
    }
    let mut bytes = [0_u8; 16];
    let whole = if time {
        bytes[..8].copy_from_slice(&(value / 1_000_000_000).to_ne_bytes());
        bytes[8..].copy_from_slice(&(value % 1_000_000_000 / 1000).to_ne_bytes());
        16
    } else {
        bytes[..4].copy_from_slice(&(value as u32).to_ne_bytes());
        4
    };
    // SAFETY: the caller's `socklen_t`, and its buffer of as many bytes.
    unsafe {
        let room = (len as *const u32).read_unaligned().min(whole);
        (out as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), room as usize);
        (len as *mut u32).write_unaligned(room);
    }
    0
}
