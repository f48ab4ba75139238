//! Datagrams.

use super::{SocketAddr, ToSocketAddrs, each_address, set_timeout, take_error, timeout};
use crate::fmt;
use crate::io::{Error, ErrorKind, Result};
use crate::sys::socket::Socket;
use crate::time::Duration;
use monohull_abi::network::{SocketEnd, SocketOption};

/// A socket for datagrams.
pub struct UdpSocket(Socket);

impl UdpSocket {
    /// A socket with the first of these addresses that can be had.
    pub fn bind<A: ToSocketAddrs>(address: A) -> Result<UdpSocket> {
        each_address(address, |address| Socket::bind(address).map(UdpSocket))
    }

    /// Receives a datagram, and says from whom. What does not fit in `buf` is lost.
    pub fn recv_from(&self, buf: &mut [u8]) -> Result<(usize, SocketAddr)> {
        self.0.read_from(buf, false)
    }

    /// The same without taking it.
    pub fn peek_from(&self, buf: &mut [u8]) -> Result<(usize, SocketAddr)> {
        self.0.read_from(buf, true)
    }

    /// Sends a datagram to the first of these addresses.
    pub fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], address: A) -> Result<usize> {
        match address.to_socket_addrs()?.next() {
            Some(address) => self.0.write_to(buf, &address),
            None => Err(Error::new(ErrorKind::InvalidInput, "no addresses to send data to")),
        }
    }

    /// The address it is connected to.
    pub fn peer_addr(&self) -> Result<SocketAddr> {
        self.0.name(SocketEnd::Peer)
    }

    /// Its own address.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.0.name(SocketEnd::Local)
    }

    /// The same socket once more.
    pub fn try_clone(&self) -> Result<UdpSocket> {
        self.0.duplicate().map(UdpSocket)
    }

    /// From here on it knows the first of these addresses alone.
    pub fn connect<A: ToSocketAddrs>(&self, address: A) -> Result<()> {
        each_address(address, |address| self.0.associate(address))
    }

    /// Sends a datagram to the address it is connected to.
    pub fn send(&self, buf: &[u8]) -> Result<usize> {
        self.0.write(buf)
    }

    /// Receives a datagram.
    pub fn recv(&self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf, false)
    }

    /// The same without taking it.
    pub fn peek(&self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf, true)
    }

    /// The longest that receiving waits; then it fails as `WouldBlock`.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> Result<()> {
        set_timeout(&self.0, SocketOption::ReadTimeout, time)
    }

    /// See [`UdpSocket::set_read_timeout`].
    pub fn read_timeout(&self) -> Result<Option<Duration>> {
        timeout(&self.0, SocketOption::ReadTimeout)
    }

    /// The longest that sending waits; then it fails as `WouldBlock`.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> Result<()> {
        set_timeout(&self.0, SocketOption::WriteTimeout, time)
    }

    /// See [`UdpSocket::set_write_timeout`].
    pub fn write_timeout(&self) -> Result<Option<Duration>> {
        timeout(&self.0, SocketOption::WriteTimeout)
    }

    /// Whether datagrams may go to a broadcast address.
    pub fn set_broadcast(&self, broadcast: bool) -> Result<()> {
        self.0.set(SocketOption::Broadcast, broadcast.into())
    }

    /// See [`UdpSocket::set_broadcast`].
    pub fn broadcast(&self) -> Result<bool> {
        Ok(self.0.get(SocketOption::Broadcast)? != 0)
    }

    /// How many routers a packet passes.
    pub fn set_ttl(&self, ttl: u32) -> Result<()> {
        self.0.set(SocketOption::Ttl, ttl.into())
    }

    /// See [`UdpSocket::set_ttl`].
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

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("UdpSocket");
        if let Ok(address) = self.local_addr() {
            shown.field("addr", &address);
        }
        shown.field("fd", &self.0.number()).finish()
    }
}
