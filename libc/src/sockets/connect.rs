//! `connect`, waiting or not.
//!
//! A hostcall makes the connection of a non-blocking stream without waiting (`CONNECT_LATER`). Its result is looked up when
//! the program asks for it:
//!
//! ```text
//!   Settled ── connect ─▶ Started ── the socket is writable ─▶ Made ──── connect ─▶ Settled (connected)
//!      ▲                     │                              └▶ Failed ── connect ─┐
//!      │                     └─ connect: EALREADY                                 │
//!      └──────────────────────────────────────────────────────────────────────────┘
//! ```

use super::address::read_address;
use super::{NEVER, Socket, of};
use crate::errno::{Answer, EALREADY, ECONNABORTED, EINPROGRESS, EISCONN, EOPNOTSUPP};
use crate::host;
use crate::local::found;
use crate::lock::Lock;
use crate::queue::Queue;
use monohull_abi::network::{CONNECT_LATER, QueueEvent, SocketOption, ready};
use monohull_abi::number;

/// How far a connection is that is made without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Connection {
    /// None is being made.
    Settled,
    /// It is being made.
    Started,
    /// It is there, and no further `connect` has returned that.
    Made,
    /// It could not be made, for this reason; 0 once the reason has been returned.
    Failed(Answer),
}

/// `connect(socket, address, length)`: a non-blocking stream does not wait.
pub(crate) fn connect([descriptor, address, len, ..]: [u64; 6]) -> Answer {
    let (socket, address) = match (of(descriptor), read_address(address, len)) {
        (Ok(socket), Ok(address)) => (socket, address),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    socket.end_listening_early();
    let to = (&raw const address) as u64;
    if !socket.stream {
        return match (socket.open_datagram(), socket.number()) {
            (0, Some(open)) => host::call(number::UDP_CONNECT, [open, to]),
            (error, _) => error,
        };
    }
    let state = socket.now();
    if state.listening {
        return EOPNOTSUPP;
    }
    match connection(&socket) {
        Connection::Started => EALREADY,
        Connection::Made => {
            socket.change(|state| state.connection = Connection::Settled);
            0
        }
        Connection::Failed(error) => {
            // As on Linux, this call returns the reason, and the next one connects anew.
            let mut failed = None;
            socket.change(|state| {
                failed = state.open.take();
                state.connection = Connection::Settled;
            });
            failed.map(|open| host::call(number::SOCKET_CLOSE, [open]));
            if error == 0 { ECONNABORTED } else { error }
        }
        Connection::Settled if state.open.is_some() => EISCONN,
        Connection::Settled if state.non_blocking => {
            match socket.opened(host::call(number::TCP_CONNECT, [to, NEVER, CONNECT_LATER])) {
                0 => {
                    socket.change(|state| state.connection = Connection::Started);
                    EINPROGRESS
                }
                error => error,
            }
        }
        Connection::Settled => socket.opened(host::call(number::TCP_CONNECT, [to, NEVER])),
    }
}

/// How far a socket's connection is now.
pub(crate) fn connection(socket: &Socket) -> Connection {
    let state = socket.now();
    let (Connection::Started, Some(open)) = (state.connection, state.open) else { return state.connection };
    match ready_now(open, ready::WRITE) {
        Some(0) => Connection::Started,
        Some(_) => made(socket, Connection::Made),
        // No queue is left that would know. A socket has an error only once its connection has failed.
        None => made(socket, Connection::Started),
    }
}

/// What `poll` and `epoll` find of a socket of which a queue reports this.
pub(crate) fn found(at: usize, is_ready: u32) -> u32 {
    super::get(at).map_or(0, |socket| found_of(&socket, is_ready))
}

pub(crate) fn found_of(socket: &Socket, is_ready: u32) -> u32 {
    let read = if is_ready & ready::READ != 0 { found::IN } else { 0 };
    let write = if is_ready & ready::WRITE != 0 { found::OUT } else { 0 };
    if socket.number().is_none() {
        return 0;
    }
    match made(socket, Connection::Made) {
        Connection::Failed(error) => read | write | found::HANG_UP | if error < 0 { found::ERROR } else { 0 },
        _ => read | write,
    }
}

/// How far a socket's connection is: it has failed, or it is as far as is known `otherwise`.
fn made(socket: &Socket, otherwise: Connection) -> Connection {
    /// One thread looks at a time: the socket's error is returned once.
    static LOOKING: Lock<()> = Lock::new(());
    let _looking = LOOKING.hold();
    let state = socket.now();
    let (Connection::Started, Some(open)) = (state.connection, state.open) else { return state.connection };
    let found = match host::call(number::SOCKET_GET_OPTION, [open, SocketOption::Error as u64]) {
        0 => otherwise,
        error @ ..0 => Connection::Failed(error),
        error => Connection::Failed(-error),
    };
    socket.change(|state| state.connection = found);
    found
}

/// Which of these events are there now; `None` if that is unknown: only a queue can show it, and all are in use.
pub(crate) fn ready_now(open: u64, events: u32) -> Option<u32> {
    let queue = Queue::new().ok()?;
    let mut event = [QueueEvent::default()];
    if queue.set(open, events, 0) < 0 {
        return None;
    }
    match queue.wait(&mut event, 0) {
        ..0 => None,
        0 => Some(0),
        _ => Some(event[0].ready & events),
    }
}

/// Why the connection could not be made, as a negative number; 0 if there is no reason, or it has been returned before.
pub(super) fn take_failure(socket: &Socket) -> Answer {
    let Connection::Failed(error) = connection(socket) else { return 0 };
    socket.change(|state| state.connection = Connection::Failed(0));
    error
}
