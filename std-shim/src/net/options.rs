//! The methods that sockets of several kinds share. As in std each type has them itself, so they are written once, as
//! macros, for any type that is a [`Socket`] with a name.

use crate::io::{Error, ErrorKind, Result};
use crate::sys::socket::Socket;
use crate::time::Duration;
use monohull_abi::network::SocketOption;

/// What all sockets have.
macro_rules! any_socket {
    ($type:ident) => {
        impl $type {
            /// The address of this end.
            pub fn local_addr(&self) -> $crate::io::Result<$crate::net::SocketAddr> {
                self.0.name(monohull_abi::network::SocketEnd::Local)
            }

            /// Another handle of the same socket, which closes when both are dropped.
            pub fn try_clone(&self) -> $crate::io::Result<$type> {
                self.0.duplicate().map($type)
            }

            /// How many routers a packet passes.
            pub fn set_ttl(&self, ttl: u32) -> $crate::io::Result<()> {
                self.0.set(monohull_abi::network::SocketOption::Ttl, ttl.into())
            }

            /// See `set_ttl`.
            pub fn ttl(&self) -> $crate::io::Result<u32> {
                self.0.get(monohull_abi::network::SocketOption::Ttl).map(|ttl| ttl as u32)
            }

            /// The error that has come up since the last time.
            pub fn take_error(&self) -> $crate::io::Result<Option<$crate::io::Error>> {
                $crate::net::options::take_error(&self.0)
            }

            /// Whether what would wait fails as `WouldBlock` instead.
            pub fn set_nonblocking(&self, nonblocking: bool) -> $crate::io::Result<()> {
                self.0.set(monohull_abi::network::SocketOption::NonBlocking, nonblocking.into())
            }
        }
    };
}

/// What those have that bytes go through.
macro_rules! socket_with_peer {
    ($type:ident) => {
        impl $type {
            /// The address of the other end.
            pub fn peer_addr(&self) -> $crate::io::Result<$crate::net::SocketAddr> {
                self.0.name(monohull_abi::network::SocketEnd::Peer)
            }

            /// Reads without taking.
            pub fn peek(&self, buf: &mut [u8]) -> $crate::io::Result<usize> {
                self.0.read(buf, true)
            }

            /// The longest that reading waits; then it fails as `WouldBlock`.
            pub fn set_read_timeout(&self, time: Option<$crate::time::Duration>) -> $crate::io::Result<()> {
                $crate::net::options::set_timeout(&self.0, monohull_abi::network::SocketOption::ReadTimeout, time)
            }

            /// See `set_read_timeout`.
            pub fn read_timeout(&self) -> $crate::io::Result<Option<$crate::time::Duration>> {
                $crate::net::options::timeout(&self.0, monohull_abi::network::SocketOption::ReadTimeout)
            }

            /// The longest that writing waits; then it fails as `WouldBlock`.
            pub fn set_write_timeout(&self, time: Option<$crate::time::Duration>) -> $crate::io::Result<()> {
                $crate::net::options::set_timeout(&self.0, monohull_abi::network::SocketOption::WriteTimeout, time)
            }

            /// See `set_write_timeout`.
            pub fn write_timeout(&self) -> $crate::io::Result<Option<$crate::time::Duration>> {
                $crate::net::options::timeout(&self.0, monohull_abi::network::SocketOption::WriteTimeout)
            }
        }
    };
}

/// What connections have, and listeners for those they will accept. The names are the crate net2's: std has none for it.
macro_rules! kept_alive {
    ($type:ident) => {
        impl $type {
            /// The time without data after which the peer is probed. If it does not answer, reads and writes fail. It is a second at least, and the host's sockets count whole ones. `None`, as at first:
            /// silence means nothing.
            ///
            /// What a listener is set to, its connections begin with.
            pub fn set_keepalive(&self, silence: Option<$crate::time::Duration>) -> $crate::io::Result<()> {
                $crate::net::options::set_timeout(&self.0, monohull_abi::network::SocketOption::KeepAlive, silence)
            }

            /// See `set_keepalive`.
            pub fn keepalive(&self) -> $crate::io::Result<Option<$crate::time::Duration>> {
                $crate::net::options::timeout(&self.0, monohull_abi::network::SocketOption::KeepAlive)
            }
        }
    };
}

pub(super) use {any_socket, kept_alive, socket_with_peer};

/// Sets a timeout; no time at all is refused, as std does.
pub(super) fn set_timeout(socket: &Socket, option: SocketOption, time: Option<Duration>) -> Result<()> {
    if time == Some(Duration::ZERO) {
        return Err(Error::new(ErrorKind::InvalidInput, "cannot set a 0 duration timeout"));
    }
    let ns = time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    socket.set(option, ns)
}

/// Reads a timeout.
pub(super) fn timeout(socket: &Socket, option: SocketOption) -> Result<Option<Duration>> {
    Ok(Some(socket.get(option)?).filter(|ns| *ns != 0).map(Duration::from_nanos))
}

/// The error a socket has come upon since the last time.
pub(super) fn take_error(socket: &Socket) -> Result<Option<Error>> {
    let number = socket.get(SocketOption::Error)?;
    Ok(Some(number).filter(|number| *number != 0).map(|number| Error::from_raw_os_error(number as i32)))
}
