//! Datagrams.

use super::options::{any_socket, socket_with_peer};
use super::{SocketAddr, ToSocketAddrs, each_address};
use crate::fmt;
use crate::io::{Error, ErrorKind, Result};
use crate::sys::socket::Socket;
use monohull_abi::network::SocketOption;

/// A socket for datagrams.
pub struct UdpSocket(Socket);

any_socket!(UdpSocket);
socket_with_peer!(UdpSocket);

impl UdpSocket {
    /// A socket with the first of these addresses that can be had.
    pub fn bind<A: ToSocketAddrs>(address: A) -> Result<UdpSocket> {
        each_address(address, |address| Socket::bind(address).map(UdpSocket))
    }

    /// Receives a datagram and the address of its sender. What does not fit in `buf` is lost.
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

    /// Whether datagrams may go to a broadcast address.
    pub fn set_broadcast(&self, broadcast: bool) -> Result<()> {
        self.0.set(SocketOption::Broadcast, broadcast.into())
    }

    /// See [`UdpSocket::set_broadcast`].
    pub fn broadcast(&self) -> Result<bool> {
        Ok(self.0.get(SocketOption::Broadcast)? != 0)
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
