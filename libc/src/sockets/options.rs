//! Options of sockets.

use super::numbers::{
    SO_ACCEPTCONN, SO_DOMAIN, SO_ERROR, SO_KEEPALIVE, SO_LINGER, SO_PROTOCOL, SO_RCVBUF, SO_REUSEADDR, SO_REUSEPORT,
    SO_SNDBUF, SO_TYPE, SOL_SOCKET,
};
use super::{Connection, DATAGRAM, STREAM, Socket, connect, connection, of, pair};
use crate::errno::{Answer, EDOM, EFAULT, EINVAL, ENOPROTOOPT};
use crate::host;
use crate::lookup::{AF_INET, AF_INET6};
use crate::refuse::{Missing, refuse};
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
const IPPROTO_UDP: Answer = 17;
const SO_PRIORITY: u64 = 12;
const TCP_KEEPIDLE: u64 = 4;
const IP_TOS: u64 = 1;
const SECOND: u64 = 1_000_000_000;

/// Options that are accepted and change nothing: how the network is used, which it decides by itself, and what is told in control messages,
/// of which none comes. Each list is in the order of its names.
///
/// `IP_BIND_ADDRESS_NO_PORT`, `IP_MTU_DISCOVER`, `IP_PKTINFO`, `IP_RECVERR`, `IP_RECVTOS`, `IP_RECVTTL`.
const OF_IP: &[u64] = &[24, 10, 8, 11, 13, 12];
/// `IPV6_ADDR_PREFERENCES`, `IPV6_AUTOFLOWLABEL`, `IPV6_DONTFRAG`, `IPV6_FLOWINFO`, `IPV6_FLOWINFO_SEND`, `IPV6_MTU`, `IPV6_MTU_DISCOVER`,
/// `IPV6_RECVERR`, `IPV6_RECVHOPLIMIT`, `IPV6_RECVPKTINFO`, `IPV6_RECVTCLASS`, `IPV6_TCLASS`, `IPV6_UNICAST_HOPS`, `IPV6_V6ONLY`.
const OF_IPV6: &[u64] = &[72, 70, 62, 11, 33, 24, 23, 25, 51, 49, 66, 67, 16, 26];
/// `TCP_CONGESTION`, `TCP_CORK`, `TCP_DEFER_ACCEPT`, `TCP_FASTOPEN`, `TCP_FASTOPEN_CONNECT`, `TCP_KEEPCNT`, `TCP_KEEPINTVL`, `TCP_LINGER2`,
/// `TCP_MAXSEG`, `TCP_NOTSENT_LOWAT`, `TCP_QUICKACK`, `TCP_SYNCNT`, `TCP_THIN_DUPACK`, `TCP_THIN_LINEAR_TIMEOUTS`, `TCP_USER_TIMEOUT`,
/// `TCP_WINDOW_CLAMP`.
const OF_TCP: &[u64] = &[13, 3, 9, 23, 30, 6, 5, 8, 2, 25, 12, 7, 17, 16, 18, 10];

/// Whether an option is about multicast: `IP_MULTICAST_IF` to `MCAST_MSFILTER`, `IP_MULTICAST_ALL`, `IPV6_MULTICAST_IF` to `IPV6_LEAVE_GROUP`,
/// `IPV6_MULTICAST_ALL`.
fn is_multicast(level: u64, option: u64) -> bool {
    match level {
        IPPROTO_IP => matches!(option, 32..=49),
        IPPROTO_IPV6 => matches!(option, 17..=21 | 27..=29 | 42..=48),
        _ => false,
    }
}

/// What is returned as it was set, and changes nothing but `keep_idle`.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    reuse_address: bool,
    reuse_port: bool,
    priority: u32,
    service: u32,
    /// Whether closing waits, and for how many seconds.
    linger: [u32; 2],
    /// How many seconds a silent connection is left alone before it is probed.
    keep_idle: u32,
}

impl Default for Kept {
    fn default() -> Kept {
        // As on Linux.
        let keep_idle = 7200;
        Kept { reuse_address: false, reuse_port: false, priority: 0, service: 0, linger: [0; 2], keep_idle }
    }
}

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
            let [seconds, micros] = unsafe { (value as *const [i64; 2]).read_unaligned() };
            let time = match (u64::try_from(seconds), micros) {
                (_, ..0 | 1_000_000..) => return EDOM,
                // It does not wait: 0 is for ever.
                (Err(_), _) => 1,
                (Ok(seconds), _) => seconds.saturating_mul(SECOND).saturating_add(micros as u64 * 1000),
            };
            let option = if option == SO_RCVTIMEO { SocketOption::ReadTimeout } else { SocketOption::WriteTimeout };
            socket.set(option, time)
        }
        (SOL_SOCKET, SO_LINGER) if len >= 8 => {
            // SAFETY: the caller's `struct linger`.
            let [on, seconds] = unsafe { (value as *const [u32; 2]).read_unaligned() };
            keep(&socket, |kept| kept.linger = [(on != 0).into(), seconds])
        }
        (SOL_SOCKET, SO_RCVTIMEO | SO_SNDTIMEO | SO_LINGER) => EINVAL,
        (SOL_SOCKET, SO_BROADCAST) => socket.set(SocketOption::Broadcast, flag),
        (SOL_SOCKET, SO_KEEPALIVE) => socket.set(SocketOption::KeepAlive, flag * keep_alive(&socket)),
        (IPPROTO_TCP, TCP_NODELAY) if socket.stream => socket.set(SocketOption::NoDelay, flag),
        (IPPROTO_TCP, TCP_KEEPIDLE) if socket.stream => {
            if !(1..=32767).contains(&number) {
                return EINVAL;
            }
            keep(&socket, |kept| kept.keep_idle = number);
            let is_on = socket.now().options[SocketOption::KeepAlive as usize].is_some_and(|time| time != 0);
            if is_on { socket.set(SocketOption::KeepAlive, keep_alive(&socket)) } else { 0 }
        }
        (IPPROTO_IP, IP_TTL) => socket.set(SocketOption::Ttl, number.into()),
        // What the network decides by itself.
        (SOL_SOCKET, SO_REUSEADDR) => keep(&socket, |kept| kept.reuse_address = flag != 0),
        (SOL_SOCKET, SO_REUSEPORT) => keep(&socket, |kept| kept.reuse_port = flag != 0),
        (SOL_SOCKET, SO_PRIORITY) => keep(&socket, |kept| kept.priority = number),
        (IPPROTO_IP, IP_TOS) => keep(&socket, |kept| kept.service = number & 0xff),
        (SOL_SOCKET, SO_SNDBUF | SO_RCVBUF) => 0,
        (IPPROTO_IP, _) if OF_IP.contains(&option) => 0,
        (IPPROTO_IPV6, _) if socket.version == 6 && OF_IPV6.contains(&option) => 0,
        (IPPROTO_TCP, _) if socket.stream && OF_TCP.contains(&option) => 0,
        _ if is_multicast(level, option) => refuse(Missing::Multicast, ENOPROTOOPT),
        _ => ENOPROTOOPT,
    }
}

fn keep(socket: &Socket, change: impl FnOnce(&mut Kept)) -> Answer {
    socket.change(|state| change(&mut state.kept));
    0
}

/// How long a silent connection is left alone, in nanoseconds.
fn keep_alive(socket: &Socket) -> u64 {
    u64::from(socket.now().kept.keep_idle) * SECOND
}

/// `getsockopt(socket, level, option, value out, length)`.
pub(crate) fn getsockopt([descriptor, level, option, out, len, ..]: [u64; 6]) -> Answer {
    if out == 0 || len == 0 {
        return EFAULT;
    }
    if pair::of(descriptor).is_some() {
        return match (level, option, pair::option(level, option)) {
            (SOL_SOCKET, SO_LINGER, 0) => write_option(&[0; 8], out, len),
            (_, _, error @ ..0) => error,
            (_, _, value) => write_option(&(value as u32).to_ne_bytes(), out, len),
        };
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
        (SOL_SOCKET, SO_DOMAIN) => ((if socket.version == 4 { AF_INET } else { AF_INET6 }).into(), false),
        (SOL_SOCKET, SO_PROTOCOL) => (if socket.stream { IPPROTO_TCP as Answer } else { IPPROTO_UDP }, false),
        (SOL_SOCKET, SO_LINGER) => {
            let [on, seconds] = state.kept.linger.map(u32::to_ne_bytes);
            return write_option([on, seconds].as_flattened(), out, len);
        }
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
        (SOL_SOCKET, SO_REUSEADDR) => (state.kept.reuse_address.into(), false),
        (SOL_SOCKET, SO_REUSEPORT) => (state.kept.reuse_port.into(), false),
        (SOL_SOCKET, SO_PRIORITY) => (state.kept.priority.into(), false),
        (IPPROTO_IP, IP_TOS) => (state.kept.service.into(), false),
        (IPPROTO_TCP, TCP_KEEPIDLE) if socket.stream => (state.kept.keep_idle.into(), false),
        (IPPROTO_TCP, TCP_NODELAY) => (read(SocketOption::NoDelay), false),
        (IPPROTO_IP, IP_TTL) => (read(SocketOption::Ttl), false),
        _ => return ENOPROTOOPT,
    };
    match (value, time) {
        (..0, _) => value,
        (_, true) => {
            let time = [value / SECOND as Answer, value % SECOND as Answer / 1000].map(Answer::to_ne_bytes);
            write_option(time.as_flattened(), out, len)
        }
        (_, false) => write_option(&(value as u32).to_ne_bytes(), out, len),
    }
}

/// Writes the value of an option, cut to the room that there is.
fn write_option(value: &[u8], out: u64, len: u64) -> Answer {
    // SAFETY: the caller's `socklen_t`, and its buffer of as many bytes.
    unsafe {
        let room = (len as *const u32).read_unaligned().min(value.len() as u32);
        (out as *mut u8).copy_from_nonoverlapping(value.as_ptr(), room as usize);
        (len as *mut u32).write_unaligned(room);
    }
    0
}
