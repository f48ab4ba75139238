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

pub(crate) use connect::{Connection, connect, connection, found, found_of, ready_now};
use options::Kept;
pub(crate) use options::{getsockopt, setsockopt};
pub(crate) use transfer::{
    buffers, how_much, readable, receive, receive_list, recvfrom, recvmmsg, recvmsg, send, send_list, sendmmsg,
    sendmsg, sendto,
};

use crate::descriptors::{self, Kind};
use crate::errno::{
    Answer, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EINVAL, ENOTCONN, ENOTSOCK, EOPNOTSUPP, EPROTONOSUPPORT,
};
use crate::lock::Lock;
use crate::lookup::{AF_INET, AF_INET6};
use crate::refuse::{Missing, refuse};
use crate::shared::Shared;
use crate::{epoll, host};
use address::{any, read_address, write_address};
use alloc::sync::Arc;
use monohull_abi::network::{SocketAddress, SocketEnd, SocketOption, SocketShutdown};
use monohull_abi::number;

const AF_UNIX: i32 = 1;
const STREAM: u64 = 1;
const DATAGRAM: u64 = 2;
const SOCK_NONBLOCK: u64 = 0o4000;
const NEVER: u64 = u64::MAX;

/// One socket of the program's. A thread that uses it keeps it open meanwhile, as on Linux.
pub(crate) struct Socket {
    /// Its place in [`SOCKETS`], while a descriptor stands for it.
    at: usize,
    stream: bool,
    version: u32,
    state: Lock<State>,
}

/// What changes of a socket.
#[derive(Clone, Copy)]
struct State {
    listening: bool,
    /// It listens because its port was asked for, and the program has not called `listen`.
    listens_early: bool,
    non_blocking: bool,
    address: Option<SocketAddress>,
    /// Its number in hostcalls, once it has one.
    open: Option<u64>,
    connection: Connection,
    /// Options that were set before that: the option's number and its value.
    options: [Option<u64>; OPTIONS],
    /// Options that change nothing, and how long a silent connection is left alone.
    kept: Kept,
}

/// One more than the largest number of an option that can be set.
const OPTIONS: usize = SocketOption::Broadcast as usize + 1;

static SOCKETS: Shared<Socket> = Shared::new();

impl State {
    fn new(non_blocking: bool) -> State {
        let mut options = [None; OPTIONS];
        if non_blocking {
            options[SocketOption::NonBlocking as usize] = Some(1);
        }
        State {
            listening: false,
            listens_early: false,
            non_blocking,
            address: None,
            open: None,
            connection: Connection::Settled,
            options,
            kept: Kept::default(),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(open) = self.now().open {
            host::call(number::SOCKET_CLOSE, [open]);
        }
    }
}

impl Socket {
    /// Its state, as it is now.
    fn now(&self) -> State {
        *self.state.hold()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.hold());
    }

    /// It has got its number: what was set before is set now.
    fn opened(&self, answer: Answer) -> Answer {
        if answer < 0 {
            return answer;
        }
        let open = answer as u64;
        let mut state = self.state.hold();
        state.open = Some(open);
        let options = state.options;
        drop(state);
        for (option, value) in options.iter().enumerate() {
            if let Some(value) = value {
                host::call(number::SOCKET_SET_OPTION, [open, option as u64, *value]);
            }
        }
        epoll::opened(self.at);
        0
    }

    fn set(&self, option: SocketOption, value: u64) -> Answer {
        let mut state = self.state.hold();
        state.options[option as usize] = Some(value);
        let open = state.open;
        drop(state);
        open.map_or(0, |open| host::call(number::SOCKET_SET_OPTION, [open, option as u64, value]))
    }

    /// Does something with its number; datagram sockets get one if they have none. Why a stream could not be connected
    /// is the answer once.
    fn with(&self, act: impl FnOnce(u64) -> Answer) -> Answer {
        let answer = if self.stream { connect::take_failure(self) } else { self.open_datagram() };
        if answer < 0 {
            return answer;
        }
        self.number().map_or(ENOTCONN, act)
    }

    /// Gives a datagram socket its number, at its address or at any.
    fn open_datagram(&self) -> Answer {
        /// One thread does so at a time: a socket has one number.
        static OPENING: Lock<()> = Lock::new(());
        if self.number().is_some() {
            return 0;
        }
        let _opening = OPENING.hold();
        let state = self.now();
        if state.open.is_some() {
            return 0;
        }
        let address = state.address.unwrap_or_else(|| any(self.version));
        self.opened(host::call(number::UDP_BIND, [(&raw const address) as u64]))
    }

    fn begin_to_listen(&self, address: &SocketAddress, backlog: u64) -> Answer {
        self.change(|state| state.listening = true);
        let answer = self.opened(host::call(number::TCP_LISTEN, [(&raw const *address) as u64, backlog]));
        if answer < 0 {
            self.change(|state| state.listening = false);
        }
        answer
    }

    /// Gives a stream that was bound to any port its port, because the program asks which: servers do so between `bind` and `listen`. There
    /// is no hostcall that binds alone, so the socket listens already. If it may not, it has no port yet.
    fn choose_port(&self) {
        const BACKLOG: u64 = 128;
        if self.stream
            && let State { open: None, address: Some(address @ SocketAddress { port: 0, .. }), .. } = self.now()
            && self.begin_to_listen(&address, BACKLOG) == 0
        {
            self.change(|state| state.listens_early = true);
        }
    }

    /// The program connects a socket that listens only because its port was asked for: it listens no longer.
    fn end_listening_early(&self) {
        let mut ended = None;
        self.change(|state| {
            if state.listens_early {
                (state.listens_early, state.listening) = (false, false);
                ended = state.open.take();
            }
        });
        ended.map(|open| host::call(number::SOCKET_CLOSE, [open]));
    }

    /// Its number in hostcalls, once it has one.
    pub(crate) fn number(&self) -> Option<u64> {
        self.state.hold().open
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.stream
    }
}

fn add(stream: bool, version: u32, state: State, flags: u64) -> Answer {
    let at = SOCKETS.add_with(|at| Socket { at, stream, version, state: Lock::new(state) });
    descriptors::table::add_from(0, Kind::Socket(at), flags, || release(at))
}

/// The socket at a place; `EBADF` if another thread has closed it meanwhile.
pub(crate) fn get(at: usize) -> Result<Arc<Socket>, Answer> {
    SOCKETS.get(at)
}

/// The socket behind a descriptor.
fn of(descriptor: u64) -> Result<Arc<Socket>, Answer> {
    match descriptors::get(descriptor)? {
        Kind::Socket(at) => get(at),
        _ => Err(ENOTSOCK),
    }
}

/// Another descriptor stands for it.
pub(crate) fn retain(at: usize) -> Result<(), Answer> {
    SOCKETS.retain(at)
}

/// One descriptor less: the last one closes it, as soon as no call uses it any more.
pub(crate) fn release(at: usize) -> Answer {
    drop(SOCKETS.release_after(at, |socket| epoll::forget_socket(at, socket.number())));
    0
}

/// Its number in hostcalls, once it has one.
pub(crate) fn number(at: usize) -> Option<u64> {
    get(at).ok()?.number()
}

pub(crate) fn is_non_blocking(at: usize) -> bool {
    get(at).is_ok_and(|socket| socket.now().non_blocking)
}

pub(crate) fn set_non_blocking(at: usize, on: bool) -> Answer {
    let socket = match get(at) {
        Ok(socket) => socket,
        Err(error) => return error,
    };
    socket.change(|state| state.non_blocking = on);
    socket.set(SocketOption::NonBlocking, on.into())
}

/// `socket(family, kind, protocol)`.
pub(crate) fn socket([family, kind, ..]: [u64; 6]) -> Answer {
    let version = match family as i32 {
        AF_INET => 4,
        AF_INET6 => 6,
        AF_UNIX => return refuse(Missing::UnixSocket, EAFNOSUPPORT),
        _ => return EAFNOSUPPORT,
    };
    let stream = match kind & 0xff {
        STREAM => true,
        DATAGRAM => false,
        _ => return EPROTONOSUPPORT,
    };
    add(stream, version, State::new(kind & SOCK_NONBLOCK != 0), kind)
}

/// `bind(socket, address, length)`.
pub(crate) fn bind([descriptor, address, len, ..]: [u64; 6]) -> Answer {
    let (socket, address) = match (of(descriptor), read_address(address, len)) {
        (Ok(socket), Ok(address)) => (socket, address),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    let state = socket.now();
    if state.open.is_some() || state.address.is_some() {
        return EINVAL;
    }
    socket.change(|state| state.address = Some(address));
    let answer = if socket.stream { in_use(&address) } else { socket.open_datagram() };
    if answer < 0 {
        socket.change(|state| state.address = None);
    }
    answer
}

/// Why a stream cannot have a port, if another socket listens there. No hostcall binds alone: a socket listens for as long as it takes to know.
fn in_use(address: &SocketAddress) -> Answer {
    if address.port == 0 {
        return 0;
    }
    match host::call(number::TCP_LISTEN, [(&raw const *address) as u64, 1]) {
        error @ (EADDRINUSE | EADDRNOTAVAIL) => error,
        // It may connect, even if it may not listen.
        ..0 => 0,
        listener => host::call(number::SOCKET_CLOSE, [listener as u64]),
    }
}

/// `listen(socket, backlog)`.
pub(crate) fn listen([descriptor, backlog, ..]: [u64; 6]) -> Answer {
    let socket = match of(descriptor) {
        Ok(socket) => socket,
        Err(error) => return error,
    };
    if !socket.stream {
        return EOPNOTSUPP;
    }
    let state = socket.now();
    if state.open.is_some() {
        socket.change(|state| state.listens_early = false);
        return if state.listening { 0 } else { EINVAL };
    }
    let address = state.address.unwrap_or_else(|| any(socket.version));
    socket.begin_to_listen(&address, u64::from((backlog as i32).max(1).unsigned_abs()))
}

/// `accept(socket, address out, length)`.
pub(crate) fn accept([descriptor, out, len, ..]: [u64; 6]) -> Answer {
    accept4([descriptor, out, len, 0, 0, 0])
}

/// `accept4(socket, address out, length, flags)`.
pub(crate) fn accept4([descriptor, out, len, flags, ..]: [u64; 6]) -> Answer {
    let socket = match of(descriptor) {
        Ok(socket) => socket,
        Err(error) => return error,
    };
    let state = socket.now();
    let Some(listener) = state.open.filter(|_| state.listening && !state.listens_early) else {
        return if socket.stream { EINVAL } else { EOPNOTSUPP };
    };
    let mut peer = SocketAddress::default();
    let accepted = host::call(number::TCP_ACCEPT, [listener, (&raw mut peer) as u64]);
    if accepted < 0 {
        return accepted;
    }
    write_address(&peer, out, len);
    let non_blocking = flags & SOCK_NONBLOCK != 0;
    if non_blocking {
        host::call(number::SOCKET_SET_OPTION, [accepted as u64, SocketOption::NonBlocking as u64, 1]);
    }
    add(true, socket.version, State { open: Some(accepted as u64), ..State::new(non_blocking) }, flags)
}

/// `shutdown(socket, how)`.
pub(crate) fn shutdown([descriptor, how, ..]: [u64; 6]) -> Answer {
    if let Some(pair) = pair::of(descriptor) {
        return pair.shutdown(how);
    }
    match of(descriptor) {
        Ok(_) if SocketShutdown::from_raw(how).is_none() => EINVAL,
        Ok(socket) => socket.number().map_or(ENOTCONN, |open| host::call(number::SOCKET_SHUTDOWN, [open, how])),
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
    let socket = match of(descriptor) {
        Ok(socket) => socket,
        Err(error) => return error,
    };
    if end == SocketEnd::Local {
        socket.choose_port();
    }
    let (connection, state) = (connection(&socket), socket.now());
    if end == SocketEnd::Peer && matches!(connection, Connection::Started | Connection::Failed(_)) {
        return ENOTCONN;
    }
    let mut address = state.address.unwrap_or_else(|| any(socket.version));
    let answer = match (state.open, end) {
        (Some(open), _) => host::call(number::SOCKET_GETNAME, [open, end as u64, (&raw mut address) as u64]),
        (None, SocketEnd::Local) => 0,
        (None, SocketEnd::Peer) => ENOTCONN,
    };
    if answer >= 0 {
        write_address(&address, out, len);
    }
    answer.min(0)
}
