//! Connections.

use super::{Shutdown, SocketAddr, ToSocketAddrs, each_address, set_timeout, take_error, timeout};
use crate::fmt;
use crate::io::{Error, ErrorKind, Read, Result, Write};
use crate::sys::socket::Socket;
use crate::time::Duration;
use core::iter::FusedIterator;
use monohull_abi::network::{SocketEnd, SocketOption, SocketShutdown};

/// Connections that wait to be accepted, as std chooses it.
const BACKLOG: u64 = 128;

/// One end of a connection.
pub struct TcpStream(Socket);

/// A socket that others connect to.
pub struct TcpListener(Socket);

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

    /// The address of the other end.
    pub fn peer_addr(&self) -> Result<SocketAddr> {
        self.0.name(SocketEnd::Peer)
    }

    /// The address of this end.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.0.name(SocketEnd::Local)
    }

    /// Ends a half of the connection, or both.
    pub fn shutdown(&self, how: Shutdown) -> Result<()> {
        self.0.shutdown(match how {
            Shutdown::Read => SocketShutdown::Read,
            Shutdown::Write => SocketShutdown::Write,
            Shutdown::Both => SocketShutdown::Both,
        })
    }

    /// The same connection once more; it closes when both are gone.
    pub fn try_clone(&self) -> Result<TcpStream> {
        self.0.duplicate().map(TcpStream)
    }

    /// Reads without taking.
    pub fn peek(&self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf, true)
    }

    /// Whether small writes leave at once.
    pub fn set_nodelay(&self, nodelay: bool) -> Result<()> {
        self.0.set(SocketOption::NoDelay, nodelay.into())
    }

    /// See [`TcpStream::set_nodelay`].
    pub fn nodelay(&self) -> Result<bool> {
        Ok(self.0.get(SocketOption::NoDelay)? != 0)
    }

    /// The longest that writing waits; then it fails as `WouldBlock`.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> Result<()> {
        set_timeout(&self.0, SocketOption::WriteTimeout, time)
    }

    /// See [`TcpStream::set_write_timeout`].
    pub fn write_timeout(&self) -> Result<Option<Duration>> {
        timeout(&self.0, SocketOption::WriteTimeout)
    }
}

/// What both kinds of sockets for TCP have.
macro_rules! common {
    ($type:ident) => {
        impl $type {
            /// How many routers a packet passes.
            pub fn set_ttl(&self, ttl: u32) -> Result<()> {
                self.0.set(SocketOption::Ttl, ttl.into())
            }

            /// See `set_ttl`.
            pub fn ttl(&self) -> Result<u32> {
                self.0.get(SocketOption::Ttl).map(|ttl| ttl as u32)
            }

            /// The error that has come up since the last time.
            pub fn take_error(&self) -> Result<Option<Error>> {
                take_error(&self.0)
            }

            /// Whether what would wait fails as `WouldBlock` instead.
            pub fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
                self.0.set(SocketOption::NonBlocking, nonblocking.into())
            }
        }
    };
}

common!(TcpStream);
common!(TcpListener);

impl TcpStream {
    /// The longest that reading waits; then it fails as `WouldBlock`.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> Result<()> {
        set_timeout(&self.0, SocketOption::ReadTimeout, time)
    }

    /// See [`TcpStream::set_read_timeout`].
    pub fn read_timeout(&self) -> Result<Option<Duration>> {
        timeout(&self.0, SocketOption::ReadTimeout)
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

    /// Its own address.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.0.name(SocketEnd::Local)
    }

    /// The same socket once more.
    pub fn try_clone(&self) -> Result<TcpListener> {
        self.0.duplicate().map(TcpListener)
    }

    /// Waits for somebody to connect.
    pub fn accept(&self) -> Result<(TcpStream, SocketAddr)> {
        self.0.accept().map(|(socket, peer)| (TcpStream(socket), peer))
    }

    /// All who connect, one after the other; it never ends.
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
