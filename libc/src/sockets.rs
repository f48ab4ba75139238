//! Sockets over `TCP_*`, `UDP_*` and `SOCKET_*`.
//!
//! Linux makes a socket, binds it, and lets it listen or connect; a hostcall makes one that listens or is connected. So
//! what is said to a socket before that is kept here:
//!
//! ```text
//!   socket ─▶ New ── bind ─▶ its address kept ── listen ─▶ TCP_LISTEN ─▶ Open
//!              ├──── connect (stream) ───────────────────▶ TCP_CONNECT ─▶ Open
//!              └──── bind, connect, send (datagram) ─────▶ UDP_BIND ────▶ Open
//! ```

mod connect;
mod pair;

pub(crate) use connect::{Connection, connect, connection, found, ready_now};

use crate::descriptors::{self, Kind};
use crate::errno::{
    Answer, EAFNOSUPPORT, EBADF, EFAULT, EINVAL, ENOPROTOOPT, ENOTCONN, ENOTSOCK, EOPNOTSUPP, EPROTONOSUPPORT,
};
use crate::lock::Lock;
use crate::lookup::{AF_INET, AF_INET6};
use crate::{epoll, host};
use alloc::vec::Vec;
use monohull_abi::file::IoVec;
use monohull_abi::network::{PEEK, SocketAddress, SocketEnd, SocketOption, SocketShutdown};
use monohull_abi::number;

const STREAM: u64 = 1;
const DATAGRAM: u64 = 2;
const SOCK_NONBLOCK: u64 = 0o4000;
const MSG_PEEK: u64 = 2;
const MSG_DONTWAIT: u64 = 0x40;
const NEVER: u64 = u64::MAX;

/// One socket of the program's.
#[derive(Clone, Copy)]
struct Socket {
    /// How many descriptors stand for it.
    descriptors: u32,
    stream: bool,
    listening: bool,
    version: u32,
    non_blocking: bool,
    address: Option<SocketAddress>,
    /// Its number in hostcalls, once it has one.
    open: Option<u64>,
    connection: Connection,
    /// Options that were set before that: the option's number and its value.
    options: [Option<u64>; OPTIONS],
}

/// One more than the largest number of an option that can be set.
const OPTIONS: usize = SocketOption::Broadcast as usize + 1;

static SOCKETS: Lock<Vec<Option<Socket>>> = Lock::new(Vec::new());

fn add(socket: Socket) -> Answer {
    let mut sockets = SOCKETS.hold();
    let at = sockets.iter().position(Option::is_none).unwrap_or(sockets.len());
    if at == sockets.len() {
        sockets.push(None);
    }
    sockets[at] = Some(socket);
    drop(sockets);
    descriptors::add(Kind::Socket(at))
}

/// A copy of a socket's record.
fn get(at: usize) -> Socket {
    SOCKETS.hold()[at].expect("a descriptor keeps its socket")
}

fn change(at: usize, change: impl FnOnce(&mut Socket)) {
    change(SOCKETS.hold()[at].as_mut().expect("a descriptor keeps its socket"));
}

/// The socket behind a descriptor.
fn of(descriptor: u64) -> Result<usize, Answer> {
    match descriptors::get(descriptor)? {
        Kind::Socket(at) => Ok(at),
        _ => Err(ENOTSOCK),
    }
}

/// Another descriptor stands for it.
pub(crate) fn retain(at: usize) {
    change(at, |socket| socket.descriptors += 1);
}

/// One descriptor less: the last one closes it.
pub(crate) fn release(at: usize) -> Answer {
    let mut sockets = SOCKETS.hold();
    let Some(socket) = &mut sockets[at] else { return EBADF };
    socket.descriptors -= 1;
    if socket.descriptors > 0 {
        return 0;
    }
    let open = socket.open;
    drop(sockets);
    // Its place is taken by no other before it is forgotten.
    epoll::forget_socket(at);
    SOCKETS.hold()[at] = None;
    open.map_or(0, |open| host::call(number::SOCKET_CLOSE, [open]))
}

/// A socket has got its number: what was set before is set now.
fn opened(at: usize, answer: Answer) -> Answer {
    if answer < 0 {
        return answer;
    }
    let open = answer as u64;
    change(at, |socket| socket.open = Some(open));
    for (option, value) in get(at).options.iter().enumerate() {
        if let Some(value) = value {
            host::call(number::SOCKET_SET_OPTION, [open, option as u64, *value]);
        }
    }
    epoll::opened(at);
    0
}

fn set(at: usize, option: SocketOption, value: u64) -> Answer {
    change(at, |socket| socket.options[option as usize] = Some(value));
    match get(at).open {
        Some(open) => host::call(number::SOCKET_SET_OPTION, [open, option as u64, value]),
        None => 0,
    }
}

/// Its number in hostcalls, once it has one.
pub(crate) fn number(at: usize) -> Option<u64> {
    SOCKETS.hold().get(at).copied().flatten().and_then(|socket| socket.open)
}

pub(crate) fn is_stream(at: usize) -> bool {
    get(at).stream
}

pub(crate) fn is_non_blocking(at: usize) -> bool {
    get(at).non_blocking
}

pub(crate) fn set_non_blocking(at: usize, on: bool) -> Answer {
    change(at, |socket| socket.non_blocking = on);
    set(at, SocketOption::NonBlocking, on.into())
}

/// `socket(family, kind, protocol)`.
pub(crate) fn socket([family, kind, ..]: [u64; 6]) -> Answer {
    let version = match family as i32 {
        AF_INET => 4,
        AF_INET6 => 6,
        _ => return EAFNOSUPPORT,
    };
    let stream = match kind & 0xff {
        STREAM => true,
        DATAGRAM => false,
        _ => return EPROTONOSUPPORT,
    };
    let non_blocking = kind & SOCK_NONBLOCK != 0;
    let mut options = [None; OPTIONS];
    if non_blocking {
        options[SocketOption::NonBlocking as usize] = Some(1);
    }
    let (listening, connection) = (false, Connection::Settled);
    add(Socket {
        descriptors: 1,
        stream,
        listening,
        version,
        non_blocking,
        address: None,
        open: None,
        connection,
        options,
    })
}

/// A `struct sockaddr` of the program's.
fn read_address(at: u64, len: u64) -> Result<SocketAddress, Answer> {
    if at == 0 {
        return Err(EFAULT);
    }
    if len < 2 {
        return Err(EINVAL);
    }
    // SAFETY: the caller's address of `len` bytes, which are enough for what is read: see the two arms.
    unsafe {
        let bytes = at as *const u8;
        let port = || u32::from(u16::from_be_bytes([*bytes.add(2), *bytes.add(3)]));
        let mut address = SocketAddress::default();
        match i32::from(bytes.cast::<u16>().read_unaligned()) {
            AF_INET if len >= 16 => {
                (address.family, address.port) = (4, port());
                address.address[..4].copy_from_slice(core::slice::from_raw_parts(bytes.add(4), 4));
                Ok(address)
            }
            AF_INET6 if len >= 28 => {
                (address.family, address.port) = (6, port());
                address.flow = bytes.add(4).cast::<u32>().read_unaligned();
                address.address.copy_from_slice(core::slice::from_raw_parts(bytes.add(8), 16));
                address.scope = bytes.add(24).cast::<u32>().read_unaligned();
                Ok(address)
            }
            AF_INET | AF_INET6 => Err(EINVAL),
            _ => Err(EAFNOSUPPORT),
        }
    }
}

/// Writes an address as a `struct sockaddr`, cut to the room that there is.
fn write_address(address: &SocketAddress, out: u64, len: u64) {
    if out == 0 || len == 0 {
        return;
    }
    let mut bytes = [0_u8; 28];
    bytes[2..4].copy_from_slice(&(address.port as u16).to_be_bytes());
    let whole = if address.family == 4 {
        bytes[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
        bytes[4..8].copy_from_slice(&address.address[..4]);
        16
    } else {
        bytes[..2].copy_from_slice(&(AF_INET6 as u16).to_ne_bytes());
        bytes[4..8].copy_from_slice(&address.flow.to_ne_bytes());
        bytes[8..24].copy_from_slice(&address.address);
        bytes[24..].copy_from_slice(&address.scope.to_ne_bytes());
        28
    };
    // SAFETY: the caller's `socklen_t`, and its buffer of as many bytes.
    unsafe {
        let room = (len as *const u32).read_unaligned().min(whole);
        (out as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), room as usize);
        (len as *mut u32).write_unaligned(whole);
    }
}

fn any(version: u32) -> SocketAddress {
    SocketAddress { family: version, ..SocketAddress::default() }
}

/// Gives a datagram socket its number, at its address or at any.
fn open_datagram(at: usize) -> Answer {
    let socket = get(at);
    if socket.open.is_some() {
        return 0;
    }
    let address = socket.address.unwrap_or_else(|| any(socket.version));
    opened(at, host::call(number::UDP_BIND, [(&raw const address) as u64]))
}

/// `bind(socket, address, length)`.
pub(crate) fn bind([descriptor, address, len, ..]: [u64; 6]) -> Answer {
    let (at, address) = match (of(descriptor), read_address(address, len)) {
        (Ok(at), Ok(address)) => (at, address),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    if get(at).open.is_some() || get(at).address.is_some() {
        return EINVAL;
    }
    change(at, |socket| socket.address = Some(address));
    let answer = if get(at).stream { 0 } else { open_datagram(at) };
    if answer < 0 {
        change(at, |socket| socket.address = None);
    }
    answer
}

/// `listen(socket, backlog)`.
pub(crate) fn listen([descriptor, backlog, ..]: [u64; 6]) -> Answer {
    let at = match of(descriptor) {
        Ok(at) => at,
        Err(error) => return error,
    };
    let socket = get(at);
    if !socket.stream {
        return EOPNOTSUPP;
    }
    if socket.open.is_some() {
        return if socket.listening { 0 } else { EINVAL };
    }
    let address = socket.address.unwrap_or_else(|| any(socket.version));
    let backlog = u64::from((backlog as i32).max(1).unsigned_abs());
    change(at, |socket| socket.listening = true);
    let answer = opened(at, host::call(number::TCP_LISTEN, [(&raw const address) as u64, backlog]));
    if answer < 0 {
        change(at, |socket| socket.listening = false);
    }
    answer
}

/// `accept(socket, address out, length)`.
pub(crate) fn accept([descriptor, out, len, ..]: [u64; 6]) -> Answer {
    accept4([descriptor, out, len, 0, 0, 0])
}

/// `accept4(socket, address out, length, flags)`.
pub(crate) fn accept4([descriptor, out, len, flags, ..]: [u64; 6]) -> Answer {
    let socket = match of(descriptor) {
        Ok(at) => get(at),
        Err(error) => return error,
    };
    let Some(listener) = socket.open.filter(|_| socket.listening) else {
        return if socket.stream { EINVAL } else { EOPNOTSUPP };
    };
    let mut peer = SocketAddress::default();
    let accepted = host::call(number::TCP_ACCEPT, [listener, (&raw mut peer) as u64]);
    if accepted < 0 {
        return accepted;
    }
    write_address(&peer, out, len);
    let non_blocking = flags & SOCK_NONBLOCK != 0;
    let options = [None; OPTIONS];
    let open = Some(accepted as u64);
    if non_blocking {
        host::call(number::SOCKET_SET_OPTION, [accepted as u64, SocketOption::NonBlocking as u64, 1]);
    }
    add(Socket { descriptors: 1, listening: false, non_blocking, address: None, open, options, ..socket })
}

/// Does something with a socket's number; datagram sockets get one if they have none. Why a stream could not be connected
/// is the answer once.
fn with(at: usize, act: impl FnOnce(u64) -> Answer) -> Answer {
    let answer = if get(at).stream { connect::take_failure(at) } else { open_datagram(at) };
    if answer < 0 {
        return answer;
    }
    get(at).open.map_or(ENOTCONN, act)
}

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

/// `shutdown(socket, how)`.
pub(crate) fn shutdown([descriptor, how, ..]: [u64; 6]) -> Answer {
    if let Some(pair) = pair::of(descriptor) {
        return pair.shutdown(how);
    }
    match of(descriptor) {
        Ok(_) if SocketShutdown::from_raw(how).is_none() => EINVAL,
        Ok(at) => get(at).open.map_or(ENOTCONN, |open| host::call(number::SOCKET_SHUTDOWN, [open, how])),
        Err(error) => error,
    }
}

/// `getsockname(socket, address out, length)`.
pub(crate) fn getsockname([descriptor, out, len, ..]: [u64; 6]) -> Answer {
    name(descriptor, SocketEnd::Local, out, len)
}

/// `getpeername(socket, address out, length)`.
pub(crate) fn getpeername([descriptor, out, len, ..]: [u64; 6]) -> Answer {
    name(descriptor, SocketEnd::Peer, out, len)
}

fn name(descriptor: u64, end: SocketEnd, out: u64, len: u64) -> Answer {
    if pair::of(descriptor).is_some() {
        return pair::name(out, len);
    }
    let (socket, connection) = match of(descriptor) {
        Ok(at) => (get(at), connection(at)),
        Err(error) => return error,
    };
    if end == SocketEnd::Peer && matches!(connection, Connection::Started | Connection::Failed(_)) {
        return ENOTCONN;
    }
    let mut address = socket.address.unwrap_or_else(|| any(socket.version));
    let answer = match (socket.open, end) {
        (Some(open), _) => host::call(number::SOCKET_GETNAME, [open, end as u64, (&raw mut address) as u64]),
        (None, SocketEnd::Local) => 0,
        (None, SocketEnd::Peer) => ENOTCONN,
    };
    if answer >= 0 {
        write_address(&address, out, len);
    }
    answer.min(0)
}

const SOL_SOCKET: u64 = 1;
const IPPROTO_IP: u64 = 0;
const IPPROTO_TCP: u64 = 6;
const IPPROTO_IPV6: u64 = 41;
const SO_REUSEADDR: u64 = 2;
const SO_TYPE: u64 = 3;
const SO_ERROR: u64 = 4;
const SO_BROADCAST: u64 = 6;
const SO_SNDBUF: u64 = 7;
const SO_RCVBUF: u64 = 8;
const SO_KEEPALIVE: u64 = 9;
const SO_LINGER: u64 = 13;
const SO_REUSEPORT: u64 = 15;
const SO_RCVTIMEO: u64 = 20;
const SO_SNDTIMEO: u64 = 21;
const SO_ACCEPTCONN: u64 = 30;
const TCP_NODELAY: u64 = 1;
const IP_TTL: u64 = 2;
/// How long a silent connection is left alone before it is probed, as Linux does.
const KEEP_ALIVE: u64 = 7200 * 1_000_000_000;

/// `setsockopt(socket, level, option, value, length)`.
pub(crate) fn setsockopt([descriptor, level, option, value, len, ..]: [u64; 6]) -> Answer {
    if pair::of(descriptor).is_some() {
        return pair::set_option(level, option);
    }
    let at = match of(descriptor) {
        Ok(at) => at,
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
            set(at, if option == SO_RCVTIMEO { SocketOption::ReadTimeout } else { SocketOption::WriteTimeout }, time)
        }
        (SOL_SOCKET, SO_BROADCAST) => set(at, SocketOption::Broadcast, flag),
        (SOL_SOCKET, SO_KEEPALIVE) => set(at, SocketOption::KeepAlive, flag * KEEP_ALIVE),
        (IPPROTO_TCP, TCP_NODELAY) => set(at, SocketOption::NoDelay, flag),
        (IPPROTO_IP, IP_TTL) => set(at, SocketOption::Ttl, number.into()),
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
    let at = match of(descriptor) {
        Ok(at) => at,
        Err(error) => return error,
    };
    let socket = get(at);
    let read = |option: SocketOption| match socket.open {
        Some(open) => host::call(number::SOCKET_GET_OPTION, [open, option as u64]),
        None => socket.options.get(option as usize).copied().flatten().unwrap_or(0) as Answer,
    };
    let (value, time) = match (level, option) {
        (SOL_SOCKET, SO_RCVTIMEO) => (read(SocketOption::ReadTimeout), true),
        (SOL_SOCKET, SO_SNDTIMEO) => (read(SocketOption::WriteTimeout), true),
        (SOL_SOCKET, SO_TYPE) => (if socket.stream { STREAM } else { DATAGRAM } as Answer, false),
        (SOL_SOCKET, SO_ERROR) => {
            let error = match (connection(at), socket.open) {
                (Connection::Failed(_), _) => -connect::take_failure(at),
                (Connection::Settled | Connection::Made, Some(_)) => read(SocketOption::Error),
                (_, _) => 0,
            };
            (error, false)
        }
        (SOL_SOCKET, SO_ACCEPTCONN) => (socket.listening.into(), false),
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

/// Whether a stream or datagram socket has something to read now, without taking it; `None` of one that listens.
pub(crate) fn readable(at: usize) -> Option<bool> {
    let socket = get(at);
    if socket.listening {
        return None;
    }
    let mut byte = 0_u8;
    let answer = receive(at, (&raw mut byte) as u64, 1, MSG_PEEK | MSG_DONTWAIT);
    Some(answer != crate::errno::EAGAIN)
}
