//! Sockets of the system, as both versions of WASI use them, and waiting for several of them at once.
//!
//! What a workflow's `network` does not allow is refused by the system (`NotPermitted`); nothing is decided here.

use crate::errno::WasiError;
use crate::host::{call, now, sleep};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use monohull_abi::network::{
    BACKLOG_MAX, CONNECT_LATER, LOOKUP_MAX, QUEUE_EVENTS_MAX, QueueEvent, SocketAddress, SocketEnd, SocketOption,
    SocketShutdown, ready,
};
use monohull_abi::types::Clock;
use monohull_abi::{Errno, number};

/// What may be waited for of a socket: something to read or to accept, or the end; room to write, or a connection made or refused.
pub(crate) use monohull_abi::network::ready::{READ, WRITE};

/// A socket of the system, closed when it is dropped.
pub(crate) struct Socket(u64);

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = call(number::SOCKET_CLOSE, [self.0]);
    }
}

impl Socket {
    /// One that listens for connections.
    pub(crate) fn listen(address: SocketAddr) -> Result<Socket, WasiError> {
        Socket::listen_for(address, BACKLOG_MAX)
    }

    /// The same, where so many connections may wait to be accepted.
    pub(crate) fn listen_for(address: SocketAddr, backlog: u64) -> Result<Socket, WasiError> {
        let address = SocketAddress::from(address);
        call(number::TCP_LISTEN, [&raw const address as u64, backlog]).map(Socket)
    }

    /// One that begins to connect, and never waits. It is ready for [`WRITE`] when that has ended, and [`Self::failure`] says how.
    pub(crate) fn connect_later(to: SocketAddr) -> Result<Socket, WasiError> {
        let to = SocketAddress::from(to);
        call(number::TCP_CONNECT, [&raw const to as u64, u64::MAX, CONNECT_LATER]).map(Socket)
    }

    /// One for datagrams.
    pub(crate) fn bind(address: SocketAddr) -> Result<Socket, WasiError> {
        let address = SocketAddress::from(address);
        call(number::UDP_BIND, [&raw const address as u64]).map(Socket)
    }

    /// From here on datagrams go to this address, and come from there.
    pub(crate) fn associate(&self, with: SocketAddr) -> Result<(), WasiError> {
        let with = SocketAddress::from(with);
        call(number::UDP_CONNECT, [self.0, &raw const with as u64]).map(drop)
    }

    /// The next connection of one that listens.
    pub(crate) fn accept(&self) -> Result<Socket, WasiError> {
        call(number::TCP_ACCEPT, [self.0, 0]).map(Socket)
    }

    /// Reads what there is: how many bytes. 0 is the end. With [`PEEK`](monohull_abi::network::PEEK) in `flags` they stay.
    pub(crate) fn receive(&self, buffer: &mut [u8], flags: u64) -> Result<usize, WasiError> {
        let bytes = call(number::SOCKET_RECV, [self.0, buffer.as_mut_ptr() as u64, buffer.len() as u64, flags])?;
        Ok((bytes as usize).min(buffer.len()))
    }

    /// Writes as much as there is room for: how many bytes.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize, WasiError> {
        let sent = call(number::SOCKET_SEND, [self.0, bytes.as_ptr() as u64, bytes.len() as u64])?;
        Ok((sent as usize).min(bytes.len()))
    }

    /// One datagram: how many of its bytes fit, and its sender.
    pub(crate) fn receive_from(&self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), WasiError> {
        let mut from = SocketAddress::default();
        let [address, len] = [buffer.as_mut_ptr() as u64, buffer.len() as u64];
        let bytes = call(number::SOCKET_RECVFROM, [self.0, address, len, 0, &raw mut from as u64])?;
        Ok(((bytes as usize).min(buffer.len()), from.decode().ok_or(WasiError::IO)?))
    }

    /// Sends one datagram.
    pub(crate) fn send_to(&self, bytes: &[u8], to: SocketAddr) -> Result<(), WasiError> {
        let to = SocketAddress::from(to);
        let args = [self.0, bytes.as_ptr() as u64, bytes.len() as u64, &raw const to as u64];
        call(number::SOCKET_SENDTO, args).map(drop)
    }

    /// The address at an end.
    pub(crate) fn address(&self, end: SocketEnd) -> Result<SocketAddr, WasiError> {
        let mut address = SocketAddress::default();
        call(number::SOCKET_GETNAME, [self.0, end as u64, &raw mut address as u64])?;
        address.decode().ok_or(WasiError::IO)
    }

    pub(crate) fn option(&self, option: SocketOption) -> Result<u64, WasiError> {
        call(number::SOCKET_GET_OPTION, [self.0, option as u64])
    }

    pub(crate) fn set_option(&self, option: SocketOption, value: u64) -> Result<(), WasiError> {
        call(number::SOCKET_SET_OPTION, [self.0, option as u64, value]).map(drop)
    }

    /// What has failed since this was asked before.
    pub(crate) fn failure(&self) -> Result<(), WasiError> {
        let failed = self.option(SocketOption::Error)?;
        Errno::from_value(-(failed as i64)).map(drop).map_err(WasiError::from)
    }

    /// Ends one direction, or both.
    pub(crate) fn shut_down(&self, how: SocketShutdown) -> Result<(), WasiError> {
        call(number::SOCKET_SHUTDOWN, [self.0, how as u64]).map(drop)
    }

    /// Whether calls that would wait answer [`WasiError::AGAIN`].
    pub(crate) fn set_non_blocking(&self, is: bool) -> Result<(), WasiError> {
        self.set_option(SocketOption::NonBlocking, is.into())
    }
}

/// Whether the workflow has a network at all. What it may reach there is known when it is asked for.
pub(crate) fn are_granted() -> bool {
    // No name is asked for: with a network that is invalid.
    call(number::HOST_LOOKUP, [0; 4]) != Err(WasiError::PERM)
}

/// The addresses of a name. Waits until they are known.
pub(crate) fn lookup(name: &str) -> Result<Vec<IpAddr>, WasiError> {
    let mut room = [SocketAddress::default(); LOOKUP_MAX];
    let args = [name.as_ptr() as u64, name.len() as u64, room.as_mut_ptr() as u64, LOOKUP_MAX as u64];
    let count = call(number::HOST_LOOKUP, args)?;
    Ok(room.iter().take(count as usize).filter_map(|address| Some(address.decode()?.ip())).collect())
}

/// Waits until one of these sockets is ready for what is asked of it ([`READ`], [`WRITE`]), or until so many ns have passed. What each is
/// ready for then; a socket may be here several times.
pub(crate) fn wait(sockets: &[(&Socket, u32)], most: u64) -> Result<Vec<u32>, WasiError> {
    if sockets.is_empty() {
        sleep(most)?;
        return Ok(vec![]);
    }
    Queue::new()?.wait_for(sockets, most)
}

/// A queue of the system, closed when it is dropped.
pub(crate) struct Queue(u64);

/// What is posted: no index of a socket.
const POSTED: u64 = u64::MAX;

/// Ends the wait in the queue with this number, or the next one there.
pub(crate) fn post(queue: u64) {
    // A queue that is closed needs no word.
    let _ = call(number::QUEUE_POST, [queue, POSTED]);
}

impl Drop for Queue {
    fn drop(&mut self) {
        let _ = call(number::QUEUE_CLOSE, [self.0]);
    }
}

impl Queue {
    pub(crate) fn new() -> Result<Queue, WasiError> {
        call(number::QUEUE_NEW, []).map(Queue)
    }

    /// For [`post`].
    pub(crate) fn number(&self) -> u64 {
        self.0
    }

    /// As [`wait`], and until something is posted. A queue is used for one wait.
    pub(crate) fn wait_for(&self, sockets: &[(&Socket, u32)], most: u64) -> Result<Vec<u32>, WasiError> {
        let mut found = vec![0; sockets.len()];
        for (index, &(socket, wanted)) in sockets.iter().enumerate() {
            // A queue has each socket once, so the last of several asks for all.
            let same = sockets.iter().filter(|(other, _)| other.0 == socket.0);
            self.set(socket, same.fold(wanted, |all, (_, more)| all | more), index as u64)?;
        }
        let deadline = match most {
            0 => 0,
            u64::MAX => u64::MAX,
            most => now(Clock::Monotonic)?.saturating_add(most).min(u64::MAX - 1),
        };
        let mut events = [QueueEvent::default(); QUEUE_EVENTS_MAX];
        for event in self.wait(&mut events, deadline)? {
            let Some(&(reported, _)) = sockets.get(event.data as usize) else { continue };
            for (found, (socket, wanted)) in found.iter_mut().zip(sockets) {
                if socket.0 == reported.0 {
                    *found = event.ready & wanted;
                }
            }
        }
        Ok(found)
    }

    fn set(&self, socket: &Socket, wanted: u32, data: u64) -> Result<(), WasiError> {
        call(number::QUEUE_SET, [self.0, socket.0, (wanted & ready::ALL).into(), data]).map(drop)
    }

    fn wait<'e>(&self, events: &'e mut [QueueEvent], deadline: u64) -> Result<&'e [QueueEvent], WasiError> {
        let [address, most] = [events.as_mut_ptr() as u64, events.len() as u64];
        let count = call(number::QUEUE_WAIT, [self.0, address, most, deadline])?;
        Ok(events.get(..count as usize).unwrap_or_default())
    }
}
