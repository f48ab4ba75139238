//! Connections.

use super::options::{any_socket, kept_alive, socket_with_peer};
use super::{Shutdown, SocketAddr, ToSocketAddrs, each_address};
use crate::fmt;
use crate::io::{Error, ErrorKind, Read, Result, Write};
use crate::sys::socket::Socket;
use crate::time::Duration;
use core::iter::FusedIterator;
use monohull_abi::network::{SocketOption, SocketShutdown};

/// Connections that wait to be accepted, as std chooses it.
const BACKLOG: u64 = 128;

/// One end of a connection.
pub struct TcpStream(Socket);

/// A socket that others connect to.
pub struct TcpListener(Socket);

any_socket!(TcpStream);
socket_with_peer!(TcpStream);
any_socket!(TcpListener);
kept_alive!(TcpStream);
kept_alive!(TcpListener);

impl TcpStream {
    /// Connects to the first of these addresses that answers.
    pub fn connect<A: ToSocketAddrs>(address: A) -> Result<TcpStream> {
        each_address(address, |address| Socket::connect(address, None).map(TcpStream))
    }

    /// Connects, within a time.
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> Result<TcpStream> {
        if timeout == Duration::ZERO {
            return Err(Error::new(ErrorKind::InvalidInput, "cannot set a 0 duration timeout"));
        }
        Socket::connect(address, Some(timeout)).map(TcpStream)
    }

    /// Ends a half of the connection, or both.
    pub fn shutdown(&self, how: Shutdown) -> Result<()> {
        self.0.shutdown(match how {
            Shutdown::Read => SocketShutdown::Read,
            Shutdown::Write => SocketShutdown::Write,
            Shutdown::Both => SocketShutdown::Both,
        })
    }

    /// Whether small writes are sent at once.
    pub fn set_nodelay(&self, nodelay: bool) -> Result<()> {
        self.0.set(SocketOption::NoDelay, nodelay.into())
    }

    /// See [`TcpStream::set_nodelay`].
    pub fn nodelay(&self) -> Result<bool> {
        Ok(self.0.get(SocketOption::NoDelay)? != 0)
    }
}

impl Read for &TcpStream {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf, false)
    }
}

impl Write for &TcpStream {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        self.0.write(buf)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for TcpStream {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        (&*self).write(buf)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TcpStream");
        if let Ok(address) = self.local_addr() {
            shown.field("addr", &address);
        }
        if let Ok(address) = self.peer_addr() {
            shown.field("peer", &address);
        }
        shown.field("fd", &self.0.number()).finish()
    }
}

impl TcpListener {
    /// Listens on the first of these addresses that can be had.
    pub fn bind<A: ToSocketAddrs>(address: A) -> Result<TcpListener> {
        each_address(address, |address| Socket::listen(address, BACKLOG).map(TcpListener))
    }

    /// Waits for a connection.
    pub fn accept(&self) -> Result<(TcpStream, SocketAddr)> {
        self.0.accept().map(|(socket, peer)| (TcpStream(socket), peer))
    }

    /// All connections, one after the other; it never ends.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// The same, with the listener in it.
    pub fn into_incoming(self) -> IntoIncoming {
        IntoIncoming { listener: self }
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TcpListener");
        if let Ok(address) = self.local_addr() {
            shown.field("addr", &address);
        }
        shown.field("fd", &self.0.number()).finish()
    }
}

/// What [`TcpListener::incoming`] gives.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = Result<TcpStream>;
    fn next(&mut self) -> Option<Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}

/// What [`TcpListener::into_incoming`] gives.
#[derive(Debug)]
pub struct IntoIncoming {
    listener: TcpListener,
}

impl Iterator for IntoIncoming {
    type Item = Result<TcpStream>;
    fn next(&mut self) -> Option<Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for IntoIncoming {}
