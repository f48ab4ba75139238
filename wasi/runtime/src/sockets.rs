//! Sockets of the system, as both versions of WASI use them, and waiting for several of them at once.
//!
//! What a workflow's `network` does not allow is refused by the system (`NotPermitted`); nothing is decided here.

use crate::errno::WasiError;
use crate::host::{call, now, sleep};
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use monohull_abi::network::{
    BACKLOG_MAX, QUEUE_EVENTS_MAX, QueueEvent, SocketAddress, SocketOption, SocketShutdown, ready,
};
use monohull_abi::number;
use monohull_abi::types::Clock;

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
        let address = SocketAddress::from(address);
        call(number::TCP_LISTEN, [&raw const address as u64, BACKLOG_MAX]).map(Socket)
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

    /// Ends one direction, or both.
    pub(crate) fn shut_down(&self, how: SocketShutdown) -> Result<(), WasiError> {
        call(number::SOCKET_SHUTDOWN, [self.0, how as u64]).map(drop)
    }

    /// Whether calls that would wait answer [`WasiError::AGAIN`].
    pub(crate) fn set_non_blocking(&self, is: bool) -> Result<(), WasiError> {
        call(number::SOCKET_SET_OPTION, [self.0, SocketOption::NonBlocking as u64, is.into()]).map(drop)
    }
}

/// Waits until one of these sockets is ready for what is asked of it ([`READ`], [`WRITE`]), or until so many ns have passed. What each is
/// ready for then; a socket may be here several times.
pub(crate) fn wait(sockets: &[(&Socket, u32)], most: u64) -> Result<Vec<u32>, WasiError> {
    let mut found = vec![0; sockets.len()];
    if sockets.is_empty() {
        sleep(most)?;
        return Ok(found);
    }
    let queue = Queue::new()?;
    for (index, &(socket, wanted)) in sockets.iter().enumerate() {
        // A queue has each socket once, so the last of several asks for all.
        let all = sockets.iter().filter(|(other, _)| other.0 == socket.0).fold(wanted, |all, (_, more)| all | more);
        queue.set(socket, all, index as u64)?;
    }
    let deadline = match most {
        0 => 0,
        u64::MAX => u64::MAX,
        most => now(Clock::Monotonic)?.saturating_add(most).min(u64::MAX - 1),
    };
    let mut events = [QueueEvent::default(); QUEUE_EVENTS_MAX];
    for event in queue.wait(&mut events, deadline)? {
        let Some(&(reported, _)) = sockets.get(event.data as usize) else { continue };
        for (found, (socket, wanted)) in found.iter_mut().zip(sockets) {
            if socket.0 == reported.0 {
                *found = event.ready & wanted;
            }
        }
    }
    Ok(found)
}

/// A queue of the system, closed when it is dropped.
struct Queue(u64);

impl Drop for Queue {
    fn drop(&mut self) {
        let _ = call(number::QUEUE_CLOSE, [self.0]);
    }
}

impl Queue {
    fn new() -> Result<Queue, WasiError> {
        call(number::QUEUE_NEW, []).map(Queue)
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
