//! A connection as its two streams use it: bytes are read as they come, and written without waiting.
//!
//! A stream says how much it takes before it is written to, and the system does only when it is. So what does not fit there stays here until
//! there is room, and nothing more is taken until then.

use super::readiness::Readiness;
use crate::errno::WasiError;
use crate::host::now;
use crate::sockets::{self, READ, Socket, WRITE};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use monohull_abi::network::SocketShutdown;
use monohull_abi::types::Clock;
use monohull_std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that a connection takes when it takes any.
const ROOM: u64 = 64 << 10;
/// How long what was written may take to reach the system once the program has dropped the connection, in ns.
const LINGER: u64 = 10_000_000_000;

/// A connection, closed when its streams and its socket are dropped.
pub(super) struct Connection {
    socket: Arc<Socket>,
    /// The program has said that it reads no more.
    is_read: AtomicBool,
    output: Mutex<Output>,
}

#[derive(Default)]
struct Output {
    /// What the system has not taken yet.
    left: Vec<u8>,
    /// The program has said that it writes no more.
    is_written: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A peer that does not read loses the rest.
        let _ = self.deliver();
    }
}

impl Connection {
    /// Of a socket whose calls do not wait.
    pub(super) fn new(socket: Arc<Socket>) -> Arc<Connection> {
        Arc::new(Connection { socket, is_read: AtomicBool::new(false), output: Mutex::default() })
    }

    pub(super) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what there is: how many bytes, 0 at the end. Without any it waits, or there is no number.
    pub(super) fn read(&self, buffer: &mut [u8], waits: bool) -> Result<Option<usize>, WasiError> {
        loop {
            if self.is_read.load(Ordering::Relaxed) {
                return Ok(Some(0));
            }
            match self.socket.receive(buffer, 0) {
                Err(WasiError::AGAIN) if waits => drop(sockets::wait(&[(&self.socket, READ)], u64::MAX)?),
                Err(WasiError::AGAIN) => return Ok(None),
                received => return received.map(Some),
            }
        }
    }

    /// How many bytes can be written. Nothing once the program has ended that.
    pub(super) fn room(&self) -> Result<Option<u64>, WasiError> {
        let mut output = self.output();
        if output.is_written {
            return Ok(None);
        }
        output.send(&self.socket)?;
        Ok(Some(if output.left.is_empty() { ROOM } else { 0 }))
    }

    /// Writes all of the bytes, or keeps them: no more than there is room for. Whether the program has not ended that.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<bool, WasiError> {
        let mut output = self.output();
        if output.is_written {
            return Ok(false);
        }
        // What was kept goes first.
        output.send(&self.socket)?;
        let sent = if output.left.is_empty() { send(&self.socket, bytes)? } else { 0 };
        output.left.extend_from_slice(&bytes[sent..]);
        Ok(true)
    }

    /// Waits until the system has all that was written.
    pub(super) fn flush(&self) -> Result<(), WasiError> {
        while !self.has_room()? {
            sockets::wait(&[(&self.socket, WRITE)], u64::MAX)?;
        }
        Ok(())
    }

    /// The same, and not for ever.
    fn deliver(&self) -> Result<(), WasiError> {
        if self.has_room()? {
            return Ok(());
        }
        let end = now(Clock::Monotonic)?.saturating_add(LINGER);
        while !self.has_room()? {
            match end.saturating_sub(now(Clock::Monotonic)?) {
                0 => return Err(WasiError::TIMEDOUT),
                left => drop(sockets::wait(&[(&self.socket, WRITE)], left)?),
            }
        }
        Ok(())
    }

    fn has_room(&self) -> Result<bool, WasiError> {
        let mut output = self.output();
        output.send(&self.socket)?;
        Ok(output.left.is_empty())
    }

    /// Ends reading, writing, or both.
    pub(super) fn shut_down(&self, how: SocketShutdown) -> Result<(), WasiError> {
        if how != SocketShutdown::Write {
            self.is_read.store(true, Ordering::Relaxed);
        }
        if how != SocketShutdown::Read {
            let delivered = self.deliver();
            self.output().is_written = true;
            delivered?;
        }
        self.socket.shut_down(how)
    }
}

impl Output {
    /// Writes what was kept, as far as there is room.
    fn send(&mut self, socket: &Socket) -> Result<(), WasiError> {
        match send(socket, &self.left) {
            Ok(sent) => drop(self.left.drain(..sent)),
            Err(error) => {
                // It never reaches the peer.
                self.left.clear();
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Writes as far as there is room: how many bytes.
fn send(socket: &Socket, bytes: &[u8]) -> Result<usize, WasiError> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.send(&bytes[sent..]) {
            Ok(more) => sent += more,
            Err(WasiError::AGAIN) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Room to write. The next write says what has failed.
impl Readiness for Connection {
    fn awaits(&self) -> Option<(Arc<Socket>, u32)> {
        let has_room = self.has_room().unwrap_or(true);
        (!has_room).then(|| (Arc::clone(&self.socket), WRITE))
    }

    fn has_come(&self) -> bool {
        self.awaits().is_none()
    }
}
