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

mod address;
mod connect;
mod numbers;
mod options;
mod pair;
mod transfer;

pub(crate) use connect::{Connection, connect, connection, found, ready_now};
pub(crate) use options::{getsockopt, setsockopt};
pub(crate) use transfer::{
    buffers, readable, receive, receive_list, recvfrom, recvmsg, send, send_list, sendmsg, sendto,
};

use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EAFNOSUPPORT, EBADF, EINVAL, ENOTCONN, ENOTSOCK, EOPNOTSUPP, EPROTONOSUPPORT};
use crate::lock::Lock;
use crate::lookup::{AF_INET, AF_INET6};
use crate::{epoll, host};
use address::{any, read_address, write_address};
use alloc::vec::Vec;
use monohull_abi::network::{SocketAddress, SocketEnd, SocketOption, SocketShutdown};
use monohull_abi::number;

const STREAM: u64 = 1;
const DATAGRAM: u64 = 2;
const SOCK_NONBLOCK: u64 = 0o4000;
const NEVER: u64 = u64::MAX;

/// One socket of the program's.
#[derive(Clone, Copy)]
struct Socket {
    /// How many descriptors stand for it.
    descriptors: u32,
    stream: bool,
    listening: bool,
    /// It listens because its port was asked for, and the program has not called `listen`.
    listens_early: bool,
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
    descriptors::table::add_from(0, Kind::Socket(at), || release(at))
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
        listens_early: false,
        version,
        non_blocking,
        address: None,
        open: None,
        connection,
        options,
    })
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
        change(at, |socket| socket.listens_early = false);
        return if socket.listening { 0 } else { EINVAL };
    }
    let address = socket.address.unwrap_or_else(|| any(socket.version));
    begin_to_listen(at, &address, u64::from((backlog as i32).max(1).unsigned_abs()))
}

fn begin_to_listen(at: usize, address: &SocketAddress, backlog: u64) -> Answer {
    change(at, |socket| socket.listening = true);
    let answer = opened(at, host::call(number::TCP_LISTEN, [(&raw const *address) as u64, backlog]));
    if answer < 0 {
        change(at, |socket| socket.listening = false);
    }
    answer
}

/// Gives a stream that was bound to any port its port, because the program asks which: servers do so between `bind` and `listen`. There is no
/// hostcall that binds alone, so the socket listens already. If it may not, it has no port yet.
fn choose_port(at: usize) {
    const BACKLOG: u64 = 128;
    if let Socket { stream: true, open: None, address: Some(address @ SocketAddress { port: 0, .. }), .. } = get(at)
        && begin_to_listen(at, &address, BACKLOG) == 0
    {
        change(at, |socket| socket.listens_early = true);
    }
}

/// The program connects a socket that listens only because its port was asked for: it listens no longer.
fn end_listening_early(at: usize) {
    if get(at).listens_early {
        let open = get(at).open;
        change(at, |socket| (socket.listens_early, socket.listening, socket.open) = (false, false, None));
        open.map(|open| host::call(number::SOCKET_CLOSE, [open]));
    }
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
    let Some(listener) = socket.open.filter(|_| socket.listening && !socket.listens_early) else {
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
    let at = match of(descriptor) {
        Ok(at) => at,
        Err(error) => return error,
    };
    if end == SocketEnd::Local {
        choose_port(at);
    }
    let (socket, connection) = (get(at), connection(at));
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
